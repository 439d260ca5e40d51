/* SPDX-License-Identifier: GPL-2.0-only */
/* Frames of HTTP/2 as a server writes them. */
#ifndef TESTS_HTTP2_FRAMES_H
#define TESTS_HTTP2_FRAMES_H

#include <string.h>

#include "bpf/http2.h"

/* Writes a frame whose payload is `length` bytes of `fill`, and returns its size. */
static inline size_t add_frame(char *to, unsigned char type, unsigned char flags, unsigned int stream, size_t length, char fill)
{
	const unsigned char head[HTTP2_HEAD] = { length >> 16, length >> 8, length, type, flags, stream >> 24, stream >> 16,
						 stream >> 8, stream };

	memcpy(to, head, HTTP2_HEAD);
	memset(to + HTTP2_HEAD, fill, length);
	return HTTP2_HEAD + length;
}

/* RST_STREAM with this error. */
static inline size_t add_reset(char *to, unsigned int stream, unsigned char code)
{
	add_frame(to, HTTP2_RST_STREAM, 0, stream, 4, 0);
	to[12] = (char)code;
	return HTTP2_RST;
}

/*
 * What a server says, as it arrives: each stream is reset where its first message has room for that. Whole frames alone are read,
 * up to the first that is none. Returns how many streams were.
 */
static inline unsigned int reset_streams(unsigned char *bytes, size_t size, unsigned char code)
{
	struct chaos_http2_reader r = { 0 };
	unsigned int count = 0;
	size_t at = 0;

	while (size - at >= HTTP2_HEAD) {
		const struct http2_frame f = http2_frame_of(bytes + at);
		const struct chaos_http2_edit edit = { .stream = f.stream, .length = f.length, .code = code };

		if (!http2_is_likely(&f) || f.length > size - at - HTTP2_HEAD)
			break;
		if (http2_is_first_message(&r, &f) && http2_has_room(f.length)) {
			http2_put_reset(bytes + at, &edit);
			count++;
		}
		at += HTTP2_HEAD + f.length;
	}
	return count;
}

#endif
