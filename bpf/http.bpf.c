// SPDX-License-Identifier: GPL-2.0-only
/*
 * Requests of HTTP in clear, read where they leave a client (bpf/http.h says how), for rules that ask for them.
 *
 *	chaos_request    sees every packet before chaos_egress does. Where the connection may meet such a rule it reads on from
 *	                 where the segment before ended; when all is known that rules ask of the request, the first rule in the
 *	                 file decides, be it about requests or about the connection: its verdict takes the place of the one
 *	                 before, and all hooks go by it until another request is decided
 *	chaos_egress     does what the verdict says, as ever (socket.bpf.c)
 *
 * Bytes that are sent again were read already: sequence numbers tell. A connection that was there before the rules is
 * joined at the first segment that begins with a request line.
 *
 * Inside TLS the request is read before it is encrypted (tls.bpf.c), and its packet is known by what it carries: the bytes
 * of a record are noted before it is sent, and looked for in the segments that leave.
 *
 * Connections are given up, with a count (see CHAOS_SKIP_UNREAD), where it cannot be told to which request a byte belongs:
 * HTTP/2, whatever is not HTTP, and a request that is sent before the one before it has an answer (pipelining). What
 * such a connection meets are the rules for connections. So does one that speaks TLS by a library that is not known; it is
 * counted, too.
 */
#include "bpf/connection.bpf.h"
#include "bpf/http.bpf.h"
#include "bpf/request.bpf.h"
#include "bpf/tls.bpf.h"

#define PIECE  sizeof(((struct chaos_http *)0)->piece)
#define PIECES 64 /* and so many times so many: 32 KiB of heads, and of bodies that are looked at */

/*
 * The next piece of the segment; 1 when none is left. A global function: the verifier looks at it once. What it remembers
 * lies with the socket, so that the verifier need not follow what one step leaves to the next.
 */
__noinline int chaos_http_piece(struct __sk_buff *skb)
{
	const struct chaos_http_table *t = http_table();
	struct bpf_sock *sk = socket_of(skb);
	struct chaos_http *h;
	__u64 n, bytes;

	if (!knobs.http || !sk || !t)
		return 1;
	h = bpf_sk_storage_get(&chaos_http, sk, NULL, 0);
	if (!h)
		return 1;
	n = http_skip(&h->reader, h->left);
	h->at += n;
	h->left -= n;
	if (!h->left || h->reader.phase == HTTP_FOREIGN)
		return 1;
	n = (h->left < PIECE ? h->left : PIECE) - 1;
	asm volatile("" : "+r"(n)); /* see load_payload() */
	n = (n & (PIECE - 1)) + 1;
	if (bpf_skb_load_bytes(skb, h->at, h->piece, n)) {
		h->reader.phase = HTTP_FOREIGN;
		return 1;
	}
	/* 5.10 forgets the bounds of a number on the stack; a compiler that knew them would leave out the loop's own. */
	bytes = n;
	asm volatile("" : "+r"(bytes));
	for (__u32 i = 0; i < PIECE && i < bytes; i++)
		http_byte(&h->reader, t, knobs.http_words, knobs.http_wants, h->piece[i]);
	h->at += n;
	h->left -= n;
	return 0;
}

/* Some more of them; 1 when none is left. The verifier goes through PIECES steps here, and as many below, not through all. */
__noinline int chaos_http_pieces(struct __sk_buff *skb)
{
	for (__u32 i = 0; i < PIECES; i++) {
		if (chaos_http_piece(skb))
			return 1;
	}
	return 0;
}

static always void read_segment(struct __sk_buff *skb, struct chaos_http *h, __u32 offset, __u32 length)
{
	h->at = offset;
	h->left = length;
	for (__u32 i = 0; i < PIECES && !chaos_http_pieces(skb); i++)
		;
	if (h->left)
		h->reader.phase = HTTP_FOREIGN;
}

/* The verdict for a request goes; that of the connection holds again, if it still does. */
static always void stop_governing(struct chaos_sock *s, struct chaos_http *h)
{
	if (s->verdict.http == CHAOS_HTTP_GOVERNS)
		s->verdict = h->plain;
}

