/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The cgroup that `exec` runs its command in: what makes "this command, its children, and nothing else" something the
 * kernel can match.
 *
 * It stands at the root of the cgroup v2 hierarchy as chaosbpf-exec-PID. Whoever made it holds a lock on its directory,
 * so that a later command can tell a dead run's leftover from one in use, whatever became of the PID.
 */
#ifndef USER_EXEC_CGROUP_H
#define USER_EXEC_CGROUP_H

#include <limits.h>
#include <stddef.h>
#include <sys/types.h>

#include "user/base/error.h"

struct exec_cgroup {
	char path[PATH_MAX];   /* of its directory */
	char name[NAME_MAX];   /* below the mount: load_options.only_cgroup */
	char origin[PATH_MAX]; /* directory of the caller's own cgroup: where processes go back to */
	int fd;                /* on the directory, locked */
};

/* Makes it below `mount` (features.cgroup2_mount). */
int exec_cgroup_make(const char *mount, struct exec_cgroup *cgroup, struct error *err);

/* Puts a process into it. */
int exec_cgroup_add(const struct exec_cgroup *cgroup, pid_t pid, struct error *err);

/*
 * Removes it and what the command made below it. Processes that still live there are not killed: they go back to where
 * the caller is, and *moved says how many.
 */
int exec_cgroup_remove(struct exec_cgroup *cgroup, size_t *moved, struct error *err);

/*
 * Removes what runs that died have left; processes that still live there go back to where they came from. Returns how
 * many were removed or a negative errno. Called by state_tidy().
 */
int exec_cgroup_tidy(const char *cgroup2_mount);

#endif
