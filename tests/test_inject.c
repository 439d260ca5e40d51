// SPDX-License-Identifier: GPL-2.0-only
/* user/rules/inject.c: words of a command line to a rule, and nothing that is in a word may become more than a value. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "user/rules/inject.h"

/* The words as on a command line: "--option" takes the next one, anything else is a fault. */
static void add_words(struct inject *inject, const char *const *words)
{
	for (; *words; words++) {
		if (strncmp(*words, "--", 2) != 0) {
			inject_add(inject, NULL, *words);
		} else if (strcmp(*words, "--everything") == 0 || strcmp(*words, "--include-ssh") == 0) {
			inject_add(inject, *words + 2, NULL);
		} else {
			inject_add(inject, words[0] + 2, words[1]);
			words++;
		}
	}
}

static int parse_words(const char *const *words, struct rules **rules, struct error *err)
{
	struct inject inject = { 0 };
	int rc;

	add_words(&inject, words);
	rc = inject_yaml(&inject, err);
	if (rc >= 0)
		rc = inject_parse(&inject, rules, err);
	inject_free(&inject);
	return rc;
}

#define PARSE(rules, err, ...) parse_words((const char *const[]){ __VA_ARGS__, NULL }, rules, err)

Test(inject, whole_rule)
{
	struct rules *rules;
	struct error err;
	char address[INET6_ADDRSTRLEN];
	const struct rule *rule;

	cr_assert_eq(PARSE(&rules, &err, "delay=5s", "jitter=500ms", "--to", "127.0.0.1:6333,9000-9010", "--pid", "42",
			   "--for", "2m", "--percent", "30", "--max-hits", "7", "--name", "n"),
		     0, "%s", err.text);
	rule = &rules->rules[0];
	cr_expect_eq(rules->count, 1);
	cr_expect_str_eq(rule->name, "n");
	cr_expect_eq(rule->fault.faults, 1 << CHAOS_DELAY);
	cr_expect_eq(rule->fault.delay_ns, 5000000000ULL);
	cr_expect_eq(rule->fault.jitter_ns, 500000000ULL);
	cr_assert_eq(rule->match.endpoint.hosts_count, 1);
	inet_ntop(AF_INET6, &rule->match.endpoint.hosts[0].address, address, sizeof(address));
	cr_expect_str_eq(address, "::ffff:127.0.0.1");
	cr_assert_eq(rule->match.endpoint.ports_count, 2);
	cr_expect_eq(rule->match.endpoint.ports[1].last, 9010);
	cr_expect_eq(rule->match.pid, 42);
	cr_expect_eq(rule->duration_ns, 120000000000ULL);
	cr_expect_eq(rule->percent_ppm, 300000);
	cr_expect_eq(rule->max_hits, 7);
	rules_free(rules);
}

Test(inject, ipv6_with_and_without_port)
{
	static const char *const hosts[] = { "::1", "[::1]", "[::1]:6333" };

	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
		struct rules *rules;
		struct error err;
		char address[INET6_ADDRSTRLEN];

		cr_assert_eq(PARSE(&rules, &err, "reset", "--to", hosts[i], "--for", "1m"), 0, "%s", err.text);
		inet_ntop(AF_INET6, &rules->rules[0].match.endpoint.hosts[0].address, address, sizeof(address));
		cr_expect_str_eq(address, "::1");
		cr_expect_eq(rules->rules[0].match.endpoint.ports_count, (i == 2 ? 1u : 0u));
		rules_free(rules);
	}
}

Test(inject, every_fault_word)
{
	static const struct {
		const char *word;
		unsigned int faults;
	} cases[] = {
		{ "drop", 1 << CHAOS_DROP },
		{ "drop=true", 1 << CHAOS_DROP },
		{ "drop=5%", 1 << CHAOS_DROP },
		{ "delay=1s", 1 << CHAOS_DELAY },
		{ "reset", 1 << CHAOS_RESET },
		{ "reset=true", 1 << CHAOS_RESET },
		{ "refuse=denied", 1 << CHAOS_REFUSE },
		{ "accept-silence", 1 << CHAOS_ACCEPT_SILENCE },
		{ "tls-stall", 1 << CHAOS_TLS_STALL },
		{ "half-open=2m", 1 << CHAOS_HALF_OPEN },
		{ "break-after=4KiB", 1 << CHAOS_BREAK_AFTER },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rules *rules;
		struct error err;

		cr_assert_eq(PARSE(&rules, &err, cases[i].word, "--port", "80", "--for", "1m"), 0, "%s: %s",
			     cases[i].word, err.text);
		cr_expect_eq(rules->rules[0].fault.faults, cases[i].faults, "%s", cases[i].word);
		rules_free(rules);
	}
}

/* Reserved words and numbers of YAML are texts where a text is meant. */
Test(inject, texts_stay_texts)
{
	static const char *const texts[] = {
		"true", "null", "~",    "yes",  "0x10", "1e3",         "12:30",
		"-",    "-a",   "a: b", "a #b", "#a",   "[a]",         "{a",
		"*a",   "&a",   "!a",   "|",    ">",    "%a",          "@a",
		"`a",   "'a",   "\"a",  "a\\b", "a,b",  "caf\xc3\xa9", "\xf0\x9f\x94\xa5"
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct rules *rules;
		struct error err;

		cr_assert_eq(PARSE(&rules, &err, "reset", "--process", texts[i], "--for", "1m"), 0, "'%s': %s",
			     texts[i], err.text);
		cr_expect_str_eq(rules->rules[0].match.process.text, texts[i]);
		rules_free(rules);
	}
}

