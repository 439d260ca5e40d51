// SPDX-License-Identifier: GPL-2.0-only
/*
 * `errno`: an operation of a named process fails with the error of the rule, in the kernel's own security hooks, before it
 * has begun. A program that returns an error there (fmod_ret) ends the operation with it, and the hook itself and what
 * comes after it are not run. One program a hook, loaded only when a rule asks for its operation.
 *
 * `reset: { inside: true }` is done here, too: socket.bpf.c and reset.bpf.h decide it.
 */
#include "bpf/call.bpf.h"
#include "bpf/inside.bpf.h"
#include "bpf/path.bpf.h"

#define CLONE_THREAD    0x10000
#define MAY_WRITE       2
#define FMODE_EXEC      0x20       /* in f_flags: opened to be executed */
#define FMODE_NOACCOUNT 0x20000000 /* opened by the kernel itself, as an overlay does with the files below it */
#define MAX_ERRNO       4095

/* What is being done, to what. */
struct subject {
	__u32 operation;
	__u32 walk; /* number, see path_rules() */
	bool opening;
	struct file *file; /* or NULL, */
	__u64 dentry;      /* or 0: nothing that has a path; as numbers, see chaos_path_set() */
	__u64 mnt;
};

/* A file that the process has not opened itself, as far as it knows. */
static always bool is_inner(const struct subject *on)
{
	struct file *file = on->file;

	if (!file)
		return false;
	if (BPF_CORE_READ(file, f_mode) & FMODE_NOACCOUNT)
		return true;
	return on->opening && BPF_CORE_READ(file, f_flags) & FMODE_EXEC;
}

/* The rule for this operation of this caller on this file. */
static always __u32 rule_for(__u32 set, const struct subject *on, struct chaos_owner *owner)
{
	struct call_matcher m = {};
	const struct chaos_vector *among;
	const struct chaos_rule *r;
	__u32 rule;

	if (!find_caller(set, owner, &m) || is_inner(on))
		return CHAOS_NO_RULE;
	rule = first_rule(&m, m.rules);
	if (!knobs.paths)
		return rule;
	r = rule_of(rule);
	if (!r || !(r->flags & CHAOS_RULE_PATH))
		return rule;
	among = path_rules(on->walk, on->dentry, on->mnt);
	return among ? first_rule(&m, among) : CHAOS_NO_RULE;
}

/* The error as a number of which the verifier sees that it lies in [-4095, 0]: newer kernels ask for that. */
static always long error_of(const struct chaos_rule *r)
{
	__u64 value = r->error & MAX_ERRNO;

	asm volatile("" : "+r"(value));
	return -value;
}

/* What the operation is to return: 0 lets it go on. `set`: the rules for it. */
static always long fail(__u32 set, const struct subject *on)
{
	struct call_told what = { .fault = CHAOS_ERRNO, .operation = on->operation };
	char name[CHAOS_FUNCTION_LEN] = {};
	struct chaos_owner owner = {};
	struct chaos_caller *caller;
	struct chaos_stats *stats;
	struct chaos_rule *r;
	__u32 rule;

	if (set == knobs.nothing || !armed())
		return 0;
	rule = rule_for(set, on, &owner);
	r = rule_of(rule);
	stats = stats_of(rule);
	if (!r || !stats)
		return 0;
	if (on->dentry) {
		name_of((void *)on->dentry, name, sizeof(name));
		if (is_own(name)) /* a shell that is hit can start `chaosbpf stop` all the same */
			return 0;
	}
	count(&stats->seen);
	caller = next_call(rule);
	if (!caller || !decide_call(rule, r, stats, CHAOS_ERRNO, caller, true))
		return 0;
	what.error = r->error;
	what.function = name;
	tell_call(rule, &owner, caller, &what);
	return error_of(r);
}

static always long fail_file(__u32 set, __u32 operation, struct file *file, bool opening)
{
	struct subject on = { .operation = operation, .walk = operation, .opening = opening, .file = file };

	if (set == knobs.nothing)
		return 0;
	/* The verifier takes for granted that there is a file; mmap() of memory has none, and then these are NULL. */
	on.dentry = (__u64)BPF_CORE_READ(file, f_path.dentry);
	on.mnt = (__u64)BPF_CORE_READ(file, f_path.mnt);
	return fail(set, &on);
}

