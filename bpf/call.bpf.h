/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The decision for faults inside a process: does a rule name the caller, and is its fault done for this call? The same
 * steps as for connections (core.bpf.h), with two differences. Nothing is kept with anybody: each call is matched anew. And
 * no lock is taken, since the kernel does not let programs on user functions have any (nor touch a map that holds one).
 */
#ifndef CALL_BPF_H
#define CALL_BPF_H

#include "bpf/owner.bpf.h"

MAP(BPF_MAP_TYPE_ARRAY, chaos_call_used, __u32, __u64, CHAOS_MAX_RULES); /* faults done, see chaos_take_call() */
MAP(BPF_MAP_TYPE_HASH, chaos_claims, struct chaos_claim_key, __u64, 65536);
MAP(BPF_MAP_TYPE_LRU_HASH, chaos_callers, struct chaos_caller_key, struct chaos_caller, 16384);
MAP(BPF_MAP_TYPE_ARRAY, chaos_threads, __u32, __u64, CHAOS_MAX_RULES); /* that have called so far, by rule */

MAP(BPF_MAP_TYPE_HASH, chaos_held, __u32, __u64, 4096); /* gpu-oom: bytes, by process */

/* Rules that have ended before their time: [0] because of max-hits, written here; [1] unloaded, written by user space. */
MAP(BPF_MAP_TYPE_ARRAY, chaos_call_over, __u32, struct chaos_vector, 2);

/* So many times is a number claimed before somebody else's progress is taken for a full budget. */
#define CLAIM_TRIES 8

/* chaosbpf itself is never hit, and what it is about to execute is not yet: `chaosbpf stop` must work whatever the rules say. */
static always bool is_own(const struct chaos_owner *owner)
{
	static const char own[] = "chaosbpf";

	for (unsigned int i = 0; i < sizeof(own) - 1; i++) {
		if (owner->comm[i] != own[i])
			return false;
	}
	return true;
}

/* Who is calling; the name only where some rule asks for it. */
static always void current_caller(struct chaos_owner *owner)
{
	owner->cgroup_id = bpf_get_current_cgroup_id();
	owner->netns = 0;
	owner->pid = bpf_get_current_pid_tgid() >> 32;
	owner->uid = (__u32)bpf_get_current_uid_gid();
	__builtin_memset(owner->comm, 0, sizeof(owner->comm));
	if (!knobs.caller_comm)
		return;
	current_comm(owner->comm);
	trim_comm(owner->comm);
	meet_comm(owner);
}

/* The first rule of `set` that names the current process and is in force, or CHAOS_NO_RULE. Fills in the owner. */
static always __u32 rule_for_call(__u32 set, struct chaos_owner *owner)
{
	const struct chaos_vector *rules, *pid, *cgroup, *user, *comm, *over, *unloaded;
	const struct chaos_interval *interval;
	struct chaos_cgroup_key key = {};
	__u32 zero = 0, one = 1, first = 0;
	__u64 found = 0;

	rules = bpf_map_lookup_elem(&chaos_sets, &set);
	interval = interval_at(now_ns());
	if (!rules || !interval)
		return CHAOS_NO_RULE;
	current_caller(owner);
	key.id = owner->cgroup_id;
	pid = set_of(bpf_map_lookup_elem(&chaos_pids, &owner->pid), knobs.wildcard[CHAOS_DIM_PID]);
	cgroup = set_of(bpf_map_lookup_elem(&chaos_cgroups, &key), knobs.wildcard[CHAOS_DIM_CGROUP]);
	user = set_of(bpf_map_lookup_elem(&chaos_users, &owner->uid), knobs.wildcard[CHAOS_DIM_USER]);
	comm = knobs.caller_comm ? comm_rules(owner) : rules;
	over = bpf_map_lookup_elem(&chaos_call_over, &zero);
	unloaded = bpf_map_lookup_elem(&chaos_call_over, &one);
	if (!pid || !cgroup || !user || !comm || !over || !unloaded)
		return CHAOS_NO_RULE;
	for (__u64 w = 0; w < CHAOS_WORDS && w < knobs.words && !found; w++) {
		const __u64 at = w & (CHAOS_WORDS - 1);

		found = rules->word[at] & pid->word[at] & cgroup->word[at] & user->word[at] & comm->word[at] &
			interval->active.word[at] & ~over->word[at] & ~unloaded->word[at];
		first = w * 64;
	}
	if (!found)
		return CHAOS_NO_RULE;
	if (!knobs.caller_comm) {
		current_comm(owner->comm);
		trim_comm(owner->comm);
	}
	return is_own(owner) ? CHAOS_NO_RULE : first + lowest_bit(found);
}

/* ---- the budget ----------------------------------------------------------------------------------------------- */

/* Once for each rule, by whoever took its last hit: so adding its bit is setting it. */
static always void end_call_rule(__u32 rule)
{
	__u32 zero = 0, word = rule / 64;
	struct chaos_vector *over = bpf_map_lookup_elem(&chaos_call_over, &zero);

	asm volatile("" : "+r"(word)); /* see finish_rule() */
	word &= CHAOS_WORDS - 1;
	if (over)
		__sync_fetch_and_add(&over->word[word], 1ULL << (rule % 64));
}

/*
 * May fault `number` of the rule be done, and by us? TAKEN, or why not; CLAIMED when somebody else is just doing it. Whoever
 * comes with a number from long ago finds that `used` has moved on.
 */
#define CLAIMED (TAKEN + 1)

