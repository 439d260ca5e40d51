// SPDX-License-Identifier: GPL-2.0-only
/*
 * Streams of HTTP/2 that are reset (bpf/http2.bpf.h), between real sockets: whatever segments the server's frames come in, the
 * client hears what it is to hear, byte by byte.
 */
#include "tests/bpf/exchange.h"
#include "tests/http2_frames.h"

TestSuite(http2, .init = live_world, .fini = live_world_ends, .timeout = 300);

#define GRPC(more) "version: 1\nrules:\n- { name: a, match: { everything: true }, fault: { grpc: unavailable }, duration: 1h" more " }\n"
#define REFUSED 7

static size_t says, wants; /* bytes of server_says, of wanted */

static void begin_frames(void)
{
	says = wants = 0;
}

static void add_to_both(unsigned char type, unsigned char flags, unsigned int stream, size_t length)
{
	says += add_frame(server_says + says, type, flags, stream, length, 'x');
	wants += add_frame(wanted + wants, type, flags, stream, length, 'x');
}

/* The first message of an answer; the client is to find its stream reset. */
static void add_message(unsigned int stream, size_t length)
{
	const size_t frame = add_frame(server_says + says, HTTP2_DATA, 0, stream, length, 'm');

	memcpy(wanted + wants, server_says + says, frame);
	wants += add_reset(wanted + wants, stream, REFUSED);
	wants += add_frame(wanted + wants, HTTP2_DATA, 0, stream, length - HTTP2_RST, 'm');
	says += frame;
	cr_assert_eq(says, wants);
}

/* HEADERS, the message, HEADERS that end the stream: a call of gRPC. */
static void add_call(unsigned int stream, size_t length)
{
	add_to_both(HTTP2_HEADERS, 4, stream, 31);
	add_message(stream, length);
	add_to_both(HTTP2_HEADERS, 5, stream, 17);
}

/* A connection on which SETTINGS have come. */
static struct ends begin_connection(void)
{
	struct ends e = meet(AF_INET);
	char settings[64];
	const size_t size = add_frame(settings, HTTP2_SETTINGS, 0, 0, 12, 0);

