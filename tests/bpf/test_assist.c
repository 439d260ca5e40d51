// SPDX-License-Identifier: GPL-2.0-only
/*
 * user/assist*.c: what a program decides is what the calling function's caller sees, exactly; nothing else changes for the
 * traced process; and whatever becomes of the assist, nobody hangs or dies.
 */
#include "tests/bpf/assist.h"

TestSuite(assist, .init = assist_world, .fini = assist_world_ends, .timeout = 600);

#define ROUNDS	40
#define THREADS 8
#define FORKS	10
#define EXECS	10

/* ---- what a function may begin with ---- */

static void each_shape(void)
{
	call_all(ROUNDS);
}

Test(assist, every_first_instruction)
{
	run_victim(each_shape, false);
	exact();
	cr_expect_eq(failed(), 0, "%lu of %lu failed", failed(), common->tally.injected);
	cr_expect_eq(common->tally.calls, ROUNDS * shape_count);
	cr_expect_eq(counts().calls, common->tally.calls);
	cr_expect_gt(common->tally.injected, ROUNDS / 3 * shape_count);
}

/* By way of a `ret` of the function's own, where it has one. */
Test(assist, every_first_instruction_by_a_ret)
{
	probe_shapes(true);
	run_victim(each_shape, false);
	exact();
	cr_expect_eq(failed(), 0, "%lu of %lu failed", failed(), common->tally.injected);
	cr_expect_gt(common->tally.injected, ROUNDS / 3 * shape_count);
}

/* ---- threads ---- */

static void *call_some(void *arg)
{
	call_all((uintptr_t)arg);
	return NULL;
}

static void with_threads(void)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, call_some, (void *)(uintptr_t)(ROUNDS / 4));
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

Test(assist, threads)
{
	run_victim(with_threads, false);
	exact();
	cr_expect_eq(failed(), 0);
	cr_expect_eq(counts().untraced, 0);
	cr_expect_gt(common->tally.injected, THREADS * ROUNDS / 4 / 3 * shape_count);
}

/* Threads that are born and die all the time, also while the process is being seized. */
static void with_births(void)
{
	pthread_t threads[4];

	while (!common->end) {
		for (int i = 0; i < 4; i++)
			pthread_create(&threads[i], NULL, call_some, (void *)1UL);
		for (int i = 0; i < 4; i++)
			pthread_join(threads[i], NULL);
	}
}

Test(assist, threads_that_are_born_while_it_seizes)
{
	pid_t pid = victim(with_births);
	uint64_t calls, untraced;

	common->go = 1;
	until(common->tally.calls > 10 * shape_count);
	ok(assist_add(&assist, pid, false, &err));
	calls = common->tally.calls;
	until(common->tally.calls > calls + 4 * shape_count); /* none is left that began before */
	untraced = counts().untraced;
	calls = common->tally.calls;
	until(common->tally.calls > calls + ROUNDS * shape_count);
	cr_expect_eq(counts().untraced, untraced, "some threads were not seized");
	common->end = 1;
	join(pid);
	exact();
	cr_expect_eq(failed(), 0);
	until(heartbeat() == 0);
	cr_expect_eq(entries(skel->maps.chaos_traced), 0);
}

/* A baton goes from thread to thread: whoever has it begins the next one and ends. */
static void *run_with_the_baton(void *arg)
{
	pthread_t next;

	(void)arg;
	call_shape(&shapes[common->tally.calls % shape_count]);
	pthread_detach(pthread_self());
	if (common->end || pthread_create(&next, NULL, run_with_the_baton, NULL))
		common->number = 1;
	return NULL;
}

static void relay(void)
{
	pthread_t first;

	pthread_create(&first, NULL, run_with_the_baton, NULL);
	while (!common->number)
		usleep(1000);
}

Test(assist, threads_that_do_not_stay_to_be_seized)
{
	pid_t pid = victim(relay);
	uint64_t calls, untraced;

	common->go = 1;
	until(common->tally.calls > 10);
	ok(assist_add(&assist, pid, false, &err));
	calls = common->tally.calls;
	until(common->tally.calls > calls + 3);
	untraced = counts().untraced;
	until(common->tally.calls > calls + 200);
	cr_expect_eq(counts().untraced, untraced, "some threads were not seized");
	common->end = 1;
	join(pid);
	exact();
	cr_expect_eq(failed(), 0);
}

