/* SPDX-License-Identifier: GPL-2.0-only */
/* `container`, `pod` and `unit` of a match: which cgroups they are at this moment. */
#ifndef USER_CONTAINER_H
#define USER_CONTAINER_H

#include "user/base/error.h"
#include "user/rules/rules.h"
#include "user/target/cgroup_tree.h"
#include "user/target/container_names.h"

/* The machine as it was when it was looked at: both are read when the first rule asks. */
struct machine {
	const struct cgroup_mounts *mounts;
	const char *root; /* where runtimes keep their state: "/" but in tests */
	struct cgroup_tree tree;
	bool has_tree;
	struct container_names names;
	bool has_names;
};

void machine_free(struct machine *machine);

/* Does this match name a container, a pod or a unit? */
bool match_names_container(const struct match *match);

/*
 * The cgroups that a match names, as paths below the mounts: *paths has *count entries, to be freed with the array.
 * -ENOENT when nothing of that name runs; -EINVAL when the name is that of several: all with an error that points into
 * the file.
 */
int container_cgroups(struct machine *machine, const struct rules *rules, const struct match *match, char ***paths,
		      size_t *count, struct error *err);

#endif
