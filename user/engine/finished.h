/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which rules of a load have ended before their time. The kernel side keeps this twice: for connections under a lock, and
 * for calls, where no lock can be had, as one vector for itself and one for us (bpf/call.bpf.h).
 */
#ifndef USER_FINISHED_H
#define USER_FINISHED_H

#include "bpf/chaos.h"

/* The maps of one load; the caller's to close. */
struct finished_maps {
	int finished_fd;  /* chaos_finished */
	int call_over_fd; /* chaos_call_over */
};

/* Rules that have ended, for whatever reason. 0 or a negative errno. */
int finished_read(const struct finished_maps *maps, struct chaos_vector *rules);

/* Those that `unload` has ended. */
int finished_unloaded(const struct finished_maps *maps, struct chaos_vector *rules);

/* Ends these rules as well, in the kernel; connections still have to choose again. 0 or a negative errno. */
int finished_add(const struct finished_maps *maps, const struct chaos_vector *rules);

#endif
