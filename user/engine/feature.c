// SPDX-License-Identifier: GPL-2.0-only
#include "user/engine/feature.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>

#include "user/base/linux_compat.h"
#include "user/engine/ifb.h"
#include "user/engine/qdisc.h"
#include "user/target/target.h"

#define TABLE(name, ...)                            \
	const char *const name[] = { __VA_ARGS__ }; \
	_Static_assert(sizeof(name) / sizeof(name[0]) == FEATURE_COUNT, #name " must have every feature")

TABLE(feature_names, "bpf", "btf", "cgroup2", "ringbuf", "fork-hook", "set-retval", "tcx", "fq", "accept-hook", "probe",
      "probe-cookie", "probe-multi", "probe-registers", "write-user", "signal", "pidfd-getfd", "ifb", "fmod-ret",
      "socket-error");
TABLE(feature_uses, "everything", "everything", "everything", "events, and news of namespaces that appear later",
      "children of a named pid, cgroups made later", "refuse with any errno", "drop and reset at devices",
      "delay, rate, tokens and reorder", "the owner of an accepted connection", "gpu-oom, call; HTTP inside TLS",
      "which function a probe is on", "many probes in one link", "gpu-oom and call without a tracing process",
      "other answers inside TLS; what cudaMemGetInfo says", "gpu-oom and call with one",
      "connections older than the load", "what arrives: rate, tokens, reorder, delay of responses", "errno",
      "observe: why connections fail");
TABLE(feature_fallbacks, NULL, NULL, NULL, NULL, "rules with pid or cgroup see only what exists at load",
      "a rewritten destination: TCP only, and a timeout takes 3 s", "clsact filters", "they are refused",
      "accepted connections belong to whoever opened the listener",
      "gpu-oom and call are refused, HTTP inside TLS is not read", "functions are told apart by their place in a page",
      "a link for each", "the process is traced (ptrace)", "answers inside TLS stay, cudaMemGetInfo tells the truth",
      "gpu-oom and call need probe-registers", "old connections are known by cgroup and user only",
      "refused; what leaves can be held", "errno is refused", "it is concluded from the packets that came");

struct probe_result {
	bool ok;
	int error;
};

static struct probe_result result_of(int fd)
{
	struct probe_result r = { .ok = fd >= 0, .error = fd >= 0 ? 0 : -fd };

	if (fd >= 0)
		close(fd);
	return r;
}

static struct probe_result result_of_call(int err)
{
	return (struct probe_result){ .ok = err == 0, .error = err < 0 ? -err : 0 };
}

static int load_insns(enum bpf_prog_type type, enum bpf_attach_type attach, const struct bpf_insn *insns, size_t count)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = attach);

	return bpf_prog_load(type, "chaos_probe", "GPL", insns, count, &opts);
}

static struct probe_result probe_bpf(void)
{
	const struct bpf_insn insns[] = {
		{ .code = 0xb7, .dst_reg = 0, .imm = 1 }, /* r0 = 1 */
		{ .code = 0x95 },                         /* exit */
	};

	return result_of(load_insns(BPF_PROG_TYPE_CGROUP_SKB, BPF_CGROUP_INET_EGRESS, insns, 2));
}

/*
 * As all of our programs do. A kernel that is locked down for confidentiality lets none. (libbpf's own probe of helpers
 * goes by words of the verifier that 6.12 has not.) Without programs of that type it cannot be told, and is not so.
 */
static bool may_read_kernel(void)
{
	const struct bpf_insn nothing[] = {
		{ .code = 0xb7, .dst_reg = 0, .imm = 0 },
		{ .code = 0x95 },
	};
	const struct bpf_insn insns[] = {
		{ .code = 0xbf, .dst_reg = 1, .src_reg = 10 },
		{ .code = 0x07, .dst_reg = 1, .imm = -8 },
		{ .code = 0xb7, .dst_reg = 2, .imm = 8 },
		{ .code = 0xb7, .dst_reg = 3, .imm = 0 },
		{ .code = 0x85, .imm = BPF_FUNC_probe_read_kernel },
		{ .code = 0xb7, .dst_reg = 0, .imm = 0 },
		{ .code = 0x95 },
	};

	return !result_of(load_insns(BPF_PROG_TYPE_KPROBE, 0, nothing, 2)).ok ||
	       result_of(load_insns(BPF_PROG_TYPE_KPROBE, 0, insns, sizeof(insns) / sizeof(insns[0]))).ok;
}

