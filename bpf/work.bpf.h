/* SPDX-License-Identifier: GPL-2.0-only */
/* What the program for answers (answer.bpf.c) works with: its bench, and how bytes are put in the place of others. */
#ifndef WORK_BPF_H
#define WORK_BPF_H

#include "bpf/arrive.bpf.h"
#include "bpf/form.bpf.h"
#include "bpf/stream.h"

#define PIECE   sizeof(((struct work *)0)->piece)
#define WRITTEN 64 /* bytes together, */
#define WRITES  34 /* and so many times so many: the largest segment there is */

/* What lies on a CPU while a packet is looked at: nothing of tc's interrupts it. */
struct work {
	struct chaos_http_reader reader;
	__u32 at, left; /* of the piece that comes next */
	__u32 read;     /* bytes of the head */
	__u32 status;
	__u32 come; /* bytes of the answer that have come */
	__u32 bodiless;
	__u8 first[16];
	__u8 piece[8];

	/* For stream.bpf.h. */
	struct chaos_stream_reader stream;
	struct chaos_stream_fault asked;
	__u32 begun; /* number of the first byte that is new */

	/* For http2.bpf.h. */
	struct chaos_http2_reader http2;
	struct chaos_http2_edit edit; /* a stream whose first message begins */
	struct chaos_verdict verdict; /* of the connection, and whose it is */
	struct chaos_owner owner;
	struct flow flow;
	__u32 segment; /* where the payload is */
	__u32 whole;   /* the head of the frame began in this segment */

	/* For chaos_change(). */
	struct chaos_answer answer;
	struct chaos_made made;
	__u32 place;
	__u32 odd;
	__u32 checksum;
	__u8 was[2 * WRITTEN];
	__u8 now[2 * WRITTEN];
};
MAP(BPF_MAP_TYPE_PERCPU_ARRAY, chaos_work, __u32, struct work, 1);

static always struct work *work_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&chaos_work, &zero);
}

/* The rule's time is not over; what is under way already goes on in any case, but for silence. */
static always bool is_in_force_still(struct chaos_verdict *v)
{
	return verdict_holds(v) || still_governs(v);
}

/* ---- writing -------------------------------------------------------------------------------------------------------------- */

/* What ends a body in chunks, behind the last byte of one: "\r\n0\r\n\r\n". */
#define LAST_CHUNK        0x0a0d0a0d300a0dULL
#define LAST_CHUNK_LENGTH 7

/* Sums go by four bytes: behind the last one are zeros. */
static always void end_with_zeros(__u8 *bytes, __u64 n)
{
	for (int i = 0; i < 3; i++)
		bytes[n + i] = 0;
}

/* The next piece of what is to be written; 1 when nothing is left, or it fails (w->left says so). A global function, as above. */
__noinline int chaos_write_piece(struct __sk_buff *skb)
{
	struct work *w = work_here();
	__s64 sum;
	__u64 n;

	if (!knobs.answers || !w || !w->left)
		return 1;
	n = (w->left < WRITTEN ? w->left : WRITTEN) - 1;
	asm volatile("" : "+r"(n)); /* see chaos_sum_of() */
	n = (n & (WRITTEN - 1)) + 1;
	if (bpf_skb_load_bytes(skb, w->at, w->was, n))
		return 1;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < WRITTEN; i++)
		w->now[i] = made_byte(&w->made, w->place + i);
	w->now[0] = either(w->odd, w->was[0], w->now[0]);
	w->odd = 0;
	end_with_zeros(w->was, n);
	end_with_zeros(w->now, n);
	sum = bpf_csum_diff((void *)w->was, (n + 3) & (2 * WRITTEN - 4), (void *)w->now, (n + 3) & (2 * WRITTEN - 4),
			    0);
	if (sum < 0 || bpf_l4_csum_replace(skb, w->checksum, 0, (__u32)sum, 0) ||
	    bpf_skb_store_bytes(skb, w->at, w->now, n, 0))
		return 1;
	w->at += n;
	w->place += n;
	w->left -= n;
	return 0;
}

__noinline int chaos_write_pieces(struct __sk_buff *skb)
{
	for (__u32 i = 0; i < WRITES; i++) {
		if (chaos_write_piece(skb))
			return 1;
	}
	return 0;
}

/*
 * Puts `size` bytes of the answer, from its byte `place` on, in the place of those at `at`, and corrects the checksum. Sums
 * go by pairs of bytes: where the first is the second of a pair, the one before it stays.
 */
static always bool write_answer(struct __sk_buff *skb, struct work *w, __u32 at, __u32 size, __u32 place,
				__u32 checksum)
{
	w->odd = (at - checksum) & 1;
	w->at = at - w->odd;
	w->left = size + w->odd;
	w->place = place - w->odd;
	w->checksum = checksum;
	for (__u32 i = 0; i < WRITES && !chaos_write_pieces(skb); i++)
		;
	return !w->left;
}

/* What is to be written, to the work bench. */
static always bool bring_text(struct work *w, const struct chaos_answer *a)
{
	const struct chaos_form *form = form_of(a->form);

	if (!form)
		return false;
	make_text(&w->made, form, a->length);
	w->made.end = LAST_CHUNK;
	w->made.ends = a->last_chunk ? a->length : ~0U;
	return true;
}

#endif
