// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the hooks inline, as programs that BPF_PROG_TEST_RUN can call: choosing a rule, the budget, the dice, reading a
 * packet. Loaded beside a load's own programs, with its maps and knobs, see test_decide.c.
 */
#include "bpf/loss.bpf.h"
#include "bpf/pace.bpf.h"
#include "tests/bpf/decide_test.h"

const volatile struct chaos_knobs knobs = {};
__u32 epoch = 0;
char LICENSE[] SEC("license") = "GPL";

__u64 answers[CHAOS_SKIP_COUNT + 1]; /* of take() */
__u8 injected[TEST_CONNECTIONS];     /* by decide(), for each connection */
struct parsed parsed;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 * 1024 * 1024);
} test_taken SEC(".maps");

static always bool ask(struct __sk_buff *skb, struct question *q)
{
	return bpf_skb_load_bytes(skb, ETH_HLEN, q, sizeof(*q)) == 0;
}

/* test_choose(question) = answer */
SEC("tc")
int test_choose(struct __sk_buff *skb)
{
	struct chaos_verdict v = {};
	struct answer answer = {};
	struct flow f = {};
	struct question q;

	if (!armed() || !ask(skb, &q))
		return 1;
	copy16(f.peer, q.peer);
	copy16(f.local, q.local);
	f.peer_port = q.peer_port;
	f.local_port = q.local_port;
	f.protocol = q.protocol;
	f.side = q.side;
	f.spared = q.spared;
	meet_comm(&q.owner);
	choose_verdict(&f, &q.owner, &v);
	answer.valid_until_ns = v.valid_until_ns;
	answer.connection = v.connection;
	answer.rule = v.rule;
	answer.holds = verdict_holds(&v);
	return bpf_skb_store_bytes(skb, ETH_HLEN, &answer, sizeof(answer), 0) ? 1 : 0;
}

/* take() for the question's rule: answers[] counts, and what was granted is told in test_taken. */
SEC("tc")
int test_take(struct __sk_buff *skb)
{
	struct chaos_rule *r;
	struct taken taken;
	struct question q;
	__u32 got;

	if (!ask(skb, &q))
		return 1;
	r = rule_of(q.rule);
	if (!r)
		return 1;
	taken.before_ns = now_ns();
	got = take(q.rule, r);
	taken.after_ns = now_ns();
	if (got > CHAOS_SKIP_COUNT)
		return 1;
	count(&answers[got]);
	if (got == TAKEN && bpf_ringbuf_output(&test_taken, &taken, sizeof(taken), BPF_RB_NO_WAKEUP))
		return 1;
	return 0;
}

/* decide() for one connection after the other: injected[]. */
SEC("tc")
int test_decide(struct __sk_buff *skb)
{
	struct chaos_verdict v = {};
	struct chaos_stats *stats;
	struct chaos_rule *r;
	struct question q;
	bool hit;

	if (!ask(skb, &q))
		return 1;
	r = rule_of(q.rule);
	stats = stats_of(q.rule);
	if (!r || !stats)
		return 1;
	v.rule = q.rule;
	v.connection = q.connection++;
	v.request = q.packet;
	hit = decide(q.rule, r, stats, CHAOS_DROP, unit_throw(r, &v, q.packet), true);
	injected[v.connection & (TEST_CONNECTIONS - 1)] = hit;
	return bpf_skb_store_bytes(skb, ETH_HLEN, &q, sizeof(q), 0) ? 1 : 0;
}

MAP(BPF_MAP_TYPE_HASH, test_sock, __u32, struct chaos_sock, 1);

/* The loss of the packets of one connection, one after the other: injected[]. */
SEC("tc")
int test_loss(struct __sk_buff *skb)
{
	struct chaos_rule *r;
	struct chaos_sock *s;
	struct question q;
	__u32 zero = 0;

	if (!ask(skb, &q))
		return 1;
	r = rule_of(q.rule);
	s = bpf_map_lookup_elem(&test_sock, &zero);
	if (!r || !s)
		return 1;
	s->verdict.connection = q.connection;
	injected[q.packet & (TEST_CONNECTIONS - 1)] = model_loses(s, &s->verdict, r, q.packet);
	q.packet++;
	return bpf_skb_store_bytes(skb, ETH_HLEN, &q, sizeof(q), 0) ? 1 : 0;
}

__u64 paced_until; /* by test_line */

/* Events in the payload behind an Ethernet header. */
SEC("tc")
int test_events(struct __sk_buff *skb)
{
	return chaos_count_events(skb, ETH_HLEN, skb->len - ETH_HLEN);
}

/* Packets that take the line one after the other: question.packet is the cost of each, .connection what follows it, in us. */
SEC("tc")
int test_line(struct __sk_buff *skb)
{
	struct chaos_sock *s;
	struct question q;
	__u32 zero = 0;

	s = bpf_map_lookup_elem(&test_sock, &zero);
	if (!s || !ask(skb, &q))
		return 1;
	paced_until = take_line(s, &s->verdict.pace_until_mono_ns, bpf_ktime_get_ns(), q.packet * 1000ULL, q.connection * 1000ULL);
	return 0;
}

static always int read_packet(struct __sk_buff *skb, __u32 front)
{
	struct packet p = {};

	parsed.ok = parse(skb, &p, front);
	copy16(parsed.source, p.source);
	copy16(parsed.destination, p.destination);
	parsed.transport = p.transport;
	parsed.payload = p.payload;
	parsed.payload_offset = p.payload_offset;
	parsed.seq = p.seq;
	parsed.ack = p.ack;
	parsed.source_port = p.source_port;
	parsed.destination_port = p.destination_port;
	parsed.protocol = p.protocol;
	parsed.tcp_flags = p.tcp_flags;
	parsed.ipv6 = p.ipv6;
	return 1;
}

/* parse() as a device hook sees a packet: with its Ethernet header. */
SEC("tc")
int test_parse_tc(struct __sk_buff *skb)
{
	return read_packet(skb, ETH_HLEN);
}

/* parse() as a socket hook sees it: from the network header on. */
SEC("cgroup_skb/egress")
int test_parse_sock(struct __sk_buff *skb)
{
	return read_packet(skb, 0);
}
