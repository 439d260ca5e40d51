/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Loading and taking down: what `load`, `exec`, `inject`, `unload` and `stop` do, without their command lines.
 */
#ifndef USER_LOAD_H
#define USER_LOAD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "user/base/error.h"
#include "user/engine/feature.h"
#include "user/rules/rules.h"

struct load_options {
	const char *command;     /* "load", "exec", "inject": shown by `status` */
	bool observe;            /* count what would be hit, inject nothing */
	bool checking;           /* load_check(): a container or name that is not there is told, and no error */
	bool wait;               /* what a rule names by cgroup, container, pod or unit may start later */
	bool foreground;         /* faults live as long as this process: nothing is pinned but the state */
	bool whole;              /* foreground: it is served only as long as nobody takes a part of it away */
	pid_t owner;             /* foreground: the process whose life bounds the load; 0: this one */
	const char *only_cgroup; /* exec: path below the cgroup2 mount; every rule is narrowed to it */
};

/* One line of `check` for a rule. */
struct rule_plan {
	char sentence[1024]; /* what will be hit, until when (user/rules/explain.h) */
	char mechanism[512]; /* how, on this kernel, on which devices */
	char cannot[512];    /* why it cannot be had here; empty when it can */
	char hint[512];      /* what would make it work */
	char note[1024];     /* something to know (a cgroup with no process, ...), or empty */
};

/*
 * Says what a load would do, changes nothing. plans[] has rules->count entries, to be freed with free(). Returns 0 also
 * when some rule cannot be had: look at `cannot`. Works without root as far as it can (then *features says what is missing).
 */
int load_check(struct rules *rules, const struct load_options *options, struct features *features,
	       struct rule_plan **plans, struct error *err);

struct load; /* a load that lives with this process (foreground) */

struct load_result {
	uint32_t generation;
	size_t rules;
	double ends_in_s;
	size_t devices; /* prepared now */
	size_t sockets; /* connections older than the load that were given their owner */
	double took_ms;
};

/*
 * All or nothing: on failure nothing is attached and what was loaded before goes on. A load replaces the one before it
 * at once. Needs the lock (lock.h). With foreground, *load is to be given to load_end(); else it is NULL and a
 * reaper was started in the background. The rules stay the caller's and must outlive a foreground load; what this
 * kernel cannot do with UDP may be taken out of them.
 */
int load_start(struct rules *rules, const struct load_options *options, struct load **load, struct load_result *result,
	       struct error *err);

/* Takes the lock, as load_start(), gives the lock back. */
int load_locked(struct rules *rules, const struct load_options *options, struct load **load, struct load_result *result,
		struct error *err);

/*
 * Serves a foreground load until `seconds` have passed (negative: until its last rule ends) or `wake_fd` (-1: none)
 * becomes readable: prepares new devices, moves events to the log. Returns 1 when the load is over, 0 when woken. With
 * `whole` -ENOLINK when somebody has taken a part of it away (*err: what), and -ECANCELED when all rules were unloaded.
 */
int load_serve(struct load *load, double seconds, int wake_fd, struct error *err);

/* Nothing is injected any more; all stays where it is. */
void load_disarm(struct load *load);

/* A look at all of a foreground load, as load_serve() has one each second. -ECANCELED also when another has taken its place. */
int load_whole(const struct load *load, struct error *err);

/* Disarms, takes everything down, frees. Takes the lock itself. */
int load_end(struct load *load, struct error *err);

/*
 * Ends all rules (name NULL) or one. Requests that are being held are let go at their time, so this may take as long
 * as the longest delay when all rules end; `stop` does not wait.
 */
int load_unload(const char *name, struct error *err);

struct stop_result {
	bool was_loaded;
	double disarmed_ms; /* until no program injects any more */
	double took_ms;     /* until everything is as before */
};

/*
 * The red button: disarms in one write, then removes programs, pins, queues, filters and state, whether or not they can
 * be made sense of. Goes on after a failure and reports the first. Waits for the lock only shortly, then goes ahead.
 */
int load_stop(struct stop_result *result, struct error *err);

#endif
