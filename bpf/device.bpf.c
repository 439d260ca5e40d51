// SPDX-License-Identifier: GPL-2.0-only
/*
 * What has to be done to a packet at a device (tc): lose it below the socket, turn it into a reset, damage it, or send a
 * copy that may wait. Nothing but the place where a stream stops (`break-after`) is decided here for packets that leave: the
 * socket hook has marked them. For packets that arrive everything is decided here that changes, doubles or holds them, since
 * tc runs before the socket hook, which can do none of it; answers of DNS that dns.bpf.c waits for are found here, too.
 *
 * Every packet that is not ours goes on to whatever else is attached (TC_ACT_UNSPEC ends no chain).
 */
#include "bpf/arrive.bpf.h"
#include "bpf/split_leaving.bpf.h"
#include "bpf/damage.bpf.h"
#include "bpf/ifb.bpf.h"
#include "bpf/reset.bpf.h"
#include "bpf/split_arriving.bpf.h"

/* Of the checksum in the transport header. */
static always __u32 checksum_offset(const struct packet *p)
{
	return p->protocol == CHAOS_UDP ? offsetof(struct udp_header, checksum) : offsetof(struct tcp_header, checksum);
}

static always int reset(struct __sk_buff *skb, bool peer)
{
	__s32 network = network_offset(skb);
	struct packet p = {};

	if (network < 0 || !parse(skb, &p, network) || p.protocol != CHAOS_TCP)
		return bpf_redirect(NOWHERE, 0);
	if (peer)
		return set_reset_flags(skb, network + p.transport) ? TC_ACT_UNSPEC : bpf_redirect(NOWHERE, 0);
	if (!turn_into_reset(skb, network, &p))
		return bpf_redirect(NOWHERE, 0);
	return send_back(skb, network);
}

/* ---- DNS ------------------------------------------------------------------------------------------------------ */

/* One 16-bit word of a DNS header, which lies at an even distance from the transport header. */
static always bool store_word(struct __sk_buff *skb, __u32 at, __u32 checksum, __u16 from, __u16 to)
{
	return !bpf_l4_csum_replace(skb, checksum, from, to, BPF_F_MARK_MANGLED_0 | 2) &&
	       !bpf_skb_store_bytes(skb, at, &to, 2, 0);
}

/* A query over UDP becomes its own answer, without any record. */
static always int answer(struct __sk_buff *skb, __u16 rcode)
{
	__s32 network = network_offset(skb);
	struct packet p = {};
	__u16 flags, new_flags;
	__u32 at;

	if (network < 0 || !parse(skb, &p, network) || p.protocol != CHAOS_UDP)
		return bpf_redirect(NOWHERE, 0);
	at = network + p.payload_offset + 2;
	if (bpf_skb_load_bytes(skb, at, &flags, sizeof(flags)))
		return bpf_redirect(NOWHERE, 0);
	new_flags = bpf_htons(DNS_RESPONSE | DNS_RECURSION | rcode) | (flags & bpf_htons(DNS_RECURSION_WANTED));
	if (!store_word(skb, at, network + p.transport + offsetof(struct udp_header, checksum), flags, new_flags) ||
	    !turn_around(skb, network, &p))
		return bpf_redirect(NOWHERE, 0);
	return send_back(skb, network);
}

/*
 * An answer gets another rcode. Its records stay where they are, since its length must: they are no longer answers but
 * additional ones, which nobody takes for answers. `front`: where the message begins in the payload.
 */
