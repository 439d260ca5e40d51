/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Matching, free of helpers and maps: the same code runs in the kernel and in the host's tests.
 *
 * Each dimension yields a vector of the rules that it allows; a rule matches when every vector holds its bit, and the
 * lowest bit wins, since rules are tried in file order. The cost is that of CHAOS_WORDS words whatever the number of rules.
 */
#ifndef MATCH_H
#define MATCH_H

#include "bpf/chaos.h"

#ifdef __bpf__
#define MATCH_INLINE static __attribute__((always_inline)) inline
#else
#define MATCH_INLINE static inline
#endif

/* What the dimensions said; no pointer is NULL. */
struct matcher {
	const struct chaos_vector *by[CHAOS_DIM_COUNT];
	const struct chaos_vector *kind; /* protocol and side */
	const struct chaos_vector *name; /* a host's name allows these as well as its address does */
};

/* Rules of word `w` that match, whatever the time, if the host's name allowed those of `name`. */
MATCH_INLINE __u64 match_word_named(const struct matcher *m, const struct chaos_vector *name, unsigned long long w)
{
	__u64 word = m->kind->word[w];

	for (int d = 0; d < CHAOS_DIM_COUNT; d++)
		word &= m->by[d]->word[w] | (d == CHAOS_DIM_ADDRESS ? name->word[w] : 0);
	return word;
}

MATCH_INLINE __u64 match_word(const struct matcher *m, unsigned long long w)
{
	return match_word_named(m, m->name, w);
}

/* Position of the lowest bit of a word that is not 0, by a de Bruijn sequence: no branch for the verifier to follow. */
MATCH_INLINE unsigned int lowest_bit(__u64 word)
{
	static const __u8 position[64] = {
		0,  1,	2,  53, 3,  7,	54, 27, 4,  38, 41, 8,	34, 55, 48, 28, 62, 5,	39, 46, 44, 42,
		22, 9,	24, 35, 59, 56, 49, 18, 29, 11, 63, 52, 6,  26, 37, 40, 33, 47, 61, 45, 43, 21,
		23, 58, 17, 10, 51, 25, 36, 32, 60, 20, 57, 16, 50, 31, 19, 15, 30, 14, 13, 12,
	};

	__u64 lowest = word & -word;

	asm("" : "+r"(lowest)); /* clang 18 makes a count of zeros of this, for which its BPF side has no code */
	return position[(lowest * 0x022fdd63cc95386dULL) >> 58];
}

/* One character of a name for all patterns at once: the states reached from `state` in word `w`. */
MATCH_INLINE __u64 pattern_step(const struct chaos_patterns *p, __u64 state, unsigned char c, int w)
{
	const __u64 first_of_lane = 0x0001000100010001ULL;

	return (((state & p->step[c][w]) << 1) & ~first_of_lane) | (state & p->star[w]);
}

/*
 * Which patterns a process name matches: lane n of word w stands for pattern 4 * w + n, and a bit is left in it when
 * that pattern matches. A `*` is a state that stays whatever comes, so a name costs one step a character.
 */
MATCH_INLINE __u64 pattern_word(const struct chaos_patterns *p, const char *comm, int w)
{
	__u64 state = p->start[w];

	for (int i = 0; i < CHAOS_COMM_LEN - 1; i++) {
		if (!comm[i])
			break;
		state = pattern_step(p, state, comm[i], w);
	}
	return state & p->accept[w];
}

#endif
