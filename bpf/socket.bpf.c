// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every packet of every local socket, in every network namespace, seen once where it leaves its socket and once where
 * it arrives (cgroup_skb at the root cgroup).
 *
 *	known flow that no rule names?     one look-up, out
 *	an answer of DNS?                  it teaches addresses, where rules name hosts
 *	whose is it, which rule?           kept with the socket (verdict), or in chaos_flows for sockets with many peers
 *	drop, and the kinds of silence     leaving: marked, tc loses it; arriving: never reaches the socket
 *	reset                              leaving: marked, tc answers it; arriving: device.bpf.c has seen it before us; inside the
 *	                                   process: noted, errno.bpf.c does it
 *	corrupt, duplicate, reorder        leaving: marked, tc does it; arriving: device.bpf.c has seen it before us
 *	break-after                        where it begins; tc finds where it stops
 *	rate, tokens                       leaving: each packet is stamped behind the one before, fq holds it; arriving:
 *	                                   device.bpf.c has held it before us
 *	delay                              leaving: the first packet of a request is stamped, fq holds it, and the rest of
 *	                                   the request queues behind it
 */
#include "bpf/connection.bpf.h"
#include "bpf/damage.bpf.h"
#include "bpf/loss.bpf.h"
#include "bpf/break.bpf.h"
#include "bpf/pace.bpf.h"
#include "bpf/request.bpf.h"
#include "bpf/reset.bpf.h"

struct packet_context {
	struct flow f;
	struct packet p;
	__u32 packet; /* number for the dice of `per: packet` */
};

/* ---- which connection is it, and what was decided for it ---------------------------------------------------- */

/* With a stack of its own, which is scarce here. */
static __noinline struct chaos_verdict *verdict_of_peer(struct chaos_sock *s, struct flow *f)
{
	return flow_verdict(s, f);
}

/* An unconnected UDP socket talks to many peers. Returns false when no rule can name it, whoever the peer. */
static __noinline bool any_peer_matters(struct chaos_sock *s, struct flow *f)
{
	if (!verdict_holds(&s->verdict)) {
		f->any_peer = 1;
		choose_verdict(f, &s->owner, &s->verdict);
		f->any_peer = 0;
	}
	return s->verdict.valid_until_ns != ~0ULL;
}

/* ---- drop ---------------------------------------------------------------------------------------------------- */

/* Is this packet to be lost? */
static always bool drops(struct packet_context *c, struct chaos_sock *s, struct chaos_verdict *v,
			 const struct chaos_rule *r, struct chaos_stats *stats)
{
	__u64 unit;

	if (v->inject & 1 << CHAOS_DROP)
		return true;
	unit = unit_throw(r, v, c->packet);
	if (!(r->flags & CHAOS_RULE_DROP_ALL) || r->per == CHAOS_PER_PACKET) {
		if (!model_loses(s, v, r, c->packet)) {
			spare(stats);
			return false;
		}
		if (!decide(v->rule, r, stats, CHAOS_DROP, unit, true))
			return false;
		tell(v->rule, &c->f, &s->owner, v, CHAOS_DROP, 0, 0);
		return true;
	}
	if (r->per == CHAOS_PER_REQUEST) /* see begin_request() */
		return false;
	return decide_once(s, v, &c->f, CHAOS_DROP, true);
}

/* ---- requests: delay, and what is decided `per: request` -------------------------------------------------------- */

static always void open_burst(struct chaos_sock *s, const struct packet *p)
{
	s->burst_open = 1;
	s->burst_held = 0;
	s->burst_seq = p->seq;
	s->answers_seen = s->answers;
}

/*
 * Does this packet begin a request? It does when none is open: the last one was answered, by payload that acknowledges
 * at least its first byte (TLS tickets that arrive meanwhile answer nothing), and these bytes were never sent before.
 */
