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
 * Connections are given up, with a count (see CHAOS_SKIP_UNREAD), where it cannot be told to which request a byte belongs:
 * TLS, HTTP/2, whatever is not HTTP, and a request that is sent before the one before it has an answer (pipelining). What
 * such a connection meets are the rules for connections.
 */
#include "bpf/connection.bpf.h"
#include "bpf/http.bpf.h"
#include "bpf/request.bpf.h"

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

/* Counted once for a connection, under the rule that asked first. One that is silent stays so. */
static always void give_up(struct chaos_sock *s, struct chaos_http *h, __u32 reason)
{
	const __u32 rule = s->verdict.http == CHAOS_HTTP_GOVERNS ? s->verdict.rule : s->verdict.http - 1u;
	struct chaos_stats *stats = stats_of(rule);
	struct chaos_rule *r = rule_of(rule);

	h->given_up = 1;
	s->begins = CHAOS_BEGINS_UNREAD;
	if (r && stats)
		settle(r, stats, CHAOS_FAULT_COUNT, reason);
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

/* Its answer is to be another one: what arrives from here on is looked at. */
static always void expect_answer(struct chaos_sock *s, struct chaos_http *h, const struct packet *p)
{
	const struct chaos_rule *r = rule_of(h->request.rule);

	if (!r || !(r->faults & CHAOS_ANSWERS))
		return;
	h->answer.from = p->ack;
	h->answer.end = p->ack;
	h->answer.head = h->reader.found[0] >> CHAOS_HTTP_HEAD & 1;
	h->answer.state = CHAOS_ANSWER_WAITS;
	s->answer = 1;
}

/* All is known of the request: which rule is it for? */
static always void decide_request(struct flow *f, struct chaos_sock *s, struct chaos_http *h,
				  const struct chaos_http_table *t, const struct packet *p)
{
	const __u32 depth = enter_bench(), set = knobs.http_sets + bpf_get_smp_processor_id() * BENCHES + depth;

	h->reader.ready = 0;
	s->begins = CHAOS_BEGINS_HERE;
	s->answer = 0;
	refresh_plain(s, h, f);
	h->request.rule = CHAOS_NO_RULE;
	if (depth < BENCHES && fill_set(set, t, http_conditions(&h->reader, t), h->plain.rule)) {
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
	h->request.request = h->reader.begun;
	s->verdict = h->request;
	if (knobs.answers)
		expect_answer(s, h, p);
}

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
	if (h->reader.begun == begun)
		return;
	/* A request that begins before anything was heard since the one before it did. */
	if (h->synced && begun && h->asked_ack == p->ack)
		h->reader.pipelined = 1;
	h->asked_ack = p->ack;
}

static always void read_leaving(struct __sk_buff *skb, struct flow *f, struct chaos_sock *s, struct chaos_http *h,
				const struct packet *p)
{
	const struct chaos_http_table *t = http_table();
	const bool joined = h->synced;
	__s32 place;

	if (!t || !p->payload || h->given_up)
		return;
	learn_stream(skb, &s->stream, p);
	if (s->stream == CHAOS_STREAM_TLS || s->stream == CHAOS_STREAM_HTTP2) {
		give_up(s, h, CHAOS_SKIP_ENCRYPTED);
		return;
	}
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
	if (h->reader.ready)
		decide_request(f, s, h, t, p);
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
