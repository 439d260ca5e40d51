/* SPDX-License-Identifier: GPL-2.0-only */
/* The names in a rule, looked up on this machine: cgroups to ids, a pid to its descendants, a user to a uid. */
#ifndef USER_TARGET_H
#define USER_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/chaos.h"
#include "user/error.h"
#include "user/process.h"
#include "user/rules.h"

/* What one rule asks for. */
struct target {
	bool by_pid;	    /* only the processes in pids[] and their children to come */
	uint32_t *pids;
	size_t pids_count;
	bool by_cgroup;	    /* only sockets whose owner is in one of cgroups[] */
	struct chaos_cgroup_key *cgroups; /* with by_pid: v1 cgroups, whose members' pids are in pids[] */
	size_t cgroups_count;
	bool by_user;
	uint32_t uid;
};

/*
 * One target for each rule, to be freed with targets_free(). `only_cgroup` (exec; NULL: none) takes the place of every
 * rule's own cgroup and pid. A name that cannot be found is an error that points into the file.
 */
int targets_resolve(const struct rules *rules, const char *only_cgroup, const char *cgroup2_mount,
		    const struct process_list *processes, struct target **targets, struct error *err);
void targets_free(struct target *targets, size_t count);

/* Where cgroup v2 is mounted (the first such mount), or an empty string. */
void find_cgroup2(char *mount, size_t size);

#endif