/* ---- other processes ---- */

static void with_forks(void)
{
	for (int i = 0; i < FORKS; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			call_all(ROUNDS / FORKS);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
}

Test(assist, forked_children)
{
	run_victim(with_forks, true);
	exact();
	cr_expect_eq(failed(), 0);
	cr_expect_eq(counts().untraced, 0);
	cr_expect_gt(common->tally.injected, ROUNDS / 3 * shape_count);
}

Test(assist, forked_children_are_left_alone)
{
	run_victim(with_forks, false);
	exact();
	cr_expect_eq(common->tally.injected, 0);
	cr_expect_eq(common->tally.calls, ROUNDS * shape_count);
	cr_expect_eq(counts().calls, common->tally.calls);
	cr_expect_gt(counts().untraced, 0);
}

/* This program once more, executed by a victim: it calls, and ends. */
#define EXECUTED "CHAOSBPF_ASSIST_EXECUTED"
#define AGAIN	 "CHAOSBPF_ASSIST_AGAIN" /* so many times more */

static void execute_in_a_thread(void);

static void __attribute__((constructor)) executed(void)
{
	const char *fd = getenv(EXECUTED);
	char text[16];
	int again;

	if (!fd)
		return;
	unsetenv(EXECUTED);
	common_fd = atoi(fd);
	map_common(common_fd);
	call_all(ROUNDS / 2);
	again = atoi(getenv(AGAIN) ?: "0");
	if (again > 0) {
		snprintf(text, sizeof(text), "%d", again - 1);
		setenv(AGAIN, text, 1);
		execute_in_a_thread();
	}
	_exit(0);
}

static void execute(void)
{
	char fd[16];

	snprintf(fd, sizeof(fd), "%d", common_fd);
	setenv(EXECUTED, fd, 1);
	execl("/proc/self/exe", "bpf-tests", (char *)NULL);
	_exit(9);
}

Test(assist, exec)
{
	run_victim(execute, false);
	exact();
	cr_expect_eq(failed(), 0);
	cr_expect_eq(common->tally.calls, ROUNDS / 2 * shape_count);
	cr_expect_gt(common->tally.injected, 5 * shape_count);
	until(heartbeat() == 0);
}

static void *execute_here(void *arg)
{
	(void)arg;
	execute();
	return NULL;
}

static void *call_on(void *arg)
{
	(void)arg;
	for (;;)
		call_all(1);
	return NULL;
}

/* The thread takes over the number of the process, and the others end. Calls of theirs may be under way. */
static void execute_in_a_thread(void)
{
	pthread_t threads[4];

	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, call_on, NULL);
	usleep(20000);
	pthread_create(&threads[3], NULL, execute_here, NULL);
	pause();
}

Test(assist, exec_by_another_thread_than_the_first)
{
	int64_t lost;

	for (int i = 0; i < 5; i++)
		run_victim(execute_in_a_thread, false);
	cr_expect_eq(common->tally.wrong, 0);
	cr_expect_eq(common->tally.bad, 0);
	cr_expect_eq(counts().untraced, 0);
	cr_expect_geq(common->tally.calls, 5 * ROUNDS / 2 * shape_count);
	/* One call of each thread that ended may have returned and not been counted. */
	lost = counts().sent - counts().again - failed() - common->tally.injected;
	cr_expect(lost >= 0 && lost <= 5 * 4, "%ld", lost);
	until(heartbeat() == 0);
	cr_expect_eq(entries(skel->maps.chaos_returns), 0);
	cr_expect_eq(entries(skel->maps.chaos_traced), 0);
}

/* Again and again, as a process that is seized meanwhile: seizing waits for a thread that waits for us. */
static void execute_again_and_again(void)
{
	char again[16];

	snprintf(again, sizeof(again), "%d", EXECS);
	setenv(AGAIN, again, 1);
	execute_in_a_thread();
}

