/* SPDX-License-Identifier: GPL-2.0-only */
/* `reset: { inside: true }`: what the hooks that decide it and the hooks that do it say to each other. */
#ifndef INSIDE_BPF_H
#define INSIDE_BPF_H

#include "bpf/core.bpf.h"

#define ECONNRESET 104

/* Connections by the cookie of their socket, which no other will ever have, to the rule. Those that were closed age. */
MAP(BPF_MAP_TYPE_LRU_HASH, chaos_inside, __u64, __u32, CHAOS_MAX_INSIDE);

static always bool is_inside(const struct chaos_rule *r)
{
	return knobs.inside && r->flags & CHAOS_RULE_INSIDE;
}

/* The rule's time is not over, and nobody has unloaded it. */
static always bool is_in_force(__u32 rule)
{
	const struct chaos_interval *interval = interval_at(now_ns());
	struct chaos_finished *finished;
	__u32 zero = 0, word = rule / 64;
	__u64 bit = 1ULL << (rule % 64);

	finished = bpf_map_lookup_elem(&chaos_finished, &zero);
	asm volatile("" : "+r"(word)); /* see finish_rule() */
	word &= CHAOS_WORDS - 1;
	return interval && finished && interval->active.word[word] & bit && !(finished->rules.word[word] & bit);
}

#endif
