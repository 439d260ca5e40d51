// SPDX-License-Identifier: GPL-2.0-only
/*
 * The language of experiments: user/experiment*.c. Documents that are right and what they mean, documents that are wrong
 * and the whole message, place included. The files of rules/experiments/ are read as well; run from the top of the tree.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "user/experiment/experiment.h"

#define SECOND       1000000000ULL
#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

#define HEAD   "version: 1\nexperiment: e\n"
#define PROBES "probes: [{ name: ask, http: \"http://h/\", every: 500ms, timeout: 3s }]\n"
#define STEADY "steady: { ask.success: \">= 99%\" }\n"
#define METHOD "method: [{ rules: [{ name: a, match: { ports: 1 }, fault: { drop: true } }] }]\n"

/* The probe begins at 3:10, steady's first key at 3:11, the step at 3:10, whatever is under test stands on line 3. */
#define PROBE(text)     HEAD "probes: [{ name: ask, " text " }]\n" STEADY METHOD
#define CONDITION(text) HEAD "steady: { " text " }\n" PROBES METHOD
#define STEP(text)      HEAD "method: [{ " text " }]\n" PROBES STEADY
#define MORE(text)      HEAD text "\n" PROBES STEADY METHOD

static struct experiment *parse(const char *source)
{
	struct error err = { 0 };
	struct experiment *e;

	cr_assert_eq(experiment_parse("t", source, strlen(source), NULL, &e, &err), 0, "%s: %s", source, err.text);
	return e;
}

Test(experiment, whole)
{
	struct experiment *e = parse(
		"version: 1\n"
		"experiment: vector-db-timeout\n"
		"title: When it goes silent, answers come from keyword search\n"
		"environment: staging\n"
		"service: { cgroup: system.slice/rag.service }\n"
		"probes:\n"
		"  - { name: ask, http: \"http://127.0.0.1:8080/ask?q=ping\", every: 500ms, timeout: 3s, "
		"expect: { status: [200, 3xx], body-contains: answer } }\n"
		"  - { name: port, tcp: \"[::1]:6333\" }\n"
		"  - { name: cache, exec: [redis-cli, PING], expect: { exit: 1 } }\n"
		"  - { name: lag, prometheus: \"http://p:9090/\", query: \"up{a=\\\"b\\\"}\", expect: { value: \"< "
		"5\" } }\n"
		"steady:   { ask.success: \">= 99%\", ask.p99: \"<= 800ms\", lag.value: \"> -1.5\" }\n"
		"during:   { ask.success: \">= 90%\", within: 30s }\n"
		"recovery: { within: 45s, for: 3s }\n"
		"abort:    { ask.success: \"< 20%\", for: 12s }\n"
		"baseline: 20s\n"
		"observe: 2m\n"
		"cooldown: 5s\n"
		"method:\n"
		"  - rules: [{ name: a, match: { ports: 1 }, fault: { drop: true } }]\n"
		"    for: 10s\n"
		"  - { wait: 4s }\n");

	cr_expect_str_eq(e->name, "vector-db-timeout");
	cr_expect_str_eq(e->environment, "staging");
	cr_expect_str_eq(e->watch->rules[0].match.cgroup.text, "system.slice/rag.service");
	cr_assert_eq(e->probes_count, 4);
	cr_expect_str_eq(e->probes[0].request.method, "GET");
	cr_expect_eq(e->probes[0].in_flight, 7);
	cr_expect_eq(e->probes[0].expect.status[1].last, 399);
	cr_expect_str_eq(e->probes[1].host, "::1");
	cr_expect_str_eq(e->probes[1].port, "6333");
	cr_expect_str_eq(e->probes[2].command[1], "PING");
	cr_expect_eq(e->probes[2].expect.exit, 1);
	cr_expect_str_eq(e->probes[3].request.url, "http://p:9090/api/v1/query?query=up%7Ba%3D%22b%22%7D");
	cr_expect_eq(e->steady.count, 3);
	cr_expect_eq(e->steady.list[1].measure, MEASURE_P99);
	cr_expect_eq(e->steady.list[1].threshold, 800);
	cr_expect_eq(e->steady.list[2].threshold, -1.5);
	cr_expect_eq(e->during.list[0].threshold, 90);
	cr_expect_eq(e->within_ns, 30 * SECOND);
	cr_expect_eq(e->recovery_within_ns, 45 * SECOND);
	cr_expect_eq(e->abort_for_ns, 12 * SECOND);
	cr_expect_eq(e->abort.list[0].comparison, LESS_THAN);
	cr_expect_eq(experiment_method_ns(e), 14 * SECOND);
	cr_expect_eq(experiment_longest_ns(e), (20 + 14 + 120 + 45 + 3 + 5) * SECOND);
	cr_expect_eq(e->steps[0].rules->rules[0].duration_ns, (14 + 120 + 60) * SECOND, "an end of its own");
	experiment_free(e);
}