Test(assist, exec_while_it_seizes)
{
	pid_t pid = victim(execute_again_and_again);

	common->go = 1;
	while (waitpid(pid, NULL, WNOHANG) == 0) {
		int ret = assist_add(&assist, pid, false, &err);

		cr_assert(ret == 0 || ret == -ESRCH, "%s", err.text);
		ok(assist_watch(&assist, &err));
		ok(assist_remove(&assist, pid, &err));
	}
	cr_expect_eq(common->tally.wrong, 0);
	cr_expect_eq(common->tally.bad, 0);
	cr_expect_gt(common->tally.injected, 0);
	until(heartbeat() == 0);
	cr_expect_eq(entries(skel->maps.chaos_returns), 0);
	cr_expect_eq(entries(skel->maps.chaos_traced), 0);
}

static void vfork_and_execute(void)
{
	char fd[16];
	pid_t pid;

	snprintf(fd, sizeof(fd), "%d", common_fd);
	setenv(EXECUTED, fd, 1);
	for (int i = 0; i < 3; i++) {
		pid = vfork();
		if (pid == 0) {
			execl("/proc/self/exe", "bpf-tests", (char *)NULL);
			_exit(9);
		}
		waitpid(pid, NULL, 0);
		call_all(5);
	}
}

Test(assist, vfork)
{
	run_victim(vfork_and_execute, true);
	exact();
	cr_expect_eq(failed(), 0);
	cr_expect_eq(common->tally.calls, 3 * (ROUNDS / 2 + 5) * shape_count);
	cr_expect_eq(counts().untraced, 0);
	cr_expect_gt(common->tally.injected, 3 * 5 * shape_count);
}

/* ---- signals ---- */

static void count_signal(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	common->signals++;
	if (info->si_code == SI_KERNEL && sig == SIGURG)
		common->ours++;
}

static void catch(int sig)
{
	struct sigaction action = { .sa_sigaction = count_signal, .sa_flags = SA_SIGINFO | SA_RESTART };

	sigaction(sig, &action, NULL);
}

/*
 * Of the signals for a thread the one with the lowest number is delivered first: this one comes before ours when both wait. It
 * comes a moment after the last one was handled: at a fixed rate, a slow machine would do nothing but handle signals.
 */
static timer_t timer;

static void tick_on(int sig, siginfo_t *info, void *context)
{
	struct itimerspec moment = { .it_value.tv_nsec = 300000 };

	count_signal(sig, info, context);
	call_shape(&shapes[common->signals % shape_count]);
	timer_settime(timer, 0, &moment, NULL);
}

static void with_a_timer(void)
{
	struct sigaction action = { .sa_sigaction = tick_on, .sa_flags = SA_SIGINFO | SA_RESTART };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM };

	event._sigev_un._tid = gettid();
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	sigaction(SIGALRM, &action, NULL);
	raise(SIGALRM);
	while (common->signals < 500)
		call_all(1);
	timer_delete(timer);
}

Test(assist, a_timer)
{
	run_victim(with_a_timer, false);
	exact();
	cr_expect_eq(failed(), 0, "%lu failed, %lu injected", failed(), common->tally.injected);
	cr_expect_gt(common->tally.injected, 100);
}

/* Its own SIGURGs reach it, each of them; ours do not. */
static void with_urgent_signals(void)
{
	catch(SIGURG);
	for (int i = 0; i < 300; i++) {
		raise(SIGURG);
		call_shape(&shapes[i % shape_count]);
	}
	common->number = common->signals;
	while (!common->end) /* those that another process sends, at any moment */
		call_all(1);
}

Test(assist, urgent_signals_of_others)
{
	pid_t pid = victim(with_urgent_signals);

	ok(assist_add(&assist, pid, false, &err));
	common->go = 1;
	until(common->number);
	cr_expect_eq(common->number, 300);
	for (int i = 0; i < 100; i++) {
		kill(pid, SIGURG);
		usleep(300);
	}
	common->end = 1;
	join(pid);
	exact();
	cr_expect_gt(common->signals, 300);
	cr_expect_eq(common->ours, 0);
	cr_expect_eq(failed(), 0, "%lu failed, %lu injected", failed(), common->tally.injected);
}

