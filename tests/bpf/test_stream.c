// SPDX-License-Identifier: GPL-2.0-only
/*
 * Faults in the events of a stream (bpf/stream.bpf.h), between real sockets: whatever segments the server's stream comes in,
 * the client hears what it is to hear, byte by byte.
 */
#include "tests/bpf/exchange.h"

TestSuite(stream, .init = live_world, .fini = live_world_ends, .timeout = 600);

#define CHUNKED "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
#define TO_THE_END "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
#define COUNTED "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %zu\r\n\r\n"
#define LAST "0\r\n\r\n"

#define EVENT "data: {\"id\": \"chatcmpl-%d\", \"object\": \"chat.completion.chunk\", \"choices\": [{\"delta\": {\"content\": \"word\"}}]}\n\n"
#define DONE "data: [DONE]\n\n"
#define STOP "event: message_stop\ndata: {\"type\": \"message_stop\"}\n\n"
#define OVERLOADED "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"
#define OVERLOADED_BRIEFLY "event:error\ndata:{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n"

/* ---- texts ------------------------------------------------------------------------------------------------------------ */

static void add(char *to, const char *text)
{
	strcat(to, text);
}

static void add_chunk(char *to, const char *text)
{
	sprintf(to + strlen(to), "%zx\r\n%s\r\n", strlen(text), text);
}

static const char *event(int number)
{
	static char text[4][200];
	char *this = text[number % 4];

	snprintf(this, sizeof(text[0]), EVENT, number);
	return this;
}

/* So many events, each in a chunk, and the last chunk. */
static void add_stream(char *to, int events)
{
	for (int i = 0; i < events; i++)
		add_chunk(to, event(i));
	add(to, LAST);
}

/* The text with another byte at this place. */
static const char *changed(const char *text, size_t at, char c)
{
	static char copy[200];

	strcpy(copy, text);
	copy[at] = c;
	return copy;
}

static const char *line_ends(size_t count)
{
	static char text[1000];

	memset(text, '\n', count);
	text[count] = 0;
	return text;
}

/* ---- exchanges -------------------------------------------------------------------------------------------------------- */

/* The server's stream, cut at `first`, is heard as `wanted`; `ends`: and then the connection is at its end. */
static void expect_stream(size_t first, bool ends)
{
	const size_t size = strlen(wanted);
	struct ends e = meet(AF_INET);
	bool ended;
	size_t got;

	send_request(&e, REQUEST);
	answer_in_two(&e, strlen(server_says), first);
	if (!ends)
		shutdown(e.server, SHUT_WR);
	got = hear_all(&e, sizeof(client_hears), &ended);
	client_hears[got] = 0;
	cr_assert_str_eq(client_hears, wanted, "cut at %zu: %zu bytes, not %zu:\n%s\nfrom:\n%s", first, got, size,
			 client_hears, server_says);
	cr_assert(ended, "cut at %zu: the stream ends", first);
	part_company(&e);
}

/* However it is cut behind its head. */
static size_t expect_streams(const char *head, bool ends)
{
	const size_t size = strlen(server_says);
	size_t times = 0;

	for (size_t first = strlen(head); first <= size; first += first < strlen(head) + 20 || size - first < 60 ? 1 : 7) {
		expect_stream(first, ends);
		times++;
	}
	return times;
}

static void begin_texts(const char *head)
{
	strcpy(server_says, head);
	strcpy(wanted, head);
}

#define CLEAN RULE("break-after: { chunks: 2, how: clean }", "")

Test(stream, clean)
{
	struct live live;
	size_t times;

	go_live(&live, CLEAN);
	begin_texts(CHUNKED);
	add_stream(server_says, 4);
	add_stream(wanted, 2);
	times = expect_streams(CHUNKED, true);
	expect_counts(&live, times, CHAOS_SKIP_NO_ROOM, 0);
	live_ends(&live);
}

