// SPDX-License-Identifier: GPL-2.0-only
/* Inside the assist: takes hold of processes, and lets go of them. */
#include "user/inside/assist_internal.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OPTIONS (PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC)

/* A list of threads that is read while some begin and end may leave one out: it is read until so many times nothing is new. */
#define CALM_PASSES 3
#define MOST_PASSES 200
#define SERVE_EVERY 32
#define TRIES       5

#define PF_KTHREAD 0x00200000

static unsigned int leaving;

/* ---- what /proc tells ---- */

/* Reads /proc/PID/name; "" if that cannot be. */
static void read_proc(pid_t pid, const char *name, char *buf, size_t size)
{
	char path[48];
	ssize_t len = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		len = read(fd, buf, size - 1);
		close(fd);
	}
	buf[len > 0 ? len : 0] = '\0';
}

static long field_of(const char *status, const char *name)
{
	const char *at = strstr(status, name);

	return at ? strtol(at + strlen(name), NULL, 10) : 0;
}

/* In the form of /proc/PID/stat: state, parent and so on follow the name, which may hold anything. */
static const char *after_name(const char *stat)
{
	const char *at = strrchr(stat, ')');

	return at && at[1] ? at + 2 : "";
}

static bool is_dead(const char *status)
{
	const char *state = strstr(status, "\nState:\t");

	return !state || strchr("ZX", state[8]);
}

static bool is_kernel_thread(pid_t pid)
{
	char stat[1024];
	unsigned int flags = 0;

	read_proc(pid, "stat", stat, sizeof(stat));
	return sscanf(after_name(stat), "%*c %*d %*d %*d %*d %*d %u", &flags) == 1 && flags & PF_KTHREAD;
}

static bool is_ancestor(pid_t pid)
{
	char status[4096];

	for (pid_t at = getppid(); at > 0; at = field_of(status, "\nPPid:")) {
		if (at == pid)
			return true;
		read_proc(at, "status", status, sizeof(status));
	}
	return false;
}

/* Of the same instruction set, as far as registers go. */
static bool is_native(pid_t pid)
{
	unsigned char ours[20], its[20];
	char path[48];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true; /* its registers will tell */
	if (read(fd, its, sizeof(its)) != sizeof(its))
		its[4] = 0;
	close(fd);
	fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true;
	if (read(fd, ours, sizeof(ours)) != sizeof(ours))
		ours[4] = 0;
	close(fd);
	return its[4] == ours[4] && memcmp(its + 18, ours + 18, 2) == 0; /* EI_CLASS, e_machine */
}

int assist_ptrace_scope(void)
{
	char buf[16];
	int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
	ssize_t len;

	if (fd < 0)
		return -1;
	len = read(fd, buf, sizeof(buf) - 1);
	close(fd);
	if (len <= 0)
		return -1;
	buf[len] = '\0';
	return atoi(buf);
}

bool assist_traces(pid_t pid)
{
	char status[4096];

	read_proc(pid, "status", status, sizeof(status));
	read_proc(field_of(status, "\nTracerPid:"), "status", status, sizeof(status));
	return strncmp(status, "Name:\tchaosbpf\n", 15) == 0;
}

struct assist_answer assist_why_not(pid_t tid, int error)
{
	char status[4096];
	int tracer;

	read_proc(tid, "status", status, sizeof(status));
	if (error == ESRCH || is_dead(status))
		return (struct assist_answer){ .outcome = ASSIST_GONE };
	tracer = field_of(status, "\nTracerPid:");
	if (tracer)
		return (struct assist_answer){ .outcome = ASSIST_IS_TRACED, .other = tracer };
	if (assist_ptrace_scope() > 0)
		return (struct assist_answer){ .outcome = ASSIST_SCOPE, .other = assist_ptrace_scope() };
	return (struct assist_answer){ .outcome = ASSIST_FORBIDDEN, .other = error };
}

/* Is the process of a kind that is never traced? */
static struct assist_answer is_fit(pid_t pid)
{
	char status[4096];

	read_proc(pid, "status", status, sizeof(status));
	if (pid == 1)
		return (struct assist_answer){ .outcome = ASSIST_IS_INIT };
	if (pid <= 0 || is_dead(status))
		return (struct assist_answer){ .outcome = ASSIST_GONE };
	if (field_of(status, "\nTgid:") != pid)
		return (struct assist_answer){ .outcome = ASSIST_IS_THREAD, .other = field_of(status, "\nTgid:") };
	if (is_kernel_thread(pid))
		return (struct assist_answer){ .outcome = ASSIST_IS_KERNEL };
	if (strncmp(status, "Name:\tchaosbpf\n", 15) == 0)
		return (struct assist_answer){ .outcome = ASSIST_IS_OURS };
	if (is_ancestor(pid))
		return (struct assist_answer){ .outcome = ASSIST_IS_ANCESTOR };
	if (!is_native(pid))
		return (struct assist_answer){ .outcome = ASSIST_IS_FOREIGN };
	return (struct assist_answer){ .outcome = ASSIST_DONE };
}

