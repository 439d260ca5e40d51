/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which devices of which namespaces a load needs, preparing them, and telling the BPF programs.
 *
 * Only namespaces in which a process lives that a rule could hit, and there only the devices by which the named
 * addresses are reached: nobody else's queue is touched.
 */
#ifndef USER_PREPARE_H
#define USER_PREPARE_H

#include <stdint.h>

#include "user/base/error.h"
#include "user/base/process.h"
#include "user/engine/device.h"
#include "user/engine/engine.h"
#include "user/engine/tcprog.h"
#include "user/rules/rules.h"
#include "user/tables/tables.h"

struct prepared_device {
	unsigned int ifindex;
	unsigned int flags;            /* enum chaos_device_flag */
	int links[TCPROG_PLACE_COUNT]; /* TCX links, or -1 */
};

struct prepared_netns {
	struct netns netns;
	uint64_t cookie;
	unsigned int ifb; /* our ifb there, or 0 */
	int ifb_link;     /* as prepared_device.links */
	struct prepared_device *devices;
	size_t count;
};

struct prepare {
	const struct rules *rules;
	const struct tables *tables;
	struct engine *engine;
	const char *pin_dir; /* for TCX links, or NULL: they live with this process */
	uint64_t horizon_ns;
	bool has_fq; /* this kernel */

	struct prepared_netns *spaces;
	size_t count;
	size_t devices;
};

/* Does any rule need a device to be prepared? */
bool prepare_needed(const struct rules *rules);

/* The longest that any rule holds a packet. */
uint64_t rules_longest_delay(const struct rules *rules);

/*
 * Prepares every device that the rules need now; what is prepared already is left alone, so it can be called again when
 * something appeared. With `dry` nothing is touched and only what could not be done is reported.
 */
int prepare_devices(struct prepare *p, const struct process_list *processes, bool dry, struct error *err);

/* Calls fn for every device that rule `index` needs; stops at the first non-zero return. */
typedef int (*device_fn)(const struct netns *netns, const struct device *device, void *arg);
int rule_devices(const struct rules *rules, const struct tables *tables, size_t index,
		 const struct process_list *processes, device_fn fn, void *arg, struct error *err);

/* The cookie by which BPF programs know a namespace: asked of a socket made there. 0 when it cannot be told. */
uint64_t netns_cookie(const struct netns *netns, int sock_map_fd);

/* Packets that are still held in our queues. */
uint32_t prepare_backlog(const struct prepare *p);

void prepare_free(struct prepare *p);

#endif
