/* SPDX-License-Identifier: GPL-2.0-only */
/* Reading packets, and nothing else: no maps, no rules. */
#ifndef PARSE_BPF_H
#define PARSE_BPF_H

#include "bpf/chaos.h"
#include "bpf/kernel.h"

#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_PSH 0x08
#define TCP_ACK 0x10

static always void map_ipv4(__u8 *to, __u32 address)
{
	__u32 *word = (__u32 *)to;

	word[0] = 0;
	word[1] = 0;
	word[2] = bpf_htonl(0xffff);
	word[3] = address;
}

/*
 * The two ends, as the socket has them. The barriers keep clang from one load of either field by a computed address, which
 * the verifier refuses: of 14 and 19 each does so at another place.
 */
static always void peer_of_sock(__u8 *to, struct bpf_sock *sk)
{
	__u32 *word = (__u32 *)to;

	if (sk->family == AF_INET6) {
		word[0] = sk->dst_ip6[0];
		word[1] = sk->dst_ip6[1];
		word[2] = sk->dst_ip6[2];
		word[3] = sk->dst_ip6[3];
		asm volatile("" ::: "memory");
	} else {
		map_ipv4(to, sk->dst_ip4);
		asm volatile("" ::: "memory");
	}
}

static always void local_of_sock(__u8 *to, struct bpf_sock *sk)
{
	__u32 *word = (__u32 *)to;

	if (sk->family == AF_INET6) {
		word[0] = sk->src_ip6[0];
		word[1] = sk->src_ip6[1];
		word[2] = sk->src_ip6[2];
		word[3] = sk->src_ip6[3];
		asm volatile("" ::: "memory");
	} else {
		map_ipv4(to, sk->src_ip4);
		asm volatile("" ::: "memory");
	}
}

/* An IP packet's transport header, from skb->data of a cgroup hook or from the network header of a tc hook. */
struct packet {
	__u8 source[16];
	__u8 destination[16];
	__u32 transport;      /* offset from the network header */
	__u32 payload;        /* bytes of TCP or UDP payload */
	__u32 payload_offset; /* from the network header */
	__u32 seq, ack;
	__u16 source_port, destination_port;
	__u8 protocol; /* enum chaos_protocol */
	__u8 tcp_flags;
	__u8 ipv6;
	__u8 pad;
};

struct ipv4_header {
	__u8 version_length;
	__u8 tos;
	__be16 total_length;
	__be16 id;
	__be16 fragment;
	__u8 ttl;
	__u8 protocol;
	__be16 checksum;
	__be32 source;
	__be32 destination;
};

struct ipv6_header {
	__be32 version_flow;
	__be16 payload_length;
	__u8 next_header;
	__u8 hop_limit;
	__u8 source[16];
	__u8 destination[16];
};

struct tcp_header {
	__be16 source;
	__be16 destination;
	__be32 seq;
	__be32 ack;
	__u8 length; /* upper four bits, in words */
	__u8 flags;
	__be16 window;
	__be16 checksum;
	__be16 urgent;
};

struct udp_header {
	__be16 source;
	__be16 destination;
	__be16 length;
	__be16 checksum;
};

#define TLS_CHANGE_CIPHER 20
#define TLS_ALERT         21
#define TLS_HANDSHAKE     22
#define TLS_DATA          23

#define IP_FRAGMENT_OFFSET 0x1fff
#define IPV6_HOP_BY_HOP    0
#define IPV6_ROUTING       43
#define IPV6_FRAGMENT      44
#define IPV6_DESTINATION   60

/*
 * Payload, in the hooks of sockets, where skb->data is the network header. Not with load(): that one sees no further
 * than the linear part of a packet, and what a socket sends lies behind it.
 */
static always bool load_payload(struct __sk_buff *skb, __u32 offset, void *to, __u32 size)
{
	return bpf_skb_load_bytes(skb, offset, to, size) == 0;
}

/* Headers, from the network header, whatever hook this is. */
static always bool load(struct __sk_buff *skb, __u32 offset, void *to, __u32 size)
{
	return bpf_skb_load_bytes_relative(skb, offset, to, size, BPF_HDR_START_NET) == 0;
}

/*
 * Where the network header begins: tunnels have no Ethernet header in front. Both readings are compared, since a
 * program cannot ask.
 */
