// SPDX-License-Identifier: GPL-2.0-only
/*
 * The rule language: user/rules*.c. Documents that are right and what they mean, documents that are wrong and the whole
 * message, place included. The files of rules/ are read as well; run from the top of the source tree.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/rule_words.h"
#include "user/base/names.h"
#include "user/rules/rules.h"

#define SECOND       1000000000ULL
#define MINUTE       (60 * SECOND)
#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

#define MATCH(match) DOC(match, "{ drop: true }", "")
#define FAULT(fault) DOC("{ ports: 1 }", fault, "")
#define RULE(more)   DOC("{ ports: 1 }", "{ drop: true }", more)

static struct rules *parse(const char *source)
{
	struct error err = { 0 };
	struct rules *rules;

	cr_assert_eq(rules_parse("t", source, strlen(source), NULL, &rules, &err), 0, "%s: %s", source, err.text);
	return rules;
}

/* printf into a fresh string. */
static char *format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static char *format(const char *fmt, ...)
{
	char *text;
	va_list ap;

	va_start(ap, fmt);
	cr_assert_geq(vasprintf(&text, fmt, ap), 0);
	va_end(ap);
	return text;
}

static void expect_host(const struct host *host, const char *text)
{
	char buf[HOST_TEXT_LEN];

	cr_expect_str_eq(format_host(buf, sizeof(buf), host), text);
}

/* ---- what is right ---- */

Test(rules, a_rule_with_every_key)
{
	struct rules *rules =
		parse("version: 1\n"
		      "endpoints:\n"
		      "  vectors: { hosts: [10.0.0.7, 10.1.0.0/16, 2001:db8::/32], ports: [6333, 9000-9010] }\n"
		      "rules:\n"
		      "  - name: slow-embeddings\n"
		      "    match:\n"
		      "      endpoint: vectors\n"
		      "      protocol: [tcp]\n"
		      "      cgroup: /system.slice/rag.service/\n"
		      "      pid: 4242\n"
		      "      process: \"gunicorn*\"\n"
		      "      user: www-data\n"
		      "      side: server\n"
		      "      direction: response\n"
		      "      include-ssh: true\n"
		      "    fault: { delay: 8s, jitter: 500ms, distribution: pareto }\n"
		      "    percent: 30\n"
		      "    per: request\n"
		      "    max-hits: 10\n"
		      "    max-rate: 5/s\n"
		      "    start-after: 10s\n"
		      "    duration: 5m\n"
		      "    between: 02:00-04:00\n"
		      "    days: [mon, wed]\n"
		      "    seed: 42\n");
	const struct rule *rule = &rules->rules[0];
	const struct match *match = &rule->match;

	cr_expect_eq(rules->count, 1);
	cr_expect_str_eq(rules->file, "t");
	cr_expect_eq(strlen(rules->source), rules->source_len);
	cr_expect_str_eq(rule->name, "slow-embeddings");
	cr_expect(rule->mark.line == 5 && rule->mark.column == 5);
	cr_expect_str_eq(match->endpoint.name, "vectors");
	cr_expect(match->endpoint.mark.line == 7 && match->endpoint.mark.column == 17);
	cr_expect_eq(match->endpoint.hosts_count, 3);
	expect_host(&match->endpoint.hosts[0], "10.0.0.7");
	expect_host(&match->endpoint.hosts[1], "10.1.0.0/16");
	expect_host(&match->endpoint.hosts[2], "2001:db8::/32");
	cr_expect_eq(match->endpoint.hosts[0].prefix_len, 128);
	cr_expect_eq(match->endpoint.hosts[1].prefix_len, 112);
	cr_expect_eq(match->endpoint.ports_count, 2);
	cr_expect(match->endpoint.ports[1].first == 9000 && match->endpoint.ports[1].last == 9010);
	cr_expect_eq(match->protocols, 1 << CHAOS_TCP);
	cr_expect_str_eq(match->cgroup.text, "system.slice/rag.service");
	cr_expect(match->cgroup.mark.line == 9 && match->cgroup.mark.column == 15);
	cr_expect_eq(match->pid, 4242);
	cr_expect_eq(match->pid_mark.line, 10);
	cr_expect_str_eq(match->process.text, "gunicorn*");
	cr_expect_str_eq(match->user.text, "www-data");
	cr_expect_eq(match->side, CHAOS_SIDE_SERVER);
	cr_expect_eq(match->directions, CHAOS_RESPONSE);
	cr_expect(match->include_ssh && !match->everything);
	cr_expect_eq(rule->fault.faults, 1 << CHAOS_DELAY);
	cr_expect_eq(rule->fault.delay_ns, 8 * SECOND);
	cr_expect_eq(rule->fault.jitter_ns, SECOND / 2);
	cr_expect_eq(rule->fault.distribution, CHAOS_PARETO);
	cr_expect_eq(rule->percent_ppm, 300000);
	cr_expect_eq(rule->per, CHAOS_PER_REQUEST);
	cr_expect_eq(rule->max_hits, 10);
	cr_expect_eq(rule->rate_count, 5);
	cr_expect_eq(rule->rate_window_ns, SECOND);
	cr_expect_eq(rule->start_after_ns, 10 * SECOND);
	cr_expect_eq(rule->duration_ns, 5 * MINUTE);
	cr_expect(rule->window.first_minute == 120 && rule->window.last_minute == 240);
	cr_expect_eq(rule->window.days, 1 << 1 | 1 << 3);
	cr_expect(rule->window.limited);
	cr_expect_eq(rule->seed, 42);
	cr_expect(rule->seed_given);
	rules_free(rules);
}

Test(rules, what_is_left_out)
{
	struct rules *rules = parse(RULE(""));
	const struct rule *rule = &rules->rules[0];

	cr_expect_eq(rule->match.protocols, RULES_ANY_PROTOCOL);
	cr_expect_eq(rule->match.side, CHAOS_SIDE_CLIENT);
	cr_expect_eq(rule->match.directions, CHAOS_BOTH);
	cr_expect_eq(rule->match.endpoint.hosts_count, 0);
	cr_expect_str_empty(rule->match.endpoint.name);
	cr_expect(!rule->match.cgroup.text && !rule->match.process.text && !rule->match.user.text && !rule->match.pid);
	cr_expect(!rule->match.everything && !rule->match.include_ssh);
	cr_expect_eq(rule->fault.distribution, CHAOS_UNIFORM);
	cr_expect_eq(rule->percent_ppm, 1000000);
	cr_expect_eq(rule->per, CHAOS_PER_CONNECTION);
	cr_expect(!rule->max_hits && !rule->rate_count && !rule->rate_window_ns && !rule->start_after_ns);
	cr_expect(rule->window.first_minute == 0 && rule->window.last_minute == 1440 && rule->window.days == 0x7f);
	cr_expect(!rule->window.limited && !rule->seed_given && rule->seed == 0);
	rules_free(rules);
}

Test(rules, faults)
{
	static const struct {
		const char *source;
		unsigned int faults;
		uint32_t drop_ppm;
		bool drop_all;
		uint64_t delay_ns, jitter_ns;
		int refuse;
	} cases[] = {
		{ FAULT("{ drop: true }"), 1 << CHAOS_DROP, 1000000, true, 0, 0, 0 },
		{ FAULT("{ drop: 100% }"), 1 << CHAOS_DROP, 1000000, true, 0, 0, 0 },
		{ FAULT("{ drop: 5% }"), 1 << CHAOS_DROP, 50000, false, 0, 0, 0 },
		{ FAULT("{ drop: 0.0001 }"), 1 << CHAOS_DROP, 1, false, 0, 0, 0 },
		{ FAULT("{ delay: 10m }"), 1 << CHAOS_DELAY, 0, false, 10 * MINUTE, 0, 0 },
		{ FAULT("{ delay: 5m, jitter: 5m }"), 1 << CHAOS_DELAY, 0, false, 5 * MINUTE, 5 * MINUTE, 0 },
		{ FAULT("{ jitter: 2m, delay: 2m, distribution: normal }"), 1 << CHAOS_DELAY, 0, false, 2 * MINUTE,
		  2 * MINUTE, 0 },
		{ FAULT("{ refuse: refused }"), 1 << CHAOS_REFUSE, 0, false, 0, 0, ECONNREFUSED },
		{ FAULT("{ refuse: timeout }"), 1 << CHAOS_REFUSE, 0, false, 0, 0, ETIMEDOUT },
		{ FAULT("{ refuse: unreachable }"), 1 << CHAOS_REFUSE, 0, false, 0, 0, ENETUNREACH },
		{ FAULT("{ refuse: denied }"), 1 << CHAOS_REFUSE, 0, false, 0, 0, EPERM },
		{ FAULT("{ reset: true }"), 1 << CHAOS_RESET, 0, false, 0, 0, 0 },
		{ FAULT("{ accept-silence: true }"), 1 << CHAOS_ACCEPT_SILENCE, 0, false, 0, 0, 0 },
		{ FAULT("{ tls-stall: true }"), 1 << CHAOS_TLS_STALL, 0, false, 0, 0, 0 },
		{ FAULT("{ break-after: { bytes: 1, how: close }, delay: 1s }"), 1 << CHAOS_BREAK_AFTER | 1 << CHAOS_DELAY, 0, false, SECOND, 0, 0 },
		{ FAULT("{ half-open: { idle: 2m }, delay: 1s }"), 1 << CHAOS_HALF_OPEN | 1 << CHAOS_DELAY, 0, false, SECOND, 0, 0 },
		{ FAULT("{ reset: true, drop: 1%, delay: 1s }"), 1 << CHAOS_DROP | 1 << CHAOS_DELAY | 1 << CHAOS_RESET,
		  10000, false, SECOND, 0, 0 },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct rules *rules = parse(cases[i].source);
		const struct fault *fault = &rules->rules[0].fault;

		cr_expect_eq(fault->faults, cases[i].faults, "%s", cases[i].source);
		cr_expect_eq(fault->drop_ppm, cases[i].drop_ppm, "%s", cases[i].source);
		cr_expect_eq(fault->drop_all, cases[i].drop_all, "%s", cases[i].source);
		cr_expect_eq(fault->delay_ns, cases[i].delay_ns, "%s", cases[i].source);
		cr_expect_eq(fault->jitter_ns, cases[i].jitter_ns, "%s", cases[i].source);
		cr_expect_eq(fault->refuse, cases[i].refuse, "%s", cases[i].source);
		rules_free(rules);
	}
}

Test(rules, models_of_loss)
{
	struct rules *rules = parse(FAULT("{ drop: { every: 10 } }"));
	const struct fault *fault = &rules->rules[0].fault;

	cr_expect(fault->faults == 1 << CHAOS_DROP && fault->loss == CHAOS_LOSS_EVERY && fault->drop_every == 10 && !fault->drop_all);
	rules_free(rules);
	rules = parse(FAULT("{ drop: { burst: { loss: 2%, length: 5 } }, delay: 1s }"));
	fault = &rules->rules[0].fault;
	cr_expect(fault->faults == (1 << CHAOS_DROP | 1 << CHAOS_DELAY) && fault->loss == CHAOS_LOSS_BURST);
	cr_expect(fault->drop_ppm == 20000 && fault->burst_length == 5 && !fault->drop_all);
	rules_free(rules);
}

