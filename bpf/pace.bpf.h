/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A connection that is slow all along: each packet is stamped with the time at which it would leave a slow line, and fq
 * holds it until then.
 *
 *	rate      a packet leaves when its last byte is through
 *	tokens    a packet leaves when the last event of a stream that begins in it is due
 *
 * Decided once for a connection. What leaves waits on its own device: TCP sees its packets wait in the host's queue, sends
 * no more than a few at a time, and takes none for lost. What arrives waits in an ifb, see ifb.bpf.h.
 */
#ifndef PACE_BPF_H
#define PACE_BPF_H

#include "bpf/name.bpf.h"
#include "bpf/silence.bpf.h"

#define SECOND_NS    1000000000ULL
#define EVENT_CHUNK  16 /* bytes looked at together: stack is scarce */
#define EVENT_PIECE  1024
#define EVENT_PIECES 65
#define EVENT_DATA   0x646174613aULL /* "data:", its last byte lowest */
#define EVENT_MASK   0xffffffffffULL

struct event_count {
	__u64 window; /* the last five bytes */
	__u64 events;
};

static always void count_in(struct event_count *c, const __u8 *text)
{
#pragma clang loop unroll(full)
	for (int i = 0; i < EVENT_CHUNK; i++) {
		__u64 differs;

		c->window = (c->window << 8 | text[i]) & EVENT_MASK;
		differs = c->window ^ EVENT_DATA;
		asm volatile("" : "+r"(differs)); /* else a branch, of which the verifier would follow each way */
		c->events += (differs - 1) >> 63;
	}
}

/*
 * Events of a stream (SSE) that begin in a piece of a payload, by their "data:"; above them, in bits 16 to 55, its last
 * bytes, for the next piece. Negative when it cannot be read. A function of its own for the verifier, which then looks at
 * it once.
 */
__noinline __attribute__((weak)) __s64 chaos_count_piece(struct __sk_buff *skb, __u32 offset, __u32 size, __u64 window)
{
	struct event_count c = { .window = window & EVENT_MASK };
	__u8 text[EVENT_CHUNK];
	__u64 rest;

	if (!(knobs.faults & 1 << CHAOS_TOKENS))
		return -1; /* older kernels verify global functions that nobody calls */
	for (__u32 chunk = 0; chunk < EVENT_PIECE / EVENT_CHUNK && size >= sizeof(text); chunk++) {
		if (bpf_skb_load_bytes(skb, offset, text, sizeof(text)))
			return -1;
		count_in(&c, text);
		offset += sizeof(text);
		size -= sizeof(text);
	}
	if (size && size < sizeof(text)) {
		rest = size - 1;
		asm volatile("" : "+r"(rest)); /* else its bounds, from 1 on, are lost on kernels before 6.12 */
		rest = (rest & (sizeof(text) - 1)) + 1;
		__builtin_memset(text, 0, sizeof(text));
		if (!bpf_skb_load_bytes(skb, offset, text, rest))
			count_in(&c, text);
	}
	return c.window << 16 | (c.events & 0xffff);
}

/* The same of a whole payload; one at least, so a packet that cannot be read (TLS) counts as one. */
__noinline __attribute__((weak)) int chaos_count_events(struct __sk_buff *skb, __u32 offset, __u32 size)
{
	__u32 events = 0;
	__s64 counted = 0;

	if (!(knobs.faults & 1 << CHAOS_TOKENS))
		return 1;
	for (__u32 piece = 0; piece < EVENT_PIECES && size; piece++) {
		const __u32 n = size < EVENT_PIECE ? size : EVENT_PIECE;

		counted = chaos_count_piece(skb, offset, n, (__u64)counted >> 16);
		if (counted < 0)
			break;
		events += counted & 0xffff;
		offset += n;
		size -= n;
	}
	return events ? events : 1;
}

/*
 * The same of a packet that leaves; one with several is to be split where tc can, see split_leaving.bpf.h. A function of its
 * own for its stack.
 */