/* ---- processes ---- */

/* Puts the process into chaos_traced, or takes it out. False: there is no room. */
static bool trace(struct assist_member *process, bool traced)
{
	uint32_t pid = process->pid, one = 1;

	if (process->traced != traced && traced)
		process->traced = bpf_map_update_elem(assist_maps.traced, &pid, &one, BPF_ANY) == 0;
	else if (process->traced != traced)
		process->traced = bpf_map_delete_elem(assist_maps.traced, &pid) != 0;
	return process->traced == traced;
}

static void set_leaving(struct assist_member *process, bool goes)
{
	if (process->leaving != goes)
		leaving += goes ? 1 : -1;
	process->leaving = goes;
}

static void untrace(struct assist_member *process)
{
	trace(process, false);
}

void untrace_all(void)
{
	members_each(untrace);
	/* Programs run under RCU: this waits for those that have found their process in the map before. */
	syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
}

static void forget(struct assist_member *process)
{
	trace(process, false);
	set_leaving(process, false);
	members_drop(process);
}

void thread_ended(struct assist_thread *thread)
{
	struct assist_member *process = thread->process;

	drop_call(thread->tid);
	threads_drop(thread);
	if (!process->count)
		forget(process);
}

static pid_t surviving;

static void drop_other(struct assist_thread *thread)
{
	if (thread->tid != surviving)
		thread_ended(thread);
}

struct assist_thread *process_execed(pid_t tid)
{
	struct assist_thread *thread = threads_find(tid);
	struct assist_member *process = members_find(tid);

	if (!process)
		return NULL;
	if (!thread)
		thread = threads_add(tid, process);
	if (!thread)
		return NULL;
	surviving = tid;
	if (process->count > 1)
		threads_each(process, drop_other);
	thread->owed = false;
	thread->held_until_ns = 0;
	process->errno_known = ASSIST_UNKNOWN;
	return thread;
}

/* ---- letting go ---- */

/*
 * Would the thread see that it was stopped? A stop ends system calls; some are simply made again, and some fail with EINTR.
 * Only what is known for the former is sure.
 */
static bool would_notice(pid_t tid)
{
	static const int unnoticed[] = {
		SYS_futex,    SYS_nanosleep, SYS_clock_nanosleep, SYS_ppoll,
		SYS_pselect6, SYS_wait4,     SYS_waitid,          SYS_rt_sigsuspend,
#ifdef SYS_poll
		SYS_poll,     SYS_select,    SYS_pause,
#endif
	};
	char text[256];
	int number;

	read_proc(tid, "syscall", text, sizeof(text));
	if (sscanf(text, "%d", &number) != 1 || number < 0)
		return false;
	for (size_t i = 0; i < sizeof(unnoticed) / sizeof(unnoticed[0]); i++) {
		if (number == unnoticed[i])
			return false;
	}
	return true;
}

static void release_thread(struct assist_thread *thread)
{
	if (thread->process->leaving && thread->held_until_ns)
		return end_hold(thread);
	if (!thread->process->leaving || thread->asked || (!thread->stopped && would_notice(thread->tid)))
		return;
	thread->asked = ptrace(PTRACE_INTERRUPT, thread->tid, 0, 0) == 0;
}

static void release(struct assist_member *process)
{
	trace(process, false);
	set_leaving(process, true);
	threads_each(process, release_thread);
}

void release_process(pid_t pid)
{
	struct assist_member *process = members_find(pid);

	if (process)
		release(process);
}

bool release_more(void)
{
	if (leaving)
		threads_each(NULL, release_thread);
	return leaving;
}

/* ---- seizing ---- */

static long seize(void *tid)
{
	return ptrace(PTRACE_SEIZE, *(pid_t *)tid, 0, OPTIONS);
}

/*
 * It is in the table before it is seized, as it may stop and even end at once. A refusal without any reason is asked for again:
 * the thread was just dying, and then another one, that executes a program, took its number over.
 */
static struct assist_answer seize_thread(pid_t tid, struct assist_member *process, bool *fresh)
{
	struct assist_answer answer = { .outcome = ASSIST_FORBIDDEN };
	struct assist_thread *thread;

