/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The cgroups of this machine by path, and what their names tell: which container or pod a cgroup belongs to (docker,
 * podman, containerd, CRI-O, kubelet; with systemd's and with the plain layout), which unit of systemd it is.
 */
#ifndef USER_CGROUP_TREE_H
#define USER_CGROUP_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CGROUP_MAX_V1    32
#define CGROUP_MAX_DIRS  65536
#define CONTAINER_ID_LEN 64

struct v1_hierarchy {
	unsigned int number;
	char mount[256];
};

/* Where cgroups are mounted. */
struct cgroup_mounts {
	const char *v2; /* empty: not mounted */
	struct v1_hierarchy v1[CGROUP_MAX_V1];
	size_t v1_count;
	bool v1_rules; /* processes are managed in v1 hierarchies, not only tagged by one of them (net_cls) */
};

/* Paths below the mounts, without a leading slash, each once although several hierarchies may have it; sorted. */
struct cgroup_tree {
	char **paths;
	size_t count;
};

/* Called for each directory before it is read; `path` is absolute. */
typedef void (*cgroup_dir_fn)(const char *path, void *arg);

/* To be freed with cgroup_tree_free(). `fn` may be NULL. 0 or a negative errno (-E2BIG: too many). */
int cgroup_tree_read(const struct cgroup_mounts *mounts, cgroup_dir_fn fn, void *arg, struct cgroup_tree *tree);
void cgroup_tree_free(struct cgroup_tree *tree);

/* The id of the container whose own cgroup this is (its last part), into id[65]; false when it is none's. */
bool cgroup_container_id(const char *path, char id[CONTAINER_ID_LEN + 1]);

/* Is it the cgroup of the pod with that UID? Dashes and underscores of the UID are the same. */
bool cgroup_is_pod(const char *path, const char *uid);

/* Is it the unit of that name (with its suffix), of the system's or a user's systemd, not of one inside a container? */
bool cgroup_is_unit(const char *path, const char *unit);

/* Is `path` the cgroup `above` or below it? */
bool cgroup_is_below(const char *path, const char *above);

#endif
