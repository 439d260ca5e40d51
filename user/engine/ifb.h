/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Our ifb in a network namespace: a device that hands what it sends back to where it came from, so that packets that
 * arrive can wait in its queue. One for each namespace in which a rule slows what arrives.
 *
 * It is known by its name, kind and group, all three given as it is made: it is found again without any record, and a
 * device of somebody else is never taken for it.
 */
#ifndef USER_IFB_H
#define USER_IFB_H

#include <stdbool.h>

#include "user/engine/netlink.h"

#define IFB_NAME  "chaos_ifb"
#define IFB_GROUP 0xc4a0

/* Makes it, down and without an address of its own; its index. -EEXIST: another device has its name. */
int ifb_make(struct netlink *nl, unsigned int *ifindex);
int ifb_up(struct netlink *nl, unsigned int ifindex);
/* Packets that wait there are lost; TCP sends them again. */
int ifb_delete(struct netlink *nl, unsigned int ifindex);

/*
 * Can packets that arrive be sent through an ifb here? Tried with one packet in a network namespace that lives for just
 * that. *redirect: bpf_redirect() gets them there; else it takes an action of tc (mirred). -ENOENT: there is no ifb,
 * -EOPNOTSUPP: packets do not come back from it.
 */
int ifb_probe(bool *redirect);

#endif
