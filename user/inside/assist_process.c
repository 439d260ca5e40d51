// SPDX-License-Identifier: GPL-2.0-only
/* The assist itself: a loop that waits for stops of what it traces, and for requests. */
#include "user/inside/assist_internal.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "user/base/clock.h"

#define TICK_NS     50000000ULL /* the longest time without a sign of life, while somebody is traced; */
#define BEAT_NS     10000000ULL /* and the shortest */
#define END_NS      500000000ULL
#define STOPS_A_RUN 256 /* until requests are looked at again */

/* Its file descriptors, after the standard ones. */
enum {
	FD_REQUESTS = 3,
	FD_RETURNS,
	FD_TRACED,
	FD_HEARTBEAT,
	FD_FAILED,
	FD_BEGUN,
	FD_CONTROL,
	FD_SCHEDULE,
	FD_INTERVALS,
	FD_OVER,
	FD_COUNT,
};

struct assist_maps assist_maps;

static uint64_t last_beat;

static void beat(uint64_t value)
{
	uint32_t zero = 0;

	bpf_map_update_elem(assist_maps.heartbeat, &zero, &value, BPF_ANY);
	last_beat = value;
}

void assist_beat(void)
{
	uint64_t now = boot_ns();

	if (now - last_beat >= BEAT_NS)
		beat(now);
}

/*
 * Stops are answered where the process waits: in its loop, and when it seizes a thread, which can wait for a lock that is held
 * by a thread that executes another program and itself waits for us to see to the threads that died of it. SIGCHLD is
 * let in there only, so that nothing is interrupted that is not prepared for it.
 */
static void on_child(int sig)
{
	int error = errno;

	(void)sig;
	serve_stops(STOPS_A_RUN);
	errno = error;
}

long assist_let_stops_in(long (*wait)(void *), void *arg)
{
	sigset_t child;
	long ret;
	int error;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_UNBLOCK, &child, NULL);
	ret = wait(arg);
	error = errno;
	sigprocmask(SIG_BLOCK, &child, NULL);
	errno = error;
	return ret;
}

static struct ring_buffer *begun;

/* Sleeps until a stop, a request, news or the time. A request has come? */
static bool wait_for_request(const struct timespec *time)
{
	struct pollfd fds[] = { { .fd = FD_REQUESTS, .events = POLLIN }, { .fd = FD_BEGUN, .events = POLLIN } };
	sigset_t none;

	sigemptyset(&none);
	return ppoll(fds, begun ? 2 : 1, time, &none) > 0 && fds[0].revents;
}

/* ---- the end ---- */

static bool some_owed;

static void look_owed(struct assist_thread *thread)
{
	some_owed = some_owed || thread->owed;
}

/* Is something decided and not done? */
static bool is_awaited(void)
{
	uint32_t tid, next;
	void *at = NULL;

	some_owed = false;
	threads_each(NULL, look_owed);
	while (!some_owed && bpf_map_get_next_key(assist_maps.returns, at, &next) == 0) {
		struct chaos_return call;

		if (threads_find(next) && bpf_map_lookup_elem(assist_maps.returns, &next, &call) == 0 &&
		    call.runs != CHAOS_RUNS_NOW)
			return true;
		tid = next;
		at = &tid;
	}
	return some_owed;
}

/*
 * The end of the process lets go of all threads at once, and none of them has to be stopped for it. What programs have decided
 * is done before, as a signal that nobody catches would reach a handler of the application's.
 */
static _Noreturn void end(void)
{
	static const struct timespec moment = { .tv_nsec = 1000000 };
	uint64_t until;

	untrace_all();
	threads_each(NULL, end_hold);
	until = boot_ns() + END_NS;
	do {
		serve_stops(STOPS_A_RUN);
		if (!is_awaited())
			break;
		ppoll(NULL, 0, &moment, NULL);
	} while (boot_ns() < until);
	beat(0);
	_exit(0);
}

/* ---- requests ---- */

static void serve_request(void)
{
	struct assist_request request;
	struct assist_answer answer = { .outcome = ASSIST_DONE };

	if (recv(FD_REQUESTS, &request, sizeof(request), MSG_DONTWAIT) != sizeof(request))
		end(); /* nobody is there any more */
	switch (request.verb) {
	case ASSIST_ADD:
		assist_beat(); /* before the first program looks */
		answer = seize_process(request.pid, request.with_children);
		break;
	case ASSIST_REMOVE:
		release_process(request.pid);
		break;
	case ASSIST_END:
		end();
	}
	send(FD_REQUESTS, &answer, sizeof(answer), MSG_NOSIGNAL);
}

