/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reading the body of an answer that is a stream, byte by byte: HTTP's coding in chunks, and in it events (SSE: lines that
 * begin with "data:" or "event:", up to an empty line) or lines of JSON (NDJSON: lines that begin with a brace). Pure, as
 * bpf/http.h is: what it remembers is in struct chaos_stream_reader, and it is the same in BPF programs and in the tests on
 * the host (tests/test_stream.c, tests/fuzz/fuzz_stream.c).
 *
 *	1f\r\n                          a chunk begins: CHUNK_SIZE, then CHUNK
 *	event: message_stop\n           FIELD up to the colon, VALUE behind it: the mark that the stream is at its end, DONE
 *	data: {"type": ...}\n           the payload begins at the brace, PAYLOAD
 *	\n                              the event is over, OVER
 *	\r\n                            CHUNK_END
 */
#ifndef STREAM_H
#define STREAM_H

#include "bpf/http.h"

/* What a byte was. */
enum stream_mark {
	STREAM_NOTHING,
	STREAM_PAYLOAD, /* the first of an event's payload */
	STREAM_DONE,    /* with it the line is known for one that says that the stream is at its end */
	STREAM_OVER,    /* the last of an event */
};

/* Where in a line. */
enum stream_line {
	STREAM_FIELD, /* in the field's name; `at` 0: at its beginning */
	STREAM_VALUE,
	STREAM_JSON,
	STREAM_OTHER,
};

#define STREAM_MAX_LENGTH (1ULL << 30)

/*
 * The words that are looked for, each in a column: first the fields, then what values say at the end of a stream (OpenAI and
 * what speaks like it; Anthropic; OpenAI's Responses; Cohere).
 */
enum stream_word {
	STREAM_WORD_DATA,
	STREAM_WORD_EVENT,
	STREAM_WORD_DONE,
	STREAM_WORD_MESSAGE_STOP,
	STREAM_WORD_RESPONSE_COMPLETED,
	STREAM_WORD_MESSAGE_END,
	STREAM_WORD_COUNT,
};
#define STREAM_WORD_MAX 32
#define STREAM_FIELDS   (1 << STREAM_WORD_DATA | 1 << STREAM_WORD_EVENT)
#define STREAM_ENDINGS \
	(1 << STREAM_WORD_MESSAGE_STOP | 1 << STREAM_WORD_RESPONSE_COMPLETED | 1 << STREAM_WORD_MESSAGE_END)
static const char stream_words[STREAM_WORD_COUNT][STREAM_WORD_MAX] = {
	"data:", "event:", "[DONE]", "message_stop", "response.completed", "message-end",
};

/* Begins to read at the byte with this number; `length` is that of a body whose length is known, which is no coding in chunks. */
static always void stream_begins(struct chaos_stream_reader *s, __u32 number, enum chaos_stream_coding coding,
				 __u32 length)
{
	s->next = number;
	s->left = length;
	s->events = 0;
	s->line_from = number;
	s->edits = 0;
	s->coding = coding;
	s->phase = coding == CHAOS_STREAM_CHUNKED ? HTTP_CHUNK_SIZE : HTTP_BODY;
	s->line = STREAM_FIELD;
	s->words = STREAM_FIELDS;
	s->at = 0;
	s->has_data = 0;
	s->ending = 0;
	s->json = 0;
}

/* Is the next byte one of the body? */
static always bool stream_in_body(const struct chaos_stream_reader *s)
{
	return s->phase == HTTP_BODY || s->phase == HTTP_CHUNK;
}

/* Does a line begin with the next byte of the body? */
static always bool stream_at_line(const struct chaos_stream_reader *s)
{
	return s->line == STREAM_FIELD && !s->at;
}

/* One byte more of the words that may still be meant; those that are whole with it, a set. */
static always __u32 stream_word_byte(struct chaos_stream_reader *s, __u8 c)
{
	const __u32 at = s->at & (STREAM_WORD_MAX - 1);
	__u32 words = s->words, whole = 0;

	for (__u32 i = 0; i < STREAM_WORD_COUNT; i++) {
		const __u32 bit = 1u << i;

		words &= ~bit | ((__u32)http_equals(stream_words[i][at], c) & bit);
		whole |= (__u32)http_equals(stream_words[i][(at + 1) & (STREAM_WORD_MAX - 1)], 0) & bit;
	}
	s->words = words;
	s->at++;
	return words & whole;
}

static always enum stream_mark stream_line_ends(struct chaos_stream_reader *s)
{
	const bool empty = stream_at_line(s);
	const bool over = s->line == STREAM_JSON || (empty && s->has_data);

	s->line = STREAM_FIELD;
	s->words = STREAM_FIELDS;
	s->at = 0;
	if (over || empty) {
		s->has_data = 0;
		s->ending = 0;
	}
	if (!over)
		return STREAM_NOTHING;
	s->events++;
	return STREAM_OVER;
}

