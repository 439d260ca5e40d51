// SPDX-License-Identifier: GPL-2.0-only
/*
 * Responses and requests that stop in the middle (bpf/break.bpf.h, bpf/break_leaving.bpf.h), between real sockets: to the
 * byte, whatever the segments.
 */
#include <criterion/criterion.h>
#include <linux/filter.h>

#include "tests/bpf/live.h"

#define RULE_OF(match, fault, more) \
	"version: 1\nrules:\n- { name: a, match: { " match " }, fault: { break-after: { " fault " } }, duration: 1h" more " }\n"
#define RULE(fault, more) RULE_OF("everything: true", fault, more)

/* What is cut, and whether it arrives at the named process or leaves it. */
static const struct way {
	const char *match;
	bool request;
} ways[] = {
	{ "everything: true", false },
	{ "everything: true, side: server", false },
	{ "everything: true, direction: request", true },
	{ "everything: true, side: server, direction: request", true },
};

TestSuite(stops, .init = live_world, .fini = live_world_ends, .timeout = 400);

static uint8_t pattern(size_t i)
{
	return i * 7 + i / 251;
}

/* Reads until `most` bytes have come, or nothing more does within `ms`. Bytes that came; *why: 0 is the end, else an errno. */
static size_t read_all(int fd, size_t most, int ms, int *why)
{
	static uint8_t buffer[65536];
	size_t sum = 0;

	while (sum < most) {
		int got = hear_within(fd, buffer, sizeof(buffer), ms);

		if (got <= 0) {
			*why = -got;
			return sum;
		}
		for (int i = 0; i < got; i++)
			cr_assert_eq(buffer[i], pattern(sum + i), "byte %zu", sum + i);
		sum += got;
	}
	*why = -1;
	return sum;
}

/* Sends so many bytes in writes of `piece`, as a process of its own; its exit status is an errno. */
static pid_t send_all(int fd, size_t size, size_t piece)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	for (size_t sent = 0; sent < size;) {
		static uint8_t buffer[100000];
		size_t n = size - sent < piece ? size - sent : piece;
		ssize_t got;

		for (size_t i = 0; i < n; i++)
			buffer[i] = pattern(sent + i);
		got = send(fd, buffer, n, MSG_NOSIGNAL);
		if (got < 0)
			_exit(errno);
		sent += got;
	}
	_exit(0);
}

static void expect_stop(const struct way *way, int family, const char *how, size_t bytes, size_t size, size_t piece)
{
	const int wanted = strcmp(how, "reset") == 0 ? ECONNRESET : strcmp(how, "close") == 0 ? 0 : EAGAIN;
	struct chaos_stats s;
	char source[300];
	struct live live;
	struct ends e;
	int sender, receiver;
	size_t got;
	pid_t pid;
	int why;

	snprintf(source, sizeof(source), RULE_OF("%s", "bytes: %zu, how: %s", ""), way->match, bytes, how);
	go_live(&live, source);
	e = meet(family);
	if (way->request) {
		sender = e.client;
		receiver = e.server;
	} else {
		say(e.client, "hello", 5);
		cr_assert_eq(hears(e.server, 5000), 5);
		sender = e.server;
		receiver = e.client;
	}
	pid = send_all(sender, size, piece);
	got = read_all(receiver, SIZE_MAX, wanted == EAGAIN || bytes >= size ? 700 : 5000, &why);
	cr_expect_eq(got, bytes < size ? bytes : size, "%s: %s after %zu of %zu bytes by %zu: %zu came", way->match, how, bytes,
		     size, piece, got);
	cr_expect_eq(why, bytes < size ? wanted : EAGAIN, "%s: %s after %zu of %zu bytes by %zu: ended by %d", way->match, how,
		     bytes, size, piece, why);
	s = stats_of_rule(&live.l, 0);
	cr_expect_eq(s.injected, bytes < size);
	cr_expect_eq(s.matched, bytes < size);
	cr_expect_eq(s.faults[CHAOS_BREAK_AFTER], bytes < size);
	if (wanted == EAGAIN && bytes < size) {
		say(receiver, "still there", 11);
		cr_expect_eq(hears(sender, 5000), 11, "%s: the connection stays open", way->match);
		cr_assert_eq(engine_arm(live.l.engine.control_fd, 0), 0);
		/* What was withheld comes after the end of the rule. */
		for (size_t i = 0; got < size; i++) {
			uint8_t byte;

			cr_assert_eq(hear_within(receiver, &byte, 1, 10000), 1);
			cr_assert_eq(byte, pattern(got), "byte %zu", got);
			got++;
		}
	}
	part_company(&e);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	live_ends(&live);
}