/* Chunks of HTTP that hold several events, and parts of one: the rest of the last one is lines without anything. */
Test(stream, clean_within_a_chunk)
{
	char text[1000] = "";
	struct live live;

	go_live(&live, CLEAN);
	begin_texts(CHUNKED);
	add_chunk(server_says, "data: a");
	strcpy(text, "b\n\n");
	add(text, event(1));
	add(text, event(2));
	add_chunk(server_says, text);
	add_chunk(server_says, event(3));
	add(server_says, LAST);
	add_chunk(wanted, "data: a");
	text[3 + strlen(event(1))] = 0;
	add(text, line_ends(strlen(event(2))));
	add_chunk(wanted, text);
	add(wanted, LAST);
	expect_streams(CHUNKED, true);
	live_ends(&live);
}

Test(stream, clean_without_chunks)
{
	char head[200];
	struct live live;

	go_live(&live, CLEAN);
	begin_texts(TO_THE_END);
	for (int i = 0; i < 4; i++)
		add(server_says, event(i));
	add(wanted, event(0));
	add(wanted, event(1));
	expect_streams(TO_THE_END, true);
	snprintf(head, sizeof(head), COUNTED, 4 * strlen(event(0)));
	begin_texts(head);
	for (int i = 0; i < 4; i++)
		add(server_says, event(i));
	add(wanted, event(0));
	add(wanted, event(1));
	add(wanted, line_ends(2 * strlen(event(2))));
	expect_streams(head, false);
	live_ends(&live);
}

/* Lines of JSON, one in a chunk; where there are several, no empty line may follow one. */
Test(stream, clean_of_json_lines)
{
	struct live live;

	go_live(&live, CLEAN);
	begin_texts(CHUNKED);
	for (int i = 0; i < 4; i++)
		add_chunk(server_says, "{\"response\": \"a\"}\n");
	add(server_says, LAST);
	add_chunk(wanted, "{\"response\": \"a\"}\n");
	add_chunk(wanted, "{\"response\": \"a\"}\n");
	add(wanted, LAST);
	expect_streams(CHUNKED, true);
	begin_texts(CHUNKED);
	for (int i = 0; i < 2; i++)
		add_chunk(server_says, "{\"response\": \"a\"}\n{\"response\": \"b\"}\n{\"response\": \"c\"}\n");
	add(server_says, LAST);
	strcpy(wanted, server_says);
	expect_streams(CHUNKED, false);
	live_ends(&live);
}

Test(stream, error_event)
{
	struct live live;
	char text[1000];

	go_live(&live, RULE("error-event: { type: overloaded, chunks: 2 }", ""));
	begin_texts(CHUNKED);
	add_stream(server_says, 4);
	add_chunk(wanted, event(0));
	add_chunk(wanted, event(1));
	strcpy(text, OVERLOADED);
	add(text, line_ends(strlen(event(2)) - strlen(OVERLOADED)));
	add_chunk(wanted, text);
	add(wanted, LAST);
	expect_streams(CHUNKED, true);
	live_ends(&live);
}

Test(stream, error_event_in_front)
{
	static const char first[] = "data: {\"text\": \"what has room for the error, but not for all of its words\"}\n\n";
	struct live live;
	char text[1000];

	go_live(&live, RULE("error-event: overloaded", ""));
	begin_texts(CHUNKED);
	add_chunk(server_says, first);
	add_chunk(server_says, event(2));
	add(server_says, LAST);
	strcpy(text, OVERLOADED_BRIEFLY);
	add(text, line_ends(strlen(first) - strlen(OVERLOADED_BRIEFLY)));
	add_chunk(wanted, text);
	add(wanted, LAST);
	expect_streams(CHUNKED, true);
	/* There is no room, then it is no stream. */
	begin_texts(CHUNKED);
	add_chunk(server_says, "data: {\"text\": \"short\"}\n\n");
	add_chunk(server_says, event(2));
	add(server_says, LAST);
	strcpy(wanted, server_says);
	expect_streams(CHUNKED, false);
	begin_texts("HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n");
	add(server_says, "{\"answer\": 12345}");
	strcpy(wanted, server_says);
	expect_streams("HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n", false);
	live_ends(&live);
}