static always bool change_answer(struct __sk_buff *skb, __u32 network, const struct packet *p, __u32 front)
{
	const __u32 at = network + p->payload_offset + front;
	const __u32 checksum = network + p->transport + checksum_offset(p);
	struct chaos_question_key key = { .local_port = p->destination_port, .protocol = p->protocol };
	struct chaos_question *question;
	__u16 head[DNS_HEADER / 2], records, rcode;

	if (p->payload < front + DNS_HEADER || bpf_skb_load_bytes(skb, at, head, sizeof(head)))
		return false;
	copy16(key.local, p->destination);
	key.id = head[0];
	question = bpf_map_lookup_elem(&chaos_questions, &key);
	if (!question || question->until_ns < now_ns() || !(head[1] & bpf_htons(DNS_RESPONSE)))
		return false;
	rcode = question->rcode & DNS_RCODE;
	bpf_map_delete_elem(&chaos_questions, &key);
	records = bpf_ntohs(head[3]) + bpf_ntohs(head[4]) + bpf_ntohs(head[5]);
	store_word(skb, at + 2, checksum, head[1], (head[1] & bpf_htons((__u16)~DNS_RCODE)) | bpf_htons(rcode));
	store_word(skb, at + 6, checksum, head[3], 0);
	store_word(skb, at + 8, checksum, head[4], 0);
	store_word(skb, at + 10, checksum, head[5], bpf_htons(records));
	return true;
}

/* Over TCP a message follows its length; servers that write both one by one send it in a segment of its own. */
static always void change_answers(struct __sk_buff *skb, const struct packet *p)
{
	__s32 network = network_offset(skb);

	if (network < 0 || (p->protocol == CHAOS_TCP && change_answer(skb, network, p, 2)))
		return;
	change_answer(skb, network, p, 0);
}

/* ---- damage --------------------------------------------------------------------------------------------------- */

/*
 * Changes one byte of the payload and the checksum with it, so that nobody but the application can tell. Checksums add up
 * pairs of bytes that begin with the transport header: the pair that holds the byte is exchanged.
 */
static always bool corrupt_payload(struct __sk_buff *skb, __u32 network, const struct packet *p)
{
	const __u64 flags =
		p->protocol == CHAOS_UDP ? BPF_F_MARK_MANGLED_0 : 0; /* 0 is no checksum there, and stays so */
	__u32 change = bpf_get_prandom_u32(), at = bpf_get_prandom_u32(), end = p->payload_offset + p->payload;
	__u8 pair[2] = {}, was[2];
	bool second;

	if (!p->payload)
		return false;
	at = p->payload_offset + at % p->payload;
	second = (at - p->transport) & 1;
	at -= second;
	/* The last byte of an odd number is added up with a 0 that is not there. */
	if (bpf_skb_load_bytes(skb, network + at, pair, 1) ||
	    (at + 1 < end && bpf_skb_load_bytes(skb, network + at, pair, 2)))
		return false;
	__builtin_memcpy(was, pair, sizeof(was));
	change = change & 0xff ? change & 0xff : 0xff;
	if (second)
		pair[1] ^= change;
	else
		pair[0] ^= change;
	if (bpf_l4_csum_replace(skb, network + p->transport + checksum_offset(p), *(__u16 *)was, *(__u16 *)pair,
				flags | 2))
		return false;
	return !(at + 1 < end ? bpf_skb_store_bytes(skb, network + at, pair, 2, 0)
			      : bpf_skb_store_bytes(skb, network + at, pair, 1, 0));
}

/* A packet that cannot be damaged (a later fragment) goes on as it is. */
static always void corrupt(struct __sk_buff *skb)
{
	__s32 network = network_offset(skb);
	struct packet p = {};

	if (network >= 0 && parse(skb, &p, network))
		corrupt_payload(skb, network, &p);
}

/*
 * `per: packet`: a packet that waits in fq still counts against its socket, which then may send two at a time only
 * (TCP small queues) and crawls. A copy has no socket; the original ends here as if it had left.
 */
static always int hold_copy(struct __sk_buff *skb)
{
	return send_copy(skb) ? bpf_redirect(NOWHERE, 0) : TC_ACT_UNSPEC;
}

static always void restore_mark(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;

	sk = sk ? bpf_sk_fullsock(sk) : NULL;
	skb->mark = sk ? sk->mark : 0;
}

