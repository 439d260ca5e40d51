// SPDX-License-Identifier: GPL-2.0-only
/* The baseline of the bench: what it costs to have any program at all on a socket's packets. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("cgroup_skb/egress")
int empty_egress(struct __sk_buff *skb)
{
	(void)skb;
	return 1;
}

SEC("cgroup_skb/ingress")
int empty_ingress(struct __sk_buff *skb)
{
	(void)skb;
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
