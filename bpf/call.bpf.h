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
#define CLAIM_TRIES 32

#define PF_KTHREAD 0x00200000

/* ---- who is calling ------------------------------------------------------------------------------------------- */

/* chaosbpf itself is never hit, and what it is about to execute is not yet: `chaosbpf stop` must work whatever the rules say. */
static always bool is_own(const char *comm)
{
	static const char own[] = "chaosbpf";

	for (unsigned int i = 0; i < sizeof(own) - 1; i++) {
		if (comm[i] != own[i])
			return false;
	}
	return true;
}

/* Nor are threads of the kernel, which work for everybody, and the first process, without which there is no machine. */
static always bool is_spared(const struct chaos_owner *owner)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	unsigned int flags = 0;

	if (owner->pid <= 1 || is_own(owner->comm))
		return true;
	bpf_probe_read_kernel(&flags, sizeof(flags), __builtin_preserve_access_index(&task->flags));
	return flags & PF_KTHREAD;
}

/* The name of the calling process, of whatever thread. Programs on functions can read it on every kernel. */
static always void caller_comm(struct chaos_owner *owner)
{
	__builtin_memset(owner->comm, 0, sizeof(owner->comm));
	if (!leader_comm(owner->comm))
		bpf_get_current_comm(owner->comm, sizeof(owner->comm));
	trim_comm(owner->comm);
}

/* What the look-ups said of a caller. No pointer is NULL. */
struct call_matcher {
	const struct chaos_vector *rules, *pid, *cgroup, *user, *comm, *over, *unloaded;
	const struct chaos_interval *interval;
};

/* Rules of word `w` for the caller's process, cgroup and user: what most callers have none of. */
static always __u64 caller_word(const struct call_matcher *m, __u64 w)
{
	return m->rules->word[w] & m->pid->word[w] & m->cgroup->word[w] & m->user->word[w];
}

static always bool is_named(const struct call_matcher *m)
{
	__u64 any = 0;

	for (__u64 w = 0; w < CHAOS_WORDS && w < knobs.words; w++)
		any |= caller_word(m, w & (CHAOS_WORDS - 1));
	return any;
}

/* Does some rule of `set` name the current process? What is cheap comes first. Fills in both. */
static always bool find_caller(__u32 set, struct chaos_owner *owner, struct call_matcher *m)
{
	struct chaos_cgroup_key key = {};
	__u32 zero = 0, one = 1;

	owner->cgroup_id = bpf_get_current_cgroup_id();
	owner->netns = 0;
	owner->pid = bpf_get_current_pid_tgid() >> 32;
	owner->uid = (__u32)bpf_get_current_uid_gid();
	key.id = owner->cgroup_id;
	m->rules = bpf_map_lookup_elem(&chaos_sets, &set);
	m->pid = set_of(bpf_map_lookup_elem(&chaos_pids, &owner->pid), knobs.wildcard[CHAOS_DIM_PID]);
	m->cgroup = set_of(bpf_map_lookup_elem(&chaos_cgroups, &key), knobs.wildcard[CHAOS_DIM_CGROUP]);
	m->user = set_of(bpf_map_lookup_elem(&chaos_users, &owner->uid), knobs.wildcard[CHAOS_DIM_USER]);
	if (!m->rules || !m->pid || !m->cgroup || !m->user || !is_named(m))
		return false;
	caller_comm(owner);
	m->comm = m->rules;
	if (knobs.caller_comm) {
		meet_comm(owner);
		m->comm = comm_rules(owner);
	}
	m->over = bpf_map_lookup_elem(&chaos_call_over, &zero);
	m->unloaded = bpf_map_lookup_elem(&chaos_call_over, &one);
	m->interval = interval_at(now_ns());
	return m->comm && m->over && m->unloaded && m->interval && !is_spared(owner);
}

/* The first rule for the caller that is in force, and among these; or CHAOS_NO_RULE. */
static always __u32 first_rule(const struct call_matcher *m, const struct chaos_vector *among)
{
	__u64 found = 0;
	__u32 first = 0;

	for (__u64 w = 0; w < CHAOS_WORDS && w < knobs.words && !found; w++) {
		const __u64 at = w & (CHAOS_WORDS - 1);

		found = caller_word(m, at) & m->comm->word[at] & m->interval->active.word[at] & ~m->over->word[at] &
			~m->unloaded->word[at] & among->word[at];
		first = w * 64;
	}
	return found ? first + lowest_bit(found) : CHAOS_NO_RULE;
}

/* The first rule of `set` that names the current process and is in force, or CHAOS_NO_RULE. Fills in the owner. */
static always __u32 rule_for_call(__u32 set, struct chaos_owner *owner)
{
	struct call_matcher m = {};

	return find_caller(set, owner, &m) ? first_rule(&m, m.rules) : CHAOS_NO_RULE;
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
	return r->max_hits ? CHAOS_SKIP_MAX_HITS : CHAOS_SKIP_MAX_RATE;
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
	__u64 bytes;          /* of CHAOS_GPU_OOM; of CHAOS_CALL delay_ns: see struct chaos_event */
	const char *function; /* of CHAOS_ERRNO the file's name: CHAOS_FUNCTION_LEN bytes, or NULL */
};

/* As tell(), for a call. */
static always void tell_call(__u32 rule, const struct chaos_owner *owner, const struct chaos_caller *caller,
			     const struct call_told *what)
{
	struct chaos_event *e = begin_event();

	if (!e)
		return;
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
