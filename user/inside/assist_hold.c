// SPDX-License-Identifier: GPL-2.0-only
/* Inside the assist: calls that do more than return at once. They set errno, or take their time. */
#include "user/inside/assist_internal.h"

#include <bpf/bpf.h>
#include <errno.h>

#include "user/base/clock.h"
#include "user/inside/errno_place.h"

#define LOOK_NS 50000000ULL /* how often it is asked whether the rules of those who wait are in force */

static uint64_t next_end = UINT64_MAX, next_look;

/* ---- errno ------------------------------------------------------------------------------------------------------ */

/* In the file of the function if that has it, else in the C library of the process, which is looked for once. */
static bool find_errno(struct assist_member *process, const struct chaos_return *call, int64_t *offset)
{
	if (call->errno_function)
		return errno_place(process->pid, call->errno_function, offset) == 0;
	if (process->errno_known == ASSIST_UNKNOWN) {
		assist_beat();
		process->errno_known =
			errno_place(process->pid, 0, &process->errno_offset) == 0 ? ASSIST_KNOWN : ASSIST_NOT_TO_BE_HAD;
	}
	*offset = process->errno_offset;
	return process->errno_known == ASSIST_KNOWN;
}

/* Where the thread's errno lies; 0: that cannot be told. */
static uint64_t address_of_errno(struct assist_thread *thread, const struct chaos_return *call)
{
	uint64_t pointer = assist_thread_pointer(thread->tid), word;
	int64_t offset;

	if (!pointer || !find_errno(thread->process, call, &offset) || (pointer + offset) % sizeof(int) != 0 ||
	    !assist_peek(thread->tid, (pointer + offset) & ~7ULL, &word))
		return 0;
	return pointer + offset;
}

/* ---- the call --------------------------------------------------------------------------------------------------- */

bool call_can_be_done(struct assist_thread *thread, const struct chaos_return *call)
{
	bool again;

	return assist_could_return(thread->tid, call, &again) && (!call->error || address_of_errno(thread, call));
}

/*
 * The function runs. A program that sees its beginning a second time is told that this is the same call; otherwise nothing
 * is said, and whatever the thread calls next is another one.
 */
static void let_run(struct assist_thread *thread, const struct chaos_return *call)
{
	struct chaos_return now = *call; /* not held any more */
	uint32_t tid = thread->tid;
	bool again;

	if (!assist_could_return(thread->tid, call, &again) || !again) {
		bpf_map_delete_elem(assist_maps.returns, &tid);
		return;
	}
	now.runs = CHAOS_RUNS_NOW;
	now.held = 0;
	now.time_ns = boot_ns();
	bpf_map_update_elem(assist_maps.returns, &tid, &now, BPF_ANY);
}

void do_call(struct assist_thread *thread, const struct chaos_return *call)
{
	uint64_t address = call->error ? address_of_errno(thread, call) : 0;
	uint32_t tid = thread->tid;

	if (call->runs != CHAOS_RUNS_NEVER) {
		let_run(thread, call);
		return;
	}
	if (address)
		assist_poke(thread->tid, address, call->error);
	assist_return(thread->tid, call);
	bpf_map_delete_elem(assist_maps.returns, &tid);
}

/* ---- waiting ---------------------------------------------------------------------------------------------------- */

void hold_thread(struct assist_thread *thread, const struct chaos_return *call, int sig)
{
	uint32_t tid = thread->tid;

	thread->held_until_ns = boot_ns() + call->delay_ns;
	thread->held_signal = sig;
	thread->held = *call;
	thread->held.held = 1; /* for whoever asks whether all is over */
	bpf_map_update_elem(assist_maps.returns, &tid, &thread->held, BPF_ANY);
	if (thread->held_until_ns < next_end)
		next_end = thread->held_until_ns;
}

void end_hold(struct assist_thread *thread)
{
	if (!thread->held_until_ns)
		return;
	thread->held_until_ns = 0;
	do_call(thread, &thread->held);
	go_on(thread, thread->held_signal);
}

/* As interval_at() of bpf/core.bpf.h. */
static bool interval_at(uint64_t now, struct chaos_interval *interval)
{
	uint32_t zero = 0, first = 0, last;

	if (bpf_map_lookup_elem(assist_maps.intervals, &zero, &last))
		return false;
	while (first < last) {
		uint32_t middle = first + (last - first) / 2;

		if (bpf_map_lookup_elem(assist_maps.schedule, &middle, interval))
			return false;
		if (interval->until_ns > now)
			last = middle;
		else
			first = middle + 1;
	}
	return bpf_map_lookup_elem(assist_maps.schedule, &first, interval) == 0 && interval->until_ns > now;
}

/* Its load is armed, its time is not over, and nobody has unloaded it. That its budget is used up ends no call. */
static bool is_in_force(const struct chaos_return *call)
{
	uint32_t zero = 0, one = 1, word = call->rule / 64 % CHAOS_WORDS;
	const uint64_t bit = 1ULL << (call->rule % 64);
	struct chaos_control control;
	struct chaos_interval interval;
	struct chaos_vector unloaded;

	if (assist_maps.control < 0)
		return true;
	return bpf_map_lookup_elem(assist_maps.control, &zero, &control) == 0 &&
	       control.generation == call->generation && interval_at(boot_ns(), &interval) &&
	       interval.active.word[word] & bit && bpf_map_lookup_elem(assist_maps.over, &one, &unloaded) == 0 &&
	       !(unloaded.word[word] & bit);
}

static uint64_t now;

static void look_at_hold(struct assist_thread *thread)
{
	if (!thread->held_until_ns)
		return;
	if (thread->held_until_ns <= now || (next_look <= now && !is_in_force(&thread->held)))
		end_hold(thread);
	else if (thread->held_until_ns < next_end)
		next_end = thread->held_until_ns;
}

uint64_t end_holds(void)
{
	if (next_end == UINT64_MAX)
		return UINT64_MAX;
	now = boot_ns();
	if (now < next_end && now < next_look)
		return next_end < next_look ? next_end : next_look;
	next_end = UINT64_MAX;
	threads_each(NULL, look_at_hold);
	if (next_look <= now)
		next_look = now + LOOK_NS;
	return next_end < next_look ? next_end : next_look;
}
