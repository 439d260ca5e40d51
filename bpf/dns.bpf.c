// SPDX-License-Identifier: GPL-2.0-only
/*
 * Questions and answers of DNS (RFC 1035, section 4.1): the fault `dns`, and what answers teach, the addresses that a name
 * of the rules has at present, for as long as the answer says, and at least for some minutes, since programs keep
 * addresses longer than they should.
 *
 * The name that counts is the one that was asked for: a chain of CNAMEs leads from it to the addresses.
 */
#include "bpf/name.bpf.h"

#define TYPE_A          1
#define TYPE_AAAA       28
#define CLASS_IN        1
#define POINTER         0xc0
#define RECORD_FIXED    10 /* type, class, TTL, length */
#define MAX_LABELS      128
#define MAX_STEPS       256 /* records and labels of their names that are read */
#define KEPT_AT_LEAST_S 300
#define KEPT_AT_MOST_S  (24 * 3600)

/* The next label of the question's name: the byte that holds its length becomes a dot. False at the end of the name. */
int read_label(__u32 number)
{
	struct bench *b = bench_of(number);
	__u32 length;

	if (!b || b->at >= b->length)
		return 0;
	length = byte_at(b, b->at);
	if (!length || length >= POINTER)
		return 0;
	b->data[bounded(b->at, BENCH_BYTES - 1)] = '.';
	b->at += 1 + length;
	return 1;
}

/* Makes the question's name a dotted one, from DNS_HEADER + 1 on; its length, 0 when it is none. b->at is behind the question. */
int read_question(__u32 number)
{
	struct bench *b = bench_of(number);
	__u32 end;

	if (!b)
		return 0;
	b->at = DNS_HEADER;
	for (int i = 0; i < MAX_LABELS && read_label(number); i++)
		;
	end = b->at;
	if (end <= DNS_HEADER + 1 || end >= b->length || byte_at(b, end))
		return 0;
	b->at = end + 1 + 4; /* type and class */
	return end - DNS_HEADER - 1;
}

static always void remember(const struct bench *b, const __u8 *address, __u32 pid, __u64 until_ns)
{
	struct chaos_learned learned = { .until_ns = until_ns, .name = b->found };
	struct chaos_learned_key key = { .pid = pid };

	copy16(key.address, address);
	bpf_map_update_elem(&chaos_learned, &key, &learned, BPF_ANY);
}

/*
 * An address of the name. That another name has it as well matters only where it is a name of the rules, too: then the
 * process that asked for the other one means the other one.
 */
static always void learn_address(struct bench *b, const __u8 *address, __u32 ttl)
{
	struct chaos_learned_key key = { .pid = 0 };
	__u64 until_ns;

	if (ttl < KEPT_AT_LEAST_S)
		ttl = KEPT_AT_LEAST_S;
	if (ttl > KEPT_AT_MOST_S)
		ttl = KEPT_AT_MOST_S;
	until_ns = now_ns() + ttl * 1000000000ULL;
	copy16(key.address, address);
	if (b->found == CHAOS_NAME_OTHER) {
		if (bpf_map_lookup_elem(&chaos_learned, &key) || bpf_map_lookup_elem(&chaos_resolved, address))
			remember(b, address, b->pid, until_ns);
		return;
	}
	remember(b, address, 0, until_ns);
	remember(b, address, b->pid, until_ns);
}

/* One record, whose name ends at `at`. */
static always void learn_record(struct bench *b, __u32 at, __u32 length)
{
	const __u32 type = word_at(b, at), class = word_at(b, at + 2);
	const __u32 ttl = word_at(b, at + 4) << 16 | word_at(b, at + 6);
	__u8 address[16] = {};

	if (class != CLASS_IN)
		return;
	if (type == TYPE_A && length == 4) {
		address[10] = 0xff;
		address[11] = 0xff;
		for (int i = 0; i < 4; i++)
			address[12 + i] = byte_at(b, at + RECORD_FIXED + i);
	} else if (type == TYPE_AAAA && length == 16) {
		for (int i = 0; i < 16; i++)
			address[i] = byte_at(b, at + RECORD_FIXED + i);
	} else {
		return;
	}
	learn_address(b, address, ttl);
}

/*
 * The records behind the question, a label or a record at a time: each begins with a name, mostly a pointer to the one that
 * was asked for. False when there is nothing left to read. What it remembers lies on the bench, so that the verifier need
 * not follow what one step leaves to the next.
 */
int read_answer(__u32 number)
{
	struct bench *b = bench_of(number);
	__u32 at, c, length;

	if (!b || !b->left)
		return 0;
	at = b->at;
	if (at + RECORD_FIXED + 1 > b->length)
		return 0;
	c = byte_at(b, at);
	if (c && c < POINTER) {
		b->at = at + 1 + c;
		return 1;
	}
	at += c ? 2 : 1;
	length = word_at(b, at + 8);
	if (at + RECORD_FIXED + length > b->length)
		return 0;
	learn_record(b, at, length);
	b->at = at + RECORD_FIXED + length;
	b->left--;
	return 1;
}

