// SPDX-License-Identifier: GPL-2.0-only
/* Few samples and many, quiet services and noisy ones: what is a change, and what is not. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "user/experiment/robust.h"

#define MOST 256

/* A series of windows: a baseline, an injection, a gap. */
struct scene {
	struct robust_window windows[MOST];
	size_t count, baseline;
	uint32_t seed;
};

/* From 0 up to 1, the same in each run. */
static double chance(struct scene *s)
{
	s->seed = s->seed * 1664525u + 1013904223u;
	return s->seed / 4294967296.0;
}

static void add(struct scene *s, size_t windows, uint64_t attempts, double failing, double latency_ms, double noise_ms,
		bool broken)
{
	for (size_t i = 0; i < windows; i++) {
		struct robust_window *w = &s->windows[s->count++];

		*w = (struct robust_window){ .attempts = attempts, .broken = broken };
		for (uint64_t n = 0; n < attempts; n++)
			w->failed += chance(s) < failing;
		w->latency_ms = w->failed < attempts ? latency_ms + noise_ms * (chance(s) - 0.5) : NAN;
	}
	if (!s->baseline)
		s->baseline = s->count;
}

static struct robust_verdict judge(const struct scene *s)
{
	struct robust_limits limits = robust_baseline(s->windows, s->baseline);

	return robust_judge(&limits, s->windows, s->count);
}

Test(robust, numbers)
{
	const double one[] = { 7 }, odd[] = { 9, 1, 5 }, even[] = { 4, 1, 3, 2 }, outlier[] = { 10, 11, 9, 10, 5000 };

	cr_assert(isnan(robust_median(NULL, 0)) && isnan(robust_deviation(NULL, 0)));
	cr_assert_float_eq(robust_median(one, 1), 7, 1e-9);
	cr_assert_float_eq(robust_deviation(one, 1), 0, 1e-9);
	cr_assert_float_eq(robust_median(odd, 3), 5, 1e-9);
	cr_assert_float_eq(robust_median(even, 4), 2.5, 1e-9);
	cr_assert_float_eq(robust_median(outlier, 5), 10, 1e-9);
	cr_assert_float_eq(robust_deviation(outlier, 5), 1.4826, 1e-9);
}

Test(robust, shares)
{
	cr_assert_float_eq(robust_upper_share(0, 0), 1, 1e-9);
	cr_assert_float_eq(robust_upper_share(0, 12), 0.2425, 1e-3);
	cr_assert_float_eq(robust_upper_share(0, 1000), 0.0038, 1e-4);
	cr_assert_float_eq(robust_upper_share(500, 1000), 0.5309, 1e-3);
	cr_assert_float_eq(robust_upper_share(4, 4), 1, 1e-9);
}

/* Against the sums written out. */
Test(robust, tails)
{
	cr_assert_float_eq(robust_tail(0, 10, 0.1), 1, 1e-9);
	cr_assert_float_eq(robust_tail(4, 4, 0.2), 0.0016, 1e-9);
	cr_assert_float_eq(robust_tail(3, 4, 0.2), 0.0272, 1e-9);
	cr_assert_float_eq(robust_tail(1, 10, 0.05), 1 - pow(0.95, 10), 1e-9);
	cr_assert_float_eq(robust_tail(60, 100, 0.5), 0.028444, 1e-5);
	cr_assert_float_eq(robust_tail(1, 5, 0), 0, 1e-9);
	cr_assert_float_eq(robust_tail(5, 5, 1), 1, 1e-9);
}

Test(robust, together)
{
	cr_assert_float_eq(robust_together(4, 0, 0, 14), 1.0 / 3060, 1e-9);
	cr_assert_float_eq(robust_together(0, 4, 4, 10), 1, 1e-9);
	cr_assert_float_eq(robust_together(3, 1, 1, 3), 17.0 / 70, 1e-9); /* Fisher's tea */
	cr_assert_float_eq(robust_together(5, 5, 5, 5), 0.6719, 1e-3);
	cr_assert_float_eq(robust_together(8, 0, 0, 0), 1, 1e-9);
}

Test(robust, nothing_happens)
{
	for (uint32_t seed = 1; seed <= 200; seed++) {
		struct scene s = { .seed = seed };
		struct robust_verdict v;

		add(&s, 12, 40, 0.01, 50, 30, false);
		add(&s, 6, 40, 0.01, 50, 30, true);
		add(&s, 3, 40, 0.01, 50, 30, false);
		v = judge(&s);
		cr_assert_eq(v.change, ROBUST_SAME, "seed %u: %s", seed, robust_change_names[v.change]);
	}
}

