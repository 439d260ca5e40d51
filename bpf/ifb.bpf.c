// SPDX-License-Identifier: GPL-2.0-only
/* Packets on their way through our ifb: who is sent there, and how long it waits. See ifb.bpf.h. */
#include "bpf/break.bpf.h"
#include "bpf/ifb.bpf.h"

/* Not a verdict but a match (0: none, -1: yes): a filter with an action of its own. */
SEC("tc")
int chaos_tc_pick(struct __sk_buff *skb)
{
	return skb->cb[0] == HELD ? -1 : 0;
}

/* A copy of the first `keep` bytes of payload. False: it is to be lost. */
static __noinline __attribute__((unused)) int end_copy(struct __sk_buff *skb, __u32 keep)
{
	const __s32 network = network_offset(skb);
	struct packet p = {};

	return network >= 0 && parse(skb, &p, network) && keep < p.payload &&
	       set_flags(skb, network + p.transport, p.tcp_flags & ~TCP_FIN) && keep_payload(skb, network, &p, keep);
}

SEC("tc")
int chaos_tc_ifb(struct __sk_buff *skb)
{
	__u64 until;

	if (skb->cb[0] != HELD)
		return TC_ACT_UNSPEC;
	until = (__u64)skb->cb[2] << 32 | skb->cb[1];
	if (knobs.splits_arriving && skb->cb[3] && !end_copy(skb, skb->cb[3]))
		return TC_ACT_SHOT;
	skb->cb[0] = 0;    /* the program of another load may follow */
	skb->priority = 0; /* fq lets none of its fast lane wait */
	if (knobs.set_tstamp)
		bpf_skb_set_tstamp(skb, until, DELIVERY_MONO);
	else
		skb->tstamp = until;
	return TC_ACT_UNSPEC;
}
