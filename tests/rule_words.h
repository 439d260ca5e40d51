/* SPDX-License-Identifier: GPL-2.0-only */
/* What the rule language says of a rules file: the error with its place, or the sentence for its first rule. */
#ifndef TESTS_RULE_WORDS_H
#define TESTS_RULE_WORDS_H

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "user/rules/explain.h"

/* The value of match begins at 4:10, that of fault at 5:10, `more` on line 7. */
#define DOC(match, fault, more) \
	"version: 1\nrules:\n- name: a\n  match: " match "\n  fault: " fault "\n  duration: 1m\n" more

struct wrong {
	const char *source, *message;
};

static inline void expect_wrong(const char *source, const char *message)
{
	struct error err = { 0 };
	struct rules *rules;

	cr_expect_eq(rules_parse("t", source, strlen(source), NULL, &rules, &err), -EINVAL, "%s", source);
	cr_expect_null(rules);
	cr_expect_eq(err.exit, EXIT_USAGE);
	cr_expect_str_eq(err.text, message, "\n%s\n  got:      %s\n  expected: %s", source, err.text, message);
}

#define EXPECT_WRONG(cases) expect_all_wrong(cases, sizeof(cases) / sizeof((cases)[0]))

static inline void expect_all_wrong(const struct wrong *cases, size_t count)
{
	for (size_t i = 0; i < count; i++)
		expect_wrong(cases[i].source, cases[i].message);
}

static inline void expect_sentence(const char *source, const char *sentence)
{
	struct error err = { 0 };
	struct rules *rules;
	char buf[2048];

	cr_assert_eq(rules_parse("t", source, strlen(source), NULL, &rules, &err), 0, "%s: %s", source, err.text);
	cr_expect_eq(explain_rule(rules, 0, buf, sizeof(buf)), 0);
	cr_expect_str_eq(buf, sentence, "\n  got:      %s\n  expected: %s", buf, sentence);
	rules_free(rules);
}

#endif
