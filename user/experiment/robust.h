/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Does a service really do worse while one of its dependencies is broken? Pure statistics, for few samples and for many:
 * 2 to 4 a minute or 10 a second. What is normal is taken from a baseline, by medians and their deviation, which one
 * slow answer does not move; and what looks worse counts only when it comes and goes with the dependency's own errors.
 */
#ifndef USER_ROBUST_H
#define USER_ROBUST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What was measured in one stretch of time. All of a series are equally long. */
struct robust_window {
	uint64_t attempts, failed; /* of the service */
	double latency_ms;         /* median of good answers; NAN: there was none */
	bool broken;               /* the dependency had errors, or was made slow, in it */
};

/* What the service does by itself. */
struct robust_limits {
	double failed;     /* the share of attempts that may fail, from 0 to 1: an upper bound of the true one */
	double latency_ms; /* above it a window is slow; NAN: nothing was answered */
	double median_ms, deviation_ms;
	uint64_t attempts;
	size_t windows; /* that had an answer */
};

enum robust_change {
	ROBUST_SAME,    /* as before, as far as so many samples can tell */
	ROBUST_FAILS,   /* more fails, */
	ROBUST_SLOW,    /* it is slower, and in both cases with the dependency */
	ROBUST_NOISE,   /* worse, but at other times than the dependency */
	ROBUST_TOO_FEW, /* so few samples that total failure could not be told from chance */
	ROBUST_CHANGE_COUNT,
};
extern const char *const robust_change_names[]; /* same, fails, slow, noise, too-few */

struct robust_verdict {
	enum robust_change change;
	double failed;     /* the share while it was broken; NAN: no attempts */
	double latency_ms; /* median of its windows; NAN: none */
	double chance;     /* that it comes and goes with the dependency by accident alone; NAN: not asked */
};

/* Median, and 1.4826 times the median distance from it: of a normal distribution, its standard deviation. NAN of none. */
double robust_median(const double *values, size_t count);
double robust_deviation(const double *values, size_t count);

/* The largest share that `failed` of `attempts` leave possible (Wilson's upper bound, 97.5 %); 1 of none. */
double robust_upper_share(uint64_t failed, uint64_t attempts);

/* How likely at least `failed` of `attempts` are when each fails with that chance. */
double robust_tail(uint64_t failed, uint64_t attempts, double chance);

/*
 * How likely it is that by chance at least so many windows are both: Fisher's exact test, one-sided. 1 when nothing is, or
 * everything.
 */
double robust_together(size_t both, size_t only_broken, size_t only_bad, size_t neither);

struct robust_limits robust_baseline(const struct robust_window *windows, size_t count);

/* Is this window worse than the baseline lets expect? Not when nothing was attempted in it. */
bool robust_bad(const struct robust_limits *limits, const struct robust_window *window);

/* `windows` are those from the baseline to the end of the gap after the injection, in order; some of them are broken. */
struct robust_verdict robust_judge(const struct robust_limits *limits, const struct robust_window *windows,
				   size_t count);

#endif
