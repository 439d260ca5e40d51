/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Inside the assist. assist.c is the caller's half; the others run in the process: assist_process.c is its loop,
 * assist_seize.c takes hold of processes and lets go of them, assist_stop.c answers stops, assist_threads.c remembers who
 * is traced, assist_hold.c lets threads wait, assist_regs_*.c know registers. There is no allocation and no output here, and no wait but the loop's.
 */
#ifndef USER_ASSIST_INTERNAL_H
#define USER_ASSIST_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "bpf/chaos.h"
#include "user/inside/assist.h"

/* ---- requests and answers: one packet each ---- */

enum assist_verb {
	ASSIST_ADD,
	ASSIST_REMOVE,
	ASSIST_END,
};

struct assist_request {
	enum assist_verb verb;
	pid_t pid;
	bool with_children;
};

enum assist_outcome {
	ASSIST_DONE,
	ASSIST_GONE,
	ASSIST_IS_TRACED, /* by `other`; 0: by a process that cannot be seen from here */
	ASSIST_SCOPE,     /* kernel.yama.ptrace_scope is `other` */
	ASSIST_FORBIDDEN, /* errno is `other` */
	ASSIST_IS_INIT,
	ASSIST_IS_KERNEL,
	ASSIST_IS_OURS,
	ASSIST_IS_ANCESTOR,
	ASSIST_IS_THREAD, /* of `other` */
	ASSIST_IS_FOREIGN,
	ASSIST_FULL,
	ASSIST_RESTLESS, /* new threads came faster than they could be seized */
};

struct assist_answer {
	enum assist_outcome outcome;
	int other;
};

/* The process: never returns. */
_Noreturn void assist_process(int fd, const struct assist_maps *maps, pid_t parent);

/* What PTRACE_SEIZE's refusal of `tid` means. */
struct assist_answer assist_why_not(pid_t tid, int error);

/* -1: unknown (no Yama here). */
int assist_ptrace_scope(void);

/* ---- who is traced ---- */

#define ASSIST_MAX_THREADS   16384
#define ASSIST_MAX_PROCESSES CHAOS_MAX_TRACED

/* Has it been looked for? */
enum assist_known {
	ASSIST_UNKNOWN,
	ASSIST_KNOWN,
	ASSIST_NOT_TO_BE_HAD,
};

struct assist_member {
	pid_t pid;          /* 0: free */
	unsigned int count; /* its threads in the table */
	bool traced;        /* is in chaos_traced */
	bool with_children;
	bool leaving; /* its threads are being let go */
	enum assist_known errno_known;
	int64_t errno_offset; /* from the thread pointer, when it is known */
};

struct assist_thread {
	pid_t tid; /* 0: free */
	struct assist_member *process;
	bool owed;                /* a SIGURG of ours is still to come for a call that has been seen to */
	bool asked;               /* to stop, so as to be let go */
	bool stopped;             /* with its process, by job control */
	uint64_t held_until_ns;   /* 0: it is not held */
	int held_signal;          /* with which it goes on then, */
	struct chaos_return held; /* from this call */
};

/* Pointers stay valid until the entry is dropped. NULL: not found, or no room. */
struct assist_member *members_find(pid_t pid);
struct assist_member *members_add(pid_t pid);
void members_drop(struct assist_member *process);
struct assist_thread *threads_find(pid_t tid);
struct assist_thread *threads_add(pid_t tid, struct assist_member *process);
void threads_drop(struct assist_thread *thread);
unsigned int threads_count(void);

/* Calls `visit` for each, which may drop it. Threads: of one process, or of all (NULL). */
void members_each(void (*visit)(struct assist_member *));
void threads_each(const struct assist_member *process, void (*visit)(struct assist_thread *));

/* ---- processes: seizing them and letting go ---- */

struct assist_answer seize_process(pid_t pid, bool with_children);
void release_process(pid_t pid);

/* Once more, for threads that would have noticed. False: nobody is left who is to be let go. */
bool release_more(void);

/* No program asks for anything any more, once those that are running have ended. */
void untrace_all(void);

/* A thread that the kernel attached, as its parent is traced, has stopped for the first time. NULL: it is to be let go. */
struct assist_thread *adopt_thread(pid_t tid);

/* The thread is not traced any more; with its last one, the process is forgotten. */
void thread_ended(struct assist_thread *thread);

/* The process runs another program, in its thread `tid` alone. */
struct assist_thread *process_execed(pid_t tid);

/* ---- stops ---- */

/* Answers stops until there are none, or `most` are done. */
void serve_stops(unsigned int most);

/* The stopped thread goes on with this signal, or is let go if its process is. */
void go_on(struct assist_thread *thread, int sig);

/* If a call of the thread waits for its return, that will not come any more. */
void drop_call(pid_t tid);

/* ---- calls that take time, or set errno ---- */

/* The thread stands at the entry of that call. Can be done what the call says? */
bool call_can_be_done(struct assist_thread *thread, const struct chaos_return *call);

/* Does it. */
void do_call(struct assist_thread *thread, const struct chaos_return *call);

/* Has the thread wait before that; it goes on with this signal. */
void hold_thread(struct assist_thread *thread, const struct chaos_return *call, int sig);

/* It has waited enough. Nothing happens to one that is not held. */
void end_hold(struct assist_thread *thread);

/* Ends what is over, and says when to look again; UINT64_MAX: nobody is held. */
uint64_t end_holds(void);

/* ---- the loop ---- */

extern struct assist_maps assist_maps;

/* Runs `wait`, in which stops are answered as they come. Nothing may be half done then. */
long assist_let_stops_in(long (*wait)(void *), void *arg);

/* Gives a sign of life, unless that was just done. */
void assist_beat(void);

/* ---- registers ---- */

enum assist_verdict {
	ASSIST_RETURNED,  /* the registers are set: the function returns */
	ASSIST_ELSEWHERE, /* the thread is not at the entry of that call */
};

/* The thread is in a ptrace stop. */
enum assist_verdict assist_return(pid_t tid, const struct chaos_return *call);

/* Would it return? *again: its first instruction is still to be done, and a program may see it once more. */
bool assist_could_return(pid_t tid, const struct chaos_return *call, bool *again);

/* The thread pointer, relative to which its own variables lie; 0: unknown. */
uint64_t assist_thread_pointer(pid_t tid);

/* Reads memory of a stopped thread; what cannot be read makes it false. */
bool assist_peek(pid_t tid, uint64_t address, uint64_t *word);

/* Writes four bytes, which do not cross a multiple of four. */
bool assist_poke(pid_t tid, uint64_t address, uint32_t value);

#endif
