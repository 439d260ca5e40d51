/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Events: from the ring buffer of the running load to the log, and from there to whoever asks.
 *
 * The log (/run/chaosbpf/events) is an array of struct chaos_event, bounded; the reaper or, when it is gone, whichever
 * command asks moves events there. Counters are the truth: events can be dropped and then the number is known.
 */
#ifndef USER_EVENT_H
#define USER_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/chaos.h"
#include "user/base/error.h"

#define EVENTS_MAX 100000 /* of one load; later ones count as dropped */

/* Called for each event in order; a non-zero return ends the reading and is passed on. */
typedef int (*event_fn)(const struct chaos_event *event, const char *rule, void *arg);

/*
 * Reads the events of the present load (or of the last one, until another is loaded), then, with `follow`, new ones as
 * they come until the load is over or `wake_fd` (-1: none) becomes readable.
 */
int events_read(bool follow, int wake_fd, event_fn fn, void *arg, struct error *err);

/* Wall clock in seconds of a time of CLOCK_BOOTTIME. */
double event_wall_time(uint64_t boot_ns);

#endif
