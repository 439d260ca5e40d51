/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The BPF programs of one load: open, fill, attach, arm, free. Owns the skeleton; knows nothing of devices and /proc.
 *
 * A load is a set of programs and maps of its own. It is attached beside the one before it, and does nothing until the
 * control word names its generation: one write replaces one whole configuration by another.
 */
#ifndef USER_ENGINE_H
#define USER_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/chaos.h"
#include "user/base/error.h"
#include "user/engine/feature.h"
#include "user/tables/schedule.h"
#include "user/tables/tables.h"

struct chaos; /* the skeleton */

#define ENGINE_MAX_LINKS 48

struct engine {
	struct chaos *skel;
	uint32_t generation;
	char pin_dir[96]; /* of this load, empty before engine_pin() */
	int control_fd, sock_fd;
	int egress_fd, ingress_fd, answer_fd; /* tc programs, -1 when no rule needs them */
	int ifb_fd, pick_fd; /* those of packets that arrive and wait; `pick` only where they need it */
	struct bpf_link *links[ENGINE_MAX_LINKS];
	const struct bpf_program *programs[ENGINE_MAX_LINKS]; /* of each link */
	int links_count;
};

/*
 * Loads programs and fills all maps. `control_fd` and `sock_fd` are the maps that all loads share, or -1 to make them.
 * To be freed with engine_free().
 */
int engine_open(const struct tables *tables, const struct schedule *schedule, const struct features *features,
		uint32_t generation, int control_fd, int sock_fd, struct engine *engine, struct error *err);

/* Attaches everything, inert: after this owners and children are learned. */
int engine_attach(struct engine *engine, const char *cgroup2_mount, struct error *err);

/* Pins the maps, and the links unless `maps_only`, below `dir`, which must exist. */
int engine_pin(struct engine *engine, const char *dir, bool maps_only, struct error *err);

/* Writes pids again: those that were born while things were attached. */
int engine_fill_pids(struct engine *engine, const struct tables *tables, struct error *err);

/* Puts another schedule in place, before arming: everything before took its time, and durations count from here. */
int engine_reschedule(struct engine *engine, const struct tables *tables, const struct schedule *schedule,
		      struct error *err);

/* Reads back which processes and cgroups the kernel has added to those of the rules. */
int engine_follow(const struct engine *engine, struct tables *tables);

/*
 * Follows cgroups that came and went: `tables` as engine_follow() left them, `targets` resolved after that. *changed: some
 * came, and every connection chooses its rule again.
 */
int engine_update_cgroups(struct engine *engine, struct tables *tables, const struct target *targets, bool *changed,
			  struct error *err);

/* Has every connection choose its rule again; `bss_fd` is the map of that name. */
int engine_choose_again(int bss_fd);

/* Have all rules finished before their time (max-hits, unload)? */
bool engine_all_finished(const struct engine *engine, size_t rules);

/* Is an answer inside TLS promised, and not made or not whole? Then it has been counted as a hit already. */
bool engine_owes_answers(const struct engine *engine);

/* Those that `unload` has ended. */
int engine_unloaded(const struct engine *engine, struct chaos_vector *rules);

/* One write: from here on this load is the one. generation 0: none is. */
int engine_arm(int control_fd, uint32_t generation);

/* Ends this load's faults. Nothing happens when another one has taken its place. */
int engine_disarm(int control_fd, uint32_t generation);

/* A process name that was met in /proc: patterns are matched for it as the kernel would. */
int engine_meet_comm(struct engine *engine, const struct tables *tables, const char *comm);

/* Descriptor of a map of this load by its name ("chaos_events"), or -1. */
int engine_map(const struct engine *engine, const char *name);

/* Frees what is not pinned. */
void engine_free(struct engine *engine);

#endif
