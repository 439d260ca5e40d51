// SPDX-License-Identifier: GPL-2.0-only
#include "user/engine/attach.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

int attach_explain_load(int code, struct error *err)
{
	error_set(err, code, code == -EPERM ? EXIT_CANNOT : EXIT_FAILED, "cannot load the BPF programs: %s",
		  strerror(-code));
	if (code == -EPERM)
		error_hint(err,
			   "needs root (CAP_BPF, CAP_NET_ADMIN, CAP_SYS_ADMIN) and a kernel that is not locked down");
	else
		error_hint(err, "with --verbose the kernel's own words are shown");
	return code;
}

static bool attaches_to_cgroup(const struct bpf_program *prog)
{
	enum bpf_prog_type type = bpf_program__type(prog);

	return type == BPF_PROG_TYPE_CGROUP_SKB || type == BPF_PROG_TYPE_CGROUP_SOCK ||
	       type == BPF_PROG_TYPE_CGROUP_SOCK_ADDR || type == BPF_PROG_TYPE_SOCK_OPS;
}

struct bpf_link *attach_program(const struct bpf_program *prog, int cgroup, struct error *err)
{
	struct bpf_link *link;
	int code;

	link = attaches_to_cgroup(prog) ? bpf_program__attach_cgroup(prog, cgroup) : bpf_program__attach(prog);
	if (link)
		return link;
	code = -errno;
	error_set(err, code, code == -EPERM ? EXIT_CANNOT : EXIT_FAILED, "cannot attach %s: %s",
		  bpf_program__name(prog), strerror(-code));
	if (code == -EPERM && attaches_to_cgroup(prog))
		error_hint(err, "another program holds the root cgroup for itself (attached without "
				"BPF_F_ALLOW_MULTI): `bpftool cgroup show` names it");
	errno = -code;
	return NULL;
}
