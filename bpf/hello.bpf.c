// SPDX-License-Identifier: GPL-2.0-only
/*
 * The name in a TLS ClientHello (RFC 8446, section 4.1.2; RFC 6066, section 3): which of the hosts behind one address is
 * meant. What is not one, or asks for no name, is left to its address; so is a name that is only the outer one of an
 * encrypted ClientHello, unless a rule asks for it.
 */
#include "bpf/name.bpf.h"

#define RECORD_HANDSHAKE          22
#define CLIENT_HELLO              1
#define RECORD_HEADER             5
#define FIXED_PART                (RECORD_HEADER + 4 + 2 + 32) /* record, handshake header, version, random */
#define MAX_EXTENSIONS            64
#define EXTENSION_SERVER_NAME     0
#define EXTENSION_ENCRYPTED_HELLO 0xfe0d

/* Where the extensions begin; 0: not a ClientHello. */
static always __u32 find_extensions(const struct bench *b)
{
	__u32 at = FIXED_PART;

	if (byte_at(b, 0) != RECORD_HANDSHAKE || byte_at(b, 1) != 3 || byte_at(b, RECORD_HEADER) != CLIENT_HELLO)
		return 0;
	at += 1 + byte_at(b, at); /* session id */
	at += 2 + word_at(b, at); /* cipher suites */
	if (at >= b->length)
		return 0;
	at += 1 + byte_at(b, at); /* compression methods */
	return at + 2;
}

/* The next extension; server_name is mostly among the first, and can be anywhere. False when there is none left. */
int read_extension(__u32 number)
{
	struct bench *b = bench_of(number);
	__u32 at, type;

	if (!b || b->at + 4 > b->length)
		return 0;
	at = b->at;
	type = word_at(b, at);
	if (type == EXTENSION_SERVER_NAME)
		b->name_at = at + 4;
	else if (type == EXTENSION_ENCRYPTED_HELLO)
		b->encrypted = 1;
	b->at = at + 4 + word_at(b, at + 2);
	return 1;
}

/* Finds the name in a ClientHello that lies on the bench: its length, 0 when there is none. b->name_at is its place. */
int read_server_name(__u32 number)
{
	struct bench *b = bench_of(number);
	__u32 at, length;

	if (!b)
		return 0;
	b->name_at = 0;
	b->encrypted = 0;
	b->at = find_extensions(b);
	if (!b->at)
		return 0;
	for (int i = 0; i < MAX_EXTENSIONS && read_extension(number); i++)
		;
	/* list length (2), type (1): 0, name length (2), name */
	at = b->name_at;
	if (!at || byte_at(b, at + 2) != 0)
		return 0;
	length = word_at(b, at + 3);
	if (at + 5 + length > b->length || length >= CHAOS_NAME_LEN)
		return 0;
	b->name_at = at + 5;
	return length;
}

/* ---- a ClientHello that comes in several segments, or TLS records ---------------------------------------------- */

#define MAX_PIECES 64 /* records and headers in one segment */

/* The workbenches that were put aside, by the connection's cookie. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, CHAOS_MAX_HELLOS);
	__type(key, __u64);
	__type(value, struct bench);
} chaos_hellos SEC(".maps");

/* Bytes of the message and of the first record's header, which stays in front of it. */
static always __u32 filled(const struct bench *b)
{
	return b->length > RECORD_HEADER ? b->length - b->header : b->length;
}

/* Could more of it make it a ClientHello, or a longer one? */
static always bool wants_more(const struct bench *b)
{
	const __u32 length = filled(b);

	if (b->spoiled)
		return false;
	if (byte_at(b, 0) != RECORD_HANDSHAKE || (length > 1 && byte_at(b, 1) != 3) ||
	    (length > RECORD_HEADER && byte_at(b, RECORD_HEADER) != CLIENT_HELLO))
		return false;
	if (length < RECORD_HEADER + 4)
		return true;
	return length < BENCH_BYTES &&
	       length < RECORD_HEADER + 4 + (byte_at(b, RECORD_HEADER + 1) << 16 | word_at(b, RECORD_HEADER + 2));
}

/* The header of a record is there: how long is it? But for the first one's it is taken away again. */
static always void end_header(struct bench *b)
{
	const __u32 at = b->length - RECORD_HEADER;

	b->record_left = word_at(b, at + 3);
	b->header = 0;
	if (byte_at(b, at) != RECORD_HANDSHAKE || !b->record_left)
		b->spoiled = 1;
	if (at)
		b->length = at;
}

