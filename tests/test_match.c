// SPDX-License-Identifier: GPL-2.0-only
/* bpf/match.h on the host: the very code that runs in the kernel. Patterns made by user/tables/tables.c: see test_tables.c. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include "bpf/match.h"

Test(match, lowest_bit_of_every_word_with_one_bit)
{
	for (unsigned int bit = 0; bit < 64; bit++)
		cr_expect_eq(lowest_bit(1ULL << bit), bit, "bit %u gives %u", bit, lowest_bit(1ULL << bit));
}

Test(match, lowest_bit_whatever_lies_above)
{
	uint64_t noise = 0x9e3779b97f4a7c15ULL;

	for (int i = 0; i < 10000; i++) {
		unsigned int bit = i % 64;
		uint64_t word;

		noise = noise * 6364136223846793005ULL + 1442695040888963407ULL;
		word = (noise | 1) << bit;
		cr_assert_eq(lowest_bit(word), bit, "%#llx gives %u", (unsigned long long)word, lowest_bit(word));
	}
	cr_expect_eq(lowest_bit(~0ULL), 0);
}

/* ---- match_word ---- */

static struct chaos_vector all, none, some[CHAOS_DIM_COUNT + 1];

static struct matcher matcher_of_all(void)
{
	struct matcher m = { .kind = &all, .name = &none };

	memset(&all, 0xff, sizeof(all));
	for (int d = 0; d < CHAOS_DIM_COUNT; d++)
		m.by[d] = &all;
	return m;
}

Test(match, every_dimension_counts_in_every_word)
{
	for (int d = 0; d <= CHAOS_DIM_COUNT; d++) {
		struct matcher m = matcher_of_all();

		for (int w = 0; w < CHAOS_WORDS; w++)
			some[d].word[w] = 0x5555555555555555ULL << (w & 1);
		if (d < CHAOS_DIM_COUNT)
			m.by[d] = &some[d];
		else
			m.kind = &some[d];
		for (int w = 0; w < CHAOS_WORDS; w++)
			cr_expect_eq(match_word(&m, w), some[d].word[w], "dimension %d, word %d", d, w);
	}
}

Test(match, what_one_dimension_denies_is_denied)
{
	struct matcher m = matcher_of_all();

	for (int d = 0; d < CHAOS_DIM_COUNT; d++) {
		memset(&some[d], 0xff, sizeof(some[d]));
		some[d].word[3] &= ~(1ULL << d);
		m.by[d] = &some[d];
	}
	cr_expect_eq(match_word(&m, 3), ~0ULL << CHAOS_DIM_COUNT);
	cr_expect_eq(match_word(&m, 4), ~0ULL);
}

/* A rule that asks for hosts is allowed by the address or by the name; by nothing else. */
Test(match, a_name_stands_beside_the_address)
{
	struct matcher m = matcher_of_all();

	m.by[CHAOS_DIM_ADDRESS] = &some[0];
	m.by[CHAOS_DIM_PORT] = &some[1];
	m.name = &some[2];
	some[0].word[2] = 0x0f;
	some[1].word[2] = 0x3c;
	some[2].word[2] = 0xf0;
	cr_expect_eq(match_word(&m, 2), 0x3c);
	cr_expect_eq(match_word_named(&m, &none, 2), 0x0c);
}

/* ---- patterns, written by hand ---- */

static struct chaos_patterns patterns;

/* A pattern without `*` but perhaps at its end, in a lane. */
static void put(int lane, const char *text)
{
	const int word = lane / 4, shift = 16 * (lane % 4);
	int state = 0;

	patterns.start[word] |= 1ULL << shift;
	for (; *text && *text != '*'; text++)
		patterns.step[(unsigned char)*text][word] |= 1ULL << (shift + state++);
	if (*text == '*')
		patterns.star[word] |= 1ULL << (shift + state);
	patterns.accept[word] |= 1ULL << (shift + state);
}

/* The lanes of one word that match, as a set. */
static unsigned int lanes(const char *name, int word)
{
	char comm[CHAOS_COMM_LEN] = { 0 };
	unsigned int set = 0;
	uint64_t hits;

	memcpy(comm, name, strnlen(name, sizeof(comm) - 1));
	hits = pattern_word(&patterns, comm, word);
	for (int lane = 0; lane < 4; lane++)
		set |= (hits >> (16 * lane) & 0xffff ? 1u : 0u) << lane;
	return set;
}

Test(match, lanes_of_a_word_do_not_disturb_each_other)
{
	memset(&patterns, 0, sizeof(patterns));
	put(0, "abcdefghijklmno"); /* 15 characters: all 16 states of the lane */
	put(1, "ab*");
	put(2, "b*");
	put(3, "abcdefghijklmno*");
	cr_expect_eq(lanes("abcdefghijklmno", 0), 1 << 0 | 1 << 1 | 1 << 3);
	cr_expect_eq(lanes("abcdefghijklmn", 0), 1 << 1);
	cr_expect_eq(lanes("ab", 0), 1 << 1);
	cr_expect_eq(lanes("a", 0), 0);
	cr_expect_eq(lanes("b", 0), 1 << 2);
	cr_expect_eq(lanes("", 0), 0);
	cr_expect_eq(lanes("ab", 1), 0, "an empty word");
}

Test(match, every_lane_of_every_word)
{
	for (int lane = 0; lane < CHAOS_MAX_PATTERNS; lane++) {
		memset(&patterns, 0, sizeof(patterns));
		put(lane, "worker*");
		for (int word = 0; word < CHAOS_PATTERN_WORDS; word++)
			cr_expect_eq(lanes("worker-3", word), word == lane / 4 ? 1u << lane % 4 : 0, "lane %d, word %d", lane, word);
	}
}

Test(match, any_byte_can_stand_in_a_name)
{
	char name[3] = { 'x', 0, 0 };

	for (int c = 1; c < 256; c++) {
		name[1] = (char)c;
		memset(&patterns, 0, sizeof(patterns));
		put(0, "x");
		patterns.step[c][0] |= 1ULL << 1;
		patterns.accept[0] = 1ULL << 2;
		cr_expect_eq(lanes(name, 0), 1, "byte %d", c);
	}
}

/* The kernel keeps 15 characters and a NUL: what stands in the sixteenth place is not looked at. */
Test(match, the_sixteenth_byte_is_not_read)
{
	char comm[CHAOS_COMM_LEN];

	memset(comm, 'a', sizeof(comm));
	memset(&patterns, 0, sizeof(patterns));
	put(0, "aaaaaaaaaaaaaaa");
	cr_expect_neq(pattern_word(&patterns, comm, 0), 0);
}
