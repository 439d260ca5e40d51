// SPDX-License-Identifier: GPL-2.0-only
/*
 * What all programs share: knobs that are fixed at load, and the maps of core.bpf.h (weak there, so that every object
 * declares the same and the linker keeps one).
 */
#include "bpf/core.bpf.h"

const volatile struct chaos_knobs knobs = {};
__u32 epoch = 0;

char LICENSE[] SEC("license") = "GPL";
