// SPDX-License-Identifier: GPL-2.0-only
/* Rules for faults inside a process: what is right and what it means, what is wrong and the whole message. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "user/rules/explain.h"
#include "user/rules/rules.h"
#include "user/tables/tables.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

/* The value of match begins at 4:10, that of fault at 5:10, `more` on line 7. */
#define DOC(match, fault, more) \
	"version: 1\nrules:\n- name: a\n  match: " match "\n  fault: " fault "\n  duration: 1m\n" more
#define FAULT(fault) DOC("{ process: p }", fault, "")

static struct rules *parse(const char *source)
{
	struct error err = { 0 };
	struct rules *rules;

	cr_assert_eq(rules_parse("t", source, strlen(source), NULL, &rules, &err), 0, "%s: %s", source, err.text);
	return rules;
}

Test(call_rules, gpu_oom)
{
	struct rules *rules = parse(FAULT("{ gpu-oom: { min-size: 64MiB, above: 20GiB, failures: 1 } }"));
	const struct fault *fault = &rules->rules[0].fault;

	cr_expect_eq(fault->faults, 1U << CHAOS_GPU_OOM);
	cr_expect_eq(fault->oom_min_bytes, 64ULL << 20);
	cr_expect_eq(fault->oom_above_bytes, 20ULL << 30);
	cr_expect_eq(fault->oom_failures, 1);
	cr_expect_eq(rules->rules[0].per, CHAOS_PER_CALL);
	rules_free(rules);

	rules = parse(FAULT("{ gpu-oom: true }"));
	cr_expect_eq(rules->rules[0].fault.oom_failures, 3, "PyTorch asks up to three times");
	cr_expect_eq(rules->rules[0].fault.oom_min_bytes, 0);
	rules_free(rules);
}

Test(call_rules, call)
{
	static const struct {
		const char *written;
		int64_t value;
	} results[] = {
		{ "28", 28 }, { "-1", -1 }, { "0x10", 16 }, { "null", 0 }, { "18446744073709551615", -1 },
	};

	for (size_t i = 0; i < COUNT(results); i++) {
		char source[256];
		struct rules *rules;

		snprintf(source, sizeof(source), FAULT("{ call: { library: libz.so.1, function: crc32, returns: %s } }"),
			 results[i].written);
		rules = parse(source);
		cr_expect_eq(rules->rules[0].fault.call_returns, results[i].value, "%s", results[i].written);
		cr_expect_str_eq(rules->rules[0].fault.call_library.text, "libz.so.1");
		cr_expect_str_eq(rules->rules[0].fault.call_function.text, "crc32");
		rules_free(rules);
	}
}

Test(call_rules, call_that_sets_errno_and_takes_time)
{
	struct rules *rules = parse(FAULT("{ call: { library: l, function: f, returns: -1, errno: ENOSPC, delay: 2s } }"));
	const struct fault *fault = &rules->rules[0].fault;

	cr_expect_eq(fault->error, ENOSPC);
	cr_expect_eq(fault->call_delay_ns, 2000000000);
	cr_expect(!fault->call_runs);
	cr_expect(rule_needs_assist(&rules->rules[0]));
	rules_free(rules);

	rules = parse(FAULT("{ call: { library: l, function: f, delay: 1ms } }"));
	cr_expect(rules->rules[0].fault.call_runs);
	cr_expect_eq(rules->rules[0].fault.error, 0);
	cr_expect(rule_needs_assist(&rules->rules[0]));
	rules_free(rules);

	rules = parse(FAULT("{ call: { library: l, function: f, returns: 0 } }"));
	cr_expect(!rules->rules[0].fault.call_runs);
	cr_expect(!rule_needs_assist(&rules->rules[0]));
	rules_free(rules);
}

/* The defaults of a file are for connections as well: `per: request` there is no mistake here. */
Test(call_rules, per_of_the_defaults)
{
	struct rules *rules = parse("version: 1\ndefaults: { per: request, duration: 1m }\nrules:\n"
				    "- { name: a, match: { pid: 42 }, fault: { gpu-oom: true } }\n"
				    "- { name: b, match: { ports: 1 }, fault: { delay: 1s } }\n");

	cr_expect_eq(rules->rules[0].per, CHAOS_PER_CALL);
	cr_expect_eq(rules->rules[1].per, CHAOS_PER_REQUEST);
	rules_free(rules);
}

