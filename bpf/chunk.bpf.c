// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where the chunks of a stream end that a model server sends in clear: events (SSE: lines that begin with "data:", up to an
 * empty line) and lines of JSON (NDJSON: lines that begin with a brace). Headers, and the lengths of HTTP's chunked coding
 * between them, are lines of other kinds.
 *
 * The reader stands where the last segment ended: what it remembers is kept with the socket, see break.bpf.h.
 */
#include "bpf/name.bpf.h"

#define PIECE  64
#define PIECES 1024 /* of the largest segment there is */

/* Where in a line the reader stands; between AT_START and IN_DATA so many bytes of "data:" have come. */
enum line {
	AT_START = 0,
	IN_DATA = 5,
	IN_JSON,
	IN_OTHER,
	LINE_MASK = 0x0f,
	HAS_DATA = 0x10, /* a line of this event had data */
};

/* The byte of "data:" that follows the first `n`. */
static always __u8 next_of_data(__u32 n)
{
	return 0x3a61746164ULL >> 8 * (n & 7);
}

static always __u32 line_after(__u32 line, __u8 c)
{
	if (line == AT_START && c == '{')
		return IN_JSON;
	if (line < IN_DATA)
		return c == next_of_data(line) ? line + 1 : IN_OTHER;
	return line;
}

/* One byte more; true when the last chunk that was asked for ends with it. */
static always bool take_byte(struct bench *b, __u8 c)
{
	__u32 line = b->chunk_state & LINE_MASK, has_data = b->chunk_state & HAS_DATA;
	bool ends;

	if (c == '\r') /* before a line's end; empty lines are "\r\n" as well */
		return false;
	if (c != '\n') {
		line = line_after(line, c);
		b->chunk_state = line | (line == IN_DATA ? HAS_DATA : has_data);
		return false;
	}
	ends = line == IN_JSON || (line == AT_START && has_data);
	b->chunk_state = ends ? AT_START : AT_START | has_data;
	if (!ends || !b->chunks_left)
		return false;
	return --b->chunks_left == 0;
}

/*
 * The next piece of the payload: true when the last chunk ends in it (b->at is behind that), or nothing is left. What it
 * remembers lies on the bench, so that the verifier need not follow what one step leaves to the next.
 */
int take_piece(struct __sk_buff *skb, __u32 number)
{
	struct bench *b = bench_of(number);
	__u64 n;

	if (!b || !knobs.chunks || !b->left)
		return 1;
	n = (b->left < PIECE ? b->left : PIECE) - 1;
	asm volatile("" : "+r"(n)); /* see load_payload() */
	n = (n & (PIECE - 1)) + 1;
	if (bpf_skb_load_bytes(skb, b->at, b->data, n)) {
		b->left = 0;
		return 1;
	}
	for (__u32 i = 0; i < PIECE; i++) {
		if (i >= n)
			break;
		if (take_byte(b, b->data[i])) {
			b->at += i + 1;
			return 1;
		}
	}
	b->at += n;
	b->left -= n;
	return 0;
}

int find_chunk_end(struct __sk_buff *skb, __u32 number, __u32 offset, __u32 length)
{
	struct bench *b = bench_of(number);

	if (!b || !knobs.chunks)
		return 0;
	b->at = offset;
	b->left = length;
	for (__u32 i = 0; i < PIECES && !take_piece(skb, number); i++)
		;
	return b->chunks_left ? 0 : b->at - offset;
}