/* Under the rule that asked first. */
static always void count_unread(const struct chaos_sock *s, __u32 reason)
{
	const __u32 rule = s->verdict.http == CHAOS_HTTP_GOVERNS ? s->verdict.rule : s->verdict.http - 1u;
	struct chaos_stats *stats = stats_of(rule);
	struct chaos_rule *r = rule_of(rule);

	if (r && stats)
		settle(r, stats, CHAOS_FAULT_COUNT, reason);
}

/* Counted once for a connection. One that is silent stays so. */
static always void give_up(struct chaos_sock *s, struct chaos_http *h, __u32 reason)
{
	h->given_up = 1;
	s->begins = CHAOS_BEGINS_UNREAD;
	count_unread(s, reason);
	if (!(s->verdict.inject & 1 << CHAOS_DROP))
		stop_governing(s, h);
}

/*
 * The set of rules for this request: those that are about requests, come before the connection's own rule in the file, and
 * whose conditions it fulfils. Written to a set that is this CPU's own; without branches, see set_of().
 */
static always bool fill_set(__u32 number, const struct chaos_http_table *t, __u32 conditions, __u32 limit)
{
	struct chaos_vector *set = bpf_map_lookup_elem(&chaos_sets, &number);

	if (!set)
		return false;
	for (__u32 w = 0; w < CHAOS_WORDS && w < knobs.words; w++) {
		__u64 word = t->rules[w];

#pragma clang loop unroll(disable)
		for (__u32 i = 0; i < CHAOS_HTTP_CONDITIONS; i++)
			word &= t->indifferent[w][i] | -(__u64)(conditions >> i & 1);
		if (limit < 64 * (w + 1))
			word &= limit > 64 * w ? (1ULL << (limit - 64 * w)) - 1 : 0;
		set->word[w] = word;
	}
	return true;
}

/* What would hold for the connection itself at present. */
static always void refresh_plain(struct chaos_sock *s, struct chaos_http *h, struct flow *f)
{
	if (s->verdict.http != CHAOS_HTTP_GOVERNS)
		h->plain = s->verdict;
	refresh_verdict(f, &s->owner, &h->plain);
}

/* What is known of a request. */
struct request {
	__u32 conditions; /* that it fulfils */
	__u32 number;     /* in the connection */
	bool head;        /* it is HEAD */
};

/* Its answer is to be another one: what arrives from here on is looked at. */
static always void expect_answer(struct chaos_sock *s, struct chaos_http *h, const struct request *request,
				 const struct packet *p)
{
	h->answer.from = p->ack;
	h->answer.end = p->ack;
	h->answer.head = request->head;
	h->answer.state = CHAOS_ANSWER_WAITS;
	s->answer = 1;
}

/*
 * Inside TLS it is made where it is read, by programs that cannot take a lock: its budget is spent here. A stream that ends
 * early there ends the connection as well.
 */
static always void order_answer(struct flow *f, struct chaos_sock *s, struct chaos_http *h,
				const struct request *request, const struct chaos_rule *r)
{
	const __u32 rule = h->request.rule, fault = fault_of(r);
	struct chaos_stats *stats = stats_of(rule);
	struct chaos_tls *tls = tls_of(&h->print.tls);
	__u32 reason = CHAOS_SKIP_PERCENT;

	if (!stats)
		return;
	if (tls && tls->serial != h->print.serial)
		tls = NULL;
	if (!tls || !knobs.write_user)
		reason = CHAOS_SKIP_ENCRYPTED;
	else if (chance(unit_throw(r, &h->request, 0), at_present(r, r->percent_ppm, &r->percent_ramp)))
		reason = take(rule, r);
	if (!tls || reason != TAKEN) {
		settle(r, stats, fault, reason);
		return;
	}
	if (r->faults & CHAOS_STREAMS) {
		h->answer.state = CHAOS_ANSWER_IN_TLS;
		s->answer = 1;
	}
	tls->order.rule = rule;
	tls->order.head = request->head;
	describe(&tls->order.event, rule, f, &s->owner, &h->request,
		 fault == CHAOS_BREAK_CLEAN ? CHAOS_BREAK_AFTER : fault);
	open_order(tls);
}