/* One message, of which `pid` is told. */
int learn_answer(struct __sk_buff *skb, __u32 offset, __u32 length, __u32 pid)
{
	struct bench *b;
	__u32 number;
	int name_length;

	if (!knobs.names)
		return 0;
	number = enter_bench();
	b = bench_of(number);
	if (!b || length < DNS_HEADER + 1 || !load_bench(skb, b, offset, length))
		goto out;
	if ((word_at(b, 2) & (DNS_RESPONSE | DNS_RCODE)) != DNS_RESPONSE || word_at(b, 4) != 1)
		goto out;
	name_length = read_question(number);
	if (!name_length)
		goto out;
	b->pid = pid;
	b->left = word_at(b, 6);
	b->found = match_name(number, DNS_HEADER + 1, name_length);
	for (int i = 0; i < MAX_STEPS && read_answer(number); i++)
		;
out:
	leave_bench();
	return 0;
}

#define LEAVING  1
#define ARRIVING 2

/*
 * Where in the payload a message begins: over TCP behind its length, unless that came before, in a segment of its own (who
 * writes both one by one sends them so). Beyond the payload when there is none.
 */
static always __u32 message_begins(struct chaos_sock *s, const struct packet *p, __u8 way)
{
	const bool alone = s->length_alone & way;

	if (p->protocol != CHAOS_TCP || !p->payload)
		return 0;
	s->length_alone &= ~way;
	if (p->payload == 2 && !alone)
		s->length_alone |= way;
	return alone ? 0 : 2;
}

int hear_answer(struct __sk_buff *skb)
{
	struct packet p = {};
	struct chaos_sock *s;
	struct bpf_sock *sk;
	__u32 front;

	s = state_of_packet(skb, &sk);
	if (!knobs.names || !s || !parse(skb, &p, 0) || p.source_port != DNS_PORT)
		return 0;
	front = message_begins(s, &p, ARRIVING);
	if (p.payload > front)
		learn_answer(skb, p.payload_offset + front, p.payload - front, s->owner.pid);
	return 0;
}

/* ---- the fault `dns` --------------------------------------------------------------------------------------------- */

#define QUESTION_NS        30000000000ULL
#define DOCKER_NAME_SERVER 0x7f00000b /* 127.0.0.11 */

#define RCODE_SERVFAIL 2
#define RCODE_NXDOMAIN 3

static always __u8 rcode_of(const struct chaos_rule *r)
{
	if (r->dns == CHAOS_DNS_NXDOMAIN)
		return RCODE_NXDOMAIN;
	return r->dns == CHAOS_DNS_SERVFAIL ? RCODE_SERVFAIL : 0;
}

/*
 * Is it for a name server? netfilter may have sent it on to another port before we see it, as in Docker's containers, where
 * 127.0.0.11 is answered by dockerd: a connected socket still has the port, and for others that address is known.
 */
static always bool asks_name_server(const struct packet *p, const struct bpf_sock *sk)
{
	const __u32 *to = (const __u32 *)p->destination;

	return p->destination_port == DNS_PORT || sk->dst_port == bpf_htons(DNS_PORT) ||
	       (!p->ipv6 && to[3] == bpf_htonl(DOCKER_NAME_SERVER));
}

/* Brings a question to the bench and reads its name. */
static always bool read_query(struct __sk_buff *skb, const struct bpf_sock *sk, struct chaos_sock *s, struct bench *b,
			      __u32 number)
{
	__u32 front, length;

	__builtin_memset(&b->p, 0, sizeof(b->p));
	if (!parse(skb, &b->p, 0) || !asks_name_server(&b->p, sk))
		return false;
	front = message_begins(s, &b->p, LEAVING);
	if (b->p.payload <= front + DNS_HEADER ||
	    !load_bench(skb, b, b->p.payload_offset + front, b->p.payload - front))
		return false;
	if (word_at(b, 2) & DNS_RESPONSE || word_at(b, 4) != 1)
		return false;
	length = read_question(number);
	b->found = match_name(number, DNS_HEADER + 1, length);
	return length;
}

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CHAOS_MAX_RESOLVERS);
	__type(key, char[CHAOS_COMM_LEN]);
	__type(value, __u32);
} chaos_resolvers SEC(".maps");

/*
 * Every question is a connection of its own to the matcher: without an address and a port, with a name. What the machine's
 * resolver asks because of others it asks in its own name: that counts as theirs where a rule says so.
 */
static always void choose_for_query(struct bench *b, struct chaos_sock *s)
{
	__builtin_memset(&b->f, 0, sizeof(b->f));
	__builtin_memset(&b->v, 0, sizeof(b->v));
	b->f.protocol = CHAOS_QUERY;
	b->f.side = CHAOS_SIDE_CLIENT;
	b->f.spared = s->spared;
	b->f.name = b->found;
	choose_verdict(&b->f, &s->owner, &b->v);
	if (knobs.resolvers && b->v.rule == CHAOS_NO_RULE && bpf_map_lookup_elem(&chaos_resolvers, s->owner.comm)) {
		b->f.resolver = 1;
		choose_verdict(&b->f, &s->owner, &b->v);
	}
	b->f.protocol = b->p.protocol;
	flow_of_packet(&b->f, &b->p, true);
	b->f.peer_port = DNS_PORT;
}

