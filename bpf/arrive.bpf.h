/* SPDX-License-Identifier: GPL-2.0-only */
/* What tc asks of packets that arrive, before a socket has seen them: whose are they? */
#ifndef ARRIVE_BPF_H
#define ARRIVE_BPF_H

#include "bpf/packet.bpf.h"

/* A function of its own: what it needs of the stack is free again when a verdict is looked for. */
static __noinline __attribute__((unused)) struct bpf_sock *find_socket(struct __sk_buff *skb, const struct packet *p)
{
	struct bpf_sock_tuple tuple = {};
	__u32 size = p->ipv6 ? sizeof(tuple.ipv6) : sizeof(tuple.ipv4);

	if (p->ipv6) {
		__builtin_memcpy(tuple.ipv6.saddr, p->source, 16);
		__builtin_memcpy(tuple.ipv6.daddr, p->destination, 16);
		tuple.ipv6.sport = bpf_htons(p->source_port);
		tuple.ipv6.dport = bpf_htons(p->destination_port);
	} else {
		__builtin_memcpy(&tuple.ipv4.saddr, p->source + 12, 4);
		__builtin_memcpy(&tuple.ipv4.daddr, p->destination + 12, 4);
		tuple.ipv4.sport = bpf_htons(p->source_port);
		tuple.ipv4.dport = bpf_htons(p->destination_port);
	}
	if (knobs.datagrams_arriving && p->protocol == CHAOS_UDP)
		return bpf_sk_lookup_udp(skb, &tuple, size, BPF_F_CURRENT_NETNS, 0);
	return bpf_skc_lookup_tcp(skb, &tuple, size, BPF_F_CURRENT_NETNS, 0);
}

/* Does some rule name a port of this packet? Finding the socket costs far more than asking first. */
static always bool names_port(__u16 port)
{
	__u32 key = port, *set = bpf_map_lookup_elem(&chaos_ports, &key);

	return set && *set != knobs.wildcard[CHAOS_DIM_PORT];
}

#endif
