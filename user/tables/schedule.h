/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Time windows of all rules, turned into one list of intervals that the kernel walks: in each a fixed set of rules is in
 * force, and after the last none is. So every rule has an end that needs no process to be kept.
 */
#ifndef USER_SCHEDULE_H
#define USER_SCHEDULE_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "bpf/chaos.h"
#include "user/base/error.h"
#include "user/rules/rules.h"

/* The moment of a load, on both clocks. */
struct instant {
	uint64_t boot_ns; /* CLOCK_BOOTTIME */
	struct timespec wall;
};
void moment_now(struct instant *now);

struct schedule {
	struct chaos_interval *intervals;
	size_t count;        /* 1 to CHAOS_MAX_INTERVALS */
	uint64_t end_ns;     /* CLOCK_BOOTTIME: after this no rule is in force */
	uint64_t *begins_ns; /* of every rule: when it is first in force */
};

/*
 * Local time is turned into CLOCK_BOOTTIME here, once: a clock that is set later moves no window. EXIT_USAGE when a
 * rule's window never opens before its end, or when there are too many different windows.
 */
int schedule_make(const struct rules *rules, const struct instant *now, struct schedule *schedule, struct error *err);
void schedule_free(struct schedule *schedule);

#endif
