/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * break-after: a response, or a request, that stops in the middle, at a byte.
 *
 * Where it stops is a sequence number (`cut_at`), not a count of packets: a segment that comes twice, or out of order, is
 * what it is. Up to it everything arrives. The segment that goes beyond is cut there by the length in its IP header, to
 * which the receiver trims it, and everything after it becomes a reset, the end of the stream, or nothing. The sender
 * is told by the receiver's own stack, and, when the rule ends, sends again what was withheld. What leaves is cut by
 * break_leaving.bpf.h.
 *
 *	socket hook   a segment leaves: it, or its acknowledgement, tells the first byte that counts (count_from)
 *	tc            a segment comes by: is it beyond? (cuts), then what it becomes (cut_short)
 */
#ifndef BREAK_BPF_H
#define BREAK_BPF_H

#include "bpf/name.bpf.h"
#include "bpf/silence.bpf.h"

/* chaos_verdict.cut */
#define CUT_COUNTS 1 /* cut_from is the first byte of the response */
#define CUT_DONE   2 /* cut_at is where it stops */

/* Does it leave, what a rule with break-after ends early? The response, unless the rule is about requests. */
static always bool cut_leaves(const struct chaos_rule *r, __u8 side)
{
	return direction(side, true) == (r->directions & CHAOS_RESPONSE ? CHAOS_RESPONSE : CHAOS_REQUEST);
}

/* From this byte on it counts. */
static always void count_on(struct chaos_sock *s, struct chaos_verdict *v, const struct chaos_rule *r, __u32 first)
{
	v->cut = CUT_COUNTS;
	s->cut_from = s->cut_high = first;
	s->cut_begun_ns = 0;
	s->cut_chunks = 0;
	s->cut_line = 0;
	if (r->per == CHAOS_PER_REQUEST)
		v->decided &= ~(1 << CHAOS_BREAK_AFTER);
}

/* The first byte that was never sent. What is sent again was said before the rule met the connection. */
static always __u32 first_news(struct __sk_buff *skb, const struct packet *p, struct chaos_sock *s)
{
	struct bpf_sock *sk = skb->sk;
	volatile struct bpf_tcp_sock *tcp;

	if (!sk)
		return p->seq;
	tcp = bpf_tcp_sock(sk);
	if (!tcp)
		return p->seq;
	s->cut_acked = tcp->snd_una;
	return tcp->snd_nxt;
}

/* What may leave beyond the place where it stops is shown to tc. */
static always void count_leaving(struct __sk_buff *skb, const struct packet *p, struct chaos_sock *s,
				 struct chaos_verdict *v, const struct chaos_rule *r, bool anew)
{
	if (anew && !(v->cut & CUT_DONE))
		count_on(s, v, r, r->per == CHAOS_PER_REQUEST ? p->seq : first_news(skb, p, s));
	if (v->cut && (p->payload || p->tcp_flags & TCP_FIN))
		add_mark(skb, MARK_BREAK);
}

/*
 * In the socket hook, for what leaves: `burst`, and with it a request or a response begins. Of what arrives the first
 * byte is the one that is acknowledged; but for requests at a server, of which nothing is said before they come.
 */
static always void count_from(struct __sk_buff *skb, const struct packet *p, struct chaos_sock *s,
			      struct chaos_verdict *v, const struct chaos_rule *r, bool burst)
{
	const bool anew = r->per == CHAOS_PER_REQUEST ? burst : !(v->cut & CUT_COUNTS);

	if (!(p->tcp_flags & TCP_ACK))
		return;
	if (cut_leaves(r, s->side)) {
		if (knobs.cuts_leaving && device_flags(&s->owner, skb->ifindex) & CHAOS_DEVICE_EGRESS)
			count_leaving(skb, p, s, v, r, anew);
		return;
	}
	if (v->cut & CUT_DONE)
		return;
	s->cut_acked = p->ack;
	if (s->side == CHAOS_SIDE_CLIENT && anew)
		count_on(s, v, r, p->ack);
	else if (s->side == CHAOS_SIDE_SERVER && burst && r->per == CHAOS_PER_REQUEST)
		v->cut = 0; /* the next thing that comes is another request */
}

