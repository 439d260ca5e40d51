/* SPDX-License-Identifier: GPL-2.0-only */
/* Who owns a socket, written down where the kernel knows: in the context of the process that opens or binds it. */
#ifndef OWNER_BPF_H
#define OWNER_BPF_H

#include "bpf/comm.bpf.h"
#include "bpf/core.bpf.h"

static always void current_comm(char *comm)
{
	if (knobs.leader_comm && leader_comm(comm))
		return;
	bpf_get_current_comm(comm, CHAOS_COMM_LEN);
}

/* Fills in everything but the namespace. Only where `current` is the owner. */
static always void current_owner(struct chaos_owner *owner)
{
	owner->cgroup_id = bpf_get_current_cgroup_id();
	owner->pid = bpf_get_current_pid_tgid() >> 32;
	owner->uid = (__u32)bpf_get_current_uid_gid();
	current_comm(owner->comm);
	trim_comm(owner->comm);
	meet_comm(owner);
}

/* The state kept with a socket, made when there is none. */
static always struct chaos_sock *sock_state(struct bpf_sock *sk)
{
	return bpf_sk_storage_get(&chaos_sock, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
}

/*
 * A process opened a socket in a namespace where nothing is prepared (a container that started after the load): whoever
 * reads events will prepare it. Told once for each namespace.
 */
static always void report_netns(const struct chaos_owner *owner)
{
	struct chaos_event *e;
	__u32 reported = 0;

	if (!owner->netns || bpf_map_lookup_elem(&chaos_netns, &owner->netns))
		return;
	if (bpf_map_update_elem(&chaos_netns, &owner->netns, &reported, BPF_NOEXIST))
		return;
	e = bpf_ringbuf_reserve(&chaos_events, sizeof(*e), 0);
	if (!e) {
		bpf_map_delete_elem(&chaos_netns, &owner->netns);
		return;
	}
	__builtin_memset(e, 0, sizeof(*e));
	e->time_ns = now_ns();
	e->kind = CHAOS_EVENT_NEW_NETNS;
	e->generation = knobs.generation;
	e->pid = owner->pid;
	e->connection = owner->netns;
	bpf_ringbuf_submit(e, 0);
}

#endif
