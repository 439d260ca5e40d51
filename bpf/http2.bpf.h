/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * `grpc: unavailable`: streams of HTTP/2 in clear that are reset by the server, as it seems. What arrives is read frame by frame
 * (http2.h), in order; where the first message of an answer begins, the rule decides for its stream.
 *
 * A connection is joined at a segment that begins and ends with frames, so one that is older than the rules is met as well. What
 * overtakes is lost and sent again in its turn. What is sent again is changed again, as far as the last CHAOS_HTTP2_EDITS are
 * remembered, however it is cut: the receiver has got the others.
 */
#ifndef HTTP2_BPF_H
#define HTTP2_BPF_H

#include "bpf/work.bpf.h"
#include "bpf/http2.h"

#define FRAMES      32 /* and so many times so many in a segment */
#define FRAME_TURNS 64
#define JOIN_FRAMES 64                /* in the segment at which a connection is joined */
#define MESSAGES    CHAOS_HTTP2_EDITS /* that begin in a segment; of more, the rest is left alone */

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct chaos_http2_reader);
} chaos_http2 __weak SEC(".maps");

/* ---- reading ----------------------------------------------------------------------------------------------------------- */

static always void pass_over(struct work *w, __u32 bytes)
{
	w->at += bytes;
	w->left -= bytes;
	w->http2.next += bytes;
}

/* The head of the next frame to w->http2.head; false: the segment ends within it. */
static always bool read_frame_head(struct __sk_buff *skb, struct work *w)
{
	struct chaos_http2_reader *r = &w->http2;

	w->whole = !r->have;
	if (!r->have && w->left >= HTTP2_HEAD) {
		if (bpf_skb_load_bytes(skb, w->at, r->head, HTTP2_HEAD))
			return false;
		r->have = HTTP2_HEAD;
		pass_over(w, HTTP2_HEAD);
		return true;
	}
	for (__u32 i = 0; i < HTTP2_HEAD; i++) {
		if (i < r->have)
			continue;
		if (!w->left || bpf_skb_load_bytes(skb, w->at, &r->head[i], 1))
			return false;
		r->have = i + 1;
		pass_over(w, 1);
	}
	return true;
}

/*
 * The next frame; 1 when nothing is left, or what it is has to be seen to: w->asked.stop. A global function, as those below, so that
 * the verifier looks at it once.
 */
__noinline int chaos_http2_frame(struct __sk_buff *skb)
{
	struct work *w = work_here();
	struct chaos_http2_reader *r;
	struct http2_frame f;
	__u32 rest;

	if (!knobs.grpc || !w)
		return 1;
	r = &w->http2;
	rest = r->left < w->left ? r->left : w->left;
	r->left -= rest;
	pass_over(w, rest);
	if (!w->left || !read_frame_head(skb, w))
		return 1;
	r->have = 0;
	f = http2_frame_of(r->head);
	if (!http2_is_likely(&f)) {
		r->state = CHAOS_HTTP2_UNKNOWN;
		return 1;
	}
	r->left = f.length;
	if (!http2_is_first_message(r, &f))
		return 0;
	w->edit.at = r->next - HTTP2_HEAD;
	w->edit.stream = f.stream;
	w->edit.length = f.length;
	w->asked.stop = STOP_ASK;
	return 1;
}

__noinline int chaos_http2_frames(struct __sk_buff *skb)
{
	for (__u32 i = 0; i < FRAMES; i++) {
		if (chaos_http2_frame(skb))
			return 1;
	}
	return 0;
}

/* Is the segment from w->at on a row of frames, and nothing else? */
__noinline int chaos_http2_joins(struct __sk_buff *skb)
{
	struct work *w = work_here();
	__u8 head[HTTP2_HEAD + 3] = {};
	__u32 at, left;

	if (!knobs.grpc || !w)
		return 0;
	at = w->at;
	left = w->left;
	for (__u32 i = 0; i < JOIN_FRAMES && left >= HTTP2_HEAD; i++) {
		struct http2_frame f;

		if (bpf_skb_load_bytes(skb, at, head, HTTP2_HEAD))
			return 0;
		f = http2_frame_of(head);
		if (!http2_is_likely(&f) || f.length > left - HTTP2_HEAD)
			return 0;
		at += HTTP2_HEAD + f.length;
		left -= HTTP2_HEAD + f.length;
	}
	return !left;
}

