// SPDX-License-Identifier: GPL-2.0-only
/*
 * Another answer to a request of HTTP than the server's: `status`, `body`, `hang`. Where the packet arrives at the client's
 * device, before TCP has seen it, bytes are put in the place of others; sequence numbers tell which, so what is sent again
 * becomes the same again, and no segment gets longer.
 *
 *	KEEP     our head, our body, and spaces up to where the server's answer ends: it said how long it is
 *	CLOSE    our head and body, and the end of the stream right behind (see break.bpf.h): the rest never arrives
 *	DIGITS   three digits in the server's first line
 *	NONE     the stream stops before the answer
 *
 * A rule has several forms, best first; the first segment of the answer, with its head, decides which of them fits. Until it
 * has come, whatever overtakes it is lost, and sent again in its turn.
 */
#include "bpf/http2.bpf.h"
#include "bpf/stream.bpf.h"
#include "bpf/tls.bpf.h"
#include "bpf/turn.bpf.h"

#define PIECES      48 /* and so many times so many: 18 KiB of head */
#define MAX_INTERIM 2

/* ---- the head of the server's answer --------------------------------------------------------------------------------- */

/* The next piece of it; 1 when it is over, or nothing is left. A global function: the verifier looks at it once. */
__noinline int chaos_head_piece(struct __sk_buff *skb)
{
	const struct chaos_http_table *t = http_table();
	struct work *w = work_here();
	__u64 n, bytes;

	if (!knobs.answers || !w || !t || !w->left || w->reader.phase >= HTTP_FOREIGN)
		return 1;
	n = (w->left < PIECE ? w->left : PIECE) - 1;
	asm volatile("" : "+r"(n)); /* see load_payload() */
	n = (n & (PIECE - 1)) + 1;
	if (bpf_skb_load_bytes(skb, w->at, w->piece, n))
		return 1;
	bytes = n;
	asm volatile("" : "+r"(bytes)); /* see chaos_http_piece() */
	for (__u32 i = 0; i < PIECE && i < bytes; i++) {
		w->read += ((__u64)w->reader.phase - HTTP_FOREIGN) >> 63; /* 1 as long as the head is not over */
		http_byte(&w->reader, t, 1, 0, w->piece[i]); /* the first word has the reader's own patterns */
	}
	w->at += n;
	w->left -= n;
	return 0;
}

__noinline int chaos_head_pieces(struct __sk_buff *skb)
{
	for (__u32 i = 0; i < PIECES; i++) {
		if (chaos_head_piece(skb))
			return 1;
	}
	return 0;
}

/*
 * Reads the head as far as the segment has it, from w->at on; 0: it does not begin as an answer of HTTP, or ends within its
 * status. This and what follows are global functions for the sake of the verifiers before 6.12, which would go through
 * what each leaves to the next: a million instructions do not suffice.
 */
__noinline int chaos_read_head(struct __sk_buff *skb)
{
	struct work *w = work_here();

	if (!knobs.answers || !w || w->left < STATUS_END || bpf_skb_load_bytes(skb, w->at, w->first, STATUS_END))
		return 0;
	w->status = status_in(w->first);
	if (!w->status)
		return 0;
	http_read_answer(&w->reader);
	w->read = STATUS_END;
	w->at += STATUS_END;
	w->left -= STATUS_END;
	for (__u32 i = 0; i < PIECES && !chaos_head_pieces(skb); i++)
		;
	return 1;
}

/* ---- which form -------------------------------------------------------------------------------------------------------- */

/* Does this form fit into the answer of which the head was read? */
__noinline int chaos_form_fits(struct __sk_buff *skb, __u32 number)
{
	const struct chaos_form *form = form_of(number);
	const struct work *w = work_here();
	struct answer_head a = {};

	if (!knobs.answers || !skb || !form || !w)
		return 0;
	a.reader = &w->reader;
	a.status = w->status;
	a.read = w->read;
	a.come = w->come;
	a.bodiless = w->bodiless;
	return form_fits(form, &a);
}

/* The first of the rule's forms that fits; NULL: none. */
static always struct chaos_form *choose_form(struct __sk_buff *skb, const struct chaos_rule *r, struct chaos_answer *a)
{
	for (__u32 i = 0; i < CHAOS_MAX_FORMS && i < r->forms; i++) {
		if (chaos_form_fits(skb, r->form + i)) {
			a->form = r->form + i;
			return form_of(a->form);
		}
	}
	return NULL;
}

