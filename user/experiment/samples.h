/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the probes of a run have met, and numbers from it. Knows no clock: times are whatever the caller counts in, and a
 * span is from `from` up to, not including, `to`; an attempt belongs to the moment at which it was begun.
 */
#ifndef USER_SAMPLES_H
#define USER_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "user/experiment/experiment.h"

struct attempt {
	uint64_t at_ns;
	double latency_ms;
	double value; /* of Prometheus; NAN: none */
	bool ok;
	uint64_t times; /* it stands for so many that were alike; 0: for itself */
};

/* Of one probe, in the order in which they were begun. */
struct series {
	struct attempt *list;
	size_t count, room;
};

struct samples {
	struct series *series; /* one for each probe */
	size_t count;
};

int samples_open(struct samples *samples, size_t probes, struct error *err);
void samples_close(struct samples *samples);
int samples_add(struct samples *samples, size_t probe, const struct attempt *attempt);

/* In the measure's unit; NAN when there is nothing to measure. */
double samples_measure(const struct samples *samples, size_t probe, enum measure measure, uint64_t from, uint64_t to);

/* When the first attempt after `ns` was begun; UINT64_MAX: none. */
uint64_t samples_next(const struct samples *samples, size_t probe, uint64_t ns);

/* Does it hold for that number? Not for NAN. */
bool condition_holds(const struct condition *condition, double actual);

/* Do all of them, or does any? */
bool conditions_hold(const struct samples *samples, const struct conditions *conditions, uint64_t from, uint64_t to);
const struct condition *conditions_any(const struct samples *samples, const struct conditions *conditions,
				       uint64_t from, uint64_t to);

/*
 * Since when the conditions hold without a break, looked at from `to`: attempts are let go one after the other, from
 * *since on, until what is left is as promised. False when nothing is left; *since goes forward only.
 */
bool conditions_hold_since(const struct samples *samples, const struct conditions *conditions, uint64_t to,
			   uint64_t *since);

#endif
