// SPDX-License-Identifier: GPL-2.0-only
/*
 * Owners of sockets, and the sets of processes and cgroups that rules name: children of a named process, and cgroups
 * made below a named one, inherit its rules as they are born. All of this is known before the first rule is armed.
 */
#include "bpf/call.bpf.h"

SEC("cgroup/sock_create")
int chaos_create(struct bpf_sock *ctx)
{
	struct chaos_sock *s;

	if (ctx->family != AF_INET && ctx->family != AF_INET6)
		return 1;
	s = sock_state(ctx);
	if (!s)
		return 1;
	current_owner(&s->owner);
	s->owner.netns = bpf_get_netns_cookie(ctx);
	s->known = 1;
	if (ctx->protocol == IPPROTO_UDP)
		s->cookie = bpf_get_socket_cookie(ctx);
	report_netns(&s->owner);
	return 1;
}

/* Whoever binds is the owner: a supervisor may open sockets for its workers. */
static always int bound(struct bpf_sock *ctx)
{
	struct chaos_sock *s = sock_state(ctx);

	if (s) {
		current_owner(&s->owner);
		s->known = 1;
	}
	return 1;
}

SEC("cgroup/post_bind4")
int chaos_bind4(struct bpf_sock *ctx)
{
	return bound(ctx);
}

SEC("cgroup/post_bind6")
int chaos_bind6(struct bpf_sock *ctx)
{
	return bound(ctx);
}

/*
 * An accepted connection belongs to the process that accepted it, not to the one that opened the listener (nginx opens
 * as root and serves as www-data). What was decided for it with the wrong owner is decided again.
 */
static always int accepted(struct sock *sk)
{
	struct chaos_owner owner = {};
	struct chaos_sock *s;

	if (!sk)
		return 0;
	s = bpf_sk_storage_get(&chaos_sock, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!s)
		return 0;
	current_owner(&owner);
	if (s->known && s->owner.pid == owner.pid && s->owner.cgroup_id == owner.cgroup_id && s->owner.uid == owner.uid)
		return 0;
	owner.netns = s->owner.netns;
	s->owner = owner;
	s->known = 1;
	s->side = CHAOS_SIDE_SERVER;
	s->listener = 0;
	__builtin_memset(&s->verdict, 0, sizeof(s->verdict));
	return 0;
}

/* inet_csk_accept(sk, flags, err, kern) up to 6.9. */
SEC("fexit/inet_csk_accept")
int chaos_accept4(unsigned long long *ctx)
{
	return accepted((struct sock *)ctx[4]);
}

/* inet_csk_accept(sk, arg) since 6.10. */
SEC("fexit/inet_csk_accept")
int chaos_accept2(unsigned long long *ctx)
{
	return accepted((struct sock *)ctx[2]);
}

SEC("raw_tp/sched_process_fork")
int chaos_fork(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *parent = (void *)ctx->args[0], *child = (void *)ctx->args[1];
	__u32 parent_pid = BPF_CORE_READ(parent, tgid), child_pid = BPF_CORE_READ(child, tgid);
	struct chaos_vector *rules;

	if (parent_pid == child_pid) /* a thread */
		return 0;
	rules = bpf_map_lookup_elem(&chaos_pids, &parent_pid);
	if (rules)
		bpf_map_update_elem(&chaos_pids, &child_pid, rules, BPF_ANY);
	return 0;
}

/* The number of a process that is gone will be given to another. */
SEC("raw_tp/sched_process_exit")
int chaos_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (void *)ctx->args[0];
	__u32 pid = BPF_CORE_READ(task, tgid);

	/* Counted down before this point: 0 means that no thread is left. */
	if (BPF_CORE_READ(task, signal, live.counter))
		return 0;
	bpf_map_delete_elem(&chaos_pids, &pid);
	if (knobs.ceiling)
		bpf_map_delete_elem(&chaos_held, &pid);
	return 0;
}

SEC("raw_tp/cgroup_mkdir")
int chaos_mkdir(struct bpf_raw_tracepoint_args *ctx)
{
	struct cgroup *child = (void *)ctx->args[0];
	struct cgroup *parent = (void *)BPF_CORE_READ(child, self.parent);
	struct chaos_cgroup_key key = {};
	struct chaos_vector *rules;

	if (!parent)
		return 0;
	key.hierarchy = BPF_CORE_READ(child, root, hierarchy_id);
	key.id = BPF_CORE_READ(parent, kn, id);
	rules = bpf_map_lookup_elem(&chaos_cgroups, &key);
	if (!rules)
		return 0;
	key.id = BPF_CORE_READ(child, kn, id);
	bpf_map_update_elem(&chaos_cgroups, &key, rules, BPF_ANY);
	return 0;
}

/* A process that enters a named v1 cgroup from outside; there is no v1 id at a socket, so such cgroups are sets of pids. */
SEC("raw_tp/cgroup_attach_task")
int chaos_attach(struct bpf_raw_tracepoint_args *ctx)
{
	struct cgroup *cgroup = (void *)ctx->args[0];
	struct task_struct *task = (void *)ctx->args[2];
	struct chaos_cgroup_key key = {};
	struct chaos_vector *rules;
	__u32 pid;

	key.hierarchy = BPF_CORE_READ(cgroup, root, hierarchy_id);
	if (!key.hierarchy)
		return 0;
	key.id = BPF_CORE_READ(cgroup, kn, id);
	rules = bpf_map_lookup_elem(&chaos_cgroups, &key);
	pid = BPF_CORE_READ(task, tgid);
	if (rules)
		bpf_map_update_elem(&chaos_pids, &pid, rules, BPF_ANY);
	return 0;
}
