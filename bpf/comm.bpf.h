/* SPDX-License-Identifier: GPL-2.0-only */
/* The name of the process that is at work. */
#ifndef COMM_BPF_H
#define COMM_BPF_H

#include "bpf/chaos.h"
#include "bpf/kernel.h"

/*
 * The name of the process, not of the thread: run-times name their threads at will, people look at `ps`. Not every
 * kernel offers the current task to cgroup hooks.
 */
static always bool leader_comm(char *comm)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct task_struct *leader = NULL;

	bpf_probe_read_kernel(&leader, sizeof(leader), __builtin_preserve_access_index(&task->group_leader));
	return bpf_probe_read_kernel(comm, CHAOS_COMM_LEN, __builtin_preserve_access_index(&leader->comm)) == 0;
}

/* Bytes behind the first NUL are whatever was there: names are compared whole, so clear them. */
static always void trim_comm(char *comm)
{
	bool ended = false;

	for (int i = 0; i < CHAOS_COMM_LEN; i++) {
		if (!comm[i] || i == CHAOS_COMM_LEN - 1)
			ended = true;
		if (ended)
			comm[i] = 0;
	}
}

#endif