Test(robust, busy_service_that_fails)
{
	for (uint32_t seed = 1; seed <= 200; seed++) {
		struct scene s = { .seed = seed };
		struct robust_verdict v;

		add(&s, 12, 40, 0.02, 50, 30, false);
		add(&s, 6, 40, 0.3, 50, 30, true);
		add(&s, 3, 40, 0.02, 50, 30, false);
		v = judge(&s);
		cr_assert_eq(v.change, ROBUST_FAILS, "seed %u: %s", seed, robust_change_names[v.change]);
		cr_assert_float_eq(v.failed, 0.3, 0.15);
	}
}

/* Four questions a minute, windows of 15 s: one attempt each. */
Test(robust, quiet_service)
{
	struct scene s = { .seed = 1 }, slow = { .seed = 2 }, same = { .seed = 3 };

	add(&s, 12, 1, 0, 800, 200, false);
	add(&s, 4, 1, 1, 0, 0, true);
	add(&s, 2, 1, 0, 800, 200, false);
	cr_assert_eq(judge(&s).change, ROBUST_FAILS);
	add(&slow, 12, 1, 0, 800, 200, false);
	add(&slow, 4, 1, 0, 3800, 200, true);
	add(&slow, 2, 1, 0, 800, 200, false);
	cr_assert_eq(judge(&slow).change, ROBUST_SLOW);
	add(&same, 12, 1, 0, 800, 200, false);
	add(&same, 4, 1, 0, 800, 200, true);
	add(&same, 2, 1, 0, 800, 200, false);
	cr_assert_eq(judge(&same).change, ROBUST_SAME);
}

/* Two a minute are enough when they are given three minutes, and not in one. */
Test(robust, two_a_minute)
{
	struct scene s = { .seed = 1 }, hasty = { .seed = 2 };

	add(&s, 12, 1, 0, 800, 200, false);
	add(&s, 6, 1, 1, 0, 0, true);
	add(&s, 2, 1, 0, 800, 200, false);
	cr_assert_eq(judge(&s).change, ROBUST_FAILS);
	add(&hasty, 6, 1, 0, 800, 200, false);
	add(&hasty, 2, 1, 1, 0, 0, true);
	cr_assert_eq(judge(&hasty).change, ROBUST_TOO_FEW);
}

/* Answers that are always equally fast: no deviation at all, and a few milliseconds more are no change. */
Test(robust, no_variation)
{
	struct scene s = { .seed = 1 }, slow = { .seed = 1 };

	add(&s, 12, 40, 0, 2, 0, false);
	add(&s, 6, 40, 0, 4, 0, true);
	cr_assert_eq(judge(&s).change, ROBUST_SAME);
	add(&slow, 12, 40, 0, 100, 0, false);
	add(&slow, 6, 40, 0, 140, 0, true);
	cr_assert_eq(judge(&slow).change, ROBUST_SLOW);
}

/* It gets worse in the middle of the injection and stays so after it: something else. */
Test(robust, worse_at_other_times)
{
	struct scene s = { .seed = 5 }, slow = { .seed = 6 };

	add(&s, 12, 40, 0, 50, 10, false);
	add(&s, 2, 40, 0, 50, 10, true);
	add(&s, 4, 40, 0.5, 50, 10, true);
	add(&s, 8, 40, 0.5, 50, 10, false);
	cr_assert_eq(judge(&s).change, ROBUST_NOISE);
	add(&slow, 12, 40, 0, 50, 10, false);
	add(&slow, 2, 40, 0, 50, 10, true);
	add(&slow, 4, 40, 0, 500, 10, true);
	add(&slow, 8, 40, 0, 500, 10, false);
	cr_assert_eq(judge(&slow).change, ROBUST_NOISE);
}

/* One slow stretch in the baseline moves no limit; nothing answered at all is no latency. */
Test(robust, baseline)
{
	struct scene s = { .seed = 7 };
	struct robust_limits limits;

	add(&s, 11, 40, 0, 50, 10, false);
	add(&s, 1, 40, 0, 9000, 0, false);
	limits = robust_baseline(s.windows, s.count);
	cr_assert_float_eq(limits.median_ms, 50, 6);
	cr_assert_lt(limits.latency_ms, 80);
	cr_assert_eq(limits.windows, 12);
	cr_assert_eq(limits.attempts, 480);
	cr_assert(robust_bad(&limits, &s.windows[11]) && !robust_bad(&limits, &s.windows[0]));
	cr_assert(robust_bad(&limits, &(struct robust_window){ .attempts = 4, .failed = 4, .latency_ms = NAN }));
	cr_assert_not(robust_bad(&limits, &(struct robust_window){ .latency_ms = NAN }));
	limits = robust_baseline(s.windows, 0);
	cr_assert(isnan(limits.latency_ms) && limits.failed == 1);
	cr_assert_eq(robust_judge(&limits, s.windows, s.count).change, ROBUST_TOO_FEW);
}
