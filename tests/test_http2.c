// SPDX-License-Identifier: GPL-2.0-only
/* Frames of HTTP/2: the very code that runs in the kernel (bpf/http2.h); and `grpc`, how it is written and what is said of it. */
#include <criterion/criterion.h>

#include "tests/http2_frames.h"
#include "tests/random_rules.h"
#include "tests/rule_words.h"

static unsigned char bytes[70000];

static struct http2_frame frame(const char *head)
{
	return http2_frame_of((const unsigned char *)head);
}

Test(http2, frames)
{
	const struct http2_frame f = frame("\x01\x02\x03\x01\x05\x80\x00\x01\x03");

	cr_expect_eq(f.length, 0x10203);
	cr_expect_eq(f.type, HTTP2_HEADERS);
	cr_expect_eq(f.flags, 5);
	cr_expect_eq(f.stream, 0x103, "without the reserved bit");
}

Test(http2, what_a_server_may_send)
{
	static const char *const likely[] = {
		"\0\0\x0c\x04\0\0\0\0\0", "\0\0\0\x04\x01\0\0\0\0", "\0\0\x08\x06\0\0\0\0\0", "\0\0\x04\x08\0\0\0\0\0",
		"\0\0\x04\x08\0\0\0\0\x07", "\0\0\x1f\x01\x04\0\0\0\x01", "\0\x40\0\0\0\0\0\0\x03", "\0\0\x04\x03\0\0\0\0\x05",
		"\0\0\x09\x07\0\0\0\0\0", "\0\0\x03\x09\x04\0\0\0\x05",
	};
	static const char *const unlikely[] = {
		"HTTP/1.1 ", "\x17\x03\x03\x01\x10\x01\x02\x03\x04", "\0\0\x0d\x04\0\0\0\0\0", "\0\0\x0c\x04\0\0\0\0\x01",
		"\0\0\x08\x06\0\0\0\0\x01", "\0\0\x05\x03\0\0\0\0\x01", "\0\0\x1f\x01\x04\0\0\0\x02", "\0\0\x1f\0\0\0\0\0\0",
		"\0\0\x04\x0d\0\0\0\0\0", "\x20\0\0\0\0\0\0\0\x01", "{\"a\": \"b\"}",
	};

	for (size_t i = 0; i < sizeof(likely) / sizeof(likely[0]); i++) {
		const struct http2_frame f = frame(likely[i]);

		cr_expect(http2_is_likely(&f), "%zu", i);
	}
	for (size_t i = 0; i < sizeof(unlikely) / sizeof(unlikely[0]); i++) {
		const struct http2_frame f = frame(unlikely[i]);

		cr_expect_not(http2_is_likely(&f), "%zu", i);
	}
}

Test(http2, first_messages)
{
	struct chaos_http2_reader r = { 0 };
	const struct http2_frame head = { .type = HTTP2_HEADERS, .flags = 4, .stream = 5 };
	const struct http2_frame trailer = { .type = HTTP2_HEADERS, .flags = 5, .stream = 7 };
	const struct http2_frame data = { .type = HTTP2_DATA, .stream = 5, .length = 100 };
	const struct http2_frame other = { .type = HTTP2_DATA, .stream = 7, .length = 100 };
	const struct http2_frame none = { .type = HTTP2_DATA, .stream = 0, .length = 100 };

	cr_expect_not(http2_is_first_message(&r, &none));
	cr_expect_not(http2_is_first_message(&r, &data), "nobody saw its answer begin");
	cr_expect_not(http2_is_first_message(&r, &head));
	cr_expect_not(http2_is_first_message(&r, &trailer));
	cr_expect_not(http2_is_first_message(&r, &other), "an answer without a message");
	cr_expect(http2_is_first_message(&r, &data));
	cr_expect_not(http2_is_first_message(&r, &data), "its second");
	for (unsigned int stream = 1; stream < 2 * CHAOS_HTTP2_BEGUN + 3; stream += 2)
		http2_answer_begins(&r, stream);
	cr_expect_not(http2_message_begins(&r, 1), "the oldest is forgotten");
	cr_expect(http2_message_begins(&r, 3));
	cr_expect(http2_message_begins(&r, 2 * CHAOS_HTTP2_BEGUN + 1));
}

Test(http2, what_takes_the_place)
{
	static const unsigned int lengths[] = { 13, 14, 300, 16384, 65000 };

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		const size_t length = lengths[i];
		size_t size = add_frame((char *)bytes, HTTP2_HEADERS, 4, 0x1234567, 20, 'h'), from = size;
		struct http2_frame f;

		size += add_frame((char *)bytes + size, HTTP2_DATA, 1, 0x1234567, length, 'm');
		cr_assert_eq(reset_streams(bytes, size, 11), 1);
		f = http2_frame_of(bytes + from);
		cr_expect_eq(f.type, HTTP2_RST_STREAM);
		cr_expect_eq(f.length, 4);
		cr_expect_eq(f.stream, 0x1234567);
		cr_expect_arr_eq(bytes + from + HTTP2_HEAD, "\0\0\0\x0b", 4);
		f = http2_frame_of(bytes + from + HTTP2_RST);
		cr_expect_eq(f.type, HTTP2_DATA);
		cr_expect_eq(f.flags, 0);
		cr_expect_eq(f.stream, 0x1234567);
		cr_expect_eq(from + HTTP2_RST + HTTP2_HEAD + f.length, size, "and what follows stays where it is");
	}
	cr_expect_not(http2_has_room(12));
}

#define GRPC(fault) DOC("{ ports: 50051 }", "{ grpc: " fault " }", "")

Test(http2, language)
{
	struct rules *rules = parse(GRPC("resource-exhausted"));

	cr_expect_eq(rules->rules[0].fault.faults, 1U << CHAOS_GRPC);
	cr_expect_eq(rules->rules[0].fault.grpc, 11);
	cr_expect_eq(rules->rules[0].per, CHAOS_PER_REQUEST);
	cr_expect_eq(rules->rules[0].match.protocols, 1U << CHAOS_TCP);
	rules_free(rules);
	expect_sentence(GRPC("unavailable"), "a: TCP connections from any process to port 50051 anywhere have calls of gRPC end in "
					     "unavailable; on all requests; ends after 1 min.");
	expect_wrong(GRPC("unavailible"), "t:5:18: unknown grpc 'unavailible', did you mean 'unavailable'?");
	expect_wrong(DOC("{ ports: 1 }", "{ grpc: internal, delay: 1s }", ""),
		     "t:5:12: 'grpc' goes with no other fault: it is decided for each answer, they before");
	expect_wrong(DOC("{ ports: 1, side: server }", "{ grpc: internal }", ""),
		     "t:4:28: 'grpc' is for the client: streams are reset where answers arrive; leave 'side' out and name the "
		     "clients");
	expect_wrong(DOC("{ ports: 1, protocol: udp }", "{ grpc: internal }", ""), "t:4:32: 'grpc' is for tcp only");
	expect_wrong(DOC("{ ports: 1, direction: request }", "{ grpc: internal }", ""),
		     "t:4:33: 'grpc' is about the response; leave 'direction' out");
	expect_wrong(DOC("{ ports: 1 }", "{ grpc: internal }", "  per: packet\n"),
		     "t:7:8: 'per: packet' makes no sense with 'grpc', decided for each call");
}
