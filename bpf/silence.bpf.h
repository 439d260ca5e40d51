/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Connections that are there and say nothing any more. Packets are lost and none is made up, so TCP itself goes on where
 * it stood once the fault has ended: each end sends again what was lost.
 *
 *	accept-silence    payload never arrives, in either direction; the handshake, acknowledgements, and the client's end do
 *	tls-stall         the same from the first record of a TLS handshake on, in the direction of the server
 *
 *	half-open         nothing at all any more, after so long without a packet
 *
 * Decided once for a connection: when it first says something, begins its TLS handshake, has its first packet after the pause.
 */
#ifndef SILENCE_BPF_H
#define SILENCE_BPF_H

#include "bpf/damage.bpf.h"

/* Claims a decision that is made once for a connection: true for exactly one caller. */
static always bool claim(struct chaos_sock *s, struct chaos_verdict *v, __u16 fault_bit)
{
	bool first;

	/* chaos_flows has no locks (5.10 has none in LRU maps): there the socket's own must do. */
	bpf_spin_lock(&s->lock);
	first = !(v->decided & fault_bit);
	v->decided |= fault_bit;
	bpf_spin_unlock(&s->lock);
	return first;
}

static always void set_inject(struct chaos_sock *s, struct chaos_verdict *v, __u16 fault_bit)
{
	bpf_spin_lock(&s->lock);
	v->inject |= fault_bit;
	bpf_spin_unlock(&s->lock);
}

/* Decides a fault once for a connection, or for the present request: true for the packet with which it begins. */
static __noinline __attribute__((unused)) bool decide_once(struct chaos_sock *s, struct chaos_verdict *v,
							   const struct flow *f, __u32 fault, bool possible)
{
	const __u16 bit = 1 << fault;
	struct chaos_stats *stats;
	struct chaos_rule *r;
	__u64 unit;

	if (v->decided & bit || !claim(s, v, bit))
		return false;
	stats = stats_of(v->rule);
	r = rule_of(v->rule);
	if (!stats || !r)
		return false;
	unit = throw(r->seed, v->connection, r->per == CHAOS_PER_REQUEST ? v->request : 0);
	if (!decide_here(v->rule, r, stats, fault, unit, possible, true))
		return false;
	set_inject(s, v, bit);
	tell(v->rule, f, &s->owner, v, fault, 0, 0);
	return true;
}

/*
 * A connection that was opened under the rule is silent from its first byte on, a greeting of the server included. Of an
 * older one the present reply still arrives: it is silent from the next thing on that its client says.
 *
 * A client that gives up can close: its FIN and RST without payload pass. TCP hands a FIN to the other end's application
 * only after the bytes before it, a RST at once. A server's FIN: see gives_up_waiting().
 */
static always bool accept_silence(const struct flow *f, const struct packet *p, struct chaos_sock *s,
				  struct chaos_verdict *v, bool leaves)
{
	if (!p->payload || p->tcp_flags & TCP_RST)
		return false;
	if (v->inject & 1 << CHAOS_ACCEPT_SILENCE)
		return true;
	if (!v->fresh && direction(s->side, leaves) != CHAOS_REQUEST)
		return false;
	return decide_once(s, v, f, CHAOS_ACCEPT_SILENCE, true);
}

#define HELLO_HEAD      10 /* bytes of a ClientHello that tell it from anything else */
#define UPGRADE_PACKETS 4  /* in which a TLS handshake is looked for after a request for one */

/* A handshake record that holds a ClientHello of at most 64 KiB for TLS 1.0 or later, or the very beginning of one. */
static always bool is_client_hello(const __u8 *head)
{
	const __u32 record = head[3] << 8 | head[4];

	if (head[0] != TLS_HANDSHAKE || head[1] != 3 || head[5] != 1)
		return false;
	return (record < HELLO_HEAD - 5 && record) || (head[6] == 0 && head[9] == 3);
}

/*
 * Does a client ask here to go on in TLS? PostgreSQL's SSLRequest and GSSENCRequest (a number alone), MySQL's (a login
 * packet of 32 bytes that ends before the name, with the flag for TLS), and a CONNECT to an HTTP proxy.
 */
static always bool asks_for_tls(const __u8 *head, __u32 payload)
{
	if (payload == 8 && head[0] == 0 && head[3] == 8 && head[4] == 0x04 && head[5] == 0xd2 && head[6] == 0x16)
		return head[7] == 0x2f || head[7] == 0x30;
	if (payload == 36 && head[0] == 32 && head[1] == 0 && head[2] == 0)
		return head[5] & 0x08;
	return head[0] == 'C' && head[1] == 'O' && head[2] == 'N' && head[3] == 'N' && head[4] == 'E' && head[7] == ' ';
}

