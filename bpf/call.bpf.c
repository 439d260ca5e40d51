// SPDX-License-Identifier: GPL-2.0-only
/*
 * `gpu-oom` and `call`: functions of libraries return at once with the result of the rule, and their body never runs.
 *
 * One program is on the first instruction of every function that a rule names, one more on the return of those whose
 * result matters. Where the kernel lets a program write registers (6.18 on), it sends the thread to a `ret` instruction
 * with the result in its place. Elsewhere, and everywhere for errno and delays, it leaves a note and stops the thread with
 * a signal, and the assist (user/inside/assist.c), which traces the process, does the rest.
 */
#include <asm/ptrace.h>

#include "bpf/call.bpf.h"
#include "bpf/point.bpf.h"

#define SIGURG 23

MAP(BPF_MAP_TYPE_ARRAY, chaos_files, __u32, struct chaos_file, CHAOS_MAX_FILES); /* nothing here looks at it */

MAP(BPF_MAP_TYPE_LRU_HASH, chaos_frames, __u32, struct chaos_frame, 4096); /* by thread: its outermost call */
MAP(BPF_MAP_TYPE_LRU_HASH, chaos_last_error, __u64, __u64, 4096);          /* by thread and API */
MAP(BPF_MAP_TYPE_HASH, chaos_blocks, struct chaos_block_key, __u64, CHAOS_MAX_BLOCKS);

MAP(BPF_MAP_TYPE_HASH, chaos_returns, __u32, struct chaos_return, CHAOS_MAX_RETURNS); /* by thread */
MAP(BPF_MAP_TYPE_HASH, chaos_traced, __u32, __u32, CHAOS_MAX_TRACED); /* processes whose threads are all seized */
MAP(BPF_MAP_TYPE_ARRAY, chaos_assist, __u32, __u64, 1);               /* its last sign of life */
MAP(BPF_MAP_TYPE_ARRAY, chaos_assist_failed, __u32, __u64, CHAOS_MAX_RULES);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} chaos_begun SEC(".maps");

/* ---- what it was given ------------------------------------------------------------------------------------------ */

static always __u64 argument(const struct call *call, __u8 number)
{
	switch (number) {
	case 1:
		return call->first;
	case 2:
		return call->second;
	case 3:
		return call->third;
	case 4:
		return call->fourth;
	case 5:
		return call->fifth;
	default:
		return 0;
	}
}

/* Width, height and depth of a struct cudaExtent: three words by value, which x86-64 and aarch64 both pass in memory. */
static always __u64 extent_size(const struct call *call)
{
	__u64 extent[3] = {};
#ifdef __TARGET_ARCH_x86
	const __u64 at = call->sp + RETURN_ADDRESS;
#else
	const __u64 at = call->second;
#endif

	if (bpf_probe_read_user(extent, sizeof(extent), (void *)at))
		return 0;
	return extent[0] * (extent[1] ? extent[1] : 1) * (extent[2] ? extent[2] : 1);
}

/* How much is asked for; 0 where a call does not say it in its arguments. */
static always __u64 bytes_asked(const struct call *call)
{
	const struct chaos_point *point = call->point;
	__u64 bytes = 1;

	if (point->extent)
		return extent_size(call);
	if (!point->size_args[0])
		return 0;
	for (int i = 0; i < CHAOS_SIZE_ARGS; i++) {
		__u64 value = argument(call, point->size_args[i]);

		if (!point->size_args[i])
			break;
		bytes *= point->size_bits == 32 ? (__u32)value : value;
	}
	return bytes;
}

/* ---- returning at once ------------------------------------------------------------------------------------------ */

#if defined(__TARGET_ARCH_x86)
/*
 * To a `ret` instruction, with the stack as it is: shadow stacks stay right, and a probe on the function's return, which puts
 * an address of its own there after this, sees the call come back.
 */
static always bool write_registers(const struct call *call, __s64 value)
{
	struct pt_regs *ctx = call->ctx;

	if (!call->point->ret)
		return false;
	ctx->rip = PT_REGS_IP(ctx) + call->point->ret;
	ctx->rax = value;
	return true;
}
#elif defined(__TARGET_ARCH_arm64)
static always bool write_registers(const struct call *call, __s64 value)
{
	struct user_pt_regs *ctx = (void *)call->ctx;

	ctx->pc = ctx->regs[30];
	ctx->regs[0] = value;
	return true;
}
#endif

/*
 * Would the assist see this thread stop? Its sign of life is read before the clock, or it could be newer than that. A thread
 * that nobody traces is one whose assist has died.
 */
