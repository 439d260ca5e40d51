/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * break-after, for what leaves: responses at the server, requests at the client. In tc on the device, where a packet can be
 * cut, and not in the socket hook, which has marked what may go beyond the place.
 *
 * A large segment is cut into packets behind us, by the device. Ended early in the middle it would be one packet, too large
 * for most devices: it is lost as a whole instead, and TCP sends it again, one packet first.
 */
#ifndef BREAK_LEAVING_BPF_H
#define BREAK_LEAVING_BPF_H

#include "bpf/turn.bpf.h"

enum cut_answer {
	CUT_GO_ON,
	CUT_LOSE,
	CUT_SEND_BACK, /* it has become a reset for the sender */
};

static always bool is_whole_on_lo(const struct __sk_buff *skb)
{
	return skb->ifindex == LOOPBACK_IFINDEX && !skb->gso_size;
}

/*
 * Keeps so many bytes of payload. The checksum of what leaves is that of addresses and length; the device adds the rest. On
 * lo nobody does, and a packet may be larger than the kernel lets us shorten: there the length in the header will do.
 */
static always bool trim(struct __sk_buff *skb, __u32 network, struct packet *p, __u32 keep)
{
	const __u32 header = p->payload_offset - p->transport;
	const __u32 checksum = network + p->transport + offsetof(struct tcp_header, checksum);
	__be32 from = bpf_htonl(header + p->payload), to = bpf_htonl(header + keep);
	__s64 sum = bpf_csum_diff(&from, sizeof(from), &to, sizeof(to), 0);

	if (keep >= p->payload)
		return true;
	p->payload = keep;
	return sum >= 0 && set_ip_length(skb, network, p, p->payload_offset + keep) &&
	       !bpf_l4_csum_replace(skb, checksum, 0, (__u32)sum, BPF_F_PSEUDO_HDR) &&
	       (is_whole_on_lo(skb) || !bpf_skb_change_tail(skb, network + p->payload_offset + keep, 0));
}

/* A segment without payload that stands where the stream stops. */
static always bool stand_at(struct __sk_buff *skb, __u32 network, struct packet *p, __u32 at, __u8 flags)
{
	const __u32 transport = network + p->transport;
	const __u32 was = p->seq;

	p->seq = at;
	p->tcp_flags = flags;
	return trim(skb, network, p, 0) && set_flags(skb, transport, flags) &&
	       store_tcp(skb, transport, offsetof(struct tcp_header, seq), bpf_htonl(was), bpf_htonl(at), 4);
}

/* The part that is kept. With a reset it leaves as a copy, and the segment becomes the reset behind it. */
static always bool send_kept(struct __sk_buff *skb, __u32 network, struct packet *p, __u32 keep, const struct cut *cut)
{
	const __u8 flags = p->tcp_flags & ~(TCP_FIN | TCP_PSH);
	const bool one_packet = !skb->gso_size || keep <= skb->gso_size;

	if (keep < p->payload && (!one_packet || !trim(skb, network, p, keep)))
		return false;
	if (!set_flags(skb, network + p->transport, cut->how == CHAOS_BREAK_CLOSE ? flags | TCP_FIN : flags))
		return false;
	if (cut->told)
		send_copy(skb);
	return true;
}

/*
 * The receiver is told as soon as all before has arrived. The sender is when all that counts has: it would send nothing again
 * of what was lost on the way. If the receiver has taken the reset without a word, it answers what is sent again by another.
 */
static always int cut_segment(struct __sk_buff *skb, __u32 network, struct packet *p, const struct cut *cut)
{
	const __u32 keep = after(cut->at, p->seq) ? cut->at - p->seq : 0;
	const __u8 end = cut->how == CHAOS_BREAK_CLOSE ? TCP_FIN | TCP_ACK : TCP_RST | TCP_ACK;

	if (keep > p->payload)
		return CUT_GO_ON;
	if (keep && !send_kept(skb, network, p, keep, cut))
		return CUT_LOSE;
	if (keep && !cut->told)
		return CUT_GO_ON;
	if (!(cut->told || cut->how == CHAOS_BREAK_CLOSE) || !stand_at(skb, network, p, cut->at, end))
		return CUT_LOSE;
	if (keep || !cut->told)
		return CUT_GO_ON;
	send_copy(skb);
	return turn_into_reset(skb, network, p) ? CUT_SEND_BACK : CUT_LOSE;
}

/* A marked packet: its rule was found by the socket hook. */
static __noinline __attribute__((unused)) int break_leaving(struct __sk_buff *skb)
{
	const __s32 network = network_offset(skb);
	struct packet p = {};
	struct flow f = {};
	const struct chaos_rule *r;
	struct chaos_stats *stats;
	struct chaos_sock *s;
	struct bpf_sock *sk;
	struct cut cut;

	s = state_of_packet(skb, &sk);
	if (!s || network < 0 || !parse(skb, &p, network) || s->verdict.generation != knobs.generation)
		return CUT_GO_ON;
	r = rule_of(s->verdict.rule);
	stats = stats_of(s->verdict.rule);
	if (!r || !stats)
		return CUT_GO_ON;
	f.side = s->side;
	f.protocol = CHAOS_TCP;
	flow_of_packet(&f, &p, true);
	if (!cuts(skb, &f, &p, s, &s->verdict, r, stats))
		return CUT_GO_ON;
	if (!(s->verdict.cut & CUT_DONE)) /* read before its turn */
		return CUT_LOSE;
	cut.at = s->cut_at;
	cut.how = r->break_how;
	cut.told = may_tell(&cut, &p, s->cut_acked);
	return cut_segment(skb, network, &p, &cut);
}

#endif