static always __u32 claim(__u32 rule, const struct chaos_rule *r, __u64 *used, __u64 number)
{
	struct chaos_claim_key key = { .rule = rule };
	__u64 now = now_ns(), *earlier;

	if (r->max_hits && number >= r->max_hits)
		return CHAOS_SKIP_MAX_HITS;
	if (r->rate_window_ns && number >= r->rate_count) {
		key.number = number - r->rate_count;
		earlier = bpf_map_lookup_elem(&chaos_claims, &key);
		if (!earlier)
			return CLAIMED;
		if (now < *earlier || now - *earlier < r->rate_window_ns)
			return CHAOS_SKIP_MAX_RATE;
	}
	key.number = number;
	if (bpf_map_update_elem(&chaos_claims, &key, &now, BPF_NOEXIST))
		return CLAIMED;
	if (*(volatile __u64 *)used != number) {
		bpf_map_delete_elem(&chaos_claims, &key);
		return CLAIMED;
	}
	__sync_fetch_and_add(used, 1);
	if (number >= r->rate_count + CHAOS_CLAIMS_KEPT) {
		key.number = number - r->rate_count - CHAOS_CLAIMS_KEPT;
		bpf_map_delete_elem(&chaos_claims, &key);
	}
	if (r->max_hits && number + 1 == r->max_hits)
		end_call_rule(rule);
	return TAKEN;
}

/*
 * As take(): spends one fault of the rule, exactly, on all CPUs together. A global function, which the verifier looks at once
 * and not for each path that leads here.
 */
__noinline __attribute__((weak)) int chaos_take_call(__u32 rule)
{
	struct chaos_rule *r = rule_of(rule);
	__u64 *used = bpf_map_lookup_elem(&chaos_call_used, &rule);
	__u32 answer;

	if (!(knobs.faults & CHAOS_CALLS) || !r || !used)
		return CHAOS_SKIP_MAX_HITS;
	if (!r->max_hits && !r->rate_window_ns)
		return TAKEN;
	for (int i = 0; i < CLAIM_TRIES; i++) {
		answer = claim(rule, r, used, *(volatile __u64 *)used);
		if (answer != CLAIMED)
			return answer;
	}
	return CHAOS_SKIP_MAX_HITS;
}

/* What it returns is any number to the verifier: here it is one of three. */
static always __u32 take_call(__u32 rule)
{
	int answer = chaos_take_call(rule);

	if (answer == TAKEN)
		return TAKEN;
	return answer == CHAOS_SKIP_MAX_RATE ? CHAOS_SKIP_MAX_RATE : CHAOS_SKIP_MAX_HITS;
}

/* ---- deciding ------------------------------------------------------------------------------------------------- */

/* The calling thread under this rule, its present call counted. NULL: no room, which an LRU map always has. */
static always struct chaos_caller *next_call(__u32 rule)
{
	struct chaos_caller_key key = { .tid = (__u32)bpf_get_current_pid_tgid(), .rule = rule };
	struct chaos_caller *caller = bpf_map_lookup_elem(&chaos_callers, &key), fresh = {};
	__u64 *threads;

	if (!caller) {
		threads = bpf_map_lookup_elem(&chaos_threads, &rule);
		if (!threads)
			return NULL;
		__sync_fetch_and_add(threads, 1);
		fresh.thread = *(volatile __u64 *)threads;
		bpf_map_update_elem(&chaos_callers, &key, &fresh, BPF_ANY);
		caller = bpf_map_lookup_elem(&chaos_callers, &key);
	}
	if (caller)
		caller->calls++;
	return caller;
}

/* As decide(): is the fault done for this call of this thread? */
static always bool decide_call(__u32 rule, const struct chaos_rule *r, struct chaos_stats *stats, __u32 fault,
			       const struct chaos_caller *caller, bool possible)
{
	__u32 reason;

	if (!chance(throw(r->seed, caller->thread, caller->calls), at_present(r, r->percent_ppm, &r->percent_ramp)))
		reason = CHAOS_SKIP_PERCENT;
	else
		reason = possible || r->flags & CHAOS_RULE_OBSERVE ? take_call(rule) : CHAOS_SKIP_ASSIST;
	return settle(r, stats, fault, reason);
}

struct call_told {
	__u32 fault;
	__s32 error;
	__u32 operation;      /* of CHAOS_ERRNO */
	__u64 bytes;          /* of CHAOS_GPU_OOM */
	const char *function; /* of the others: CHAOS_FUNCTION_LEN bytes, or NULL */
};

/* As tell(), for a call. */
static always void tell_call(__u32 rule, const struct chaos_owner *owner, const struct chaos_caller *caller,
			     const struct call_told *what)
{
	struct chaos_totals *totals;
	struct chaos_event *e;
	__u32 zero = 0;

	e = bpf_ringbuf_reserve(&chaos_events, sizeof(*e), 0);
	if (!e) {
		totals = bpf_map_lookup_elem(&chaos_totals, &zero);
		if (totals)
			count(&totals->events_dropped);
		return;
	}
	__builtin_memset(e, 0, sizeof(*e));
	e->time_ns = now_ns();
	e->cgroup_id = owner->cgroup_id;
	e->bytes = what->bytes;
	e->connection = caller->thread;
	e->request = caller->calls;
	e->generation = knobs.generation;
	e->rule = rule;
	e->pid = owner->pid;
	e->uid = owner->uid;
	e->error = what->error;
	e->fault = what->fault;
	e->side = what->operation;
	e->kind = CHAOS_EVENT_FAULT;
	if (what->function)
		__builtin_memcpy(e->function, what->function, CHAOS_FUNCTION_LEN);
	__builtin_memcpy(e->comm, owner->comm, sizeof(e->comm));
	bpf_ringbuf_submit(e, 0);
}

#endif