/* A program has found a process that is to be traced: nobody asks, and nobody waits for an answer. */
static int on_begun(void *ctx, void *data, size_t size)
{
	uint32_t pid;

	(void)ctx;
	if (size < sizeof(pid))
		return 0;
	memcpy(&pid, data, sizeof(pid));
	assist_beat();
	seize_process((pid_t)pid, true);
	return 0;
}

/*
 * Of a process that executes programs while it is seized, the end of a thread may not be told to us. When nobody is left to
 * be waited for, none of those that we know of is there any more.
 */
static void drop_those_that_are_gone(void)
{
	siginfo_t info;

	if (threads_count() && waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL) &&
	    errno == ECHILD)
		threads_each(NULL, thread_ended);
}

static _Noreturn void loop(void)
{
	for (;;) {
		struct timespec wait = { .tv_nsec = TICK_NS };
		uint64_t next, now;

		serve_stops(STOPS_A_RUN);
		if (begun)
			ring_buffer__consume(begun);
		drop_those_that_are_gone();
		release_more();
		next = end_holds();
		now = boot_ns();
		if (next < now + TICK_NS)
			wait.tv_nsec = next > now ? (long)(next - now) : 0;
		if (!threads_count() && last_beat)
			beat(0);
		if (wait_for_request(threads_count() ? &wait : NULL))
			serve_request();
	}
}

/* ---- the beginning ---- */

static void set_signals(void)
{
	struct sigaction action = { .sa_handler = on_child };
	sigset_t set;

	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL);
	sigaction(SIGCHLD, &action, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_SETMASK, &set, NULL);
}

/* Its own descriptors to where they belong, by way of numbers that none of them has; all others are closed. */
static bool set_descriptors(int fd, const struct assist_maps *maps)
{
	int own[] = { open("/dev/null", O_RDWR),
		      fd,
		      maps->returns,
		      maps->traced,
		      maps->heartbeat,
		      maps->failed,
		      maps->begun,
		      maps->control,
		      maps->schedule,
		      maps->intervals,
		      maps->over };
	const int count = sizeof(own) / sizeof(own[0]);

	for (int i = 0; i < count; i++) {
		const bool optional = i > FD_BEGUN - FD_REQUESTS && own[i] < 0;

		own[i] = optional ? -1 : fcntl(own[i], F_DUPFD, FD_COUNT);
		if (own[i] < 0 && !optional)
			return false;
	}
	for (int i = 0; i < 3; i++)
		dup2(own[0], i);
	for (int i = 1; i < count; i++) {
		const int at = FD_REQUESTS + i - 1;

		if (own[i] < 0)
			close(at);
		else
			dup2(own[i], at);
	}
	assist_maps = (struct assist_maps){
		.returns = FD_RETURNS,
		.traced = FD_TRACED,
		.heartbeat = FD_HEARTBEAT,
		.failed = FD_FAILED,
		.begun = maps->begun < 0 ? -1 : FD_BEGUN,
		.control = maps->control < 0 ? -1 : FD_CONTROL,
		.schedule = FD_SCHEDULE,
		.intervals = FD_INTERVALS,
		.over = FD_OVER,
	};
	return syscall(SYS_close_range, FD_COUNT, ~0U, 0) == 0;
}

_Noreturn void assist_process(int fd, const struct assist_maps *maps, pid_t parent)
{
	struct assist_answer ready = { .outcome = ASSIST_DONE };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	prctl(PR_SET_NAME, "chaosbpf");
	setsid(); /* no keys of a terminal */
	set_signals();
	if (chdir("/") || !set_descriptors(fd, maps))
		_exit(1);
	if (maps->begun >= 0) {
		begun = ring_buffer__new(FD_BEGUN, on_begun, NULL, NULL);
		if (!begun)
			_exit(1);
	}
	setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) - 5); /* threads wait for it */
	beat(0);
	if (send(FD_REQUESTS, &ready, sizeof(ready), MSG_NOSIGNAL) != sizeof(ready))
		_exit(1);
	loop();
}
