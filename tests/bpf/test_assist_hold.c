// SPDX-License-Identifier: GPL-2.0-only
/*
 * user/inside/assist_hold.c: calls that set errno, and calls that take their time. The thread that waits is the only one that does,
 * and it goes on whatever becomes of the assist.
 */
#include "tests/bpf/assist.h"

TestSuite(assist_hold, .init = assist_world, .fini = assist_world_ends, .timeout = 600);

#define ROUNDS 10
#define KILLS  50
#define LONG   90000 /* ms: nobody waits so long */

/* ---- errno ---- */

/* What errno says must go with the result: common->number counts where it does not. */
static void call_with_errno(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		for (size_t s = 0; s < shape_count; s++) {
			uint64_t injected = common->tally.injected;

			errno = 0;
			call_shape(&shapes[s]);
			common->number += errno != (common->tally.injected > injected ? ENOSPC : 0);
		}
	}
}

Test(assist_hold, errno_goes_with_the_result)
{
	set_effects(50, 0, false, ENOSPC);
	run_victim(call_with_errno, false);
	exact();
	cr_expect_eq(common->number, 0, "errno is wrong %d times", common->number);
	cr_expect_eq(failed(), 0, "%lu failed", failed());
	cr_expect_gt(common->tally.injected, ROUNDS / 3 * shape_count);
}

static void *one_of_many(void *arg)
{
	uint64_t bad = 0;

	for (int i = 0; i < ROUNDS; i++) {
		for (size_t s = 0; s < shape_count; s++) {
			long result;

			errno = 0;
			result = checked_call(shapes[s].function, &bad);
			common->number += errno != (result == INJECTED ? ENOSPC : 0) || bad;
			add(&common->tally.calls, 1);
			add(&common->tally.injected, result == INJECTED);
		}
	}
	return arg;
}