/* All is known of the request: which rule is it for? */
static always void decide_request(struct flow *f, struct chaos_sock *s, struct chaos_http *h,
				  const struct chaos_http_table *t, const struct request *request,
				  const struct packet *p)
{
	const __u32 depth = enter_bench(), set = knobs.http_sets + bpf_get_smp_processor_id() * BENCHES + depth;
	const struct chaos_rule *r;

	s->begins = CHAOS_BEGINS_HERE;
	s->answer = 0;
	refresh_plain(s, h, f);
	h->request.rule = CHAOS_NO_RULE;
	if (depth < BENCHES && fill_set(set, t, request->conditions, h->plain.rule)) {
		f->allowed = set + 1;
		h->request.generation = 0; /* every one has a number of its own */
		h->request.http = 0;
		choose_verdict(f, &s->owner, &h->request);
		f->allowed = 0;
	}
	leave_bench();
	if (h->request.rule == CHAOS_NO_RULE) {
		stop_governing(s, h);
		return;
	}
	h->request.connection = number_connection(h->request.rule);
	h->request.http = CHAOS_HTTP_GOVERNS;
	h->request.request = request->number;
	s->verdict = h->request;
	r = rule_of(h->request.rule);
	if (!knobs.answers || !r || !(r->faults & CHAOS_ANSWERS))
		return;
	if (knobs.tls && h->in_tls && !does(r, CHAOS_HANG))
		order_answer(f, s, h, request, r);
	else
		expect_answer(s, h, request, p);
}

/* A request that begins before anything was heard since the one before it did. */
static always bool is_pipelined(struct chaos_http *h, const struct packet *p, bool first)
{
	const bool pipelined = !first && h->asked_ack == p->ack;

	h->asked_ack = p->ack;
	return pipelined;
}

/* ---- in clear ------------------------------------------------------------------------------------------------------- */

/*
 * Where in the segment the reader goes on; negative: nowhere. One that it does not stand at is joined afresh, if it begins
 * with a request.
 */
static always __s32 place_of(struct chaos_http *h, const struct packet *p)
{
	const __u32 again = h->next_seq - p->seq;

	if (!h->synced || (after(p->seq, h->next_seq) && h->reader.phase != HTTP_FOREIGN)) {
		h->reader.phase = HTTP_START;
		h->reader.ready = 0;
		h->synced = 0;
		return 0;
	}
	return again < p->payload ? (__s32)again : -1;
}

static always void read_payload(struct __sk_buff *skb, struct chaos_http *h, const struct packet *p, __u32 place)
{
	const __u32 begun = h->reader.begun;

	read_segment(skb, h, p->payload_offset + place, p->payload - place);
	h->next_seq = p->seq + p->payload;
	if (h->reader.begun != begun && is_pipelined(h, p, !h->synced || !begun))
		h->reader.pipelined = 1;
}

static always void read_clear(struct __sk_buff *skb, struct flow *f, struct chaos_sock *s, struct chaos_http *h,
			      const struct chaos_http_table *t, const struct packet *p)
{
	const bool joined = h->synced;
	struct request request;
	__s32 place;

	if (s->begins != CHAOS_BEGINS_HERE)
		s->begins = CHAOS_BEGINS_NOT;
	place = place_of(h, p);
	if (place < 0)
		return;
	read_payload(skb, h, p, place);
	if (h->reader.phase == HTTP_FOREIGN && !joined) {
		s->begins = CHAOS_BEGINS_UNREAD; /* in the middle of something: perhaps the next one */
		return;
	}
	if (h->reader.pipelined || h->reader.phase == HTTP_FOREIGN) {
		give_up(s, h, CHAOS_SKIP_UNREAD);
		return;
	}
	h->synced = 1;
	if (!h->reader.ready)
		return;
	h->reader.ready = 0;
	request.conditions = http_conditions(&h->reader, t);
	request.number = h->reader.begun;
	request.head = h->reader.found[0] >> CHAOS_HTTP_HEAD & 1;
	decide_request(f, s, h, t, &request, p);
}

