/* SPDX-License-Identifier: GPL-2.0-only */
/* Packets of flows, and what the socket hooks and the device hooks say to each other. */
#ifndef PACKET_BPF_H
#define PACKET_BPF_H

#include "bpf/owner.bpf.h"
#include "bpf/parse.bpf.h"

/*
 * A packet that a device hook must deal with carries this in skb->mark from the socket hook (after routing and netfilter,
 * so nobody else looks at it) to tc on the same device, where the socket's own mark is put back.
 */
#define MARK      0xc4a05000
#define MARK_MASK 0xfffff000
enum mark_action {
	MARK_DROP = 1,          /* lose it, and let the sender believe that it left */
	MARK_RESET,             /* turn it into the peer's RST for the sender */
	MARK_RESET_PEER,        /* turn it into the sender's RST for the peer */
	MARK_HOLD,              /* delay it by skb->tstamp, without its socket */
	MARK_CUT,               /* never on a packet: end it early, see break.bpf.h */
	MARK_COPY,              /* on one that arrives: made here, to be let by */
	MARK_ACTION = 0x7f,     /* one of the above; and any of these, before it: */
	MARK_SPLIT = 0x80,      /* its events leave one by one, see split_leaving.bpf.h */
	MARK_CORRUPT = 0x100,   /* damage its payload */
	MARK_DUPLICATE = 0x200, /* send a copy as well */
	MARK_ANSWER = 0x400,    /* a DNS query: answer it with the rcode in place of the action */
	MARK_BREAK = 0x800,     /* the stream may stop in it, see break_leaving.bpf.h */
};

/* Questions that wait for an answer, of both hooks: see dns.bpf.c, and device.bpf.c, which changes the answer. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, CHAOS_MAX_QUESTIONS);
	__type(key, struct chaos_question_key);
	__type(value, struct chaos_question);
} chaos_questions __weak SEC(".maps");

#define DNS_PORT             53
#define DNS_HEADER           12
#define DNS_RESPONSE         0x8000
#define DNS_RECURSION_WANTED 0x0100
#define DNS_RECURSION        0x0080
#define DNS_RCODE            0x000f

/* Asks tc for one thing more. */
static always void add_mark(struct __sk_buff *skb, __u32 todo)
{
	skb->mark = (skb->mark & MARK_MASK) == MARK ? skb->mark | todo : MARK | todo;
}

/* The flow as the socket has it: before NAT, and the same whatever packet comes along. */
static always void flow_of_sock(struct flow *f, struct bpf_sock *sk)
{
	peer_of_sock(f->peer, sk);
	local_of_sock(f->local, sk);
	f->peer_port = bpf_ntohs(sk->dst_port);
	f->local_port = sk->src_port;
}

/* The flow as a packet has it, for sockets that have no single peer. */
static always void flow_of_packet(struct flow *f, const struct packet *p, bool leaving)
{
	copy16(f->peer, leaving ? p->destination : p->source);
	copy16(f->local, leaving ? p->source : p->destination);
	f->peer_port = leaving ? p->destination_port : p->source_port;
	f->local_port = leaving ? p->source_port : p->destination_port;
}

/* The first packet of an accepted connection: it goes on with what was decided when it knocked. */
static always void leave_listener(struct chaos_sock *s, const struct flow *f)
{
	struct chaos_flow_key key = { .cookie = s->cookie, .peer_port = f->peer_port };
	struct chaos_verdict *v;

	copy16(key.peer, f->peer);
	s->listener = 0;
	s->sent = 0;
	v = bpf_map_lookup_elem(&chaos_flows, &key);
	if (v) {
		s->verdict = *v;
		bpf_map_delete_elem(&chaos_flows, &key);
	} else {
		__builtin_memset(&s->verdict, 0, sizeof(s->verdict)); /* what was copied is the listener's own */
	}
}

