/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the programs inside a process (tls.bpf.c) and those at its packets (http.bpf.c) tell each other of a connection that
 * speaks TLS: bytes are read where they are not encrypted yet, and their packets are known by what is encrypted of them.
 */
#ifndef TLS_BPF_H
#define TLS_BPF_H

#include "bpf/form.bpf.h"

MAP(BPF_MAP_TYPE_LRU_HASH, chaos_tls, struct chaos_tls_key, struct chaos_tls, CHAOS_MAX_TLS);
MAP(BPF_MAP_TYPE_LRU_HASH, chaos_prints, __u64, struct chaos_print, CHAOS_MAX_TLS);

static always struct chaos_tls *tls_of(const struct chaos_tls_key *key)
{
	return bpf_map_lookup_elem(&chaos_tls, key);
}

#endif