Test(stream, drop_done)
{
	struct live live;

	go_live(&live, RULE("drop-done: true", ""));
	begin_texts(CHUNKED);
	add_chunk(server_says, event(0));
	add_chunk(wanted, event(0));
	add_chunk(server_says, DONE);
	add_chunk(wanted, changed(DONE, 0, ':'));
	add(server_says, LAST);
	add(wanted, LAST);
	for (size_t first = strlen(CHUNKED); first <= strlen(server_says); first++) {
		/* A line whose first byte has gone cannot be made a comment. */
		const size_t done = strstr(server_says, DONE) - server_says;
		const bool gone = first > done && first < done + strlen("data: [DONE]");

		wanted[done] = gone ? 'd' : ':';
		expect_stream(first, false);
	}
	begin_texts(CHUNKED);
	add_chunk(server_says, event(0));
	add_chunk(wanted, event(0));
	add_chunk(server_says, STOP);
	add_chunk(wanted, ":vent: message_stop\n:ata: {\"type\": \"message_stop\"}\n\n");
	add(server_says, LAST);
	add(wanted, LAST);
	expect_stream(strlen(CHUNKED), false);
	expect_stream(strlen(CHUNKED) + 10, false);
	live_ends(&live);
}

Test(stream, garble)
{
	struct live live;
	size_t times;

	go_live(&live, RULE("garble: { every: 3 }", ""));
	begin_texts(CHUNKED);
	for (int i = 1; i <= 7; i++) {
		add_chunk(server_says, event(i));
		add_chunk(wanted, i % 3 ? event(i) : changed(event(i), 6, '#'));
	}
	add(server_says, LAST);
	add(wanted, LAST);
	times = expect_streams(CHUNKED, false);
	expect_counts(&live, times, CHAOS_SKIP_NO_ROOM, 0);
	live_ends(&live);
}

/* A segment as large as they get, with more changes than are remembered. */
Test(stream, garble_much)
{
	struct live live;

	go_live(&live, RULE("garble: true", ""));
	begin_texts(TO_THE_END);
	for (int i = 0; i < 3000; i++) {
		add(server_says + 20 * i, "data: {\"a\": \"b\"}\n\n");
		add(wanted + 20 * i, "data: #\"a\": \"b\"}\n\n");
	}
	expect_stream(strlen(TO_THE_END), false);
	expect_stream(SIZE_MAX, false);
	live_ends(&live);
}

/* What is sent again is changed again. */
Test(stream, after_a_loss)
{
	static const char *const rules[] = { RULE("garble: true", ""), RULE("drop-done: true", ""), CLEAN };
	struct live live;
	struct ends e;
	bool ended;

	for (size_t r = 0; r < COUNT(rules); r++) {
		go_live(&live, rules[r]);
		begin_texts(CHUNKED);
		for (int i = 0; i < 4; i++) {
			add_chunk(server_says, i < 3 ? event(i) : DONE);
			if (r < 2 || i < 2)
				add_chunk(wanted, i == 3   ? r ? changed(DONE, 0, ':') : DONE
						  : r == 0 ? changed(event(i), 6, '#')
							   : event(i));
		}
		add(server_says, LAST);
		add(wanted, LAST);
		e = meet(AF_INET);
		send_request(&e, REQUEST);
		lose_payload(&e, true);
		answer_in_two(&e, strlen(server_says), strlen(CHUNKED) + 200);
		cr_assert_eq(hears(e.client, 50), -EAGAIN);
		lose_payload(&e, false);
		shutdown(e.server, SHUT_WR);
		client_hears[hear_all(&e, sizeof(client_hears), &ended)] = 0;
		cr_expect_str_eq(client_hears, wanted, "sent again:\n%s", client_hears);
		cr_expect(ended);
		part_company(&e);
		live_ends(&live);
	}
}