/* A byte of a field's name. */
static always enum stream_mark stream_field_byte(struct chaos_stream_reader *s, __u32 number, __u8 c)
{
	__u32 whole;

	if (!s->at) {
		s->line_from = number;
		if (c == '{') {
			s->line = STREAM_JSON;
			s->json = 1;
			return STREAM_PAYLOAD;
		}
	}
	whole = stream_word_byte(s, c);
	if (!s->words)
		s->line = STREAM_OTHER;
	if (!whole)
		return STREAM_NOTHING;
	s->line = STREAM_VALUE;
	s->at = 0;
	if (whole & 1 << STREAM_WORD_EVENT) {
		s->words = STREAM_ENDINGS;
		return STREAM_NOTHING;
	}
	s->words = 1 << STREAM_WORD_DONE;
	s->has_data = 1;
	return s->ending ? STREAM_DONE : STREAM_NOTHING;
}

static always enum stream_mark stream_value_byte(struct chaos_stream_reader *s, __u8 c)
{
	const bool data = s->words & 1 << STREAM_WORD_DONE, first = !s->at;
	__u32 whole;

	if (first && c == ' ')
		return STREAM_NOTHING;
	whole = stream_word_byte(s, c);
	if (whole) {
		s->line = STREAM_OTHER;
		s->ending = 1;
		return STREAM_DONE;
	}
	if (!s->words)
		s->line = STREAM_OTHER;
	return first && data ? STREAM_PAYLOAD : STREAM_NOTHING;
}

static always enum stream_mark stream_body_byte(struct chaos_stream_reader *s, __u32 number, __u8 c)
{
	if (c == '\r') /* before a line's end; empty lines are "\r\n" as well */
		return STREAM_NOTHING;
	if (c == '\n')
		return stream_line_ends(s);
	if (s->line == STREAM_FIELD)
		return stream_field_byte(s, number, c);
	return s->line == STREAM_VALUE ? stream_value_byte(s, c) : STREAM_NOTHING;
}

/* One byte more. `coding` is where HTTP's reader works meanwhile. */
static always enum stream_mark stream_byte(struct chaos_stream_reader *s, struct chaos_http_reader *coding, __u8 c)
{
	const __u32 number = s->next++;

	if (stream_in_body(s)) {
		if (s->coding != CHAOS_STREAM_TO_THE_END && !--s->left)
			s->phase = s->phase == HTTP_CHUNK ? HTTP_CHUNK_END : HTTP_START;
		return stream_body_byte(s, number, c);
	}
	if (s->phase == HTTP_START || s->phase == HTTP_FOREIGN)
		return STREAM_NOTHING;
	coding->phase = s->phase;
	coding->left = s->left;
	http_chunk_byte(coding, c);
	s->phase = coding->left < STREAM_MAX_LENGTH ? coding->phase : HTTP_FOREIGN;
	s->left = (__u32)coding->left;
	return STREAM_NOTHING;
}

/* ---- what faults ask for --------------------------------------------------------------------------------------------- */

/* Does the stream end in front of this byte? */
static always enum chaos_stream_stop stream_stops_before(const struct chaos_stream_fault *f,
							 const struct chaos_stream_reader *s, __u8 c)
{
	if (f->fault != CHAOS_ERROR_EVENT || s->events < f->chunks || !stream_in_body(s) || !stream_at_line(s))
		return STOP_NOT;
	return c == '{' || c == '[' ? STOP_OTHER : STOP_HERE;
}

/* Is a byte to be changed, with this one read, or does the stream end behind it? */
static always enum chaos_stream_stop
stream_stops_behind(struct chaos_stream_fault *f, const struct chaos_stream_reader *s, enum stream_mark mark, __u8 c)
{
	if (mark == STREAM_OVER)
		return f->fault == CHAOS_BREAK_CLEAN && s->events >= f->chunks ? STOP_HERE : STOP_NOT;
	if (mark == STREAM_DONE && f->fault == CHAOS_DROP_DONE) {
		f->change_at = s->line_from;
		return STOP_ASK;
	}
	/* "[DONE]" is nobody's payload. */
	if (mark == STREAM_PAYLOAD && f->fault == CHAOS_GARBLE && c != '[' && f->chunks &&
	    (s->events + 1) % f->chunks == 0) {
		f->change_at = s->next - 1;
		return STOP_ASK;
	}
	return STOP_NOT;
}

/* What is in the place of the byte that is changed: a comment's mark, or no beginning of JSON. */
static always __u8 stream_change(const struct chaos_stream_fault *f)
{
	return f->fault == CHAOS_DROP_DONE ? ':' : '#';
}

/* The body of an answer whose head has been read begins at the byte with this number. */
static always void stream_follows(struct chaos_stream_reader *s, const struct chaos_http_reader *head, __u32 number)
{
	const bool counted = head->has_length && !head->chunked;

	stream_begins(s, number,
		      head->chunked ? CHAOS_STREAM_CHUNKED
		      : counted     ? CHAOS_STREAM_COUNTED
				    : CHAOS_STREAM_TO_THE_END,
		      counted ? (__u32)head->left : 0);
	s->allowed = 0;
}

#endif
