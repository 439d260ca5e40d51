// SPDX-License-Identifier: GPL-2.0-only
/*
 * user/assist*.c: what it refuses, how it lets go, and what happens when it is killed or stuck: whoever was traced goes on,
 * and every register is right.
 */
#include "tests/bpf/assist.h"

#include <dirent.h>
#include <sys/epoll.h>
#include <sys/ptrace.h>

TestSuite(assist_end, .init = assist_world, .fini = assist_world_ends, .timeout = 900);

#define KILLS 200

static void call_until_the_end(void)
{
	while (!common->end)
		call_all(1);
}

static void *call_too(void *arg)
{
	(void)arg;
	call_until_the_end();
	return NULL;
}

static void in_threads(void)
{
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, call_too, NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

/* A number in /proc/PID/status. */
static long status_of(pid_t pid, const char *name)
{
	char path[48], line[256];
	long value = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, name, strlen(name)) == 0)
			value = strtol(line + strlen(name) + 1, NULL, 10);
	}
	if (file)
		fclose(file);
	return value;
}

/* Does it make calls? */
static void goes_on(void)
{
	uint64_t calls = common->tally.calls;

	until(common->tally.calls > calls + shape_count);
}

/* ---- kill -9 ---- */

Test(assist_end, killed_in_a_tight_loop_of_calls)
{
	pid_t pid = victim(in_threads);
	uint64_t before;
	unsigned int seed = 1;
	int64_t lost;

	common->go = 1;
	for (int i = 0; i < KILLS; i++) {
		before = common->tally.injected;
		ok(assist_add(&assist, pid, false, &err));
		until(common->tally.injected > before);
		usleep(rand_r(&seed) % 2000);
		kill(assist.pid, SIGKILL);
		goes_on();
		until(assist_watch(&assist, &err) == -EIO);
		cr_assert_eq(assist.pid, 0);
		cr_assert_eq(status_of(pid, "TracerPid"), 0);
		start_assist();
	}
	common->end = 1;
	join(pid);
	cr_expect_eq(common->tally.wrong, 0, "%lu wrong results", common->tally.wrong);
	cr_expect_eq(common->tally.bad, 0, "%lu registers wrong", common->tally.bad);
	/* What was under way is lost: one call of each thread. */
	lost = counts().sent - counts().again - failed() - common->tally.injected;
	cr_expect_leq(lost, 2 * KILLS, "%ld", lost);
	cr_expect_geq(lost, 0, "%ld", lost);
	cr_log_info("%lu calls, %lu injected, %llu decided", common->tally.calls, common->tally.injected, counts().sent);
}

/* The owner is killed: the assist ends with it. */
static void own(void)
{
	start_assist();
	ok(assist_add(&assist, common->number, false, &err));
	common->ready++;
	for (;;)
		pause();
}

Test(assist_end, it_ends_with_its_owner)
{
	pid_t pid = victim(call_until_the_end), owner;
	int status;

	common->number = pid;
	until(common->ready == 1);
	assist_stop(&assist);
	common->go = 1;
	owner = victim(own);
	until(common->ready == 3);
	until(common->tally.injected > 10);
	kill(owner, SIGKILL);
	cr_assert_eq(waitpid(owner, &status, 0), owner);
	until(status_of(pid, "TracerPid") == 0);
	goes_on();
	common->end = 1;
	join(pid);
	cr_expect_eq(common->tally.wrong, 0);
	cr_expect_eq(common->tally.bad, 0);
}

/* ---- stuck ---- */

Test(assist_end, one_that_is_stuck_is_killed)
{
	pid_t pid = victim(in_threads);
	double begun;
	int status;

	ok(assist_add(&assist, pid, false, &err));
	common->go = 1;
	for (int i = 0; i < 10; i++) { /* as its owner does */
		ok(assist_watch(&assist, &err));
		goes_on();
	}
	kill(assist.pid, SIGSTOP);
	cr_assert_eq(waitpid(assist.pid, &status, WUNTRACED), assist.pid);
	begun = now_ms();
	while (assist_watch(&assist, &err) == 0) {
		cr_assert_lt(now_ms() - begun, 10000);
		usleep(250000);
	}
	cr_expect_lt(now_ms() - begun, 2000, "%.0f ms", now_ms() - begun);
	cr_expect_gt(now_ms() - begun, 900);
	cr_expect_eq(assist.pid, 0);
	cr_expect(strstr(err.text, "no sign of life"), "%s", err.text);
	cr_expect_eq(entries(skel->maps.chaos_traced), 0);
	goes_on();
	cr_expect_eq(status_of(pid, "TracerPid"), 0);
	start_assist();
	ok(assist_add(&assist, pid, false, &err));
	begun = common->tally.injected;
	until(common->tally.injected > begun);
	common->end = 1;
	join(pid);
	cr_expect_eq(common->tally.wrong, 0);
	cr_expect_eq(common->tally.bad, 0);
}