static always bool assist_can(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	__u32 zero = 0, pid = bpf_get_current_pid_tgid() >> 32;
	__u64 *alive = bpf_map_lookup_elem(&chaos_assist, &zero), last;
	unsigned long blocked = 0;

	if (!alive || !bpf_map_lookup_elem(&chaos_traced, &pid) || !BPF_CORE_READ(task, ptrace))
		return false;
	last = *(volatile __u64 *)alive;
	if (now_ns() > last + CHAOS_ASSIST_STALE_NS)
		return false;
	if (bpf_probe_read_kernel(&blocked, sizeof(blocked), __builtin_preserve_access_index(&task->blocked.sig[0])))
		return false;
	return !(blocked & 1UL << (SIGURG - 1));
}

/* NULL for `r`: what no rule says by itself. */
static always bool leave_note(const struct call *call, __u32 rule, const struct chaos_rule *r, __s64 value)
{
	struct chaos_return note = {
		.entry = PT_REGS_IP(call->ctx),
		.sp = call->sp,
		.value = value,
		.time_ns = now_ns(),
		.generation = knobs.generation,
		.rule = rule,
		.point = call->number,
	};

	if (call->point->ret)
		note.ret = note.entry + call->point->ret;
	if (r && r->flags & CHAOS_RULE_ASSIST) {
		note.delay_ns = r->delay_ns;
		note.error = r->error;
		note.runs = r->flags & CHAOS_RULE_RUNS ? CHAOS_RUNS_LATER : CHAOS_RUNS_NEVER;
		if (call->point->errno_function)
			note.errno_function = note.entry + call->point->errno_function;
	}
	if (bpf_map_update_elem(&chaos_returns, &call->tid, &note, BPF_ANY))
		return false;
	if (bpf_send_signal_thread(SIGURG) == 0)
		return true;
	bpf_map_delete_elem(&chaos_returns, &call->tid);
	return false;
}

/* Is this rule's fault the assist's to do? Without such a rule in the load, nothing of it is in the program. */
static always bool by_assist(const struct chaos_rule *r)
{
	return knobs.assist && (!knobs.registers || (r && r->flags & CHAOS_RULE_ASSIST));
}

static always bool is_possible(const struct chaos_rule *r)
{
	return !by_assist(r) || assist_can();
}

static always bool return_at_once(const struct call *call, __u32 rule, const struct chaos_rule *r, __s64 value)
{
	return by_assist(r) ? leave_note(call, rule, r, value) : write_registers(call, value);
}

/*
 * A signal that arrives before the first instruction has been stepped has the kernel come here again for the same call: it
 * has been decided.
 */
static always bool is_decided(const struct call *call)
{
	struct chaos_return *note;

	if (!knobs.assist)
		return false;
	note = bpf_map_lookup_elem(&chaos_returns, &call->tid);
	/* An old note is one that nobody has taken away: the assist was killed. */
	if (!note || note->sp != call->sp || note->entry != PT_REGS_IP(call->ctx) ||
	    now_ns() >= note->time_ns + CHAOS_ASSIST_STALE_NS)
		return false;
	if (note->runs == CHAOS_RUNS_NOW)
		bpf_map_delete_elem(&chaos_returns, &call->tid);
	return true;
}

/* ---- deciding --------------------------------------------------------------------------------------------------- */

struct decided {
	struct chaos_owner owner;
	struct chaos_rule *r;
	struct chaos_stats *stats;
	struct chaos_caller *caller;
	__u32 rule;
};

static always bool find_rule(const struct call *call, struct decided *d)
{
	d->rule = rule_for_call(call->point->set, &d->owner);
	if (d->rule == CHAOS_NO_RULE)
		return false;
	d->r = rule_of(d->rule);
	d->stats = stats_of(d->rule);
	return d->r && d->stats;
}

/* It was decided, and cannot be done after all. */
static always void take_back(struct decided *d, __u32 fault)
{
	__sync_fetch_and_add(&d->stats->injected, -1);
	if (fault < CHAOS_FAULT_COUNT)
		__sync_fetch_and_add(&d->stats->faults[fault], -1);
	count(&d->stats->skipped[CHAOS_SKIP_ASSIST]);
}

static always bool inject(const struct call *call, struct decided *d, __s64 value)
{
	struct chaos_point_stats *counted = bpf_map_lookup_elem(&chaos_pointstats, &call->number);

	if (!return_at_once(call, d->rule, d->r, value))
		return false;
	count(&d->stats->packets);
	if (counted)
		count(&counted->injected);
	return true;
}

static always void tell_of(const struct call *call, struct decided *d, __u32 fault, __u64 bytes)
{
	const struct call_told what = { .fault = fault,
					.error = fault == CHAOS_CALL ? d->r->error : 0,
					.bytes = bytes,
					.function = call->point->function };

	tell_call(d->rule, &d->owner, d->caller, &what);
}

