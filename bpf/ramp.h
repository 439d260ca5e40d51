/* SPDX-License-Identifier: GPL-2.0-only */
/* Values that move in a straight line while a rule lasts: the same code in the kernel and in the host's tests. */
#ifndef RAMP_H
#define RAMP_H

#include "bpf/match.h"

#define RAMP_STEPS (1ULL << 23) /* with values below 2^41 (CHAOS_MAX_DELAY_NS) no product overflows */

/* The value `since_ns` after the ramp began: `from`, then in a straight line to ramp->to, then that. Exact at both ends. */
MATCH_INLINE __u64 ramp_value(__u64 from, const struct chaos_ramp *ramp, __u64 since_ns)
{
	const __u64 to = ramp->to, tick = ramp->over_ns / RAMP_STEPS + 1;
	const __u64 way = to > from ? to - from : from - to;
	__u64 gone;

	if (since_ns >= ramp->over_ns)
		return to;
	gone = way * (since_ns / tick) / (ramp->over_ns / tick);
	if (gone > way)
		gone = way;
	return to > from ? from + gone : from - gone;
}

#endif
