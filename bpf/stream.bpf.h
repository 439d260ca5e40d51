/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Faults in the events of a stream: break-after with `how: clean`, error-event, drop-done, garble. The answer's head passes
 * as it is, its body is read in order (stream.h) where it arrives.
 *
 * Two of them end the stream: in the chunk of HTTP's coding that is being sent, or the next, come a text, line ends up to
 * where that chunk ends (its length has been said already), and the last chunk; behind it the connection ends, so that
 * nothing of the server's is taken for the next answer. A body of known length is filled up with line ends instead. From
 * there on it is written as any answer that is made up.
 *
 * The others change single bytes: ':' in the place of a line's first makes a comment of it, '#' in the place of a payload's
 * first makes it no JSON. What is sent again is changed again, as far as the last CHAOS_STREAM_EDITS are remembered: the
 * receiver has got the others.
 */
#ifndef STREAM_BPF_H
#define STREAM_BPF_H

#include "bpf/work.bpf.h"

#define STREAM_PIECES 92 /* and so many times so many of PIECE bytes: the largest segment there is */

/* ---- one byte in the place of another ------------------------------------------------------------------------------- */

/* Writes the byte with number `at` of the segment whose first new byte is w->begun, at w->place. */
static always bool change_byte(struct __sk_buff *skb, const struct work *w, __u32 at)
{
	const __u32 place = w->place + (at - w->begun);
	const __u32 second = (place - w->checksum) & 1;
	__u8 pair[2] = {}, is[2] = {}, was, now;

	now = stream_change(&w->asked);
	if (bpf_skb_load_bytes(skb, place, &was, 1))
		return false;
	pair[0] = second ? 0 : was;
	pair[1] = second ? was : 0;
	is[0] = second ? 0 : now;
	is[1] = second ? now : 0;
	return !bpf_l4_csum_replace(skb, w->checksum, *(__u16 *)pair, *(__u16 *)is, 2) &&
	       !bpf_skb_store_bytes(skb, place, &now, 1, 0);
}

/* A global function, as those below, so that the verifier looks at it once. */
__noinline int chaos_change_byte(struct __sk_buff *skb)
{
	struct work *w = work_here();
	struct chaos_stream_reader *s;

	if (!knobs.streams || !w)
		return 0;
	s = &w->stream;
	if (!change_byte(skb, w, w->asked.change_at))
		return 0;
	s->edit_at[s->edits & (CHAOS_STREAM_EDITS - 1)] = w->asked.change_at;
	s->edits++;
	return 1;
}

/* What was changed before, in a segment that comes again: w->come bytes of it. */
__noinline int chaos_change_again(struct __sk_buff *skb)
{
	struct work *w = work_here();

	if (!knobs.streams || !w)
		return 0;
	for (__u32 i = 0; i < CHAOS_STREAM_EDITS; i++) {
		const __u32 at = w->stream.edit_at[i];

		if (i < w->stream.edits && at - w->begun < w->come)
			change_byte(skb, w, at);
	}
	return 1;
}

/* ---- reading ----------------------------------------------------------------------------------------------------------- */

/* The next piece; 1 when nothing is left, or w->asked.stop says why. */
__noinline int chaos_stream_piece(struct __sk_buff *skb)
{
	struct work *w = work_here();
	__u64 n, bytes;

	if (!knobs.streams || !w || !w->left)
		return 1;
	n = (w->left < PIECE ? w->left : PIECE) - 1;
	asm volatile("" : "+r"(n)); /* see load_payload() */
	n = (n & (PIECE - 1)) + 1;
	if (bpf_skb_load_bytes(skb, w->at, w->piece, n))
		return 1;
	bytes = n;
	asm volatile("" : "+r"(bytes)); /* see chaos_http_piece() */
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < PIECE && i < bytes; i++) {
		const __u8 c = w->piece[i];

		w->asked.stop = stream_stops_before(&w->asked, &w->stream, c);
		if (w->asked.stop)
			break;
		w->asked.stop = stream_stops_behind(&w->asked, &w->stream, stream_byte(&w->stream, &w->reader, c), c);
		w->at++;
		w->left--;
		if (w->asked.stop)
			break;
	}
	return w->asked.stop != STOP_NOT;
}

/* Some more of them; with the decision behind it, what is to be changed is changed on the way. */
__noinline int chaos_stream_pieces(struct __sk_buff *skb)
{
	struct work *w = work_here();

	if (!w)
		return 1;
	for (__u32 i = 0; i < STREAM_PIECES; i++) {
		if (!chaos_stream_piece(skb))
			continue;
		if (w->asked.stop != STOP_ASK || !w->stream.allowed || !chaos_change_byte(skb))
			return 1;
		w->asked.stop = STOP_NOT;
	}
	return 0;
}

static always void read_stream(struct __sk_buff *skb)
{
	for (__u32 i = 0; i < STREAM_PIECES && !chaos_stream_pieces(skb); i++)
		;
}

/* ---- deciding ----------------------------------------------------------------------------------------------------------- */

static always bool decide_stream(struct chaos_http *h, const struct work *w, bool possible)
{
	struct chaos_stats *stats = stats_of(h->request.rule);
	const struct chaos_rule *r = rule_of(h->request.rule);

	return r && stats && decide(h->request.rule, r, stats, w->asked.fault, unit_throw(r, &h->request, 0), possible);
}

