/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The few kernel types that are read, with only the fields that are read: libbpf finds their true offsets in the running
 * kernel's BTF. No vmlinux.h, so that what is built does not depend on the machine that builds.
 */
#ifndef KERNEL_H
#define KERNEL_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define AF_INET          2
#define AF_INET6         10
#define SOCK_STREAM      1
#define SOCK_DGRAM       2
#define IPPROTO_TCP      6
#define IPPROTO_UDP      17
#define SOL_TCP          6
#define TCP_SYNCNT       7
#define ETH_P_IP         0x0800
#define ETH_P_IPV6       0x86DD
#define ETH_HLEN         14
#define LOOPBACK_IFINDEX 1    /* in every network namespace */
#define TC_ACT_SHOT      2    /* lose it */
#define TC_ACT_UNSPEC    (-1) /* let the rest of the chain run; also TCX_NEXT */
#define TC_PRIO_CONTROL  7
#define DELIVERY_MONO    1 /* bpf_skb_set_tstamp: the time at which to go on, not when it was received */

#define always __attribute__((always_inline)) inline

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
};

typedef struct {
	unsigned long sig[1];
} sigset_t;

struct dentry;

struct vfsmount {
	struct dentry *mnt_root;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
	void *mnt_ns;
};

struct file {
	unsigned int f_flags;
	unsigned int f_mode;
	struct path f_path;
};

struct linux_binprm {
	struct file *file;
	const char *filename;
	const char *interp;
};

struct fs_struct {
	struct path root;
};

struct task_struct {
	sigset_t blocked;
	unsigned int ptrace;
	int pid;
	int tgid;
	unsigned int flags;
	struct fs_struct *fs;
	struct task_struct *group_leader;
	__u64 start_time;
	struct signal_struct *signal;
	char comm[16];
};

typedef struct {
	__s64 counter;
} atomic64_t;

struct sock_common {
	atomic64_t skc_cookie;
};

struct sock {
	struct sock_common __sk_common;
	int sk_err;
};

struct socket {
	struct sock *sk;
};

struct kernfs_node {
	__u64 id;
};

struct cgroup_root {
	int hierarchy_id;
};

struct cgroup_subsys_state {
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	struct cgroup_subsys_state self; /* first field of struct cgroup: a parent's `self` is the parent */
	struct kernfs_node *kn;
	struct cgroup_root *root;
};

#pragma clang attribute pop

#endif