Test(experiment, rules_within_have_a_source_of_their_own)
{
	struct experiment *e =
		parse(HEAD "endpoints: { db: { hosts: 10.0.0.7, ports: [1, 2-3] } }\n" PROBES STEADY
			   "method: [{ rules: [{ name: a, match: { endpoint: db }, fault: { delay: 8s } }] }]\n");
	const struct rules *first = e->steps[0].rules;
	struct error err;
	struct rules *again;

	cr_assert_eq(rules_parse("x", first->source, first->source_len, NULL, &again, &err), 0, "%s: %s", first->source,
		     err.text);
	cr_expect_eq(again->rules[0].match.endpoint.ports_count, 2);
	cr_expect_eq(again->rules[0].duration_ns, first->rules[0].duration_ns);
	rules_free(again);
	experiment_free(e);
}

Test(experiment, requests)
{
	struct experiment *e = parse(STEP("http: \"http://h/\", characters: 12, body: '{\"q\": \"{characters}!\"}', "
					  "headers: { X-Key: v }"));

	cr_expect_str_eq(e->steps[0].request.body, "{\"q\": \"the quick br!\"}");
	cr_expect_eq(e->steps[0].request.body_len, 22);
	cr_expect_str_eq(e->steps[0].request.method, "POST");
	cr_expect_str_eq(e->steps[0].request.headers[0], "X-Key: v");
	cr_expect(!e->steps[0].must);
	experiment_free(e);
	e = parse(STEP("load: \"http://h/\", name: crowd, rate: 20/s, ramp: 5s, for: 10s, rounds: 3, pause: 2s"));
	cr_expect_eq(e->probes_count, 2);
	cr_expect_str_eq(e->probes[e->steps[0].probe].name, "crowd");
	cr_expect_eq(experiment_method_ns(e), 34 * SECOND);
	experiment_free(e);
}

/* Nobody has to ask where the kernel counts. */
Test(experiment, what_is_measured_in_the_kernel)
{
	struct experiment *e = parse(
		HEAD
		"service: { process: \"gun*\" }\n"
		"endpoints: { vectors: { hosts: [10.0.0.7], ports: [6333] } }\n"
		"steady: { service.success: \">= 99%\", vectors.p99: \"<= 1s\", service.p50: \"<= 1s\" }\n" METHOD);

	cr_assert_eq(e->probes_count, 2);
	cr_expect_str_eq(e->probes[0].name, "service");
	cr_expect_eq(e->probes[0].kind, PROBE_WATCH);
	cr_expect_eq(e->probes[0].watch, 0);
	cr_expect_str_eq(e->probes[1].name, "vectors");
	cr_expect_eq(e->steady.list[2].probe, 0);
	cr_assert_eq(e->watch->count, 2);
	cr_expect_str_eq(e->watch->rules[0].match.process.text, "gun*");
	cr_assert_eq(e->watch->rules[1].match.endpoint.hosts_count, 1);
	cr_expect_eq(e->watch->rules[1].match.endpoint.ports[0].first, 6333);
	experiment_free(e);
}

struct wrong {
	const char *source, *message;
};