static always __s32 network_offset(struct __sk_buff *skb)
{
	__u64 here[2], there[2];

	if (!load(skb, 0, there, sizeof(there)))
		return -1;
	if (bpf_skb_load_bytes(skb, ETH_HLEN, here, sizeof(here)) == 0 && here[0] == there[0] && here[1] == there[1])
		return ETH_HLEN;
	if (bpf_skb_load_bytes(skb, 0, here, sizeof(here)) == 0 && here[0] == there[0] && here[1] == there[1])
		return 0;
	return -1;
}

static always bool parse_ipv4(struct __sk_buff *skb, struct packet *p, __u8 *protocol, __u32 *end)
{
	struct ipv4_header ip;

	if (!load(skb, 0, &ip, sizeof(ip)) || ip.version_length >> 4 != 4 || (ip.version_length & 0xf) < 5)
		return false;
	if (ip.fragment & bpf_htons(IP_FRAGMENT_OFFSET)) /* not the first: no ports in it */
		return false;
	map_ipv4(p->source, ip.source);
	map_ipv4(p->destination, ip.destination);
	p->transport = (ip.version_length & 0xf) * 4;
	*protocol = ip.protocol;
	*end = bpf_ntohs(ip.total_length);
	return true;
}

static always bool parse_ipv6(struct __sk_buff *skb, struct packet *p, __u8 *protocol, __u32 *end)
{
	struct ipv6_header ip;
	__u8 next;

	if (!load(skb, 0, &ip, sizeof(ip)) || bpf_ntohl(ip.version_flow) >> 28 != 6)
		return false;
	__builtin_memcpy(p->source, ip.source, 16);
	__builtin_memcpy(p->destination, ip.destination, 16);
	p->ipv6 = 1;
	p->transport = sizeof(ip);
	*end = ip.payload_length ? sizeof(ip) + bpf_ntohs(ip.payload_length) : 0;
	next = ip.next_header;
	for (int i = 0; i < 4; i++) {
		__u8 extension[2];

		if (next != IPV6_HOP_BY_HOP && next != IPV6_ROUTING && next != IPV6_DESTINATION)
			break;
		if (!load(skb, p->transport, extension, sizeof(extension)))
			return false;
		next = extension[0];
		p->transport += (extension[1] + 1) * 8;
	}
	*protocol = next;
	return next != IPV6_FRAGMENT;
}

/*
 * False for what is neither TCP nor UDP, or not whole. `front`: bytes before the network header that skb->len counts, 0 in
 * the hooks of sockets, mostly ETH_HLEN in those of devices.
 */
static always bool parse(struct __sk_buff *skb, struct packet *p, __u32 front)
{
	__u32 end = 0;
	__u8 protocol = 0;

	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		if (!parse_ipv4(skb, p, &protocol, &end))
			return false;
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		if (!parse_ipv6(skb, p, &protocol, &end))
			return false;
	} else {
		return false;
	}
	if (protocol == IPPROTO_TCP) {
		struct tcp_header tcp;

		if (!load(skb, p->transport, &tcp, sizeof(tcp)) || tcp.length >> 4 < 5)
			return false;
		p->protocol = CHAOS_TCP;
		p->source_port = bpf_ntohs(tcp.source);
		p->destination_port = bpf_ntohs(tcp.destination);
		p->seq = bpf_ntohl(tcp.seq);
		p->ack = bpf_ntohl(tcp.ack);
		p->tcp_flags = tcp.flags;
		p->payload_offset = p->transport + (tcp.length >> 4) * 4;
	} else if (protocol == IPPROTO_UDP) {
		struct udp_header udp;

		if (!load(skb, p->transport, &udp, sizeof(udp)))
			return false;
		p->protocol = CHAOS_UDP;
		p->source_port = bpf_ntohs(udp.source);
		p->destination_port = bpf_ntohs(udp.destination);
		p->payload_offset = p->transport + sizeof(udp);
	} else {
		return false;
	}
	if (!end || end > skb->len - front) /* BIG TCP says 0; padding of short frames lies beyond `end` */
		end = skb->len - front;
	p->payload = end > p->payload_offset ? end - p->payload_offset : 0;
	return true;
}

/* Is sequence number a beyond b? */
static always bool after(__u32 a, __u32 b)
{
	return (__s32)(a - b) > 0;
}

static always void copy16(__u8 *to, const __u8 *from)
{
	__builtin_memcpy(to, from, 16);
}

#endif
