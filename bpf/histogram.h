/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Histograms whose buckets grow with what is counted (log-linear, as of HDR histograms): the same code in the kernel and
 * in user space.
 *
 *	0 to 15           a bucket each
 *	16 and more       16 buckets for each doubling
 *
 * so a bucket is never wider than a 16th of where it begins, and its middle is never further than HISTOGRAM_ERROR from
 * what was counted in it.
 */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include "bpf/match.h"

#define HISTOGRAM_SHIFT   4
#define HISTOGRAM_PARTS   (1 << HISTOGRAM_SHIFT)
#define HISTOGRAM_MAX     0xffffffffULL /* larger values count as this: 71 minutes in microseconds */
#define HISTOGRAM_BUCKETS ((32 - HISTOGRAM_SHIFT + 1) * HISTOGRAM_PARTS)
#define HISTOGRAM_ERROR   (1.0 / (2 * HISTOGRAM_PARTS)) /* of a percentile, relative: 3.1 % */

struct histogram {
	__u64 sum; /* of what was counted, exact */
	__u64 max; /* the largest, exact but for two CPUs at once */
	__u32 counts[HISTOGRAM_BUCKETS];
};

/* Position of the highest bit of a value that is not 0. */
MATCH_INLINE __u32 histogram_log2(__u32 value)
{
	__u32 bit = 0;

	for (__u32 step = 16; step; step >>= 1) {
		if (value >> step) {
			value >>= step;
			bit += step;
		}
	}
	return bit;
}

MATCH_INLINE __u32 histogram_bucket(__u64 value)
{
	__u32 small = value > HISTOGRAM_MAX ? HISTOGRAM_MAX : value, shift;

	if (small < HISTOGRAM_PARTS)
		return small;
	shift = histogram_log2(small) - HISTOGRAM_SHIFT;
	return shift * HISTOGRAM_PARTS + (small >> shift);
}

/* The least value of a bucket; that of the bucket behind the last one is HISTOGRAM_MAX + 1. */
MATCH_INLINE __u64 histogram_least(__u32 bucket)
{
	__u32 shift;

	if (bucket < 2 * HISTOGRAM_PARTS)
		return bucket;
	shift = bucket / HISTOGRAM_PARTS - 1;
	return (__u64)(HISTOGRAM_PARTS + bucket % HISTOGRAM_PARTS) << shift;
}

#endif
