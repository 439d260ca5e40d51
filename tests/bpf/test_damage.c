// SPDX-License-Identifier: GPL-2.0-only
/* Datagrams that come twice or damaged (bpf/damage.bpf.h), between real sockets: what is counted is what was done. */
#include <criterion/criterion.h>

#include "tests/bpf/live.h"

TestSuite(damage, .init = live_world, .fini = live_world_ends, .timeout = 300);

#define RULE(match, fault) \
	"version: 1\nrules:\n- { name: a, match: { everything: true, protocol: udp" match " }, fault: { " fault " }, " \
	"duration: 1h, seed: 5 }\n"
#define DATAGRAMS 200
#define WORDS 8 /* of each, all its number: at most one is damaged */

struct pair {
	int client, server;
};

static struct pair pair_up(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t size = sizeof(at);
	struct pair p = { socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) };

	cr_assert_eq(bind(p.server, (void *)&at, sizeof(at)), 0);
	cr_assert_eq(getsockname(p.server, (void *)&at, &size), 0);
	cr_assert_eq(connect(p.client, (void *)&at, sizeof(at)), 0);
	return p;
}

struct fate {
	int came, damaged;
};

/* Takes in what is there; over lo a datagram has come, with all that became of it, when send() returns. */
static void take_in(int fd, struct fate *fates)
{
	uint32_t words[WORDS];

	while (recv(fd, words, sizeof(words), MSG_DONTWAIT) == sizeof(words)) {
		uint32_t number = words[0] == words[1] || words[0] == words[2] ? words[0] : words[1];
		bool whole = true;

		for (size_t i = 0; i < WORDS; i++)
			whole &= words[i] == number;
		cr_assert_lt(number, DATAGRAMS);
		fates[number].came++;
		fates[number].damaged += !whole;
	}
}

static void say_all(const struct pair *p, struct fate *fates)
{
	memset(fates, 0, DATAGRAMS * sizeof(*fates));
	for (uint32_t number = 0; number < DATAGRAMS; number++) {
		uint32_t words[WORDS];

		for (size_t i = 0; i < WORDS; i++)
			words[i] = number;
		say(p->client, words, sizeof(words));
		take_in(p->server, fates);
	}
	for (int i = 0; i < 20; i++) { /* nothing more ought to come */
		usleep(5000);
		take_in(p->server, fates);
	}
}

static const char *const requests[] = { ", direction: request", ", side: server, direction: request" };
static const char *const responses[] = { ", direction: response", ", side: server, direction: response" };

static void go_live_with(struct live *live, const char *match, const char *fault)
{
	char source[512];

	snprintf(source, sizeof(source), RULE("%s", "%s"), match, fault);
	go_live(live, source);
}

/* Where it leaves and where it arrives. */
Test(damage, what_comes_twice_is_counted_once)
{
	for (size_t i = 0; i < COUNT(requests); i++) {
		struct fate fates[DATAGRAMS];
		struct chaos_stats s;
		struct live live;
		struct pair p;

		go_live_with(&live, requests[i], "duplicate: 100%");
		p = pair_up();
		say_all(&p, fates);
		for (size_t k = 0; k < DATAGRAMS; k++)
			cr_assert(fates[k].came == 2 && !fates[k].damaged, "%s: datagram %zu came %d times", requests[i], k, fates[k].came);
		s = stats_of_rule(&live.l, 0);
		cr_expect(s.matched == DATAGRAMS && s.injected == DATAGRAMS && s.faults[CHAOS_DUPLICATE] == DATAGRAMS &&
			  s.packets == DATAGRAMS, "%s: %llu matched, %llu injected, %llu packets", requests[i], s.matched,
			  s.injected, s.packets);
		close(p.client);
		close(p.server);
		live_ends(&live);
	}
}

Test(damage, the_other_direction_is_left_alone)
{
	for (size_t i = 0; i < COUNT(responses); i++) {
		struct fate fates[DATAGRAMS];
		struct live live;
		struct pair p;

		go_live_with(&live, responses[i], "duplicate: 100%, corrupt: 100%");
		p = pair_up();
		say_all(&p, fates);
		for (size_t k = 0; k < DATAGRAMS; k++)
			cr_assert(fates[k].came == 1 && !fates[k].damaged, "%s: datagram %zu", responses[i], k);
		cr_expect_eq(stats_of_rule(&live.l, 0).injected, 0);
		close(p.client);
		close(p.server);
		live_ends(&live);
	}
}

/* Each fault of a rule has dice of its own: of those that come twice, half are damaged, and of the others as well. */
Test(damage, one_says_nothing_about_the_other)
{
	for (size_t i = 0; i < COUNT(requests); i++) {
		int both = 0, twice = 0, damaged = 0;
		struct fate fates[DATAGRAMS];
		struct chaos_stats s;
		struct live live;
		struct pair p;

		go_live_with(&live, requests[i], "duplicate: 50%, corrupt: 50%");
		p = pair_up();
		say_all(&p, fates);
		for (size_t k = 0; k < DATAGRAMS; k++) {
			cr_assert(fates[k].came == 1 || fates[k].came == 2);
			cr_assert(!fates[k].damaged || fates[k].damaged == fates[k].came, "both copies are alike");
			twice += fates[k].came == 2;
			damaged += fates[k].damaged > 0;
			both += fates[k].came == 2 && fates[k].damaged;
		}
		/* The seed is given, so these are always the same: 100, 100 and 50, and six deviations to each side. */
		cr_expect(twice > 58 && twice < 142, "%s: %d came twice", requests[i], twice);
		cr_expect(damaged > 58 && damaged < 142, "%s: %d were damaged", requests[i], damaged);
		cr_expect(both > 13 && both < 87, "%s: %d of them both", requests[i], both);
		s = stats_of_rule(&live.l, 0);
		cr_expect_eq(s.faults[CHAOS_DUPLICATE], twice);
		cr_expect_eq(s.faults[CHAOS_CORRUPT], damaged);
		cr_expect_eq(s.injected, twice + damaged);
		cr_expect_eq(s.matched, s.injected + skips(&s));
		close(p.client);
		close(p.server);
		live_ends(&live);
	}
}