/* For the copy that send_copy() or send_part() is sending. False: it is to be lost. */
static always bool take_copy(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct held_copy *copy;

	copy = bpf_map_lookup_elem(&chaos_copy, &zero);
	if (!copy || !copy->until_mono_ns)
		return true;
	skb->tstamp = copy->until_mono_ns;
	copy->until_mono_ns = 0;
	return !knobs.splits || !copy->size || take_part(skb, copy->begin, copy->size);
}

SEC("tc")
int chaos_tc_out(struct __sk_buff *skb)
{
	__u32 mark = skb->mark;

	if ((mark & MARK_MASK) != MARK) {
		return take_copy(skb) ? TC_ACT_UNSPEC : bpf_redirect(NOWHERE, 0);
	}
	restore_mark(skb);
	if (!armed())
		return TC_ACT_UNSPEC;
	if (knobs.faults & 1 << CHAOS_DNS && mark & MARK_ANSWER)
		return answer(skb, mark & DNS_RCODE);
	if (knobs.faults & 1 << CHAOS_CORRUPT && mark & MARK_CORRUPT)
		corrupt(skb);
	if (knobs.cuts_leaving && mark & MARK_BREAK) {
		switch (break_leaving(skb)) {
		case CUT_LOSE:
			return bpf_redirect(NOWHERE, 0);
		case CUT_SEND_BACK:
			return send_back(skb, network_offset(skb));
		}
	}
	if (knobs.splits && mark & MARK_SPLIT)
		split_events(skb);
	if (knobs.faults & 1 << CHAOS_DUPLICATE && mark & MARK_DUPLICATE)
		send_copy(skb);
	switch (mark & MARK_ACTION) {
	case MARK_DROP:
		return bpf_redirect(NOWHERE, 0);
	case MARK_RESET:
		return reset(skb, false);
	case MARK_RESET_PEER:
		return reset(skb, true);
	case MARK_HOLD:
		return hold_copy(skb);
	default:
		return TC_ACT_UNSPEC;
	}
}

/* ---- arriving --------------------------------------------------------------------------------------------------- */

/* The rule for a packet that arrives at a socket, before the socket hook has seen it; NULL: none. */
static always const struct chaos_rule *rule_arriving(struct chaos_sock *s, const struct packet *p, struct flow *f)
{
	struct chaos_verdict *v = &s->verdict;

	f->side = s->side;
	f->spared = s->spared;
	f->name = known_name(s);
	f->protocol = CHAOS_TCP;
	flow_of_packet(f, p, false);
	if (s->listener)
		leave_listener(s, f);
	refresh_verdict(f, &s->owner, v);
	return v->rule == CHAOS_NO_RULE ? NULL : rule_of(v->rule);
}

/* What becomes of a packet that arrives: first something is done to it, then it may wait. */
struct arrival {
	__u32 todo; /* 0, MARK_RESET, MARK_CUT, or a set of MARK_CORRUPT and MARK_DUPLICATE */
	__u32 ifb;  /* where it waits, 0: nowhere */
	__u64 until_mono_ns;
	struct cut cut;
};

/* Everything that happens to single packets and is not loss. A copy does not wait: of what does there is none. */
static always void damage_arriving(struct __sk_buff *skb, struct chaos_sock *s, const struct flow *f,
				   const struct packet *p, const struct chaos_verdict *v, const struct chaos_rule *r,
				   struct chaos_stats *stats, struct arrival *a)
{
	struct damage d = { .packet = ++s->arrived };

	if (p->payload && touches(r, CHAOS_CORRUPT, s->side, false)) {
		d.fault = CHAOS_CORRUPT;
		d.ppm = r->corrupt_ppm;
		d.salt = SALT_CORRUPT;
		if (damages(&d, f, s, v, r, stats, true))
			a->todo |= MARK_CORRUPT;
	}
	if (p->payload && touches(r, CHAOS_REORDER, s->side, false)) {
		const __u32 ifb = ifb_of(&s->owner, skb->ifindex);
		const __u64 now = bpf_ktime_get_ns();

		d.fault = CHAOS_REORDER;
		d.ppm = r->reorder_ppm;
		d.salt = SALT_REORDER;
		d.delay_ns = r->reorder_ns;
		if (damages(&d, f, s, v, r, stats, ifb != 0)) {
			a->until_mono_ns = (a->until_mono_ns > now ? a->until_mono_ns : now) + r->reorder_ns;
			a->ifb = ifb;
		}
	}
	if (touches(r, CHAOS_DUPLICATE, s->side, false)) {
		d.fault = CHAOS_DUPLICATE;
		d.ppm = r->duplicate_ppm;
		d.salt = SALT_DUPLICATE;
		d.delay_ns = 0;
		if (damages(&d, f, s, v, r, stats, !a->ifb && !skb->mark))
			a->todo |= MARK_DUPLICATE;
	}
}

