// SPDX-License-Identifier: GPL-2.0-only
/* The assist as its owner sees it: starting and ending it, requests, and the watch over it. */
#include "user/inside/assist.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "user/base/clock.h"
#include "user/inside/assist_internal.h"

#define LOOK_MS     250
#define STUCK_MS    1000.0  /* without a sign of life */
#define STUCK_LOOKS 3       /* and so often seen without: the machine may have slept */
#define ANSWER_MS   20000.0 /* seizing thousands of threads on a slow machine takes seconds */
#define END_MS      2000.0

/* Inode of the initial pid namespace, everywhere: programs know threads by their numbers there. */
#define INITIAL_PIDS 0xeffffffc

/* ---- what stands in the way ---- */

static int hint(struct assist_answer answer, struct error *err)
{
	if (answer.outcome != ASSIST_SCOPE)
		error_hint(err, "it needs CAP_SYS_PTRACE; a container's seccomp filter or a security module may forbid "
				"it, too");
	else if (answer.other >= 3)
		error_hint(err, "3 forbids it until the next boot");
	else
		error_hint(err, "it needs CAP_SYS_PTRACE");
	return -EPERM;
}

static int refuse(pid_t pid, struct assist_answer answer, struct error *err)
{
	switch (answer.outcome) {
	case ASSIST_DONE:
		return 0;
	case ASSIST_GONE:
		return error_set(err, -ESRCH, EXIT_FAILED, "process %d is gone", pid);
	case ASSIST_IS_TRACED:
		error_set(err, -EBUSY, EXIT_FAILED, "process %d is already traced by process %d", pid, answer.other);
		error_hint(err, "end the debugger, strace or profiler that holds it");
		return -EBUSY;
	case ASSIST_SCOPE:
		error_set(err, -EPERM, EXIT_CANNOT, "process %d may not be traced: kernel.yama.ptrace_scope is %d", pid,
			  answer.other);
		return hint(answer, err);
	case ASSIST_FORBIDDEN:
		error_set(err, -EPERM, EXIT_CANNOT, "process %d may not be traced: %s", pid, strerror(answer.other));
		return hint(answer, err);
	case ASSIST_IS_INIT:
		return error_set(err, -EINVAL, EXIT_FAILED, "process %d is init, which is never traced", pid);
	case ASSIST_IS_KERNEL:
		return error_set(err, -EINVAL, EXIT_FAILED, "process %d is a kernel thread", pid);
	case ASSIST_IS_OURS:
		return error_set(err, -EINVAL, EXIT_FAILED, "process %d is chaosbpf itself", pid);
	case ASSIST_IS_ANCESTOR:
		return error_set(err, -EINVAL, EXIT_FAILED, "chaosbpf was started from process %d", pid);
	case ASSIST_IS_THREAD:
		return error_set(err, -EINVAL, EXIT_FAILED, "%d is a thread of process %d", pid, answer.other);
	case ASSIST_IS_FOREIGN:
		return error_set(err, -ENOEXEC, EXIT_FAILED, "process %d is of another instruction set (32 bits?)",
				 pid);
	case ASSIST_FULL:
		return error_set(err, -E2BIG, EXIT_FAILED,
				 "process %d is not traced: there are more than %d processes or %d threads", pid,
				 ASSIST_MAX_PROCESSES, ASSIST_MAX_THREADS);
	case ASSIST_RESTLESS:
		return error_set(err, -E2BIG, EXIT_FAILED,
				 "process %d is not traced: it starts threads faster than they can be seized", pid);
	}
	return error_set(err, -EIO, EXIT_FAILED, "the assist's answer is not understood");
}

static _Noreturn void be_traced(void)
{
	for (;;)
		pause();
}

int assist_possible(struct error *err)
{
	struct assist_answer answer = { .outcome = ASSIST_DONE };
	struct stat pids;
	int error = 0;
	pid_t child;

	if (stat("/proc/self/ns/pid", &pids) == 0 && pids.st_ino != INITIAL_PIDS) {
		error_set(err, -EPERM, EXIT_CANNOT, "processes can be traced from the initial pid namespace only");
		error_hint(err, "run chaosbpf outside the container, or in one that shares the host's processes");
		return -EPERM;
	}
	child = fork();
	if (child < 0)
		return error_set(err, -errno, EXIT_FAILED, "cannot start a process: %m");
	if (child == 0)
		be_traced();
	if (ptrace(PTRACE_SEIZE, child, 0, 0)) {
		error = errno;
		answer = assist_why_not(child, error);
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, __WALL);
	if (answer.outcome == ASSIST_DONE)
		return 0;
	if (answer.outcome == ASSIST_SCOPE)
		error_set(err, -EPERM, EXIT_CANNOT, "no process may be traced: kernel.yama.ptrace_scope is %d",
			  answer.other);
	else
		error_set(err, -EPERM, EXIT_CANNOT, "no process may be traced here: %s", strerror(error));
	return hint(answer, err);
}

