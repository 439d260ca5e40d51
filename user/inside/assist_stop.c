// SPDX-License-Identifier: GPL-2.0-only
/* Inside the assist: a traced thread has stopped, and goes on as soon as it is known how. */
#include "user/inside/assist_internal.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#define PEEK_SIGNALS 8

static bool is_ours(const siginfo_t *info)
{
	return info->si_signo == SIGURG && info->si_code == SI_KERNEL && info->si_pid == 0;
}

/* Is a signal of ours waiting behind the one that is being delivered? */
static bool is_ours_pending(pid_t tid)
{
	siginfo_t info[PEEK_SIGNALS];
	struct __ptrace_peeksiginfo_args args = { .nr = PEEK_SIGNALS };
	long found;

	for (;;) {
		found = ptrace(PTRACE_PEEKSIGINFO, tid, &args, info);
		for (long i = 0; i < found; i++) {
			if (is_ours(&info[i]))
				return true;
		}
		if (found < PEEK_SIGNALS)
			return false;
		args.off += found;
	}
}

/* Faults that the thread's own instruction made: that instruction has not been done. */
static bool is_own_fault(int sig, const siginfo_t *info)
{
	return (sig == SIGSEGV || sig == SIGBUS || sig == SIGILL || sig == SIGFPE || sig == SIGTRAP || sig == SIGSYS) &&
	       info->si_code > 0;
}

bool assist_peek(pid_t tid, uint64_t address, uint64_t *word)
{
	errno = 0;
	*word = ptrace(PTRACE_PEEKDATA, tid, address, 0);
	return errno == 0;
}

bool assist_poke(pid_t tid, uint64_t address, uint32_t value)
{
	const uint64_t at = address & ~7ULL;
	uint64_t word;

	if (!assist_peek(tid, at, &word))
		return false;
	memcpy((char *)&word + (address - at), &value, sizeof(value));
	return ptrace(PTRACE_POKEDATA, tid, at, word) == 0;
}

static void count_failed(uint32_t rule)
{
	uint64_t failed;

	if (bpf_map_lookup_elem(assist_maps.failed, &rule, &failed))
		return;
	failed++;
	bpf_map_update_elem(assist_maps.failed, &rule, &failed, BPF_ANY);
}

void drop_call(pid_t tid)
{
	struct chaos_return call;
	uint32_t key = tid;

	if (bpf_map_lookup_elem(assist_maps.returns, &key, &call))
		return;
	if (call.runs != CHAOS_RUNS_NOW && !call.held)
		count_failed(call.rule);
	bpf_map_delete_elem(assist_maps.returns, &key);
}

/* Of a call that does more than return. -1: the thread waits, and goes on later. */
static int deliver_special(struct assist_thread *thread, const struct chaos_return *call, int sig, bool ours)
{
	uint32_t tid = thread->tid;

	if (!call_can_be_done(thread, call)) {
		if (!ours)
			return sig;
		count_failed(call->rule);
		bpf_map_delete_elem(assist_maps.returns, &tid);
		return 0;
	}
	thread->owed = !ours && is_ours_pending(thread->tid);
	if (!call->delay_ns) {
		do_call(thread, call);
		return ours ? 0 : sig;
	}
	hold_thread(thread, call, ours ? 0 : sig);
	return -1;
}

/*
 * The signal is about to be delivered: returns the one that is, 0, or -1 when the thread stays where it is. A call waits for
 * its return from whatever signal comes first: were that one's handler begun, the thread would not be at the entry any more
 * when ours comes. Killed between the registers and the record, the assist leaves a record that the thread's next call
 * overwrites.
 */
static int deliver(struct assist_thread *thread, int sig)
{
	uint32_t tid = thread->tid;
	struct chaos_return call;
	bool waits = bpf_map_lookup_elem(assist_maps.returns, &tid, &call) == 0 && call.runs != CHAOS_RUNS_NOW, ours;
	siginfo_t info;

	if (!waits && (sig != SIGURG || !thread->owed))
		return sig;
	if (ptrace(PTRACE_GETSIGINFO, thread->tid, 0, &info))
		return sig;
	ours = is_ours(&info);
	if (!waits) {
		if (!ours)
			return sig;
		thread->owed = false;
		return 0;
	}
	if (is_own_fault(sig, &info))
		return sig;
	if (call.delay_ns || call.error)
		return deliver_special(thread, &call, sig, ours);
	if (assist_return(thread->tid, &call) == ASSIST_RETURNED)
		thread->owed = !ours && is_ours_pending(thread->tid);
	else if (ours)
		count_failed(call.rule);
	else
		return sig;
	bpf_map_delete_elem(assist_maps.returns, &tid);
	return ours ? 0 : sig;
}

/* Let go, unless a signal of ours would then be delivered: that one's stop is waited for. */
static bool let_go(struct assist_thread *thread, int sig)
{
	if (!thread->process->leaving || is_ours_pending(thread->tid))
		return false;
	ptrace(PTRACE_DETACH, thread->tid, 0, sig);
	thread_ended(thread);
	return true;
}

void go_on(struct assist_thread *thread, int sig)
{
	if (!let_go(thread, sig))
		ptrace(PTRACE_CONT, thread->tid, 0, sig);
}

static bool is_stop_signal(int sig)
{
	return sig == SIGSTOP || sig == SIGTSTP || sig == SIGTTIN || sig == SIGTTOU;
}

static void on_stop(pid_t tid, int event, int sig)
{
	struct assist_thread *thread = event == PTRACE_EVENT_EXEC ? process_execed(tid) : threads_find(tid);

	if (!thread)
		thread = adopt_thread(tid);
	if (!thread) {
		ptrace(PTRACE_DETACH, tid, 0, event ? 0 : sig);
		return;
	}
	if (event == 0)
		sig = deliver(thread, sig);
	else if (event != PTRACE_EVENT_STOP || !is_stop_signal(sig))
		sig = 0;
	thread->stopped = event == PTRACE_EVENT_STOP && sig;
	thread->asked = false;
	if (sig < 0)
		return;
	/* In a stop of its whole process a thread stays, until SIGCONT. */
	if (!thread->stopped)
		go_on(thread, sig);
	else if (!let_go(thread, 0))
		ptrace(PTRACE_LISTEN, tid, 0, 0);
}

void serve_stops(unsigned int most)
{
	struct assist_thread *thread;
	int status;
	pid_t tid;

	for (unsigned int i = 0; i < most; i++) {
		assist_beat();
		tid = waitpid(-1, &status, __WALL | WNOHANG);
		if (tid <= 0)
			return;
		if (WIFSTOPPED(status)) {
			on_stop(tid, status >> 16, WSTOPSIG(status));
			continue;
		}
		thread = threads_find(tid);
		if (thread)
			thread_ended(thread);
	}
}
