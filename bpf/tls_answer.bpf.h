/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An answer inside TLS that is another one than the server's: at the return of a read, before the caller sees it. What a read
 * returns stays as long as it is:
 *
 *	KEEP     our head and body, and spaces up to where the server's answer ends, over as many reads as it takes
 *	SHUT     the same up to the end of this read; the head has told the client to close the connection behind it
 *	DIGITS   three digits in the server's first line
 *
 * It was ordered, and its budget spent, when the request left (order_answer() in http.bpf.c).
 */
#ifndef TLS_ANSWER_BPF_H
#define TLS_ANSWER_BPF_H

#include "bpf/call.bpf.h"
#include "bpf/tls_call.bpf.h"

#define WRITES      512 /* of CHAOS_TLS_WRITTEN bytes: no read returns more than a record, 16 KiB */
#define MAX_INTERIM 2

/* Ends a head behind the value of a header. */
#define EMPTY_LINE        0x0a0d0a0dULL
#define EMPTY_LINE_LENGTH 4

/* ---- its head ----------------------------------------------------------------------------------------------------- */

/* The next piece of it; 1 when it is over, or nothing is left. A global function: see chaos_http_piece(). */
__noinline int chaos_tls_head_piece(struct pt_regs *ctx)
{
	const struct chaos_http_table *t = http_table();
	struct chaos_tls_frame *frame = frame_here();
	struct chaos_tls *tls = tls_in(frame);
	__u64 bytes;

	if (!knobs.tls || !knobs.answers || !ctx || !frame || !tls || !t || tls->head.phase >= HTTP_FOREIGN)
		return 1;
	bytes = bring_piece(frame, tls);
	for (__u32 i = 0; i < PIECE && i < bytes; i++) {
		tls->read += ((__u64)tls->head.phase - HTTP_FOREIGN) >> 63; /* 1 as long as the head is not over */
		http_byte(&tls->head, t, 1, 0, tls->piece[i]);
	}
	return !bytes;
}

__noinline int chaos_tls_head_pieces(struct pt_regs *ctx)
{
	for (__u32 i = 0; i < PIECES; i++) {
		if (chaos_tls_head_piece(ctx))
			return 1;
	}
	return 0;
}

/* Reads the head of the answer, as far as this call has brought it; 0: it does not begin as one, or ends within its status. */
__noinline int chaos_tls_read_head(struct pt_regs *ctx)
{
	struct chaos_tls_frame *frame = frame_here();
	struct chaos_tls *tls = tls_in(frame);

	if (!knobs.tls || !knobs.answers || !ctx || !frame || !tls || frame->left < STATUS_END ||
	    bpf_probe_read_user(tls->first, STATUS_END, (void *)frame->at))
		return 0;
	tls->status = status_in(tls->first);
	if (!tls->status)
		return 0;
	http_read_answer(&tls->head);
	tls->read = STATUS_END;
	set_place(frame, frame->at + STATUS_END, frame->left - STATUS_END);
	for (__u32 i = 0; i < PIECES && !chaos_tls_head_pieces(ctx); i++)
		;
	return 1;
}

/* Does this form fit into the answer of which the head was read? */
__noinline int chaos_tls_form_fits(struct pt_regs *ctx, __u32 number)
{
	const struct chaos_form *form = form_of(number);
	const struct chaos_tls *tls = tls_in(frame_here());
	struct answer_head a = { .in_tls = true };

	if (!knobs.tls || !knobs.answers || !ctx || !form || !tls)
		return 0;
	a.reader = &tls->head;
	a.status = tls->status;
	a.read = tls->read;
	a.come = tls->come;
	a.bodiless = tls->order.head;
	return form_fits(form, &a);
}

static always struct chaos_form *choose_form(struct pt_regs *ctx, const struct chaos_rule *r, struct chaos_order *order)
{
	for (__u32 i = 0; i < CHAOS_MAX_FORMS && i < r->forms; i++) {
		if (chaos_tls_form_fits(ctx, r->form + i)) {
			order->form = r->form + i;
			return form_of(order->form);
		}
	}
	return NULL;
}