Test(rules, wrong_models_of_loss)
{
	static const struct wrong cases[] = {
		{ FAULT("{ drop: {} }"), "t:5:18: 'drop' takes one of 'every' and 'burst'" },
		{ FAULT("{ drop: { every: 1 } }"), "t:5:27: invalid every '1', expected a whole number from 2 to 1000000" },
		{ FAULT("{ drop: { evry: 5 } }"), "t:5:20: unknown key 'evry', did you mean 'every'?" },
		{ FAULT("{ drop: { every: 5, burst: { loss: 1%, length: 3 } } }"), "t:5:18: 'drop' takes one of 'every' and 'burst'" },
		{ FAULT("{ drop: { burst: 5 } }"),
		  "t:5:27: 'burst' is a single value, expected a map such as { loss: 2%, length: 5 }" },
		{ FAULT("{ drop: { burst: { loss: 5% } } }"),
		  "t:5:27: 'burst' needs both 'loss' and 'length', as in { loss: 2%, length: 5 }" },
		{ FAULT("{ drop: { burst: { loss: 0, length: 5 } } }"),
		  "t:5:35: loss '0' leaves no room for bursts, it must be between 0 and 100" },
		{ FAULT("{ drop: { burst: { loss: 100%, length: 5 } } }"),
		  "t:5:35: loss '100%' leaves no room for bursts, it must be between 0 and 100" },
		{ FAULT("{ drop: { burst: { loss: 90%, length: 8 } } }"), "t:5:48: a loss of 90 % needs bursts of 9 packets at least" },
		{ FAULT("{ drop: { burst: { loss: 1%, length: 0 } } }"),
		  "t:5:47: invalid length '0', expected a whole number from 1 to 1000000" },
	};

	EXPECT_WRONG(cases);
}

Test(rules, damage)
{
	struct rules *rules = parse(FAULT("{ duplicate: 5%, corrupt: true, reorder: 10 }"));
	const struct fault *fault = &rules->rules[0].fault;

	cr_expect_eq(fault->faults, 1 << CHAOS_DUPLICATE | 1 << CHAOS_CORRUPT | 1 << CHAOS_REORDER);
	cr_expect(fault->duplicate_ppm == 50000 && fault->corrupt_ppm == 1000000 && fault->reorder_ppm == 100000);
	cr_expect_eq(fault->reorder_ns, 20 * SECOND / 1000);
	cr_expect_eq(fault_longest_delay(fault), 20 * SECOND / 1000);
	rules_free(rules);
	rules = parse(FAULT("{ reorder: { by: 3s, percent: 100% }, delay: 2s, drop: 1% }"));
	fault = &rules->rules[0].fault;
	cr_expect(fault->reorder_ppm == 1000000 && fault->reorder_ns == 3 * SECOND);
	cr_expect_eq(fault_longest_delay(fault), 5 * SECOND);
	rules_free(rules);
	rules = parse(DOC("{ ports: 1, direction: response }", "{ corrupt: 1% }", ""));
	cr_expect_eq(rules->rules[0].match.protocols, RULES_ANY_PROTOCOL, "datagrams that arrive, too");
	rules_free(rules);
	rules = parse(DOC("{ ports: 1 }", "{ corrupt: 1% }", ""));
	cr_expect_eq(rules->rules[0].match.protocols, RULES_ANY_PROTOCOL);
	rules_free(rules);
}

Test(rules, paces)
{
	struct rules *rules = parse(DOC("{ ports: 1, side: server }", "{ rate: 1.5mbit, tokens: 30/m, delay: 1s }", ""));
	const struct fault *fault = &rules->rules[0].fault;

	cr_expect_eq(fault->faults, 1 << CHAOS_DELAY | 1 << CHAOS_RATE | 1 << CHAOS_TOKENS);
	cr_expect(fault->rate_bits == 1500000 && fault->token_ns == 2 * SECOND);
	rules_free(rules);
}

/* Which connections a rule is about: of what arrives, those of TCP. */
Test(rules, paces_of_what_arrives)
{
	static const struct {
		const char *match, *fault;
		unsigned int protocols;
	} cases[] = {
		{ "{ ports: 1 }", "{ rate: 1mbit }", RULES_ANY_PROTOCOL },
		{ "{ ports: 1, direction: request }", "{ rate: 1mbit }", RULES_ANY_PROTOCOL },
		{ "{ ports: 1, direction: response }", "{ rate: 1mbit }", 1 << CHAOS_TCP },
		{ "{ ports: 1 }", "{ tokens: 5/s }", 1 << CHAOS_TCP },
		{ "{ ports: 1, direction: response }", "{ tokens: 5/s }", 1 << CHAOS_TCP },
		{ "{ ports: 1, side: server }", "{ rate: 1mbit }", RULES_ANY_PROTOCOL },
		{ "{ ports: 1, side: server, direction: request }", "{ rate: 1mbit }", 1 << CHAOS_TCP },
		{ "{ ports: 1, side: server }", "{ tokens: 5/s }", RULES_ANY_PROTOCOL },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		char *source = format(DOC("%s", "%s", ""), cases[i].match, cases[i].fault);
		struct rules *rules = parse(source);

		cr_expect_eq(rules->rules[0].match.protocols, cases[i].protocols, "%s %s", cases[i].match, cases[i].fault);
		rules_free(rules);
		free(source);
	}
}

Test(rules, wrong_paces)
{
	static const struct wrong cases[] = {
		{ FAULT("{ rate: 5 }"),
		  "t:5:18: invalid rate '5', expected bits a second such as 1mbit or 500kbit, or bytes such as 64kbps" },
		{ FAULT("{ rate: 999bit }"), "t:5:18: rate '999bit' is out of range, expected 1kbit to 1tbit" },
		{ FAULT("{ rate: 1mbit, drop: true }"),
		  "t:5:12: 'rate' and 'drop: true' contradict each other: no packet is left for it" },
		{ DOC("{ ports: 1, direction: request }", "{ tokens: 5/s }", ""),
		  "t:4:33: 'tokens' are what a server sends: a request has none" },
		{ DOC("{ ports: 1, side: server, direction: request }", "{ tokens: 5/s }", ""),
		  "t:4:47: 'tokens' are what a server sends: a request has none" },
		{ DOC("{ ports: 1, side: server }", "{ tokens: 5 }", ""),
		  "t:5:20: invalid tokens '5', expected a number for each second, minute or hour, such as 5/s, 10/m or 100/h" },
		{ DOC("{ ports: 1, side: server }", "{ tokens: 5/h }", ""), "t:5:20: tokens '5/h' is out of range, at least 6/h" },
		{ DOC("{ ports: 1 }", "{ rate: 1mbit }", "  per: packet\n"),
		  "t:7:8: 'per: packet' makes no sense with 'rate', decided once for each connection" },
		{ DOC("{ ports: 1, direction: response, protocol: udp }", "{ rate: 1mbit }", ""),
		  "t:4:53: 'rate' of packets that arrive is for tcp only: leave udp out, or name the other end" },
		{ DOC("{ ports: 1, protocol: [tcp, udp] }", "{ tokens: 5/s }", ""),
		  "t:4:32: 'tokens' of packets that arrive is for tcp only: leave udp out, or name the other end" },
	};

	EXPECT_WRONG(cases);
}

Test(rules, wrong_damage)
{
	static const struct wrong cases[] = {
		{ FAULT("{ corrupt: 0% }"), "t:5:21: corrupt '0%' does nothing, it must be more than 0" },
		{ FAULT("{ duplicate: 1..2 over 1m }"),
		  "t:5:23: invalid duplicate '1..2 over 1m', expected true, or each packet's chance such as 5%" },
		{ FAULT("{ reorder: false }"), "t:5:21: 'reorder: false' does nothing, leave it out" },
		{ FAULT("{ reorder: { by: 1s } }"), "t:5:21: 'reorder' needs 'percent', as in { percent: 10, by: 20ms }" },
		{ FAULT("{ reorder: { percent: 10, by: 0s } }"), "t:5:40: by '0s' does nothing, it must be more than 0" },
		{ FAULT("{ reorder: { percent: 10, bye: 1s } }"), "t:5:36: unknown key 'bye', did you mean 'by'?" },
		{ FAULT("{ delay: 599s, reorder: { percent: 10, by: 2s } }"),
		  "t:5:34: 'delay' and 'reorder' together hold packets longer than 10 min" },
		{ FAULT("{ corrupt: 1%, drop: true }"),
		  "t:5:12: 'corrupt' and 'drop: true' contradict each other: no packet is left for it" },
		{ FAULT("{ corrupt: 1%, refuse: denied }"),
		  "t:5:25: 'refuse' goes with no other fault: a connection that is refused has no packets" },
	};

	EXPECT_WRONG(cases);
}

Test(rules, break_after)
{
	static const struct {
		const char *source;
		uint64_t bytes, ns;
		enum chaos_break_how how;
	} cases[] = {
		{ FAULT("{ break-after: 4KiB }"), 4096, 0, CHAOS_BREAK_RESET },
		{ FAULT("{ break-after: { bytes: 1GiB } }"), 1 << 30, 0, CHAOS_BREAK_RESET },
		{ FAULT("{ break-after: { how: close, time: 3s } }"), 0, 3 * SECOND, CHAOS_BREAK_CLOSE },
		{ FAULT("{ break-after: { bytes: 1, how: stall } }"), 1, 0, CHAOS_BREAK_STALL },
		{ DOC("{ ports: 1, side: server }", "{ break-after: 5 }", ""), 5, 0, CHAOS_BREAK_RESET },
		{ DOC("{ ports: 1, direction: request }", "{ break-after: 5 }", ""), 5, 0, CHAOS_BREAK_RESET },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct rules *rules = parse(cases[i].source);
		const struct fault *fault = &rules->rules[0].fault;

		cr_expect(fault->faults == 1 << CHAOS_BREAK_AFTER && rules->rules[0].match.protocols == 1 << CHAOS_TCP);
		cr_expect(fault->break_bytes == cases[i].bytes && fault->break_ns == cases[i].ns && fault->break_how == cases[i].how,
			  "%s", cases[i].source);
		rules_free(rules);
	}
}