static always bool begins_request(struct __sk_buff *skb, struct chaos_sock *s, const struct packet *p)
{
	__u32 end = p->seq + p->payload;
	bool again;

	again = s->sent && !after(end, s->high_seq);
	if (!s->sent || after(end, s->high_seq))
		s->high_seq = end;
	s->sent = 1;
	if (s->burst_open && s->answers != s->answers_seen && after(s->answered_ack, s->burst_seq))
		s->burst_open = 0;
	if (again || s->burst_open || is_upkeep(skb, s->stream, &s->after_ccs, p))
		return false;
	open_burst(s, p);
	return true;
}

/* The same where requests are read: chaos_request, which saw the packet before, has said so. */
static always bool begins(struct __sk_buff *skb, struct chaos_sock *s, const struct packet *p)
{
	if (!knobs.http || s->begins == CHAOS_BEGINS_UNREAD)
		return begins_request(skb, s, p);
	if (s->begins == CHAOS_BEGINS_NOT)
		return false;
	s->begins = CHAOS_BEGINS_NOT;
	open_burst(s, p);
	return true;
}

/* The delay of one request or packet, by its own throw: the same seed spreads delays in the same way. */
static always __u64 delay_of(const struct chaos_rule *r, __u64 thrown)
{
	__u32 kind = r->distribution, step = thrown & (CHAOS_SPREAD_STEPS - 1);
	struct chaos_spread *spread;
	__s64 delay = at_present(r, r->delay_ns, &r->delay_ramp);

	if (!r->jitter_ns)
		return delay;
	spread = bpf_map_lookup_elem(&chaos_spread, &kind);
	if (spread)
		delay += ((__s64)(r->jitter_ns >> 12)) * spread->quantile[step];
	if (delay < 0)
		return 0;
	return delay > (__s64)CHAOS_MAX_DELAY_NS ? CHAOS_MAX_DELAY_NS : delay;
}

static always __u64 hold_until(const struct chaos_rule *r, const struct chaos_verdict *v, __u64 unit, __u64 *delay)
{
	*delay = delay_of(r, throw(r->seed + SALT_DELAY, v->connection, unit));
	return bpf_ktime_get_ns() + *delay;
}

/* A later stamp than the present one only: TCP's own pacing may have set one. */
static always void stamp(struct __sk_buff *skb, __u64 until_mono_ns)
{
	if (until_mono_ns > skb->tstamp)
		skb->tstamp = until_mono_ns;
}

static always bool can_hold(struct __sk_buff *skb, const struct chaos_sock *s)
{
	return device_flags(&s->owner, skb->ifindex) & CHAOS_DEVICE_FQ;
}

/* A request begins: everything that is decided once for it. */
static always void begin_request(struct __sk_buff *skb, struct packet_context *c, struct chaos_sock *s,
				 struct chaos_verdict *v, const struct chaos_rule *r, struct chaos_stats *stats)
{
	__u64 delay, until, unit = unit_throw(r, v, c->packet);

	if (!knobs.http || v->http != CHAOS_HTTP_GOVERNS)
		v->request++; /* else it has its number already */
	v->answer_delay_ns = 0;
	if (does(r, CHAOS_DROP) && r->flags & CHAOS_RULE_DROP_ALL && r->per == CHAOS_PER_REQUEST &&
	    decide(v->rule, r, stats, CHAOS_DROP, unit, true)) {
		set_inject(s, v, 1 << CHAOS_DROP);
		tell(v->rule, &c->f, &s->owner, v, CHAOS_DROP, 0, 0);
		return;
	}
	if (!does(r, CHAOS_DELAY) || r->per == CHAOS_PER_PACKET)
		return;
	if (!decide(v->rule, r, stats, CHAOS_DELAY, unit,
		    holds_answer(r, s->side) ? ifb_of(&s->owner, skb->ifindex) : can_hold(skb, s)))
		return;
	until = hold_until(r, v, v->request, &delay);
	if (holds_answer(r, s->side)) {
		v->answer_delay_ns = delay;
	} else {
		v->hold_until_mono_ns = until;
		s->burst_held = 1;
	}
	tell(v->rule, &c->f, &s->owner, v, CHAOS_DELAY, delay, 0);
}