static struct probe_result probe_set_retval(void)
{
	const struct bpf_insn insns[] = {
		{ .code = 0xb7, .dst_reg = 1, .imm = -111 }, /* r1 = -ECONNREFUSED */
		{ .code = 0x85, .imm = 187 /* bpf_set_retval */ },
		{ .code = 0xb7, .dst_reg = 0, .imm = 0 },
		{ .code = 0x95 },
	};

	return result_of(load_insns(BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_CGROUP_INET4_CONNECT, insns, 4));
}

static struct probe_result probe_ringbuf(void)
{
	return result_of(bpf_map_create(BPF_MAP_TYPE_RINGBUF, "chaos_probe", 0, 0, 4096, NULL));
}

static struct probe_result probe_raw_tracepoint(void)
{
	const struct bpf_insn insns[] = {
		{ .code = 0xb7, .dst_reg = 0, .imm = 0 },
		{ .code = 0x95 },
	};
	int prog = load_insns(BPF_PROG_TYPE_RAW_TRACEPOINT, 0, insns, 2), link;

	if (prog < 0)
		return result_of(prog);
	link = bpf_raw_tracepoint_open("sched_process_fork", prog);
	close(prog);
	return result_of(link);
}

/* Attaches to lo for an instant: the program does nothing and lets the rest of the chain run. */
static struct probe_result probe_tcx(void)
{
	const struct bpf_insn insns[] = {
		{ .code = 0xb7, .dst_reg = 0, .imm = -1 },
		{ .code = 0x95 },
	};
	int prog = load_insns(BPF_PROG_TYPE_SCHED_CLS, 0, insns, 2), link;

	if (prog < 0)
		return result_of(prog);
	link = bpf_link_create(prog, if_nametoindex("lo"), BPF_TCX_EGRESS, NULL);
	close(prog);
	return result_of(link);
}

/*
 * bpf_sk_storage_get in a tracing program (5.11 on; libbpf's own probe passes these programs over). A call without
 * arguments is refused either way: -EINVAL says that there is no such function.
 */
static bool has_tracing_storage(struct bpf_prog_load_opts *opts)
{
	const struct bpf_insn insns[] = {
		{ .code = 0x85, .imm = BPF_FUNC_sk_storage_get },
		{ .code = 0x95 },
	};

	return bpf_prog_load(BPF_PROG_TYPE_TRACING, "chaos_probe", "GPL", insns, 2, opts) != -EINVAL;
}

/*
 * Attaches to a function of the kernel for an instant, and lets it go on: a program may load and still find no trampoline
 * (no ftrace with direct calls). That it is in the kernel's BTF is not enough for a program that changes what it returns:
 * the verifier has to agree that it may fail.
 */
static struct probe_result probe_tracing(const char *function, enum bpf_attach_type attach, bool storage)
{
	struct probe_result r = { .ok = false, .error = ENOENT };
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = attach);
	const struct bpf_insn insns[] = {
		{ .code = 0xb7, .dst_reg = 0, .imm = 0 },
		{ .code = 0x95 },
	};
	int prog, link;

	opts.attach_btf_id = libbpf_find_vmlinux_btf_id(function, attach);
	if ((int)opts.attach_btf_id <= 0)
		return r;
	if (storage && !has_tracing_storage(&opts)) {
		r.error = EOPNOTSUPP;
		return r;
	}
	prog = bpf_prog_load(BPF_PROG_TYPE_TRACING, "chaos_probe", "GPL", insns, 2, &opts);
	if (prog < 0)
		return result_of(prog);
	link = bpf_raw_tracepoint_open(NULL, prog);
	close(prog);
	return result_of(link);
}

/* The kernel's own number for perf events on user functions: the file is there when it has them. */
static struct probe_result probe_probe(void)
{
	int found = access("/sys/bus/event_source/devices/uprobe/type", R_OK);