/* The next bytes that are to be written; 1 when none are left, or it fails (frame->left says so). */
__noinline int chaos_tls_write_piece(struct pt_regs *ctx)
{
	struct chaos_tls_frame *frame = frame_here();
	struct chaos_tls *tls = tls_in(frame);
	__u64 n;

	if (!knobs.tls || !knobs.answers || !knobs.write_user || !ctx || !frame || !tls || !frame->left)
		return 1;
	n = (frame->left < CHAOS_TLS_WRITTEN ? frame->left : CHAOS_TLS_WRITTEN) - 1;
	asm volatile("" : "+r"(n)); /* see load_payload() */
	n = (n & (CHAOS_TLS_WRITTEN - 1)) + 1;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < CHAOS_TLS_WRITTEN; i++)
		tls->now[i] = made_byte(&tls->made, frame->place + i);
	if (bpf_probe_write_user((void *)frame->at, tls->now, n))
		return 1;
	set_place(frame, frame->at + n, frame->left - n);
	frame->place += n;
	return 0;
}

/* Bytes of the answer from number `place` on, to `at`; false: the process's memory cannot be written. */
static always bool write_made(struct pt_regs *ctx, struct chaos_tls_frame *frame, __u64 at, __u32 place, __u32 size)
{
	set_place(frame, at, size);
	frame->place = place;
	for (__u32 i = 0; i < WRITES && !chaos_tls_write_piece(ctx); i++)
		;
	return !frame->left;
}

/*
 * Behind the last chunk that has anything of a stream that ends early comes one of no length. The record in which it begins
 * goes on, and whatever it has would be taken for the next answer: its rest becomes an extension of that chunk.
 *
 *	\r\n0;xxxxxxxx\r\n\r\n
 */
#define CHUNK_ENDS       2 /* bytes: of the chunk before */
#define LAST_CHUNK_LEAST (CHUNK_ENDS + 1 + EMPTY_LINE_LENGTH)

static always void begin_last_chunk(struct chaos_tls *tls)
{
	__builtin_memcpy(tls->made.text, "\r\n0;", CHUNK_ENDS + 2);
	tls->made.filler = 'x';
	tls->made.end = EMPTY_LINE;
	tls->order.done = 0;
	tls->order.state = CHAOS_ANSWER_LAST_CHUNK;
}

/* It ends with the first read that has room for that. */
static always void write_last_chunk(struct pt_regs *ctx, struct chaos_tls_frame *frame, struct chaos_tls *tls,
				    __u64 bytes, __u32 size)
{
	struct chaos_order *order = &tls->order;
	const __u32 all = order->done + size;
	const bool ends = size >= EMPTY_LINE_LENGTH && all >= LAST_CHUNK_LEAST;

	tls->made.ends = ends ? all - EMPTY_LINE_LENGTH : ~0U;
	tls->made.length = ends && all == LAST_CHUNK_LEAST ? CHUNK_ENDS + 1 : CHUNK_ENDS + 2;
	write_made(ctx, frame, bytes, order->done, size);
	order->done = all;
	if (ends)
		order->state = CHAOS_ANSWER_ENDED;
}

/* Makes the answer, and puts it in the place of what was read, which is at `bytes`. */
static always bool begin_writing(struct pt_regs *ctx, struct chaos_tls_frame *frame, struct chaos_tls *tls,
				 const struct chaos_form *form)
{
	struct chaos_order *order = &tls->order;

	order->done = tls->come;
	order->chunked = 0;
	if (form->kind == CHAOS_FORM_DIGITS) {
		order->all = 0;
		make_text(&tls->made, form, 0);
		return write_made(ctx, frame, tls->bytes + CHAOS_FORM_FIRST, CHAOS_FORM_FIRST,
				  STATUS_END - CHAOS_FORM_FIRST);
	}
	order->all = form->kind == CHAOS_FORM_KEEP ? tls->read + (__u32)tls->head.left : tls->come;
	make_text(&tls->made, form, order->all - form->head);
	if (form->open_head) {
		tls->made.length -= EMPTY_LINE_LENGTH;
		tls->made.end = EMPTY_LINE;
		tls->made.ends = order->all - EMPTY_LINE_LENGTH;
	}
	return write_made(ctx, frame, tls->bytes, 0, order->all < tls->come ? order->all : tls->come);
}