/*
 * Holds what belongs to the open request until its time; what follows queues behind it and keeps its order. Everything
 * else that the connection sends meanwhile (acknowledgements) takes fq's fast lane: 5.10 and 6.1 would keep it behind
 * the held packet, and the peer would stop sending.
 */
static always void hold_request(struct __sk_buff *skb, const struct packet *p, const struct chaos_verdict *v,
				struct chaos_stats *stats)
{
	if (p->payload || p->tcp_flags & (TCP_FIN | TCP_RST)) {
		if (v->hold_until_mono_ns > bpf_ktime_get_ns())
			count(&stats->packets);
		stamp(skb, v->hold_until_mono_ns);
	} else if (v->hold_until_mono_ns > bpf_ktime_get_ns()) {
		skb->priority = TC_PRIO_CONTROL;
	}
}

/* `per: packet`: each one by itself. tc sends a copy, see device.bpf.c. */
static always void hold_packet(struct __sk_buff *skb, struct packet_context *c, struct chaos_sock *s,
			       struct chaos_verdict *v, const struct chaos_rule *r, struct chaos_stats *stats)
{
	__u64 delay, until;

	if (!decide(v->rule, r, stats, CHAOS_DELAY, unit_throw(r, v, c->packet), can_hold(skb, s)))
		return;
	until = hold_until(r, v, c->packet, &delay);
	count(&stats->packets);
	stamp(skb, until);
	if (device_flags(&s->owner, skb->ifindex) & CHAOS_DEVICE_EGRESS)
		add_mark(skb, MARK_HOLD);
	tell(v->rule, &c->f, &s->owner, v, CHAOS_DELAY, delay, 0);
}

/* ---- reset --------------------------------------------------------------------------------------------------- */

/*
 * Decides at the first payload. A rule that also delays lets the request go, late, and resets the reply. At a server
 * that is to reset both directions, the reply is the moment: its client is told, as a resetting server would.
 */
static always bool resets_here(const struct chaos_rule *r, __u8 side, bool leaving)
{
	if (r->directions == CHAOS_BOTH && (does(r, CHAOS_DELAY) || side == CHAOS_SIDE_SERVER))
		return direction(side, leaving) == CHAOS_RESPONSE;
	return r->directions & direction(side, leaving);
}

static always bool reset_leaving(struct __sk_buff *skb, struct packet_context *c, struct chaos_sock *s,
				 struct chaos_verdict *v, const struct chaos_rule *r, struct chaos_stats *stats,
				 bool new_request)
{
	const __u16 bit = 1 << CHAOS_RESET;
	bool possible = is_inside(r) || device_flags(&s->owner, skb->ifindex) & CHAOS_DEVICE_EGRESS;

	if (!(v->inject & bit)) {
		if (!c->p.payload || !resets_here(r, s->side, true))
			return false;
		if (r->per == CHAOS_PER_REQUEST && !new_request)
			return false;
		if (r->per == CHAOS_PER_CONNECTION && !claim(s, v, bit))
			return false;
		if (!decide(v->rule, r, stats, CHAOS_RESET, unit_throw(r, v, c->packet), possible))
			return false;
		set_inject(s, v, bit);
		tell_reset(skb, &c->f, s, v, r);
	}
	if (!possible || is_inside(r) || c->p.tcp_flags & TCP_RST)
		return false;
	count(&stats->packets);
	skb->mark = MARK | (s->side == CHAOS_SIDE_SERVER ? MARK_RESET_PEER : MARK_RESET);
	return true;
}

/* ---- damage -------------------------------------------------------------------------------------------------- */

static always bool has_tc(struct __sk_buff *skb, const struct chaos_sock *s)
{
	return device_flags(&s->owner, skb->ifindex) & CHAOS_DEVICE_EGRESS;
}

