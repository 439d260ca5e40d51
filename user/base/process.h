/* SPDX-License-Identifier: GPL-2.0-only */
/* The machine's processes, read once from /proc: who they are, in which cgroup and network namespace. */
#ifndef USER_PROCESS_H
#define USER_PROCESS_H

#include <stddef.h>
#include <stdint.h>

#include "bpf/chaos.h"
#include "user/base/error.h"

struct process {
	uint32_t pid, parent;
	uint32_t uid;       /* effective */
	uint64_t cgroup_id; /* in the cgroup v2 hierarchy; 0: unknown */
	uint64_t netns;     /* inode of its network namespace; 0: unknown */
	char comm[CHAOS_COMM_LEN];
};

struct process_list {
	struct process *entries; /* by pid, ascending */
	size_t count;
};

/* Reads all processes; those that end meanwhile are left out. Free with process_list_free(). */
int process_list(const char *cgroup2_mount, struct process_list *list, struct error *err);
void process_list_free(struct process_list *list);

/* NULL when there is no such process. */
const struct process *process_find(const struct process_list *list, uint32_t pid);

/* Is `pid` the process `ancestor` or one of its descendants? */
int process_descends(const struct process_list *list, uint32_t pid, uint32_t ancestor);

#endif
