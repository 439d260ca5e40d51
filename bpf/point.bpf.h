/* SPDX-License-Identifier: GPL-2.0-only */
/* The user function whose probe has brought a program here: which it is, and what it was called with. */
#ifndef POINT_BPF_H
#define POINT_BPF_H

#include <asm/ptrace.h>

#include "bpf/core.bpf.h"

#include <bpf/bpf_tracing.h>

#define PAGE_OFFSET_BITS 0xfff

#ifdef __TARGET_ARCH_x86
#define RETURN_ADDRESS 8 /* bytes that `call` pushes */
#else
#define RETURN_ADDRESS 0
#endif

MAP(BPF_MAP_TYPE_ARRAY, chaos_points, __u32, struct chaos_point, CHAOS_MAX_POINTS);
MAP(BPF_MAP_TYPE_PERCPU_ARRAY, chaos_pointstats, __u32, struct chaos_point_stats, CHAOS_MAX_POINTS);
MAP(BPF_MAP_TYPE_HASH, chaos_places, struct chaos_place_key, __u32, CHAOS_MAX_POINTS);

/*
 * Kernels of late give programs of this type one stack for each CPU, and let them be preempted there: the next thread on
 * the CPU writes over the keys and records of the first. A program with a tail call is left with the stack of its thread. This
 * one is seen when the kernel looks for such calls, and dropped when it finds that it can never happen; a true one would
 * need a map of programs, which kernels keep for ever when its last users go at the same moment.
 */
static always void own_stack(struct pt_regs *ctx)
{
	if (knobs.never)
		bpf_tail_call(ctx, NULL, 0);
}

struct call {
	struct pt_regs *ctx;
	const struct chaos_point *point;
	__u32 number; /* of the point */
	__u32 tid;
	__u64 sp;
	__u64 first, second, third, fourth, fifth; /* arguments */
};

static always __u32 current_tid(void)
{
	return (__u32)bpf_get_current_pid_tgid();
}

/* All of them at once, from fixed places: a choice among places would be an access to a changed context. */
static always void read_arguments(struct pt_regs *ctx, struct call *call)
{
	call->first = PT_REGS_PARM1(ctx);
	call->second = PT_REGS_PARM2(ctx);
	call->third = PT_REGS_PARM3(ctx);
	call->fourth = PT_REGS_PARM4(ctx);
	call->fifth = PT_REGS_PARM5(ctx);
	asm volatile("" ::"r"(call->first), "r"(call->second), "r"(call->third), "r"(call->fourth), "r"(call->fifth));
}

static always bool find_point(struct pt_regs *ctx, struct call *call)
{
	__u32 *number;

	if (knobs.cookies) {
		call->number = bpf_get_attach_cookie(ctx);
	} else {
		struct chaos_place_key key = { .copy = knobs.copy, .offset = PT_REGS_IP(ctx) & PAGE_OFFSET_BITS };

		number = bpf_map_lookup_elem(&chaos_places, &key);
		if (!number)
			return false;
		call->number = *number;
	}
	call->ctx = ctx;
	call->point = bpf_map_lookup_elem(&chaos_points, &call->number);
	call->tid = current_tid();
	call->sp = PT_REGS_SP(ctx);
	read_arguments(ctx, call);
	return call->point;
}

#endif
