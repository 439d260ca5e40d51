// SPDX-License-Identifier: GPL-2.0-only
/* A host name that was read, and the patterns of the rules. */
#include "bpf/name.bpf.h"

/* The trie finds the longest prefix: names are turned around for it, in lower case. */
static always void turn_around(struct bench *b, __u32 at, __u32 length)
{
	for (__u32 i = 0; i < CHAOS_NAME_LEN - 1; i++) {
		if (i >= length)
			break;
		b->key.reversed[bounded(i, NAME_MASK)] = lower(byte_at(b, at + length - 1 - i));
	}
	b->key.reversed[bounded(length, NAME_MASK)] = 0;
	b->key.prefix_len = 8 * (length + 1);
}

int match_name(__u32 number, __u32 at, __u32 length)
{
	struct bench *b = bench_of(number);
	__u32 *name;

	if (!b || !length || length > CHAOS_NAME_LEN - 3)
		return CHAOS_NAME_OTHER;
	turn_around(b, at, length);
	name = bpf_map_lookup_elem(&chaos_names, &b->key);
	return name ? *name : CHAOS_NAME_OTHER;
}
