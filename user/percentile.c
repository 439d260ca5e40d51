// SPDX-License-Identifier: GPL-2.0-only
#include "user/percentile.h"

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

double percentile(const double *sorted, size_t count, double percent)
{
	size_t rank;

	if (!count)
		return NAN;
	/* A hair less, since 0.99 * 100 may come out above 99. */
	rank = (size_t)ceil(percent / 100 * (double)count - 1e-9);
	if (rank < 1)
		rank = 1;
	return sorted[(rank < count ? rank : count) - 1];
}
