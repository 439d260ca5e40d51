/* SPDX-License-Identifier: GPL-2.0-only */
/* What tests/bpf/assist_test.bpf.c and test_assist.c say to each other. */
#ifndef TESTS_BPF_ASSIST_TEST_H
#define TESTS_BPF_ASSIST_TEST_H

#include <linux/types.h>

struct assist_test_knobs {
	__u64 value;
	__u32 percent; /* of calls that are to return at once */
	__u32 flags; /* ASSIST_TEST_ */
	__u64 delay_ns; /* before it, */
	__u32 runs; /* or before the function runs after all: enum chaos_runs */
	__s32 error;
};

#define ASSIST_TEST_BLOCKED 1 /* decides although SIGURG is blocked */
#define ASSIST_TEST_NEVER   2 /* of nobody */

struct assist_test_counts {
	__u64 calls;
	__u64 sent;
	__u64 again;	/* the program ran twice for a call */
	__u64 stale;	/* a record of an earlier call was still there */
	__u64 refused;	/* the helper's answer */
	__u64 blocked;
	__u64 untraced; /* not in chaos_traced */
	__u64 silent;	/* no sign of life */
	__u64 returns;	/* seen by a probe at the return */
};

#endif
