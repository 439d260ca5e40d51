/* SPDX-License-Identifier: GPL-2.0-only */
/* The reader of bpf/http.h on the host, fed in segments, piece by piece. */
#ifndef TESTS_HTTP_READER_H
#define TESTS_HTTP_READER_H

#include "bpf/http.h"
#include "user/tables/tables.h"

#define HTTP_PIECE 8

static inline void http_segment(struct chaos_http_reader *r, const struct tables *t, const unsigned char *bytes,
				size_t length)
{
	while (length && r->phase != HTTP_FOREIGN) {
		size_t n = http_skip(r, length);

		bytes += n;
		length -= n;
		n = length < HTTP_PIECE ? length : HTTP_PIECE;
		for (size_t i = 0; i < n; i++)
			http_byte(r, t->http, t->knobs.http_words, t->knobs.http_wants, bytes[i]);
		bytes += n;
		length -= n;
	}
}

#endif