static const struct wrong wrong[] = {
	{ "", "t:1:1: the file holds no rules" },
	{ "version: 2\nexperiment: e\n", "t:1:10: unknown version '2', expected 1" },
	{ "version: 1\n", "t:1:1: the experiment has no name, write 'experiment: vector-db-timeout'" },
	{ MORE("tilte: x"), "t:3:1: unknown key 'tilte', did you mean 'title'?" },
	{ MORE("experiment: f"), "t:3:1: duplicate key 'experiment', first on line 2" },
	{ HEAD STEADY METHOD, "t:1:1: the probes are missing: how shall the service be asked?" },
	{ HEAD PROBES STEADY, "t:1:1: the method is missing: what shall be broken?" },
	{ HEAD PROBES METHOD,
	  "t:1:1: no hypothesis: nothing is promised under 'steady' or 'during', so nothing could be found" },
	{ MORE("environment: a b"), "t:3:14: invalid name 'a b', expected letters, digits, '.', '_' and '-', beginning "
				    "with a letter or digit" },
	{ MORE("service: { cgruop: x }"), "t:3:12: unknown key 'cgruop', did you mean 'cgroup'?" },
	{ MORE("service: { cgroup: / }"), "t:3:20: cgroup '/' holds every process; leave 'cgroup' out" },
	{ MORE("service: {}"), "t:3:10: 'service' names nothing" },
	{ MORE("abort: { service.success: \"< 20%\" }"),
	  "t:3:10: no probe 'service'; measures are written PROBE.success, PROBE.p99 and so on" },
	{ MORE("endpoints: { v: { ports: [6333] } }\nabort: { v.success: \"< 20%\" }"),
	  "t:4:10: 'v' is measured in the kernel, of what the service calls: say whose by 'service: { cgroup: ... }'" },
	{ MORE("service: { cgroup: x }\nabort: { service.value: \"< 20\" }"),
	  "t:4:10: 'value' is measured by prometheus probes only, 'service' is none" },
	{ MORE("observe: 2"),
	  "t:3:10: invalid observe '2', it has no unit; expected a duration such as 500ms, 8s or 1m30s" },
	{ MORE("observe: 25h"), "t:3:10: observe '25h' is too long, at most 1 d" },
	{ MORE("observe: 24h"), "t:1:1: the experiment could take 1 d 1 min 35 s, at most 1 d are allowed" },
	{ MORE("baseline: 0s"), "t:3:11: baseline '0s' is too short, at least 1 ms" },
	{ MORE("baseline: 100ms"), "t:5:11: probe 'ask' asks every 500 ms only, and the baseline is 100 ms" },
	{ MORE("recovery: { whitin: 3s }"), "t:3:13: unknown key 'whitin', did you mean 'within'?" },
	{ MORE("abort: { for: 10s }"),
	  "t:3:8: 'abort' says nothing in numbers, expected such as { ask.success: \">= 99%\" }" },
	{ MORE("abort: { ask.success: \"< 20%\", fro: 10s }"), "t:3:32: unknown key 'fro', did you mean 'for'?" },
	{ MORE("during: { ask.success: \">= 90%\", within: 60s }"),
	  "t:3:9: 'within' leaves nothing of the 1 min from the method to the roll back" },

	{ PROBE("every: 1s"), "t:3:10: this probe asks nothing; give it http, tcp, exec or prometheus" },
	{ PROBE("htpp: \"http://h/\""), "t:3:23: unknown key 'htpp', did you mean 'http'?" },
	{ PROBE("http: h/"), "t:3:29: invalid http 'h/', expected a URL such as http://127.0.0.1:8080/health" },
	{ PROBE("http: \"http:///x\""), "t:3:29: invalid http 'http:///x', it names no host" },
	{ PROBE("http: \"http://h/\", tcp: \"h:1\""),
	  "t:3:42: 'http' and 'tcp' exclude each other, a probe asks one thing" },
	{ PROBE("http: \"http://h/\", every: 10ms"), "t:3:49: every '10ms' is too often, at least 50 ms" },
	{ PROBE("http: \"http://h/\", every: 50ms, timeout: 1m"),
	  "t:3:64: probe 'ask' could have 1201 attempts under way, at most 64 are allowed: a longer 'every' or a "
	  "shorter "
	  "'timeout'" },
	{ PROBE("http: \"http://h/\", method: GTE"), "t:3:50: unknown method 'GTE', did you mean 'GET'?" },
	{ PROBE("http: \"http://h/\", method: GET, body: x"), "t:3:10: a GET request has no body" },
	{ PROBE("http: \"http://h/\", expect: { sattus: 200 }"),
	  "t:3:52: unknown key 'sattus', did you mean 'status'?" },
	{ PROBE("http: \"http://h/\", expect: { status: 99 }"),
	  "t:3:60: invalid status '99', expected a status such as 200 or 2xx" },
	{ PROBE("http: \"http://h/\", expect: { body-matches: \"(\" }"),
	  "t:3:66: invalid body-matches '(', not an extended regular expression: Unmatched ( or \\(" },
	{ PROBE("http: \"http://h/\", expect: { body-matches: \"(a{90}){90}\" }"),
	  "t:3:66: body-matches '(a{90}){90}' repeats too much, the numbers in braces may multiply to 1000 at most" },
	{ PROBE("http: \"http://h/\", headers: { \"a b\": c }"), "t:3:53: 'a b' is no name of a header" },
	{ PROBE("tcp: 6333"),
	  "t:3:28: invalid tcp '6333', expected an address and a port such as 127.0.0.1:6333 or [::1]:6333" },
	{ PROBE("tcp: \"::1:6333\""),
	  "t:3:28: invalid tcp '::1:6333', an IPv6 address stands in brackets: [::1]:6333" },
	{ PROBE("exec: ls"),
	  "t:3:29: 'exec' is a single value, expected a list such as [redis-cli, PING]; there is no shell" },
	{ PROBE("exec: [ls, \"|\", wc]"), NULL },
	{ PROBE("exec: [ls, ;, wc]"),
	  "t:3:34: ';' would need a shell; if the command itself shall see it, put it in quotes" },
	{ PROBE("exec: [ls], expect: { exit: 300 }"),
	  "t:3:51: invalid exit '300', expected a whole number from 0 to 255" },
	{ PROBE("prometheus: \"http://h/\""), "t:3:10: probe 'ask' has no query" },
	{ HEAD "probes: [{ http: \"http://h/\" }]\n" STEADY METHOD, "t:3:10: this probe has no name" },
	{ HEAD "probes: [{ name: a, tcp: \"h:1\" }, { name: a, tcp: \"h:1\" }]\n" STEADY METHOD,
	  "t:3:43: name 'a' is taken by the probe on line 3" },

	{ CONDITION("ask.succes: \">= 99%\""), "t:3:11: unknown measure 'succes', did you mean 'success'?" },
	{ CONDITION("aks.success: \">= 99%\""), "t:3:11: no probe 'aks', did you mean 'ask'?" },
	{ CONDITION("qqqqqqq.success: \">= 99%\""),
	  "t:3:11: no probe 'qqqqqqq'; measures are written PROBE.success, PROBE.p99 and so on" },
	{ CONDITION("success: \">= 99%\""),
	  "t:3:11: 'success' is no measure, expected PROBE.success, PROBE.p99 and so on" },
	{ CONDITION("ask.success: good"),
	  "t:3:24: invalid ask.success 'good', it is no comparison; expected a comparison such as \">= 99%\"" },
	{ CONDITION("ask.success: \"=> 99%\""),
	  "t:3:24: invalid ask.success '=> 99%', the signs are >=, <=, >, < and ==" },
	{ CONDITION("ask.success: \">= 99\""),
	  "t:3:24: invalid ask.success '>= 99', expected a comparison such as \">= 99%\"" },
	{ CONDITION("ask.success: \">= 101%\""),
	  "t:3:24: invalid ask.success '>= 101%', expected a comparison such as \">= 99%\"" },
	{ CONDITION("ask.p99: \"<= 800\""),
	  "t:3:20: invalid ask.p99 '<= 800', expected a comparison such as \"<= 1s\"" },
	{ CONDITION("ask.value: \"< 5\""), "t:3:11: 'value' is measured by prometheus probes only, 'ask' is none" },
	{ HEAD "steady:\n  ask.success: >= 99%\n" PROBES METHOD,
	  "t:4:17: a value that begins with '>' or '|' needs quotes" },

	{ STEP("wiat: 3s"), "t:3:12: unknown key 'wiat', did you mean 'wait'?" },
	{ STEP("name: x"), "t:3:10: this step does nothing; give it rules, http, exec, load or wait" },
	{ STEP("wait: 3s"), "t:3:9: the method breaks nothing, it only waits" },
	{ STEP("wait: 3s, exec: [ls]"), "t:3:12: 'exec' and 'wait' are two steps, each begins with a '-' of its own" },
	{ STEP("rules: nowhere.yaml"), "t:3:19: cannot open 'nowhere.yaml': No such file or directory" },
	{ STEP("rules: [{ name: a, match: { ports: 1 }, fault: { dorp: true } }]"),
	  "t:3:61: unknown key 'dorp', did you mean 'drop'?" },
	{ STEP("rules: []"), "t:3:19: 'rules' is an empty list, expected files, or rules" },
	{ STEP("load: \"http://h/\""), "t:3:10: this load has no rate, such as 20/s" },
	{ STEP("load: \"http://h/\", rate: 20/s"), "t:3:10: this load has no end; say how long with 'for'" },
	{ STEP("load: \"http://h/\", rate: 2000/s, for: 3s"), "t:3:37: rate '2000/s' is too high, at most 1000/s" },
	{ STEP("load: \"http://h/\", rate: 20/s, for: 3s, ramp: 5s"), "t:3:58: 'ramp' is longer than 'for'" },
	{ STEP("load: \"http://h/\", rate: 20/s, for: 3s, name: ask"),
	  "t:3:58: name 'ask' is taken by the probe on line 4" },
	{ STEP("http: \"http://h/\", characters: 5, body: x"),
	  "t:3:10: 'body' does not say where the 'characters' go: write {characters} into it" },
};