	return (struct probe_result){ .ok = found == 0, .error = errno };
}

static struct probe_result probe_helper(enum bpf_func_id helper)
{
	bool has = libbpf_probe_bpf_helper(BPF_PROG_TYPE_KPROBE, helper, NULL) == 1;

	return (struct probe_result){ .ok = has, .error = EOPNOTSUPP };
}

static struct probe_result probe_socket_error(void)
{
	bool has = libbpf_probe_bpf_helper(BPF_PROG_TYPE_SOCK_OPS, BPF_FUNC_skc_to_tcp_sock, NULL) == 1;

	return (struct probe_result){ .ok = has, .error = EOPNOTSUPP };
}

/*
 * The kernel refuses such programs when it is locked down, which it says of itself: "[none] integrity confidentiality". One is
 * loaded only where it does not (securityfs is not mounted), since the kernel warns of each in its log.
 */
static struct probe_result probe_write_user(void)
{
	const struct bpf_insn insns[] = {
		{ .code = 0xb7, .dst_reg = 1, .imm = 0 },      { .code = 0x7b, .dst_reg = 10, .src_reg = 1, .off = -8 },
		{ .code = 0xbf, .dst_reg = 2, .src_reg = 10 }, { .code = 0x07, .dst_reg = 2, .imm = -8 },
		{ .code = 0xb7, .dst_reg = 3, .imm = 8 },      { .code = 0x85, .imm = BPF_FUNC_probe_write_user },
		{ .code = 0xb7, .dst_reg = 0, .imm = 0 },      { .code = 0x95 },
	};
	FILE *file = fopen("/sys/kernel/security/lockdown", "re");
	char line[128] = "";
	bool read;

	if (!file)
		return result_of(load_insns(BPF_PROG_TYPE_KPROBE, 0, insns, sizeof(insns) / sizeof(insns[0])));
	read = fgets(line, sizeof(line), file);
	fclose(file);
	return (struct probe_result){ .ok = read && strstr(line, "[none]"), .error = EPERM };
}

/* A link on a directory, which cannot be: -EBADF and not -EINVAL says that the kernel knows such links. */
static struct probe_result probe_multi(void)
{
	const struct bpf_insn insns[] = {
		{ .code = 0xb7, .dst_reg = 0, .imm = 0 },
		{ .code = 0x95 },
	};
	const unsigned long offset = 0;
	LIBBPF_OPTS(bpf_link_create_opts, opts, .uprobe_multi.path = "/", .uprobe_multi.offsets = &offset,
		    .uprobe_multi.cnt = 1);
	int prog = load_insns(BPF_PROG_TYPE_KPROBE, BPF_TRACE_UPROBE_MULTI, insns, 2), link;

	if (prog < 0)
		return result_of(prog);
	link = bpf_link_create(prog, -1, BPF_TRACE_UPROBE_MULTI, &opts);
	close(prog);
	return (struct probe_result){ .ok = link == -EBADF, .error = EOPNOTSUPP };
}

/* *(u64 *)(ctx + 80) = 0: rax of x86-64's pt_regs; x10 elsewhere. */
static struct probe_result probe_registers(void)
{
	const struct bpf_insn insns[] = {
		{ .code = 0xb7, .dst_reg = 0, .imm = 0 },
		{ .code = 0x7b, .dst_reg = 1, .src_reg = 0, .off = 80 },
		{ .code = 0x95 },
	};

	return result_of(load_insns(BPF_PROG_TYPE_KPROBE, 0, insns, 3));
}

static struct probe_result probe_pidfd_getfd(void)
{
	int self = syscall(SYS_pidfd_open, getpid(), 0), fd;
	struct probe_result r = { .ok = false, .error = errno };

	if (self < 0)
		return r;
	fd = syscall(SYS_pidfd_getfd, self, self, 0);
	r = result_of(fd < 0 ? -errno : fd);
	close(self);
	return r;
}

static struct probe_result probe_btf(void)
{
	struct probe_result r = { .ok = access("/sys/kernel/btf/vmlinux", R_OK) == 0, .error = errno };