	send_request(&e, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
	say(e.server, settings, size);
	cr_assert_eq(hears(e.client, 5000), (int)size);
	return e;
}

/* A call between other frames; where its message is. */
static size_t add_one_between(void)
{
	size_t message;

	begin_frames();
	add_to_both(HTTP2_PING, 1, 0, 8);
	message = says + HTTP2_HEAD + 31;
	add_call(1, 40);
	add_to_both(HTTP2_WINDOW_UPDATE, 0, 0, 4);
	return message;
}

Test(http2, however_it_is_cut)
{
	uint64_t reset = 0, left = 0;
	struct live live;
	size_t message;

	go_live(&live, GRPC(""));
	message = add_one_between();
	for (size_t first = 1; first <= says; first++) {
		struct ends e = begin_connection();
		char what[40];

		snprintf(what, sizeof(what), "cut at %zu of %zu", first, says);
		answer_in_two(&e, says, first);
		/* Within the message's head its beginning has been delivered. */
		if (first > message && first < message + HTTP2_HEAD) {
			expect_original(&e, says, what);
			left++;
			add_one_between(); /* what is wanted, once more */
		} else {
			expect_heard(&e, wants, what);
			reset++;
		}
		part_company(&e);
	}
	cr_expect_eq(left, 8);
	expect_counts(&live, reset, CHAOS_SKIP_NO_ROOM, left);
	live_ends(&live);
}

Test(http2, which_answers)
{
	struct live live;
	struct ends e;

	go_live(&live, GRPC(""));
	e = begin_connection();
	begin_frames();
	add_to_both(HTTP2_HEADERS, 5, 1, 50); /* an error already */
	add_call(3, 13);
	add_to_both(HTTP2_HEADERS, 4, 5, 20);
	add_to_both(HTTP2_DATA, 0, 5, 12); /* no room */
	add_to_both(HTTP2_DATA, 0, 5, 100); /* not its first */
	add_to_both(HTTP2_HEADERS, 4, 7, 20); /* two at once */
	add_to_both(HTTP2_HEADERS, 4, 9, 20);
	add_message(9, 20000);
	add_to_both(HTTP2_DATA, 1, 9, 9000);
	add_message(7, 500);
	add_to_both(HTTP2_DATA, 0, 11, 100); /* of an answer that nobody saw begin */
	say(e.server, server_says, says);
	expect_heard(&e, wants, "answers");
	expect_counts(&live, 3, CHAOS_SKIP_NO_ROOM, 1);
	part_company(&e);
	live_ends(&live);
}

Test(http2, many_streams)
{
	struct live live;
	struct ends e;

	go_live(&live, GRPC(""));
	e = begin_connection();
	for (unsigned int round = 0; round < 20; round++) {
		begin_frames();
		for (unsigned int i = 0; i < 30; i++)
			add_call(60 * round + 2 * i + 1, 64 + i);
		say(e.server, server_says, says);
		expect_heard(&e, wants, "many");
	}
	expect_counts(&live, 600, CHAOS_SKIP_NO_ROOM, 0);
	part_company(&e);
	live_ends(&live);
}

Test(http2, what_is_sent_again)
{
	struct live live;
	struct ends e;

	go_live(&live, GRPC(""));
	e = begin_connection();
	begin_frames();
	add_call(1, 40);
	add_call(3, 50);
	lose_payload(&e, true);
	say(e.server, server_says, says);
	usleep(50000);
	lose_payload(&e, false);
	expect_heard(&e, wants, "sent again");
	expect_counts(&live, 2, CHAOS_SKIP_NO_ROOM, 0);
	part_company(&e);
	live_ends(&live);
}

/* A channel that was open before the rule: joined at the next segment that begins and ends with frames. */
Test(http2, older_than_the_rule)
{
	struct ends e = begin_connection();
	struct live live;

	begin_frames();
	add_call(1, 40);
	say(e.server, server_says, says);
	expect_original(&e, says, "before");
	go_live(&live, GRPC(""));
	begin_frames();
	add_to_both(HTTP2_PING, 0, 0, 8);
	say(e.server, server_says, says);
	expect_heard(&e, wants, "joined");
	begin_frames();
	add_call(3, 40);
	say(e.server, server_says, says);
	expect_heard(&e, wants, "after");
	part_company(&e);
	live_ends(&live);
}

#define TWO \
	"version: 1\nrules:\n" \
	"- { name: a, match: { everything: true }, fault: { grpc: unavailable }, duration: 1h, max-hits: 1 }\n" \
	"- { name: b, match: { everything: true }, fault: { delay: 1ms }, duration: 1h }\n"

/* The connection is another rule's then. */
Test(http2, when_the_rule_is_over)
{
	struct live live;
	struct ends e;

	go_live(&live, TWO);
	e = begin_connection();
	begin_frames();
	add_call(1, 40);
	say(e.server, server_says, says);
	expect_heard(&e, wants, "the last of the rule");
	for (unsigned int stream = 3; stream < 9; stream += 2) {
		begin_frames();
		add_call(stream, 40);
		say(e.server, server_says, says);
		expect_original(&e, says, "behind it");
	}
	cr_expect_eq(stats_of_rule(&live.l, 0).injected, 1);
	cr_expect_eq(stats_of_rule(&live.l, 1).faults[CHAOS_GRPC], 0);
	part_company(&e);
	live_ends(&live);
}

Test(http2, what_is_no_http2)
{
	struct live live;

	go_live(&live, GRPC(""));
	for (int tls = 0; tls < 2; tls++) {
		struct ends e = meet(AF_INET);

		send_request(&e, "hello there");
		strcpy(server_says, tls ? "\x16\x03\x03 and so on, for long enough" : "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na");
		for (int i = 0; i < 3; i++) {
			say(e.server, server_says, strlen(server_says));
			expect_original(&e, strlen(server_says), tls ? "TLS" : "HTTP/1");
		}
		part_company(&e);
		if (!tls)
			expect_counts(&live, 0, CHAOS_SKIP_UNREAD, 1);
	}
	cr_expect_eq(stats_of_rule(&live.l, 0).skipped[CHAOS_SKIP_ENCRYPTED], 1);
	live_ends(&live);
}
