/* SPDX-License-Identifier: GPL-2.0-only */
/* Percentiles of histograms that the kernel filled, see bpf/histogram.h. */
#ifndef USER_HISTOGRAM_H
#define USER_HISTOGRAM_H

#include <stdint.h>

#include "bpf/histogram.h"

/* How many were counted. */
uint64_t histogram_count(const struct histogram *h);

/* to += from; what `from` counted before `earlier` (of the same histogram) was read. */
void histogram_add(struct histogram *to, const struct histogram *from);
void histogram_since(struct histogram *to, const struct histogram *now, const struct histogram *earlier);

/*
 * The value that `share` (0 to 1) of what was counted did not exceed: the middle of its bucket, so HISTOGRAM_ERROR off at
 * most; never beyond `max`. NAN: nothing was counted.
 */
double histogram_percentile(const struct histogram *h, double share);

/* The largest that was counted, exact as long as it is known; NAN: nothing was counted. */
double histogram_max(const struct histogram *h);
double histogram_mean(const struct histogram *h);

#endif