__noinline __attribute__((weak)) int chaos_count_leaving(struct __sk_buff *skb, __u32 offset, __u32 size)
{
	const int events = chaos_count_events(skb, offset, size);
	struct chaos_sock *s;
	struct bpf_sock *sk;

	if (!knobs.splits || events < 2)
		return events;
	s = state_of_packet(skb, &sk);
	if (s && device_flags(&s->owner, skb->ifindex) & CHAOS_DEVICE_EGRESS)
		add_mark(skb, MARK_SPLIT);
	return events;
}

/* What so much payload of a packet has on the line: large segments are cut there, each with headers of its own. */
static always __u64 wire_bytes(const struct __sk_buff *skb, const struct packet *p, __u32 payload)
{
	const __u32 segments = skb->gso_segs;

	return payload + (segments > 1 ? segments : 1) * (__u64)p->payload_offset;
}

/* `delay` of a rule about packets that arrive: the request goes at once, and its answer waits, see ifb.bpf.h. */
static always bool holds_answer(const struct chaos_rule *r, __u8 side)
{
	return knobs.paces_arriving && does(r, CHAOS_DELAY) && !(r->directions & direction(side, true));
}

/* Has this connection been chosen for `fault`? Decides at its first payload. Tokens are what a server says. */
static always bool is_paced(struct chaos_sock *s, struct chaos_verdict *v, const struct chaos_rule *r,
			    const struct flow *f, const struct packet *p, __u32 fault, bool leaves, bool possible)
{
	if (!touches(r, fault, s->side, leaves))
		return false;
	if (fault == CHAOS_TOKENS && direction(s->side, leaves) != CHAOS_RESPONSE)
		return false;
	if (v->inject & 1 << fault)
		return true;
	return p->payload && decide_once(s, v, f, fault, possible);
}

/* When this packet leaves; the line is taken (`until_mono_ns`) until then, and for `rest_ns` more. */
static always __u64 take_line(struct chaos_sock *s, __u64 *until_mono_ns, __u64 earliest, __u64 cost_ns, __u64 rest_ns)
{
	const __u64 latest = bpf_ktime_get_ns() + CHAOS_MAX_DELAY_NS; /* beyond it fq would lose the packet */
	__u64 at;

	bpf_spin_lock(&s->lock);
	at = (*until_mono_ns > earliest ? *until_mono_ns : earliest) + cost_ns;
	if (at > latest)
		at = latest;
	*until_mono_ns = at + rest_ns;
	bpf_spin_unlock(&s->lock);
	return at;
}

/* What leaves. */
static always void pace(struct __sk_buff *skb, const struct flow *f, const struct packet *p, struct chaos_sock *s,
			struct chaos_verdict *v, const struct chaos_rule *r, struct chaos_stats *stats, bool possible)
{
	bool rate = is_paced(s, v, r, f, p, CHAOS_RATE, true, possible),
	     tokens = is_paced(s, v, r, f, p, CHAOS_TOKENS, true, possible);
	__u64 now = bpf_ktime_get_ns(), cost = 0, rest = 0, at;

	if (!rate && !tokens)
		return;
	if (!p->payload && !(p->tcp_flags & (TCP_FIN | TCP_RST))) {
		if (v->pace_until_mono_ns > now)
			skb->priority = TC_PRIO_CONTROL; /* see hold_request() */
		return;
	}
	if (rate && r->rate_bytes)
		cost = wire_bytes(skb, p, p->payload) * SECOND_NS / r->rate_bytes;
	if (tokens && p->payload) {
		cost += r->token_ns * (__u32)(chaos_count_leaving(skb, p->payload_offset, p->payload) - 1);
		rest = r->token_ns;
	}
	at = take_line(s, &v->pace_until_mono_ns, skb->tstamp > now ? skb->tstamp : now, cost, rest);
	if (at > now)
		count(&stats->packets);
	if (at > skb->tstamp)
		skb->tstamp = at;
}

#endif