Test(experiment, errors_name_the_place)
{
	struct experiment *e;
	struct error err;

	for (size_t i = 0; i < COUNT(wrong); i++) {
		int code;

		memset(&err, 0, sizeof(err));
		code = experiment_parse("t", wrong[i].source, strlen(wrong[i].source), NULL, &e, &err);
		if (!wrong[i].message) {
			cr_expect_eq(code, 0, "%s\n%s", wrong[i].source, err.text);
			experiment_free(e);
			continue;
		}
		cr_expect_eq(code, -EINVAL, "%s", wrong[i].source);
		cr_expect_null(e);
		cr_expect_eq(err.exit, EXIT_USAGE);
		cr_expect_str_eq(err.text, wrong[i].message, "\n%s\n  got:      %s\n  expected: %s", wrong[i].source,
				 err.text, wrong[i].message);
	}
}

Test(experiment, what_is_expected_is_shown_by_an_example)
{
	struct error err = { 0 };
	struct experiment *e;

	experiment_parse("t", HEAD PROBES METHOD, strlen(HEAD PROBES METHOD), NULL, &e, &err);
	cr_expect(strstr(err.hint, "steady: { ask.success: \">= 99%\""), "%s", err.hint);
}

Test(experiment, environment_of_the_command_line)
{
	const struct experiment_options options = { .environment = "production" };
	const char *source = MORE("environment: staging");
	struct experiment *e;
	struct error err;

	cr_assert_eq(experiment_parse("t", source, strlen(source), &options, &e, &err), 0);
	cr_expect_str_eq(e->environment, "production");
	experiment_free(e);
}

/* Several files in one step: all are in force together. */
Test(experiment, files_together)
{
	struct experiment *e = parse(STEP("rules: [rules/silent-qdrant.yaml, rules/refused-redis.yaml]"));

	cr_assert_eq(e->steps[0].rules->count, 2);
	cr_expect_str_eq(e->steps[0].rules->rules[1].name, "refused-redis");
	cr_expect_eq(e->steps[0].rules->rules[0].duration_ns, 120 * SECOND);
	experiment_free(e);
}

Test(experiment, files_of_the_tree)
{
	struct experiment *e;
	struct error err;
	glob_t found;

	cr_assert_eq(glob("rules/experiments/*.yaml", 0, NULL, &found), 0);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		err.text[0] = '\0';
		cr_expect_eq(experiment_load(found.gl_pathv[i], NULL, &e, &err), 0, "%s", err.text);
		experiment_free(e);
	}
	globfree(&found);
}