/* A program that asks nothing of an assist without a sign of life leaves its process alone. */
Test(assist_end, nothing_is_asked_of_one_that_is_stuck)
{
	pid_t pid = victim(call_until_the_end);
	uint64_t sent;
	int status;

	ok(assist_add(&assist, pid, false, &err));
	kill(assist.pid, SIGSTOP);
	cr_assert_eq(waitpid(assist.pid, &status, WUNTRACED), assist.pid);
	usleep(CHAOS_ASSIST_STALE_NS / 1000 + 100000);
	sent = counts().sent;
	common->go = 1;
	goes_on();
	cr_expect_eq(counts().sent, sent);
	cr_expect_gt(counts().silent, 0);
	kill(assist.pid, SIGCONT);
	until(common->tally.injected > 0);
	common->end = 1;
	join(pid);
	exact();
}

/* ---- in good order ---- */

static void count_ours(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	common->signals++;
	if (info->si_code == SI_KERNEL)
		common->ours++;
}

/* With a handler of its own: no signal of ours may reach it. */
static void in_threads_that_listen(void)
{
	struct sigaction action = { .sa_sigaction = count_ours, .sa_flags = SA_SIGINFO | SA_RESTART };

	sigaction(SIGURG, &action, NULL);
	in_threads();
}

Test(assist_end, stopped_in_good_order)
{
	pid_t pid = victim(in_threads_that_listen);
	uint64_t before;

	common->go = 1;
	for (int i = 0; i < 30; i++) {
		before = common->tally.injected;
		ok(assist_add(&assist, pid, false, &err));
		until(common->tally.injected > before);
		assist_stop(&assist);
		cr_assert_eq(assist.pid, 0);
		cr_assert_eq(status_of(pid, "TracerPid"), 0);
		cr_assert_eq(entries(skel->maps.chaos_traced), 0);
		cr_assert_eq(entries(skel->maps.chaos_returns), 0);
		goes_on();
		start_assist();
	}
	common->end = 1;
	join(pid);
	exact();
	cr_expect_eq(failed(), 0);
	cr_expect_eq(common->ours, 0, "%lu signals meant for the assist reached the handler", common->ours);
}

Test(assist_end, removed_in_good_order)
{
	pid_t pid = victim(in_threads_that_listen);
	uint64_t before;

	common->go = 1;
	for (int i = 0; i < 200; i++) {
		before = common->tally.injected;
		ok(assist_add(&assist, pid, false, &err));
		until(common->tally.injected > before);
		ok(assist_remove(&assist, pid, &err));
		cr_assert(!is_traced(pid));
		if (i % 2)
			until(heartbeat() == 0);
	}
	until(heartbeat() == 0);
	cr_expect_eq(status_of(pid, "TracerPid"), 0);
	goes_on();
	common->end = 1;
	join(pid);
	exact();
	cr_expect_eq(failed(), 0);
	cr_expect_eq(common->ours, 0, "%lu signals meant for the assist reached the handler", common->ours);
}

/* A wait in epoll_wait() would end with EINTR if its thread were stopped. */
static void wait_for_nothing(void)
{
	struct epoll_event event;
	int fd = epoll_create1(0);

	for (int i = 0; i < 2; i++) {
		common->number = i + 1;
		if (epoll_wait(fd, &event, 1, 1500) != 0)
			_exit(1);
	}
}

Test(assist_end, no_wait_is_ended)
{
	pid_t pid = victim(wait_for_nothing);

	ok(assist_add(&assist, pid, false, &err));
	common->go = 1;
	until(common->number == 1);
	usleep(200000);
	ok(assist_remove(&assist, pid, &err));
	usleep(300000);
	ok(assist_add(&assist, pid, false, &err));
	until(common->number == 2);
	usleep(200000);
	assist_stop(&assist);
	join(pid); /* 0 only if each wait took its time */
}

/* ---- refusals ---- */

static void wait_for_the_end(void)
{
	while (!common->end)
		usleep(1000);
}

