/* SPDX-License-Identifier: GPL-2.0-only */
/* What the programs that read requests of HTTP (http.bpf.c) and answers (answer.bpf.c) share. */
#ifndef HTTP_BPF_H
#define HTTP_BPF_H

#include "bpf/http.h"
#include "bpf/core.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct chaos_http);
} chaos_http __weak SEC(".maps");

static always struct chaos_http_table *http_table(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&chaos_http_table, &zero);
}

#endif
