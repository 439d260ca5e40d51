/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Our tc programs on a device: as TCX links where the kernel has them, else as direct-action filters of clsact.
 *
 * Both are placed so that they run before what others have there, and both are found again without any record: by the
 * program's name, which begins with "chaos_", and the filters also by their handle. A clsact that we did not make is
 * never deleted, and one that we made only when nobody's filter is left on it.
 */
#ifndef USER_TCPROG_H
#define USER_TCPROG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "user/engine/device.h"
#include "user/engine/netlink.h"

/* Filter handles are c4a and 20 bits of the load's generation; c4b for those of tcprog_pick(), c4c for TCPROG_ANSWER. */
#define TCPROG_HANDLE(generation)        (0xc4a00000U | ((generation)&0xfffff))
#define TCPROG_PICK_HANDLE(generation)   (0xc4b00000U | ((generation)&0xfffff))
#define TCPROG_ANSWER_HANDLE(generation) (0xc4c00000U | ((generation)&0xfffff))

/* For tests: behave like a kernel without TCX. */
extern bool tcprog_no_tcx;

/* One program of a load can be at each. */
enum tcprog_place {
	TCPROG_EGRESS,
	TCPROG_INGRESS,
	TCPROG_ANSWER, /* ingress as well, in front of the other when it is attached after it */
	TCPROG_PLACE_COUNT,
};

/*
 * A TCX link on the device, first in line; pinned as DIR/tcx_NETNS_IFINDEX_PLACE when `pin_dir` is given. Its
 * descriptor, -EOPNOTSUPP when this kernel has no TCX, or what went wrong.
 */
int tcprog_link(const struct netns *netns, unsigned int ifindex, enum tcprog_place place, int prog_fd,
		const char *pin_dir);
void tcprog_unlink(const struct netns *netns, unsigned int ifindex, enum tcprog_place place, int link_fd,
		   const char *pin_dir);

/* What sits on a device's clsact. */
struct tcprog_clsact {
	char kind[16]; /* "clsact", "ingress" (which has no way out), or "" */
	size_t ours, others;
};
int tcprog_clsact_get(struct netlink *nl, unsigned int ifindex, struct tcprog_clsact *clsact);
int tcprog_clsact_make(struct netlink *nl, unsigned int ifindex);
int tcprog_clsact_delete(struct netlink *nl, unsigned int ifindex);

/* A filter of that generation; the device must have a clsact. */
int tcprog_filter(struct netlink *nl, unsigned int ifindex, enum tcprog_place place, int prog_fd, uint32_t generation);

/* Is it there? 0 and *there, or what went wrong. */
int tcprog_filter_there(struct netlink *nl, unsigned int ifindex, enum tcprog_place place, uint32_t generation,
			bool *there);

/*
 * A filter for packets that arrive: those that the program picks out (it returns -1, and 0 for others) are redirected to
 * device `to`. It runs behind what is attached after it.
 */
int tcprog_pick(struct netlink *nl, unsigned int ifindex, int prog_fd, uint32_t generation, unsigned int to);

/* How many programs and filters of others look at packets that arrive there. */
int tcprog_others_arriving(struct netlink *nl, const struct netns *netns, unsigned int ifindex, size_t *others);

/*
 * Deletes our filters on both sides: those of `generation` (0: any), except those of `keep` (0: none). The number
 * deleted, or what went wrong first; goes on after a failure.
 */
int tcprog_filters_delete(struct netlink *nl, unsigned int ifindex, uint32_t generation, uint32_t keep);

/* Adds the number of our TCX links on these devices of the namespace. */
int tcprog_links_count(const struct netns *netns, const struct device *devices, size_t count, size_t *links);

#endif
