// SPDX-License-Identifier: GPL-2.0-only
/*
 * Any bytes as what a server of HTTP/2 says: with streams reset in it, it is as long as before, and frames as far as it was,
 * the same ones but for those that were made of the messages.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/require.h"
#include "tests/http2_frames.h"

/* Whole frames in a row: where they end. */
static size_t end_of_frames(const uint8_t *bytes, size_t size, unsigned int *frames)
{
	size_t at = 0;

	for (*frames = 0; size - at >= HTTP2_HEAD; (*frames)++) {
		const struct http2_frame f = http2_frame_of(bytes + at);

		if (!http2_is_likely(&f) || f.length > size - at - HTTP2_HEAD)
			break;
		at += HTTP2_HEAD + f.length;
	}
	return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned int before, after, count;
	uint8_t *bytes = malloc(size + 1);
	size_t end;

	if (!bytes)
		return 0;
	memcpy(bytes, data, size);
	end = end_of_frames(bytes, size, &before);
	count = reset_streams(bytes, size, 7);
	REQUIRE(end_of_frames(bytes, size, &after) == end);
	REQUIRE(after == before + count);
	REQUIRE(memcmp(bytes + end, data + end, size - end) == 0);
	free(bytes);
	return 0;
}
