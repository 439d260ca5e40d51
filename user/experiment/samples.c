// SPDX-License-Identifier: GPL-2.0-only
#include "user/experiment/samples.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/percentile.h"

int samples_open(struct samples *samples, size_t probes, struct error *err)
{
	samples->series = calloc(probes, sizeof(*samples->series));
	samples->count = probes;
	return samples->series ? 0 : error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
}

void samples_close(struct samples *samples)
{
	for (size_t i = 0; samples->series && i < samples->count; i++)
		free(samples->series[i].list);
	free(samples->series);
	*samples = (struct samples){ 0 };
}

int samples_add(struct samples *samples, size_t probe, const struct attempt *attempt)
{
	struct series *series = &samples->series[probe];
	size_t at;

	if (series->count == series->room) {
		size_t room = series->room + series->room / 2 + 64;
		struct attempt *list = reallocarray(series->list, room, sizeof(*list));

		if (!list)
			return -ENOMEM;
		series->list = list;
		series->room = room;
	}
	/* They end in another order than they begin, but not by much. */
	for (at = series->count; at > 0 && series->list[at - 1].at_ns > attempt->at_ns; at--)
		series->list[at] = series->list[at - 1];
	series->list[at] = *attempt;
	series->count++;
	return 0;
}

/* Index of the first attempt that was begun at `ns` or later. */
static size_t first_at(const struct series *series, uint64_t ns)
{
	size_t low = 0, high = series->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (series->list[middle].at_ns < ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

uint64_t samples_next(const struct samples *samples, size_t probe, uint64_t ns)
{
	const struct series *series = &samples->series[probe];
	size_t at = ns == UINT64_MAX ? series->count : first_at(series, ns + 1);

	return at < series->count ? series->list[at].at_ns : UINT64_MAX;
}

static uint64_t times_of(const struct attempt *attempt)
{
	return attempt->times ? attempt->times : 1;
}

static uint64_t count_all(const struct attempt *list, size_t count)
{
	uint64_t all = 0;

	for (size_t i = 0; i < count; i++)
		all += times_of(&list[i]);
	return all;
}

static uint64_t count_good(const struct attempt *list, size_t count)
{
	uint64_t good = 0;

	for (size_t i = 0; i < count; i++)
		good += list[i].ok ? times_of(&list[i]) : 0;
	return good;
}

static int by_latency(const void *a, const void *b)
{
	const struct attempt *x = a, *y = b;

	return (x->latency_ms > y->latency_ms) - (x->latency_ms < y->latency_ms);
}

/* Of the good attempts' latencies. */
static double latency(const struct attempt *list, size_t count, double percent)
{
	const uint64_t rank = percentile_rank(count_good(list, count), percent);
	struct attempt *sorted = calloc(count + 1, sizeof(*sorted));
	double value = NAN;
	uint64_t below = 0;
	size_t good = 0;

	if (!sorted)
		return NAN;
	for (size_t i = 0; i < count; i++) {
		if (list[i].ok)
			sorted[good++] = list[i];
	}
	qsort(sorted, good, sizeof(*sorted), by_latency);
	for (size_t i = 0; i < good && below < rank; i++) {
		value = sorted[i].latency_ms;
		below += times_of(&sorted[i]);
	}
	free(sorted);
	return value;
}

static double mean_value(const struct attempt *list, size_t count)
{
	double sum = 0;
	size_t n = 0;

	for (size_t i = 0; i < count; i++) {
		if (!isnan(list[i].value)) {
			sum += list[i].value;
			n++;
		}
	}
	return n ? sum / (double)n : NAN;
}

double samples_measure(const struct samples *samples, size_t probe, enum measure measure, uint64_t from, uint64_t to)
{
	const struct series *series = &samples->series[probe];
	size_t first = first_at(series, from), end = first_at(series, to);
	const struct attempt *list = series->list + first;
	size_t count = end > first ? end - first : 0;

	if (count == 0)
		return NAN;
	switch (measure) {
	case MEASURE_SUCCESS:
		return 100.0 * (double)count_good(list, count) / (double)count_all(list, count);
	case MEASURE_P50:
		return latency(list, count, 50);
	case MEASURE_P90:
		return latency(list, count, 90);
	case MEASURE_P95:
		return latency(list, count, 95);
	case MEASURE_P99:
		return latency(list, count, 99);
	case MEASURE_MAX:
		return latency(list, count, 100);
	case MEASURE_RATE:
		return (double)count_good(list, count) / ((double)(to - from) / 1e9);
	case MEASURE_ATTEMPTS:
		return (double)count_all(list, count);
	case MEASURE_VALUE:
		return mean_value(list, count);
	case MEASURE_COUNT:
		break;
	}
	return NAN;
}

bool condition_holds(const struct condition *condition, double actual)
{
	if (isnan(actual))
		return false;
	switch (condition->comparison) {
	case AT_LEAST:
		return actual >= condition->threshold;
	case AT_MOST:
		return actual <= condition->threshold;
	case MORE_THAN:
		return actual > condition->threshold;
	case LESS_THAN:
		return actual < condition->threshold;
	case EQUAL_TO:
		return fabs(actual - condition->threshold) < 1e-9;
	case COMPARISON_COUNT:
		break;
	}
	return false;
}

static bool holds(const struct samples *samples, const struct condition *condition, uint64_t from, uint64_t to)
{
	return condition_holds(condition, samples_measure(samples, condition->probe, condition->measure, from, to));
}

bool conditions_hold(const struct samples *samples, const struct conditions *conditions, uint64_t from, uint64_t to)
{
	for (size_t i = 0; i < conditions->count; i++) {
		if (!holds(samples, &conditions->list[i], from, to))
			return false;
	}
	return true;
}

const struct condition *conditions_any(const struct samples *samples, const struct conditions *conditions,
				       uint64_t from, uint64_t to)
{
	for (size_t i = 0; i < conditions->count; i++) {
		if (holds(samples, &conditions->list[i], from, to))
			return &conditions->list[i];
	}
	return NULL;
}

bool conditions_hold_since(const struct samples *samples, const struct conditions *conditions, uint64_t to,
			   uint64_t *since)
{
	while (!conditions_hold(samples, conditions, *since, to)) {
		uint64_t next = UINT64_MAX, one;

		for (size_t i = 0; i < conditions->count; i++) {
			one = samples_next(samples, conditions->list[i].probe, *since);
			next = one < next ? one : next;
		}
		/* Of the last attempt it is known only that it was not good: the next one may be. */
		if (next >= to)
			return false;
		*since = next;
	}
	return true;
}
