/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reading HTTP/1.x requests, byte by byte: where each begins and ends, and which of the rules' patterns it fits. Pure: knows
 * nothing of packets or of where the bytes are from, keeps all that it remembers in struct chaos_http_reader, and is the
 * same in BPF programs and in the tests on the host (tests/test_http.c, tests/fuzz/fuzz_http.c).
 *
 *	POST /v1/chat/completions?x=1 HTTP/1.1       METHOD, PATH (up to a '?'), QUERY, VERSION
 *	Content-Length: 40                           LINE at its beginning, then HEADER
 *	(empty line)                                 END; here all is known when no rule asks for the body
 *	{"messages": [], "model": "qwen-7b"}         BODY; or CHUNK_SIZE, CHUNK, ... up to the trailer's end
 *
 * A body is counted down by its length or its chunks, so that no byte of it is ever taken for a request. Whatever does not
 * read as HTTP ends in FOREIGN, and nothing is said about it any more.
 *
 * Each byte goes through one place that moves all patterns on (http_feed): what a byte means is worked out first.
 */
#ifndef HTTP_H
#define HTTP_H

#include <stdbool.h>

#include "bpf/chaos.h"

#ifndef always
#define always __attribute__((always_inline)) inline
#endif

enum http_phase {
	HTTP_START, /* of a request line */
	HTTP_METHOD,
	HTTP_PATH,
	HTTP_QUERY,
	HTTP_VERSION,
	HTTP_REASON, /* of an answer: the rest of its first line */
	HTTP_LINE,   /* of the head: at its beginning, */
	HTTP_HEADER,
	HTTP_END, /* and behind the CR of the empty one */
	HTTP_BODY,
	HTTP_CHUNK_SIZE,
	HTTP_CHUNK_EXTENSION,
	HTTP_CHUNK,
	HTTP_CHUNK_END,
	HTTP_TRAILER_LINE,
	HTTP_TRAILER,
	HTTP_FOREIGN,
	HTTP_ANSWERED, /* an answer, whose head is over */
};

/* What rules ask of bodies. */
enum http_wants {
	HTTP_WANTS_MODEL = 1,
	HTTP_WANTS_TEXT = 2,
};

enum http_string {
	HTTP_NO_STRING,
	HTTP_STRING,
	HTTP_KEY,
	HTTP_MODEL_VALUE,
};

#define HTTP_MAX_METHOD 32
#define HTTP_MAX_LENGTH (1ULL << 50)
#define HTTP_OTHER_KEY  0xff

/* All ones or 0, without a branch of which the verifier would follow both ways. */
static always __u64 http_equals(__u64 a, __u64 b)
{
	__u64 differs = a ^ b;

	asm volatile("" : "+r"(differs));
	return -((differs - 1) >> 63);
}

/*
 * What a byte does to the patterns: r->begin, feed, text and end are the classes that begin before it, are fed with it, and
 * end with it. They lie in memory, as does the byte, so that the verifier takes all bytes for alike from here on.
 */
static always void http_feed(struct chaos_http_reader *r, const struct chaos_http_table *t, __u32 words)
{
	const __u8 c = *(volatile const __u8 *)&r->byte;
	const __u64 over_blank = http_equals(c, ' ') | http_equals(c, '\t');
	__u64 carry = 0;

	for (__u32 w = 0; w < CHAOS_HTTP_WORDS && w < words; w++) {
		const __u64 begin = t->class[r->begin & 7][w], end = t->class[r->end & 7][w];
		const __u64 feed = t->class[r->feed & 7][w] | t->class[r->text & 7][w];
		__u64 state = (r->state[w] & ~begin) | (t->start[w] & begin);
		const __u64 moves = state & feed & t->step[c][w];
		const __u64 stays = state & (t->star[w] | (t->blank[w] & over_blank));

		state = (state & ~feed) | ((moves << 1 | carry | stays) & feed);
		carry = moves >> 63;
		r->found[w] |= state & t->accept[w] & end;
		r->state[w] = state;
	}
}