static always void tell_stream(const struct packet *p, struct chaos_sock *s, struct chaos_http *h, const struct work *w,
			       __u64 form)
{
	struct flow f = { .protocol = CHAOS_TCP, .side = s->side };

	flow_of_packet(&f, p, false);
	if (w->asked.fault == CHAOS_BREAK_CLEAN)
		tell(h->request.rule, &f, &s->owner, &h->request, CHAOS_BREAK_AFTER, form, CHAOS_BREAK_AS_IF_OVER);
	else
		tell(h->request.rule, &f, &s->owner, &h->request, w->asked.fault, form, 0);
}

/* The text that has room where the stream ends, or NULL. Lines of JSON cannot be followed by empty ones. */
static always const struct chaos_form *ending_form(const struct chaos_rule *r, const struct work *w,
						   struct chaos_answer *a)
{
	const struct chaos_stream_reader *s = &w->stream;
	const __u32 room = s->coding == CHAOS_STREAM_TO_THE_END ? w->left : s->left;
	const struct chaos_form *form;

	if (w->asked.stop == STOP_OTHER || (s->json && s->left && s->coding != CHAOS_STREAM_TO_THE_END))
		return NULL;
	for (__u32 i = 0; i < CHAOS_MAX_FORMS && i < r->forms; i++) {
		a->form = r->form + i;
		form = form_of(a->form);
		if (form && form->length <= room)
			return form;
	}
	return NULL;
}

/* The stream ends in front of the byte that would be read next. */
static always void end_stream(const struct packet *p, struct chaos_sock *s, struct chaos_http *h, struct work *w)
{
	const struct chaos_rule *r = rule_of(h->request.rule);
	const struct chaos_stream_reader *at = &w->stream;
	struct chaos_answer *a = &h->answer;
	const struct chaos_form *form;

	a->state = CHAOS_ANSWER_LEFT;
	if (!r || (w->asked.stop == STOP_OTHER && !at->events)) /* never was a stream */
		return;
	form = ending_form(r, w, a);
	if (!decide_stream(h, w, form != NULL) || !form)
		return;
	a->state = CHAOS_ANSWER_UNDER_WAY;
	a->kind = at->coding == CHAOS_STREAM_COUNTED ? CHAOS_FORM_KEEP : CHAOS_FORM_CLOSE;
	a->last_chunk = at->coding == CHAOS_STREAM_CHUNKED;
	a->from = at->next;
	a->length = at->coding == CHAOS_STREAM_TO_THE_END ? form->length : at->left;
	a->end = a->from + a->length + (a->last_chunk ? LAST_CHUNK_LENGTH : 0);
	tell_stream(p, s, h, w, a->kind | form->brief << 8);
}

/* The first byte is to be changed: the rule decides for the whole stream. One that has been delivered already cannot be. */
static always void decide_changes(struct __sk_buff *skb, const struct packet *p, struct chaos_sock *s,
				  struct chaos_http *h, struct work *w)
{
	const bool possible = !after(w->begun, w->asked.change_at);

	if (!decide_stream(h, w, possible) || !chaos_change_byte(skb)) {
		h->answer.state = CHAOS_ANSWER_LEFT;
		return;
	}
	w->stream.allowed = 1;
	tell_stream(p, s, h, w, 0);
	w->asked.stop = STOP_NOT;
	read_stream(skb);
}

/* ---- the segments ----------------------------------------------------------------------------------------------------- */

/* The head of the answer is over: what comes behind it is read from here on. */
static always void begin_stream(struct chaos_http *h, const struct work *w)
{
	const struct chaos_http_reader *head = &w->reader;

	if (w->status >= 300 || w->bodiless || (head->has_length && head->left >= STREAM_MAX_LENGTH))
		return;
	stream_follows(&h->stream, head, h->answer.from + w->read);
	h->answer.state = CHAOS_ANSWER_STREAMS;
}

/* Reads what is new in this segment. True: it is to be lost, since what is missing before it has to be read first. */
static always bool follow_stream(struct __sk_buff *skb, __u32 network, const struct packet *p, struct chaos_sock *s,
				 struct chaos_http *h, struct work *w)
{
	const struct chaos_rule *r = rule_of(h->request.rule);
	const __u32 end = p->seq + p->payload, next = h->stream.next;

	if (!r || !is_in_force_still(&h->request) || (after(p->seq, next) && after(h->answer.acked, next))) {
		h->answer.state = CHAOS_ANSWER_LEFT; /* what is missing has come by another way */
		return false;
	}
	if (after(p->seq, next))
		return p->payload;
	w->stream = h->stream;
	w->asked.fault = fault_of(r);
	w->asked.chunks = r->stream_chunks;
	w->checksum = network + p->transport + offsetof(struct tcp_header, checksum);
	w->place = network + p->payload_offset;
	w->begun = p->seq;
	w->come = p->payload;
	w->asked.stop = STOP_NOT;
	if (p->seq != next)
		chaos_change_again(skb);
	if (after(end, next)) {
		w->begun = next;
		w->place += next - p->seq;
		w->at = w->place;
		w->left = end - next;
		read_stream(skb);
		if (w->asked.stop == STOP_ASK)
			decide_changes(skb, p, s, h, w);
		if (w->asked.stop == STOP_HERE || w->asked.stop == STOP_OTHER)
			end_stream(p, s, h, w);
		else if (w->left) /* could not be read: what follows would wait for it without end */
			h->answer.state = CHAOS_ANSWER_LEFT;
	}
	h->stream = w->stream;
	return false;
}

#endif
