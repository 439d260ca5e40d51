/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reading the frames of HTTP/2 (RFC 9113, section 4.1) that a server sends, and what is put in the place of one. Pure, as
 * bpf/http.h: the same in BPF programs and in the tests on the host (tests/test_http2.c, tests/fuzz/fuzz_http2.c).
 *
 *	length (3 bytes), type, flags, stream (4 bytes, 31 bits), then so many bytes
 *
 * A stream is reset in front of the first message of its answer: HEADERS has passed, as it must (it changes the state by
 * which all later ones are decoded). In the place of DATA come RST_STREAM and, so that what follows stays where it is, DATA
 * again, 13 bytes shorter. The client drops that, as the stream is over for it, and still counts it for the connection's window.
 */
#ifndef HTTP2_H
#define HTTP2_H

#include <stdbool.h>

#include "bpf/chaos.h"

#ifndef always
#define always __attribute__((always_inline)) inline
#endif

enum http2_type {
	HTTP2_DATA,
	HTTP2_HEADERS,
	HTTP2_PRIORITY,
	HTTP2_RST_STREAM,
	HTTP2_SETTINGS,
	HTTP2_PUSH_PROMISE,
	HTTP2_PING,
	HTTP2_GOAWAY,
	HTTP2_WINDOW_UPDATE,
	HTTP2_CONTINUATION,
	HTTP2_LAST_TYPE = 12, /* ALTSVC, ORIGIN: nobody has others */
};

#define HTTP2_END_STREAM 1
#define HTTP2_HEAD       9
#define HTTP2_RST        13         /* the whole frame */
#define HTTP2_MAX_LENGTH (1U << 20) /* of a frame that is believed to be one */

struct http2_frame {
	__u32 length;
	__u32 stream;
	__u8 type;
	__u8 flags;
};

static always struct http2_frame http2_frame_of(const __u8 *head)
{
	return (struct http2_frame){
		.length = (__u32)head[0] << 16 | (__u32)head[1] << 8 | head[2],
		.type = head[3],
		.flags = head[4],
		.stream = (__u32)(head[5] & 0x7f) << 24 | (__u32)head[6] << 16 | (__u32)head[7] << 8 | head[8],
	};
}

/* Could a server have sent that? It tells frames from the middle of one, where a connection is joined. */
static always bool http2_is_likely(const struct http2_frame *f)
{
	if (f->length > HTTP2_MAX_LENGTH || f->type > HTTP2_LAST_TYPE)
		return false;
	switch (f->type) {
	case HTTP2_DATA:
	case HTTP2_HEADERS:
	case HTTP2_CONTINUATION:
		return f->stream & 1;
	case HTTP2_RST_STREAM:
		return f->stream && f->length == 4;
	case HTTP2_SETTINGS:
		return !f->stream && f->length % 6 == 0;
	case HTTP2_PING:
		return !f->stream && f->length == 8;
	case HTTP2_GOAWAY:
		return !f->stream && f->length >= 8;
	case HTTP2_WINDOW_UPDATE:
		return f->length == 4;
	default:
		return true;
	}
}

/* The answer on this stream has begun. A full table forgets the oldest, which is left alone then. */
static always void http2_answer_begins(struct chaos_http2_reader *r, __u32 stream)
{
	r->begun[r->begins++ & (CHAOS_HTTP2_BEGUN - 1)] = stream;
}

/* Does its first message come now? Once for each. */
static always bool http2_message_begins(struct chaos_http2_reader *r, __u32 stream)
{
	bool found = false;

	for (__u32 i = 0; i < CHAOS_HTTP2_BEGUN; i++) {
		if (r->begun[i] == stream) {
			r->begun[i] = 0;
			found = true;
		}
	}
	return found;
}

/*
 * What a frame means for answers: true when it is DATA with the first message of one. An answer that is nothing but HEADERS is an
 * error already, or has no message.
 */
static always bool http2_is_first_message(struct chaos_http2_reader *r, const struct http2_frame *f)
{
	if (f->type == HTTP2_HEADERS && !(f->flags & HTTP2_END_STREAM))
		http2_answer_begins(r, f->stream);
	return f->type == HTTP2_DATA && f->stream && http2_message_begins(r, f->stream);
}

/* The payload alone has to hold the RST_STREAM: the head that DATA had is needed for what is left of it. */
static always bool http2_has_room(__u32 length)
{
	return length >= HTTP2_RST;
}

static always void http2_put_head(__u8 *to, __u32 length, enum http2_type type, __u32 stream)
{
	to[0] = length >> 16;
	to[1] = length >> 8;
	to[2] = length;
	to[3] = type;
	to[4] = 0; /* flags */
	to[5] = stream >> 24;
	to[6] = stream >> 16;
	to[7] = stream >> 8;
	to[8] = stream;
}

/* What comes in the place of DATA, CHAOS_HTTP2_TEXT bytes: RST_STREAM with this code, and the head of DATA. */
static always void http2_put_reset(__u8 *to, const struct chaos_http2_edit *e)
{
	http2_put_head(to, HTTP2_RST - HTTP2_HEAD, HTTP2_RST_STREAM, e->stream);
	to[9] = 0;
	to[10] = 0;
	to[11] = 0;
	to[12] = e->code;
	http2_put_head(to + HTTP2_RST, e->length - HTTP2_RST, HTTP2_DATA, e->stream);
}

#endif