/* The first segment of the answer is here, and decides. */
static always void decide_answer(struct __sk_buff *skb, const struct flow *f, struct chaos_sock *s,
				 struct chaos_http *h, const struct work *w, bool readable)
{
	struct chaos_stats *stats = stats_of(h->request.rule);
	const struct chaos_rule *r = rule_of(h->request.rule);
	struct chaos_answer *a = &h->answer;
	struct chaos_form *form = NULL;
	__u32 fault;

	a->state = CHAOS_ANSWER_LEFT;
	if (!r || !stats || !is_in_force_still(&h->request))
		return;
	fault = fault_of(r);
	if (knobs.streams && 1 << fault & CHAOS_STREAMS) {
		if (readable && w->reader.phase == HTTP_ANSWERED)
			begin_stream(h, w);
		else
			decide(h->request.rule, r, stats, fault, unit_throw(r, &h->request, 0), false);
		return;
	}
	if (readable || does(r, CHAOS_HANG))
		form = choose_form(skb, r, a);
	if (!decide(h->request.rule, r, stats, fault, unit_throw(r, &h->request, 0), form != NULL) || !form)
		return;
	a->state = CHAOS_ANSWER_UNDER_WAY;
	a->kind = form->kind;
	a->length = 0;
	a->last_chunk = 0;
	if (form->kind == CHAOS_FORM_KEEP) {
		a->end = a->from + w->read + (__u32)w->reader.left;
		a->length = w->read + (__u32)w->reader.left - form->head;
	} else {
		a->end = a->from + form->length;
	}
	tell(h->request.rule, f, &s->owner, &h->request, fault, form->kind | form->brief << 8, form->status);
}

/* Writes what of the answer lies in this segment, and cuts it where the answer ends; false: the segment is to be lost. */
static always bool change_segment(struct __sk_buff *skb, __u32 network, const struct packet *p, struct work *w)
{
	const __u32 checksum = network + p->transport + offsetof(struct tcp_header, checksum);
	const struct chaos_answer *a = &w->answer;
	const struct cut cut = { .at = a->end,
				 .how = a->kind == CHAOS_FORM_NONE ? CHAOS_BREAK_STALL : CHAOS_BREAK_CLOSE };
	__u32 begin = a->from + (a->kind == CHAOS_FORM_DIGITS ? CHAOS_FORM_FIRST : 0), end = p->seq + p->payload;

	if (!bring_text(w, a))
		return true;
	if (after(p->seq, begin))
		begin = p->seq;
	if (after(end, a->end))
		end = a->end;
	if (after(end, begin) && !write_answer(skb, w, network + p->payload_offset + (begin - p->seq), end - begin,
					       begin - a->from, checksum))
		return false;
	if (a->kind != CHAOS_FORM_CLOSE && a->kind != CHAOS_FORM_NONE)
		return true;
	if (!after(p->seq + p->payload + !!(p->tcp_flags & TCP_FIN), a->end))
		return true;
	return cut_short(skb, network, p, &cut);
}

/* Does to a segment what w->answer says; 0: it is to be lost. */
__noinline int chaos_change(struct __sk_buff *skb)
{
	struct work *w = work_here();
	struct packet p = {};
	__s32 network = network_offset(skb);

	if (!knobs.answers || !w || network < 0 || !parse(skb, &p, network))
		return 1;
	return change_segment(skb, network, &p, w);
}

/* ---- the packet ------------------------------------------------------------------------------------------------------------ */

/* Reads on while interim answers (100 Continue) come first. False: nothing else has come yet. */
static always bool read_first(struct __sk_buff *skb, __u32 network, const struct packet *p, struct chaos_answer *a,
			      struct work *w, bool *readable)
{
	w->bodiless = a->head;
	for (int i = 0; i <= MAX_INTERIM; i++) {
		const __u32 skip = a->from - p->seq;

		w->come = p->payload - skip;
		w->at = network + p->payload_offset + skip;
		w->left = w->come;
		*readable = chaos_read_head(skb);
		if (!*readable || !is_interim(w->status))
			return true;
		*readable = false;
		if (w->reader.phase != HTTP_ANSWERED)
			return true;
		a->from += w->read;
		if (!after(p->seq + p->payload, a->from))
			return false;
	}
	return true;
}

