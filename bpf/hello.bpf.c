// SPDX-License-Identifier: GPL-2.0-only
/*
 * The name in a TLS ClientHello (RFC 8446, section 4.1.2; RFC 6066, section 3): which of the hosts behind one address is
 * meant. What is not one, or asks for no name, is left to its address; so is a name that is only the outer one of an
 * encrypted ClientHello, unless a rule asks for it.
 */
#include "bpf/name.bpf.h"

#define RECORD_HANDSHAKE 22
#define CLIENT_HELLO 1
#define RECORD_HEADER 5
#define FIXED_PART (RECORD_HEADER + 4 + 2 + 32) /* record, handshake header, version, random */
#define MAX_EXTENSIONS 64
#define EXTENSION_SERVER_NAME 0
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

/* The number of the name that is asked for, or CHAOS_NAME_OPEN. */
int read_hello(struct __sk_buff *skb, __u32 offset, __u32 length)
{
	__u32 number, found = CHAOS_NAME_OPEN;
	struct bench *b;
	int name_length;

	if (!knobs.names)
		return CHAOS_NAME_OPEN;
	number = enter_bench();
	b = bench_of(number);
	if (!b || length < FIXED_PART || !load_bench(skb, b, offset, length))
		goto out;
	name_length = read_server_name(number);
	if (!name_length)
		goto out;
	found = match_name(number, b->name_at, name_length);
	if (found == CHAOS_NAME_OTHER && b->encrypted)
		found = CHAOS_NAME_OPEN;
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
	name = read_hello(skb, p.payload_offset, p.payload);
	if (name == CHAOS_NAME_OPEN) {
		f.side = CHAOS_SIDE_CLIENT;
		flow_of_sock(&f, sk);
		name = name_of_address(&f, &s->owner);
	}
	s->name = name;
	s->verdict.valid_until_ns = 0;
	return 0;
}