/* In the socket hook, for what arrives: what has the receiver got of what leaves? */
static always void hear_acknowledged(const struct packet *p, struct chaos_sock *s, const struct chaos_rule *r)
{
	if (p->tcp_flags & TCP_ACK && cut_leaves(r, s->side))
		s->cut_acked = p->ack;
}

/* `time`: the response stops at the first segment with news after so long; what came before has come. */
static always bool time_is_over(const struct packet *p, struct chaos_sock *s, const struct chaos_rule *r)
{
	const __u32 end = p->seq + p->payload;
	const __u64 now = now_ns();

	if (!after(end, s->cut_high))
		return false;
	if (!s->cut_begun_ns)
		s->cut_begun_ns = now;
	if (now - s->cut_begun_ns >= r->break_ns)
		return true;
	s->cut_high = end;
	return false;
}

/* `chunks`: reads on from where the segment before ended. How many of the bytes belong to the response, 0: all. */
static always __u32 read_chunks(struct __sk_buff *skb, struct chaos_sock *s, const struct chaos_rule *r, __u32 offset,
				__u32 length)
{
	const __u32 number = enter_bench();
	struct bench *b = bench_of(number);
	__u32 kept = 0;

	if (b) {
		b->chunk_state = s->cut_line;
		b->chunks_left = r->break_chunks - s->cut_chunks;
		kept = find_chunk_end(skb, number, offset, length);
		s->cut_line = b->chunk_state;
		s->cut_chunks = r->break_chunks - b->chunks_left;
	}
	leave_bench();
	return kept;
}

/*
 * Is the last of its chunks over in this segment, or was it before? A segment that came too early cannot be read yet: it is
 * lost, and sent again in its turn. Where the receiver has got what we have not (by a device without our program), it is we
 * who are behind: those chunks do not count.
 */
static always bool chunks_are_over(struct __sk_buff *skb, const struct packet *p, struct chaos_sock *s,
				   const struct chaos_rule *r, bool *early)
{
	const __u32 end = p->seq + p->payload;
	const bool missed = after(p->seq, s->cut_high) && !after(p->seq, s->cut_acked);
	__u32 kept, known;

	if (missed || s->stream == CHAOS_STREAM_UNKNOWN)
		s->cut_high = missed ? p->seq : end;
	*early = after(p->seq, s->cut_high);
	if (*early || !after(end, s->cut_high))
		return false;
	if (s->cut_chunks < r->break_chunks) {
		known = s->cut_high - p->seq;
		kept = read_chunks(skb, s, r, network_offset(skb) + p->payload_offset + known, p->payload - known);
		s->cut_high = kept ? s->cut_high + kept : end;
	}
	return after(end, s->cut_high);
}

/* What is encrypted or framed has no chunks that could be counted: decided once, and skipped. */
static always bool can_count_chunks(const struct chaos_sock *s)
{
	return s->stream == CHAOS_STREAM_PLAIN || s->stream == CHAOS_STREAM_UNKNOWN;
}

/* Does this segment go beyond the place where the response stops? Decided when the first one does. */
static always bool cuts(struct __sk_buff *skb, const struct flow *f, const struct packet *p, struct chaos_sock *s,
			struct chaos_verdict *v, const struct chaos_rule *r, struct chaos_stats *stats)
{
	const __u32 end = p->seq + p->payload;
	__u32 at = s->cut_from + r->break_bytes;
	bool early = false, possible = true;

	if (!does(r, CHAOS_BREAK_AFTER))
		return false;
	if (v->cut & CUT_DONE) {
		if (!after(end + !!(p->tcp_flags & TCP_FIN), s->cut_at))
			return false;
		count(&stats->packets);
		return true;
	}
	if (!(v->cut & CUT_COUNTS) || !p->payload)
		return false;
	if (r->break_ns) {
		if (!time_is_over(p, s, r))
			return false;
		at = s->cut_high;
	}
	if (knobs.chunks && r->break_chunks && !(v->decided & 1 << CHAOS_BREAK_AFTER)) {
		possible = can_count_chunks(s);
		if (possible && !chunks_are_over(skb, p, s, r, &early))
			return early;
		at = s->cut_high;
	}
	if (!after(end, at) || !decide_once(s, v, f, CHAOS_BREAK_AFTER, possible))
		return false;
	s->cut_at = at;
	v->cut |= CUT_DONE;
	count(&stats->packets);
	return true;
}

