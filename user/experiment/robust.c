// SPDX-License-Identifier: GPL-2.0-only
#include "user/experiment/robust.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/names.h"
#include "user/base/percentile.h"

#define Z              1.96 /* 97.5 % */
#define DEVIATIONS     4    /* a median so far off is no chance when there are many windows, */
#define FEW            10   /* and with fewer than this */
#define DEVIATIONS_FEW 6    /* so far */
#define LEAST_SHARE    0.25 /* nor is a service called slow that is a quarter slower, */
#define LEAST_MS       5    /* or by so little */
#define LEAST_FAILED   0.05 /* or failing that fails so little more */
#define SURE           0.01 /* what is less likely is no accident */

const char *const robust_change_names[] = { "same", "fails", "slow", "noise", "too-few", NULL };
_Static_assert(sizeof(robust_change_names) / sizeof(robust_change_names[0]) == ROBUST_CHANGE_COUNT + 1,
	       "robust_change_names must name every value");

/* ---- numbers ---- */

/* Sorts. */
static double median_of(double *values, size_t count)
{
	percentile_sort(values, count);
	if (!count)
		return NAN;
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

double robust_median(const double *values, size_t count)
{
	double *copy = calloc(count ?: 1, sizeof(*copy)), median = NAN;

	if (copy && count) {
		memcpy(copy, values, count * sizeof(*copy));
		median = median_of(copy, count);
	}
	free(copy);
	return median;
}

double robust_deviation(const double *values, size_t count)
{
	double *distance = calloc(count ?: 1, sizeof(*distance)), median = robust_median(values, count),
	       deviation = NAN;

	for (size_t i = 0; distance && i < count; i++)
		distance[i] = fabs(values[i] - median);
	if (distance)
		deviation = 1.4826 * median_of(distance, count);
	free(distance);
	return deviation;
}

double robust_upper_share(uint64_t failed, uint64_t attempts)
{
	double n = (double)attempts, p, upper;

	if (!attempts)
		return 1;
	p = (double)failed / n;
	upper = (p + Z * Z / (2 * n) + Z * sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))) / (1 + Z * Z / n);
	return upper < 1 ? upper : 1;
}

static double log_choose(double n, double k)
{
	return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1);
}

double robust_tail(uint64_t failed, uint64_t attempts, double chance)
{
	double sum = 0, n = (double)attempts;

	if (!failed || chance >= 1)
		return 1;
	if (chance <= 0)
		return 0;
	for (uint64_t k = failed; k <= attempts; k++) {
		double one = exp(log_choose(n, (double)k) + (double)k * log(chance) + (n - (double)k) * log1p(-chance));

		sum += one;
		/* Beyond the middle each is smaller than the one before, and soon too small to matter. */
		if ((double)k > n * chance && one < sum * 1e-12)
			break;
	}
	return sum < 1 ? sum : 1;
}

double robust_together(size_t both, size_t only_broken, size_t only_bad, size_t neither)
{
	double broken = (double)(both + only_broken), bad = (double)(both + only_bad);
	double n = broken + (double)(only_bad + neither), sum = 0;
	double most = broken < bad ? broken : bad;

	if (!both)
		return 1;
	for (double k = (double)both; k <= most; k++) {
		if (n - broken < bad - k)
			continue;
		sum += exp(log_choose(broken, k) + log_choose(n - broken, bad - k) - log_choose(n, bad));
	}
	return sum < 1 ? sum : 1;
}

/* ---- what is normal ---- */

/* The medians of those windows that had an answer, and of them only those that were broken or not; how many. */
static size_t latencies(const struct robust_window *windows, size_t count, bool broken, double *to)
{
	size_t found = 0;

	for (size_t i = 0; i < count; i++) {
		if (windows[i].broken == broken && !isnan(windows[i].latency_ms))
			to[found++] = windows[i].latency_ms;
	}
	return found;
}