/* ---- inside TLS ----------------------------------------------------------------------------------------------------- */

#define RECORDS     32 /* of a segment, at most */
#define RECORD_HEAD 5
#define RECORD_MOST (16384 + 2048) /* of what follows the head */

/*
 * What follows the change of ciphers is the rest of the handshake, which nobody has noted, in one segment: a certificate of the
 * client's is several records.
 */
enum after_ccs {
	HANDSHAKE_FOLLOWS = 1,
	HANDSHAKE_SEEN,
};

/* What was known of a record when it was made. Two requests in one segment cannot be told apart from here on. */
static always void take_print(struct chaos_http *h, const struct chaos_print *print)
{
	__u32 flags = h->print.flags | print->flags;

	if (h->print.flags & print->flags & CHAOS_PRINT_KNOWN)
		flags |= CHAOS_PRINT_UNREAD;
	if (!(h->print.flags & CHAOS_PRINT_KNOWN))
		h->print = *print;
	h->print.flags = flags;
	h->in_tls = 1;
}

static always void look_for_print(struct __sk_buff *skb, struct chaos_http *h)
{
	struct chaos_print *print;
	__u64 key;

	if (h->left < RECORD_PRINT || bpf_skb_load_bytes(skb, h->at + CHAOS_PRINT_AT, &key, sizeof(key)))
		return;
	print = bpf_map_lookup_elem(&chaos_prints, &key);
	if (print) {
		take_print(h, print);
		bpf_map_delete_elem(&chaos_prints, &key);
	} else if (!h->in_tls && !h->after_ccs && !h->unseen) {
		h->unseen = 1;
	}
	if (h->after_ccs)
		h->after_ccs = HANDSHAKE_SEEN;
}

/* The next record of the segment, which begins at h->at; 1 when none is left. Global functions: see chaos_http_piece(). */
__noinline int chaos_tls_record(struct __sk_buff *skb)
{
	struct bpf_sock *sk = socket_of(skb);
	__u8 head[RECORD_HEAD] = {};
	struct chaos_http *h;
	__u32 length;

	if (!knobs.tls || !sk)
		return 1;
	h = bpf_sk_storage_get(&chaos_http, sk, NULL, 0);
	if (!h)
		return 1;
	length = h->left;
	h->left = 0;
	if (length < sizeof(head) || bpf_skb_load_bytes(skb, h->at, head, sizeof(head)) ||
	    head[0] < TLS_CHANGE_CIPHER || head[0] > TLS_DATA || head[1] != 3 ||
	    (head[3] << 8 | head[4]) > RECORD_MOST) {
		h->synced = 0; /* till a segment begins with one */
		return 1;
	}
	h->left = length;
	if (head[0] == TLS_CHANGE_CIPHER)
		h->after_ccs = HANDSHAKE_FOLLOWS;
	else if (head[0] == TLS_HANDSHAKE)
		h->after_ccs = 0;
	else if (head[0] == TLS_DATA)
		look_for_print(skb, h);
	length = sizeof(head) + (head[3] << 8 | head[4]);
	h->next_seq += length;
	h->at += length;
	h->left = length < h->left ? h->left - length : 0;
	return !h->left;
}

/* All records that begin in the segment. Of those that are sent again, and of the rest of one, nothing is new. */
static always void read_records(struct __sk_buff *skb, struct chaos_http *h, const struct packet *p)
{
	h->print.flags = 0;
	if (h->after_ccs == HANDSHAKE_SEEN)
		h->after_ccs = 0;
	if (!h->synced || after(p->seq, h->next_seq))
		h->next_seq = p->seq;
	if (!after(p->seq + p->payload, h->next_seq))
		return;
	h->synced = 1;
	h->at = p->payload_offset + (h->next_seq - p->seq);
	h->left = p->payload - (h->next_seq - p->seq);
	for (__u32 i = 0; i < RECORDS && !chaos_tls_record(skb); i++)
		;
	if (h->left)
		h->synced = 0;
}