/* ---- the checksum of what is kept ------------------------------------------------------------------------------------ */

#define CHUNK      512 /* bpf_csum_diff takes 512 at most */
#define MAX_CHUNKS 130

struct cut_chunk {
	__u8 bytes[2 * CHUNK];
};
MAP(BPF_MAP_TYPE_PERCPU_ARRAY, chaos_chunk, __u32, struct cut_chunk, 1);

/*
 * The Internet checksum's sum over `size` bytes from `offset` on, without the first byte where that is one to be kept
 * (sums go by pairs of bytes). Negative when it cannot be read. A global function: its loop, looked at anew for each path
 * that leads here, goes beyond a million instructions on kernels before 6.12.
 */
__noinline __attribute__((weak)) __s64 chaos_sum_of(struct __sk_buff *skb, __u32 offset, __u32 size, __u32 skip_first)
{
	struct cut_chunk *chunk;
	__u32 zero = 0;
	__s64 sum = 0;

	chunk = bpf_map_lookup_elem(&chaos_chunk, &zero);
	if (!chunk || !(knobs.faults & (1 << CHAOS_BREAK_AFTER | 1 << CHAOS_TOKENS | CHAOS_ANSWERS)))
		return -1;
	for (__u32 i = 0; i < MAX_CHUNKS && size; i++) {
		__u64 n = (size < CHUNK ? size : CHUNK) - 1;

		/* The verifier has to see the bounds of this register, from 1 on, whatever clang compared. */
		asm volatile("" : "+r"(n));
		n = (n & (CHUNK - 1)) + 1;
		*(__u32 *)(chunk->bytes + (n & (2 * CHUNK - 4))) = 0;
		if (bpf_skb_load_bytes(skb, offset, chunk->bytes, n))
			return -1;
		if (skip_first && !i)
			chunk->bytes[0] = 0;
		sum = bpf_csum_diff(NULL, 0, (void *)chunk->bytes, (n + 3) & (2 * CHUNK - 4), sum);
		if (sum < 0)
			return -1;
		offset += n;
		size -= n;
	}
	return size ? -1 : (__u32)sum;
}

/* ---- what a segment becomes ------------------------------------------------------------------------------------------- */

static always bool set_flags(struct __sk_buff *skb, __u32 transport, __u8 flags)
{
	const __u32 field = offsetof(struct tcp_header, length);
	__u16 word, from, to;

	if (bpf_skb_load_bytes(skb, transport + field, &word, sizeof(word)))
		return false;
	from = word;
	to = (word & bpf_htons(0xff00)) | bpf_htons(flags);
	return !bpf_l4_csum_replace(skb, transport + offsetof(struct tcp_header, checksum), from, to, sizeof(to)) &&
	       !bpf_skb_store_bytes(skb, transport + field, &to, sizeof(to), 0);
}

static always bool store_tcp(struct __sk_buff *skb, __u32 transport, __u32 field, __u32 from, __u32 to, __u32 size)
{
	const __u32 checksum = transport + offsetof(struct tcp_header, checksum);

	return !bpf_l4_csum_replace(skb, checksum, from, to, size) &&
	       !bpf_skb_store_bytes(skb, transport + field, &to, size, 0);
}

/* The length in the IP header; false where there is none that says so (BIG TCP over IPv6), or it has no room. */
static always bool set_ip_length(struct __sk_buff *skb, __u32 network, const struct packet *p, __u32 length)
{
	const __u32 field = network + (p->ipv6 ? offsetof(struct ipv6_header, payload_length)
					       : offsetof(struct ipv4_header, total_length));
	__u16 from, to;

	if (p->ipv6)
		length -= sizeof(struct ipv6_header);
	if (length > 0xffff || bpf_skb_load_bytes(skb, field, &from, sizeof(from)))
		return false;
	to = bpf_htons(length);
	if (p->ipv6)
		return from && !bpf_skb_store_bytes(skb, field, &to, sizeof(to), BPF_F_RECOMPUTE_CSUM);
	return !bpf_l3_csum_replace(skb, network + offsetof(struct ipv4_header, checksum), from, to, sizeof(to)) &&
	       !bpf_skb_store_bytes(skb, field, &to, sizeof(to), 0);
}

