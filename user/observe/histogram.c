// SPDX-License-Identifier: GPL-2.0-only
#include "user/observe/histogram.h"

#include <math.h>
#include <string.h>

#include "user/base/percentile.h"

uint64_t histogram_count(const struct histogram *h)
{
	uint64_t count = 0;

	for (unsigned int i = 0; i < HISTOGRAM_BUCKETS; i++)
		count += h->counts[i];
	return count;
}

void histogram_add(struct histogram *to, const struct histogram *from)
{
	to->sum += from->sum;
	to->max = from->max > to->max ? from->max : to->max;
	for (unsigned int i = 0; i < HISTOGRAM_BUCKETS; i++)
		to->counts[i] += from->counts[i];
}

static unsigned int last_bucket(const struct histogram *h)
{
	unsigned int last = 0;

	for (unsigned int i = 0; i < HISTOGRAM_BUCKETS; i++)
		last = h->counts[i] ? i : last;
	return last;
}

static double bucket_middle(unsigned int bucket)
{
	return ((double)histogram_least(bucket) + (double)histogram_least(bucket + 1) - 1) / 2;
}

/* Of a part of the time the largest is known only if it is the largest of all; else by its bucket. */
void histogram_since(struct histogram *to, const struct histogram *now, const struct histogram *earlier)
{
	*to = *now;
	to->sum -= earlier->sum;
	for (unsigned int i = 0; i < HISTOGRAM_BUCKETS; i++)
		to->counts[i] -= earlier->counts[i];
	if (histogram_bucket(to->max) != last_bucket(to) || now->max == earlier->max)
		to->max = (uint64_t)bucket_middle(last_bucket(to));
}

double histogram_max(const struct histogram *h)
{
	double least = (double)histogram_least(last_bucket(h));

	if (!histogram_count(h))
		return NAN;
	return (double)h->max < least ? least : (double)h->max;
}

double histogram_mean(const struct histogram *h)
{
	uint64_t count = histogram_count(h);

	return count ? (double)h->sum / (double)count : NAN;
}

double histogram_percentile(const struct histogram *h, double share)
{
	uint64_t count = histogram_count(h), rank = percentile_rank(count, 100 * share), below = 0;
	unsigned int bucket = 0;
	double value;

	if (!count)
		return NAN;
	for (; bucket < HISTOGRAM_BUCKETS; bucket++) {
		below += h->counts[bucket];
		if (below >= rank)
			break;
	}
	value = bucket_middle(bucket);
	return value > histogram_max(h) ? histogram_max(h) : value;
}