static always void read_tls(struct __sk_buff *skb, struct flow *f, struct chaos_sock *s, struct chaos_http *h,
			    const struct chaos_http_table *t, const struct packet *p)
{
	const bool seen = h->unseen;
	struct request request;

	read_records(skb, h, p);
	if (!h->in_tls) {
		s->begins = CHAOS_BEGINS_UNREAD;
		if (h->unseen && !seen)
			count_unread(s, CHAOS_SKIP_ENCRYPTED);
		return;
	}
	if (s->begins != CHAOS_BEGINS_HERE)
		s->begins = CHAOS_BEGINS_NOT;
	if (h->print.flags & CHAOS_PRINT_KNOWN && is_pipelined(h, p, h->print.begun <= 1))
		h->print.flags |= CHAOS_PRINT_UNREAD;
	if (h->print.flags & CHAOS_PRINT_UNREAD) {
		give_up(s, h, h->print.flags & CHAOS_PRINT_HTTP2 ? CHAOS_SKIP_ENCRYPTED : CHAOS_SKIP_UNREAD);
		return;
	}
	if ((h->print.flags & (CHAOS_PRINT_OTHER | CHAOS_PRINT_KNOWN)) ==
	    CHAOS_PRINT_OTHER) { /* or an old connection, in the middle of something */
		s->begins = CHAOS_BEGINS_UNREAD;
		if (!h->unseen)
			count_unread(s, CHAOS_SKIP_UNREAD);
		h->unseen = 1;
		return;
	}
	if (!(h->print.flags & CHAOS_PRINT_KNOWN))
		return;
	request.conditions = h->print.conditions;
	request.number = h->print.begun;
	request.head = h->print.flags & CHAOS_PRINT_HEAD;
	decide_request(f, s, h, t, &request, p);
}

/* ---- the packet ----------------------------------------------------------------------------------------------------- */

static always void read_leaving(struct __sk_buff *skb, struct flow *f, struct chaos_sock *s, struct chaos_http *h,
				const struct packet *p)
{
	const struct chaos_http_table *t = http_table();

	if (!t || !p->payload || h->given_up)
		return;
	learn_stream(skb, &s->stream, p);
	if (knobs.tls && s->stream == CHAOS_STREAM_TLS)
		read_tls(skb, f, s, h, t, p);
	else if (s->stream == CHAOS_STREAM_TLS || s->stream == CHAOS_STREAM_HTTP2)
		give_up(s, h, CHAOS_SKIP_ENCRYPTED);
	else
		read_clear(skb, f, s, h, t, p);
}

static always int connection_leaving(struct __sk_buff *skb, struct bpf_sock *sk, struct chaos_sock *s)
{
	struct flow f = { .protocol = CHAOS_TCP, .spared = s->spared };
	struct packet p = {};
	struct chaos_http *h;

	know_connection(skb, sk, s, &f, true);
	if (!s->verdict.http) {
		s->begins = CHAOS_BEGINS_UNREAD;
		return PASS;
	}
	h = bpf_sk_storage_get(&chaos_http, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!h || !parse(skb, &p, 0))
		return PASS;
	if ((p.tcp_flags & (TCP_SYN | TCP_ACK)) == TCP_SYN) {
		h->next_seq = p.seq + 1;
		h->synced = 1;
	}
	if (p.tcp_flags & TCP_ACK)
		h->answer.acked = p.ack;
	read_leaving(skb, &f, s, h, &p);
	return PASS;
}

SEC("cgroup_skb/egress")
int chaos_request(struct __sk_buff *skb)
{
	struct chaos_sock *s;
	struct bpf_sock *sk;

	if (!knobs.http || !armed())
		return PASS;
	sk = socket_of(skb);
	if (!sk || sk->protocol != IPPROTO_TCP || sk->state == BPF_TCP_LISTEN)
		return PASS;
	s = sock_state(sk);
	if (!s || is_of_no_concern(s))
		return PASS;
	if (!s->known)
		learn_from_packet(skb, s);
	return connection_leaving(skb, sk, s);
}
