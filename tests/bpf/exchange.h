/* SPDX-License-Identifier: GPL-2.0-only */
/* A request and its answer between real sockets, under a rule about requests for /x: what the client hears, byte by byte. */
#ifndef TESTS_BPF_EXCHANGE_H
#define TESTS_BPF_EXCHANGE_H

#include <criterion/criterion.h>
#include <linux/filter.h>

#include "tests/bpf/live.h"
#include "user/base/names.h"

#define RULE(fault, more) \
	"version: 1\nrules:\n- { name: a, match: { everything: true, http: { path: /x } }, fault: { " fault \
	" }, duration: 1h" more " }\n"

#define REQUEST "GET /x HTTP/1.1\r\nHost: a\r\n\r\n"
#define OTHER   "GET /y HTTP/1.1\r\nHost: a\r\n\r\n"

static char server_says[400000], client_hears[400000], wanted[400000];

/* Sends so many bytes of it, `first` of them by themselves and the rest when the client has got those. */
static inline void answer_in_two(const struct ends *e, size_t size, size_t first)
{
	if (first < size) {
		say(e->server, server_says, first);
		usleep(3000);
		say(e->server, server_says + first, size - first);
	} else {
		say(e->server, server_says, size);
	}
}

/* What comes until `size` bytes have, the stream ends (*ended), or nothing does for a while. */
static inline size_t hear_all(const struct ends *e, size_t size, bool *ended)
{
	size_t sum = 0;
	int got;

	*ended = false;
	while (sum < size) {
		got = hear_within(e->client, client_hears + sum, sizeof(client_hears) - sum, 3000);
		if (got <= 0) {
			*ended = !got;
			return sum;
		}
		sum += got;
	}
	return sum;
}

static inline void send_request(const struct ends *e, const char *request)
{
	say(e->client, request, strlen(request));
	cr_assert_eq(hears(e->server, 5000), (int)strlen(request));
}

static inline void expect_heard(const struct ends *e, size_t size, const char *what)
{
	bool ended;
	size_t got = hear_all(e, size, &ended);

	cr_assert_eq(got, size, "%s: %zu of %zu bytes", what, got, size);
	for (size_t i = 0; i < size; i++)
		cr_assert_eq(client_hears[i], wanted[i], "%s: byte %zu is %#x, not %#x\n%.300s", what, i,
			     (unsigned char)client_hears[i], (unsigned char)wanted[i], client_hears);
	cr_expect_eq(hears(e->client, 0), -EAGAIN, "%s: no more", what);
}

static inline void expect_original(const struct ends *e, size_t size, const char *what)
{
	memcpy(wanted, server_says, size);
	expect_heard(e, size, what);
}

/* Whether the client's socket loses what carries payload. */
static inline void lose_payload(const struct ends *e, bool lose)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 60, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, -1),
	};
	struct sock_fprog filter = { .len = COUNT(code), .filter = code };

	cr_assert_eq(setsockopt(e->client, SOL_SOCKET, lose ? SO_ATTACH_FILTER : SO_DETACH_FILTER, &filter, sizeof(filter)), 0);
}

static inline void expect_counts(const struct live *live, uint64_t injected, enum chaos_skip reason, uint64_t skipped)
{
	struct chaos_stats s = stats_of_rule(&live->l, 0);

	cr_expect_eq(s.injected, injected, "injected: %llu, not %lu", (unsigned long long)s.injected, injected);
	cr_expect_eq(s.matched, injected + skipped, "matched: %llu", (unsigned long long)s.matched);
	cr_expect_eq(s.skipped[reason], skipped, "%s: %llu", skip_names[reason], (unsigned long long)s.skipped[reason]);
}

#endif