/* Held back in a copy, as in hold_packet(): what is sent next overtakes it. On top of any delay that it has already. */
static always void reorder(struct __sk_buff *skb, struct packet_context *c, const struct chaos_sock *s,
			   const struct chaos_verdict *v, const struct chaos_rule *r, struct chaos_stats *stats)
{
	const struct damage d = { .fault = CHAOS_REORDER,
				  .ppm = r->reorder_ppm,
				  .salt = SALT_REORDER,
				  .packet = c->packet,
				  .delay_ns = r->reorder_ns };
	__u64 now = bpf_ktime_get_ns();

	if (!damages(&d, &c->f, s, v, r, stats, has_tc(skb, s) && can_hold(skb, s)))
		return;
	skb->tstamp = (skb->tstamp > now ? skb->tstamp : now) + r->reorder_ns;
	add_mark(skb, MARK_HOLD);
}

/* Everything that happens to single packets and is not loss. Corruption comes first: both copies of a packet are alike. */
static always void damage_leaving(struct __sk_buff *skb, struct packet_context *c, const struct chaos_sock *s,
				  const struct chaos_verdict *v, const struct chaos_rule *r, struct chaos_stats *stats)
{
	if (c->p.payload && touches(r, CHAOS_CORRUPT, s->side, true)) {
		const struct damage d = {
			.fault = CHAOS_CORRUPT, .ppm = r->corrupt_ppm, .salt = SALT_CORRUPT, .packet = c->packet
		};

		if (damages(&d, &c->f, s, v, r, stats, has_tc(skb, s)))
			add_mark(skb, MARK_CORRUPT);
	}
	if (touches(r, CHAOS_DUPLICATE, s->side, true)) {
		const struct damage d = {
			.fault = CHAOS_DUPLICATE, .ppm = r->duplicate_ppm, .salt = SALT_DUPLICATE, .packet = c->packet
		};

		if (damages(&d, &c->f, s, v, r, stats, has_tc(skb, s)))
			add_mark(skb, MARK_DUPLICATE);
	}
	if (c->p.payload && touches(r, CHAOS_REORDER, s->side, true))
		reorder(skb, c, s, v, r, stats);
}

/* ---- devices that appear ----------------------------------------------------------------------------------------- */

#define MAX_WAITS 3

/*
 * A device that appeared after the load is prepared within milliseconds of being asked for. Until then a packet that
 * begins a fault is not let by: it is lost here, once or twice, and TCP sends it again. Not for long: when nobody
 * prepares devices any more the fault is skipped, and counted so.
 */
static always bool waits_for_device(struct __sk_buff *skb, struct chaos_sock *s, const struct chaos_rule *r)
{
	const __u32 needed = r->waits_for;
	__u32 flags;

	if (!needed)
		return false;
	flags = device_flags(&s->owner, skb->ifindex);
	if ((flags & needed) == needed || flags & CHAOS_DEVICE_SEEN)
		return false;
	report_device(&s->owner, skb->ifindex);
	if (s->waits >= MAX_WAITS)
		return false;
	s->waits++;
	return true;
}

/* ---- the hooks ----------------------------------------------------------------------------------------------- */

static always int tcp_leaving(struct __sk_buff *skb, struct packet_context *c, struct chaos_sock *s,
			      struct chaos_verdict *v, const struct chaos_rule *r, struct chaos_stats *stats)
{
	bool new_request = false;

	if (c->p.payload && waits_for_device(skb, s, r))
		return DROP;
	if (c->p.payload) {
		learn_stream(skb, &s->stream, &c->p);
		new_request = begins(skb, s, &c->p);
	}
	if (does(r, CHAOS_RESET) && reset_leaving(skb, c, s, v, r, stats, new_request))
		return PASS;
	if (does(r, CHAOS_DELAY) && r->per == CHAOS_PER_PACKET)
		hold_packet(skb, c, s, v, r, stats);
	else if (new_request)
		begin_request(skb, c, s, v, r, stats);
	if (does(r, CHAOS_BREAK_AFTER))
		count_from(skb, &c->p, s, v, r, new_request);
	if (s->burst_held)
		hold_request(skb, &c->p, v, stats);
	if (knobs.faults & CHAOS_PACING)
		pace(skb, &c->f, &c->p, s, v, r, stats, can_hold(skb, s));
	damage_leaving(skb, c, s, v, r, stats);
	return PASS;
}