/* ---- the process ---- */

static void empty(int map)
{
	uint32_t key;

	while (bpf_map_get_next_key(map, NULL, &key) == 0 && bpf_map_delete_elem(map, &key) == 0)
		;
}

/* It has ended, or is made to: what it traced goes on, and no program asks for anything. */
static void bury(struct assist *a)
{
	uint32_t zero = 0;
	uint64_t none = 0;

	empty(a->maps.traced);
	syscall(SYS_pidfd_send_signal, a->pidfd, SIGKILL, NULL, 0); /* not kill(): somebody may have waited for it */
	while (waitpid(a->pid, NULL, 0) < 0 && errno == EINTR)
		;
	bpf_map_update_elem(a->maps.heartbeat, &zero, &none, BPF_ANY);
	close(a->fd);
	close(a->pidfd);
	a->pid = 0;
	a->fd = a->pidfd = -1;
}

static int lost(struct assist *a, struct error *err, const char *how)
{
	bury(a);
	return error_set(err, -EIO, EXIT_FAILED, "the assist %s: what it traced goes on without faults", how);
}

int assist_watch(struct assist *a, struct error *err)
{
	uint32_t zero = 0;
	uint64_t beat = 0;
	double now = now_ms();
	siginfo_t info = { 0 };

	if (!a->pid)
		return 0;
	if (waitid(P_PID, a->pid, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid)
		return lost(a, err, "is gone");
	bpf_map_lookup_elem(a->maps.heartbeat, &zero, &beat);
	if (!beat || beat != a->beat) {
		a->beat = beat;
		a->beat_ms = now;
		a->looks = 0;
		return 0;
	}
	a->looks++;
	if (a->looks < STUCK_LOOKS || now - a->beat_ms < STUCK_MS)
		return 0;
	return lost(a, err, "gave no sign of life for a second and was killed");
}

/* Waits for the answer; who does not answer is killed. */
static int await(struct assist *a, struct assist_answer *answer, double patience_ms, struct error *err)
{
	struct pollfd ready = { .fd = a->fd, .events = POLLIN };
	double until = now_ms() + patience_ms;
	int ret;

	for (;;) {
		if (poll(&ready, 1, LOOK_MS) > 0) {
			if (recv(a->fd, answer, sizeof(*answer), MSG_DONTWAIT) == sizeof(*answer))
				return 0;
			return lost(a, err, "is gone");
		}
		ret = assist_watch(a, err);
		if (ret)
			return ret;
		if (now_ms() >= until)
			return lost(a, err, "did not answer and was killed");
	}
}

static int ask(struct assist *a, struct assist_request request, struct error *err)
{
	struct assist_answer answer;
	int ret;

	if (!a->pid)
		return error_set(err, -EIO, EXIT_FAILED, "the assist does not run");
	if (send(a->fd, &request, sizeof(request), MSG_NOSIGNAL) != sizeof(request))
		return lost(a, err, "is gone");
	ret = await(a, &answer, ANSWER_MS, err);
	return ret ? ret : refuse(request.pid, answer, err);
}

int assist_start(const struct assist_maps *maps, struct assist *a, struct error *err)
{
	struct assist_answer ready;
	pid_t parent = getpid();
	int fds[2];

	*a = (struct assist){ .fd = -1, .pidfd = -1, .maps = *maps };
	empty(maps->traced);
	empty(maps->returns);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return error_set(err, -errno, EXIT_FAILED, "cannot make a socket: %m");
	a->pid = fork();
	if (a->pid == 0)
		assist_process(fds[1], maps, parent);
	close(fds[1]);
	if (a->pid < 0) {
		a->pid = 0;
		close(fds[0]);
		return error_set(err, -errno, EXIT_FAILED, "cannot start the assist: %m");
	}
	a->fd = fds[0];
	a->pidfd = syscall(SYS_pidfd_open, a->pid, 0);
	return await(a, &ready, ANSWER_MS, err);
}

int assist_add(struct assist *a, pid_t pid, bool with_children, struct error *err)
{
	return ask(a, (struct assist_request){ .verb = ASSIST_ADD, .pid = pid, .with_children = with_children }, err);
}

int assist_remove(struct assist *a, pid_t pid, struct error *err)
{
	return a->pid ? ask(a, (struct assist_request){ .verb = ASSIST_REMOVE, .pid = pid }, err) : 0;
}

void assist_stop(struct assist *a)
{
	struct assist_request request = { .verb = ASSIST_END };
	struct pollfd gone = { .fd = a->fd, .events = POLLIN };

	if (!a->pid)
		return;
	/* It answers by its end, which closes the socket. */
	if (send(a->fd, &request, sizeof(request), MSG_NOSIGNAL) == sizeof(request))
		poll(&gone, 1, END_MS);
	bury(a);
}