static always void enter_function(const struct call *call, struct decided *d)
{
	count(&d->stats->seen);
	d->caller = next_call(d->rule);
	if (!d->caller || !decide_call(d->rule, d->r, d->stats, CHAOS_CALL, d->caller, is_possible(d->r)))
		return;
	if (inject(call, d, d->r->returns))
		tell_of(call, d, CHAOS_CALL, d->r->delay_ns);
	else
		take_back(d, CHAOS_CALL);
}

/* ---- GPU memory --------------------------------------------------------------------------------------------------- */

static always __u64 bytes_held(__u32 pid)
{
	__u64 *held = bpf_map_lookup_elem(&chaos_held, &pid);

	return held ? *held : 0;
}

/*
 * The runtime calls its own functions, and the driver's: what is below a call of this thread is a part of it. On the same
 * stack there may be a function that it ended with a jump to, or the same call once more: the kernel comes here again when
 * it could not step over the first instruction.
 */
static always bool is_nested(const struct call *call)
{
	struct chaos_frame *frame = bpf_map_lookup_elem(&chaos_frames, &call->tid);

	return frame && frame->sp >= call->sp;
}

static always __u64 error_key(__u32 tid, __u8 api)
{
	return (__u64)api << 32 | tid;
}

/* A call that did not run has not set the thread's last error: the next question for it is answered in its place. */
static always void set_last_error(const struct call *call, __u64 error)
{
	__u64 key = error_key(call->tid, call->point->api);

	if (call->point->api != CHAOS_GPU_DRIVER)
		bpf_map_update_elem(&chaos_last_error, &key, &error, BPF_ANY);
}

/* Is this one to fail? The first failure is decided by the rule, the rest of those in a row follow from it. */
static always bool decide_failure(struct decided *d, bool *first)
{
	*first = false;
	if (d->caller->failing) {
		if (!is_possible(d->r)) {
			d->caller->failing = 0;
			return settle(d->r, d->stats, CHAOS_GPU_OOM, CHAOS_SKIP_ASSIST);
		}
		d->caller->failing--;
		return true;
	}
	*first = true;
	if (!decide_call(d->rule, d->r, d->stats, CHAOS_GPU_OOM, d->caller, is_possible(d->r)))
		return false;
	d->caller->failing = d->r->failures ? d->r->failures - 1 : 0;
	return true;
}

static always bool fail_allocation(const struct call *call, struct decided *d, __u64 bytes)
{
	bool first;

	if (bytes < d->r->min_bytes)
		return false;
	if (d->r->above_bytes && bytes_held(d->owner.pid) + bytes <= d->r->above_bytes)
		return false;
	d->caller = next_call(d->rule);
	if (!d->caller || !decide_failure(d, &first))
		return false;
	if (!inject(call, d, d->r->returns)) {
		if (first)
			take_back(d, CHAOS_GPU_OOM);
		return false;
	}
	set_last_error(call, d->r->returns);
	if (first)
		tell_of(call, d, CHAOS_GPU_OOM, bytes);
	return true;
}

static always void wait_for_return(const struct call *call, __u64 bytes)
{
	struct chaos_frame frame = { .sp = call->sp, .point = call->number, .bytes = bytes };

	frame.out[0] = argument(call, call->point->role == CHAOS_ROLE_INFO ? 1 : call->point->out_arg);
	frame.out[1] = argument(call, 2);
	bpf_map_update_elem(&chaos_frames, &call->tid, &frame, BPF_ANY);
}

static always void enter_allocate(const struct call *call, struct decided *d)
{
	const __u64 bytes = bytes_asked(call);

	if (is_nested(call))
		return;
	count(&d->stats->seen);
	fail_allocation(call, d, bytes);
	wait_for_return(call, bytes);
}

static always void enter_free(const struct call *call)
{
	struct chaos_block_key key = { .pid = bpf_get_current_pid_tgid() >> 32 };
	__u64 *held, *bytes;

	if (!knobs.ceiling)
		return;
	key.address = argument(call, call->point->freed_arg);
	held = bpf_map_lookup_elem(&chaos_held, &key.pid);
	bytes = bpf_map_lookup_elem(&chaos_blocks, &key);
	if (!held || !bytes)
		return;
	__sync_fetch_and_add(held, -*bytes);
	bpf_map_delete_elem(&chaos_blocks, &key);
}

static always void enter_error(const struct call *call)
{
	__u64 key = error_key(call->tid, call->point->api), *error = bpf_map_lookup_elem(&chaos_last_error, &key),
	      value;

	if (!error)
		return;
	value = *error;
	if (call->point->role == CHAOS_ROLE_GET_ERROR)
		bpf_map_delete_elem(&chaos_last_error, &key);
	if (is_possible(NULL))
		return_at_once(call, CHAOS_NO_RULE, NULL, value);
}

