// SPDX-License-Identifier: GPL-2.0-only
/* `errno`: an operation of a named process fails with the error of the rule, in the kernel's own security hooks. */
#include "bpf/call.bpf.h"

#define CLONE_THREAD 0x10000

/* What the operation is to return: 0 lets it go on. */
static always int refuse_operation(__u32 operation, int already)
{
	struct call_told what = { .fault = CHAOS_ERRNO, .operation = operation };
	struct chaos_owner owner = {};
	struct chaos_caller *caller;
	struct chaos_stats *stats;
	struct chaos_rule *r;
	__u32 rule;

	if (already || operation >= CHAOS_OPERATION_COUNT || !armed())
		return already;
	rule = rule_for_call(knobs.operations[operation], &owner);
	r = rule_of(rule);
	stats = stats_of(rule);
	if (!r || !stats)
		return 0;
	count(&stats->seen);
	caller = next_call(rule);
	if (!caller || !decide_call(rule, r, stats, CHAOS_ERRNO, caller, true))
		return 0;
	what.error = r->error;
	tell_call(rule, &owner, caller, &what);
	return -r->error;
}

SEC("fmod_ret/security_socket_create")
int chaos_socket(unsigned long long *ctx)
{
	return refuse_operation(CHAOS_SOCKET, (int)ctx[4]);
}
