/* SPDX-License-Identifier: GPL-2.0-only */
/* What tc does to packets that leave: a copy is sent as well, or the packet goes back to its sender. */
#ifndef TURN_BPF_H
#define TURN_BPF_H

#include "bpf/break.bpf.h"

/* No device has this index: a packet redirected there is freed, and its sender told that it left. */
#define NOWHERE 0x7fffffff

/* The copy of a held packet passes through here again, on the same CPU, before bpf_clone_redirect returns. */
struct held_copy {
	__u64 until_mono_ns;
	__u32 begin, size; /* the part of the payload that it is, see split_leaving.bpf.h; 0: all of it */
};
MAP(BPF_MAP_TYPE_PERCPU_ARRAY, chaos_copy, __u32, struct held_copy, 1);

/* A copy that keeps the time until which the packet is to wait, if any. */
static always bool send_copy(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct held_copy *copy = bpf_map_lookup_elem(&chaos_copy, &zero);

	if (!copy)
		return false;
	copy->until_mono_ns = skb->tstamp;
	bpf_clone_redirect(skb, skb->ifindex, 0);
	copy->until_mono_ns = 0;
	return true;
}

static always bool swap(struct __sk_buff *skb, __u32 offset, __u32 size)
{
	__u8 a[16], b[16];

	if (size > sizeof(a))
		return false;
	return !bpf_skb_load_bytes(skb, offset, a, size) && !bpf_skb_load_bytes(skb, offset + size, b, size) &&
	       !bpf_skb_store_bytes(skb, offset, b, size, 0) && !bpf_skb_store_bytes(skb, offset + size, a, size, 0);
}

/* Makes a segment a RST that carries the same sequence numbers. The payload stays: a RST may have one. */
static always bool set_reset_flags(struct __sk_buff *skb, __u32 transport)
{
	return set_flags(skb, transport, TCP_RST | TCP_ACK);
}

/* Swaps addresses and ports, which leaves every checksum as it is. */
static always bool turn_around(struct __sk_buff *skb, __u32 network, const struct packet *p)
{
	if (!swap(skb, network + p->transport, 2))
		return false;
	if (p->ipv6)
		return swap(skb, network + offsetof(struct ipv6_header, source), 16);
	return swap(skb, network + offsetof(struct ipv4_header, source), 4);
}

/*
 * Turns a segment around: the peer's RST, with the number that the sender expects next.
 */
static always bool turn_into_reset(struct __sk_buff *skb, __u32 network, const struct packet *p)
{
	__u32 transport = network + p->transport;
	__u32 seq = p->ack, ack = p->seq + p->payload + !!(p->tcp_flags & (TCP_SYN | TCP_FIN));

	if (!set_reset_flags(skb, transport) ||
	    !store_tcp(skb, transport, offsetof(struct tcp_header, seq), bpf_htonl(p->seq), bpf_htonl(seq), 4) ||
	    !store_tcp(skb, transport, offsetof(struct tcp_header, ack), bpf_htonl(p->ack), bpf_htonl(ack), 4))
		return false;
	return turn_around(skb, network, p);
}

/* Hands a packet that was turned around back to its sender. */
static always int send_back(struct __sk_buff *skb, __u32 network)
{
	/* lo brings it back by itself; redirected, it would lose its route and 127.0.0.1 be a martian. */
	if (skb->ifindex == LOOPBACK_IFINDEX)
		return TC_ACT_UNSPEC;
	if (network == ETH_HLEN && !swap(skb, 0, 6))
		return bpf_redirect(NOWHERE, 0);
	return bpf_redirect(skb->ifindex, BPF_F_INGRESS);
}

#endif