/*
 * Keeps so many bytes of payload, with a checksum that holds also where the receiver looks at it (no offload): the bytes
 * that go leave the sum, and so does the difference in the length that TCP's checksum covers.
 */
static always bool keep_payload(struct __sk_buff *skb, __u32 network, const struct packet *p, __u32 keep)
{
	const __u32 even = keep & ~1U, header = p->payload_offset - p->transport;
	const __u32 checksum = network + p->transport + offsetof(struct tcp_header, checksum);
	__be32 from = bpf_htonl(header + p->payload), to = bpf_htonl(header + keep);
	__s64 sum;

	sum = chaos_sum_of(skb, network + p->payload_offset + even, p->payload - even, keep & 1);
	if (sum < 0)
		return false;
	sum = bpf_csum_diff(&from, sizeof(from), &to, sizeof(to), ~(__u32)sum);
	return sum >= 0 && set_ip_length(skb, network, p, p->payload_offset + keep) &&
	       !bpf_l4_csum_replace(skb, checksum, 0, (__u32)sum, BPF_F_PSEUDO_HDR);
}

/* A copy of what arrives comes in by the same device. On lo it is sent: let in, it would lose its route and 127.0.0.1 be a martian. */
static always void come_again(struct __sk_buff *skb)
{
	bpf_clone_redirect(skb, skb->ifindex, skb->ifindex == LOOPBACK_IFINDEX ? 0 : BPF_F_INGRESS);
}

/*
 * A reset right behind the segment that is cut: the segment itself as a copy, with the number of the first byte that is
 * withheld. It comes in after this one, and tc lets a RST by.
 */
static always void reset_behind(struct __sk_buff *skb, __u32 transport, const struct packet *p, __u32 at)
{
	const __u32 field = offsetof(struct tcp_header, seq);

	if (!set_flags(skb, transport, TCP_RST | TCP_ACK) ||
	    !store_tcp(skb, transport, field, bpf_htonl(p->seq), bpf_htonl(at), 4))
		return;
	come_again(skb);
	store_tcp(skb, transport, field, bpf_htonl(at), bpf_htonl(p->seq), 4);
}

struct cut {
	__u32 at;
	__u8 how;  /* enum chaos_break_how */
	__u8 told; /* a reset tells the receiver */
};

/*
 * May the receiver be told by a reset right behind what is kept? Linux takes one also at the end of what it has got out of
 * turn (the highest SACK, net/ipv4/tcp_input.c): what is missing before that would never come. Where `received` does not
 * go so far, the sender sends again what was lost, and meets us anew.
 */
static always bool may_tell(const struct cut *cut, const struct packet *p, __u32 received)
{
	return cut->how == CHAOS_BREAK_RESET && !after(after(cut->at, p->seq) ? p->seq : cut->at, received);
}

/* False: the segment is to be lost. */
static always bool cut_short(struct __sk_buff *skb, __u32 network, const struct packet *p, const struct cut *cut)
{
	const __u32 transport = network + p->transport;
	const __u32 keep = after(cut->at, p->seq) ? cut->at - p->seq : 0;
	const __u8 flags = p->tcp_flags & ~(TCP_FIN | TCP_PSH);
	__u32 seq = p->seq;

	if (keep > p->payload)
		return true;
	if (!keep) {
		if (cut->how == CHAOS_BREAK_STALL || (cut->how == CHAOS_BREAK_RESET && !cut->told))
			return false;
		seq = cut->at;
		if (!store_tcp(skb, transport, offsetof(struct tcp_header, seq), bpf_htonl(p->seq), bpf_htonl(seq), 4))
			return false;
		if (cut->how == CHAOS_BREAK_RESET)
			return set_flags(skb, transport, TCP_RST | TCP_ACK);
	} else if (cut->told) {
		reset_behind(skb, transport, p, cut->at);
	}
	return set_flags(skb, transport, cut->how == CHAOS_BREAK_CLOSE ? flags | TCP_FIN : flags) &&
	       keep_payload(skb, network, p, keep);
}

#endif
