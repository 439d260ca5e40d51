// SPDX-License-Identifier: GPL-2.0-only
/* "did you mean": the word that a slip of the finger was meant to be. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "user/rules/rules.h"

#define NEAREST_MAX_LEN 63

static size_t min3(size_t a, size_t b, size_t c)
{
	a = a < b ? a : b;
	return a < c ? a : c;
}

static bool same(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/*
 * Letters to insert, delete, replace or swap with a neighbour to turn one word into the other (Damerau-Levenshtein,
 * no letter touched twice). Upper and lower case are the same letter. Both words fit in NEAREST_MAX_LEN.
 */
static size_t distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t rows[3][NEAREST_MAX_LEN + 1];
	size_t *before = rows[0], *above = rows[1], *row = rows[2], *spare;

	for (size_t j = 0; j <= b_len; j++)
		above[j] = j;
	for (size_t i = 1; i <= a_len; i++) {
		row[0] = i;
		for (size_t j = 1; j <= b_len; j++) {
			row[j] = min3(above[j] + 1, row[j - 1] + 1, above[j - 1] + !same(a[i - 1], b[j - 1]));
			if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
				row[j] = min3(row[j], row[j], before[j - 2] + 1);
		}
		spare = before;
		before = above;
		above = row;
		row = spare;
	}
	return above[b_len];
}

/* Short words have many neighbours, so fewer slips are forgiven. */
static size_t forgiven(size_t len)
{
	if (len <= 3)
		return 1;
	return len <= 6 ? 2 : 3;
}

const char *nearest_word(const char *word, const char *const *words)
{
	size_t len = strlen(word), best = SIZE_MAX, word_len, d;
	const char *nearest = NULL;

	if (len < 2 || len > NEAREST_MAX_LEN)
		return NULL;
	for (; *words; words++) {
		word_len = strlen(*words);
		if (word_len > NEAREST_MAX_LEN)
			continue;
		d = distance(word, len, *words, word_len);
		if (d <= forgiven(len < word_len ? len : word_len) && d < best) {
			best = d;
			nearest = *words;
		}
	}
	return nearest;
}