Test(rules, wrong_break_after)
{
	static const struct wrong cases[] = {
		{ FAULT("{ break-after: {} }"), "t:5:25: 'break-after' takes one of 'bytes', 'time' and 'chunks'" },
		{ FAULT("{ break-after: { how: close } }"), "t:5:25: 'break-after' takes one of 'bytes', 'time' and 'chunks'" },
		{ FAULT("{ break-after: { bytes: 5, time: 1s } }"), "t:5:25: 'break-after' takes one of 'bytes', 'time' and 'chunks'" },
		{ FAULT("{ break-after: { bytes: 5, chunks: 1 } }"), "t:5:25: 'break-after' takes one of 'bytes', 'time' and 'chunks'" },
		{ FAULT("{ break-after: { bytes: 0 } }"),
		  "t:5:34: bytes '0' lets nothing by, use 'reset' with 'direction: response'" },
		{ FAULT("{ break-after: { bytes: 2GiB } }"), "t:5:34: bytes '2GiB' is too much, at most 1GiB" },
		{ FAULT("{ break-after: { bytes: 3s } }"), "t:5:34: invalid bytes '3s', expected a size such as 4096, 4KiB or 1MB" },
		{ FAULT("{ break-after: { time: 0s } }"), "t:5:33: time '0s' lets nothing by, it must be more than 0" },
		{ FAULT("{ break-after: { byte: 5 } }"), "t:5:27: unknown key 'byte', did you mean 'bytes'?" },
		{ FAULT("{ break-after: { bytes: 5, how: stal } }"), "t:5:42: unknown how 'stal', did you mean 'stall'?" },
		{ FAULT("{ break-after: { chunks: 0 } }"), "t:5:35: invalid chunks '0', expected a whole number from 1 to 1000000" },
		{ FAULT("{ break-after: { chunks: 2KB } }"), "t:5:35: invalid chunks '2KB', expected a whole number from 1 to 1000000" },
		{ FAULT("{ break-after: 5, drop: true }"),
		  "t:5:12: 'break-after' and 'drop: true' contradict each other: there is no response to break" },
		{ FAULT("{ reset: true, break-after: 5 }"),
		  "t:5:25: 'break-after' and 'reset: true' contradict each other: there is no response to break" },
		{ DOC("{ ports: 1, direction: request }", "{ break-after: { chunks: 5 } }", ""),
		  "t:4:33: 'chunks' are what a server streams: a request has none" },
		{ DOC("{ ports: 1, protocol: udp }", "{ break-after: 5 }", ""),
		  "t:4:32: 'break-after' is for tcp only, udp has no stream to break" },
		{ DOC("{ ports: 1 }", "{ break-after: 5 }", "  per: packet\n"),
		  "t:7:8: 'per: packet' makes no sense with 'break-after', use 'connection' or 'request'" },
	};

	EXPECT_WRONG(cases);
}

/* Faults of connections: the rule is about TCP alone unless udp was asked for, which is an error. */
Test(rules, faults_of_connections_narrow_the_protocol)
{
	static const char *const sources[] = {
		FAULT("{ reset: true }"),
		FAULT("{ accept-silence: true }"),
		FAULT("{ tls-stall: true }"),
		FAULT("{ half-open: 120s }"),
		DOC("{ ports: 1, protocol: tcp }", "{ reset: true }", ""),
	};

	for (size_t i = 0; i < COUNT(sources); i++) {
		struct rules *rules = parse(sources[i]);

		cr_expect_eq(rules->rules[0].match.protocols, 1 << CHAOS_TCP);
		rules_free(rules);
	}
}

Test(rules, hosts)
{
	static const struct {
		const char *written, *read;
		unsigned int prefix_len;
	} cases[] = {
		{ "127.0.0.1", "127.0.0.1", 128 },
		{ "10.0.0.0/8", "10.0.0.0/8", 104 },
		{ "10.1.2.3/32", "10.1.2.3", 128 },
		{ "0.0.0.0/1", "0.0.0.0/1", 97 },
		{ "::1", "::1", 128 },
		{ "fe80::/10", "fe80::/10", 10 },
		{ "2000::/3", "2000::/3", 3 },
		{ "::ffff:10.1.2.3", "10.1.2.3", 128 },
		{ "::ffff:10.0.0.0/104", "10.0.0.0/8", 104 },
		{ "2001:db8:0:0::7/128", "2001:db8::7", 128 },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		char *source = format(MATCH("{ hosts: '%s' }"), cases[i].written);
		struct rules *rules = parse(source);
		const struct endpoint *endpoint = &rules->rules[0].match.endpoint;

		cr_expect_eq(endpoint->hosts_count, 1);
		expect_host(&endpoint->hosts[0], cases[i].read);
		cr_expect_eq(endpoint->hosts[0].prefix_len, cases[i].prefix_len);
		cr_expect(endpoint->hosts[0].mark.line == 4 && endpoint->hosts[0].mark.column == 19);
		rules_free(rules);
		free(source);
	}
}

Test(rules, an_address_is_mapped)
{
	struct rules *rules = parse(MATCH("{ hosts: 10.1.2.3 }"));
	static const unsigned char expected[16] = { [10] = 0xff, 0xff, 10, 1, 2, 3 };

	cr_expect_arr_eq(&rules->rules[0].match.endpoint.hosts[0].address, expected, 16);
	rules_free(rules);
}

Test(rules, an_endpoint_is_narrowed)
{
	static const struct {
		const char *match, *where;
	} cases[] = {
		{ "{ endpoint: e }", "10.0.0.0/8 ::1 | 5-10 8-20 40-40" },
		{ "{ endpoint: e, hosts: 10.1.2.3 }", "10.1.2.3 | 5-10 8-20 40-40" },
		{ "{ endpoint: e, hosts: [10.1.0.0/16, 11.0.0.1, '::1'] }", "10.1.0.0/16 ::1 | 5-10 8-20 40-40" },
		{ "{ endpoint: e, hosts: 0.0.0.0/0 }", "10.0.0.0/8 | 5-10 8-20 40-40" },
		{ "{ endpoint: e, hosts: 10.0.0.0/8 }", "10.0.0.0/8 | 5-10 8-20 40-40" },
		{ "{ endpoint: e, ports: 40 }", "10.0.0.0/8 ::1 | 40-40" },
		{ "{ endpoint: e, ports: [1-6, 19-100] }", "10.0.0.0/8 ::1 | 5-6 19-20 40-40" },
		{ "{ endpoint: e, ports: 1-65535, hosts: '::1' }", "::1 | 5-20 40-40" },
		{ "{ endpoint: hosts-only, ports: 7 }", "10.0.0.1 | 7-7" },
		{ "{ endpoint: ports-only, hosts: '::1' }", "::1 | 9-9" },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		char *source = format("version: 1\nendpoints:\n"
				      "  e: { hosts: [10.0.0.0/8, '::1'], ports: [5-10, 8-20, 40] }\n"
				      "  hosts-only: { hosts: [10.0.0.1] }\n"
				      "  ports-only: { ports: 9 }\n"
				      "rules: [ { name: a, match: %s, fault: { drop: true }, duration: 1m } ]\n",
				      cases[i].match);
		struct rules *rules = parse(source);
		const struct endpoint *endpoint = &rules->rules[0].match.endpoint;
		char where[256] = "", host[HOST_TEXT_LEN];
		size_t len = 0;

		for (size_t j = 0; j < endpoint->hosts_count; j++)
			len += (size_t)sprintf(where + len, "%s ",
					       format_host(host, sizeof(host), &endpoint->hosts[j]));
		len += (size_t)sprintf(where + len, "|");
		for (size_t j = 0; j < endpoint->ports_count; j++)
			len += (size_t)sprintf(where + len, " %u-%u", endpoint->ports[j].first,
					       endpoint->ports[j].last);
		cr_expect_str_eq(where, cases[i].where, "%s: %s", cases[i].match, where);
		rules_free(rules);
		free(source);
	}
}

Test(rules, windows)
{
	static const struct {
		const char *source;
		unsigned int first, last, days;
	} cases[] = {
		{ RULE("  between: 02:00-04:00\n"), 120, 240, 0x7f },
		{ RULE("  between: \"22:30-04:00\"\n"), 1350, 240, 0x7f },
		{ RULE("  between: 9:05 - 17:00\n"), 545, 1020, 0x7f },
		{ RULE("  between: 22:00-24:00\n"), 1320, 1440, 0x7f },
		{ RULE("  between: 22:00-00:00\n"), 1320, 1440, 0x7f },
		{ RULE("  between: 00:00-23:59\n"), 0, 1439, 0x7f },
		{ RULE("  days: sun\n"), 0, 1440, 1 },
		{ RULE("  days: [sat, sun, sat]\n"), 0, 1440, 1 << 6 | 1 },
		{ RULE("  days: [mon, tue, wed, thu, fri]\n"), 0, 1440, 0x3e },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct rules *rules = parse(cases[i].source);
		const struct window *window = &rules->rules[0].window;

		cr_expect_eq(window->first_minute, cases[i].first, "%s", cases[i].source);
		cr_expect_eq(window->last_minute, cases[i].last, "%s", cases[i].source);
		cr_expect_eq(window->days, cases[i].days, "%s", cases[i].source);
		cr_expect(window->limited && window->mark.line == 7);
		rules_free(rules);
	}
}

Test(rules, limits_of_a_rule)
{
	struct rules *rules = parse(RULE("  max-rate: 1000000/h\n  max-hits: 1000000000000\n  percent: 0\n"
					 "  seed: 18446744073709551615\n  start-after: 0s\n"));
	const struct rule *rule = &rules->rules[0];

	cr_expect_eq(rule->rate_count, 1000000);
	cr_expect_eq(rule->rate_window_ns, 3600 * SECOND);
	cr_expect_eq(rule->max_hits, 1000000000000ULL);
	cr_expect_eq(rule->percent_ppm, 0);
	cr_expect_eq(rule->seed, UINT64_MAX);
	rules_free(rules);
	rules = parse(RULE("  max-rate: 10/m\n"));
	cr_expect_eq(rules->rules[0].rate_window_ns, MINUTE);
	rules_free(rules);
}

/* defaults may stand anywhere; what a rule says itself comes first. */
Test(rules, defaults)
{
	struct rules *rules =
		parse("version: 1\n"
		      "rules:\n"
		      "- { name: a, match: { ports: 1 }, fault: { drop: true } }\n"
		      "- { name: b, match: { ports: 1 }, fault: { drop: true }, duration: 1s, percent: 7, "
		      "per: packet, seed: 2 }\n"
		      "- { name: c, match: { ports: 1 }, fault: { refuse: denied } }\n"
		      "defaults: { duration: 3m, percent: 50, per: request, seed: 1 }\n");
	const struct rule *rule = rules->rules;

	cr_assert_eq(rules->count, 3);
	cr_expect(rule[0].duration_ns == 3 * MINUTE && rule[0].percent_ppm == 500000);
	cr_expect(rule[0].per == CHAOS_PER_REQUEST && rule[0].seed == 1 && rule[0].seed_given);
	cr_expect(rule[1].duration_ns == SECOND && rule[1].percent_ppm == 70000);
	cr_expect(rule[1].per == CHAOS_PER_PACKET && rule[1].seed == 2);
	cr_expect_eq(rule[2].per, CHAOS_PER_CONNECTION, "refuse is decided for each connection, whatever the default");
	rules_free(rules);
}

Test(rules, duration_of_the_command_line)
{
	static const char *const sources[] = {
		RULE(""),
		"version: 1\nrules: [ { name: a, match: { ports: 1 }, fault: { drop: true } } ]\n",
		("version: 1\ndefaults: { duration: 9m }\n"
		 "rules: [ { name: a, match: { ports: 1 }, fault: { drop: true } } ]\n"),
	};
	struct rules_options options = { .duration_ns = 2 * MINUTE };
	struct error err = { 0 };
	struct rules *rules;

	for (size_t i = 0; i < COUNT(sources); i++) {
		cr_assert_eq(rules_parse("t", sources[i], strlen(sources[i]), &options, &rules, &err), 0, "%s",
			     err.text);
		cr_expect_eq(rules->rules[0].duration_ns, 2 * MINUTE);
		rules_free(rules);
	}
	options.duration_ns = RULES_MAX_DURATION_NS + 1;
	cr_expect_eq(rules_parse("t", sources[0], strlen(sources[0]), &options, &rules, &err), -EINVAL);
	cr_expect_str_eq(err.text, "the duration is too long, at most 7 d");
	cr_expect_eq(err.exit, EXIT_USAGE);
	cr_expect_null(rules);
}

