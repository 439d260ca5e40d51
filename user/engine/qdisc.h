/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A device's queueing discipline: what it is, whether it could be brought back, replacing it by fq, bringing it back.
 *
 * Ours are known by their handles, so that they are found without any record: the root is c4a0:, and where the device
 * has one queue for each of several hardware queues, the root is an mq and its children are c4a1:, c4a2: and so on.
 * What was there before travels as a struct qdisc_tree. A queue that the kernel put there by itself has handle 0; it
 * comes back when ours is deleted. One that somebody configured is created again from its own dump.
 */
#ifndef USER_QDISC_H
#define USER_QDISC_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "user/engine/netlink.h"

#define QDISC_OUR_ROOT     0xc4a00000U
#define QDISC_MAX_CHILDREN 1024
#define QDISC_KIND_SIZE    16
#define QDISC_OPTIONS_SIZE 512

/* One queueing discipline as the kernel reports it. */
struct qdisc {
	unsigned int ifindex;
	uint32_t handle, parent;
	char kind[QDISC_KIND_SIZE];
	uint32_t packets;     /* waiting */
	bool incomplete;      /* it has something that a dump does not carry or that does not fit here */
	uint32_t options_len; /* TCA_OPTIONS, as dumped */
	_Alignas(4) unsigned char options[QDISC_OPTIONS_SIZE];
};

/* All of one namespace, one snapshot. Free with qdisc_list_free(). */
struct qdisc_list {
	struct qdisc *entries;
	size_t count;
};

/* What a device had: its root, and the children where the root is mq. Free with qdisc_tree_free(). */
struct qdisc_tree {
	struct qdisc root;      /* kind "" when the kernel shows none, as for a device that never was up */
	struct qdisc *children; /* minor number of `parent` says which queue */
	size_t children_count;
	unsigned int tx_queue_len; /* of the device: attaching a queue may change it, see qdisc_restore_length() */
};

int qdisc_list_get(struct netlink *nl, struct qdisc_list *list);
void qdisc_list_free(struct qdisc_list *list);
/* The root queue of the device; NULL when the kernel shows none. */
const struct qdisc *qdisc_root(const struct qdisc_list *list, unsigned int ifindex);

bool qdisc_is_ours(const struct qdisc *qdisc);

/* Copies what the device has at present. */
int qdisc_tree_get(const struct qdisc_list *list, unsigned int ifindex, unsigned int tx_queue_len,
		   struct qdisc_tree *tree);
void qdisc_tree_free(struct qdisc_tree *tree);

/*
 * Could this be replaced and brought back exactly? 0, or -EOPNOTSUPP with the reason in `why`. `others` is the list
 * that the tree was taken from.
 */
int qdisc_can_replace(struct netlink *nl, const struct qdisc_list *others, const struct qdisc_tree *tree, char *why,
		      size_t why_size);

/* Puts our fq in place of the root; `before` is what is there now. Half done on failure: then qdisc_restore() it. */
int qdisc_replace(struct netlink *nl, unsigned int ifindex, const struct qdisc_tree *before, uint32_t horizon_us);

/* Where ours is there already: raises its horizon to at least this, and puts fq where an mq of ours lacks it. */
int qdisc_renew(struct netlink *nl, const struct qdisc_list *list, unsigned int ifindex, uint32_t horizon_us);

/*
 * Takes ours off the device and brings `before` back; NULL when it is not known: then the kernel's default comes.
 * -EILSEQ when it is back but not the same in every parameter.
 */
int qdisc_restore(struct netlink *nl, unsigned int ifindex, const struct qdisc_tree *before);

/* A device without a queue of its own and of length 0 gets 1000 when one is attached; this makes it 0 again. */
int qdisc_restore_length(struct netlink *nl, unsigned int ifindex, const struct qdisc_tree *before);

/* Can this kernel make an fq? Tried in a network namespace that lives for just that. -ENOENT: it has none. */
int qdisc_probe_fq(void);

#endif