	if (!threads_add(tid, process))
		return (struct assist_answer){ .outcome = ASSIST_FULL };
	for (int i = 0; i < TRIES && answer.outcome == ASSIST_FORBIDDEN; i++) {
		if (assist_let_stops_in(seize, &tid) == 0) {
			*fresh = true;
			return (struct assist_answer){ .outcome = ASSIST_DONE };
		}
		answer = assist_why_not(tid, errno);
	}
	/* The kernel has attached it together with the thread that began it. */
	if (answer.outcome == ASSIST_IS_TRACED && answer.other == getpid())
		return (struct assist_answer){ .outcome = ASSIST_DONE };
	thread = threads_find(tid);
	if (thread) /* it may have ended meanwhile */
		threads_drop(thread);
	if (answer.outcome != ASSIST_GONE)
		return answer;
	/* It may have begun another one just before. (The first thread stays, dead, until the others end.) */
	*fresh = *fresh || tid != process->pid;
	return (struct assist_answer){ .outcome = ASSIST_DONE };
}

struct entry { /* of SYS_getdents64 */
	uint64_t inode;
	int64_t offset;
	unsigned short length;
	unsigned char type;
	char name[];
};

/* Seizes what is new among the threads of /proc/PID/task. */
static struct assist_answer seize_pass(int dir, struct assist_member *process, bool *fresh)
{
	static char buf[32768] __attribute__((aligned(8)));
	struct assist_answer answer = { .outcome = ASSIST_DONE };
	char status[4096];
	long seen = 0, len;

	lseek(dir, 0, SEEK_SET);
	while ((len = syscall(SYS_getdents64, dir, buf, sizeof(buf))) > 0) {
		for (long at = 0; at < len; at += ((struct entry *)&buf[at])->length) {
			pid_t tid = atoi(((struct entry *)&buf[at])->name);

			if (tid > 0 && !threads_find(tid))
				answer = seize_thread(tid, process, fresh);
			if (answer.outcome != ASSIST_DONE)
				return answer;
			seen += tid > 0;
			if (seen % SERVE_EVERY == 0)
				serve_stops(SERVE_EVERY);
		}
	}
	/* The list ends early where a thread ends just then. */
	read_proc(process->pid, "status", status, sizeof(status));
	*fresh = *fresh || seen < field_of(status, "\nThreads:");
	return answer;
}

static struct assist_answer seize_all(pid_t pid, struct assist_member *process)
{
	struct assist_answer answer = { .outcome = ASSIST_RESTLESS };
	unsigned int calm = 0;
	char path[32];
	int dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return (struct assist_answer){ .outcome = ASSIST_GONE };
	for (int i = 0; i < MOST_PASSES && calm < CALM_PASSES; i++) {
		bool fresh = false;

		answer = seize_pass(dir, process, &fresh);
		if (answer.outcome != ASSIST_DONE)
			break;
		calm = fresh ? 0 : calm + 1;
		answer.outcome = ASSIST_RESTLESS;
		serve_stops(SERVE_EVERY);
	}
	close(dir);
	if (calm == CALM_PASSES)
		answer.outcome = ASSIST_DONE;
	return answer;
}

struct assist_answer seize_process(pid_t pid, bool with_children)
{
	struct assist_answer answer = is_fit(pid);
	struct assist_member *process = members_find(pid);

	if (answer.outcome != ASSIST_DONE)
		return answer;
	if (!process)
		process = members_add(pid);
	if (!process)
		return (struct assist_answer){ .outcome = ASSIST_FULL };
	process->count++; /* held: it stays while its threads come and go */
	process->with_children = with_children;
	set_leaving(process, false);
	answer = seize_all(pid, process);
	process->count--;
	if (!process->count) {
		forget(process);
		return answer.outcome == ASSIST_DONE ? (struct assist_answer){ .outcome = ASSIST_GONE } : answer;
	}
	if (answer.outcome == ASSIST_DONE && !trace(process, true))
		answer.outcome = ASSIST_FULL;
	if (answer.outcome != ASSIST_DONE)
		release(process);
	return answer;
}

/* ---- new threads ---- */

/* The process of a new thread, if that is one of ours; a forked one becomes it if its parent's are to be. */
static struct assist_member *process_of(pid_t tid)
{
	struct assist_member *process, *parent;
	char status[4096];
	pid_t pid;

	read_proc(tid, "status", status, sizeof(status));
	pid = field_of(status, "\nTgid:");
	process = members_find(pid);
	if (process || pid != tid)
		return process;
	parent = members_find(field_of(status, "\nPPid:"));
	if (!parent || !parent->with_children || parent->leaving)
		return NULL;
	process = members_add(pid);
	if (process)
		process->with_children = true;
	return process;
}

struct assist_thread *adopt_thread(pid_t tid)
{
	struct assist_member *process = process_of(tid);
	struct assist_thread *thread;

	if (!process)
		return NULL;
	thread = threads_add(tid, process);
	if (thread) {
		/* One that was forked: it has this thread only, which has not begun. */
		if (process->pid == tid && process->count == 1 && !process->leaving)
			trace(process, true);
		return thread;
	}
	/* Not all of its threads are traced any more. */
	if (process->count)
		trace(process, false);
	else
		forget(process);
	return NULL;
}