static always void enter(const struct call *call)
{
	struct chaos_point_stats *counted;
	struct decided d = {};

	if (is_decided(call))
		return;
	counted = bpf_map_lookup_elem(&chaos_pointstats, &call->number);
	if (counted)
		count(&counted->calls);
	if (call->point->role == CHAOS_ROLE_FREE)
		return enter_free(call);
	if (call->point->role >= CHAOS_ROLE_GET_ERROR)
		return enter_error(call);
	if (!find_rule(call, &d))
		return;
	if (call->point->role == CHAOS_ROLE_INFO)
		return wait_for_return(call, 0);
	if (does(d.r, CHAOS_CALL))
		return enter_function(call, &d);
	if (does(d.r, CHAOS_GPU_OOM))
		enter_allocate(call, &d);
}

SEC("uprobe")
int chaos_enter(struct pt_regs *ctx)
{
	struct call call = {};

	own_stack(ctx);
	if (armed() && find_point(ctx, &call))
		enter(&call);
	return 0;
}

/*
 * A process of a rule has begun a program: the assist traces it, as soon as that can be; before it is, its calls are skipped.
 * Children of those that are traced already are traced from birth.
 */
SEC("raw_tp/sched_process_exec")
int chaos_exec(struct bpf_raw_tracepoint_args *ctx)
{
	struct chaos_owner owner = {};

	(void)ctx;
	if (rule_for_call(knobs.assisted, &owner) == CHAOS_NO_RULE || bpf_map_lookup_elem(&chaos_traced, &owner.pid))
		return 0;
	bpf_ringbuf_output(&chaos_begun, &owner.pid, sizeof(owner.pid),
			   0); /* without room it is found a little later */
	return 0;
}

/* ---- the way back -------------------------------------------------------------------------------------------------- */

/* An allocation has succeeded: what it gave belongs to the process. */
static always void hold(const struct chaos_frame *frame)
{
	struct chaos_block_key key = { .pid = bpf_get_current_pid_tgid() >> 32 };
	__u64 nothing = 0, *held;

	if (!frame->bytes || bpf_probe_read_user(&key.address, sizeof(key.address), (void *)frame->out[0]))
		return;
	held = bpf_map_lookup_elem(&chaos_held, &key.pid);
	if (!held) {
		bpf_map_update_elem(&chaos_held, &key.pid, &nothing, BPF_NOEXIST);
		held = bpf_map_lookup_elem(&chaos_held, &key.pid);
	}
	if (held && !bpf_map_update_elem(&chaos_blocks, &key, &frame->bytes, BPF_NOEXIST))
		__sync_fetch_and_add(held, frame->bytes);
}

/* cudaMemGetInfo tells the same story: so much there is, and what the process holds is gone from it. */
static always void shrink(const struct chaos_frame *frame, const struct chaos_point *point)
{
	struct chaos_owner owner = {};
	__u32 rule = rule_for_call(point->set, &owner);
	struct chaos_rule *r = rule_of(rule);
	__u64 free = 0, total = 0, held, left;

	if (!r || !r->above_bytes)
		return;
	if (bpf_probe_read_user(&free, sizeof(free), (void *)frame->out[0]) ||
	    bpf_probe_read_user(&total, sizeof(total), (void *)frame->out[1]))
		return;
	held = bytes_held(owner.pid);
	left = held < r->above_bytes ? r->above_bytes - held : 0;
	if (left < free)
		bpf_probe_write_user((void *)frame->out[0], &left, sizeof(left));
	if (r->above_bytes < total)
		bpf_probe_write_user((void *)frame->out[1], &r->above_bytes, sizeof(r->above_bytes));
}

SEC("uretprobe")
int chaos_leave(struct pt_regs *ctx)
{
	__u32 tid = current_tid();
	struct chaos_frame *found = bpf_map_lookup_elem(&chaos_frames, &tid), frame;
	const struct chaos_point *point;

	own_stack(ctx);
	/* The return address has been taken off by now; a call below the outermost one finds other numbers. */
	if (!found || found->sp + RETURN_ADDRESS != PT_REGS_SP(ctx))
		return 0;
	frame = *found;
	bpf_map_delete_elem(&chaos_frames, &tid);
	point = bpf_map_lookup_elem(&chaos_points, &frame.point);
	if (!point || !armed() || !knobs.ceiling || (__u32)PT_REGS_RC(ctx) != 0)
		return 0;
	if (point->role == CHAOS_ROLE_ALLOCATE && point->device)
		hold(&frame);
	if (knobs.write_user && point->role == CHAOS_ROLE_INFO)
		shrink(&frame, point);
	return 0;
}