/*
 * The first payload of a client tells TLS from the rest; after a request for TLS the next ones. What is no handshake then,
 * or is in the middle of one, is never looked at again and counts for nothing.
 */
static __noinline __attribute__((unused)) bool begins_tls(struct __sk_buff *skb, const struct packet *p,
							  struct chaos_verdict *v)
{
	__u8 head[HELLO_HEAD] = {};

	if (p->payload >= 8 && load_payload(skb, p->payload_offset, head, p->payload < HELLO_HEAD ? 8 : HELLO_HEAD)) {
		if (is_client_hello(head))
			return true;
		if (asks_for_tls(head, p->payload)) {
			v->upgrade = UPGRADE_PACKETS;
			return false;
		}
	}
	if (v->upgrade)
		v->upgrade--;
	if (!v->upgrade)
		v->decided |= 1 << CHAOS_TLS_STALL;
	return false;
}

static always bool tls_stall(struct __sk_buff *skb, const struct flow *f, const struct packet *p, struct chaos_sock *s,
			     struct chaos_verdict *v, bool leaves)
{
	const __u16 bit = 1 << CHAOS_TLS_STALL;

	if (!p->payload || p->tcp_flags & TCP_RST || direction(s->side, leaves) != CHAOS_REQUEST)
		return false;
	if (v->decided & bit)
		return v->inject & bit;
	/* A rule for a host name knows that it is meant when the ClientHello is through: its last segment is lost. */
	return (s->in_hello || begins_tls(skb, p, v)) && decide_once(s, v, f, CHAOS_TLS_STALL, true);
}

/*
 * Something between the two ends, a NAT or a firewall, has forgotten the connection: no packet comes through any more,
 * whichever end it is from. A handshake that waits for its answer is no connection yet.
 */
static always bool half_open(const struct flow *f, const struct packet *p, struct chaos_sock *s,
			     struct chaos_verdict *v, const struct chaos_rule *r)
{
	__u64 now = now_ns(), last = v->last_packet_ns;

	v->last_packet_ns = now;
	if (v->inject & 1 << CHAOS_HALF_OPEN)
		return r->idle_how != CHAOS_BREAK_RESET || !(p->tcp_flags & TCP_RST);
	if (!last || now < last || now - last < r->idle_ns || p->tcp_flags & TCP_SYN)
		return false;
	return decide_once(s, v, f, CHAOS_HALF_OPEN, true);
}

/*
 * A server to which nothing has been said closes after some seconds (llama-server after 5, nginx after 60). That would be an
 * answer, and the client would not hang: the FIN is lost as long as the client has not closed. Whether it has is told
 * by the state of the socket that is here; a server does not know, since the client's FIN is behind what was lost.
 */
static always bool gives_up_waiting(struct __sk_buff *skb, const struct packet *p, const struct chaos_sock *s,
				    const struct chaos_verdict *v, bool leaves)
{
	struct bpf_sock *sk = skb->sk;

	if (p->payload || !(p->tcp_flags & TCP_FIN) || direction(s->side, leaves) != CHAOS_RESPONSE ||
	    !(v->inject & (1 << CHAOS_ACCEPT_SILENCE | 1 << CHAOS_TLS_STALL)))
		return false;
	sk = sk ? bpf_sk_fullsock(sk) : NULL;
	return sk && sk->state == (s->side == CHAOS_SIDE_SERVER ? BPF_TCP_FIN_WAIT1 : BPF_TCP_ESTABLISHED);
}

/* Is this packet of a TCP connection lost to silence? */
static always bool silences(struct __sk_buff *skb, const struct flow *f, const struct packet *p, struct chaos_sock *s,
			    struct chaos_verdict *v, const struct chaos_rule *r, bool leaves)
{
	if (does(r, CHAOS_HALF_OPEN))
		return half_open(f, p, s, v, r);
	if (gives_up_waiting(skb, p, s, v, leaves))
		return true;
	if (does(r, CHAOS_TLS_STALL))
		return tls_stall(skb, f, p, s, v, leaves);
	if (!does(r, CHAOS_ACCEPT_SILENCE))
		return false;
	if ((p->tcp_flags & (TCP_SYN | TCP_ACK)) == TCP_SYN)
		v->fresh = 1;
	return accept_silence(f, p, s, v, leaves);
}

#endif
