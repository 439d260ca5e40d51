/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * `tokens` of what arrives: as split_leaving.bpf.h for what leaves. Copies of a packet with several events wait in the ifb as well,
 * each with all up to the end of one event: of what it repeats the receiver takes nothing.
 *
 *	chaos_tc_in    sends a copy for each event but the last (split_arriving), and then the packet itself
 *	chaos_tc_ifb   ends a copy where skb->cb says (see ifb.bpf.h)
 */
#ifndef SPLIT_ARRIVING_BPF_H
#define SPLIT_ARRIVING_BPF_H

#include "bpf/ifb.bpf.h"
#include "bpf/search.bpf.h"

/*
 * A packet that is to wait in the ifb until its last event is due, with its payload of `size` bytes at `payload`;
 * chaos_arriving_part says what of it is new.
 */
static __noinline __attribute__((unused)) int split_arriving(struct __sk_buff *skb, __u32 ifb, __u64 until_mono_ns,
							     __u32 payload, __u32 size)
{
	struct arriving_part *part;
	__u32 events, at, zero = 0;
	int next;

	part = bpf_map_lookup_elem(&chaos_arriving_part, &zero);
	if (!part || !part->news || part->news > size || part->records)
		return 0;
	at = size - part->news;
	events = chaos_count_events(skb, payload + at, part->news);
	next = chaos_find_event(skb, payload + at, part->news);
	until_mono_ns -= (__u64)events * part->token_ns;
	for (__u32 i = 1; i < SPLIT_EVENTS && i < events && next >= 0; i++) {
		at += next + EVENT_LENGTH;
		if (at >= size)
			break;
		next = chaos_find_event(skb, payload + at, size - at);
		if (next < 0)
			break;
		until_mono_ns += part->token_ns;
		mark_held(skb, until_mono_ns, at + next);
		bpf_clone_redirect(skb, ifb, 0);
	}
	return 0;
}

/* The same for records of TLS, each of which that has data stands for an event. */
static __noinline __attribute__((unused)) int split_records(struct __sk_buff *skb, __u32 ifb, __u64 until_mono_ns,
							    __u32 payload, __u32 size)
{
	struct arriving_part *part;
	__u32 records, at, zero = 0;
	__u8 head[RECORD_HEAD];
	__s64 counted;

	part = bpf_map_lookup_elem(&chaos_arriving_part, &zero);
	if (!part || !part->news || part->news > size || !part->records)
		return 0;
	at = size - part->news;
	counted = chaos_count_records(skb, payload + at, part->news);
	if (counted < 0)
		return 0;
	records = counted;
	until_mono_ns -= (__u64)records * part->token_ns;
	for (__u32 i = 0; i < SPLIT_EVENTS && records > 1; i++) {
		if (bpf_skb_load_bytes(skb, payload + at, head, sizeof(head)))
			break;
		at += RECORD_HEAD + (head[3] << 8 | head[4]);
		if (at >= size)
			break;
		if (head[0] != TLS_DATA)
			continue;
		until_mono_ns += part->token_ns;
		records--;
		mark_held(skb, until_mono_ns, at);
		bpf_clone_redirect(skb, ifb, 0);
	}
	return 0;
}

#endif
