/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What this kernel can do, found by trying (a tiny program is loaded, a qdisc is asked for), never by version.
 */
#ifndef USER_FEATURE_H
#define USER_FEATURE_H

#include <stdbool.h>
#include <stddef.h>

enum feature {
	FEATURE_BPF,             /* BPF programs can be loaded at all: root, no lockdown in the way */
	FEATURE_BTF,             /* /sys/kernel/btf/vmlinux: programs adapt to this kernel */
	FEATURE_CGROUP2,         /* a cgroup v2 hierarchy is mounted */
	FEATURE_RINGBUF,         /* events */
	FEATURE_FORK_HOOK,       /* raw tracepoints: children of a pid, cgroups made later */
	FEATURE_SET_RETVAL,      /* any errno from connect(); below: by a rewritten destination */
	FEATURE_TCX,             /* tc programs as links; below: clsact */
	FEATURE_FQ,              /* delay */
	FEATURE_ACCEPT_HOOK,     /* fexit on accept: owner of an accepted connection is who accepted it */
	FEATURE_PROBE,           /* gpu-oom, call: programs on functions of user space */
	FEATURE_PROBE_COOKIE,    /* probes on user functions: tell their number; below: by place in a page */
	FEATURE_PROBE_MULTI,     /* many of them in one link; below: one each */
	FEATURE_PROBE_REGISTERS, /* they may write registers; below: a tracing process does */
	FEATURE_WRITE_USER,      /* they may write the memory of the process */
	FEATURE_SIGNAL,          /* they may send a signal, for that process */
	FEATURE_PIDFD_GETFD,     /* connections older than the load */
	FEATURE_IFB,             /* rate, tokens, late answers and reorder of what arrives; see features_probe_ifb() */
	FEATURE_FMOD_RET,        /* programs that give a function of the kernel its result: errno */
	FEATURE_SOCKET_ERROR,    /* hooks of connections may read the socket itself: why one failed */
	FEATURE_COUNT,
};

struct features {
	bool has[FEATURE_COUNT];
	char why_not[FEATURE_COUNT][160]; /* what the probe said, empty when it is there */
	bool ifb_redirect;                /* bpf_redirect() reaches an ifb; else it takes act_mirred */
	char cgroup2_mount[256];          /* where cgroup v2 is mounted */
	char kernel[128];                 /* uname -r */
};

/* Word, as in `doctor --json`. */
extern const char *const feature_names[];
/* What it is for, a phrase. */
extern const char *const feature_uses[];
/* What is done without it, a phrase; NULL: nothing works without it. */
extern const char *const feature_fallbacks[];

/* Probes everything but the ifb. Takes some milliseconds; leaves nothing behind. Without root every answer is no. */
void features_probe(struct features *features);

/* Probes the ifb, for those who ask: it takes a device, and a packet that goes through it. */
void features_probe_ifb(struct features *features);

/* Can hooks of sockets read the name of the thread group's leader (bpf_get_current_task())? */
bool feature_leader_comm(void);

#endif
