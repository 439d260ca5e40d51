/* SPDX-License-Identifier: GPL-2.0-only */
/* What the programs of faults and those that measure have in common: why they cannot be loaded, how they are attached. */
#ifndef USER_ATTACH_H
#define USER_ATTACH_H

#include <bpf/libbpf.h>

#include "user/base/error.h"

/* Says why a skeleton could not be opened or loaded; returns `code`. */
int attach_explain_load(int code, struct error *err);

/* To the cgroup whose descriptor that is, or to wherever its section says. NULL with *err and errno. */
struct bpf_link *attach_program(const struct bpf_program *prog, int cgroup, struct error *err);

#endif
