/* SPDX-License-Identifier: GPL-2.0-only */
/* The two clocks that chaosbpf lives by. */
#ifndef USER_CLOCK_H
#define USER_CLOCK_H

#include <stdint.h>

#define NS_PER_S 1000000000ULL

/* CLOCK_BOOTTIME in nanoseconds: deadlines, schedules, events. Goes on while the machine sleeps. */
uint64_t boot_ns(void);

/* CLOCK_MONOTONIC in milliseconds: how long something took. */
double now_ms(void);

#endif