Test(rules, accepted)
{
	static const char *const sources[] = {
		"\xef\xbb\xbf" RULE(""), /* a byte order mark */
		"version: 1\r\nrules:\r\n- name: a\r\n  match: { ports: 1 }\r\n  fault: { drop: true }\r\n"
		"  duration: 1m\r\n",
		"%YAML 1.1\n---\n" RULE("") "...\n",
		"# \xe4\xb8\xad\xe6\x96\x87, \xf0\x9f\x92\xa5\n  \n#\ttabs in a comment\n" RULE("  percent:\t30\t\n"),
		MATCH("{ hosts: 'fe80::/10' }"),
		RULE("  percent: \"30%\"\n"),
		MATCH("{ everything: true }"),
		MATCH("{ everything: true, protocol: tcp, side: server, direction: both, include-ssh: true }"),
		MATCH("{ everything: false, ports: 1 }"),
		MATCH("{ ports: [1, 65535, 2-2] }"),
		MATCH("{ hosts: [0.0.0.0/0], ports: [22] }"),
		MATCH("{ ports: 1-65534 }"),
		MATCH("{ protocol: [udp, tcp], user: 0 }"),
		MATCH("{ user: 4294967294 }"),
		MATCH("{ process: a-name-of-15-cc }"),
		MATCH("{ process: \"*a*name*of*15*\" }"),
		MATCH("{ pid: 4194304 }"),
		MATCH("{ cgroup: a }"),
		MATCH("{ container: rag-api_1.2 }"),
		MATCH("{ container: app, pod: default/rag-0 }"),
		MATCH("{ pod: 3f2a1b4c-0d5e-4f60-8a7b-9c0d1e2f3a4b }"),
		MATCH("{ unit: 'getty@tty1' }"),
		MATCH("{ unit: 'a\\x2db.service' }"),
		MATCH("{ cgroup: a/..b/.c/d.. }"),
		DOC("{ ports: 1, side: server, direction: response }", "{ delay: 1s }", ""),
		DOC("{ ports: 1, side: server }", "{ delay: 1s }", ""),
		DOC("{ ports: 1, direction: request }", "{ delay: 1s }", ""),
		DOC("{ ports: 1, direction: response }", "{ drop: true }", ""),
		DOC("{ ports: 1, protocol: udp }", "{ refuse: refused }", ""),
		DOC("{ ports: 1 }", "{ refuse: refused }", "  per: connection\n"),
		"version: 1\nrules: [ { name: 1, match: { ports: 1 }, fault: { drop: true }, duration: 7d } ]\n",
	};

	for (size_t i = 0; i < COUNT(sources); i++)
		rules_free(parse(sources[i]));
}

/* ---- what is wrong ---- */

Test(rules, not_a_rules_file)
{
	static const struct wrong cases[] = {
		{ "", "t:1:1: the file holds no rules" },
		{ "# nothing\n\n", "t:1:1: the file holds no rules" },
		{ "--- \n...\n", "t:2:1: 'the file' has no value, expected a map with version and rules" },
		{ "null\n", "t:1:1: 'the file' has no value, expected a map with version and rules" },
		{ "hello\n", "t:1:1: 'the file' is a single value, expected a map with version and rules" },
		{ "- a\n", "t:1:1: 'the file' is a list, expected a map with version and rules" },
		{ RULE("---\n") RULE(""), "t:7:1: a second document begins here, one file holds one" },
		{ "rules: []\n", "t:1:1: the version is missing, write 'version: 1'" },
		{ "version: 2\n", "t:1:10: unknown version '2', expected 1" },
		{ "version: 01\n", "t:1:10: unknown version '01', expected 1" },
		{ "version: [1]\n", "t:1:10: 'version' is a list, expected 1" },
		{ "version: 1\n", "t:1:1: the rules are missing, write 'rules:' and a list below it" },
		{ "version: 1\nrules:\n",
		  "t:2:7: 'rules' has no value, expected a list of rules, each beginning with '- name:'" },
		{ "version: 1\nrules: []\n", "t:2:8: 'rules' is an empty list" },
		{ "version: 1\nrules: { name: a }\n",
		  "t:2:8: 'rules' is a map, expected a list of rules, each beginning with '- name:'" },
		{ "version: 1\nrules: [ a ]\n",
		  "t:2:10: 'rules' is a single value, expected a rule with name, match and fault" },
		{ "version: 1\nrule: []\n", "t:2:1: unknown key 'rule', did you mean 'rules'?" },
		{ "version: 1\nports: {}\n", "t:2:1: 'ports' belongs under 'match'" },
		{ "version: 1\nmatch: {}\n", "t:2:1: 'match' belongs to a rule, beside 'name'" },
	};

	EXPECT_WRONG(cases);
}

Test(rules, not_yaml)
{
	static const struct wrong cases[] = {
		{ MATCH("{ process: *worker }"),
		  "t:4:21: aliases are not supported; if '*worker' is meant as it stands, it needs quotes" },
		{ MATCH("{ process: * }"), "t:4:22: a value that begins with '*' needs quotes" },
		{ MATCH("{ process: *.py }"), "t:4:22: a value that begins with '*' needs quotes" },
		{ MATCH("&m { ports: 1 }"), "t:4:10: anchors and aliases are not supported: '&m'" },
		{ MATCH("{ ports: &p 1 }"), "t:4:19: anchors and aliases are not supported: '&p'" },
		{ MATCH("{ ports: &p [1] }"), "t:4:19: anchors and aliases are not supported: '&p'" },
		{ MATCH("{ *k : 1 }"), "t:4:12: anchors and aliases are not supported: '*k'" },
		{ MATCH("!!map { ports: 1 }"), "t:4:10: tags such as !!str are not supported" },
		{ MATCH("{ ports: !port 1 }"), "t:4:19: tags such as !!str are not supported" },
		{ RULE("  <<: { percent: 1 }\n"), "t:7:3: merge keys ('<<') are not supported" },
		{ RULE("  ? [a]\n  : b\n"), "t:7:5: a key must be a word, not a list or a map" },
		{ RULE("  duration: 2m\n"), "t:7:3: duplicate key 'duration', first on line 6" },
		{ MATCH("{ ports: 1, ports: 2 }"), "t:4:22: duplicate key 'ports', first on line 4" },
		{ RULE("\tpercent: 1\n"), "t:7:1: a tab in the indentation, YAML wants spaces there" },
		{ RULE("  \tpercent: 1\n"), "t:7:3: a tab in the indentation, YAML wants spaces there" },
		{ MATCH("{ hosts: [::1] }"),
		  "t:4:20: not valid YAML: a value is missing, or needs quotes as '::1' does" },
		{ MATCH("ports: 1"), "t:4:15: not valid YAML: a second ': ' on this line, or a line indented too far" },
		{ MATCH("{ ports: 1"),
		  "t:5:8: not valid YAML: did not find expected ',' or '}' while parsing a flow mapping" },
		{ RULE(" percent: 1\n"),
		  "t:7:2: not valid YAML: did not find expected key while parsing a block mapping" },
		{ RULE("\t\n"), "t:7:1: a tab in the indentation, YAML wants spaces there" },
		{ MATCH("{ process: \"a }"),
		  "t:7:1: not valid YAML: found unexpected end of stream while scanning a quoted "
		  "scalar" },
		{ MATCH("{ process: \"a\\qb\" }"),
		  "t:4:23: not valid YAML: found unknown escape character while parsing a quoted scalar" },
		{ MATCH("{ process: \xff }"), "t:4:21: byte 0xff is not valid UTF-8" },
		{ "# \xc3\xa4\xc3\xa4 \xc0\xaf\n", "t:1:6: byte 0xc0 is not valid UTF-8" },
		{ "# \xed\xa0\x80\n", "t:1:3: byte 0xed is not valid UTF-8" },
		{ "# \xf4\x90\x80\x80\n", "t:1:3: byte 0xf4 is not valid UTF-8" },
		{ "# \xe0\x80\x80\n", "t:1:3: byte 0xe0 is not valid UTF-8" },
		{ "# \xe4\xb8x\n", "t:1:3: byte 0xe4 is not valid UTF-8" },
		{ "# \xe4\xb8", "t:1:3: byte 0xe4 is not valid UTF-8" },
		{ "# a\n# \x1b[31m\n", "t:2:3: control character U+001B" },
		{ "# a\r# \x7f\n", "t:2:3: control character U+007F" },
		{ "# \xe2\x80\xae\n", "t:1:3: control character U+202E" },
		{ "# \xe2\x80\xa8\n", "t:1:3: control character U+2028" },
		{ "# \xc2\x85\n", "t:1:3: control character U+0085" },
		{ MATCH("{ process: \"a\\nb\" }"), "t:4:21: a line end or control character in a text" },
		{ MATCH("{ process: \"a\\0b\" }"), "t:4:21: a line end or control character in a text" },
		{ MATCH("{ process: \"a\\tb\" }"), "t:4:21: a line end or control character in a text" },
		{ MATCH("{ process: \"\\u202e\" }"), "t:4:21: a line end or control character in a text" },
		{ MATCH("{ \"a\\e\": 1 }"), "t:4:12: a line end or control character in a text" },
		{ MATCH("\n    process: |\n      a\n"), "t:5:14: a line end or control character in a text" },
	};

	EXPECT_WRONG(cases);
}

Test(rules, a_nul_byte)
{
	static const char source[] = "version: 1\n# \0\n";
	struct error err = { 0 };
	struct rules *rules;

	cr_expect_eq(rules_parse("t", source, sizeof(source) - 1, NULL, &rules, &err), -EINVAL);
	cr_expect_str_eq(err.text, "t:2:3: control character U+0000");
}

Test(rules, unknown_keys)
{
	static const struct wrong cases[] = {
		{ FAULT("{ dealy: 8s }"), "t:5:12: unknown key 'dealy', did you mean 'delay'?" },
		{ FAULT("{ Delay: 8s }"), "t:5:12: unknown key 'Delay', did you mean 'delay'?" },
		{ FAULT("{ latency: 8s }"), "t:5:12: unknown key 'latency', did you mean 'delay'?" },
		{ FAULT("{ loss: 8% }"), "t:5:12: unknown key 'loss', did you mean 'drop'?" },
		{ FAULT("{ explode: true }"), "t:5:12: unknown key 'explode'" },
		{ FAULT("{ '': true }"), "t:5:12: unknown key ''" },
		{ FAULT("{ drop: true, percent: 5 }"), "t:5:24: 'percent' belongs to a rule, beside 'name'" },
		{ FAULT("{ drop: true, ports: 5 }"), "t:5:24: 'ports' belongs under 'match'" },
		{ MATCH("{ port: 1 }"), "t:4:12: unknown key 'port', did you mean 'ports'?" },
		{ MATCH("{ comm: a }"), "t:4:12: unknown key 'comm', did you mean 'process'?" },
		{ MATCH("{ everyting: true }"), "t:4:12: unknown key 'everyting', did you mean 'everything'?" },
		{ MATCH("{ delay: 8s }"), "t:4:12: 'delay' belongs under 'fault'" },
		{ RULE("  delay: 8s\n"), "t:7:3: 'delay' belongs under 'fault'" },
		{ RULE("  ports: 1\n"), "t:7:3: 'ports' belongs under 'match'" },
		{ RULE("  max_hits: 1\n"), "t:7:3: unknown key 'max_hits', did you mean 'max-hits'?" },
		{ RULE("  probability: 1\n"), "t:7:3: unknown key 'probability', did you mean 'percent'?" },
		{ RULE("defaults: { max-rate: 1/s }\n"), "t:7:13: 'max-rate' belongs to a rule, beside 'name'" },
		{ RULE("endpoints: { a: { host: 1.2.3.4 } }\n"), "t:7:19: unknown key 'host', did you mean 'hosts'?" },
		{ RULE("a-key-so-long-that-nobody-would-want-to-read-all-of-it-in-a-message-and-so-it-is-cut-short-at-"
		       "some-"
		       "place: 1\n"),
		  "t:7:1: unknown key "
		  "'a-key-so-long-that-nobody-would-want-to-read-all-of-it-in-a-message-and-so-it-is-cut-"
		  "short-a...'" },
		{ RULE("a-key-of-wide-letters-"
		       "\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4"
		       "\u00e4\u00e4\u00e4\u00e4\u00e4"
		       "-\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4"
		       "\u00e4\u00e4\u00e4\u00e4\u00e4: 1\n"),
		  "t:7:1: unknown key 'a-key-of-wide-letters-"
		  "\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4"
		  "\u00e4\u00e4\u00e4\u00e4"
		  "-\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4...'" },
	};

	EXPECT_WRONG(cases);
}