/* Reads on while interim answers come first. False: nothing else has come yet. */
static always bool read_first(struct pt_regs *ctx, struct chaos_tls_frame *frame, struct chaos_tls *tls, __u32 size,
			      bool *readable)
{
	tls->bytes = frame->bytes;
	for (int i = 0; i <= MAX_INTERIM; i++) {
		tls->come = size;
		set_place(frame, tls->bytes, size);
		*readable = chaos_tls_read_head(ctx);
		if (!*readable || !is_interim(tls->status))
			return true;
		*readable = false;
		if (tls->head.phase != HTTP_ANSWERED)
			return true;
		if (tls->read >= size)
			return false;
		tls->bytes += tls->read;
		size -= tls->read;
	}
	return true;
}

static always void tell_of(const struct chaos_order *order, __u64 form, __s32 error)
{
	struct chaos_event *e = begin_event();

	if (!e)
		return;
	*e = order->event;
	e->time_ns = now_ns();
	e->delay_ns = form;
	e->error = error;
	bpf_ringbuf_submit(e, 0);
}

static always void count_read(__u32 rule)
{
	struct chaos_stats *stats = stats_of(rule);

	if (stats)
		count(&stats->packets);
}

static always bool is_stream(__u32 rule)
{
	const struct chaos_rule *r = rule_of(rule);

	return r && r->faults & CHAOS_STREAMS;
}

/* The rule's time is not over, and nobody has unloaded it. What it has spent does not matter: this answer was paid for. */
static always bool is_in_time(__u32 rule)
{
	const struct chaos_interval *interval = interval_at(now_ns());
	__u32 by_us = 1;
	const struct chaos_vector *unloaded = bpf_map_lookup_elem(&chaos_call_over, &by_us);
	__u64 word = rule / 64;

	asm volatile("" : "+r"(word)); /* see finish_rule() */
	word &= CHAOS_WORDS - 1;
	return interval && unloaded && (interval->active.word[word] & ~unloaded->word[word]) >> rule % 64 & 1;
}

static always void count_injected(__u32 point)
{
	struct chaos_point_stats *counted = bpf_map_lookup_elem(&chaos_pointstats, &point);

	if (counted)
		count(&counted->injected);
}

/* The first bytes of an answer that was ordered, whose head has been read if it could be. */
static always void make_answer(struct pt_regs *ctx, struct chaos_tls_frame *frame, struct chaos_tls *tls, bool readable)
{
	struct chaos_order *order = &tls->order;
	const struct chaos_rule *r = rule_of(order->rule);
	struct chaos_stats *stats = stats_of(order->rule);
	const bool observes = r && r->flags & CHAOS_RULE_OBSERVE;
	struct chaos_form *form = NULL;

	if (!r || !stats)
		return;
	if (readable)
		form = choose_form(ctx, r, order);
	if (!form || (!observes && !begin_writing(ctx, frame, tls, form))) {
		settle(r, stats, fault_of(r), CHAOS_SKIP_NO_ROOM);
		return;
	}
	if (!settle(r, stats, fault_of(r), TAKEN))
		return;
	if (order->done < order->all)
		order->state = CHAOS_ANSWER_UNDER_WAY;
	count_injected(frame->point);
	tell_of(order, form->kind | form->brief << 8, form->status);
}

/* What is left of an answer that is being written, or of a stream that ends early. */
static always void go_on(struct pt_regs *ctx, struct chaos_tls_frame *frame, struct chaos_tls *tls, __u64 bytes,
			 __u32 size)
{
	struct chaos_order *order = &tls->order;
	const __u32 left = order->all - order->done, here = size < left ? size : left;

	write_made(ctx, frame, bytes, order->done, here);
	order->done += here;
	if (order->done < order->all)
		return;
	order->state = CHAOS_ANSWER_LEFT;
	if (order->chunked)
		begin_last_chunk(tls);
	if (order->state == CHAOS_ANSWER_LAST_CHUNK)
		write_last_chunk(ctx, frame, tls, bytes + here, size - here);
}

#endif
