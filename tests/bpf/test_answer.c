// SPDX-License-Identifier: GPL-2.0-only
/*
 * Answers of HTTP that take the place of the server's (bpf/answer.bpf.c), between real sockets: what the client reads is
 * compared byte by byte with what is to come, and is HTTP that a client can read.
 */
#include <criterion/criterion.h>
#include "tests/bpf/exchange.h"

#define LIMITED RULE("status: 429, retry-after: 20s, as: openai", "")

#define FULL \
	"HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nRetry-After: 20\r\nContent-Length: %8zu\r\n\r\n"
#define BRIEF "HTTP/1.1 429 \r\nretry-after:20\r\ncontent-length:%8zu\r\n\r\n"
#define OPENAI \
	"{\"error\":{\"message\":\"Rate limit reached for requests. Please try again in 20s.\"," \
	"\"type\":\"requests\",\"param\":null,\"code\":\"rate_limit_exceeded\"}}"
#define SHORT "{\"error\":{\"message\":\"Too Many Requests\",\"code\":429}}"

TestSuite(answer, .init = live_world, .fini = live_world_ends, .timeout = 300);

/* An answer of the server, with so many bytes of body. */
static size_t answer_of(const char *more, size_t body)
{
	int head = snprintf(server_says, sizeof(server_says),
			    "HTTP/1.1 200 OK\r\nServer: s\r\nContent-Length: %zu\r\n%s\r\n", body, more);

	for (size_t i = 0; i < body; i++)
		server_says[head + i] = 'a' + i % 26;
	return head + body;
}

/* A head with the length in it and then a body, filled up with `filler` to `size` bytes. */
static size_t want(const char *format, const char *body, size_t size, char filler)
{
	char probe[400];
	size_t head = snprintf(probe, sizeof(probe), format, (size_t)0);

	snprintf(wanted, sizeof(wanted), format, size - head);
	memset(wanted + head, filler, size - head);
	memcpy(wanted + head, body, strlen(body));
	return size;
}

/* As long as the server's: the connection goes on, and other requests on it get their own. */
Test(answer, keeps_the_length)
{
	static const size_t bodies[] = { 250, 251, 1000, 1447, 40000, 300001 };
	struct live live;
	struct ends e;
	size_t size;

	go_live(&live, LIMITED);
	for (int family = 0; family < 2; family++) {
		e = meet(family ? AF_INET6 : AF_INET);
		for (size_t i = 0; i < COUNT(bodies); i++) {
			send_request(&e, REQUEST);
			size = answer_of("", bodies[i]);
			answer_in_two(&e, size, i % 2 ? size : bodies[i] / 2 + 60);
			expect_heard(&e, want(FULL, OPENAI, size, ' '), "changed");
			send_request(&e, OTHER);
			size = answer_of("", bodies[i]);
			answer_in_two(&e, size, size);
			expect_original(&e, size, "another path");
		}
		part_company(&e);
	}
	expect_counts(&live, 2 * COUNT(bodies), CHAOS_SKIP_NO_ROOM, 0);
	live_ends(&live);
}

/* The head by itself, as servers send it that stream. */
Test(answer, cut_anywhere_behind_the_head)
{
	struct live live;
	struct ends e;
	size_t size;

	go_live(&live, LIMITED);
	e = meet(AF_INET);
	for (size_t first = strlen("HTTP/1.1 200 OK\r\nServer: s\r\nContent-Length: 400\r\n\r\n"); first < 450; first += 13) {
		send_request(&e, REQUEST);
		size = answer_of("", 400);
		answer_in_two(&e, size, first);
		expect_heard(&e, want(FULL, OPENAI, size, ' '), "cut");
	}
	part_company(&e);
	live_ends(&live);
}

Test(answer, brief_where_there_is_no_room)
{
	struct live live;
	struct ends e;
	size_t size;

	go_live(&live, LIMITED);
	e = meet(AF_INET);
	send_request(&e, REQUEST);
	size = answer_of("", 80);
	answer_in_two(&e, size, size);
	expect_heard(&e, want(BRIEF, SHORT, size, ' '), "brief");
	send_request(&e, REQUEST);
	size = answer_of("", 2);
	answer_in_two(&e, size, size);
	memcpy(wanted, server_says, size);
	memcpy(wanted + 9, "429", 3);
	expect_heard(&e, size, "only its digits");
	part_company(&e);
	expect_counts(&live, 2, CHAOS_SKIP_NO_ROOM, 0);
	live_ends(&live);
}