static double above_chance(double median, double deviation, size_t windows)
{
	double room = deviation * (windows < FEW ? DEVIATIONS_FEW : DEVIATIONS);

	room = fmax(room, median * LEAST_SHARE);
	return median + fmax(room, LEAST_MS);
}

struct robust_limits robust_baseline(const struct robust_window *windows, size_t count)
{
	struct robust_limits limits = { .median_ms = NAN, .deviation_ms = NAN, .latency_ms = NAN };
	double *values = calloc(count ?: 1, sizeof(*values));
	uint64_t failed = 0;

	for (size_t i = 0; i < count; i++) {
		limits.attempts += windows[i].attempts;
		failed += windows[i].failed;
	}
	limits.failed = robust_upper_share(failed, limits.attempts);
	limits.windows = values ? latencies(windows, count, false, values) : 0;
	if (limits.windows) {
		limits.median_ms = robust_median(values, limits.windows);
		limits.deviation_ms = robust_deviation(values, limits.windows);
		limits.latency_ms = above_chance(limits.median_ms, limits.deviation_ms, limits.windows);
	}
	free(values);
	return limits;
}

/* ---- what is not ---- */

/* Does more of this window fail than the baseline lets expect? */
static bool fails(const struct robust_limits *limits, const struct robust_window *w)
{
	return w->attempts && (double)w->failed > (double)w->attempts * fmin(limits->failed + LEAST_FAILED, 0.999);
}

static bool slow(const struct robust_limits *limits, const struct robust_window *w)
{
	return !isnan(w->latency_ms) && w->latency_ms > limits->latency_ms;
}

bool robust_bad(const struct robust_limits *limits, const struct robust_window *window)
{
	return fails(limits, window) || slow(limits, window);
}

/* How likely it is that the windows that are bad are the broken ones by accident. */
static double by_accident(const struct robust_limits *limits, const struct robust_window *windows, size_t count,
			  bool (*bad)(const struct robust_limits *, const struct robust_window *))
{
	size_t cell[2][2] = { { 0 } };

	for (size_t i = 0; i < count; i++) {
		/* A window without an attempt says nothing. */
		if (windows[i].attempts)
			cell[windows[i].broken][bad(limits, &windows[i])]++;
	}
	return robust_together(cell[1][1], cell[1][0], cell[0][1], cell[0][0]);
}

static void sum_broken(const struct robust_window *windows, size_t count, uint64_t *attempts, uint64_t *failed,
		       double *latency_ms)
{
	double *values = calloc(count ?: 1, sizeof(*values));

	*attempts = *failed = 0;
	for (size_t i = 0; i < count; i++) {
		*attempts += windows[i].broken ? windows[i].attempts : 0;
		*failed += windows[i].broken ? windows[i].failed : 0;
	}
	*latency_ms = values ? robust_median(values, latencies(windows, count, true, values)) : NAN;
	free(values);
}

struct robust_verdict robust_judge(const struct robust_limits *limits, const struct robust_window *windows,
				   size_t count)
{
	struct robust_verdict v = { .change = ROBUST_SAME, .failed = NAN, .chance = NAN };
	uint64_t attempts, failed;
	bool more_fails, slower;

	sum_broken(windows, count, &attempts, &failed, &v.latency_ms);
	if (attempts)
		v.failed = (double)failed / (double)attempts;
	more_fails = attempts && v.failed >= limits->failed + LEAST_FAILED &&
		     robust_tail(failed, attempts, limits->failed) < SURE;
	slower = !isnan(v.latency_ms) && v.latency_ms > limits->latency_ms;
	if (more_fails || slower) {
		v.chance = by_accident(limits, windows, count, more_fails ? fails : slow);
		v.change = v.chance >= SURE ? ROBUST_NOISE : more_fails ? ROBUST_FAILS : ROBUST_SLOW;
	} else if (robust_tail(attempts, attempts, limits->failed) >= SURE) {
		v.change = ROBUST_TOO_FEW;
	}
	return v;
}
