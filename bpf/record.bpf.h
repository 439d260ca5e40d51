/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Events inside TLS, as far as they show: a server that streams writes a record for each, so records of data stand for
 * them. The handshake is none, and neither is what goes on of a record that began before.
 */
#ifndef RECORD_BPF_H
#define RECORD_BPF_H

#include "bpf/packet.bpf.h"

/* Of the packet that is looked at: bytes at its end that bring events, and how far these are apart. See split_arriving.bpf.h. */
struct arriving_part {
	__u64 token_ns;
	__u32 news;    /* 0: it is not to be taken apart */
	__u32 records; /* 1: they begin with a record of TLS */
};
MAP(BPF_MAP_TYPE_PERCPU_ARRAY, chaos_arriving_part, __u32, struct arriving_part, 1);

/* These are functions of their own: the stack of their caller is full. */
static __noinline __attribute__((unused)) int say_records(__u32 size)
{
	__u32 zero = 0;
	struct arriving_part *part = bpf_map_lookup_elem(&chaos_arriving_part, &zero);

	if (part) {
		part->news = size;
		part->records = 1;
	}
	return 0;
}

/* `news` 0: it was said by say_records(). */
static __noinline __attribute__((unused)) int say_part(bool several, __u32 news, __u64 token_ns)
{
	__u32 zero = 0;
	struct arriving_part *part = bpf_map_lookup_elem(&chaos_arriving_part, &zero);

	if (!part)
		return 0;
	part->token_ns = token_ns;
	if (news)
		part->records = 0;
	if (news || !several)
		part->news = several ? news : 0;
	return 0;
}

#define RECORD_HEAD   5
#define RECORD_LENGTH (16384 + 256) /* of what follows the head, at most */
#define MAX_RECORDS   256

/*
 * Records of data that begin in a payload, which begins with the head of one. In the upper half where the next head is,
 * counted in bytes from the payload's end on, and one more; 0 when that cannot be told. Negative: these are no records. A
 * function of its own for the verifier, as chaos_count_events().
 */
__noinline __attribute__((weak)) __s64 chaos_count_records(struct __sk_buff *skb, __u32 offset, __u32 size)
{
	__u64 records = 0;

	if (!knobs.paces_arriving || !(knobs.faults & 1 << CHAOS_TOKENS))
		return -1;
	for (__u32 i = 0; i < MAX_RECORDS && size >= RECORD_HEAD; i++) {
		__u8 head[RECORD_HEAD];
		__u32 length;

		if (bpf_skb_load_bytes(skb, offset, head, sizeof(head)))
			return -1;
		length = head[3] << 8 | head[4];
		if (head[0] < TLS_CHANGE_CIPHER || head[0] > TLS_DATA || head[1] != 3 || length > RECORD_LENGTH)
			return -1;
		length += RECORD_HEAD;
		records += head[0] == TLS_DATA;
		if (length >= size)
			return records | (length - size + 1ULL) << 32;
		offset += length;
		size -= length;
	}
	return records;
}

/*
 * Events among the last `news` bytes of a payload. Where records begin is followed from packet to packet; where that was
 * lost (a gap, a head that a packet's end cut apart) it is found again with the first packet that begins with one, and
 * until then each packet counts as one.
 */
static always __u32 events_inside_tls(struct __sk_buff *skb, __u32 network, const struct packet *p,
				      struct chaos_sock *s, __u32 news)
{
	const __u32 end = p->seq + p->payload;
	__u32 skip = 0;
	__s64 counted;

	if (s->arrive_synced && !after(end - news, s->arrive_record))
		skip = s->arrive_record - (end - news);
	if (skip >= news)
		return 0;
	counted = chaos_count_records(skb, network + p->payload_offset + p->payload - news + skip, news - skip);
	if (knobs.splits_arriving)
		say_records(news - skip);
	s->arrive_synced = counted >> 32 > 0;
	if (counted < 0)
		return 1;
	s->arrive_record = end + (counted >> 32) - 1;
	return counted;
}

#endif
