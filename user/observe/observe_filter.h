/* SPDX-License-Identifier: GPL-2.0-only */
/* Whom an observer looks at, from the match of a rule to the maps of bpf/observe.bpf.c: for user/observe/observe.c only. */
#ifndef USER_OBSERVE_FILTER_H
#define USER_OBSERVE_FILTER_H

#include "user/observe/observe.h"
#include "user/target/target.h"

struct observe_bpf; /* the skeleton */

struct observe_filter {
	const struct rules *rules; /* NULL: everybody */
	char cgroup2_mount[256];
	struct target *target; /* of the first rule, or NULL */
	struct chaos_patterns pattern;
};

/* Looks up what the match names. */
int filter_resolve(struct observe_filter *filter, const struct observe_options *options, const struct features *f,
		   struct error *err);

/* Before the load: knobs and sizes of maps; after it: what is in them. */
void filter_set_knobs(const struct observe_filter *filter, const struct observe_options *options,
		      struct observe_knobs *knobs);
void filter_size_maps(const struct observe_filter *filter, struct observe_bpf *skel);
int filter_fill_maps(const struct observe_filter *filter, struct observe_bpf *skel, struct error *err);

/* Is this process one of those that are looked for? As the kernel would say. */
bool filter_wants(const struct observe_filter *filter, const struct process *process);

/* Children of the match's pid that were born before the kernel began to follow them. */
int filter_add_children(const struct observe_filter *filter, struct observe_bpf *skel,
			const struct process_list *processes, struct error *err);

/* Cgroups and processes as they are now, in place of those of the last time. */
int filter_follow(struct observe_filter *filter, struct observe_bpf *skel, struct error *err);

void filter_free(struct observe_filter *filter);

#endif
