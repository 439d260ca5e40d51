/* SPDX-License-Identifier: GPL-2.0-only */
/* One step of the chain of Gilbert and Elliott: the same code in the kernel and in the host's tests. */
#ifndef BURST_H
#define BURST_H

#include "bpf/match.h"

/* Chances are parts of 2^32, `thrown` is one of 2^32. Is the connection ill at the next packet? */
MATCH_INLINE int burst_goes_on(int ill, __u32 thrown, __u32 enter, __u32 leave)
{
	return ill ? thrown >= leave : thrown < enter;
}

#endif
