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

/* Answers that are ordered and not made, of all connections: for so long the load does not end (user/load/reaper.c). */
MAP(BPF_MAP_TYPE_ARRAY, chaos_orders, __u32, __s64, 1);

#define RECORD_PRINT (CHAOS_PRINT_AT + 8) /* bytes of a record, as many as it takes to know it again */

static always struct chaos_tls *tls_of(const struct chaos_tls_key *key)
{
	return bpf_map_lookup_elem(&chaos_tls, key);
}

static always void count_orders(__s64 more)
{
	__u32 zero = 0;
	__s64 *orders = bpf_map_lookup_elem(&chaos_orders, &zero);

	if (orders)
		__sync_fetch_and_add(orders, more);
}

static always void open_order(struct chaos_tls *tls)
{
	tls->order.state = CHAOS_ANSWER_WAITS;
	tls->order.open = 1;
	count_orders(1);
}

/* It was made, or will never be. */
static always void close_order(struct chaos_tls *tls)
{
	if (!tls->order.open)
		return;
	tls->order.open = 0;
	count_orders(-1);
}

#endif
