/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The assist: a small process that gives a thread another function result where BPF programs may not write registers.
 *
 * It traces (PTRACE_SEIZE) the threads of chosen processes. A program at the entry of a function decides that this call
 * fails, leaves a struct chaos_return and sends SIGURG to its thread; in the stop before the delivery of that signal the
 * assist sets the registers so that the function returns at once, and lets the thread go on without the signal. See
 * bpf/chaos.h for the four maps by which the two halves speak.
 *
 * It may be killed at any moment: the kernel lets go of what it traced, and no thread is left stopped or with half of
 * its registers set. (The signal that it was about to take away is delivered then; without a handler for SIGURG it does nothing.)
 * What may not be is an assist that lives and does not work, as its threads would wait for it:
 * therefore assist_watch().
 *
 * A call that takes time is held in that stop: the thread waits, and nobody else. It is let go when its time is over, when its
 * rule is not in force any more, and at the end of the assist, whatever that is. Signals for that thread wait as long, but for
 * SIGKILL, and so does the end of a stop of its process (SIGSTOP).
 *
 * What a traced process can notice: nobody else can trace it; a stop of some microseconds for each signal, new thread and
 * exec; and a signal that it ignores ends a wait in epoll_wait() and a few others with EINTR, as under any tracer.
 */
#ifndef USER_ASSIST_H
#define USER_ASSIST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "user/base/error.h"

/* File descriptors of the maps; they stay the caller's. */
struct assist_maps {
	int returns;   /* chaos_returns */
	int traced;    /* chaos_traced */
	int heartbeat; /* chaos_assist */
	int failed;    /* chaos_assist_failed */
	int begun; /* chaos_begun: pids of processes that are to be traced at once, with their children; -1: there is none */

	/* Is a rule still in force? chaos_control, chaos_schedule, chaos_intervals, chaos_call_over; all -1: it always is. */
	int control, schedule, intervals, over;
};

struct assist {
	pid_t pid; /* 0: none runs; all calls below are allowed then */
	int fd;    /* requests and their answers; poll() for POLLIN tells that the assist has ended: assist_watch() */
	int pidfd;
	struct assist_maps maps;
	uint64_t beat;      /* the last sign of life seen by assist_watch(), */
	double beat_ms;     /* when it was new, */
	unsigned int looks; /* and how often it was the same since */
};

/* Can a process of this machine be traced by us at all? 0, or why not (-EPERM). Tries it with a child of its own. */
int assist_possible(struct error *err);

/*
 * Starts the assist as a child of the caller, with whom it ends. Empties chaos_traced and chaos_returns first: there may be
 * one assist for a set of maps.
 */
int assist_start(const struct assist_maps *maps, struct assist *a, struct error *err);

/*
 * Traces all threads of the process `pid`, those to come included, and then puts it into chaos_traced. With
 * `with_children` also the processes that it forks from now on, and theirs. Adding a process again changes nothing but
 * with_children. The whole process is traced, or nothing of it:
 *
 *	-ESRCH   it is gone
 *	-EBUSY   somebody else traces it: the text says who
 *	-EPERM   not permitted (ptrace_scope, a security module, capabilities)
 *	-EINVAL  never to be traced: init, a kernel thread, chaosbpf itself or what it was started from; or a thread's number
 *	-ENOEXEC a program of another instruction set than chaosbpf (32 bits)
 *	-E2BIG   more threads or processes than there is room for
 *	-EIO     the assist is gone or was stuck, and has been ended
 */
int assist_add(struct assist *a, pid_t pid, bool with_children, struct error *err);

/* Is the process traced by an assist, of whatever load? */
bool assist_traces(pid_t pid);

/*
 * Takes the process out of chaos_traced at once and lets go of its threads. A thread that waits in a system call which
 * would notice that is let go when it comes out of it; until then it stays traced and nothing is done to it. 0 also for a
 * process that is not traced.
 */
int assist_remove(struct assist *a, pid_t pid, struct error *err);

/*
 * To be called about four times a second while the assist runs: kills it when it has given no sign of life for a second, so
 * that what it traces goes on. 0: all is well (or there is none); -EIO: it was stuck, or is gone, and a->pid is 0 now.
 * Whatever was traced is not any more; assist_start() and assist_add() begin anew.
 */
int assist_watch(struct assist *a, struct error *err);

/* Ends the assist in good order: what programs have decided is done, then all threads are let go without noticing. */
void assist_stop(struct assist *a);

#endif
