/* SPDX-License-Identifier: GPL-2.0-only */
/* A call to a library for TLS: the connection that it is about, and how the bytes that it was given are read, piece by piece. */
#ifndef TLS_CALL_BPF_H
#define TLS_CALL_BPF_H

#include "bpf/point.bpf.h"
#include "bpf/tls.bpf.h"

#define PIECE  sizeof(((struct chaos_tls *)0)->piece)
#define PIECES 64 /* and so many times so many: 32 KiB, twice a record */

MAP(BPF_MAP_TYPE_LRU_HASH, chaos_tls_frames, __u32, struct chaos_tls_frame, 4096); /* by thread */

static always struct chaos_tls_frame *frame_here(void)
{
	__u32 tid = current_tid();

	return bpf_map_lookup_elem(&chaos_tls_frames, &tid);
}

/* The connection that a call is about. */
static always struct chaos_tls *tls_in(const struct chaos_tls_frame *frame)
{
	return frame ? tls_of(&frame->tls) : NULL;
}

/* What the call goes on with. */
static always void set_place(struct chaos_tls_frame *frame, __u64 at, __u32 left)
{
	frame->at = at;
	frame->left = left;
}

static always void key_of(__u64 ssl, struct chaos_tls_key *key)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	key->ssl = ssl;
	key->started = BPF_CORE_READ(task, group_leader, start_time);
	key->pid = bpf_get_current_pid_tgid() >> 32;
	key->pad = 0;
}

/* Brings the next piece to the bench: so many bytes of it. 0: none is left, or it cannot be read. */
static always __u64 bring_piece(struct chaos_tls_frame *frame, struct chaos_tls *tls)
{
	__u64 n;

	if (!frame->left)
		return 0;
	n = (frame->left < PIECE ? frame->left : PIECE) - 1;
	asm volatile("" : "+r"(n)); /* see load_payload() */
	n = (n & (PIECE - 1)) + 1;
	if (bpf_probe_read_user(tls->piece, n, (void *)frame->at))
		return 0;
	frame->at += n;
	frame->left -= n;
	asm volatile("" : "+r"(n)); /* see chaos_http_piece() */
	return n;
}

#endif
