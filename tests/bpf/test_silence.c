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