/* ---- JSON: the value of "model" in the outermost object ------------------------------------------------------------- */

static always __u8 http_model_key(__u32 at)
{
	return 0x6c65646f6dULL >> 8 * (at & 7); /* "model" */
}

static always void http_string_byte(struct chaos_http_reader *r, __u8 c)
{
	const __u8 string = r->string;

	if (!r->escaped && c == '\\') {
		r->escaped = 1;
		return;
	}
	if (!r->escaped && c == '"') {
		r->string = HTTP_NO_STRING;
		if (string == HTTP_KEY)
			r->value = r->key_at == 5;
		if (string == HTTP_MODEL_VALUE) {
			r->end = CHAOS_HTTP_MODEL;
			r->over = 1;
		}
		return;
	}
	if (string == HTTP_KEY)
		r->key_at =
			!r->escaped && r->key_at < 5 && c == http_model_key(r->key_at) ? r->key_at + 1 : HTTP_OTHER_KEY;
	if (string == HTTP_MODEL_VALUE)
		r->feed = CHAOS_HTTP_MODEL;
	r->escaped = 0;
}

static always void http_json_byte(struct chaos_http_reader *r, __u8 c)
{
	if (r->string) {
		http_string_byte(r, c);
	} else if (c == '"') {
		r->string = HTTP_STRING;
		r->key_at = 0;
		if (r->depth == 1 && r->key)
			r->string = HTTP_KEY;
		if (r->depth == 1 && !r->key && r->value) {
			r->string = HTTP_MODEL_VALUE;
			r->begin = CHAOS_HTTP_MODEL;
		}
	} else if (c == '{' || c == '[') {
		r->depth++;
		if (r->depth == 1)
			r->key = c == '{';
	} else if (c == '}' || c == ']') {
		r->depth--;
		if (!r->depth)
			r->over = 1;
	} else if (r->depth == 1 && c == ',') {
		r->key = 1;
		r->value = 0;
	} else if (r->depth == 1 && c == ':') {
		r->key = 0;
	} else if (!r->depth && c > ' ') {
		r->over = 1; /* not an object */
	}
}

/* ---- the request ------------------------------------------------------------------------------------------------------ */

static always void http_begins(struct chaos_http_reader *r)
{
	for (__u32 w = 0; w < CHAOS_HTTP_WORDS; w++)
		r->found[w] = 0;
	r->pipelined |= r->ready;
	r->begun++;
	r->left = 0;
	r->length = 0;
	r->has_length = 0;
	r->body_read = 0;
	r->at = 0;
	r->chunked = 0;
	r->ready = 0;
	r->decided = 0;
}

static always void http_body_begins(struct chaos_http_reader *r)
{
	r->string = HTTP_NO_STRING;
	r->escaped = 0;
	r->key = 0;
	r->key_at = 0;
	r->value = 0;
	r->over = 0;
	r->depth = 0;
}

static always void http_is_known(struct chaos_http_reader *r)
{
	if (!r->decided)
		r->ready = 1;
	r->decided = 1;
}

static always void http_ends(struct chaos_http_reader *r)
{
	http_is_known(r);
	r->phase = HTTP_START;
}

static always void http_head_ends(struct chaos_http_reader *r, __u32 wants)
{
	r->chunked = r->found[0] >> CHAOS_HTTP_CHUNKED & 1;
	if (r->answer) {
		r->phase = HTTP_ANSWERED;
		return;
	}
	if (!r->chunked)
		r->length = r->left;
	r->begin = CHAOS_HTTP_TEXT;
	http_body_begins(r);
	if (!wants)
		http_is_known(r);
	if (r->chunked) {
		r->phase = HTTP_CHUNK_SIZE;
		r->left = 0;
	} else if (r->left) {
		r->phase = HTTP_BODY;
	} else {
		http_ends(r);
	}
}

