/* SPDX-License-Identifier: GPL-2.0-only */
/* Whose packet it is, and what was decided for its connection: what the hooks of sockets begin with. */
#ifndef CONNECTION_BPF_H
#define CONNECTION_BPF_H

#include "bpf/name.bpf.h"

/* The kernel's own sockets, which answer for closed ports and TIME_WAIT, are raw: none of those. */
static always struct bpf_sock *socket_of(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;

	if (!sk)
		return NULL;
	sk = bpf_sk_fullsock(sk);
	return sk && (sk->type == SOCK_STREAM || sk->type == SOCK_DGRAM) ? sk : NULL;
}

/* Nearly all packets of nearly all connections: no rule can ever name it. */
static always bool is_of_no_concern(const struct chaos_sock *s)
{
	return s->verdict.generation == knobs.generation && s->verdict.valid_until_ns == ~0ULL && !s->listener;
}

/* The connection of a TCP socket, and a verdict that holds. */
static always void know_connection(struct __sk_buff *skb, struct bpf_sock *sk, struct chaos_sock *s, struct flow *f,
				   bool leaves)
{
	if (s->side == CHAOS_SIDE_UNKNOWN)
		s->side = CHAOS_SIDE_CLIENT;
	f->side = s->side;
	flow_of_sock(f, sk);
	if (s->listener)
		leave_listener(s, f);
	if (knobs.names && leaves && is_unsettled(known_name(s)) && s->side == CHAOS_SIDE_CLIENT)
		settle_name(skb);
	f->name = known_name(s);
	refresh_verdict(f, &s->owner, &s->verdict);
}

#endif