/* ---- writing ----------------------------------------------------------------------------------------------------------- */

/* What of w->edit lies in the segment, which begins with byte w->begun at w->segment and has w->come bytes. 0: it failed. */
__noinline int chaos_http2_write(struct __sk_buff *skb)
{
	struct work *w = work_here();
	__u32 begin, end;

	if (!knobs.grpc || !w)
		return 0;
	begin = w->edit.at;
	end = begin + CHAOS_HTTP2_TEXT;
	if (after(w->begun, begin))
		begin = w->begun;
	if (after(end, w->begun + w->come))
		end = w->begun + w->come;
	if (!after(end, begin))
		return 1;
	http2_put_reset(w->made.text, &w->edit);
	w->made.length = CHAOS_HTTP2_TEXT;
	w->made.ends = ~0U;
	return write_answer(skb, w, w->segment + (begin - w->begun), end - begin, begin - w->edit.at, w->checksum);
}

/* Streams that were reset before, where this segment has what was changed then, or the rest of it. 0: it failed. */
__noinline int chaos_http2_write_again(struct __sk_buff *skb)
{
	struct work *w = work_here();

	if (!knobs.grpc || !w)
		return 0;
	for (__u32 i = 0; i < CHAOS_HTTP2_EDITS; i++) {
		const struct chaos_http2_edit *e = &w->http2.edit[i];

		if (!e->length || !after(w->begun + w->come, e->at) || !after(e->at + CHAOS_HTTP2_TEXT, w->begun))
			continue;
		w->edit = *e;
		if (!chaos_http2_write(skb))
			return 0;
	}
	return 1;
}

/* The stream of w->edit is reset, here and where that is sent again. */
static always bool reset_stream(struct __sk_buff *skb, struct work *w)
{
	struct chaos_http2_reader *r = &w->http2;
	const __u32 at = w->at, left = w->left; /* the reader's, and the writer's */
	const bool written = chaos_http2_write(skb);

	w->at = at;
	w->left = left;
	r->edit[r->edits & (CHAOS_HTTP2_EDITS - 1)] = w->edit;
	r->edits++;
	return written;
}

/* ---- deciding ---------------------------------------------------------------------------------------------------------- */

/*
 * The first message of an answer begins: is its stream reset? `request` of events counts the streams of the connection: clients
 * have the odd ones.
 */
static always bool decide_reset(struct work *w)
{
	struct chaos_stats *stats = stats_of(w->verdict.rule);
	const struct chaos_rule *r = rule_of(w->verdict.rule);
	const bool possible = w->whole && http2_has_room(w->edit.length);
	__u64 unit;

	if (!r || !stats || !does(r, CHAOS_GRPC)) /* the rule is over, and the connection another one's */
		return false;
	w->verdict.request = (w->edit.stream + 1) / 2;
	unit = throw(r->seed, w->verdict.connection, w->verdict.request);
	if (!decide(w->verdict.rule, r, stats, CHAOS_GRPC, unit, possible))
		return false;
	w->edit.code = r->grpc;
	count(&stats->packets);
	tell(w->verdict.rule, &w->flow, &w->owner, &w->verdict, CHAOS_GRPC, 0, r->grpc);
	return true;
}

/* Reads up to the next first message, and decides; 1 when nothing is left, 2 when the segment could not be changed. */
__noinline int chaos_http2_message(struct __sk_buff *skb)
{
	struct work *w = work_here();

	if (!knobs.grpc || !w)
		return 1;
	w->asked.stop = STOP_NOT;
	for (__u32 i = 0; i < FRAME_TURNS && !chaos_http2_frames(skb); i++)
		;
	if (w->asked.stop != STOP_ASK)
		return 1;
	return decide_reset(w) && !reset_stream(skb, w) ? 2 : 0;
}

/* A connection that speaks something else is counted, once. */
static always bool count_foreign(struct __sk_buff *skb, struct chaos_sock *s, struct work *w)
{
	const struct chaos_rule *r = rule_of(s->verdict.rule);
	struct chaos_stats *stats = stats_of(s->verdict.rule);
	__u8 first[4] = {};
	bool tls, http;

	if (w->left < sizeof(first) || bpf_skb_load_bytes(skb, w->at, first, sizeof(first)))
		return false;
	tls = first[0] >= TLS_CHANGE_CIPHER && first[0] <= TLS_DATA && first[1] == 3;
	http = first[0] == 'H' && first[1] == 'T' && first[2] == 'T' && first[3] == 'P';
	if (!tls && !http)
		return false;
	if (r && stats)
		settle(r, stats, CHAOS_FAULT_COUNT, tls ? CHAOS_SKIP_ENCRYPTED : CHAOS_SKIP_UNREAD);
	return true;
}