Test(rules, wrong_names)
{
	static const struct wrong cases[] = {
		{ "version: 1\nrules:\n- match: { ports: 1 }\n", "t:3:3: this rule has no name" },
		{ "version: 1\nrules:\n- name:\n",
		  "t:3:8: 'name' has no value, expected a name such as slow-embeddings" },
		{ "version: 1\nrules:\n- name: ~\n",
		  "t:3:9: 'name' has no value, expected a name such as slow-embeddings" },
		{ "version: 1\nrules:\n- name: ''\n",
		  "t:3:9: 'name' is empty, expected a name such as slow-embeddings" },
		{ "version: 1\nrules:\n- name: a b\n", "t:3:9: invalid name 'a b', expected letters, digits, '.', '_' "
						       "and '-', beginning with a letter or digit" },
		{ "version: 1\nrules:\n- name: -a\n", "t:3:9: invalid name '-a', expected letters, digits, '.', '_' "
						      "and '-', beginning with a letter or digit" },
		{ "version: 1\nrules:\n- name: 0123456789012345678901234567890123456789012345678901234567890123\n",
		  "t:3:9: name '0123456789012345678901234567890123456789012345678901234567890123' has 64 characters, "
		  "at most "
		  "63 are allowed" },
		{ RULE("- { name: a, match: { ports: 2 }, fault: { drop: true }, duration: 1m }\n"),
		  "t:7:11: rule name 'a' is taken by the rule on line 3" },
		{ RULE("endpoints: { '': { ports: 1 } }\n"),
		  "t:7:14: a name is empty, expected letters, digits, '.', '_' and '-'" },
		{ RULE("endpoints: { 'a b': { ports: 1 } }\n"),
		  "t:7:14: invalid name 'a b', expected letters, digits, '.', '_' and '-', beginning with a letter or "
		  "digit" },
	};

	EXPECT_WRONG(cases);
}

Test(rules, wrong_endpoints)
{
	static const struct wrong cases[] = {
		{ RULE("endpoints: []\n"),
		  "t:7:12: 'endpoints' is a list, expected a map of names to hosts and ports" },
		{ RULE("endpoints: { a: 1 }\n"), "t:7:17: 'a' is a single value, expected a map with hosts and ports" },
		{ RULE("endpoints: { a: {} }\n"), "t:7:14: endpoint 'a' has neither hosts nor ports" },
		{ RULE("endpoints: { a: { hosts: [] } }\n"), "t:7:26: 'hosts' is an empty list" },
		{ "version: 1\nendpoints: { vectors: { ports: 1 } }\n"
		  "rules: [ { name: a, match: { endpoint: vector } } ]\n",
		  "t:3:40: unknown endpoint 'vector', did you mean 'vectors'?" },
		{ MATCH("{ endpoint: elsewhere }"),
		  "t:4:22: unknown endpoint 'elsewhere', expected a name from 'endpoints' or a preset" },
		{ MATCH("{ endpoint: [vectors] }"), "t:4:22: 'endpoint' is a list, expected a name from 'endpoints' or a preset" },
		{ "version: 1\nendpoints: { v: { hosts: 10.0.0.0/8 } }\n"
		  "rules: [ { name: a, match: { endpoint: v, hosts: [11.0.0.1] } } ]\n",
		  "t:3:50: endpoint 'v' has none of these hosts" },
		{ "version: 1\nendpoints: { v: { ports: 1-10 } }\n"
		  "rules: [ { name: a, match: { endpoint: v, ports: [11, 12] } } ]\n",
		  "t:3:50: endpoint 'v' has none of these ports" },
	};

	EXPECT_WRONG(cases);
}