/* Brings the next piece of the payload to the bench, a record or a header, or what is there of it. Its size; 0: no more. */
int take_of_record(struct __sk_buff *skb, __u32 number, __u32 offset, __u32 length)
{
	struct bench *b = bench_of(number);
	__u32 wanted;

	if (!b || b->spoiled)
		return 0;
	wanted = b->record_left ? b->record_left : RECORD_HEADER - b->header;
	if (length > wanted)
		length = wanted;
	if (!load_more(skb, b, offset, length))
		return 0;
	if (b->record_left) {
		b->record_left -= length;
		return length;
	}
	b->header += length;
	if (b->header >= RECORD_HEADER)
		end_header(b);
	return length;
}

static always void take_records(struct __sk_buff *skb, __u32 number, struct bench *b, __u32 offset, __u32 length)
{
	for (int i = 0; i < MAX_PIECES && length; i++) {
		__u32 taken = take_of_record(skb, number, offset, length);

		if (!taken || taken > length)
			break;
		offset += taken;
		length -= taken;
	}
	if (length && b->length < BENCH_BYTES)
		b->spoiled = 1;
}

struct segment {
	__u32 offset, length, seq;
};

/* Lays the payload on the bench, behind what left before it. False: it brought nothing new. */
static always bool add_segment(struct __sk_buff *skb, __u32 number, struct bench *b, __u64 cookie, struct segment p)
{
	struct bench *half = bpf_map_lookup_elem(&chaos_hellos, &cookie);
	__u32 again;

	if (half) {
		/* A per-CPU array is written on the present CPU only: the whole bench is brought back in one copy. */
		bpf_map_update_elem(&chaos_benches, &number, half, BPF_ANY);
	} else {
		b->length = 0;
		b->header = 0;
		b->record_left = 0;
		b->spoiled = 0;
		b->next_seq = p.seq;
	}
	again = b->next_seq - p.seq; /* what is sent again may have new bytes at its end */
	if (again >= p.length)
		return false;
	b->next_seq = p.seq + p.length;
	take_records(skb, number, b, p.offset + again, p.length - again);
	return true;
}

/* The number of the name that is asked for, CHAOS_NAME_HALF when the rest is still to come, or CHAOS_NAME_OPEN. */
static always __u32 read_name(__u32 number, const struct bench *b)
{
	__u32 found;
	int length;

	length = read_server_name(number);
	found = length ? match_name(number, b->name_at, length) : CHAOS_NAME_OPEN;
	if (length && found != CHAOS_NAME_OTHER)
		return found;
	if (wants_more(b))
		return CHAOS_NAME_HALF;
	return b->encrypted ? CHAOS_NAME_OPEN : found;
}

/* Reads a segment of what may be a ClientHello, see read_name(). */
int read_hello(struct __sk_buff *skb, __u32 offset, __u32 length, __u32 seq)
{
	const struct segment segment = { .offset = offset, .length = length, .seq = seq };

	__u64 cookie = bpf_get_socket_cookie(skb);
	__u32 number, found = CHAOS_NAME_OPEN;
	struct bench *b;

	if (!knobs.names)
		return CHAOS_NAME_OPEN;
	number = enter_bench();
	b = bench_of(number);
	if (!b)
		goto out;
	found = CHAOS_NAME_HALF;
	if (!add_segment(skb, number, b, cookie, segment))
		goto out;
	found = read_name(number, b);
	if (found == CHAOS_NAME_HALF)
		bpf_map_update_elem(&chaos_hellos, &cookie, b, BPF_ANY);
	else
		bpf_map_delete_elem(&chaos_hellos, &cookie);
out:
	leave_bench();
	return found;
}

int settle_name(struct __sk_buff *skb)
{
	struct packet p = {};
	struct chaos_sock *s;
	struct bpf_sock *sk;
	struct flow f = {};
	__u32 name;

	s = state_of_packet(skb, &sk);
	if (!knobs.names || !s || !sk || !parse(skb, &p, 0) || !p.payload)
		return 0;
	name = read_hello(skb, p.payload_offset, p.payload, p.seq);
	if (name == CHAOS_NAME_OPEN) {
		f.side = CHAOS_SIDE_CLIENT;
		flow_of_sock(&f, sk);
		name = name_of_address(&f, &s->owner);
	}
	if (name == CHAOS_NAME_HALF)
		s->in_hello = 1;
	s->name = name;
	s->verdict.valid_until_ns = 0;
	return 0;
}
