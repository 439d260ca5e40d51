/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What can happen to single packets beside being lost or late: duplicate, corrupt, reorder. Each has a chance of its own for
 * every packet, like `drop: 5%`, and `percent` beside it.
 *
 * Decided here for what leaves, in the socket's hook; done by tc on the device (device.bpf.c), which the packet's mark tells.
 * What arrives is decided and damaged by tc itself.
 */
#ifndef DAMAGE_BPF_H
#define DAMAGE_BPF_H

#include "bpf/packet.bpf.h"

/* What sets the throws of a rule's faults apart: added to its seed. */
enum salt {
	SALT_LOSS = 1,
	SALT_DELAY,
	SALT_DUPLICATE,
	SALT_CORRUPT,
	SALT_REORDER,
};

/* One packet and one fault with a chance of `ppm` for each packet. */
struct damage {
	__u32 fault; /* enum chaos_fault */
	__u32 ppm;
	__u32 salt;
	__u32 packet;   /* number of the packet in its connection, or socket */
	__u64 delay_ns; /* for the event */
};

static always bool damages(const struct damage *d, const struct flow *f, const struct chaos_sock *s,
			   const struct chaos_verdict *v, const struct chaos_rule *r, struct chaos_stats *stats,
			   bool possible)
{
	if (!chance(throw(r->seed + d->salt, v->connection, d->packet), d->ppm)) {
		spare(stats);
		return false;
	}
	if (!decide(v->rule, r, stats, d->fault, unit_throw(r, v, d->packet), possible))
		return false;
	count(&stats->packets);
	tell(v->rule, f, &s->owner, v, d->fault, d->delay_ns, 0);
	return true;
}

static always bool touches(const struct chaos_rule *r, __u32 fault, __u8 side, bool leaves)
{
	return does(r, fault) && r->directions & direction(side, leaves);
}

#endif
