// SPDX-License-Identifier: GPL-2.0-only
/* user/rules/explain.c: whole sentences, as a person would read them. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "tests/rule_words.h"


#define COUNT(table) (sizeof(table) / sizeof((table)[0]))
#define RULE(match, fault, more)                                                                          \
	"version: 1\n"                                                                                    \
	"endpoints: { vectors: { hosts: [10.0.0.7, '::1'], ports: [6333] }, gpu: { ports: 8000-8010 },\n" \
	"             db: { hosts: 10.0.0.9 } }\n"                                                        \
	"rules: [ { name: a, match: { " match " }, fault: { " fault " }, duration: 5m" more " } ]\n"

static void expect_sentences(const char *const (*cases)[2], size_t count)
{
	for (size_t i = 0; i < count; i++)
		expect_sentence(cases[i][0], cases[i][1]);
}

Test(explain, everything_at_once)
{
	expect_sentence(
		"version: 1\n"
		"rules:\n"
		"- name: slow-embeddings\n"
		"  match: { cgroup: system.slice/rag.service, hosts: [10.0.0.7, 10.1.0.0/16], ports: 6333 }\n"
		"  fault: { delay: 8s, jitter: 500ms }\n"
		"  percent: 30\n"
		"  max-hits: 10\n"
		"  start-after: 10s\n"
		"  duration: 5m\n"
		"  between: 02:00-04:00\n"
		"  days: [mon, wed]\n",
		"slow-embeddings: requests from processes in cgroup system.slice/rag.service and below to 10.0.0.7 or "
		"10.1.0.0/16, port 6333, take 8 s ± 500 ms longer, once each; on 30 % of the connections; at most 10 "
		"times; starts 10 s after the load and ends after 5 min; on Mondays and Wednesdays between 02:00 and "
		"04:00.");
}

Test(explain, whom)
{
	static const char *const cases[][2] = {
		{ RULE("everything: true", "drop: true", ""),
		  "a: connections from every process to any address go silent; ends after 5 min." },
		{ RULE("container: rag-api", "drop: true", ""),
		  "a: connections from processes in container rag-api to any address go silent; ends after 5 min." },
		{ RULE("container: app, pod: default/rag-0, user: root", "drop: true", ""),
		  "a: connections from processes of user root in container app of pod default/rag-0 to any address go "
		  "silent; ends after 5 min." },
		{ RULE("pod: default/rag-0", "drop: true", ""),
		  "a: connections from processes in pod default/rag-0 to any address go silent; ends after 5 min." },
		{ RULE("unit: rag", "drop: true", ""),
		  "a: connections from processes of unit rag to any address go silent; ends after 5 min." },
		{ RULE("pid: 4242", "drop: true", ""),
		  "a: connections from process 4242 and its children to any address go silent; ends after 5 min." },
		{ RULE("process: 'gunicorn*', user: www-data, cgroup: a/b, pid: 7", "drop: true", ""),
		  "a: connections from process 7 and its children named gunicorn* of user www-data in cgroup a/b and "
		  "below to "
		  "any address go silent; ends after 5 min." },
		{ RULE("user: 1000", "drop: true", ""),
		  "a: connections from processes of user 1000 to any address go silent; ends after 5 min." },
		{ RULE("process: node, include-ssh: true", "drop: true", ""),
		  "a: connections from processes named node to any address go silent, SSH included; ends after 5 "
		  "min." },
	};

	expect_sentences(cases, COUNT(cases));
}

Test(explain, where)
{
	static const char *const cases[][2] = {
		{ RULE("ports: 443", "drop: true", ""),
		  "a: connections from any process to port 443 anywhere go silent; ends after 5 min." },
		{ RULE("ports: [443, 9000-9010]", "drop: true", ""),
		  "a: connections from any process to ports 443 or 9000 to 9010 anywhere go silent; ends after 5 "
		  "min." },
		{ RULE("hosts: '2001:db8::/32'", "drop: true", ""),
		  "a: connections from any process to 2001:db8::/32 go silent; ends after 5 min." },
		{ RULE("endpoint: vectors", "drop: true", ""), "a: connections from any process to vectors (10.0.0.7 "
							       "or ::1, port 6333) go silent; ends after 5 min." },
		{ RULE("endpoint: gpu", "drop: true", ""),
		  "a: connections from any process to gpu (ports 8000 to 8010) go silent; ends after 5 min." },
		{ RULE("endpoint: db", "drop: true", ""),
		  "a: connections from any process to db (10.0.0.9) go silent; ends after 5 min." },
		{ RULE("hosts: [10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4, 10.0.0.5]", "drop: true", ""),
		  "a: connections from any process to 10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4 or 10.0.0.5 go silent; "
		  "ends after "
		  "5 min." },
		{ RULE("ports: [1, 2, 3, 4, 5, 6, 7]", "drop: true", ""),
		  "a: connections from any process to ports 1, 2, 3, 4 or 3 more anywhere go silent; ends after 5 "
		  "min." },
		{ RULE("hosts: [10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4, 10.0.0.5, 10.0.0.6]", "drop: true", ""),
		  "a: connections from any process to 10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4 or 2 more go silent; ends "
		  "after "
		  "5 min." },
		{ RULE("ports: 53, protocol: udp", "drop: true", ""),
		  "a: UDP connections from any process to port 53 anywhere go silent; ends after 5 min." },
		{ RULE("ports: 53, protocol: tcp", "delay: 1s", ""),
		  "a: TCP requests from any process to port 53 anywhere take 1 s longer, once each; ends after 5 "
		  "min." },
	};

	expect_sentences(cases, COUNT(cases));
}

Test(explain, the_server_side)
{
	static const char *const cases[][2] = {
		{ RULE("ports: 8080, side: server", "delay: 1500ms, jitter: 1s, distribution: pareto", ""),
		  "a: responses of any process serving port 8080 take 1.5 s ± 1 s (pareto distribution, at most 5.5 s) "
		  "longer, "
		  "once each; ends after 5 min." },
		{ RULE("endpoint: vectors, cgroup: gpu.slice, side: server", "drop: 5%", ""),
		  "a: connections to processes in cgroup gpu.slice and below serving vectors (10.0.0.7 or ::1, port "
		  "6333) lose "
		  "5 % of their packets; ends after 5 min." },
		{ RULE("hosts: 10.0.0.7, ports: 1, side: server", "drop: true", ""),
		  "a: connections to any process serving 10.0.0.7, port 1, go silent; ends after 5 min." },
		{ RULE("pid: 42, side: server", "reset: true", ""),
		  "a: TCP connections to process 42 and its children as server are reset; ends after 5 min." },
	};

	expect_sentences(cases, COUNT(cases));
}

Test(explain, what)
{
	static const char *const cases[][2] = {
		{ RULE("ports: 1", "delay: 90s", ""), "a: requests from any process to port 1 anywhere take 1 min 30 s "
						      "longer, once each; ends after 5 min." },
		{ RULE("ports: 1", "delay: 2s, jitter: 1s, distribution: normal", ""),
		  "a: requests from any process to port 1 anywhere take 2 s ± 1 s (normal distribution, at most 6 s) "
		  "longer, "
		  "once each; ends after 5 min." },
		{ RULE("ports: 1", "delay: 20ms", ", per: packet, percent: 10"),
		  "a: packets from any process to port 1 anywhere are each held 20 ms; on 10 % of the packets; ends "
		  "after 5 "
		  "min." },
		{ RULE("ports: 1, direction: request", "drop: true", ""),
		  "a: connections from any process to port 1 anywhere go silent towards the server; ends after 5 "
		  "min." },
		{ RULE("ports: 1, direction: response", "drop: 0.5%", ""),
		  "a: connections from any process to port 1 anywhere lose 0.5 % of their packets towards the client; "
		  "ends "
		  "after 5 min." },
		{ RULE("ports: 1", "drop: true", ", per: packet, percent: 3"),
		  "a: connections from any process to port 1 anywhere lose packets; on 3 % of the packets; ends after "
		  "5 min." },
		{ RULE("ports: 1", "refuse: refused", ""), "a: connections from any process to port 1 anywhere fail at "
							   "connect with ECONNREFUSED (refused); ends after "
							   "5 min." },
		{ RULE("ports: 1", "refuse: timeout", ""), "a: connections from any process to port 1 anywhere fail at "
							   "connect with ETIMEDOUT (timeout); ends after 5 "
							   "min." },
		{ RULE("ports: 1", "refuse: unreachable", ""), "a: connections from any process to port 1 anywhere "
							       "fail at connect with ENETUNREACH (unreachable); ends "
							       "after 5 min." },
		{ RULE("ports: 1", "refuse: denied", ""), "a: connections from any process to port 1 anywhere fail at "
							  "connect with EPERM (denied); ends after 5 min." },
		{ RULE("ports: 1, direction: response", "reset: { inside: true }", ""),
		  "a: TCP connections from any process to port 1 anywhere are reset when a response is sent, as far as the process is "
		  "told; ends after 5 min." },
		{ RULE("ports: 1", "reset: true", ""),
		  "a: TCP connections from any process to port 1 anywhere are reset; ends after 5 min." },
		{ RULE("ports: 1", "accept-silence: true", ""),
		  "a: TCP connections from any process to port 1 anywhere are accepted and never answered; ends after 5 min." },
		{ RULE("ports: 1", "half-open: { idle: 350s }, delay: 1s", ""),
		  "a: TCP connections from any process to port 1 anywhere take 1 s longer for each request and are forgotten after 5 "
		  "min 50 s without a packet, and lose all that follows; ends after 5 min." },
		{ RULE("ports: 1", "half-open: { idle: 5s, how: reset }", ""),
		  "a: TCP connections from any process to port 1 anywhere are forgotten after 5 s without a packet, and reset when they "
		  "are used again; ends after 5 min." },
		{ RULE("ports: 1", "break-after: { bytes: 4KiB }", ""),
		  "a: TCP connections from any process to port 1 anywhere are reset after 4096 bytes of what the server says; ends after "
		  "5 min." },
		{ RULE("ports: 1, side: server, direction: request", "break-after: { bytes: 1, how: close }", ""),
		  "a: TCP connections to any process serving port 1 are closed after 1 byte of what the client says; ends after 5 min." },
		{ RULE("ports: 1", "break-after: { chunks: 12 }", ", per: request"),
		  "a: TCP connections from any process to port 1 anywhere are reset after 12 chunks of each response; on all requests; "
		  "ends after 5 min." },
		{ RULE("ports: 1", "break-after: { time: 3s, how: stall }, delay: 1s", ", per: request"),
		  "a: TCP connections from any process to port 1 anywhere take 1 s longer for each request and go silent after 3 s of each "
		  "response; on all requests; ends after 5 min." },
		{ RULE("ports: 1", "tls-stall: true", ""),
		  "a: TCP connections from any process to port 1 anywhere never finish their TLS handshake; ends after 5 min." },
		{ RULE("ports: 1, side: server", "accept-silence: true", ""),
		  "a: TCP connections to any process serving port 1 are accepted and never answered; ends after 5 min." },
		{ RULE("ports: 1, direction: response", "reset: true", ", per: request, percent: 10"),
		  "a: TCP connections from any process to port 1 anywhere are reset when a response is sent; on 10 % "
		  "of the "
		  "requests; ends after 5 min." },
		{ RULE("ports: 1, direction: request", "reset: true", ", per: packet, percent: 1"),
		  "a: TCP connections from any process to port 1 anywhere are reset by packets towards the server; on "
		  "1 % of "
		  "the packets; ends after 5 min." },
		{ RULE("ports: 1", "drop: 1%, delay: 2s, reset: true", ""),
		  "a: TCP connections from any process to port 1 anywhere lose 1 % of their packets, take 2 s longer "
		  "for each "
		  "request and are reset; ends after 5 min." },
		{ RULE("ports: 1", "drop: 1%, delay: 2s", ", per: packet"),
		  "a: connections from any process to port 1 anywhere lose 1 % of their packets and have packets held "
		  "2 s; on "
		  "all packets; ends after 5 min." },
	};

	expect_sentences(cases, COUNT(cases));
}

Test(explain, models_of_loss)
{
	static const char *const cases[][2] = {
		{ RULE("ports: 443", "drop: { every: 10 }", ", seed: 7"),
		  "a: connections from any process to port 443 anywhere lose one packet in 10, exactly; ends after 5 min." },
		{ RULE("ports: 443", "drop: { burst: { loss: 2%, length: 5 } }", ", seed: 7"),
		  "a: connections from any process to port 443 anywhere lose 2 % of their packets, 5 in a row on average; the same "
		  "packets each time (seed 7); ends after 5 min." },
	};

	expect_sentences(cases, COUNT(cases));
}

Test(explain, damage)
{
	static const char *const cases[][2] = {
		{ RULE("ports: 443", "duplicate: 5%", ", seed: 3"),
		  "a: connections from any process to port 443 anywhere have 5 % of their packets doubled; the "
		  "same packets each time (seed 3); ends after 5 min." },
		{ RULE("ports: 443, side: server", "corrupt: true, reorder: { percent: 10, by: 5ms }", ""),
		  "a: connections to any process serving port 443 have all packets damaged and have 10 % of their packets "
		  "overtaken by those sent in the next 5 ms; ends after 5 min." },
		{ RULE("ports: 443, direction: response", "corrupt: 2%", ""),
		  "a: connections from any process to port 443 anywhere have 2 % of their packets towards the client damaged; ends "
		  "after 5 min." },
	};

	expect_sentences(cases, COUNT(cases));
}

Test(explain, paces)
{
	static const char *const cases[][2] = {
		{ RULE("ports: 443", "rate: 1.5mbit", ""),
		  "a: connections from any process to port 443 anywhere carry at most 1.5 Mbit/s each in either direction; ends after 5 min." },
		{ RULE("ports: 443, direction: request", "rate: 1mbit", ""),
		  "a: connections from any process to port 443 anywhere carry at most 1 Mbit/s each towards the server; ends after 5 min." },
		{ RULE("ports: 443", "tokens: 2/s", ""),
		  "a: TCP connections from any process to port 443 anywhere carry an event each 500 ms at most towards the client; ends "
		  "after 5 min." },
		{ RULE("ports: 443, side: server, direction: request", "rate: 1mbit", ""),
		  "a: TCP connections to any process serving port 443 carry at most 1 Mbit/s each towards the server; ends after 5 min." },
		{ RULE("ports: 443, side: server", "tokens: 5/s, rate: 64kbps", ", percent: 30"),
		  "a: connections to any process serving port 443 carry at most 512 kbit/s each in either direction and carry an event each "
		  "200 ms at most towards the client; on 30 % of the connections; ends after 5 min." },
	};

	expect_sentences(cases, COUNT(cases));
}

Test(explain, how_often)
{
	static const char *const cases[][2] = {
		{ RULE("ports: 1", "drop: true", ", percent: 0"),
		  "a: connections from any process to port 1 anywhere go silent; on 0 % of the connections, so never; "
		  "ends "
		  "after 5 min." },
		{ RULE("ports: 1", "drop: true", ", percent: 0.0001, seed: 7, max-hits: 1, max-rate: 1/s"),
		  "a: connections from any process to port 1 anywhere go silent; on 0.0001 % of the connections, the "
		  "same ones "
		  "each time (seed 7); at most once; at most 1 a second; ends after 5 min." },
		{ RULE("ports: 1", "drop: true", ", per: request, max-hits: 2, max-rate: 10/m"),
		  "a: connections from any process to port 1 anywhere go silent; on all requests; at most 2 times; at "
		  "most 10 a "
		  "minute; ends after 5 min." },
		{ RULE("ports: 1", "drop: true", ", max-rate: 100/h, seed: 5"),
		  "a: connections from any process to port 1 anywhere go silent; at most 100 an hour; ends after 5 "
		  "min." },
		{ RULE("ports: 1", "delay: 2s, jitter: 1s", ", seed: 5"),
		  "a: requests from any process to port 1 anywhere take 2 s ± 1 s longer, once each; the same jitter "
		  "each time "
		  "(seed 5); ends after 5 min." },
	};

	expect_sentences(cases, COUNT(cases));
}

Test(explain, when)
{
	static const char *const cases[][2] = {
		{ RULE("ports: 1", "drop: true", ", between: 22:30-04:00"),
		  "a: connections from any process to port 1 anywhere go silent; ends after 5 min; every day between "
		  "22:30 and "
		  "04:00 the next day." },
		{ RULE("ports: 1", "drop: true", ", days: sun"),
		  "a: connections from any process to port 1 anywhere go silent; ends after 5 min; on Sundays." },
		{ RULE("ports: 1", "drop: true", ", days: [sun, sat, tue], start-after: 1h"),
		  "a: connections from any process to port 1 anywhere go silent; starts 1 h after the load and ends "
		  "after 5 min; "
		  "on Tuesdays, Saturdays and Sundays." },
		{ RULE("ports: 1", "drop: true", ", between: 22:00-24:00"),
		  "a: connections from any process to port 1 anywhere go silent; ends after 5 min; every day between "
		  "22:00 and "
		  "24:00." },
		{ RULE("ports: 1", "drop: true", ", between: 00:00-24:00, days: [mon, tue, wed, thu, fri, sat, sun]"),
		  "a: connections from any process to port 1 anywhere go silent; ends after 5 min; every day." },
	};

	expect_sentences(cases, COUNT(cases));
}

/* Whatever the room, the text ends within it and says that it was cut. */
Test(explain, cut_short)
{
	static const char source[] = RULE("ports: 1", "drop: true", "");
	struct error err = { 0 };
	struct rules *rules;
	char whole[256], buf[256];
	size_t len;

	cr_assert_eq(rules_parse("t", source, sizeof(source) - 1, NULL, &rules, &err), 0);
	cr_assert_eq(explain_rule(rules, 0, whole, sizeof(whole)), 0);
	len = strlen(whole);
	for (size_t size = 1; size <= len; size++) {
		memset(buf, '#', sizeof(buf));
		cr_expect_eq(explain_rule(rules, 0, buf, size), -ENOSPC);
		cr_expect_eq(strlen(buf), size - 1);
		cr_expect_eq(strncmp(buf, whole, size - 1), 0);
		cr_expect_eq(buf[size], '#');
	}
	cr_expect_eq(explain_rule(rules, 0, buf, len + 1), 0);
	rules_free(rules);
}

