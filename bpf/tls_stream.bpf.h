/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Faults in the events of a stream inside TLS: as stream.bpf.h does in packets, at the return of each read that brings a part of
 * it. A stream that ends early does so in the coding of HTTP; what comes behind it on the connection is then lost where it
 * arrives, and the connection ends (look_at() in answer.bpf.c).
 */
#ifndef TLS_STREAM_BPF_H
#define TLS_STREAM_BPF_H

#include "bpf/stream.h"
#include "bpf/tls_answer.bpf.h"

/* Where in what has come is the byte that is asked for? Not before `come`: an earlier call has brought it. */
static always __u32 place_asked(const struct chaos_tls *tls)
{
	return tls->asked.change_at - tls->begun;
}

/* Changes the byte that is asked for. A global function, as those below: see chaos_http_piece(). */
__noinline int chaos_tls_change(struct pt_regs *ctx)
{
	struct chaos_tls *tls = tls_in(frame_here());
	__u8 now;

	if (!knobs.tls || !knobs.streams || !knobs.write_user || !ctx || !tls || place_asked(tls) >= tls->come)
		return 0;
	now = stream_change(&tls->asked);
	return !bpf_probe_write_user((void *)(tls->bytes + place_asked(tls)), &now, 1);
}

/* The next piece; 1 when nothing is left, or tls->asked.stop says why. */
__noinline int chaos_tls_stream_piece(struct pt_regs *ctx)
{
	struct chaos_tls_frame *frame = frame_here();
	struct chaos_tls *tls = tls_in(frame);
	__u64 bytes;

	if (!knobs.tls || !knobs.streams || !ctx || !frame || !tls)
		return 1;
	bytes = bring_piece(frame, tls);
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < PIECE && i < bytes; i++) {
		const __u8 c = tls->piece[i];

		tls->asked.stop = stream_stops_before(&tls->asked, &tls->stream, c);
		if (!tls->asked.stop) {
			const enum stream_mark mark = stream_byte(&tls->stream, &tls->head, c);

			tls->asked.stop = stream_stops_behind(&tls->asked, &tls->stream, mark, c);
		}
		if (tls->asked.stop)
			break;
	}
	return !bytes || tls->asked.stop != STOP_NOT;
}

/* From the byte on that the reader waits for. */
static always void take_up(struct chaos_tls_frame *frame, struct chaos_tls *tls)
{
	const __u32 read = tls->stream.next - tls->begun;

	tls->asked.stop = STOP_NOT;
	set_place(frame, tls->bytes + read, tls->come - read);
}

/* Some more pieces; with the decision behind it, what is to be changed is changed on the way. */
__noinline int chaos_tls_stream_pieces(struct pt_regs *ctx)
{
	struct chaos_tls_frame *frame = frame_here();
	struct chaos_tls *tls = tls_in(frame);

	if (!knobs.tls || !knobs.streams || !frame || !tls)
		return 1;
	for (__u32 i = 0; i < PIECES; i++) {
		if (!chaos_tls_stream_piece(ctx))
			continue;
		if (tls->asked.stop != STOP_ASK || !tls->stream.allowed || !chaos_tls_change(ctx))
			return 1;
		take_up(frame, tls);
	}
	return 0;
}

static always void read_stream(struct pt_regs *ctx, struct chaos_tls_frame *frame, struct chaos_tls *tls)
{
	take_up(frame, tls);
	for (__u32 i = 0; i < PIECES && !chaos_tls_stream_pieces(ctx); i++)
		;
}

static always bool settle_stream(const struct chaos_tls_frame *frame, const struct chaos_tls *tls, bool possible,
				 __u64 form)
{
	const struct chaos_order *order = &tls->order;
	const struct chaos_rule *r = rule_of(order->rule);
	struct chaos_stats *stats = stats_of(order->rule);

	if (!r || !stats || !settle(r, stats, tls->asked.fault, possible ? TAKEN : CHAOS_SKIP_NO_ROOM))
		return false;
	count_injected(frame->point);
	tell_of(order, form, tls->asked.fault == CHAOS_BREAK_CLEAN ? CHAOS_BREAK_AS_IF_OVER : 0);
	return true;
}

