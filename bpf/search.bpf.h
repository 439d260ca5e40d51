/* SPDX-License-Identifier: GPL-2.0-only */
/* Where in a packet the events of a stream begin, for `tokens`: see split_leaving.bpf.h and split_arriving.bpf.h. */
#ifndef SEARCH_BPF_H
#define SEARCH_BPF_H

#include "bpf/pace.bpf.h"

#define SPLIT_EVENTS 128 /* of a packet with more the rest goes together */
#define EVENT_LENGTH 5   /* "data:" */

#define SEARCH_PIECE     256
#define SEARCH_PIECES    257 /* of the largest packet there is */
#define SEARCH_FOUND_BIT 15
#define SEARCH_READ      0x7fff

struct event_search {
	__u64 window; /* the last five bytes */
	__u64 found;
	__u64 read; /* up to where it was whole, or all */
};

static always void search_in(struct event_search *e, const __u8 *text)
{
#pragma clang loop unroll(full)
	for (int i = 0; i < EVENT_CHUNK; i++) {
		__u64 differs;

		e->read += 1 - e->found;
		e->window = (e->window << 8 | text[i]) & EVENT_MASK;
		differs = e->window ^ EVENT_DATA;
		asm volatile("" : "+r"(differs)); /* see count_in() */
		e->found |= (differs - 1) >> 63;
	}
}

/*
 * Up to where a piece of a payload has to be read for the next "data:" to be whole, with SEARCH_FOUND_BIT; or all of it. Above, in
 * bits 16 to 55, its last bytes, as chaos_count_piece() has them. Negative when it cannot be read.
 */
__noinline __s64 chaos_search_piece(struct __sk_buff *skb, __u32 offset, __u32 size, __u64 window)
{
	struct event_search e = { .window = window & EVENT_MASK };
	__u8 text[EVENT_CHUNK];
	__u64 rest;

	if (!knobs.splits && !knobs.splits_arriving)
		return -1;
	for (__u32 chunk = 0; chunk < SEARCH_PIECE / EVENT_CHUNK && size >= sizeof(text); chunk++) {
		if (bpf_skb_load_bytes(skb, offset, text, sizeof(text)))
			return -1;
		search_in(&e, text);
		offset += sizeof(text);
		size -= sizeof(text);
	}
	if (size && size < sizeof(text)) {
		rest = size - 1;
		asm volatile("" : "+r"(rest)); /* see chaos_count_piece() */
		rest = (rest & (sizeof(text) - 1)) + 1;
		__builtin_memset(text, 0, sizeof(text));
		if (!bpf_skb_load_bytes(skb, offset, text, rest))
			search_in(&e, text);
	}
	return e.window << 16 | e.found << SEARCH_FOUND_BIT | (e.read & SEARCH_READ);
}

/* Where the next event begins, from `offset` on; negative: nowhere in so many bytes. */
__noinline int chaos_find_event(struct __sk_buff *skb, __u32 offset, __u32 size)
{
	__u32 read = 0;
	__s64 piece = 0;

	for (__u32 i = 0; i < SEARCH_PIECES && size; i++) {
		const __u32 n = size < SEARCH_PIECE ? size : SEARCH_PIECE;

		piece = chaos_search_piece(skb, offset, n, (__u64)piece >> 16);
		if (piece < 0)
			return -1;
		read += piece & SEARCH_READ;
		if (piece >> SEARCH_FOUND_BIT & 1)
			return read - EVENT_LENGTH;
		offset += n;
		size -= n;
	}
	return -1;
}

#endif