static void with_it_blocked(void)
{
	sigset_t urgent;

	sigemptyset(&urgent);
	sigaddset(&urgent, SIGURG);
	for (int i = 0; i < 10; i++) {
		sigprocmask(SIG_BLOCK, &urgent, NULL);
		call_all(1);
		sigprocmask(SIG_UNBLOCK, &urgent, NULL);
		call_all(1);
	}
}

Test(assist, a_thread_that_blocks_the_signal)
{
	run_victim(with_it_blocked, false);
	exact();
	cr_expect_eq(failed(), 0);
	cr_expect_gt(counts().blocked, 3 * shape_count);
	cr_expect_gt(common->tally.injected, 3 * shape_count);
}

/* A program that does not look whether it is: the signal comes when the call is long over, and must do nothing. */
Test(assist, a_signal_that_comes_too_late)
{
	set_knobs(50, ASSIST_TEST_BLOCKED);
	run_victim(with_it_blocked, false);
	cr_expect_eq(common->tally.wrong, 0);
	cr_expect_eq(common->tally.bad, 0);
	cr_expect_eq(common->tally.calls, 20 * shape_count);
	cr_expect_gt(failed(), 0);
	/* Each record was done, counted as failed, or overwritten by that of a later call. */
	cr_expect_eq(common->tally.injected, counts().sent - counts().again - counts().stale - failed());
	cr_expect_eq(entries(skel->maps.chaos_returns), 0);
}

static void call_until_the_end(void)
{
	while (!common->end)
		call_all(1);
}

static void call_in_threads(void)
{
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, call_some, (void *)1UL);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	call_until_the_end();
}

Test(assist, stopped_and_continued)
{
	pid_t pid = victim(call_in_threads);
	uint64_t calls;
	int status;

	ok(assist_add(&assist, pid, false, &err));
	common->go = 1;
	for (int i = 0; i < 10; i++) {
		calls = common->tally.calls;
		until(common->tally.calls > calls);
		kill(pid, SIGSTOP);
		cr_expect_eq(waitpid(pid, &status, WUNTRACED), pid);
		cr_expect(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
		calls = common->tally.calls;
		usleep(5000);
		cr_expect_eq(common->tally.calls, calls, "it goes on while it is stopped");
		kill(pid, SIGCONT);
		cr_expect_eq(waitpid(pid, &status, WCONTINUED), pid);
	}
	calls = common->tally.injected;
	until(common->tally.injected > calls);
	common->end = 1;
	join(pid);
	exact();
	cr_expect_eq(failed(), 0);
}

Test(assist, a_process_that_is_stopped_when_it_is_seized)
{
	pid_t pid = victim(call_until_the_end);
	int status;

	common->go = 1;
	kill(pid, SIGSTOP);
	cr_expect_eq(waitpid(pid, &status, WUNTRACED), pid);
	ok(assist_add(&assist, pid, false, &err));
	kill(pid, SIGCONT);
	until(common->tally.injected > 10);
	common->end = 1;
	join(pid);
	exact();
}

/* ---- probes at the return ---- */

Test(assist, probes_at_the_return_see_it)
{
	struct bpf_link *at_return[64] = { 0 };

	for (int by_ret = 0; by_ret < 2; by_ret++) {
		probe_shapes(by_ret);
		for (size_t i = 0; i < shape_count && !by_ret; i++) {
			at_return[i] = bpf_program__attach_uprobe(skel->progs.test_return, true, -1, "/proc/self/exe",
								  file_offset((void *)shapes[i].function));
			cr_assert(at_return[i], "%s", shapes[i].name);
		}
		run_victim(each_shape, false);
	}
	exact();
	cr_expect_eq(failed(), 0);
	cr_expect_eq(counts().returns, common->tally.calls);
	for (size_t i = 0; i < shape_count; i++)
		bpf_link__destroy(at_return[i]);
}