static const char *const hows[] = { "reset", "close", "stall" };

Test(stops, small_ones)
{
	static const size_t sizes[] = { 1, 2, 999, 1000, 1001 };

	for (size_t w = 0; w < COUNT(ways); w++)
		for (size_t h = 0; h < COUNT(hows); h++)
			for (size_t i = 0; i < COUNT(sizes); i++)
				if (!w || (i + h) % 2)
					expect_stop(&ways[w], i % 2 ? AF_INET : AF_INET6, hows[h], sizes[i], 1000,
						    i % 2 ? 1000 : 100);
}

Test(stops, large_ones)
{
	static const size_t sizes[] = { 16384, 70000, 300001 };

	for (size_t w = 0; w < COUNT(ways); w++)
		for (size_t h = 0; h < COUNT(hows); h++)
			for (size_t i = 0; i < COUNT(sizes); i++)
				expect_stop(&ways[w], i % 2 ? AF_INET6 : AF_INET, hows[h], sizes[i], 500000,
					    i == 1 ? 1460 : 100000);
}

/* The socket loses segments whose payload begins with an 'a', as a network would; what has none passes. */
static void lose_a(int fd)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 12),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf0),
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 2),
		BPF_STMT(BPF_MISC | BPF_TAX, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_X, 0, 0, 3),
		BPF_STMT(BPF_LD | BPF_B | BPF_IND, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 'a', 0, 1),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, -1),
	};
	struct sock_fprog filter = { .len = COUNT(code), .filter = code };

	cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)), 0, "%s", strerror(errno));
}

/* A reset must not overtake what was lost before the place where it stops, though all behind that has come. */
Test(stops, after_a_loss)
{
	for (size_t w = 0; w < COUNT(ways); w++) {
		char source[300], got[1000];
		struct live live;
		struct ends e;
		int sender, receiver;
		size_t sum = 0;
		int more;

		snprintf(source, sizeof(source), RULE_OF("%s", "bytes: 16, how: reset", ""), ways[w].match);
		go_live(&live, source);
		e = meet(AF_INET);
		sender = ways[w].request ? e.client : e.server;
		receiver = ways[w].request ? e.server : e.client;
		if (!ways[w].request) {
			say(e.client, "hello", 5);
			cr_assert_eq(hears(e.server, 5000), 5);
		}
		lose_a(receiver);
		say(sender, "aaaaaaaa", 8);
		say(sender, "bbbbbbbbcccccccc", 16);
		cr_expect_eq(hears(receiver, 20), -EAGAIN, "%s: nothing, and no reset", ways[w].match);
		cr_assert_eq(setsockopt(receiver, SOL_SOCKET, SO_DETACH_FILTER, &(int){ 0 }, sizeof(int)), 0);
		while (sum < 24 && (more = hear_within(receiver, got + sum, sizeof(got) - sum, 5000)) > 0)
			sum += more;
		cr_expect(sum == 16 && more == -ECONNRESET && !memcmp(got, "aaaaaaaabbbbbbbb", 16), "%s: %zu bytes, then %d",
			  ways[w].match, sum, more);
		cr_expect_eq(stats_of_rule(&live.l, 0).injected, 1);
		part_company(&e);
		live_ends(&live);
	}
}

/* The end of a response that is as long as allowed, or shorter, is heard as it is. */
Test(stops, a_response_that_is_short_enough)
{
	struct live live;
	struct ends e;
	int why;

	go_live(&live, RULE("bytes: 5, how: reset", ""));
	e = meet(AF_INET);
	say(e.client, "hello", 5);
	cr_assert_eq(hears(e.server, 5000), 5);
	waitpid(send_all(e.server, 5, 5), NULL, 0);
	shutdown(e.server, SHUT_WR);
	cr_expect_eq(read_all(e.client, SIZE_MAX, 5000, &why), 5);
	cr_expect_eq(why, 0);
	cr_expect_eq(stats_of_rule(&live.l, 0).matched, 0);
	part_company(&e);
	live_ends(&live);
}