Test(rules, host_names)
{
	static const struct {
		const char *written, *name;
		bool suffix;
	} cases[] = {
		{ "API.OpenAI.com", "api.openai.com", false }, { "api.openai.com.", "api.openai.com", false },
		{ "'*.ML.internal'", "ml.internal", true },    { "localhost", "localhost", false },
		{ "_srv.a-b.c", "_srv.a-b.c", false },         { "'*.x'", "x", true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *source = format(MATCH("{ hosts: [10.0.0.7, %s] }"), cases[i].written);
		struct rules *rules = parse(source);
		const struct endpoint *endpoint = &rules->rules[0].match.endpoint;

		cr_assert_eq(endpoint->names_count, 1);
		cr_expect_eq(endpoint->hosts_count, 1);
		cr_expect_str_eq(endpoint->names[0].name, cases[i].name);
		cr_expect_eq(endpoint->names[0].suffix, cases[i].suffix, "%s", cases[i].written);
		rules_free(rules);
		free(source);
	}
}

/* What an endpoint's names and a rule's have in common. */
Test(rules, host_names_are_narrowed)
{
	struct rules *rules = parse("version: 1\nendpoints: { v: { hosts: ['*.a.test', b.test, c.test] } }\n"
				    "rules: [ { name: a, match: { endpoint: v, hosts: ['*.test', x.a.test, '*.x.a.test'] }, "
				    "fault: { drop: true }, duration: 1m } ]\n");
	const struct endpoint *endpoint = &rules->rules[0].match.endpoint;
	static const char *const names[] = { "x.a.test", "x.a.test", "a.test", "b.test", "c.test" };

	cr_assert_eq(endpoint->names_count, 5);
	for (size_t i = 0; i < 5; i++)
		cr_expect_str_eq(endpoint->names[i].name, names[i]);
	cr_expect(!endpoint->names[0].suffix && endpoint->names[1].suffix && endpoint->names[2].suffix);
	rules_free(rules);
}

Test(rules, wrong_hosts)
{
	static const struct wrong cases[] = {
		{ MATCH("{ hosts: 'api*.openai.com' }"), "t:4:19: invalid host name 'api*.openai.com': a '*' stands in front "
							 "of a dot and nowhere else: '*.example.com'" },
		{ MATCH("{ hosts: '*' }"), "t:4:19: invalid host name '*': a '*' stands in front of a dot and nowhere else: "
					   "'*.example.com'" },
		{ MATCH("{ hosts: '*.' }"),
		  "t:4:19: invalid host name '*.': a '*' stands in front of a name: '*.example.com'" },
		{ MATCH("{ hosts: a..b }"), "t:4:19: invalid host name 'a..b': a name has something between its dots" },
		{ MATCH("{ hosts: -a.b }"), "t:4:19: invalid host name '-a.b': no part of a name begins or ends with '-'" },
		{ MATCH("{ hosts: b\303\274cher.test }"),
		  "t:4:19: invalid host name 'b\303\274cher.test': write it as DNS has it (xn--...)" },
		{ MATCH("{ hosts: a23456789a23456789a23456789a23456789a23456789a23456789a23456789b.b }"),
		  "t:4:19: invalid host name 'a23456789a23456789a23456789a23456789a23456789a23456789a23456789b.b': a part of a "
		  "name has at most 63 characters" },
		{ "version: 1\nendpoints: { v: { hosts: '*.a.test' } }\n"
		  "rules: [ { name: a, match: { endpoint: v, hosts: b.test } } ]\n",
		  "t:3:50: endpoint 'v' has none of these hosts" },
		{ MATCH("{ hosts: 10.0.0.7/16 }"),
		  "t:4:19: host '10.0.0.7/16' has bits set beyond its prefix; the network is 10.0.0.0/16" },
		{ MATCH("{ hosts: 2001:db8::1/32 }"),
		  "t:4:19: host '2001:db8::1/32' has bits set beyond its prefix; the network is 2001:db8::/32" },
		{ MATCH("{ hosts: 10.0.0.0/33 }"), "t:4:19: invalid prefix in host '10.0.0.0/33', expected /0 to /32" },
		{ MATCH("{ hosts: 10.0.0.0/08 }"), "t:4:19: invalid prefix in host '10.0.0.0/08', expected /0 to /32" },
		{ MATCH("{ hosts: 10.0.0.0/ }"), "t:4:19: invalid prefix in host '10.0.0.0/', expected /0 to /32" },
		{ MATCH("{ hosts: 'fe80::/129' }"),
		  "t:4:19: invalid prefix in host 'fe80::/129', expected /0 to /128" },
		{ MATCH("{ hosts: '::/0' }"),
		  "t:4:19: host '::/0' would hold every IPv4 address too; 2000::/3 is the IPv6 internet" },
		{ MATCH("{ hosts: 0.0.0.0 }"),
		  "t:4:19: host '0.0.0.0' is no peer's address; leave 'hosts' out for any address" },
		{ MATCH("{ hosts: '::' }"),
		  "t:4:19: host '::' is no peer's address; leave 'hosts' out for any address" },
		{ MATCH("{ hosts: 10.0.0.7:6333 }"),
		  "t:4:19: invalid host '10.0.0.7:6333', the port belongs under 'ports'" },
		{ MATCH("{ hosts: qdrant:6333 }"),
		  "t:4:19: invalid host 'qdrant:6333', the port belongs under 'ports'" },
		{ MATCH("{ hosts: '[::1]:6333' }"),
		  "t:4:19: invalid host '[::1]:6333', the port belongs under 'ports'" },
		{ MATCH("{ hosts: '[::1]' }"), "t:4:19: invalid host '[::1]', write an IPv6 address without brackets" },
		{ MATCH("{ hosts: 'fe80::1%eth0' }"),
		  "t:4:19: invalid host 'fe80::1%eth0', write a link-local address without its device" },
		{ MATCH("{ hosts: '2001:0db8:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000' }"),
		  "t:4:19: invalid host '2001:0db8:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000', expected an "
		  "IPv4 or IPv6 "
		  "address, a network such as 10.1.0.0/16, or a name" },
		{ MATCH("{ hosts: 10.0.0 }"),
		  "t:4:19: invalid host '10.0.0', expected an IPv4 or IPv6 address, a network such as 10.1.0.0/16, or a name" },
		{ MATCH("{ hosts: 10.0.0.010 }"), "t:4:19: invalid host '10.0.0.010', expected an IPv4 or IPv6 "
						  "address, a network such as 10.1.0.0/16, or a name" },
		{ MATCH("{ hosts: 10.0.0.256 }"), "t:4:19: invalid host '10.0.0.256', expected an IPv4 or IPv6 "
						  "address, a network such as 10.1.0.0/16, or a name" },
		{ MATCH("{ hosts: http://a/ }"), "t:4:19: invalid host 'http://a/', expected an IPv4 or IPv6 address, "
						 "a network such as 10.1.0.0/16, or a name" },
		{ MATCH("{ hosts: { a: 1 } }"),
		  "t:4:19: 'hosts' is a map, expected an IPv4 or IPv6 address, a network such as 10.1.0.0/16, or a name" },
		{ MATCH("{ hosts: [] }"), "t:4:19: 'hosts' is an empty list" },
		{ MATCH("{ hosts: [[10.0.0.1]] }"),
		  "t:4:20: 'hosts' is a list, expected an IPv4 or IPv6 address, a network such as 10.1.0.0/16, or a name" },
	};

	EXPECT_WRONG(cases);
}

Test(rules, wrong_ports)
{
	static const char *const ports[] = { "0",
					     "65536",
					     "0443",
					     "0x1bb",
					     "-1",
					     "1-",
					     "1-2-3",
					     "http",
					     "1 - 2",
					     "80/tcp",
					     "1-65536",
					     "0-10",
					     "99999999999999999999" };
	static const struct wrong cases[] = {
		{ MATCH("{ ports: 10-9 }"), "t:4:19: port range '10-9' runs backwards" },
		{ MATCH("{ ports: {} }"),
		  "t:4:19: 'ports' is a map, expected a port from 1 to 65535 or a range such as 9000-9010" },
		{ MATCH("{ ports: [] }"), "t:4:19: 'ports' is an empty list" },
		{ MATCH("{ ports: [1, ~] }"),
		  "t:4:23: 'ports' has no value, expected a port from 1 to 65535 or a range such as 9000-9010" },
	};

	EXPECT_WRONG(cases);
	for (size_t i = 0; i < COUNT(ports); i++) {
		char *source = format(MATCH("{ ports: [%s] }"), ports[i]);
		char *message = format("t:4:20: invalid port '%s', expected a port from 1 to 65535 or a range such as "
				       "9000-9010",
				       ports[i]);
		const struct wrong wrong = { source, message };

		expect_wrong(wrong.source, wrong.message);
		free(source);
		free(message);
	}
}

Test(rules, wrong_match)
{
	static const char everything[] =
		"t:4:10: this names no address, port, cgroup, pid, process or user and would hit "
		"everything; name something, or say 'everything: true'";
	static const struct wrong cases[] = {
		{ MATCH("{}"), everything },
		{ MATCH("{ side: client, protocol: tcp, direction: request }"), everything },
		{ MATCH("{ everything: false }"), everything },
		{ MATCH("{ hosts: 0.0.0.0/0 }"), everything },
		{ MATCH("{ hosts: [10.0.0.1, 0.0.0.0/0], ports: 1-65535 }"), everything },
		{ MATCH(""), "t:4:9: 'match' has no value, expected a map with the keys of a match" },
		{ MATCH("[]"), "t:4:10: 'match' is a list, expected a map with the keys of a match" },
		{ MATCH("{ everything: true, ports: 1 }"),
		  "t:4:24: 'everything: true' contradicts 'ports', leave one of them out" },
		{ MATCH("{ everything: true, cgroup: a }"),
		  "t:4:24: 'everything: true' contradicts 'cgroup', leave one of them out" },
		{ MATCH("{ everything: yes }"),
		  "t:4:24: invalid everything 'yes', yes and no are written true and false" },
		{ MATCH("{ everything: True }"),
		  "t:4:24: invalid everything 'True', yes and no are written true and false" },
		{ MATCH("{ include-ssh: on }"),
		  "t:4:25: invalid include-ssh 'on', yes and no are written true and false" },
		{ MATCH("{ include-ssh: 1 }"), "t:4:25: invalid include-ssh '1', expected true or false" },
		{ MATCH("{ include-ssh: [true] }"), "t:4:25: 'include-ssh' is a list, expected true or false" },
		{ MATCH("{ protocol: icmp }"), "t:4:22: unknown protocol 'icmp', expected tcp or udp" },
		{ MATCH("{ protocol: [tcp, TCP] }"), "t:4:28: unknown protocol 'TCP', did you mean 'tcp'?" },
		{ MATCH("{ protocol: [] }"), "t:4:22: 'protocol' is an empty list" },
		{ MATCH("{ side: sever }"), "t:4:18: unknown side 'sever', did you mean 'server'?" },
		{ MATCH("{ side: unknown }"), "t:4:18: unknown side 'unknown', expected client or server" },
		{ MATCH("{ side: [client] }"), "t:4:18: 'side' is a list, expected client or server" },
		{ MATCH("{ direction: up }"), "t:4:23: unknown direction 'up', expected request, response or both" },
		{ MATCH("{ pid: 0 }"), "t:4:17: invalid pid '0', expected a whole number from 1 to 4194304" },
		{ MATCH("{ pid: -1 }"), "t:4:17: invalid pid '-1', expected a whole number from 1 to 4194304" },
		{ MATCH("{ pid: 4194305 }"),
		  "t:4:17: invalid pid '4194305', expected a whole number from 1 to 4194304" },
		{ MATCH("{ pid: 042 }"), "t:4:17: invalid pid '042', expected a whole number from 1 to 4194304, in "
					 "decimal and without a leading "
					 "zero" },
		{ MATCH("{ pid: [1] }"), "t:4:17: 'pid' is a list, expected a whole number from 1 to 4194304" },
		{ MATCH("{ pid: 1 }"), "t:4:17: pid '1' is every process's ancestor; leave 'pid' out" },
		{ MATCH("{ cgroup: / }"), "t:4:20: cgroup '/' holds every process; leave 'cgroup' out" },
		{ MATCH("{ cgroup: // }"), "t:4:20: cgroup '//' holds every process; leave 'cgroup' out" },
		{ MATCH("{ cgroup: a/../b }"), "t:4:20: invalid cgroup 'a/../b', '.', '..' and '//' are not allowed" },
		{ MATCH("{ cgroup: .. }"), "t:4:20: invalid cgroup '..', '.', '..' and '//' are not allowed" },
		{ MATCH("{ cgroup: a/. }"), "t:4:20: invalid cgroup 'a/.', '.', '..' and '//' are not allowed" },
		{ MATCH("{ cgroup: a//b }"), "t:4:20: invalid cgroup 'a//b', '.', '..' and '//' are not allowed" },
		{ MATCH("{ cgroup: /sys/fs/cgroup/a }"),
		  "t:4:20: cgroup '/sys/fs/cgroup/a': leave out /sys/fs/cgroup, the path begins below it" },
		{ MATCH("{ container: a b }"),
		  "t:4:23: invalid container 'a b', expected a container's name or id, such as rag-api" },
		{ MATCH("{ container: -a }"),
		  "t:4:23: invalid container '-a', expected a container's name or id, such as rag-api" },
		{ MATCH("{ unit: a/b }"), "t:4:18: invalid unit 'a/b', expected a unit's name, such as rag.service" },
		{ MATCH("{ pod: rag }"), "t:4:17: invalid pod 'rag', expected namespace/name, or a pod's UID" },
		{ MATCH("{ pod: a/b/c }"), "t:4:17: invalid pod 'a/b/c', expected namespace/name, or a pod's UID" },
		{ MATCH("{ pod: a/ }"), "t:4:17: invalid pod 'a/', expected namespace/name, or a pod's UID" },
		{ MATCH("{ cgroup: a, unit: b }"),
		  "t:4:23: 'cgroup' and 'unit' both say which cgroup, leave one of them out" },
		{ MATCH("{ pod: a/b, cgroup: a }"),
		  "t:4:12: 'cgroup' and 'pod' both say which cgroup, leave one of them out" },
		{ MATCH("{ unit: a, container: b }"),
		  "t:4:21: 'unit' and 'container' both say which cgroup, leave one of them out" },
		{ MATCH("{ everything: true, pod: a/b }"),
		  "t:4:24: 'everything: true' contradicts 'pod', leave one of them out" },
		{ MATCH("{ cgroup: [a, b] }"),
		  "t:4:20: 'cgroup' is a list, expected a cgroup's path such as system.slice/rag.service" },
		{ MATCH("{ process: gunicorn-worker-main }"),
		  "t:4:21: process 'gunicorn-worker-main' is too long, the kernel keeps 15 characters of a name: write "
		  "'gunicorn-worker'" },
		{ MATCH("{ process: a-name-of-16-ccc }"),
		  "t:4:21: process 'a-name-of-16-ccc' is too long, the kernel keeps 15 characters of a name: write "
		  "'a-name-of-16-cc'" },
		{ MATCH("{ process: '*a-name-of-16-ccc' }"),
		  "t:4:21: process '*a-name-of-16-ccc' is too long, the kernel keeps 15 characters of a name" },
		{ MATCH("{ process: a-name-of-14-c\xc3\xa4\xc3\xa4 }"),
		  "t:4:21: process 'a-name-of-14-c\xc3\xa4\xc3\xa4' is too long, the kernel keeps 15 characters of a "
		  "name: "
		  "write 'a-name-of-14-c*'" },
		{ MATCH("{ process: 'gunicorn-*-worker-main' }"),
		  "t:4:21: process 'gunicorn-*-worker-main' is too long, the kernel keeps 15 characters of a name" },
		{ MATCH("{ process: '**' }"), "t:4:21: process '**' holds every process; leave 'process' out" },
		{ MATCH("{ process: /usr/bin/python3 }"),
		  "t:4:21: invalid process '/usr/bin/python3', write the name without its path" },
		{ MATCH("{ process: '' }"),
		  "t:4:21: 'process' is empty, expected a process's name such as gunicorn or \"gunicorn*\"" },
		{ MATCH("{ user: 4294967295 }"),
		  "t:4:18: invalid user '4294967295', expected a whole number from 0 to 4294967294" },
		{ MATCH("{ user: 'a:b' }"), "t:4:18: invalid user 'a:b', expected a user's name or number" },
		{ MATCH("{ user: }"), "t:4:18: 'user' has no value, expected a user's name or number" },
	};

	EXPECT_WRONG(cases);
}

Test(rules, wrong_faults)
{
	static const struct wrong cases[] = {
		{ FAULT("{}"), "t:5:10: no fault here, expected one such as drop, delay, refuse or reset" },
		{ FAULT(""), "t:5:9: 'fault' has no value, expected a map such as { delay: 8s }" },
		{ FAULT("delay 8s"), "t:5:10: 'fault' is a single value, expected a map such as { delay: 8s }" },
		{ FAULT("{ delay: 8 }"),
		  "t:5:19: invalid delay '8', it has no unit; expected a duration such as 500ms, 8s or 1m30s" },
		{ FAULT("{ delay: 8 s }"),
		  "t:5:19: invalid delay '8 s', expected a duration such as 500ms, 8s or 1m30s" },
		{ FAULT("{ delay: 0s }"), "t:5:19: delay '0s' does nothing, it must be more than 0" },
		{ FAULT("{ delay: 601s }"), "t:5:19: delay '601s' is too long, at most 10 min" },
		{ FAULT("{ delay: 999999999999999d }"),
		  "t:5:19: delay '999999999999999d' is too long, at most 10 min" },
		{ FAULT("{ delay: [8s] }"),
		  "t:5:19: 'delay' is a list, expected a duration such as 500ms, 8s or 1m30s" },
		{ FAULT("{ delay: 1s, jitter: 2s }"), "t:5:31: jitter '2s' is longer than the delay, '1s'" },
		{ FAULT("{ delay: 1s, jitter: 0s }"), "t:5:31: jitter '0s' does nothing, it must be more than 0" },
		{ FAULT("{ delay: 6m, jitter: 5m }"), "t:5:31: delay and jitter '5m' together are longer than 10 min" },
		{ FAULT("{ delay: 6m, jitter: 61s, distribution: normal }"),
		  "t:5:31: delay and four times the jitter '61s' together are longer than 10 min" },
		{ FAULT("{ jitter: 1s }"), "t:5:12: 'jitter' needs 'delay'" },
		{ FAULT("{ drop: true, distribution: normal }"), "t:5:24: 'distribution' needs 'jitter'" },
		{ FAULT("{ delay: 1s, jitter: 1s, distribution: gauss }"),
		  "t:5:49: unknown distribution 'gauss', expected uniform, normal or pareto" },
		{ FAULT("{ drop: false }"), "t:5:18: 'drop: false' does nothing, leave it out" },
		{ FAULT("{ drop: yes }"),
		  "t:5:18: invalid drop 'yes', expected true, or each packet's chance such as 5%" },
		{ FAULT("{ drop: 101% }"),
		  "t:5:18: invalid drop '101%', expected true, or each packet's chance such as 5%" },
		{ FAULT("{ drop: [true] }"),
		  "t:5:18: 'drop' is a list, expected true, or each packet's chance such as 5%" },
		{ FAULT("{ drop: 0% }"), "t:5:18: drop '0%' does nothing, it must be more than 0" },
		{ FAULT("{ refuse: reset }"),
		  "t:5:20: unknown refuse 'reset', expected refused, timeout, unreachable or "
		  "denied" },
		{ FAULT("{ refuse: refuse }"), "t:5:20: unknown refuse 'refuse', did you mean 'refused'?" },
		{ FAULT("{ refuse: true }"),
		  "t:5:20: unknown refuse 'true', expected refused, timeout, unreachable or denied" },
		{ FAULT("{ reset: false }"), "t:5:19: 'reset: false' does nothing, leave it out" },
		{ FAULT("{ reset: {} }"), "t:5:19: 'reset' takes 'true' or { inside: true }" },
		{ FAULT("{ reset: { inside: false } }"), "t:5:29: 'inside: false' does nothing, leave it out" },
		{ FAULT("{ reset: { insde: true } }"), "t:5:21: unknown key 'insde', did you mean 'inside'?" },
		{ DOC("{ ports: 1, protocol: udp }", "{ reset: { inside: true } }", ""),
		  "t:4:32: 'reset' is for tcp only, udp has no connection to reset" },
		{ FAULT("{ reset: on }"), "t:5:19: invalid reset 'on', yes and no are written true and false" },
		{ FAULT("{ drop: 5%, refuse: refused }"),
		  "t:5:22: 'refuse' goes with no other fault: a connection that is refused has no packets" },
		{ FAULT("{ accept-silence: false }"), "t:5:28: 'accept-silence: false' does nothing, leave it out" },
		{ FAULT("{ accept-silenc: true }"), "t:5:12: unknown key 'accept-silenc', did you mean 'accept-silence'?" },
		{ FAULT("{ delay: 1s, accept-silence: true }"),
		  "t:5:23: 'accept-silence' goes with no other fault: nothing is said on a silent connection" },
		{ DOC("{ ports: 1 }", "{ accept-silence: true }", "  per: request\n"),
		  "t:7:8: 'per: request' makes no sense with 'accept-silence', decided once for each connection" },
		{ DOC("{ ports: 1, protocol: udp }", "{ accept-silence: true }", ""),
		  "t:4:32: 'accept-silence' is for tcp only, udp has no connection to accept" },
		{ DOC("{ ports: 1, direction: request }", "{ accept-silence: true }", ""),
		  "t:4:33: 'direction' makes no sense with 'accept-silence', use 'drop: true'" },
		{ FAULT("{ tls-stall: true, delay: 1s }"),
		  "t:5:12: 'tls-stall' goes with no other fault: nothing is said before the handshake" },
		{ DOC("{ ports: 1, protocol: udp }", "{ tls-stall: true }", ""),
		  "t:4:32: 'tls-stall' is for tcp only, udp has no TLS handshake of its own" },
		{ FAULT("{ half-open: {} }"), "t:5:23: 'half-open' needs 'idle', as in { idle: 120s }" },
		{ FAULT("{ half-open: true }"), "t:5:23: invalid half-open 'true', expected a duration such as 500ms, 8s or 1m30s" },
		{ FAULT("{ half-open: { idle: 0s } }"), "t:5:31: idle '0s' forgets every connection at once, it must be more than 0" },
		{ FAULT("{ half-open: { idle: 5s, how: close } }"),
		  "t:5:40: invalid how 'close': a connection that was forgotten is answered by 'reset', or not ('stall')" },
		{ DOC("{ ports: 1, side: server }", "{ half-open: { idle: 5s, how: reset } }", ""),
		  "t:4:28: 'how: reset' of 'half-open' is for the client" },
		{ FAULT("{ half-open: { idel: 1s } }"), "t:5:25: unknown key 'idel', did you mean 'idle'?" },
		{ FAULT("{ drop: true, half-open: 1m }"),
		  "t:5:24: 'half-open' and 'drop: true' contradict each other: no connection gets as far" },
		{ FAULT("{ drop: true, reset: true }"),
		  "t:5:24: 'reset' and 'drop: true' contradict each other: the client would not hear of it" },
		{ FAULT("{ drop: true, delay: 1s }"),
		  "t:5:24: 'delay' and 'drop: true' contradict each other: nothing arrives that could be late" },
		{ DOC("{ ports: 1 }", "{ refuse: refused }", "  per: packet\n"),
		  "t:7:8: 'per: packet' makes no sense with 'refuse', decided once for each connection" },
		{ DOC("{ ports: 1 }", "{ refuse: refused }", "  per: request\n"),
		  "t:7:8: 'per: request' makes no sense with 'refuse', decided once for each connection" },
		{ DOC("{ ports: 1, side: server }", "{ refuse: refused }", ""),
		  "t:4:28: 'refuse' is for the client; the server has 'drop' and 'reset'" },
		{ DOC("{ ports: 1, direction: request }", "{ refuse: refused }", ""),
		  "t:4:33: 'direction' makes no sense with 'refuse': no packet is ever sent" },
		{ DOC("{ ports: 1, direction: response }", "{ delay: 1s }", "  per: packet\n"),
		  "t:7:8: packets that arrive are not held one by one: leave 'per: packet' out, or use 'direction: request', "
		  "or 'side: server' at the other end" },
		{ DOC("{ ports: 1, direction: response, protocol: udp }", "{ delay: 1s }", ""),
		  "t:4:53: 'delay' of packets that arrive is for tcp only: leave udp out, or name the other end" },
		{ DOC("{ ports: 1, side: server, direction: request }", "{ delay: 1s }", ""),
		  "t:4:47: the request is not delayed at the server; a delayed response looks the same from outside: "
		  "use "
		  "'direction: response', or 'side: client' at the other end" },
		{ DOC("{ ports: 1, protocol: udp }", "{ reset: true }", ""),
		  "t:4:32: 'reset' is for tcp only, udp has no connection to reset" },
		{ DOC("{ ports: 1, protocol: [tcp, udp] }", "{ reset: true }", ""),
		  "t:4:32: 'reset' is for tcp only, udp has no connection to reset" },
	};

	EXPECT_WRONG(cases);
}

Test(rules, wrong_limits)
{
	static const char rate[] = "expected a number for each second, minute or hour, such as 5/s, 10/m or 100/h";
	static const char *const rates[] = {
		"5", "5/d", "5/sec", "/s", "5/", "05/s", "5 / s", "-5/s", "5s", "1.5/s", "123456789012345678901234/s"
	};
	static const struct wrong cases[] = {
		{ RULE("  max-rate: 0/s\n"), "t:7:13: max-rate '0/s' is out of range, expected 1 to 1000000" },
		{ RULE("  max-rate: 1000001/s\n"),
		  "t:7:13: max-rate '1000001/s' is out of range, expected 1 to 1000000" },
		{ RULE("  max-rate: {}\n"),
		  "t:7:13: 'max-rate' is a map, expected a number for each second, minute or hour, such "
		  "as 5/s, 10/m or 100/h" },
		{ RULE("  max-hits: 0\n"),
		  "t:7:13: invalid max-hits '0', expected a whole number from 1 to 1000000000000" },
		{ RULE("  max-hits: 1000000000001\n"),
		  "t:7:13: invalid max-hits '1000000000001', expected a whole number from 1 to 1000000000000" },
		{ RULE("  max-hits: 1e3\n"),
		  "t:7:13: invalid max-hits '1e3', expected a whole number from 1 to 1000000000000" },
		{ RULE("  percent: 101\n"),
		  "t:7:12: invalid percent '101', expected a percentage from 0 to 100, such as 30 or 0.5%" },
		{ RULE("  percent: -1\n"),
		  "t:7:12: invalid percent '-1', expected a percentage from 0 to 100, such as 30 or 0.5%" },
		{ RULE("  percent: [1]\n"),
		  "t:7:12: 'percent' is a list, expected a percentage from 0 to 100, such as 30 or 0.5%" },
		{ RULE("  per: conection\n"), "t:7:8: unknown per 'conection', did you mean 'connection'?" },
		{ RULE("  per: byte\n"), "t:7:8: unknown per 'byte', expected connection, packet, request or call" },
		{ RULE("  seed: -1\n"),
		  "t:7:9: invalid seed '-1', expected a whole number from 0 to 18446744073709551615" },
		{ RULE("  seed: 18446744073709551616\n"),
		  "t:7:9: invalid seed '18446744073709551616', expected a whole "
		  "number from 0 to 18446744073709551615" },
		{ RULE("  start-after: 8d\n"), "t:7:16: start-after '8d' is too long, at most 7 d" },
		{ RULE("defaults: { duration: 0s }\n"),
		  "t:7:23: duration '0s' is over at once, it must be more than 0" },
		{ RULE("defaults: { duration: 169h }\n"), "t:7:23: duration '169h' is too long, at most 7 d" },
		{ RULE("defaults: 5m\n"),
		  "t:7:11: 'defaults' is a single value, expected a map such as { duration: 5m }" },
		{ "version: 1\nrules:\n- name: a\n  match: { ports: 1 }\n  fault: { drop: true }\n",
		  "t:3:3: rule 'a' has no end; give it a 'duration', put one under 'defaults', or use --duration" },
		{ "version: 1\nrules:\n- name: a\n  match: { ports: 1 }\n", "t:3:3: rule 'a' has no fault" },
		{ "version: 1\nrules:\n- name: a\n  fault: { drop: true }\n",
		  "t:3:3: rule 'a' has no match and would hit everything; name something, or say 'everything: true' in "
		  "one" },
	};

	EXPECT_WRONG(cases);
	for (size_t i = 0; i < COUNT(rates); i++) {
		char *source = format(RULE("  max-rate: %s\n"), rates[i]);
		char *message = format("t:7:13: invalid max-rate '%s', %s", rates[i], rate);
		const struct wrong wrong = { source, message };

		expect_wrong(wrong.source, wrong.message);
		free(source);
		free(message);
	}
}

Test(rules, wrong_windows)
{
	static const char *const times[] = { "02:00",         "2-4",         "02:00-",      "-04:00",
					     "24:00-25:00",   "02:60-04:00", "02:00-24:01", "02:00-4:0",
					     "02:00-04:000",  "25:00-26:00", "24:00-02:00", "02:00-04:00 x",
					     "020:00-04:00",  "02.00-04.00", "24:30-25:00", "02:00-25:00",
					     "02:00 to 04:00" };
	static const struct wrong cases[] = {
		{ RULE("  between: 02:00-02:00\n"),
		  "t:7:12: between '02:00-02:00' is empty; leave it out for the whole day" },
		{ RULE("  between: [02:00-04:00]\n"),
		  "t:7:12: 'between' is a list, expected local times such as \"02:00-04:00\"" },
		{ RULE("  days: monday\n"), "t:7:9: unknown day 'monday', did you mean 'mon'?" },
		{ RULE("  days: [mon, Tue]\n"), "t:7:15: unknown day 'Tue', did you mean 'tue'?" },
		{ RULE("  days: mon-fri\n"),
		  "t:7:9: unknown day 'mon-fri', expected mon, tue, wed, thu, fri, sat or sun, or a list of them" },
		{ RULE("  days: someday\n"),
		  "t:7:9: unknown day 'someday', expected mon, tue, wed, thu, fri, sat or sun, or a list of them" },
		{ RULE("  days: []\n"), "t:7:9: 'days' is an empty list" },
		{ RULE("  days: { mon: true }\n"), "t:7:9: 'days' is a map, expected a day such as mon" },
	};

	EXPECT_WRONG(cases);
	for (size_t i = 0; i < COUNT(times); i++) {
		char *source = format(RULE("  between: '%s'\n"), times[i]);
		char *message =
			format("t:7:12: invalid between '%s', expected local times such as \"02:00-04:00\"", times[i]);
		const struct wrong wrong = { source, message };

		expect_wrong(wrong.source, wrong.message);
		free(source);
		free(message);
	}
}

/* ---- limits ---- */

/* `head`, then `part` with the numbers 0 to count - 1 for its %zu, then `tail`. */
static char *repeat(const char *head, const char *part, size_t count, const char *tail)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	fputs(head, out);
	for (size_t i = 0; i < count; i++) {
		const char *number = strstr(part, "%zu");

		if (number)
			fprintf(out, "%.*s%zu%s", (int)(number - part), part, i, number + 3);
		else
			fputs(part, out);
	}
	fputs(tail, out);
	fclose(out);
	return text;
}