static always void tcp_arriving(struct packet_context *c, struct chaos_sock *s, const struct chaos_rule *r)
{
	if (knobs.cuts_leaving && does(r, CHAOS_BREAK_AFTER))
		hear_acknowledged(&c->p, s, r);
	if (c->p.payload && !(c->p.tcp_flags & TCP_RST)) {
		s->answered_ack = c->p.ack;
		s->answers++;
	}
}

static always int datagram_leaving(struct __sk_buff *skb, struct packet_context *c, struct chaos_sock *s,
				   struct chaos_verdict *v, const struct chaos_rule *r, struct chaos_stats *stats)
{
	if (r->per == CHAOS_PER_PACKET) {
		if (does(r, CHAOS_DELAY))
			hold_packet(skb, c, s, v, r, stats);
		if (knobs.faults & CHAOS_PACING)
			pace(skb, &c->f, &c->p, s, v, r, stats, can_hold(skb, s));
		damage_leaving(skb, c, s, v, r, stats);
		return PASS;
	}
	/* There are no acknowledgements: a datagram that leaves while another is held joins it, else it is a request. */
	if (v->hold_until_mono_ns <= bpf_ktime_get_ns())
		begin_request(skb, c, s, v, r, stats);
	hold_request(skb, &c->p, v, stats);
	if (knobs.faults & CHAOS_PACING)
		pace(skb, &c->f, &c->p, s, v, r, stats, can_hold(skb, s));
	damage_leaving(skb, c, s, v, r, stats);
	return PASS;
}

/* Everything that is lost, and `seen`. Returns true when the packet is lost. */
static always bool loses(struct __sk_buff *skb, struct packet_context *c, struct chaos_sock *s, struct chaos_verdict *v,
			 const struct chaos_rule *r, struct chaos_stats *stats, bool leaves)
{
	c->packet = ++s->packet;
	count(&stats->seen);
	/* Refused by silence, see refuse_by_address(): decided at connect(), by a rule that does not drop. */
	if (!knobs.set_retval && does(r, CHAOS_REFUSE) && v->inject & 1 << CHAOS_DROP) {
		count(&stats->packets);
		return true;
	}
	if (silences(skb, &c->f, &c->p, s, v, r, leaves) ||
	    (touches(r, CHAOS_DROP, s->side, leaves) && drops(c, s, v, r, stats))) {
		count(&stats->packets);
		return true;
	}
	return false;
}

/* What a connection that was given up says is answered by a reset where the rule says so, else by nothing. */
static always int lose_of_connection(struct __sk_buff *skb, const struct packet_context *c, const struct chaos_sock *s,
				     const struct chaos_rule *r)
{
	if (does(r, CHAOS_HALF_OPEN) && r->idle_how == CHAOS_BREAK_RESET && has_tc(skb, s) &&
	    !(c->p.tcp_flags & TCP_RST)) {
		skb->mark = MARK | MARK_RESET;
		return PASS;
	}
	return lose_leaving(skb, s, CHAOS_TCP);
}

/* A TCP connection: everything about it is kept with its socket. */
static always int connection_packet(struct __sk_buff *skb, struct bpf_sock *sk, struct chaos_sock *s,
				    struct packet_context *c, bool leaves)
{
	struct chaos_verdict *v = &s->verdict;
	struct chaos_stats *stats;
	struct chaos_rule *r;
	int answer = PASS;

	know_connection(skb, sk, s, &c->f, leaves);
	if (v->rule == CHAOS_NO_RULE)
		return PASS;
	stats = stats_of(v->rule);
	r = rule_of(v->rule);
	if (!stats || !r || !parse(skb, &c->p, 0))
		return PASS;
	if (loses(skb, c, s, v, r, stats, leaves))
		return leaves ? lose_of_connection(skb, c, s, r) : DROP;
	if (!leaves) {
		if (c->p.payload && does(r, CHAOS_RESET) && is_inside(r))
			resets_arriving(skb, s, &c->f, r, stats);
		tcp_arriving(c, s, r);
		return PASS;
	}
	answer = tcp_leaving(skb, c, s, v, r, stats);
	/* `per: request`: the request that was just begun, and all that follows it, is never heard of again. */
	if (v->inject & 1 << CHAOS_DROP && touches(r, CHAOS_DROP, s->side, true)) {
		count(&stats->packets);
		return lose_leaving(skb, s, CHAOS_TCP);
	}
	return answer;
}