static always void http_body_byte(struct chaos_http_reader *r, __u32 wants, __u8 c)
{
	r->left--;
	if (r->decided)
		return;
	if (wants & HTTP_WANTS_TEXT)
		r->text = CHAOS_HTTP_TEXT;
	if (wants & HTTP_WANTS_MODEL && !r->over)
		http_json_byte(r, c);
	if (++r->body_read >= CHAOS_HTTP_BODY_READ || (r->over && !(wants & HTTP_WANTS_TEXT)))
		http_is_known(r);
}

static always __u8 http_version(__u32 at)
{
	return 0x2e312f50545448ULL >> 8 * (at & 7); /* "HTTP/1." */
}

static always bool http_is_upper(__u8 c)
{
	return c >= 'A' && c <= 'Z';
}

static always bool http_is_digit(__u8 c)
{
	return c >= '0' && c <= '9';
}

/* The value of a hexadecimal digit; 16: it is none. */
static always __u32 http_hex(__u8 c)
{
	const __u8 lower = c | 0x20;

	if (http_is_digit(c))
		return c - '0';
	return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10u : 16;
}

/* A byte of the first line. */
static always void http_line_byte(struct chaos_http_reader *r, __u8 c)
{
	const __u8 phase = r->phase;

	if (phase == HTTP_START) {
		if (c == '\r' || c == '\n')
			return;
		http_begins(r);
		r->phase = http_is_upper(c) ? HTTP_METHOD : HTTP_FOREIGN;
		r->begin = r->feed = CHAOS_HTTP_METHOD;
	} else if (phase == HTTP_METHOD) {
		r->feed = CHAOS_HTTP_METHOD;
		if (c == ' ') {
			r->feed = CHAOS_HTTP_NONE;
			r->end = CHAOS_HTTP_METHOD;
			r->begin = CHAOS_HTTP_PATH;
			r->phase = HTTP_PATH;
		} else if ((!http_is_upper(c) && c != '-') || ++r->at >= HTTP_MAX_METHOD) {
			r->phase = HTTP_FOREIGN;
		}
	} else if (phase == HTTP_REASON) {
		if (c == '\n')
			r->phase = HTTP_LINE;
	} else if (c == ' ' && phase != HTTP_VERSION) {
		if (phase == HTTP_PATH)
			r->end = CHAOS_HTTP_PATH;
		r->phase = HTTP_VERSION;
		r->at = 0;
	} else if (c <= ' ' && phase != HTTP_VERSION) {
		r->phase = HTTP_FOREIGN;
	} else if (phase == HTTP_PATH && c == '?') {
		r->end = CHAOS_HTTP_PATH;
		r->phase = HTTP_QUERY;
	} else if (phase == HTTP_PATH) {
		r->feed = CHAOS_HTTP_PATH;
	} else if (phase == HTTP_VERSION) {
		const __u8 at = r->at++;

		if (at > 7 && c == '\n')
			r->phase = HTTP_LINE;
		else if (at < 7 ? c != http_version(at) : at == 7 ? !http_is_digit(c) : at > 8 || c != '\r')
			r->phase = HTTP_FOREIGN;
	}
}

/* A byte of the head behind it. */
static always void http_head_byte(struct chaos_http_reader *r, __u32 wants, __u8 c)
{
	const __u8 phase = r->phase;

	if (phase == HTTP_END || (phase == HTTP_LINE && c == '\n')) {
		if (c == '\n')
			http_head_ends(r, wants);
		else
			r->phase = HTTP_FOREIGN;
	} else if (phase == HTTP_LINE && c == '\r') {
		r->phase = HTTP_END;
	} else if (phase == HTTP_LINE) {
		r->begin = r->feed = CHAOS_HTTP_HEADER;
		r->phase = HTTP_HEADER;
	} else if (c == '\n') {
		r->end = CHAOS_HTTP_HEADER;
		r->phase = HTTP_LINE;
	} else if (c != '\r') {
		r->feed = CHAOS_HTTP_HEADER;
		if (!(r->state[0] >> CHAOS_HTTP_LENGTH & 1) || c == ' ' || c == '\t')
			return;
		r->has_length = 1;
		if (http_is_digit(c) && r->left < HTTP_MAX_LENGTH)
			r->left = 10 * r->left + (c - '0');
		else
			r->phase = HTTP_FOREIGN;
	}
}

