// SPDX-License-Identifier: GPL-2.0-only
/* A stand-in for bpf/call.bpf.c: by the dice, a call is to return at once. */
#include "bpf/chaos.h"

#include <linux/ptrace.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "tests/bpf/assist_test.h"

#define SIGURG 23

#define TEST_MAP(kind, map, key_type, value_type, entries)                                                             \
	struct {                                                                                                       \
		__uint(type, kind);                                                                                    \
		__uint(max_entries, entries);                                                                          \
		__type(key, key_type);                                                                                 \
		__type(value, value_type);                                                                             \
	} map SEC(".maps")

TEST_MAP(BPF_MAP_TYPE_HASH, chaos_returns, __u32, struct chaos_return, CHAOS_MAX_RETURNS);
TEST_MAP(BPF_MAP_TYPE_HASH, chaos_traced, __u32, __u32, CHAOS_MAX_TRACED);
TEST_MAP(BPF_MAP_TYPE_ARRAY, chaos_assist, __u32, __u64, 1);
TEST_MAP(BPF_MAP_TYPE_ARRAY, chaos_assist_failed, __u32, __u64, CHAOS_MAX_RULES);
TEST_MAP(BPF_MAP_TYPE_ARRAY, test_knobs, __u32, struct assist_test_knobs, 1);
TEST_MAP(BPF_MAP_TYPE_ARRAY, test_counts, __u32, struct assist_test_counts, 1);
TEST_MAP(BPF_MAP_TYPE_HASH, test_rets, __u64, __u64, 64); /* from a function's address to that of a `ret` */

/* Empty: see test_entry(). */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} test_nowhere SEC(".maps");

char LICENSE[] SEC("license") = "GPL";

typedef struct {
	unsigned long sig[1];
} sigset_t;

struct task_struct {
	sigset_t blocked;
	unsigned int ptrace;
} __attribute__((preserve_access_index));

static __always_inline int is_blocked(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return BPF_CORE_READ(task, blocked.sig[0]) >> (SIGURG - 1) & 1;
}

/* Is the assist there for this process? */
static __always_inline int is_served(struct assist_test_counts *counts)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32, zero = 0;
	volatile __u64 *beat = bpf_map_lookup_elem(&chaos_assist, &zero);
	__u64 last = beat ? *beat : 0; /* before the clock is read: a later one would seem very old */
	struct task_struct *task = (void *)bpf_get_current_task();

	/* A thread that nobody traces would be sent the signal for nothing: the assist has just been killed. */
	if (!bpf_map_lookup_elem(&chaos_traced, &tgid) || !BPF_CORE_READ(task, ptrace)) {
		__sync_fetch_and_add(&counts->untraced, 1);
		return 0;
	}
	if (bpf_ktime_get_boot_ns() - last > CHAOS_ASSIST_STALE_NS) {
		__sync_fetch_and_add(&counts->silent, 1);
		return 0;
	}
	return 1;
}

/*
 * From 6.13 on, programs of this kind have their stack in memory of the CPU, once they need 64 bytes of it. On a user function
 * they can be preempted, and then the next one overwrites it. A program that may call a tail keeps the kernel's stack.
 */
SEC("uprobe")
int test_entry(struct pt_regs *ctx)
{
	__u32 tid = (__u32)bpf_get_current_pid_tgid(), zero = 0;
	struct assist_test_counts *counts = bpf_map_lookup_elem(&test_counts, &zero);
	struct assist_test_knobs *knobs = bpf_map_lookup_elem(&test_knobs, &zero);
	struct chaos_return call = { .entry = PT_REGS_IP(ctx), .sp = PT_REGS_SP(ctx) }, *old;
	__u64 *ret;

	if (!counts || !knobs)
		return 0;
	if (knobs->flags & ASSIST_TEST_NEVER)
		bpf_tail_call(ctx, &test_nowhere, 0);
	__sync_fetch_and_add(&counts->calls, 1);
	if (bpf_get_prandom_u32() % 100 >= knobs->percent || !is_served(counts))
		return 0;
	if (!(knobs->flags & ASSIST_TEST_BLOCKED) && is_blocked()) {
		__sync_fetch_and_add(&counts->blocked, 1);
		return 0;
	}
	old = bpf_map_lookup_elem(&chaos_returns, &tid);
	if (old && old->runs == CHAOS_RUNS_NOW && old->entry == call.entry && old->sp == call.sp) {
		bpf_map_delete_elem(&chaos_returns, &tid);
		__sync_fetch_and_add(&counts->again, 1);
		return 0;
	}
	ret = bpf_map_lookup_elem(&test_rets, &call.entry);
	call.ret = ret ? *ret : 0;
	call.value = knobs->value;
	call.delay_ns = knobs->delay_ns;
	call.runs = knobs->runs;
	call.error = knobs->error;
	call.time_ns = bpf_ktime_get_boot_ns();
	if (old && old->entry == call.entry && old->sp == call.sp)
		__sync_fetch_and_add(&counts->again, 1);
	else if (old)
		__sync_fetch_and_add(&counts->stale, 1);
	if (bpf_map_update_elem(&chaos_returns, &tid, &call, BPF_ANY))
		return 0;
	if (bpf_send_signal_thread(SIGURG)) {
		__sync_fetch_and_add(&counts->refused, 1);
		bpf_map_delete_elem(&chaos_returns, &tid);
		return 0;
	}
	__sync_fetch_and_add(&counts->sent, 1);
	return 0;
}

SEC("uretprobe")
int test_return(void *ctx)
{
	__u32 zero = 0;
	struct assist_test_counts *counts = bpf_map_lookup_elem(&test_counts, &zero);

	(void)ctx;
	if (counts)
		__sync_fetch_and_add(&counts->returns, 1);
	return 0;
}
