/* SPDX-License-Identifier: GPL-2.0-only */
/* Percentiles, told the same way everywhere: the nearest rank, so that each is a value that was really measured. */
#ifndef USER_PERCENTILE_H
#define USER_PERCENTILE_H

#include <stddef.h>

/* Sorts, so that percentile() may be asked. NAN is not allowed. */
void percentile_sort(double *values, size_t count);

/* The smallest value that at least `percent` (above 0, at most 100) of the sorted ones do not exceed; NAN of none. */
double percentile(const double *sorted, size_t count, double percent);

#endif
