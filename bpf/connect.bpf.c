// SPDX-License-Identifier: GPL-2.0-only
/*
 * connect() and sendto(): the owner is the current process, the peer is what it named, and `refuse` is done here with
 * the exact errno. Later packets of the connection find the rule that was chosen in the socket's state.
 */
#include "bpf/owner.bpf.h"
#include "bpf/parse.bpf.h"

#define PASS 1
#define DENY 0

#define ECONNREFUSED 111
#define ETIMEDOUT    110
#define ENETUNREACH  101
#define EPERM        1
#define MAX_ERRNO    4095

enum call {
	CALL_CONNECT,
	CALL_SENDTO,
};

static always __u32 protocol_of(const struct bpf_sock_addr *ctx)
{
	return ctx->protocol == IPPROTO_UDP ? CHAOS_UDP : CHAOS_TCP;
}

static always bool is_ours(const struct bpf_sock_addr *ctx)
{
	return (ctx->type == SOCK_STREAM && ctx->protocol == IPPROTO_TCP) ||
	       (ctx->type == SOCK_DGRAM && ctx->protocol == IPPROTO_UDP);
}

/*
 * Before 5.18 a hook cannot choose the errno, but where a connection leads decides it: nobody can listen at port 0, and
 * no route leads to a broadcast or multicast address. EPERM is what a plain no gives. ETIMEDOUT is earned: the SYN is
 * dropped (`decided` holds the drop), and sent again once only, so that it takes three seconds and not two minutes.
 */
static always int refuse_by_address(struct bpf_sock_addr *ctx, struct chaos_sock *s, __s32 error, bool ipv6)
{
	int once = 1;

	switch (error) {
	case ECONNREFUSED:
		if (ipv6) {
			ctx->user_ip6[0] = 0;
			ctx->user_ip6[1] = 0;
			ctx->user_ip6[2] = 0;
			ctx->user_ip6[3] = bpf_htonl(1);
		} else {
			ctx->user_ip4 = bpf_htonl(0x7f000001);
		}
		ctx->user_port = 0;
		return PASS;
	case ENETUNREACH:
		if (ipv6) {
			ctx->user_ip6[0] = bpf_htonl(0xff020000);
			ctx->user_ip6[1] = 0;
			ctx->user_ip6[2] = 0;
			ctx->user_ip6[3] = bpf_htonl(1);
		} else {
			ctx->user_ip4 = 0xffffffff;
		}
		return PASS;
	case ETIMEDOUT:
		bpf_setsockopt(ctx, SOL_TCP, TCP_SYNCNT, &once, sizeof(once));
		s->verdict.decided |= 1 << CHAOS_DROP;
		s->verdict.inject |= 1 << CHAOS_DROP;
		return PASS;
	default:
		return DENY;
	}
}

/*
 * bpf_set_retval with a 64-bit argument: from 7.3 on the verifier wants to see that the value lies in [-4095, 0], and
 * loses sight of it when the compiler sign-extends an int.
 */
static long (*const set_retval)(__s64 value) = (void *)BPF_FUNC_set_retval;

static always int refuse(struct bpf_sock_addr *ctx, struct chaos_sock *s, __s32 error, bool ipv6, enum call call)
{
	if (knobs.set_retval) {
		__u64 value = error & MAX_ERRNO;

		asm volatile("" : "+r"(value)); /* keeps the bound in front of the negation */
		set_retval(-value);
		return DENY;
	}
	if (call == CALL_SENDTO)
		return DENY;
	return refuse_by_address(ctx, s, error, ipv6);
}

static always void decide_refuse(struct flow *f, struct chaos_sock *s, struct chaos_verdict *v, __s32 *error)
{
	struct chaos_stats *stats = stats_of(v->rule);
	struct chaos_rule *r = rule_of(v->rule);

	*error = 0;
	if (!stats || !r || !does(r, CHAOS_REFUSE))
		return;
	count(&stats->seen);
	if (!decide(v->rule, r, stats, CHAOS_REFUSE, unit_throw(r, v, 0), true))
		return;
	tell(v->rule, f, &s->owner, v, CHAOS_REFUSE, 0, r->error);
	*error = r->error;
}

/* A new connection: whatever was known of an earlier attempt on this socket is forgotten. */
static always void begin_connection(struct chaos_sock *s)
{
	__builtin_memset(&s->verdict, 0, sizeof(s->verdict));
	s->side = CHAOS_SIDE_CLIENT;
	s->listener = 0;
	s->burst_open = 0;
	s->burst_held = 0;
	s->sent = 0;
	s->waits = 0;
	s->after_ccs = 0;
	s->name = CHAOS_NAME_OPEN;
	s->stream = CHAOS_STREAM_UNKNOWN;
	s->answers_seen = s->answers;
}

/*
 * sendto() on an unconnected socket decides for one message and leaves the socket's verdict alone: the next message may
 * go to somebody else.
 */
static always int call(struct bpf_sock_addr *ctx, struct flow *f, bool ipv6, enum call call)
{
	struct chaos_verdict single = {}, *v = &single;
	struct bpf_sock *sk = ctx->sk;
	struct chaos_sock *s;
	__s32 error;

	if (!sk)
		return PASS;
	s = sock_state(sk);
	if (!s)
		return PASS;
	current_owner(&s->owner);
	s->owner.netns = bpf_get_netns_cookie(ctx);
	s->known = 1;
	if (!armed())
		return PASS;
	f->protocol = protocol_of(ctx);
	f->side = CHAOS_SIDE_CLIENT;
	f->spared = s->spared;
	f->peer_port = bpf_ntohs(ctx->user_port);
	if (call == CALL_CONNECT) {
		begin_connection(s);
		v = &s->verdict;
	} else if (!(knobs.faults & 1 << CHAOS_REFUSE) || s->side == CHAOS_SIDE_SERVER) {
		return PASS;
	}
	choose_verdict(f, &s->owner, v);
	if (knobs.http)
		add_requests(f, &s->owner, v);
	if (v->rule == CHAOS_NO_RULE)
		return PASS;
	decide_refuse(f, s, v, &error);
	return error ? refuse(ctx, s, error, ipv6, call) : PASS;
}

static always int call4(struct bpf_sock_addr *ctx, enum call which)
{
	struct flow f = {};

	if (!is_ours(ctx))
		return PASS;
	map_ipv4(f.peer, ctx->user_ip4);
	return call(ctx, &f, false, which);
}

static always int call6(struct bpf_sock_addr *ctx, enum call which)
{
	struct flow f = {};
	__u32 *peer = (__u32 *)f.peer;

	if (!is_ours(ctx))
		return PASS;
	peer[0] = ctx->user_ip6[0];
	peer[1] = ctx->user_ip6[1];
	peer[2] = ctx->user_ip6[2];
	peer[3] = ctx->user_ip6[3];
	return call(ctx, &f, true, which);
}

SEC("cgroup/connect4")
int chaos_connect4(struct bpf_sock_addr *ctx)
{
	return call4(ctx, CALL_CONNECT);
}

SEC("cgroup/connect6")
int chaos_connect6(struct bpf_sock_addr *ctx)
{
	return call6(ctx, CALL_CONNECT);
}

SEC("cgroup/sendmsg4")
int chaos_sendmsg4(struct bpf_sock_addr *ctx)
{
	return call4(ctx, CALL_SENDTO);
}

SEC("cgroup/sendmsg6")
int chaos_sendmsg6(struct bpf_sock_addr *ctx)
{
	return call6(ctx, CALL_SENDTO);
}