static void in_many_threads(void)
{
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, one_of_many, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

Test(assist_hold, each_thread_has_its_errno)
{
	set_effects(50, 0, false, ENOSPC);
	run_victim(in_many_threads, false);
	exact();
	cr_expect_eq(common->number, 0, "errno is wrong %d times", common->number);
	cr_expect_eq(common->tally.calls, 4 * ROUNDS * shape_count);
}

/* ---- time ---- */

static void each_shape(void)
{
	call_all(ROUNDS);
}

/* Each call that was decided waits once, and then the function runs. */
static void once_each(void)
{
	struct assist_test_counts c = counts();
	const struct tally *t = &common->tally;

	cr_expect_eq(t->wrong, 0, "%lu wrong results", t->wrong);
	cr_expect_eq(t->bad, 0, "%lu registers wrong", t->bad);
	cr_expect_eq(t->injected, 0, "%lu did not run", t->injected);
	cr_expect_eq(failed(), 0, "%lu failed", failed());
	cr_expect_gt(c.sent, 0);
	cr_expect_eq(c.calls - c.again, t->calls, "%llu seen, %llu of them again, %lu calls", c.calls, c.again, t->calls);
}

Test(assist_hold, every_first_instruction_runs_afterwards)
{
	set_effects(50, 1, true, 0);
	run_victim(each_shape, false);
	once_each();
	cr_expect_eq(common->tally.calls, ROUNDS * shape_count);
}

Test(assist_hold, every_first_instruction_returns_afterwards)
{
	set_effects(50, 1, false, ENOSPC);
	run_victim(call_with_errno, false);
	exact();
	cr_expect_eq(common->number, 0, "errno is wrong %d times", common->number);
	cr_expect_gt(common->tally.injected, ROUNDS / 3 * shape_count);
}

static void count_signal(int sig)
{
	(void)sig;
	common->signals++;
}

static void under_a_timer(void)
{
	struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, never = { { 0, 0 }, { 0, 0 } };
	struct sigaction action = { .sa_handler = count_signal, .sa_flags = SA_RESTART };

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	call_all(ROUNDS);
	setitimer(ITIMER_REAL, &never, NULL);
}

Test(assist_hold, once_whatever_signals_come)
{
	set_effects(50, 2, true, 0);
	run_victim(under_a_timer, false);
	once_each();
	cr_expect_gt(common->signals, 0);
}

/* ---- who waits ---- */

static void call_once(void)
{
	double begun = now_ms();

	call_shape(&shapes[0]);
	common->number = (int)(now_ms() - begun);
	common->end = 1;
}

static void call_until_the_end(void)
{
	while (!common->end)
		call_all(1);
}

Test(assist_hold, nobody_else_waits)
{
	pid_t slow = victim(call_once), other;
	uint64_t before;

	set_effects(100, 2000, false, 0);
	ok(assist_add(&assist, slow, false, &err));
	common->go = 1;
	until(counts().sent == 1);
	common->go = 0;
	set_effects(50, 0, false, 0);
	other = victim(call_until_the_end);
	ok(assist_add(&assist, other, false, &err));
	before = common->tally.injected;
	common->go = 1;
	until(common->tally.injected > before + 50);
	ok(assist_watch(&assist, &err));
	join(slow);
	join(other);
	cr_expect_geq(common->number, 2000, "it waited %d ms", common->number);
	cr_expect_eq(common->tally.wrong, 0);
	cr_expect_eq(common->tally.bad, 0);
	cr_expect_eq(failed(), 0);
}

/* ---- the end ---- */

/* A victim with a thread that waits for long. */
static pid_t one_that_waits(void)
{
	pid_t pid = victim(call_once);

	set_effects(100, LONG, false, ENOSPC);
	ok(assist_add(&assist, pid, false, &err));
	common->go = 1;
	until(entries(skel->maps.chaos_returns) == 1);
	usleep(300000);
	cr_expect_eq(common->tally.calls, 0);
	return pid;
}

Test(assist_hold, it_ends_with_the_assist)
{
	pid_t pid = one_that_waits();

	assist_stop(&assist);
	join(pid);
	cr_expect_eq(common->tally.injected, 1, "what was decided is done");
	cr_expect_lt(common->number, LONG / 2);
	cr_expect_eq(entries(skel->maps.chaos_returns), 0);
}

Test(assist_hold, it_ends_when_the_process_is_let_go)
{
	pid_t pid = one_that_waits();

	ok(assist_remove(&assist, pid, &err));
	join(pid);
	cr_expect_eq(common->tally.injected, 1);
	cr_expect_lt(common->number, LONG / 2);
	until(heartbeat() == 0);
	cr_expect_eq(entries(skel->maps.chaos_returns), 0);
}

Test(assist_hold, it_ends_with_kill_9)
{
	pid_t pid = one_that_waits();

	kill(assist.pid, SIGKILL);
	join(pid);
	cr_expect_eq(common->tally.wrong + common->tally.bad, 0);
	cr_expect_lt(common->number, LONG / 2);
}

Test(assist_hold, a_process_that_waits_can_be_killed)
{
	pid_t pid = one_that_waits();

	kill(pid, SIGKILL);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	until(heartbeat() == 0);
	cr_expect_eq(entries(skel->maps.chaos_returns), 0);
	cr_expect_eq(failed(), 0);
	ok(assist_watch(&assist, &err));
}

static void *call_too(void *arg)
{
	call_until_the_end();
	return arg;
}

static void in_threads(void)
{
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, call_too, NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

Test(assist_hold, killed_again_and_again)
{
	pid_t pid = victim(in_threads);
	unsigned int seed = 1;

	set_effects(50, 3, false, ENOSPC);
	common->go = 1;
	for (int i = 0; i < KILLS; i++) {
		uint64_t before = common->tally.injected;

		set_effects(50, 3, i % 2, i % 2 ? 0 : ENOSPC);
		ok(assist_add(&assist, pid, false, &err));
		before = i % 2 ? common->tally.calls : before;
		until((i % 2 ? common->tally.calls : common->tally.injected) > before);
		usleep(rand_r(&seed) % 5000);
		kill(assist.pid, SIGKILL);
		before = common->tally.calls;
		until(common->tally.calls > before + shape_count);
		until(assist_watch(&assist, &err) == -EIO);
		start_assist();
	}
	common->end = 1;
	join(pid);
	cr_expect_eq(common->tally.wrong, 0, "%lu wrong results", common->tally.wrong);
	cr_expect_eq(common->tally.bad, 0, "%lu registers wrong", common->tally.bad);
}