/* The first byte is to be changed: with it the whole stream. One that has been delivered already cannot be. */
static always void decide_changes(struct pt_regs *ctx, struct chaos_tls_frame *frame, struct chaos_tls *tls)
{
	if (!settle_stream(frame, tls, place_asked(tls) < tls->come, 0) || !chaos_tls_change(ctx)) {
		tls->order.state = CHAOS_ANSWER_LEFT;
		return;
	}
	tls->stream.allowed = 1;
	read_stream(ctx, frame, tls);
}

/* The text that has room where the stream ends, or NULL. A stream that only the connection's end ends cannot end before. */
static always const struct chaos_form *stream_form(const struct chaos_rule *r, const struct chaos_tls *tls,
						   struct chaos_order *order)
{
	const struct chaos_stream_reader *s = &tls->stream;
	const struct chaos_form *form;

	if (tls->asked.stop == STOP_OTHER || (s->json && s->left) || s->coding == CHAOS_STREAM_TO_THE_END)
		return NULL;
	for (__u32 i = 0; i < CHAOS_MAX_FORMS && i < r->forms; i++) {
		order->form = r->form + i;
		form = form_of(order->form);
		if (form && form->length <= s->left)
			return form;
	}
	return NULL;
}

/* The stream ends in front of the byte that would be read next. */
static always void end_stream(struct pt_regs *ctx, struct chaos_tls_frame *frame, struct chaos_tls *tls)
{
	const __u32 read = tls->stream.next - tls->begun;
	struct chaos_order *order = &tls->order;
	const struct chaos_rule *r = rule_of(order->rule);
	const struct chaos_form *form;

	order->state = CHAOS_ANSWER_LEFT;
	if (!r)
		return;
	form = stream_form(r, tls, order);
	order->chunked = tls->stream.coding == CHAOS_STREAM_CHUNKED;
	if (!settle_stream(frame, tls, form,
			   (order->chunked ? CHAOS_FORM_CLOSE : CHAOS_FORM_KEEP) | (form ? form->brief << 8 : 0)) ||
	    !form)
		return;
	make_text(&tls->made, form, 0);
	order->all = tls->stream.left;
	order->done = 0;
	order->state = CHAOS_ANSWER_UNDER_WAY;
	go_on(ctx, frame, tls, tls->bytes + read, tls->come - read);
}

/* A read has brought more of a stream. */
static always void follow_stream(struct pt_regs *ctx, struct chaos_tls_frame *frame, struct chaos_tls *tls)
{
	read_stream(ctx, frame, tls);
	if (tls->asked.stop == STOP_ASK && !tls->stream.allowed)
		decide_changes(ctx, frame, tls);
	if (tls->asked.stop == STOP_HERE || tls->asked.stop == STOP_OTHER)
		end_stream(ctx, frame, tls);
	else if (frame->left) /* it cannot be changed, or read: from here on nobody knows where the reader stands */
		tls->order.state = CHAOS_ANSWER_LEFT;
}

/* The head of the answer is over: what comes behind it is read from here on. */
static always void begin_stream(struct pt_regs *ctx, struct chaos_tls_frame *frame, struct chaos_tls *tls,
				bool readable)
{
	struct chaos_order *order = &tls->order;
	const struct chaos_rule *r = rule_of(order->rule);

	if (!r)
		return;
	tls->asked.fault = fault_of(r);
	tls->asked.chunks = r->stream_chunks;
	if (!readable || tls->head.phase != HTTP_ANSWERED || tls->status >= 300 || order->head ||
	    (tls->head.has_length && tls->head.left >= STREAM_MAX_LENGTH)) {
		settle_stream(frame, tls, false, 0);
		return;
	}
	stream_follows(&tls->stream, &tls->head, tls->begun + tls->read);
	order->state = CHAOS_ANSWER_STREAMS;
	follow_stream(ctx, frame, tls);
}

#endif
