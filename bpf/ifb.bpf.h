/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Packets that arrive and are to wait: tc on their device sends them through an ifb of ours, a device that hands what it
 * sends back to where it came from, behind tc, so that nothing sees it twice. The ifb's fq holds them.
 *
 *	chaos_tc_in     finds the connection, decides, writes the time into skb->cb, and redirects
 *	chaos_tc_pick   where bpf_redirect() does not reach an ifb: the filter behind chaos_tc_in, which picks out just those
 *	                packets for an action that redirects them (mirred)
 *	chaos_tc_ifb    where the ifb sends: the time becomes the packet's stamp, which would not survive the way there
 *
 * A connection that is paced goes this way with all that has a place in its order: payload, FIN and RST.
 * Acknowledgements do not, or the named process would be slow to send as well.
 */
#ifndef IFB_BPF_H
#define IFB_BPF_H

#include "bpf/pace.bpf.h"
#include "bpf/record.bpf.h"

/* In skb->cb[0]: [1] and [2] are the time, low and high; [3] says how much of the payload goes on, 0: all. */
#define HELD 0xc4a01fb0

/* After its last stamp a packet may be late by so much: until then what follows is not let by. */
#define LINGER_NS SECOND_NS

/*
 * How many bytes of the payload have not come before. A segment that waits here is late for its sender, who sends it again:
 * that is no second token. `expected` is what the receiver waits for. A segment behind a gap is taken for new.
 */
static always __u32 news_of(const struct packet *p, struct chaos_sock *s, __u32 expected)
{
	const __u32 end = p->seq + p->payload;
	__u32 next = s->arrive_next;

	if (!s->arrive_until_mono_ns || after(expected, next))
		next = expected;
	s->arrive_next = next;
	if (after(p->seq, next))
		return p->payload;
	if (!after(end, next))
		return 0;
	s->arrive_next = end;
	return end - next;
}

/* The number of the byte that the receiver waits for. Volatile, or clang makes a choice of addresses out of it. */
static always __u32 expected_by(struct bpf_sock *sk, const struct packet *p)
{
	volatile struct bpf_tcp_sock *tcp = bpf_tcp_sock(sk);

	return tcp ? tcp->rcv_nxt : p->seq;
}

/* Events among the last `news` bytes of the payload. A TLS handshake is none: it ends when the client first asks. */
static always __u32 events_arriving(struct __sk_buff *skb, const struct packet *p, struct chaos_sock *s, __u32 news)
{
	const __u32 network = network_offset(skb);

	if (s->stream != CHAOS_STREAM_TLS)
		return chaos_count_events(skb, network + p->payload_offset + p->payload - news, news);
	return s->verdict.request || s->burst_open ? events_inside_tls(skb, network, p, s, news) : 0;
}

/*
 * How long the answer is held that begins with this packet: an acknowledgement of the open request tells it from what is
 * left of an earlier one. A connection that is closed instead of answered is answered, too.
 */
static always __u64 answer_hold(const struct packet *p, const struct chaos_sock *s)
{
	if (!s->verdict.answer_delay_ns || !after(p->ack, s->burst_seq))
		return 0;
	return p->payload || p->tcp_flags & TCP_FIN ? s->verdict.answer_delay_ns : 0;
}

/* When a packet goes on that has a place in its connection's order; 0: at once, on its own way. */
static always __u64 pace_arriving(struct __sk_buff *skb, const struct flow *f, const struct packet *p,
				  struct chaos_sock *s, __u32 expected, const struct chaos_rule *r,
				  struct chaos_stats *stats, bool possible)
{
	struct chaos_verdict *v = &s->verdict;
	__u64 now = bpf_ktime_get_ns(), hold = 0, cost = 0, rest = 0, at;
	bool rate = false, tokens = false;
	__u32 news, events = 0;

	if (r && stats) {
		hold = knobs.faults & 1 << CHAOS_DELAY ? answer_hold(p, s) : 0;
		rate = is_paced(s, v, r, f, p, CHAOS_RATE, false, possible);
		tokens = is_paced(s, v, r, f, p, CHAOS_TOKENS, false, possible);
	}
	if (!hold && !rate && !tokens && s->arrive_until_mono_ns + LINGER_NS <= now)
		return 0;
	news = news_of(p, s, expected);
	if (hold && (news || p->tcp_flags & TCP_FIN))
		v->answer_delay_ns = 0;
	else
		hold = 0; /* an earlier answer that came again */
	if (rate && news && r->rate_bytes)
		cost = wire_bytes(skb, p, news) * SECOND_NS / r->rate_bytes;
	if (tokens && news)
		events = events_arriving(skb, p, s, news);
	if (knobs.splits_arriving)
		say_part(events > 1 && !rate, s->stream == CHAOS_STREAM_TLS ? 0 : news, events ? r->token_ns : 0);
	if (events) {
		cost += r->token_ns * (events - 1);
		rest = r->token_ns;
	}
	at = take_line(s, &s->arrive_until_mono_ns, now + hold, cost, rest);
	if (at > now && stats)
		count(&stats->packets);
	return at;
}

static always void mark_held(struct __sk_buff *skb, __u64 until_mono_ns, __u32 keep)
{
	skb->cb[0] = HELD;
	skb->cb[1] = until_mono_ns;
	skb->cb[2] = until_mono_ns >> 32;
	skb->cb[3] = keep;
}

/* The verdict for a packet that waits. */
static always int wait_in_ifb(struct __sk_buff *skb, __u32 ifb, __u64 until_mono_ns)
{
	mark_held(skb, until_mono_ns, 0);
	return knobs.ifb_redirect ? bpf_redirect(ifb, 0) : TC_ACT_UNSPEC;
}

#endif