/* What is to be done to a packet with payload, or one that ends the stream. */
static always __u32 change_arriving(struct __sk_buff *skb, __u32 expected, struct chaos_sock *s, const struct flow *f,
				    const struct packet *p, const struct chaos_rule *r, struct chaos_stats *stats,
				    struct cut *cut)
{
	if (does(r, CHAOS_BREAK_AFTER) && !cut_leaves(r, s->side) && cuts(skb, f, p, s, &s->verdict, r, stats)) {
		cut->at = s->verdict.cut & CUT_DONE ? s->cut_at : p->seq;
		cut->how = s->verdict.cut & CUT_DONE ? r->break_how : CHAOS_BREAK_STALL;
		cut->told = may_tell(cut, p, expected);
		return MARK_CUT;
	}
	if (p->payload && does(r, CHAOS_RESET) && !is_inside(r) && resets_arriving(skb, s, f, r, stats)) {
		count(&stats->packets);
		return MARK_RESET;
	}
	return 0;
}

static always void decide_arriving(struct __sk_buff *skb, struct bpf_sock *sk, struct chaos_sock *s,
				   const struct packet *p, struct arrival *a)
{
	const struct chaos_rule *r;
	struct chaos_stats *stats;
	__u32 expected = expected_by(sk, p);
	struct flow f = {};

	r = rule_arriving(s, p, &f);
	stats = stats_of(s->verdict.rule);
	if (r && does(r, CHAOS_BREAK_AFTER) && s->side == CHAOS_SIDE_SERVER && !cut_leaves(r, s->side) && p->payload &&
	    !s->verdict.cut)
		count_on(s, &s->verdict, r, expected);
	if (r && stats && knobs.faults & CHAOS_FAULTS_AT_ARRIVAL && !(p->tcp_flags & TCP_RST))
		a->todo = change_arriving(skb, expected, s, &f, p, r, stats, &a->cut);
	if (knobs.paces_arriving) {
		a->ifb = ifb_of(&s->owner, skb->ifindex);
		a->until_mono_ns = pace_arriving(skb, &f, p, s, expected, r, stats, a->ifb != 0);
		if (!a->until_mono_ns)
			a->ifb = 0;
	}
	if (r && stats && knobs.faults & CHAOS_DAMAGE && !a->todo && !(p->tcp_flags & TCP_RST))
		damage_arriving(skb, s, &f, p, &s->verdict, r, stats, a);
	if (a->ifb)
		s->waited = 1;
}

/* A datagram: the peer has a verdict of its own, as it has in flow_packet() of socket.bpf.c. */
static always void decide_datagram(struct __sk_buff *skb, struct chaos_sock *s, const struct packet *p,
				   struct arrival *a)
{
	const struct chaos_rule *r;
	struct chaos_verdict *v;
	struct chaos_stats *stats;
	struct flow f = {};

	if (!s->known || !s->cookie)
		return;
	if (s->side == CHAOS_SIDE_UNKNOWN)
		s->side = CHAOS_SIDE_SERVER; /* whoever speaks first is the client */
	f.side = s->side;
	f.spared = s->spared;
	f.protocol = CHAOS_UDP;
	flow_of_packet(&f, p, false);
	v = flow_verdict(s, &f);
	if (!v || v->rule == CHAOS_NO_RULE)
		return;
	r = rule_of(v->rule);
	stats = stats_of(v->rule);
	if (r && stats)
		damage_arriving(skb, s, &f, p, v, r, stats, a);
	if (a->ifb)
		s->waited = 1;
}