/* A byte of the chunked coding that is not of the body. */
static always void http_chunk_byte(struct chaos_http_reader *r, __u8 c)
{
	const __u8 phase = r->phase;

	if (phase == HTTP_CHUNK_END) {
		if (c == '\n')
			r->phase = HTTP_CHUNK_SIZE;
		else if (c != '\r')
			r->phase = HTTP_FOREIGN;
	} else if (phase == HTTP_TRAILER_LINE) {
		if (c == '\n')
			http_ends(r);
		else if (c != '\r')
			r->phase = HTTP_TRAILER;
	} else if (phase == HTTP_TRAILER) {
		if (c == '\n')
			r->phase = HTTP_TRAILER_LINE;
	} else if (c == '\n') {
		r->phase = r->left ? HTTP_CHUNK : HTTP_TRAILER_LINE;
	} else if (phase == HTTP_CHUNK_SIZE && c == ';') {
		r->phase = HTTP_CHUNK_EXTENSION;
	} else if (phase == HTTP_CHUNK_SIZE && c != '\r' && c != ' ' && c != '\t') {
		const __u32 digit = http_hex(c);

		if (digit < 16 && r->left < HTTP_MAX_LENGTH)
			r->left = r->left << 4 | digit;
		else
			r->phase = HTTP_FOREIGN;
	}
}

/* One byte more. `words` of the table are in use; `wants` is a set of enum http_wants. */
static always void http_byte(struct chaos_http_reader *r, const struct chaos_http_table *t, __u32 words, __u32 wants,
			     __u8 c)
{
	const __u8 phase = r->phase;

	if (phase >= HTTP_FOREIGN)
		return;
	r->byte = c;
	r->begin = r->feed = r->text = r->end = CHAOS_HTTP_NONE;
	if (phase < HTTP_LINE) {
		http_line_byte(r, c);
	} else if (phase < HTTP_BODY) {
		http_head_byte(r, wants, c);
	} else if (phase == HTTP_BODY || phase == HTTP_CHUNK) {
		http_body_byte(r, wants, c);
		if (!r->left && phase == HTTP_CHUNK)
			r->phase = HTTP_CHUNK_END;
		else if (!r->left)
			http_ends(r);
	} else {
		http_chunk_byte(r, c);
	}
	http_feed(r, t, words);
}

/* Makes it a reader of the head of an answer, behind the status in its first line. */
static always void http_read_answer(struct chaos_http_reader *r)
{
	for (__u32 w = 0; w < CHAOS_HTTP_WORDS; w++)
		r->found[w] = 0;
	r->phase = HTTP_REASON;
	r->answer = 1;
	r->left = 0;
	r->has_length = 0;
	r->chunked = 0;
}

/* So many of the next `bytes` bytes are of a body that nobody asks for: all but its last one. */
static always __u64 http_skip(struct chaos_http_reader *r, __u64 bytes)
{
	if ((r->phase != HTTP_BODY && r->phase != HTTP_CHUNK) || !r->decided || r->left < 2)
		return 0;
	if (bytes > r->left - 1)
		bytes = r->left - 1;
	r->left -= bytes;
	return bytes;
}

/* The conditions that the request fulfils, when all is known: a set. */
static always __u32 http_conditions(const struct chaos_http_reader *r, const struct chaos_http_table *t)
{
	__u32 set = 0;

	for (__u32 i = 0; i < CHAOS_HTTP_CONDITIONS; i++) {
		const __u32 bit = t->condition[i], word = bit / 64 & (CHAOS_HTTP_WORDS - 1);
		/* A text that was met in the body stays met. Bit 0 is none that is ever met. */
		const __u64 met = r->found[word] | (r->state[word] & t->class[CHAOS_HTTP_TEXT][word]);
		const __u64 large = ~(r->length - t->size[i]) >> 63; /* lengths are below HTTP_MAX_LENGTH * 10 */

		set |= (__u32)((met >> bit % 64 & 1) | large) << i;
	}
	return set;
}

#endif
