/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Constants of the kernel's interface that the headers of Debian 12 (Linux 6.1) do not have yet.
 *
 * Enumerators cannot be tested for by the preprocessor, so those are macros with the same value: they stand for the
 * enumerator where the header has it. Whether the running kernel knows them is found out by trying.
 */
#ifndef USER_LINUX_COMPAT_H
#define USER_LINUX_COMPAT_H

#include <linux/bpf.h>

/* Linux 6.6: BPF links at a device's ingress and egress. */
#define BPF_TCX_INGRESS ((enum bpf_attach_type)46)
#define BPF_TCX_EGRESS  ((enum bpf_attach_type)47)
#ifndef BPF_F_BEFORE
#define BPF_F_BEFORE (1U << 3)
#endif

/* Linux 5.14: a namespace's number, never used again while the machine runs. */
#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

#ifndef NSFS_MAGIC
#define NSFS_MAGIC 0x6e736673
#endif

#endif
