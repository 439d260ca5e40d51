/* SPDX-License-Identifier: GPL-2.0-only */
/* Percentiles, told the same way everywhere: the nearest rank, so that each is a value that was really measured. */
#ifndef USER_PERCENTILE_H
#define USER_PERCENTILE_H

#include <stddef.h>
#include <stdint.h>

/* Sorts, so that percentile() may be asked. NAN is not allowed. */
void percentile_sort(double *values, size_t count);

/* Which of `count` values in order that is, counted from 1; 0 of none. */
uint64_t percentile_rank(uint64_t count, double percent);

/* The smallest value that at least `percent` (above 0, at most 100) of the sorted ones do not exceed; NAN of none. */
double percentile(const double *sorted, size_t count, double percent);

#endif
