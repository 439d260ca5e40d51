/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * `tokens` of what leaves: events that TCP has joined in one packet leave one by one.
 *
 * A packet of a slow connection waits in the host's queue, and what the server says meanwhile TCP puts into one packet behind it: held
 * until its last event is due, it would be a long silence and then all at once. So each of its events but the last leaves in a
 * packet of its own when it is due: a copy of ours, without its socket. The packet itself follows when its last event is due,
 * and is what TCP goes by until then; of what it repeats the receiver takes nothing.
 *
 *	socket hook    stamps the packet and marks it (pace.bpf.h)
 *	tc             sends copies (split_events), each of which comes by again and keeps its own part (take_part)
 */
#ifndef SPLIT_LEAVING_BPF_H
#define SPLIT_LEAVING_BPF_H

#include "bpf/break_leaving.bpf.h"
#include "bpf/search.bpf.h"

/* So many bytes from one place to another before it. */
__noinline int chaos_move_bytes(struct __sk_buff *skb, __u32 from, __u32 to, __u32 size)
{
	struct cut_chunk *chunk;
	__u32 zero = 0;

	chunk = bpf_map_lookup_elem(&chaos_chunk, &zero);
	if (!chunk || !knobs.splits)
		return 0;
	for (__u32 i = 0; i < MAX_CHUNKS && size; i++) {
		__u64 n = (size < CHUNK ? size : CHUNK) - 1;

		asm volatile("" : "+r"(n)); /* see chaos_sum_of() */
		n = (n & (CHUNK - 1)) + 1;
		if (bpf_skb_load_bytes(skb, from, chunk->bytes, n) || bpf_skb_store_bytes(skb, to, chunk->bytes, n, 0))
			return 0;
		from += n;
		to += n;
		size -= n;
	}
	return !size;
}

/* In the copy: becomes the segment that carries `size` bytes of the payload, from its byte `begin` on. False: it is to be lost. */
static __noinline __attribute__((unused)) int take_part(struct __sk_buff *skb, __u32 begin, __u32 size)
{
	const __s32 network = network_offset(skb);
	struct packet p = {};
	__u32 payload, transport;

	if (network < 0 || !parse(skb, &p, network) || (skb->gso_size && size > skb->gso_size))
		return 0;
	payload = network + p.payload_offset;
	transport = network + p.transport;
	if (begin && (!chaos_move_bytes(skb, payload + begin, payload, size) ||
		      !store_tcp(skb, transport, offsetof(struct tcp_header, seq), bpf_htonl(p.seq),
				 bpf_htonl(p.seq + begin), 4)))
		return 0;
	return set_flags(skb, transport, p.tcp_flags & ~TCP_FIN) && trim(skb, network, &p, size);
}

static always void send_part(struct __sk_buff *skb, __u64 until_mono_ns, __u32 begin, __u32 size)
{
	__u32 zero = 0;
	struct held_copy *copy = bpf_map_lookup_elem(&chaos_copy, &zero);

	if (!copy)
		return;
	copy->until_mono_ns = until_mono_ns;
	copy->begin = begin;
	copy->size = size;
	bpf_clone_redirect(skb, skb->ifindex, 0);
	copy->until_mono_ns = 0;
	copy->size = 0;
}

/* A marked packet: skb->tstamp is when its last event is due. */
static __noinline __attribute__((unused)) int split_events(struct __sk_buff *skb)
{
	const __s32 network = network_offset(skb);
	const struct chaos_rule *r;
	struct chaos_sock *s;
	struct bpf_sock *sk;
	struct packet p = {};
	__u32 payload, events, begin = 0, at;
	int event, next;

	s = state_of_packet(skb, &sk);
	if (!s || network < 0 || !parse(skb, &p, network))
		return 0;
	r = rule_of(s->verdict.rule);
	if (!r || does(r, CHAOS_RATE)) /* whose times are those of the line */
		return 0;
	payload = network + p.payload_offset;
	events = chaos_count_events(skb, payload, p.payload);
	event = chaos_find_event(skb, payload, p.payload);
	for (__u32 i = 1; i < SPLIT_EVENTS && i < events && event >= 0; i++) {
		at = event + EVENT_LENGTH;
		if (at >= p.payload)
			break;
		next = chaos_find_event(skb, payload + at, p.payload - at);
		if (next < 0)
			break;
		event = at + next;
		send_part(skb, skb->tstamp - (__u64)(events - i) * r->token_ns, begin, event - begin);
		begin = event;
	}
	return 0;
}

#endif
