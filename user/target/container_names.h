/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What containers and pods are called, from the files in which their runtimes keep it. No runtime is asked, nothing is
 * run. The files are not trusted: bounded in size and number, read below `root` whatever links say, and what they say
 * counts only in the shape of an id or a name.
 *
 *	docker       /var/lib/docker/containers/<id>/config.v2.json                     "Name"
 *	podman       <storage>/overlay-containers/containers.json (vfs-, btrfs-...)      "id", "names"
 *	             of root in /var/lib/containers/storage, of others in their homes, who can speak for their own cgroups only
 *	containerd   /run/containerd/io.containerd.runtime.v2.task/<ns>/<id>/config.json CRI's annotations
 *	kubelet      /var/log/containers/<pod>_<namespace>_<container>-<id>.log          the names of the links
 *	             /var/log/pods/<namespace>_<pod>_<uid>/                              the names of the directories
 */
#ifndef USER_CONTAINER_NAMES_H
#define USER_CONTAINER_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "user/target/cgroup_tree.h"

#define CONTAINER_MAX_NAMES 16384
#define CONTAINER_MAX_NAME  253

struct container_name {
	char id[CONTAINER_ID_LEN + 1]; /* of a container; of a pod its UID */
	char *name;
	char *pod; /* namespace/name, or NULL */
	bool is_pod;
	uid_t owner; /* 0, or whose word it is: good for cgroups below user-<owner>.slice */
};

struct container_names {
	struct container_name *list;
	size_t count;
};

/* Reads all of them below `root` ("/" but in tests). What cannot be read is left out; -ENOMEM is the only failure. */
int container_names_read(const char *root, struct container_names *names);
void container_names_free(struct container_names *names);

/* One file from memory, for tests: docker's, podman's, containerd's. Nothing is added when it makes no sense. */
int docker_config_parse(const char *id, const char *json, size_t len, struct container_names *names);
int podman_list_parse(const char *json, size_t len, uid_t owner, struct container_names *names);
int containerd_config_parse(const char *id, const char *json, size_t len, struct container_names *names);

#endif