/*
 * UDP is answered where it leaves, by the query itself. Over TCP the answer that comes is changed, and so it is where
 * netfilter has sent a query to another place than was asked, over lo: that one would not be turned around to its asker,
 * since netfilter looks at a packet on lo once and then sends it to that place whatever it has become.
 */
static always bool changes_answer(const struct __sk_buff *skb, const struct packet *p, const struct bpf_sock *sk)
{
	const __u32 *to = (const __u32 *)p->destination;

	if (p->protocol == CHAOS_TCP)
		return true;
	if (skb->ifindex != LOOPBACK_IFINDEX)
		return false;
	return p->destination_port != DNS_PORT || (sk->dst_port && sk->family == AF_INET && sk->dst_ip4 != to[3]);
}

static always bool can_answer(struct __sk_buff *skb, const struct chaos_sock *s, const struct chaos_rule *r,
			      __u32 needed)
{
	const __u32 flags = device_flags(&s->owner, skb->ifindex);

	if (r->dns == CHAOS_DNS_TIMEOUT || flags & needed)
		return true;
	if (!(flags & CHAOS_DEVICE_SEEN))
		report_device(&s->owner, skb->ifindex);
	return false;
}

/* The answer to this question will be found by device.bpf.c. Real clients wait for it for 5 s, mostly. */
static always void expect_answer(const struct bench *b, __u32 rcode)
{
	struct chaos_question question = { .until_ns = now_ns() + QUESTION_NS, .rcode = rcode };
	struct chaos_question_key key = { .local_port = b->p.source_port, .protocol = b->p.protocol };

	copy16(key.local, b->p.source);
	key.id = *(const __u16 *)b->data;
	bpf_map_update_elem(&chaos_questions, &key, &question, BPF_ANY);
}

static always int decide_query(struct __sk_buff *skb, const struct bpf_sock *sk, struct bench *b, struct chaos_sock *s)
{
	const bool later = changes_answer(skb, &b->p, sk);
	struct chaos_stats *stats = stats_of(b->v.rule);
	struct chaos_rule *r = rule_of(b->v.rule);
	__u8 rcode;

	if (!stats || !r || !does(r, CHAOS_DNS))
		return 0;
	count(&stats->seen);
	if (!decide(b->v.rule, r, stats, CHAOS_DNS, unit_throw(r, &b->v, 0),
		    can_answer(skb, s, r, later ? CHAOS_DEVICE_INGRESS : CHAOS_DEVICE_EGRESS)))
		return 0;
	count(&stats->packets);
	tell(b->v.rule, &b->f, &s->owner, &b->v, CHAOS_DNS, 0, r->dns);
	if (r->dns == CHAOS_DNS_TIMEOUT)
		return MARK_DROP;
	rcode = rcode_of(r);
	if (!later)
		return MARK_ANSWER | rcode;
	expect_answer(b, rcode);
	return 0;
}

static always int take_query(struct __sk_buff *skb, const struct bpf_sock *sk, struct chaos_sock *s)
{
	const __u32 number = enter_bench();
	struct bench *b = bench_of(number);
	int todo = 0;

	if (b && read_query(skb, sk, s, b, number)) {
		choose_for_query(b, s);
		if (b->v.rule != CHAOS_NO_RULE)
			todo = decide_query(skb, sk, b, s);
	}
	leave_bench();
	return todo;
}

/*
 * A program of its own beside chaos_egress, and there only when a rule has `dns`: what both need of the stack, which is
 * 512 bytes with all that is called, would not fit into one.
 */
SEC("cgroup_skb/egress")
int chaos_query(struct __sk_buff *skb)
{
	struct chaos_sock *s;
	struct bpf_sock *sk;
	int todo;

	if (!(knobs.faults & 1 << CHAOS_DNS) || !armed())
		return PASS;
	sk = skb->sk;
	sk = sk ? bpf_sk_fullsock(sk) : NULL;
	if (!sk || (sk->type != SOCK_STREAM && sk->type != SOCK_DGRAM) ||
	    (sk->protocol != IPPROTO_UDP && sk->dst_port != bpf_htons(DNS_PORT)))
		return PASS;
	s = sock_state(sk);
	if (!s)
		return PASS;
	if (!s->known)
		learn_from_packet(skb, s);
	todo = take_query(skb, sk, s);
	if (todo == MARK_DROP)
		return lose_leaving(skb, s, sk->protocol == IPPROTO_UDP ? CHAOS_UDP : CHAOS_TCP);
	if (todo)
		skb->mark = MARK | todo;
	return PASS;
}