/* Is the segment to be lost? Those that come before the first one are, and are sent again in their turn. */
static always bool look_at_first(struct __sk_buff *skb, __u32 network, const struct packet *p, struct chaos_sock *s,
				 struct chaos_http *h, struct work *w)
{
	struct flow f = { .protocol = CHAOS_TCP, .side = s->side };
	struct chaos_answer *a = &h->answer;
	bool readable;

	if (after(p->seq, a->from)) {
		if (!after(a->acked, a->from))
			return p->payload;
		a->state = CHAOS_ANSWER_LEFT; /* its beginning came by another way */
		return false;
	}
	if (!p->payload || !after(p->seq + p->payload, a->from) || !read_first(skb, network, p, a, w, &readable))
		return false;
	flow_of_packet(&f, p, false);
	decide_answer(skb, &f, s, h, w, readable);
	return false;
}

/* A stream inside TLS has been ended there (tls_stream.bpf.h): its connection ends here. */
static always void follow_inside(struct chaos_http *h, const struct packet *p)
{
	struct chaos_tls *tls = tls_of(&h->print.tls);
	struct chaos_answer *a = &h->answer;

	if (!tls || tls->serial != h->print.serial || tls->order.state != CHAOS_ANSWER_ENDED)
		return;
	close_order(tls);
	a->state = CHAOS_ANSWER_UNDER_WAY;
	a->kind = CHAOS_FORM_CLOSE;
	a->form = tls->order.form;
	a->from = after(a->acked, p->seq) ? a->acked : p->seq;
	a->end = a->from;
	a->length = 0;
	a->last_chunk = 0;
}

enum todo {
	PASS_ON,
	LOSE,
	CHANGE,
};

static always enum todo look_at(struct __sk_buff *skb, __u32 network, const struct packet *p, struct chaos_sock *s,
				struct chaos_http *h, struct work *w)
{
	struct chaos_answer *a = &h->answer;
	struct chaos_stats *stats = stats_of(h->request.rule);

	if (knobs.tls && knobs.streams && a->state == CHAOS_ANSWER_IN_TLS)
		follow_inside(h, p);
	if (a->state == CHAOS_ANSWER_WAITS && look_at_first(skb, network, p, s, h, w))
		return LOSE;
	if (knobs.streams && a->state == CHAOS_ANSWER_STREAMS && follow_stream(skb, network, p, s, h, w))
		return LOSE;
	if (a->state == CHAOS_ANSWER_UNDER_WAY && a->kind == CHAOS_FORM_NONE && !is_in_force_still(&h->request))
		a->state = CHAOS_ANSWER_LEFT;
	if (a->state != CHAOS_ANSWER_UNDER_WAY)
		return PASS_ON;
	w->answer = *a;
	if (stats)
		count(&stats->packets);
	return CHANGE;
}

/* Payload, or the end of the stream. */
static always bool is_looked_at(const struct packet *p)
{
	return p->protocol == CHAOS_TCP && !(p->tcp_flags & (TCP_SYN | TCP_RST)) &&
	       (p->payload || p->tcp_flags & TCP_FIN) && (!knobs.arriving_ports || names_port(p->source_port));
}

SEC("tc")
int chaos_answer(struct __sk_buff *skb)
{
	enum todo todo = PASS_ON;
	struct packet p = {};
	struct bpf_sock *sk, *full;
	struct work *w = work_here();
	struct chaos_sock *s;
	struct chaos_http *h;
	__s32 network;

	if (!knobs.answers || !w || !armed())
		return TC_ACT_UNSPEC;
	network = network_offset(skb);
	if (network < 0 || !parse(skb, &p, network) || !is_looked_at(&p))
		return TC_ACT_UNSPEC;
	sk = find_socket(skb, &p);
	if (!sk)
		return TC_ACT_UNSPEC;
	full = bpf_sk_fullsock(sk);
	s = full && full->state != BPF_TCP_LISTEN ? bpf_sk_storage_get(&chaos_sock, full, NULL, 0) : NULL;
	h = s && s->answer ? bpf_sk_storage_get(&chaos_http, full, NULL, 0) : NULL;
	if (s && h)
		todo = look_at(skb, network, &p, s, h, w);
	else if (knobs.grpc && s && look_at_frames(skb, network, &p, full, s, w))
		todo = LOSE;
	bpf_sk_release(sk);
	if (todo == LOSE || (todo == CHANGE && !chaos_change(skb)))
		return bpf_redirect(NOWHERE, 0);
	return TC_ACT_UNSPEC;
}
