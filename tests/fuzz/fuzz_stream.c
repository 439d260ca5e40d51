// SPDX-License-Identifier: GPL-2.0-only
/*
 * Any bytes as the body of an answer: the reader of bpf/stream.h stays within its bounds, and counts the events that are there
 * when the text is looked at line by line. The first byte says how the end of the body is told.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/stream.h"
#include "tests/fuzz/require.h"

/* Whole lines of the text, without their ends; what a line is goes by all of it. */
static unsigned int events_of(const char *text, size_t size)
{
	unsigned int events = 0;
	bool data = false;
	char line[16];

	for (size_t at = 0; at < size;) {
		const char *end = memchr(text + at, '\n', size - at);
		size_t n = 0;

		if (!end)
			break;
		for (; text + at < end; at++) {
			if (text[at] != '\r' && n < sizeof(line))
				line[n++] = text[at];
		}
		at++;
		if (n && line[0] == '{') {
			events++;
			data = false;
		} else if (!n) {
			events += data;
			data = false;
		} else if (n >= 5 && memcmp(line, "data:", 5) == 0) {
			data = true;
		}
	}
	return events;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const enum chaos_stream_coding coding = size ? data[0] % 3 : 0;
	struct chaos_http_reader bench = { 0 };
	struct chaos_stream_reader s = { 0 };
	char *body = malloc(size + 1);
	size_t length = 0;

	if (!size || !body) {
		free(body);
		return 0;
	}
	stream_begins(&s, 0xfffffff0, coding, coding == CHAOS_STREAM_COUNTED ? data[0] : 0);
	if (coding == CHAOS_STREAM_COUNTED && !data[0])
		s.phase = HTTP_START;
	for (size_t i = 1; i < size; i++) {
		const uint32_t number = s.next;
		const bool in_body = stream_in_body(&s);
		enum stream_mark mark = stream_byte(&s, &bench, data[i]);

		if (in_body)
			body[length++] = (char)data[i];
		REQUIRE(s.next == number + 1);
		REQUIRE(mark == STREAM_NOTHING || in_body);
		REQUIRE(mark != STREAM_OVER || data[i] == '\n');
		REQUIRE(s.line_from - 0xfffffff0u < i);
		REQUIRE(s.left < STREAM_MAX_LENGTH || s.phase == HTTP_FOREIGN);
		REQUIRE(!stream_in_body(&s) || coding == CHAOS_STREAM_TO_THE_END || s.left);
	}
	REQUIRE(s.events == events_of(body, length));
	free(body);
	return 0;
}