/* ---- the segments ----------------------------------------------------------------------------------------------------- */

/* Reads what is new. False: the segment could not be changed. */
static always bool read_frames(struct __sk_buff *skb, struct work *w)
{
	int end = 0;

	for (__u32 i = 0; i < MESSAGES && !end; i++)
		end = chaos_http2_message(skb);
	if (w->left) /* could not be read */
		w->http2.state = CHAOS_HTTP2_UNKNOWN;
	return end < 2;
}

static always void begin_segment(struct work *w, __u32 network, const struct packet *p, const struct chaos_sock *s)
{
	w->verdict = s->verdict;
	w->owner = s->owner;
	__builtin_memset(&w->flow, 0, sizeof(w->flow));
	w->flow.protocol = CHAOS_TCP;
	w->flow.side = s->side;
	flow_of_packet(&w->flow, p, false);
	w->checksum = network + p->transport + offsetof(struct tcp_header, checksum);
	w->segment = network + p->payload_offset;
	w->begun = p->seq;
	w->come = p->payload;
}

/* Are the frames of this segment to be read from here on? */
static always bool is_followed(struct __sk_buff *skb, const struct packet *p, struct chaos_sock *s, struct work *w)
{
	struct chaos_http2_reader *r = &w->http2;

	if (r->state == CHAOS_HTTP2_FOLLOWED)
		return true;
	if (r->state == CHAOS_HTTP2_FOREIGN)
		return false;
	if (chaos_http2_joins(skb)) {
		r->state = CHAOS_HTTP2_FOLLOWED;
		r->next = p->seq;
		r->left = 0;
		r->have = 0;
		return true;
	}
	if (count_foreign(skb, s, w))
		r->state = CHAOS_HTTP2_FOREIGN;
	return false;
}

/* True: the segment is to be lost, since what is missing before it has to be read first, or it could not be changed. */
static always bool follow_http2(struct __sk_buff *skb, __u32 network, const struct packet *p, struct chaos_sock *s,
				struct chaos_http2_reader *kept, __u32 received, struct work *w)
{
	struct chaos_http2_reader *r = &w->http2;
	bool whole = true;

	*r = *kept;
	begin_segment(w, network, p, s);
	if (r->state == CHAOS_HTTP2_FOLLOWED && after(p->seq, r->next)) {
		if (!after(received, r->next))
			return true;
		r->state = CHAOS_HTTP2_UNKNOWN; /* it came by another way */
	}
	if (r->edits)
		whole = chaos_http2_write_again(skb);
	w->at = w->segment;
	w->left = p->payload;
	if (is_followed(skb, p, s, w) && after(p->seq + p->payload, r->next)) {
		const __u32 known = r->next - p->seq;

		w->at += known;
		w->left -= known;
		whole = whole && read_frames(skb, w);
	}
	*kept = *r;
	return !whole;
}

static always bool resets_streams(struct chaos_sock *s)
{
	const struct chaos_rule *r = rule_of(s->verdict.rule);

	return r && does(r, CHAOS_GRPC) && is_in_force_still(&s->verdict);
}

/* Frames of HTTP/2 that arrive. True: the segment is to be lost. */
static always bool look_at_frames(struct __sk_buff *skb, __u32 network, const struct packet *p, struct bpf_sock *sk,
				  struct chaos_sock *s, struct work *w)
{
	const bool wanted = resets_streams(s);
	struct chaos_http2_reader *kept;
	struct bpf_tcp_sock *tcp;

	if (!p->payload)
		return false;
	kept = bpf_sk_storage_get(&chaos_http2, sk, NULL, wanted ? BPF_SK_STORAGE_GET_F_CREATE : 0);
	/* Nothing to do again, and nothing to read. */
	if (!kept || (!kept->edits && (!wanted || kept->state == CHAOS_HTTP2_FOREIGN)))
		return false;
	tcp = bpf_tcp_sock(sk);
	return tcp && follow_http2(skb, network, p, s, kept, tcp->rcv_nxt, w);
}

#endif
