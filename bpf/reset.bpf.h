/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * `reset` of what arrives, decided by whoever comes by first: tc (device.bpf.c), which turns the packet into a RST; or, with
 * `inside: true`, the socket's hook, which lets the packet go on its way. Then nothing is done to packets at all: the
 * connection is noted, and what its process asks of it fails in the hooks of errno.bpf.c.
 */
#ifndef RESET_BPF_H
#define RESET_BPF_H

#include "bpf/inside.bpf.h"
#include "bpf/silence.bpf.h"

/* Decided by a packet that leaves or arrives: what the process does with the connection from now on fails. */
static always void reset_inside(struct __sk_buff *skb, __u32 rule)
{
	__u64 cookie = bpf_get_socket_cookie(skb);

	bpf_map_update_elem(&chaos_inside, &cookie, &rule, BPF_ANY);
}

static always void tell_reset(struct __sk_buff *skb, const struct flow *f, const struct chaos_sock *s,
			      const struct chaos_verdict *v, const struct chaos_rule *r)
{
	if (is_inside(r))
		reset_inside(skb, v->rule);
	tell(v->rule, f, &s->owner, v, CHAOS_RESET, 0, is_inside(r) ? ECONNRESET : 0);
}

/* Is the connection reset by this packet with payload, or was it by an earlier one? */
static always bool resets_arriving(struct __sk_buff *skb, struct chaos_sock *s, const struct flow *f,
				   const struct chaos_rule *r, struct chaos_stats *stats)
{
	const __u16 bit = 1 << CHAOS_RESET;
	struct chaos_verdict *v = &s->verdict;

	if (v->inject & bit)
		return true;
	if (!touches(r, CHAOS_RESET, s->side, false))
		return false;
	/* A server that resets both directions does so when it replies, see resets_here() in socket.bpf.c. */
	if (r->directions == CHAOS_BOTH && s->side == CHAOS_SIDE_SERVER)
		return false;
	if (r->per == CHAOS_PER_REQUEST && s->answers != s->answers_seen)
		return false; /* not the first packet of this reply */
	if (r->per == CHAOS_PER_CONNECTION && !claim(s, v, bit))
		return false;
	if (!decide(v->rule, r, stats, CHAOS_RESET, unit_throw(r, v, s->packet), true))
		return false;
	set_inject(s, v, bit);
	tell_reset(skb, f, s, v, r);
	return true;
}

#endif
