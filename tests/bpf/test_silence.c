// SPDX-License-Identifier: GPL-2.0-only
/* Connections that go silent (bpf/silence.bpf.h), between real sockets. */
#include <criterion/criterion.h>

#include "tests/bpf/live.h"

#define SOON 300 /* ms: time enough for what arrives */
#define RULE(match, fault, more) \
	"version: 1\nrules:\n- { name: a, match: { " match " }, fault: { " fault " }, duration: 1h" more " }\n"

TestSuite(silence, .init = live_world, .fini = live_world_ends, .timeout = 120);

static void expect_stats(const struct live *live, uint64_t matched, uint64_t injected, enum chaos_fault fault)
{
	struct chaos_stats s = stats_of_rule(&live->l, 0);

	cr_expect_eq(s.matched, matched, "matched %lu, expected %lu", s.matched, matched);
	cr_expect_eq(s.injected, injected, "injected %lu, expected %lu", s.injected, injected);
	cr_expect_eq(s.faults[fault], injected);
	cr_expect_eq(s.matched, s.injected + skips(&s));
}

#define expect_heard(fd, ms, wanted)                                                                                   \
	do {                                                                                                           \
		int got_ = hears(fd, ms);                                                                              \
		cr_expect_eq(got_, wanted, "heard %d, expected %d", got_, wanted);                                     \
	} while (0)

static void disarm(const struct live *live)
{
	cr_assert_eq(engine_arm(live->l.engine.control_fd, 0), 0);
}

/* What a load finds out about a connection that is older. */
static void seed_side(const struct live *live, int fd, enum chaos_side side)
{
	struct chaos_sock kept;

	cr_assert_eq(bpf_map_lookup_elem(live->l.engine.sock_fd, &fd, &kept), 0);
	kept.side = side;
	kept.known = 1;
	cr_assert_eq(bpf_map_update_elem(live->l.engine.sock_fd, &fd, &kept, BPF_ANY), 0);
}

Test(silence, accepted_and_never_answered)
{
	static const int families[] = { AF_INET, AF_INET6 };
	struct live live;

	go_live(&live, RULE("everything: true", "accept-silence: true", ""));
	for (size_t i = 0; i < COUNT(families); i++) {
		struct ends e = meet(families[i]);

		expect_stats(&live, i, i, CHAOS_ACCEPT_SILENCE);
		say(e.client, "hello", 5);
		say(e.client, "more", 4);
		expect_heard(e.server, SOON, -EAGAIN);
		say(e.server, "unasked", 7);
		expect_heard(e.client, SOON, -EAGAIN);
		expect_stats(&live, i + 1, i + 1, CHAOS_ACCEPT_SILENCE);
		part_company(&e);
	}
	live_ends(&live);
}

Test(silence, what_was_lost_comes_when_it_is_over)
{
	struct live live;
	struct ends e;

	go_live(&live, RULE("everything: true", "accept-silence: true", ""));
	e = meet(AF_INET);
	say(e.client, "hello", 5);
	say(e.server, "greeting", 8);
	expect_heard(e.server, SOON, -EAGAIN);
	disarm(&live);
	cr_expect_eq(hears(e.server, 10000), 5);
	cr_expect_eq(hears(e.client, 10000), 8);
	part_company(&e);
	live_ends(&live);
}

/* The server speaks first: from the start on a connection of the rule's time, and not otherwise. */
Test(silence, a_server_that_speaks_first)
{
	struct live live;
	struct ends e;

	go_live(&live, RULE("everything: true, side: server", "accept-silence: true", ""));
	e = meet(AF_INET);
	say(e.server, "greeting", 8);
	expect_heard(e.client, SOON, -EAGAIN);
	expect_stats(&live, 1, 1, CHAOS_ACCEPT_SILENCE);
	part_company(&e);
	disarm(&live);
	e = meet(AF_INET);
	seed_side(&live, e.server, CHAOS_SIDE_SERVER);
	cr_assert_eq(engine_arm(live.l.engine.control_fd, GENERATION), 0);
	say(e.server, "greeting", 8);
	cr_expect_eq(hears(e.client, SOON), 8, "an older connection: the server still speaks");
	say(e.client, "hello", 5);
	cr_expect_eq(hears(e.server, SOON), -EAGAIN, "an older connection: its client does not");
	expect_stats(&live, 2, 2, CHAOS_ACCEPT_SILENCE);
	part_company(&e);
	live_ends(&live);
}