Test(call_rules, wrong)
{
	static const struct {
		const char *source, *message;
	} cases[] = {
		{ FAULT("{ gpu-oom: 5 }"), "t:5:21: invalid gpu-oom '5', expected true, or a map such as { min-size: 64MiB }" },
		{ FAULT("{ gpu-oom: { min-size: lots } }"),
		  "t:5:33: invalid min-size 'lots', expected a size such as 64MiB or 20GiB" },
		{ FAULT("{ gpu-oom: { above: 0 } }"), "t:5:30: above '0' leaves no memory at all, leave 'above' out" },
		{ FAULT("{ gpu-oom: { minsize: 1 } }"), "t:5:23: unknown key 'minsize', did you mean 'min-size'?" },
		{ FAULT("{ gpu-oom: { failures: 0 } }"), "t:5:33: invalid failures '0', expected a whole number from 1 to 1000" },
		{ FAULT("{ gpu-oom: true, drop: true }"),
		  "t:5:12: 'gpu-oom' goes with no other fault: give each a rule of its own" },
		{ FAULT("{ gpu-oom: true, errno: { operation: open, error: EIO } }"),
		  "t:5:12: 'gpu-oom' goes with no other fault: give each a rule of its own" },
		{ DOC("{ process: p, ports: 80 }", "{ gpu-oom: true }", ""),
		  "t:4:24: 'ports' is about connections, and 'gpu-oom' has callers: name processes by cgroup, container, "
		  "pod, unit, pid, process or user" },
		{ DOC("{ process: p }", "{ gpu-oom: true }", "  per: request\n"),
		  "t:7:8: 'per: request' makes no sense with 'gpu-oom', decided for each call" },
		{ DOC("{ process: p }", "{ gpu-oom: true }", "  max-rate: 5000/s\n"),
		  "t:7:13: max-rate '5000/s' is out of range with 'gpu-oom', expected at most 1000" },
		{ DOC("{ ports: 1 }", "{ drop: true }", "  per: call\n"),
		  "t:7:8: 'per: call' is for 'gpu-oom', 'call' and 'errno'; use connection, packet or request" },
		{ FAULT("{ call: { library: l, returns: 1 } }"),
		  "t:5:18: 'call' needs 'function', as in { library: libcurl.so.4, function: curl_easy_perform, "
		  "returns: 28 }" },
		{ FAULT("{ call: { library: l, function: f } }"),
		  "t:5:18: 'call' needs 'returns' or 'delay', as in { library: libcurl.so.4, function: curl_easy_perform, "
		  "returns: 28 }" },
		{ FAULT("{ call: { library: l, function: f, delay: 1s, errno: EIO } }"),
		  "t:5:56: 'errno' needs 'returns' beside it: what the function returns when it fails, such as -1 or null" },
		{ FAULT("{ call: { library: l, function: f, returns: -1, errno: EOI } }"),
		  "t:5:65: unknown errno 'EOI', did you mean 'EIO'?" },
		{ FAULT("{ call: { library: l, function: f, delay: 0s } }"),
		  "t:5:52: delay '0s' does nothing, it must be more than 0" },
		{ FAULT("{ call: { library: l, function: f, returns: 0 }, delay: 1s }"),
		  "t:5:12: 'call' goes with no other fault: give each a rule of its own" },
		{ FAULT("{ call: { library: l, function: f, returns: 1.5 } }"),
		  "t:5:54: invalid returns '1.5', expected a whole number such as 28, -1 or 0x10, or null" },
		{ FAULT("{ call: { library: l, function: f, returns: 18446744073709551616 } }"),
		  "t:5:54: returns '18446744073709551616' does not fit into 64 bits" },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct error err = { 0 };
		struct rules *rules;
		int code = rules_parse("t", cases[i].source, strlen(cases[i].source), NULL, &rules, &err);

		cr_expect_eq(code, -EINVAL, "%s", cases[i].source);
		cr_expect_null(rules);
		cr_expect_str_eq(err.text, cases[i].message, "\n%s\n  got:      %s\n  expected: %s", cases[i].source,
				 err.text, cases[i].message);
	}
}

Test(call_rules, in_words)
{
	static const struct {
		const char *source, *words;
	} cases[] = {
		{ DOC("{ process: python3 }", "{ gpu-oom: { min-size: 64MiB } }", "  percent: 10\n"),
		  "a: GPU allocations of 64 MiB or more by processes named python3 fail with out of memory, 3 in a row in "
		  "the thread; on 10 % of the calls; ends after 1 min." },
		{ FAULT("{ gpu-oom: { above: 1000, failures: 1 } }"),
		  "a: GPU allocations by processes named p fail with out of memory when the process would hold more than "
		  "1000 bytes; ends after 1 min." },
		{ FAULT("{ call: { library: libz.so.1, function: crc32, returns: -1 } }"),
		  "a: calls of crc32 in libz.so.1 by processes named p return -1 at once; ends after 1 min." },
		{ FAULT("{ call: { library: l, function: f, returns: null, errno: ENOMEM } }"),
		  "a: calls of f in l by processes named p return 0 at once with errno ENOMEM; ends after 1 min." },
		{ FAULT("{ call: { library: l, function: f, delay: 1500ms } }"),
		  "a: calls of f in l by processes named p take 1.5 s longer; ends after 1 min." },
		{ FAULT("{ call: { library: l, function: f, returns: -1, errno: EIO, delay: 2s } }"),
		  "a: calls of f in l by processes named p take 2 s longer, and return -1 with errno EIO; ends after 1 min." },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct rules *rules = parse(cases[i].source);
		char words[1024];

		explain_rule(rules, 0, words, sizeof(words));
		cr_expect_str_eq(words, cases[i].words);
		rules_free(rules);
	}
}