/* One peer of a socket that has many: UDP, or what knocks at a listener and has no socket yet. Its verdict is kept apart. */
static always struct chaos_verdict *flow_verdict(struct chaos_sock *s, struct flow *f)
{
	struct chaos_flow_key key = { .cookie = s->cookie, .peer_port = f->peer_port };
	struct chaos_verdict *v;
	__u32 zero = 0;
	void *blank;

	copy16(key.peer, f->peer);
	v = bpf_map_lookup_elem(&chaos_flows, &key);
	blank = bpf_map_lookup_elem(&chaos_blank, &zero);
	if (!v && blank) {
		bpf_map_update_elem(&chaos_flows, &key, blank, BPF_NOEXIST);
		v = bpf_map_lookup_elem(&chaos_flows, &key);
	}
	if (v && !verdict_holds(v))
		choose_verdict(f, &s->owner, v);
	return v;
}

/* The name that was settled for a connection: under this load, since another one numbers its names in another way. */
static always __u16 known_name(struct chaos_sock *s)
{
	if (s->verdict.generation != knobs.generation) {
		s->name = CHAOS_NAME_OPEN;
		s->in_hello = 0;
	}
	return s->name;
}

/* Which direction of the conversation is this, seen from the side that the rule names? */
static always __u8 direction(__u8 side, bool leaving)
{
	return (side == CHAOS_SIDE_SERVER) == leaving ? CHAOS_RESPONSE : CHAOS_REQUEST;
}

static always const struct chaos_device *device_of(const struct chaos_owner *owner, __u32 ifindex)
{
	struct chaos_device_key key = { .netns = owner->netns, .ifindex = ifindex };

	return bpf_map_lookup_elem(&chaos_devices, &key);
}

/* What the device by which a packet leaves is prepared with: a set of enum chaos_device_flag. */
static always __u32 device_flags(const struct chaos_owner *owner, __u32 ifindex)
{
	const struct chaos_device *device = device_of(owner, ifindex);

	return device ? device->flags : 0;
}

/* The ifb in which packets may wait that arrive by this device; 0: none. */
static always __u32 ifb_of(const struct chaos_owner *owner, __u32 ifindex)
{
	const struct chaos_device *device = device_of(owner, ifindex);

	return device && device->flags & CHAOS_DEVICE_IFB ? device->ifb : 0;
}

/* A fault wants a device that nobody has looked at yet: whoever reads events will. Told once. */
static always void report_device(const struct chaos_owner *owner, __u32 ifindex)
{
	struct chaos_device_key key = { .netns = owner->netns, .ifindex = ifindex };
	struct chaos_device none = {};
	struct chaos_event *e;

	if (bpf_map_update_elem(&chaos_devices, &key, &none, BPF_NOEXIST))
		return;
	e = bpf_ringbuf_reserve(&chaos_events, sizeof(*e), 0);
	if (!e) {
		bpf_map_delete_elem(&chaos_devices, &key);
		return;
	}
	__builtin_memset(e, 0, sizeof(*e));
	e->time_ns = now_ns();
	e->kind = CHAOS_EVENT_NEW_DEVICE;
	e->generation = knobs.generation;
	e->pid = owner->pid;
	e->connection = owner->netns;
	e->error = ifindex;
	bpf_ringbuf_submit(e, 0);
}

/* ---- for the hooks of sockets -------------------------------------------------------------------------------------- */

#define PASS         1
#define DROP         0
#define DROP_QUIETLY 2 /* leaving: dropped like a full queue would, which UDP does not tell its caller */

static always void learn_from_packet(struct __sk_buff *skb, struct chaos_sock *s)
{
	/* Nobody saw it being opened: the packet still knows its cgroup and user. Where net_cls is used, 5.10 says root. */
	s->owner.cgroup_id = bpf_skb_cgroup_id(skb);
	s->owner.uid = bpf_get_socket_uid(skb);
	s->known = 1;
}

/*
 * Loses a packet that leaves. Below TCP, in tc, it is a loss like any on the wire. Where tc is not there (yet) the
 * packet ends here: TCP sees a failed transmission and tries again later, UDP gets the answer that it keeps to itself.
 */
static always int lose_leaving(struct __sk_buff *skb, const struct chaos_sock *s, __u8 protocol)
{
	if (device_flags(&s->owner, skb->ifindex) & CHAOS_DEVICE_EGRESS) {
		skb->mark = MARK | MARK_DROP;
		return PASS;
	}
	return protocol == CHAOS_UDP ? DROP_QUIETLY : DROP;
}

#endif