	return r;
}

static void set(struct features *f, enum feature feature, struct probe_result r)
{
	f->has[feature] = r.ok;
	if (!r.ok)
		snprintf(f->why_not[feature], sizeof(f->why_not[feature]), "%s", strerror(r.error));
}

void features_probe(struct features *f)
{
	struct utsname names;

	memset(f, 0, sizeof(*f));
	if (uname(&names) == 0)
		snprintf(f->kernel, sizeof(f->kernel), "%s", names.release);
	find_cgroup2(f->cgroup2_mount, sizeof(f->cgroup2_mount));
	f->has[FEATURE_CGROUP2] = f->cgroup2_mount[0];
	if (!f->has[FEATURE_CGROUP2])
		snprintf(f->why_not[FEATURE_CGROUP2], sizeof(f->why_not[0]), "no cgroup2 file system is mounted");
	set(f, FEATURE_BTF, probe_btf());
	set(f, FEATURE_PIDFD_GETFD, probe_pidfd_getfd());
	if (geteuid() != 0) {
		for (int i = 0; i < FEATURE_COUNT; i++) {
			if (i == FEATURE_CGROUP2 || i == FEATURE_BTF || i == FEATURE_PIDFD_GETFD)
				continue;
			snprintf(f->why_not[i], sizeof(f->why_not[i]), "needs root to find out");
		}
		return;
	}
	set(f, FEATURE_BPF, probe_bpf());
	if (f->has[FEATURE_BPF] && !may_read_kernel()) {
		f->has[FEATURE_BPF] = false;
		snprintf(f->why_not[FEATURE_BPF], sizeof(f->why_not[0]),
			 "the kernel is locked down (confidentiality): programs may not read its memory");
	}
	set(f, FEATURE_RINGBUF, probe_ringbuf());
	set(f, FEATURE_FORK_HOOK, probe_raw_tracepoint());
	set(f, FEATURE_SET_RETVAL, probe_set_retval());
	set(f, FEATURE_TCX, probe_tcx());
	set(f, FEATURE_ACCEPT_HOOK, probe_tracing("inet_csk_accept", BPF_TRACE_FEXIT, true));
	set(f, FEATURE_PROBE, probe_probe());
	set(f, FEATURE_PROBE_COOKIE, probe_helper(BPF_FUNC_get_attach_cookie));
	set(f, FEATURE_PROBE_MULTI, probe_multi());
	set(f, FEATURE_PROBE_REGISTERS, probe_registers());
	set(f, FEATURE_WRITE_USER, probe_write_user());
	set(f, FEATURE_SIGNAL, probe_helper(BPF_FUNC_send_signal_thread));
	set(f, FEATURE_FMOD_RET, probe_tracing("security_socket_create", BPF_MODIFY_RETURN, false));
	set(f, FEATURE_SOCKET_ERROR, probe_socket_error());
	set(f, FEATURE_FQ, result_of_call(qdisc_probe_fq()));
}

void features_probe_ifb(struct features *f)
{
	int ret;

	if (geteuid() != 0)
		return;
	ret = ifb_probe(&f->ifb_redirect);
	set(f, FEATURE_IFB, result_of_call(ret));
	if (ret == -ENOENT)
		snprintf(f->why_not[FEATURE_IFB], sizeof(f->why_not[0]), "it has no ifb, or no act_mirred");
	else if (ret == -EOPNOTSUPP)
		snprintf(f->why_not[FEATURE_IFB], sizeof(f->why_not[0]), "packets do not come back from it");
}

bool feature_leader_comm(void)
{
	return libbpf_probe_bpf_helper(BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_FUNC_get_current_task, NULL) == 1 &&
	       libbpf_probe_bpf_helper(BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_FUNC_probe_read_kernel, NULL) == 1 &&
	       libbpf_probe_bpf_helper(BPF_PROG_TYPE_CGROUP_SOCK, BPF_FUNC_get_current_task, NULL) == 1 &&
	       libbpf_probe_bpf_helper(BPF_PROG_TYPE_CGROUP_SOCK, BPF_FUNC_probe_read_kernel, NULL) == 1;
}