static always long fail_plain(__u32 set, __u32 operation)
{
	struct subject on = { .operation = operation };

	return fail(set, &on);
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

SEC("fmod_ret/security_file_open")
long chaos_o_open(unsigned long long *ctx)
{
	return fail_file(knobs.operations[CHAOS_OPEN], CHAOS_OPEN, (void *)ctx[0], true);
}

/* What is to be made: the directory is known by its path, the new name only by itself. */
static always long fail_making(unsigned long long *ctx, __u32 walk)
{
	struct subject on = { .operation = CHAOS_CREATE, .walk = walk };
	struct path *dir = (void *)ctx[0];

	if (knobs.operations[CHAOS_CREATE] == knobs.nothing)
		return 0;
	on.mnt = (__u64)BPF_CORE_READ(dir, mnt);
	bpf_probe_read_kernel(&on.dentry, sizeof(on.dentry), &ctx[1]); /* a number, and no pointer to the verifier */
	return fail(knobs.operations[CHAOS_CREATE], &on);
}

/* Ordinary files, too: open() with O_CREAT comes by here. */
SEC("fmod_ret/security_path_mknod")
long chaos_o_create(unsigned long long *ctx)
{
	return fail_making(ctx, CHAOS_CREATE);
}

SEC("fmod_ret/security_path_mkdir")
long chaos_o_mkdir(unsigned long long *ctx)
{
	return fail_making(ctx, CHAOS_WALK_MKDIR);
}

SEC("fmod_ret/security_file_permission")
long chaos_o_access(unsigned long long *ctx)
{
	const bool write = ctx[1] & MAY_WRITE;

	return fail_file(write ? knobs.operations[CHAOS_WRITE] : knobs.operations[CHAOS_READ],
			 write ? CHAOS_WRITE : CHAOS_READ, (void *)ctx[0], false);
}

SEC("fmod_ret/security_mmap_file")
long chaos_o_mmap(unsigned long long *ctx)
{
	return fail_file(knobs.operations[CHAOS_MMAP], CHAOS_MMAP, (void *)ctx[0], false);
}

SEC("fmod_ret/security_file_ioctl")
long chaos_o_ioctl(unsigned long long *ctx)
{
	return fail_file(knobs.operations[CHAOS_IOCTL], CHAOS_IOCTL, (void *)ctx[0], false);
}

/* Once for the program that was asked for, and not again for the interpreter that it names in its first line. */
SEC("fmod_ret/security_bprm_check")
long chaos_o_exec(unsigned long long *ctx)
{
	struct linux_binprm *bprm = (void *)ctx[0];

	if (BPF_CORE_READ(bprm, interp) != BPF_CORE_READ(bprm, filename))
		return 0;
	return fail_file(knobs.operations[CHAOS_EXEC], CHAOS_EXEC, BPF_CORE_READ(bprm, file), false);
}

/* ---- the rest --------------------------------------------------------------------------------------------------- */

SEC("fmod_ret/security_vm_enough_memory_mm")
long chaos_o_memory(__attribute__((unused)) unsigned long long *ctx)
{
	return fail_plain(knobs.operations[CHAOS_MEMORY], CHAOS_MEMORY);
}

/* The kernel makes sockets of its own in whatever process: those never fail. */
SEC("fmod_ret/security_socket_create")
long chaos_o_socket(unsigned long long *ctx)
{
	return (int)ctx[3] ? 0 : fail_plain(knobs.operations[CHAOS_SOCKET], CHAOS_SOCKET);
}

SEC("fmod_ret/security_socket_connect")
long chaos_o_connect(__attribute__((unused)) unsigned long long *ctx)
{
	return fail_plain(knobs.operations[CHAOS_CONNECT], CHAOS_CONNECT);
}

/* Has the connection been reset, as far as its process is to know? */
static always bool is_reset(struct socket *socket)
{
	struct chaos_stats *stats;
	__u64 cookie;
	__u32 *rule;

	if (!knobs.inside || !armed())
		return false;
	cookie = BPF_CORE_READ(socket, sk, __sk_common.skc_cookie.counter);
	rule = bpf_map_lookup_elem(&chaos_inside, &cookie);
	if (!rule || !is_in_force(*rule))
		return false;
	stats = stats_of(*rule);
	if (stats)
		count(&stats->packets);
	return true;
}

SEC("fmod_ret/security_socket_sendmsg")
long chaos_o_send(unsigned long long *ctx)
{
	if (is_reset((void *)ctx[0]))
		return -ECONNRESET;
	return fail_plain(knobs.operations[CHAOS_SEND], CHAOS_SEND);
}

SEC("fmod_ret/security_socket_recvmsg")
long chaos_o_receive(unsigned long long *ctx)
{
	if (is_reset((void *)ctx[0]))
		return -ECONNRESET;
	return fail_plain(knobs.operations[CHAOS_RECEIVE], CHAOS_RECEIVE);
}

SEC("fmod_ret/security_task_alloc")
long chaos_o_task(unsigned long long *ctx)
{
	const bool thread = ctx[1] & CLONE_THREAD;

	return fail_plain(thread ? knobs.operations[CHAOS_THREAD] : knobs.operations[CHAOS_FORK],
			  thread ? CHAOS_THREAD : CHAOS_FORK);
}
