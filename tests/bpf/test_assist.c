// SPDX-License-Identifier: GPL-2.0-only
/*
 * user/assist*.c: what a program decides is what the calling function's caller sees, exactly; nothing else changes for the
 * traced process; and whatever becomes of the assist, nobody hangs or dies.
 */
#include "tests/bpf/assist.h"

TestSuite(assist, .init = assist_world, .fini = assist_world_ends, .timeout = 300);

/* ---- what a function may begin with ---- */

static void each_shape(void)
{
	call_all(100);
}

Test(assist, every_first_instruction)
{
	run_victim(each_shape, false);
	exact();
	cr_expect_eq(failed(), 0, "%lu of %lu failed", failed(), common->tally.injected);
	cr_expect_eq(common->tally.calls, 100 * shape_count);
	cr_expect_eq(counts().calls, common->tally.calls);
	cr_expect_gt(common->tally.injected, 30 * shape_count);
}

/* By way of a `ret` of the function's own, where it has one. */
Test(assist, every_first_instruction_by_a_ret)
{
	probe_shapes(true);
	run_victim(each_shape, false);
	exact();
	cr_expect_eq(failed(), 0, "%lu of %lu failed", failed(), common->tally.injected);
	cr_expect_gt(common->tally.injected, 30 * shape_count);
}

/* ---- threads ---- */

static void *call_some(void *arg)
{
	call_all((uintptr_t)arg);
	return NULL;
}

static void with_threads(void)
{
	pthread_t threads[8];

	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, call_some, (void *)100UL);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
}

Test(assist, threads)
{
	run_victim(with_threads, false);
	exact();
	cr_expect_eq(failed(), 0);
	cr_expect_eq(counts().untraced, 0);
	cr_expect_gt(common->tally.injected, 8 * 30 * shape_count);
}
