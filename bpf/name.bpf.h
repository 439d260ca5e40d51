/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reading host names out of payload: what DNS (dns.bpf.c) and TLS (hello.bpf.c) share.
 *
 * The functions that read are global: the verifier looks at each by itself, once, whatever the hooks that call it do. They
 * can be given numbers only, so what they work on lies in a workbench that they find by its number.
 */
#ifndef NAME_BPF_H
#define NAME_BPF_H

#include "bpf/packet.bpf.h"

#define BENCH_BYTES \
	4096 /* a ClientHello with a post-quantum key share has 1,800, a DNS answer of many addresses less */
#define BENCH_SLACK BENCH_BYTES /* what the verifier believes that a reader at its end may touch */
#define NAME_MASK   (CHAOS_NAME_LEN - 1)

struct bench {
	struct chaos_name_key key;
	__u8 data[BENCH_BYTES + BENCH_SLACK];
	__u32 length;      /* bytes of data */
	__u32 at;          /* where the reader stands */
	__u32 left;        /* what it still has to read */
	__u32 found;       /* number of the name that was read */
	__u32 pid;         /* whose DNS answer this is */
	__u32 name_at;     /* where a ClientHello holds the server's name */
	__u32 encrypted;   /* 1: and says that it holds another, hidden one */
	__u32 chunk_state; /* where in a line of a stream the reader stands, see chunk.bpf.c, */
	__u32 chunks_left; /* and how many chunks it is to pass */
	__u32 next_seq;    /* what follows the part of a ClientHello that lies here, */
	__u32 record_left; /* how much of its present TLS record is to come, */
	__u32 header;      /* how much of the next one's header is there, at the end of data, */
	__u32 spoiled;     /* 1: and it cannot be read */

	/* What would be too much for the stack that hooks share. */
	struct packet p;
	struct flow f;
	struct chaos_verdict v;
};

/*
 * One for each depth to which hooks interrupt each other on a CPU: a process that sends may be interrupted by packets
 * that arrive, and these by nothing of ours.
 */
#define BENCHES 3
MAP(BPF_MAP_TYPE_PERCPU_ARRAY, chaos_benches, __u32, struct bench, BENCHES);
MAP(BPF_MAP_TYPE_PERCPU_ARRAY, chaos_depth, __u32, __u32, 1);

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, CHAOS_MAX_NAMES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct chaos_name_key);
	__type(value, __u32);
} chaos_names __weak SEC(".maps");

static always struct bench *bench_of(__u32 number)
{
	return bpf_map_lookup_elem(&chaos_benches, &number);
}

/* Takes a workbench; to be given back by leave_bench(), whatever is returned. */
static always __u32 enter_bench(void)
{
	__u32 zero = 0, *depth = bpf_map_lookup_elem(&chaos_depth, &zero);

	return depth ? (*depth)++ : BENCHES;
}

static always void leave_bench(void)
{
	__u32 zero = 0, *depth = bpf_map_lookup_elem(&chaos_depth, &zero);

	if (depth)
		(*depth)--;
}

/* The bound is put on the very register that is the index: see finish_rule(). */
static always __u64 bounded(__u64 at, __u64 mask)
{
	asm volatile("" : "+r"(at));
	return at & mask;
}

static always __u8 byte_at(const struct bench *b, __u64 at)
{
	return b->data[bounded(at, BENCH_BYTES - 1)];
}

static always __u32 word_at(const struct bench *b, __u64 at)
{
	return byte_at(b, at) << 8 | byte_at(b, at + 1);
}

static always __u8 lower(__u8 c)
{
	return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
}

/* Brings payload to the bench, behind what lies there, as much as fits. */
static always bool load_more(struct __sk_buff *skb, struct bench *b, __u32 offset, __u32 length)
{
	__u64 at = b->length;

	if (at >= BENCH_BYTES || !length)
		return false;
	if (length > BENCH_BYTES - at)
		length = BENCH_BYTES - at;
	b->length = at + length;
	/* The bound is on the register that is passed: see load_payload(). */
	asm volatile("" : "+r"(length));
	length = (length - 1) & (BENCH_BYTES - 1);
	return bpf_skb_load_bytes(skb, offset, b->data + bounded(at, BENCH_BYTES - 1), length + 1) == 0;
}

/* Brings payload to the empty bench. */
static always bool load_bench(struct __sk_buff *skb, struct bench *b, __u32 offset, __u32 length)
{
	b->length = 0;
	return load_more(skb, b, offset, length);
}

/* The pattern that fits the dotted name at `at` of the bench's data best: its number, or CHAOS_NAME_OTHER. */
int match_name(__u32 number, __u32 at, __u32 length);

/*
 * Goes through `length` bytes of a stream's payload with what stands on the bench (chunk_state, chunks_left). How many
 * there are up to the end of the last chunk, or 0 when that does not end here.
 */
int find_chunk_end(struct __sk_buff *skb, __u32 number, __u32 offset, __u32 length);

/* name server -> whoever asked: an answer teaches which addresses the names of the rules have. */
int hear_answer(struct __sk_buff *skb);

/* client -> server: the first payload settles by which name the server is meant; the rule is chosen again then. */
int settle_name(struct __sk_buff *skb);

/* The state of the packet's socket, in a function that was given the packet only. */
static always struct chaos_sock *state_of_packet(struct __sk_buff *skb, struct bpf_sock **full)
{
	struct bpf_sock *sk = skb->sk;

	sk = sk ? bpf_sk_fullsock(sk) : NULL;
	*full = sk;
	return sk ? bpf_sk_storage_get(&chaos_sock, sk, NULL, 0) : NULL;
}

#endif