/* Does the change; false: the packet is to be lost. */
static always bool change(struct __sk_buff *skb, const struct packet *p, const struct arrival *a)
{
	__s32 network = network_offset(skb);

	if (knobs.faults & 1 << CHAOS_BREAK_AFTER && a->todo == MARK_CUT)
		return network >= 0 && cut_short(skb, network, p, &a->cut);
	if (a->todo == MARK_RESET)
		return network >= 0 && set_reset_flags(skb, network + p->transport);
	if (a->todo & MARK_CORRUPT && network >= 0)
		corrupt_payload(skb, network, p);
	if (a->todo & MARK_DUPLICATE) {
		skb->mark = MARK | MARK_COPY;
		come_again(skb);
		skb->mark = 0;
	}
	return true;
}

/* Can anything be done to such a packet? */
static always bool is_looked_at(const struct packet *p)
{
	if (p->protocol == CHAOS_UDP)
		return knobs.datagrams_arriving;
	if (p->tcp_flags & TCP_SYN)
		return false;
	if (knobs.paces_arriving && p->tcp_flags & (TCP_FIN | TCP_RST))
		return true;
	if (p->tcp_flags & TCP_RST || !(knobs.paces_arriving || knobs.faults & CHAOS_FAULTS_AT_ARRIVAL))
		return false;
	return p->payload || knobs.faults & 1 << CHAOS_DUPLICATE ||
	       (knobs.faults & 1 << CHAOS_BREAK_AFTER && p->tcp_flags & TCP_FIN);
}

static always int arriving(struct __sk_buff *skb)
{
	struct chaos_sock *s;
	struct packet p = {};
	struct bpf_sock *sk, *full;
	struct arrival a = {};

	if (!parse(skb, &p, ETH_HLEN))
		return TC_ACT_UNSPEC;
	if (knobs.faults & 1 << CHAOS_DNS && p.source_port == DNS_PORT && p.payload)
		change_answers(skb, &p);
	if (!is_looked_at(&p))
		return TC_ACT_UNSPEC;
	if (knobs.arriving_ports && !names_port(p.source_port) && !names_port(p.destination_port))
		return TC_ACT_UNSPEC;
	sk = find_socket(skb, &p);
	if (!sk)
		return TC_ACT_UNSPEC;
	full = bpf_sk_fullsock(sk);
	s = full && full->state != BPF_TCP_LISTEN ? bpf_sk_storage_get(&chaos_sock, full, NULL, 0) : NULL;
	if (s && p.protocol == CHAOS_TCP)
		decide_arriving(skb, full, s, &p, &a);
	else if (s && knobs.datagrams_arriving)
		decide_datagram(skb, s, &p, &a);
	bpf_sk_release(sk);
	if (a.todo && !change(skb, &p, &a))
		return bpf_redirect(NOWHERE, 0);
	if (knobs.splits_arriving && a.ifb && !a.todo) {
		split_arriving(skb, a.ifb, a.until_mono_ns, ETH_HLEN + p.payload_offset, p.payload);
		split_records(skb, a.ifb, a.until_mono_ns, ETH_HLEN + p.payload_offset, p.payload);
	}
	return knobs.paces_arriving && a.ifb ? wait_in_ifb(skb, a.ifb, a.until_mono_ns) : TC_ACT_UNSPEC;
}

SEC("tc")
int chaos_tc_in(struct __sk_buff *skb)
{
	if (knobs.paces_arriving && !knobs.ifb_redirect)
		skb->cb[0] = 0; /* whatever others have left there is no word to chaos_tc_pick */
	if (knobs.faults & 1 << CHAOS_DUPLICATE && skb->mark == (MARK | MARK_COPY)) {
		skb->mark = 0;
		return TC_ACT_UNSPEC;
	}
	if (!armed())
		return TC_ACT_UNSPEC;
	return arriving(skb);
}
