/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Connections that are there and say nothing any more. Packets are lost and none is made up, so TCP itself goes on where
 * it stood once the fault has ended: each end sends again what was lost.
 *
 *	accept-silence    payload never arrives, in either direction; the handshake, acknowledgements, and closing do
 *
 * Decided once for a connection, when it first says something.
 */
#ifndef SILENCE_BPF_H
#define SILENCE_BPF_H

#include "bpf/packet.bpf.h"

/* Claims a decision that is made once for a connection: true for exactly one caller. */
static always bool claim(struct chaos_sock *s, struct chaos_verdict *v, __u16 fault_bit)
{
	bool first;

	/* chaos_flows has no locks (5.10 has none in LRU maps): there the socket's own must do. */
	bpf_spin_lock(&s->lock);
	first = !(v->decided & fault_bit);
	v->decided |= fault_bit;
	bpf_spin_unlock(&s->lock);
	return first;
}

static always void set_inject(struct chaos_sock *s, struct chaos_verdict *v, __u16 fault_bit)
{
	bpf_spin_lock(&s->lock);
	v->inject |= fault_bit;
	bpf_spin_unlock(&s->lock);
}

/* Decides a fault once for a connection: true for the packet with which it begins. */
static __noinline __attribute__((unused)) bool decide_once(struct chaos_sock *s, struct chaos_verdict *v,
							    const struct flow *f, __u32 fault)
{
	const __u16 bit = 1 << fault;
	struct chaos_stats *stats;
	struct chaos_rule *r;

	if (v->decided & bit || !claim(s, v, bit))
		return false;
	stats = stats_of(v->rule);
	r = rule_of(v->rule);
	if (!stats || !r || !decide(v->rule, r, stats, fault, unit_throw(r, v, 0), true))
		return false;
	set_inject(s, v, bit);
	tell(v->rule, f, &s->owner, v, fault, 0, 0);
	return true;
}

/*
 * A connection that was opened under the rule is silent from its first byte on, a greeting of the server included. Of an
 * older one the present reply still arrives: it is silent from the next thing on that its client says.
 *
 * FIN and RST without payload pass: whoever gives up can close. TCP hands a FIN to the other end's application only after
 * the bytes before it, a RST at once.
 */
static always bool accept_silence(const struct flow *f, const struct packet *p, struct chaos_sock *s,
				  struct chaos_verdict *v, bool leaves)
{
	if (!p->payload || p->tcp_flags & TCP_RST)
		return false;
	if (v->inject & 1 << CHAOS_ACCEPT_SILENCE)
		return true;
	if (!v->fresh && direction(s->side, leaves) != CHAOS_REQUEST)
		return false;
	return decide_once(s, v, f, CHAOS_ACCEPT_SILENCE);
}

/* Is this packet of a TCP connection lost to silence? */
static always bool silences(const struct flow *f, const struct packet *p, struct chaos_sock *s, struct chaos_verdict *v,
			    const struct chaos_rule *r, bool leaves)
{
	if (!does(r, CHAOS_ACCEPT_SILENCE))
		return false;
	if ((p->tcp_flags & (TCP_SYN | TCP_ACK)) == TCP_SYN)
		v->fresh = 1;
	return accept_silence(f, p, s, v, leaves);
}

#endif