static void refused(pid_t pid, int code, const char *text)
{
	cr_expect_eq(assist_add(&assist, pid, false, &err), code, "%d: %s", pid, err.text);
	cr_expect(strstr(err.text, text), "'%s' is not in: %s", text, err.text);
	cr_expect(!is_traced(pid));
}

Test(assist_end, what_is_never_traced)
{
	pid_t gone = fork();
	int status;

	if (gone == 0)
		_exit(0);
	waitpid(gone, &status, 0);
	refused(gone, -ESRCH, "gone");
	refused(1, -EINVAL, "init");
	refused(2, -EINVAL, "kernel thread");
	refused(getpid(), -EINVAL, "was started from");
	refused(getppid(), -EINVAL, "was started from");
	refused(assist.pid, -EINVAL, "chaosbpf itself");
	refused(0, -ESRCH, "gone");
	refused(-1, -ESRCH, "gone");
	cr_expect_eq(heartbeat() != 0, false);
}

static void *tell_tid(void *arg)
{
	(void)arg;
	common->number = gettid();
	wait_for_the_end();
	return NULL;
}

static void with_a_thread(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, tell_tid, NULL);
	pthread_join(thread, NULL);
}

Test(assist_end, a_thread_is_no_process)
{
	pid_t pid = victim(with_a_thread);
	char text[64];

	common->go = 1;
	until(common->number);
	snprintf(text, sizeof(text), "a thread of process %d", pid);
	refused(common->number, -EINVAL, text);
	common->end = 1;
	join(pid);
}

/* Of one whose second thread has a tracer already, no thread is traced. */
Test(assist_end, traced_by_somebody_else)
{
	pid_t pid = victim(with_a_thread);
	char text[64];

	common->go = 1;
	until(common->number);
	cr_assert_eq(ptrace(PTRACE_SEIZE, common->number, 0, 0), 0);
	snprintf(text, sizeof(text), "already traced by process %d", getpid());
	refused(pid, -EBUSY, text);
	until(status_of(pid, "TracerPid") == 0);
	cr_assert_eq(ptrace(PTRACE_INTERRUPT, common->number, 0, 0), 0);
	cr_assert_eq(waitpid(common->number, NULL, __WALL), common->number);
	cr_assert_eq(ptrace(PTRACE_DETACH, common->number, 0, 0), 0);
	/* And the other way round. */
	ok(assist_add(&assist, pid, false, &err));
	cr_expect_eq(ptrace(PTRACE_SEIZE, pid, 0, 0), -1);
	cr_expect_eq(status_of(pid, "TracerPid"), assist.pid);
	common->end = 1;
	join(pid);
}

Test(assist_end, none_runs)
{
	assist_stop(&assist);
	cr_expect_eq(assist_add(&assist, getpid(), false, &err), -EIO);
	ok(assist_remove(&assist, getpid(), &err));
	ok(assist_watch(&assist, &err));
	assist_stop(&assist);
}

/* ---- victims that die ---- */

Test(assist_end, those_who_are_killed)
{
	pid_t pid;
	unsigned int seed = 1;

	common->go = 1;
	for (int i = 0; i < 30; i++) {
		uint64_t before = common->tally.injected;

		pid = victim(in_threads);
		ok(assist_add(&assist, pid, false, &err));
		until(common->tally.injected > before);
		usleep(rand_r(&seed) % 1000);
		kill(pid, SIGKILL);
		cr_assert_eq(waitpid(pid, NULL, 0), pid);
		ok(assist_watch(&assist, &err));
	}
	until(heartbeat() == 0);
	cr_expect_eq(entries(skel->maps.chaos_traced), 0);
	cr_expect_eq(entries(skel->maps.chaos_returns), 0);
	cr_expect_eq(common->tally.wrong, 0);
	cr_expect_eq(common->tally.bad, 0);
	cr_expect_leq(failed(), 2 * 30); /* those that were under way */
}

/* It keeps its own descriptors and nothing else, and does nothing while nobody is traced. */
Test(assist_end, it_costs_nothing)
{
	char path[48];
	unsigned int files = 0;
	long switches;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", assist.pid);
	dir = opendir(path);
	cr_assert(dir);
	while (readdir(dir))
		files++;
	closedir(dir);
	cr_expect_eq(files, 2 + 3 + 5, "%u", files - 2);
	until((switches = status_of(assist.pid, "voluntary_ctxt_switches"),
	       usleep(300000) == 0 && status_of(assist.pid, "voluntary_ctxt_switches") == switches));
}
