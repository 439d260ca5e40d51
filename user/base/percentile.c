// SPDX-License-Identifier: GPL-2.0-only
#include "user/base/percentile.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

void percentile_sort(double *values, size_t count)
{
	if (count)
		qsort(values, count, sizeof(*values), compare);
}

uint64_t percentile_rank(uint64_t count, double percent)
{
	/* A hair less, since 0.99 * 100 may come out above 99. */
	uint64_t rank = (uint64_t)ceil(percent / 100 * (double)count - 1e-9);

	if (rank < 1)
		rank = 1;
	return rank < count ? rank : count;
}

double percentile(const double *sorted, size_t count, double percent)
{
	return count ? sorted[percentile_rank(count, percent) - 1] : NAN;
}