/* Where the server does not say how long its answer is, ours ends the connection. */
Test(answer, of_unknown_length)
{
	static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
	static const char start[] = "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nRetry-After: 20\r\n"
				    "Content-Length: 141\r\nConnection: close\r\n\r\n" OPENAI;
	struct live live;
	struct ends e;
	size_t size;
	bool ended;

	cr_assert_eq(strlen(OPENAI), 141);
	go_live(&live, LIMITED);
	for (int streams = 0; streams < 2; streams++) {
		e = meet(AF_INET);
		send_request(&e, REQUEST);
		strcpy(server_says, head);
		for (int i = 0; i < 30; i++)
			strcat(server_says, "14\r\ndata: {\"a\": \"bc\"}\n\n\r\n");
		size = strlen(server_says);
		answer_in_two(&e, size, streams ? strlen(start) : size);
		cr_assert_eq(hear_all(&e, sizeof(client_hears), &ended), strlen(start), "%s", client_hears);
		cr_expect(ended, "the stream ends");
		cr_expect_arr_eq(client_hears, start, strlen(start));
		part_company(&e);
	}
	expect_counts(&live, 2, CHAOS_SKIP_NO_ROOM, 0);
	live_ends(&live);
}

/* A head by itself, of a stream, in which not even the length of ours has room. */
Test(answer, barely_fits)
{
	static const char bare[] = "HTTP/1.1 429 \r\nretry-after:20\r\nconnection:close\r\n\r\n{\"error\":{\"code\":429}}";
	struct live live;
	struct ends e;
	bool ended;
	int head;

	go_live(&live, LIMITED);
	for (int room = 0; room < 2; room++) {
		e = meet(AF_INET);
		send_request(&e, REQUEST);
		head = sprintf(server_says, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX: ");
		while (head < (int)strlen(bare) + room - 4)
			server_says[head++] = 'x';
		strcpy(server_says + head, "\r\n\r\n14\r\ndata: {\"a\": \"bc\"}\n\n\r\n0\r\n\r\n");
		answer_in_two(&e, strlen(server_says), strlen(bare) + room);
		memcpy(wanted, server_says, strlen(server_says) + 1);
		memcpy(wanted + 9, "429", 3);
		if (room)
			strcpy(wanted, bare);
		cr_expect_eq(hear_all(&e, strlen(wanted) + room, &ended), strlen(wanted));
		cr_expect_eq(ended, room, "the end of the stream is the end of the answer");
		cr_expect_arr_eq(client_hears, wanted, strlen(wanted), "%s", client_hears);
		part_company(&e);
	}
	expect_counts(&live, 2, CHAOS_SKIP_NO_ROOM, 0);
	live_ends(&live);
}

Test(answer, without_a_body)
{
	static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
	struct live live;
	struct ends e;
	size_t size;

	go_live(&live, LIMITED);
	e = meet(AF_INET);
	send_request(&e, "HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n");
	size = answer_of("", 500) - 500;
	answer_in_two(&e, size, size);
	memcpy(wanted, server_says, size);
	memcpy(wanted + 9, "429", 3);
	expect_heard(&e, size, "HEAD");
	/* A 429 would have a body, and the client wait for it. */
	send_request(&e, REQUEST);
	strcpy(server_says, "HTTP/1.1 204 No Content\r\n\r\n");
	size = strlen(server_says);
	answer_in_two(&e, size, size);
	expect_original(&e, size, "204");
	send_request(&e, REQUEST);
	say(e.server, interim, strlen(interim));
	memcpy(wanted, interim, strlen(interim));
	expect_heard(&e, strlen(interim), "interim");
	size = answer_of("", 500);
	answer_in_two(&e, size, size);
	expect_heard(&e, want(FULL, OPENAI, size, ' '), "after the interim one");
	/* Both in one segment. */
	send_request(&e, REQUEST);
	size = answer_of("", 500);
	memmove(server_says + strlen(interim), server_says, size);
	memcpy(server_says, interim, strlen(interim));
	answer_in_two(&e, size + strlen(interim), SIZE_MAX);
	want(FULL, OPENAI, size, ' ');
	memmove(wanted + strlen(interim), wanted, size);
	memcpy(wanted, interim, strlen(interim));
	expect_heard(&e, size + strlen(interim), "together with the interim one");
	part_company(&e);
	expect_counts(&live, 3, CHAOS_SKIP_NO_ROOM, 1);
	live_ends(&live);
}

Test(answer, that_is_not_of_http)
{
	struct live live;
	struct ends e;
	size_t size;

	go_live(&live, LIMITED);
	e = meet(AF_INET);
	send_request(&e, REQUEST);
	strcpy(server_says, "+OK this is something else, and long enough for anything that could take its place here");
	size = strlen(server_says);
	answer_in_two(&e, size, size);
	expect_original(&e, size, "not HTTP");
	part_company(&e);
	expect_counts(&live, 0, CHAOS_SKIP_NO_ROOM, 1);
	live_ends(&live);
}

/* What is sent again is changed again, to the same. */
Test(answer, after_a_loss)
{
	struct live live;
	struct ends e;
	size_t size;

	go_live(&live, LIMITED);
	e = meet(AF_INET);
	for (size_t first = 200; first < 1000; first += 300) {
		send_request(&e, REQUEST);
		lose_payload(&e, true);
		size = answer_of("", 1000);
		answer_in_two(&e, size, first);
		cr_assert_eq(hears(e.client, 50), -EAGAIN);
		lose_payload(&e, false);
		expect_heard(&e, want(FULL, OPENAI, size, ' '), "sent again");
	}
	part_company(&e);
	expect_counts(&live, 3, CHAOS_SKIP_NO_ROOM, 0);
	live_ends(&live);
}

/* Nothing comes for as long as the rule holds; then the server's own. */
Test(answer, hangs)
{
	struct live live;
	struct ends e;
	size_t size;

	go_live(&live, RULE("hang: true", ", max-hits: 1"));
	e = meet(AF_INET);
	send_request(&e, REQUEST);
	size = answer_of("", 3000);
	answer_in_two(&e, size, 500);
	cr_expect_eq(hears(e.client, 700), -EAGAIN);
	shutdown(e.server, SHUT_WR);
	cr_expect_eq(hears(e.client, 300), -EAGAIN, "not even the end of the stream");
	expect_counts(&live, 1, CHAOS_SKIP_NO_ROOM, 0);
	cr_assert_eq(engine_arm(live.l.engine.control_fd, 0), 0);
	memcpy(wanted, server_says, size);
	for (size_t got = 0; got < size;) {
		int n = hear_within(e.client, client_hears + got, size - got, 10000);

		cr_assert_gt(n, 0);
		got += n;
	}
	cr_expect_arr_eq(client_hears, wanted, size);
	part_company(&e);
	live_ends(&live);
}

Test(answer, bodies)
{
	static const char html[] = "<html>\r\n<head><title>503 Service Unavailable</title></head>\r\n<body>\r\n"
				   "<center><h1>503 Service Unavailable</h1></center>\r\n<hr><center>nginx</center>\r\n"
				   "</body>\r\n</html>\r\n";
	struct live live;
	struct ends e;
	size_t size;
	bool ended;

	go_live(&live, RULE("status: 503, body: html", ""));
	e = meet(AF_INET);
	send_request(&e, REQUEST);
	size = answer_of("", 700);
	answer_in_two(&e, size, size);
	expect_heard(&e,
		     want("HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/html\r\nContent-Length: %8zu\r\n\r\n", html,
			  size, ' '),
		     "html");
	part_company(&e);
	live_ends(&live);

	go_live(&live, RULE("body: empty", ""));
	e = meet(AF_INET);
	send_request(&e, REQUEST);
	answer_in_two(&e, answer_of("", 700), SIZE_MAX);
	strcpy(wanted, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
	cr_expect_eq(hear_all(&e, sizeof(client_hears), &ended), strlen(wanted));
	cr_expect(ended);
	cr_expect_arr_eq(client_hears, wanted, strlen(wanted));
	part_company(&e);
	live_ends(&live);

	go_live(&live, RULE("body: garbage", ""));
	e = meet(AF_INET);
	send_request(&e, REQUEST);
	size = answer_of("", 700);
	answer_in_two(&e, size, size);
	cr_expect_eq(hear_all(&e, size, &ended), size);
	cr_expect_arr_eq(client_hears, "HTTP/1.1 200 OK\r\n", 17);
	for (size_t i = size - 600; i < size; i++)
		cr_assert(client_hears[i] & 0x80, "byte %zu", i);
	part_company(&e);
	live_ends(&live);
}

static size_t mix(uint64_t *hit, size_t count)
{
	struct live live;
	size_t size, hits = 0;
	struct ends e;
	bool ended;

	go_live(&live, RULE("status: 500", ", percent: 30, seed: 7"));
	e = meet(AF_INET);
	for (size_t i = 0; i < count; i++) {
		send_request(&e, REQUEST);
		size = answer_of("", 300);
		answer_in_two(&e, size, size);
		cr_assert_eq(hear_all(&e, size, &ended), size);
		hit[i] = memcmp(client_hears, server_says, size) != 0;
		cr_assert_eq(memcmp(client_hears + 9, hit[i] ? "500" : "200", 3), 0);
		hits += hit[i];
	}
	part_company(&e);
	expect_counts(&live, hits, CHAOS_SKIP_PERCENT, count - hits);
	live_ends(&live);
	return hits;
}

Test(answer, percent)
{
	uint64_t once[400], again[400];
	size_t hits = mix(once, COUNT(once));

	cr_expect(hits > 70 && hits < 170, "%zu of 400 at 30 %%", hits);
	cr_expect_eq(mix(again, COUNT(again)), hits);
	cr_expect_arr_eq(once, again, sizeof(once), "the same seed picks the same requests");
}