Test(format, duration)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} cases[] = {
		{ 0, "0 s" },
		{ 1, "1 ns" },
		{ 1500, "1.5 us" },
		{ 500000000, "500 ms" },
		{ 1000001, "1.000001 ms" },
		{ 8000000000ULL, "8 s" },
		{ 1500000000ULL, "1.5 s" },
		{ 60000000000ULL, "1 min" },
		{ 150000000000ULL, "2 min 30 s" },
		{ 60050000000ULL, "1 min 50 ms" },
		{ 3600000000000ULL, "1 h" },
		{ 3601000000000ULL, "1 h 1 s" },
		{ 604800000000000ULL, "7 d" },
		{ 93784000000000ULL, "1 d 2 h 3 min 4 s" },
	};
	char buf[64];

	for (size_t i = 0; i < COUNT(cases); i++)
		cr_expect_str_eq(format_duration(buf, sizeof(buf), cases[i].ns), cases[i].text, "%s: %s", cases[i].text,
				 buf);
}

Test(format, percent)
{
	char buf[16];

	cr_expect_str_eq(format_percent(buf, sizeof(buf), 0), "0 %");
	cr_expect_str_eq(format_percent(buf, sizeof(buf), 300000), "30 %");
	cr_expect_str_eq(format_percent(buf, sizeof(buf), 5000), "0.5 %");
	cr_expect_str_eq(format_percent(buf, sizeof(buf), 1), "0.0001 %");
	cr_expect_str_eq(format_percent(buf, sizeof(buf), 1000000), "100 %");
}

Test(format, host)
{
	static const struct {
		const char *address;
		unsigned int prefix_len;
		const char *text;
	} cases[] = {
		{ "::ffff:10.0.0.7", 128, "10.0.0.7" },
		{ "::ffff:10.0.0.0", 104, "10.0.0.0/8" },
		{ "::ffff:0.0.0.0", 96, "0.0.0.0/0" },
		{ "::ffff:0.0.0.0", 80, "::ffff:0.0.0.0/80" },
		{ "::1", 128, "::1" },
		{ "2001:db8::", 32, "2001:db8::/32" },
		{ "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe", 127, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127" },
	};
	char buf[HOST_TEXT_LEN];
	struct host host;

	for (size_t i = 0; i < COUNT(cases); i++) {
		host = (struct host){ .prefix_len = cases[i].prefix_len };
		cr_assert_eq(inet_pton(AF_INET6, cases[i].address, &host.address), 1);
		cr_expect_str_eq(format_host(buf, sizeof(buf), &host), cases[i].text);
	}
}