static void expect_counting(const char *const *rules)
{
	for (size_t r = 0; r < 2; r++) {
		struct live live;
		struct ends e;

		go_live(&live, rules[r]);
		e = meet(AF_INET);
		for (int i = 0; i < 2; i++) {
			say(e.client, "hello", 5);
			cr_assert_eq(hears(e.server, 5000), 5);
			say(e.server, "12345678", 8);
			cr_expect_eq(hears(e.client, 5000), r && i ? 2 : 8, "rule %zu, response %d", r, i);
		}
		if (!r) {
			say(e.client, "hello", 5);
			cr_assert_eq(hears(e.server, 5000), 5);
			say(e.server, "123456789012", 12);
			cr_expect_eq(hears(e.client, 5000), 10);
		}
		cr_expect_eq(hears(e.client, 5000), -ECONNRESET);
		cr_expect_eq(hears(e.server, 5000), -ECONNRESET, "what is sent again is answered");
		cr_expect_eq(stats_of_rule(&live.l, 0).injected, 1);
		part_company(&e);
		live_ends(&live);
	}
}

/* Counted anew for each response, or over the whole connection. */
Test(stops, per_request_and_per_connection)
{
	static const char *const at_client[] = { RULE("bytes: 10, how: reset", ", per: request"),
						 RULE("bytes: 10, how: reset", "") };
	static const char *const at_server[] = {
		RULE_OF("everything: true, side: server", "bytes: 10, how: reset", ", per: request"),
		RULE_OF("everything: true, side: server", "bytes: 10, how: reset", ""),
	};

	expect_counting(at_client);
	expect_counting(at_server);
}

/* Each request of a connection, at the end that sends it and at the one that gets it. */
Test(stops, requests)
{
	for (size_t w = 2; w < COUNT(ways); w++) {
		char source[300];
		struct live live;
		struct ends e;

		snprintf(source, sizeof(source), RULE_OF("%s", "bytes: 10, how: reset", ", per: request"), ways[w].match);
		go_live(&live, source);
		e = meet(AF_INET6);
		for (int i = 0; i < 3; i++) {
			say(e.client, "12345678", 8);
			cr_expect_eq(hears(e.server, 5000), 8, "%s: request %d", ways[w].match, i);
			say(e.server, "a response may be longer", 24);
			cr_expect_eq(hears(e.client, 5000), 24, "%s: response %d", ways[w].match, i);
		}
		say(e.client, "1234", 4);
		cr_expect_eq(hears(e.server, 5000), 4);
		say(e.client, "56789abc", 8);
		cr_expect_eq(hears(e.server, 5000), 6, "%s: the rest of it", ways[w].match);
		cr_expect_eq(hears(e.server, 5000), -ECONNRESET);
		cr_expect_eq(hears(e.client, 5000), -ECONNRESET);
		cr_expect_eq(stats_of_rule(&live.l, 0).injected, 1);
		part_company(&e);
		live_ends(&live);
	}
}

Test(stops, after_a_time)
{
	for (size_t h = 0; h < COUNT(hows); h++) {
		static const int wanted[] = { -ECONNRESET, 0, -EAGAIN };
		char source[300];
		struct live live;
		struct ends e;

		snprintf(source, sizeof(source), RULE("time: 500ms, how: %s", ""), hows[h]);
		go_live(&live, source);
		e = meet(AF_INET);
		usleep(700000); /* the time begins with the response */
		say(e.client, "hello", 5);
		cr_assert_eq(hears(e.server, 5000), 5);
		for (int i = 0; i < 2; i++) {
			say(e.server, "12345678", 8);
			cr_expect_eq(hears(e.client, 5000), 8, "%s: response %d", hows[h], i);
		}
		usleep(600000);
		say(e.server, "12345678", 8);
		cr_expect_eq(hears(e.client, 700), wanted[h], "%s", hows[h]);
		cr_expect_eq(stats_of_rule(&live.l, 0).injected, 1);
		part_company(&e);
		live_ends(&live);
	}
}

Test(stops, percent_and_max_hits)
{
	struct chaos_stats s;
	struct live live;
	int stopped = 0;

	go_live(&live, RULE("bytes: 4, how: reset", ", percent: 50, seed: 2, max-hits: 3"));
	for (int i = 0; i < 16; i++) {
		struct ends e = meet(AF_INET);

		say(e.client, "hello", 5);
		cr_assert_eq(hears(e.server, 5000), 5);
		say(e.server, "12345678", 8);
		stopped += hears(e.client, 5000) == 4;
		part_company(&e);
	}
	s = stats_of_rule(&live.l, 0);
	cr_expect(stopped == 3 && s.injected == 3 && s.matched == 16 && s.matched == s.injected + skips(&s));
	live_ends(&live);
}
