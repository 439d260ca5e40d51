/* SPDX-License-Identifier: GPL-2.0-only */
/* Sets of rules, as the kernel side has them: a bit for each rule in file order. */
#ifndef USER_VECTOR_H
#define USER_VECTOR_H

#include <stdbool.h>
#include <stddef.h>

#include "bpf/chaos.h"

static inline void set_bit(struct chaos_vector *v, size_t rule)
{
	v->word[rule / 64] |= 1ULL << (rule % 64);
}

static inline bool has_rule(const struct chaos_vector *v, size_t rule)
{
	return v->word[rule / 64] >> (rule % 64) & 1;
}

/* All of the first `count`? */
static inline bool has_all(const struct chaos_vector *v, size_t count)
{
	for (size_t rule = 0; rule < count; rule++) {
		if (!has_rule(v, rule))
			return false;
	}
	return true;
}

static inline void merge(struct chaos_vector *to, const struct chaos_vector *from)
{
	for (int w = 0; w < CHAOS_WORDS; w++)
		to->word[w] |= from->word[w];
}

#endif