Test(silence, closing)
{
	struct linger reset = { .l_onoff = 1 };
	struct live live;
	struct ends e;

	go_live(&live, RULE("everything: true", "accept-silence: true", ""));
	e = meet(AF_INET);
	close(e.client);
	cr_expect_eq(hears(e.server, SOON), 0, "nothing was said: the end is heard");
	expect_stats(&live, 0, 0, CHAOS_ACCEPT_SILENCE);
	e = meet(AF_INET);
	say(e.client, "hello", 5);
	setsockopt(e.client, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(e.client);
	cr_expect_eq(hears(e.server, SOON), -ECONNRESET, "a reset is heard");
	e = meet(AF_INET);
	say(e.client, "hello", 5);
	close(e.client);
	cr_expect_eq(hears(e.server, SOON), -EAGAIN, "an end waits for what was lost before it");
	disarm(&live);
	cr_expect_eq(hears(e.server, 10000), 5);
	cr_expect_eq(hears(e.server, 10000), 0);
	live_ends(&live);
}

/*
 * A server that waits in vain closes; its client hears of that when the fault has ended, or has closed itself. At the server
 * nobody knows of the latter: the client's FIN is behind what was lost.
 */
static void expect_no_end(const char *source, bool at_client, const void *text, size_t size)
{
	struct live live;
	struct ends e;

	go_live(&live, source);
	e = meet(AF_INET6);
	say(e.client, text, size);
	shutdown(e.server, SHUT_WR);
	expect_heard(e.client, SOON, -EAGAIN);
	shutdown(e.client, SHUT_WR);
	if (at_client)
		expect_heard(e.client, 10000, 0);
	part_company(&e);
	e = meet(AF_INET);
	say(e.client, text, size);
	shutdown(e.server, SHUT_WR);
	expect_heard(e.client, 2 * SOON, -EAGAIN);
	disarm(&live);
	expect_heard(e.client, 10000, 0);
	expect_heard(e.server, 10000, (int)size);
	part_company(&e);
	live_ends(&live);
}

Test(silence, a_server_that_gives_up)
{
	expect_no_end(RULE("everything: true", "accept-silence: true", ""), true, "hello", 5);
	expect_no_end(RULE("everything: true, side: server", "accept-silence: true", ""), false, "hello", 5);
}

/* max-hits counts connections; the last of them is as silent as the others, and the rule skips what comes after. */
Test(silence, max_hits_counts_connections)
{
	struct chaos_stats s;
	struct live live;

	go_live(&live, RULE("everything: true", "accept-silence: true", ", max-hits: 2"));
	for (int i = 0; i < 4; i++) {
		struct ends e = meet(AF_INET);

		say(e.client, "hello", 5);
		cr_expect_eq(hears(e.server, 2 * SOON), i < 2 ? -EAGAIN : 5, "connection %d", i);
		part_company(&e);
	}
	s = stats_of_rule(&live.l, 0);
	cr_expect(s.injected == 2 && s.matched == 4 && s.skipped[CHAOS_SKIP_MAX_HITS] == 2);
	live_ends(&live);
}

/* ---- tls-stall --------------------------------------------------------------------------------------------------- */

#define HELLO "\x16\x03\x01\x00\x40\x01\x00\x00\x3c\x03\x03 and the rest of it"
#define DATA "\x17\x03\x03\x00\x05hello"
#define SSL_REQUEST "\0\0\0\x08\x04\xd2\x16\x2f"
#define GSS_REQUEST "\0\0\0\x08\x04\xd2\x16\x30"
#define MYSQL_REQUEST "\x20\0\0\x01\x05\xae\x03\0\0\0\0\x01\x21\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
#define MYSQL_LOGIN "\x20\0\0\x01\x05\xa6\x03\0\0\0\0\x01\x21\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
#define TEXT(text) { text, sizeof(text) - 1 }

struct utterance {
	const char *bytes;
	size_t size;
};

/* What a client says, one after the other; `lost`: from that one on nothing arrives, and that counts. */
static void expect_said(const struct live *live, const struct ends *e, const struct utterance *texts, size_t lost, const char *what)
{
	struct chaos_stats before = stats_of_rule(&live->l, 0), after;
	size_t i;

	for (i = 0; texts[i].bytes; i++) {
		int got;

		say(e->client, texts[i].bytes, texts[i].size);
		got = hears(e->server, i < lost ? 5000 : SOON);
		cr_expect_eq(got, i < lost ? (int)texts[i].size : -EAGAIN, "%s: text %zu: heard %d", what, i, got);
		if (i < lost)
			say(e->server, "S", 1);
	}
	after = stats_of_rule(&live->l, 0);
	cr_expect_eq(after.matched - before.matched, lost < i, "%s: matched %lu", what, after.matched - before.matched);
	cr_expect_eq(after.faults[CHAOS_TLS_STALL] - before.faults[CHAOS_TLS_STALL], lost < i, "%s", what);
}

Test(silence, handshakes_of_tls_stall)
{
	static const struct {
		const char *what;
		struct utterance texts[8];
		size_t lost;
	} cases[] = {
		{ "a ClientHello", { TEXT(HELLO), TEXT("more") }, 0 },
		{ "clear text", { TEXT("GET / HTTP/1.1\r\n\r\n"), TEXT("GET / HTTP/1.1\r\n\r\n") }, 9 },
		{ "a ClientHello in the middle", { TEXT("PUT / HTTP/1.1\r\n\r\n"), TEXT(HELLO) }, 9 },
		{ "data of TLS", { TEXT(DATA), TEXT(DATA) }, 9 },
		{ "a handshake under way", { TEXT("\x16\x03\x03\x00\x28\0\0\0\0\0\0\0\0"), TEXT(DATA) }, 9 },
		{ "few bytes", { TEXT("\x16\x03"), TEXT(HELLO) }, 9 },
		{ "PostgreSQL", { TEXT(SSL_REQUEST), TEXT(HELLO) }, 1 },
		{ "PostgreSQL with GSS", { TEXT(GSS_REQUEST), TEXT(SSL_REQUEST), TEXT(HELLO) }, 2 },
		{ "PostgreSQL that was told no", { TEXT(SSL_REQUEST), TEXT("\0\0\0\x13\0\3\0\0user\0me\0\0"), TEXT("Q"), TEXT("Q"), TEXT("Q"), TEXT(HELLO) }, 9 },
		{ "MySQL", { TEXT(MYSQL_REQUEST), TEXT(HELLO) }, 1 },
		{ "MySQL in clear", { TEXT(MYSQL_LOGIN), TEXT(HELLO) }, 9 },
		{ "a proxy", { TEXT("CONNECT api.test:443 HTTP/1.1\r\n"), TEXT("Host: api.test:443\r\n\r\n"), TEXT(HELLO) }, 2 },
	};
	static const char *const rules[] = { RULE("everything: true", "tls-stall: true", ""),
					     RULE("everything: true, side: server", "tls-stall: true", "") };

	for (size_t r = 0; r < COUNT(rules); r++) {
		struct live live;

		go_live(&live, rules[r]);
		for (size_t i = 0; i < COUNT(cases); i++) {
			struct ends e = meet(i % 2 ? AF_INET : AF_INET6);

			expect_said(&live, &e, cases[i].texts, cases[i].lost, cases[i].what);
			part_company(&e);
		}
		live_ends(&live);
	}
}

Test(silence, percent_of_handshakes)
{
	struct chaos_stats s;
	struct live live;
	int lost = 0;

	go_live(&live, RULE("everything: true", "tls-stall: true", ", percent: 50, seed: 1"));
	for (int i = 0; i < 12; i++) {
		struct ends e = meet(AF_INET);

		say(e.client, HELLO, sizeof(HELLO) - 1);
		lost += hears(e.server, 150) == -EAGAIN;
		part_company(&e);
	}
	s = stats_of_rule(&live.l, 0);
	cr_expect(lost > 0 && lost < 12 && s.injected == (uint64_t)lost && s.matched == 12 && s.skipped[CHAOS_SKIP_PERCENT] == 12u - lost);
	live_ends(&live);
}

/* ---- half-open --------------------------------------------------------------------------------------------------- */

#define IDLE_MS 1500

static void pause_ms(int ms)
{
	usleep(ms * 1000);
}

Test(silence, forgotten_after_a_pause)
{
	struct live live;
	struct ends e, busy;

	go_live(&live, RULE("everything: true", "half-open: { idle: 1500ms }", ""));
	e = meet(AF_INET);
	busy = meet(AF_INET6);
	say(e.client, "hello", 5);
	expect_heard(e.server, 5000, 5);
	for (int i = 0; i < 6; i++) { /* packets of either end keep it alive */
		pause_ms(IDLE_MS / 3);
		say(i % 2 ? busy.client : busy.server, "hello", 5);
		expect_heard(i % 2 ? busy.server : busy.client, 5000, 5);
	}
	expect_stats(&live, 0, 0, CHAOS_HALF_OPEN);
	say(e.server, "news", 4);
	expect_heard(e.client, SOON, -EAGAIN);
	say(e.client, "hello", 5);
	expect_heard(e.server, SOON, -EAGAIN);
	expect_stats(&live, 1, 1, CHAOS_HALF_OPEN);
	say(busy.client, "hello", 5);
	expect_heard(busy.server, 5000, 5);
	disarm(&live);
	expect_heard(e.server, 10000, 5);
	expect_heard(e.client, 10000, 4);
	part_company(&e);
	part_company(&busy);
	live_ends(&live);
}

/* Keepalives have no payload, and are lost as well. */
Test(silence, keepalive)
{
	static const int one = 1, two = 2;
	struct live live;
	struct ends e;

	go_live(&live, RULE("everything: true", "half-open: { idle: 1500ms }", ""));
	e = meet(AF_INET);
	setsockopt(e.client, IPPROTO_TCP, TCP_KEEPIDLE, &two, sizeof(two));
	setsockopt(e.client, IPPROTO_TCP, TCP_KEEPINTVL, &one, sizeof(one));
	setsockopt(e.client, IPPROTO_TCP, TCP_KEEPCNT, &two, sizeof(two));
	setsockopt(e.client, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	expect_heard(e.client, 10000, -ETIMEDOUT);
	expect_stats(&live, 1, 1, CHAOS_HALF_OPEN);
	expect_heard(e.server, SOON, -EAGAIN);
	part_company(&e);
	live_ends(&live);
}

/* A connection of before the load counts from the load, which writes the time down with its owner. */
Test(silence, an_older_connection_counts_from_the_load)
{
	struct chaos_sock kept = { .known = 1, .side = CHAOS_SIDE_CLIENT };
	struct live live;
	struct ends e[2];

	go_live(&live, RULE("everything: true", "half-open: { idle: 1500ms }", ""));
	disarm(&live);
	for (size_t i = 0; i < COUNT(e); i++) {
		e[i] = meet(AF_INET);
		seed_side(&live, e[i].server, CHAOS_SIDE_SERVER);
		cr_assert_eq(bpf_map_lookup_elem(live.l.engine.sock_fd, &e[i].client, &kept), 0);
		kept.side = CHAOS_SIDE_CLIENT;
		memset(&kept.verdict, 0, sizeof(kept.verdict));
		kept.verdict.last_packet_ns = i ? 0 : boot_now();
		cr_assert_eq(bpf_map_update_elem(live.l.engine.sock_fd, &e[i].client, &kept, BPF_ANY), 0);
	}
	cr_assert_eq(engine_arm(live.l.engine.control_fd, GENERATION), 0);
	pause_ms(IDLE_MS + 100);
	for (size_t i = 0; i < COUNT(e); i++) {
		say(e[i].client, "hello", 5);
		expect_heard(e[i].server, SOON, i ? 5 : -EAGAIN);
	}
	expect_stats(&live, 1, 1, CHAOS_HALF_OPEN);
	for (size_t i = 0; i < COUNT(e); i++)
		part_company(&e[i]);
	live_ends(&live);
}

Test(silence, a_server_that_gives_up_a_handshake)
{
	expect_no_end(RULE("everything: true", "tls-stall: true", ""), true, HELLO, sizeof(HELLO) - 1);
	expect_no_end(RULE("everything: true, side: server", "tls-stall: true", ""), false, HELLO, sizeof(HELLO) - 1);
}
