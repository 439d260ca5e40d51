// SPDX-License-Identifier: GPL-2.0-only
/* Strong and weak, and what was known of them. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "user/experiment/strength.h"

static struct trial trial(enum robust_change change)
{
	return (struct trial){ .done = true, .injected = 5, .verdict = { .change = change } };
}

static struct tested tested(const char *name, enum robust_change down)
{
	struct tested one = { .port = 6333 };

	strcpy(one.name, name);
	one.trials[BREAK_DOWN] = trial(down);
	return one;
}

static const char *words(const struct tested *one, enum breakage how)
{
	return tested_record(one, NULL).trials[how].change;
}

Test(strength, strong_or_weak)
{
	struct tested one = tested("x", ROBUST_SAME);

	cr_assert_eq(tested_strength(&one), STRENGTH_WEAK);
	one.trials[BREAK_SLOW] = trial(ROBUST_SLOW);
	cr_assert_eq(tested_strength(&one), STRENGTH_STRONG);
	one.trials[BREAK_SLOW].injected = 0;
	cr_assert_eq(tested_strength(&one), STRENGTH_WEAK);
	cr_assert_str_eq(words(&one, BREAK_SLOW), "not called");
	one.trials[BREAK_DOWN] = trial(ROBUST_FAILS);
	cr_assert_eq(tested_strength(&one), STRENGTH_STRONG);
	one.trials[BREAK_DOWN] = trial(ROBUST_NOISE);
	cr_assert_eq(tested_strength(&one), STRENGTH_WEAK);
	one.trials[BREAK_DOWN] = trial(ROBUST_TOO_FEW);
	cr_assert_eq(tested_strength(&one), STRENGTH_UNKNOWN);
	one.trials[BREAK_DOWN].done = false;
	cr_assert_eq(tested_strength(&one), STRENGTH_UNKNOWN);
	cr_assert_str_eq(words(&one, BREAK_DOWN), "-");
}

/* What is written is read again, and only what is worse is told. */
Test(strength, known)
{
	struct tested before[] = { tested("strong", ROBUST_FAILS), tested("weak", ROBUST_SAME),
				   tested("seldom", ROBUST_TOO_FEW) };
	struct tested_list list = { before, 3 };
	char file[] = "/tmp/strength.XXXXXX";
	struct known *known;
	struct error err;
	struct tested now;

	close(mkstemp(file));
	cr_assert_eq(strength_write(file, &list, &err), 0);
	cr_assert_eq(known_read(file, &known, &err), 0, "%s", err.text);
	for (size_t i = 0; i < 3; i++)
		cr_assert_null(known_worse(known, &before[i]));
	now = tested("weak", ROBUST_SLOW);
	cr_assert_str_eq(known_worse(known, &now), "was weak");
	now = tested("seldom", ROBUST_SLOW);
	cr_assert_str_eq(known_worse(known, &now), "was unknown");
	now = tested("other", ROBUST_FAILS);
	cr_assert_str_eq(known_worse(known, &now), "is new");
	now.port = 1;
	strcpy(now.name, "strong");
	cr_assert_str_eq(known_worse(known, &now), "is new");
	now = tested("other", ROBUST_SAME);
	cr_assert_null(known_worse(known, &now));
	now = tested("strong", ROBUST_SAME); /* better is fine */
	cr_assert_null(known_worse(known, &now));
	known_free(known);
	unlink(file);
}

Test(strength, wrong_files)
{
	static const char *const texts[] = {
		"",
		"[]",
		"{}",
		"{\"version\": 2, \"dependencies\": []}",
		"{\"version\": 1, \"dependencies\": {}}",
		"{\"version\": 1, \"dependencies\": [1]}",
		"{\"version\": 1, \"dependencies\": [{\"name\": \"x\", \"port\": \"1\", \"strength\": \"weak\"}]}",
		"{\"version\": 1, \"dependencies\": [{\"name\": \"x\", \"port\": 1, \"strength\": \"week\"}]}",
	};
	char file[] = "/tmp/strength.XXXXXX";
	struct known *known;
	struct error err;

	close(mkstemp(file));
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		FILE *out = fopen(file, "w");

		fputs(texts[i], out);
		fclose(out);
		cr_assert_eq(known_read(file, &known, &err), -22, "%s", texts[i]);
		cr_assert_eq(err.exit, EXIT_USAGE);
		cr_assert_null(known);
	}
	unlink(file);
	cr_assert_lt(known_read(file, &known, &err), 0);
	cr_assert_lt(strength_write("/nowhere/file", &(struct tested_list){ 0 }, &err), 0);
}