/*
 * Whatever bytes a word is made of, the rule differs from the plain one in that one value, or there is an error: never
 * another rule, another key, another fault.
 */
static void check_round_trip(const char *value)
{
	struct rules *rules;
	struct error err;

	if (PARSE(&rules, &err, "drop=5%", "--process", value, "--user", value, "--for", "1m") < 0) {
		cr_assert_eq(err.exit, EXIT_USAGE, "'%s': %s", value, err.text);
		return;
	}
	cr_assert_eq(rules->count, 1, "'%s'", value);
	cr_assert_str_eq(rules->rules[0].match.process.text, value);
	cr_assert_str_eq(rules->rules[0].match.user.text, value);
	cr_assert_eq(rules->rules[0].fault.faults, 1u << CHAOS_DROP, "'%s'", value);
	cr_assert_eq(rules->rules[0].fault.drop_ppm, 50000, "'%s'", value);
	cr_assert_eq(rules->rules[0].match.pid, 0, "'%s'", value);
	cr_assert_not(rules->rules[0].match.everything, "'%s'", value);
	cr_assert_eq(rules->rules[0].duration_ns, 60000000000ULL, "'%s'", value);
	rules_free(rules);
}

Test(inject, no_value_becomes_syntax)
{
	static const char *const pieces[] = { "\n",
					      "\"",
					      "\\",
					      "'",
					      ": ",
					      "#",
					      " #",
					      "]",
					      "[",
					      "{",
					      "}",
					      ", ",
					      "- ",
					      "|",
					      ">",
					      "&a",
					      "*a",
					      "!!str ",
					      "%",
					      "everything: true",
					      "\n      pid: 1",
					      "a",
					      "\t",
					      "\r",
					      "\xc2\x85",
					      "\xe2\x80\xa8",
					      "\xef\xbb\xbf",
					      "\xff",
					      "...",
					      "\n---\n",
					      "?",
					      "0",
					      "true",
					      "\xf0\x9f\x94\xa5",
					      "\001",
					      "\\x22",
					      "\\n" };
	size_t count = sizeof(pieces) / sizeof(pieces[0]);
	unsigned int seed = 42;

	for (int round = 0; round < 3000; round++) {
		char value[64] = "";

		for (int n = rand_r(&seed) % 4; n >= 0; n--)
			strcat(value, pieces[(rand_r(&seed) >> 4) % count]);
		check_round_trip(value);
	}
}

Test(inject, no_bytes_become_syntax)
{
	unsigned int seed = 7;

	for (int round = 0; round < 3000; round++) {
		char value[9] = "";

		for (int i = rand_r(&seed) % 8; i >= 0; i--)
			value[i] = (char)(1 + (rand_r(&seed) >> 8) % 255);
		check_round_trip(value);
	}
}

/* The same for values that go into lists and into numbers. */
Test(inject, no_list_item_becomes_syntax)
{
	static const char *const pieces[] = { "127.0.0.1", ",",  "]", "[", ":",   "80", "\n",
					      " ",         "\"", "{", "#", "::1", "/8", "-" };
	size_t count = sizeof(pieces) / sizeof(pieces[0]);
	unsigned int seed = 3;

	for (int round = 0; round < 3000; round++) {
		struct rules *rules;
		struct error err;
		char value[64] = "";

		for (int n = rand_r(&seed) % 4; n >= 0; n--)
			strcat(value, pieces[(rand_r(&seed) >> 4) % count]);
		if (PARSE(&rules, &err, "reset", "--to", value, "--pid", "5", "--for", "1m") < 0) {
			cr_assert_eq(err.exit, EXIT_USAGE, "'%s': %s", value, err.text);
			continue;
		}
		cr_assert_eq(rules->count, 1);
		cr_assert_eq(rules->rules[0].match.pid, 5, "'%s'", value);
		cr_assert_eq(rules->rules[0].match.endpoint.hosts_count, 1, "'%s'", value);
		cr_assert_eq(rules->rules[0].fault.faults, 1u << CHAOS_RESET, "'%s'", value);
		rules_free(rules);
	}
}

Test(inject, errors_name_the_word)
{
	static const struct {
		const char *words[8], *text;
	} cases[] = {
		{ { "delay=soon", "--port", "80", "--for", "1m" }, "delay: " },
		{ { "reset", "--port", "0", "--for", "1m" }, "--port: " },
		{ { "reset", "--to", "10.0.0.300", "--for", "1m" }, "--to: " },
		{ { "reset", "--port", "80", "--for", "soon" }, "--for: " },
		{ { "reset", "--port", "80", "--for", "1m", "--name", "-" }, "--name: " },
		{ { "reset", "--port", "80", "--for", "1m", "--seed", "x" }, "--seed: " },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rules *rules;
		struct error err;

		cr_assert_lt(parse_words(cases[i].words, &rules, &err), 0);
		cr_expect_eq(err.exit, EXIT_USAGE);
		cr_expect_eq(strncmp(err.text, cases[i].text, strlen(cases[i].text)), 0, "%s", err.text);
		cr_expect_null(strstr(err.text, INJECT_FILE), "%s", err.text);
	}
}