static void expect_limit(char *source, const char *message)
{
	struct error err = { 0 };
	struct rules *rules;

	rules_parse("t", source, strlen(source), NULL, &rules, &err);
	cr_expect_str_eq(err.text, message, "got: %s\nexpected: %s", err.text, message);
	rules_free(rules);
	free(source);
}

#define ONE_RULE    "- { name: r%zu, match: { ports: 1 }, fault: { drop: true }, duration: 1m }\n"
#define ONE_PATTERN "- { name: r%zu, match: { process: 'p%zu*' }, fault: { drop: true }, duration: 1m }\n"

Test(rules, limits)
{
	static const char rules[] = "version: 1\nrules:\n", hosts[] = "version: 1\nrules: [ { match: { hosts: [";
	char *depth = repeat("", "[", 16, ""), *deeper = repeat("", "[", 17, "");

	expect_limit(repeat(rules, ONE_RULE, 1024, ""), "");
	expect_limit(repeat(rules, ONE_RULE, 1025, ""), "t:1027:3: 'rules' has more than 1024 entries");
	expect_limit(repeat(hosts, "10.0.0.1,\n", 1024, "] }, name: a, fault: { drop: true }, duration: 1m } ]"), "");
	expect_limit(repeat(hosts, "10.0.0.1,\n", 1025, "] } } ]"), "t:1026:1: 'hosts' has more than 1024 entries");
	expect_limit(repeat("version: 1\nendpoints:\n", "  e%zu: { ports: 1 }\n", 256, ""),
		     "t:1:1: the rules are missing, write 'rules:' and a list below it");
	expect_limit(repeat("version: 1\nendpoints:\n", "  e%zu: { ports: 1 }\n", 257, ""),
		     "t:259:3: 'endpoints' has more than 256 entries");
	expect_limit(format("%s%s", depth, "\n"),
		     "t:2:1: not valid YAML: a value is missing, or needs quotes as '::1' does");
	expect_limit(format("%s%s", deeper, "\n"), "t:1:17: nested deeper than 16 levels");
	expect_limit(repeat("# ", "x", RULES_MAX_FILE_SIZE, ""), "t:1:1: the file is larger than 1 MiB");
	expect_limit(repeat("version: 1\nrules: [ { match: { cgroup: ", "a", 511,
			    " }, name: a, fault: { drop: true }, "
			    "duration: 1m } ]"),
		     "");
	expect_limit(repeat("version: 1\nrules: [ { match: { cgroup: ", "a", 512, " } } ]"),
		     "t:2:29: text of 512 bytes, at most 511 are allowed");
	free(depth);
	free(deeper);
}