/* UDP, and what knocks at a TCP listener: one socket, many peers, each with its own verdict in chaos_flows. */
static always int flow_packet(struct __sk_buff *skb, struct bpf_sock *sk, struct chaos_sock *s,
			      struct packet_context *c, bool leaves)
{
	struct chaos_verdict *v;
	struct chaos_stats *stats;
	struct chaos_rule *r;

	if (!s->cookie || c->f.protocol == CHAOS_TCP)
		s->cookie = bpf_get_socket_cookie(skb);
	if (c->f.protocol == CHAOS_TCP) {
		s->side = CHAOS_SIDE_SERVER;
		s->listener = 1;
	} else if (s->side == CHAOS_SIDE_UNKNOWN) {
		s->side = leaves ? CHAOS_SIDE_CLIENT : CHAOS_SIDE_SERVER; /* whoever speaks first is the client */
	}
	c->f.side = s->side;
	if (!any_peer_matters(s, &c->f) || !parse(skb, &c->p, 0))
		return PASS;
	flow_of_packet(&c->f, &c->p, leaves);
	if (c->f.protocol == CHAOS_UDP && sk->dst_port)
		flow_of_sock(&c->f, sk);
	v = verdict_of_peer(s, &c->f);
	if (!v || v->rule == CHAOS_NO_RULE)
		return PASS;
	stats = stats_of(v->rule);
	r = rule_of(v->rule);
	if (!stats || !r)
		return PASS;
	if (loses(skb, c, s, v, r, stats, leaves))
		return leaves ? lose_leaving(skb, s, c->f.protocol) : DROP;
	if (c->f.protocol == CHAOS_TCP || !leaves)
		return PASS;
	datagram_leaving(skb, c, s, v, r, stats);
	if (v->inject & 1 << CHAOS_DROP) {
		v->inject = 0; /* `per: request`: the next datagram is another */
		count(&stats->packets);
		return lose_leaving(skb, s, CHAOS_UDP);
	}
	return PASS;
}

static always int packet(struct __sk_buff *skb, bool leaves)
{
	struct packet_context c = {};
	struct chaos_sock *s;
	struct bpf_sock *sk;

	if (!armed())
		return PASS;
	sk = socket_of(skb);
	if (!sk)
		return PASS;
	s = sock_state(sk);
	if (!s)
		return PASS;
	if (knobs.paces_arriving && !knobs.set_tstamp && !leaves && s->waited)
		skb->tstamp = 0; /* the time that it waited for would be read as that of its arrival */
	if (knobs.names && !leaves && (sk->protocol == IPPROTO_UDP || sk->dst_port == bpf_htons(DNS_PORT)))
		hear_answer(skb);
	if (is_of_no_concern(s))
		return PASS;
	if (sk->protocol != IPPROTO_TCP && sk->protocol != IPPROTO_UDP)
		return PASS;
	if (!s->known)
		learn_from_packet(skb, s);
	c.f.spared = s->spared;
	c.f.protocol = sk->protocol == IPPROTO_UDP ? CHAOS_UDP : CHAOS_TCP;
	if (c.f.protocol == CHAOS_TCP && sk->state != BPF_TCP_LISTEN)
		return connection_packet(skb, sk, s, &c, leaves);
	if (knobs.flows)
		return flow_packet(skb, sk, s, &c, leaves);
	if (c.f.protocol == CHAOS_TCP)
		s->side = CHAOS_SIDE_SERVER; /* a listener: what it accepts begins as a copy, and is no client */
	return PASS;
}

SEC("cgroup_skb/egress")
int chaos_egress(struct __sk_buff *skb)
{
	return packet(skb, true);
}

SEC("cgroup_skb/ingress")
int chaos_ingress(struct __sk_buff *skb)
{
	return packet(skb, false);
}
