/* SPDX-License-Identifier: GPL-2.0-only */
/* The names in a rule, looked up on this machine: cgroups to ids, a pid to its descendants, a user to a uid. */
#ifndef USER_TARGET_H
#define USER_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/chaos.h"
#include "user/base/error.h"
#include "user/base/process.h"
#include "user/rules/rules.h"
#include "user/target/cgroup_tree.h"

/* What one rule asks for. */
struct target {
	bool by_pid; /* only the processes in pids[] and their children to come */
	uint32_t *pids;
	size_t pids_count;
	bool may_come;                    /* its cgroups may come, or come again as others: see user/load/follow.c */
	bool waits;                       /* they are not there yet */
	bool by_cgroup;                   /* only sockets whose owner is in one of cgroups[] */
	struct chaos_cgroup_key *cgroups; /* with by_pid: v1 cgroups, whose members' pids are in pids[] */
	size_t cgroups_count;
	bool by_user;
	uint32_t uid;
};

struct target_options {
	const char *only_cgroup;   /* exec; NULL: none. Takes the place of every rule's own cgroup and pid */
	const char *cgroup2_mount; /* empty: cgroup v2 is not mounted */
	const char *root;          /* where container runtimes keep their state: "/" but in tests */
	bool wait;                 /* a cgroup or container that is not there may come: it matches nothing until then */
	bool wait_container;       /* the same, but not for what `cgroup` names */
	const struct target
		*before; /* what was found earlier, by the rules' order; NULL: nothing. See targets_resolve() */
};

/*
 * One target for each rule, to be freed with targets_free(). A name that cannot be found is an error that points into
 * the file. What sockets know of a rule's cgroups, their ids or their processes, must stay as it was `before`: tables
 * are made for it.
 */
int targets_resolve(const struct rules *rules, const struct target_options *options,
		    const struct process_list *processes, struct target **targets, struct error *err);

/* Does this rule name a cgroup that may come, or come again as another one, while the load lasts? */
bool target_may_come(const struct rule *rule);

/* The mounts of v1 hierarchies, and this one of v2. */
void find_mounts(const char *cgroup2_mount, struct cgroup_mounts *mounts);
void targets_free(struct target *targets, size_t count);

/* Where cgroup v2 is mounted (the first such mount), or an empty string. */
void find_cgroup2(char *mount, size_t size);

#endif