Test(rules, too_many_values)
{
	char *list = repeat("- [", "1,", 1000, "]\n");
	char *source = repeat("", list, 101, "");

	free(list);
	expect_limit(source, "t:100:1802: more than 100000 values in the file");
}

Test(rules, too_many_patterns)
{
	char *source = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&source, &len);

	fputs("version: 1\nrules:\n", out);
	for (int i = 0; i < 66; i++) /* the last two share theirs with others */
		fprintf(out, "- { name: r%d, match: { process: 'p%d*' }, fault: { drop: true }, duration: 1m }\n", i,
			i % 64);
	fflush(out);
	rules_free(parse(source));
	fputs("- { name: one-more, match: { process: 'q*' }, fault: { drop: true }, duration: 1m }\n", out);
	fclose(out);
	expect_limit(source, "t:69:39: more than 64 different patterns with '*' under 'process'");
}

/* ---- files ---- */

static void expect_load_error(const char *path, const char *message)
{
	struct error err = { 0 };
	struct rules *rules;

	cr_expect_lt(rules_load(path, NULL, &rules, &err), 0);
	cr_expect_null(rules);
	cr_expect_eq(err.exit, EXIT_USAGE);
	cr_expect_str_eq(err.text, message, "got: %s\nexpected: %s", err.text, message);
}

Test(rules, files_that_cannot_be_read)
{
	expect_load_error("tests/data/no-such-file.yaml",
			  "cannot open 'tests/data/no-such-file.yaml': No such file or directory");
	expect_load_error("tests/data", "cannot read 'tests/data': Is a directory");
	expect_load_error("/dev/zero", "/dev/zero:1:1: the file is larger than 1 MiB");
	expect_load_error("/dev/null", "/dev/null:1:1: the file holds no rules");
	expect_load_error("tests/data/rules/misspelled.yaml",
			  "tests/data/rules/misspelled.yaml:6:7: unknown key 'dealy', did you mean 'delay'?");
}

Test(rules, standard_input)
{
	int fd = open("tests/data/rules/every-key.yaml", O_RDONLY);
	struct error err = { 0 };
	struct rules *rules;

	cr_assert_geq(fd, 0);
	cr_assert_eq(dup2(fd, STDIN_FILENO), STDIN_FILENO);
	cr_assert_eq(rules_load("-", NULL, &rules, &err), 0, "%s", err.text);
	cr_expect_str_eq(rules->file, "<stdin>");
	cr_expect_geq(rules->count, 4);
	rules_free(rules);
	expect_load_error("-", "<stdin>:1:1: the file holds no rules");
	close(fd);
}

/* Each rule file that we hand out is right, has an end, says what it is for, and is in the table of the README. */
Test(rules, the_files_of_rules)
{
	static char readme[64 * 1024];
	FILE *in = fopen("rules/README.md", "r");
	glob_t found;

	cr_assert_not_null(in);
	cr_assert_gt(fread(readme, 1, sizeof(readme) - 1, in), 0);
	fclose(in);
	cr_assert_eq(glob("rules/*.yaml", 0, NULL, &found), 0);
	cr_expect_geq(found.gl_pathc, 10);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		const char *path = found.gl_pathv[i], *base = strrchr(path, '/') + 1;
		struct error err = { 0 };
		struct rules *rules;

		cr_assert_eq(rules_load(path, NULL, &rules, &err), 0, "%s", err.text);
		for (size_t k = 0; k < rules->count; k++)
			cr_expect_eq(strncmp(rules->rules[k].name, base, strlen(base) - strlen(".yaml")), 0, "%s", path);
		cr_expect_eq(rules->source[0], '#', "%s begins with what it is for", path);
		cr_expect_gt(rules->rules[0].duration_ns, 0);
		cr_expect_not_null(strstr(readme, base), "%s is in rules/README.md", base);
		rules_free(rules);
	}
	globfree(&found);
}

Test(rules, error_at_a_place)
{
	struct rules rules = { .file = "rules/x.yaml" };
	struct error err = { 0 };

	cr_expect_eq(
		rules_error_at(&rules, (struct mark){ 7, 12 }, &err, EXIT_CANNOT, "unknown errno '%s'", "ENOTREAL"),
		-EINVAL);
	cr_expect_str_eq(err.text, "rules/x.yaml:7:12: unknown errno 'ENOTREAL'");
	cr_expect_eq(err.exit, EXIT_CANNOT);
}

/* The end of a long path says more than its beginning, and the place must not be lost. */
Test(rules, error_in_a_file_with_a_long_name)
{
	struct rules rules = { .file = repeat("/", "directory/", 200, "x.yaml") };
	struct error err = { 0 };

	rules_error_at(&rules, (struct mark){ 7, 12 }, &err, EXIT_USAGE, "wrong");
	cr_expect_eq(strncmp(err.text, "...", 3), 0);
	cr_expect_str_eq(strrchr(err.text, '/'), "/x.yaml:7:12: wrong");
	free(rules.file);
}

Test(rules, free_of_nothing)
{
	rules_free(NULL);
}

Test(rules, wrong_dns)
{
	static const struct wrong cases[] = {
		{ DOC("{ hosts: a.test }", "{ dns: nxdoman }", ""),
		  "t:5:17: unknown dns 'nxdoman', did you mean 'nxdomain'?" },
		{ DOC("{ hosts: 10.0.0.7 }", "{ dns: empty }", ""),
		  "t:4:19: 'dns' is about names that are asked for, not about addresses" },
		{ DOC("{ hosts: a.test }", "{ dns: empty, drop: 5% }", ""),
		  "t:5:12: 'dns' goes with no other fault: it is about questions for names, they about connections" },
		{ DOC("{ hosts: a.test, resolver: true }", "{ drop: 5% }", ""),
		  "t:4:37: 'resolver' is about questions for names, and goes with 'dns' only" },
		{ DOC("{ hosts: a.test, side: server }", "{ dns: empty }", ""),
		  "t:4:33: 'dns' is for the client, which asks for names" },
	};

	EXPECT_WRONG(cases);
}
