/* SPDX-License-Identifier: GPL-2.0-only */
/* What test_decide.c and test_packet.c say to the programs of decide_test.bpf.c, and what those answer. */
#ifndef DECIDE_TEST_H
#define DECIDE_TEST_H

#include "bpf/chaos.h"

/* Travels as the packet, behind an Ethernet header, and so does the answer: runs on several CPUs do not meet. */
struct question {
	__u8 peer[16];
	__u8 local[16];
	__u16 peer_port;
	__u16 local_port;
	__u8 protocol;
	__u8 side;
	__u8 spared;
	__u8 pad;
	struct chaos_owner owner;
	__u64 connection; /* test_decide counts it up */
	__u32 rule;
	__u32 packet;
};

struct answer {
	__u64 valid_until_ns;
	__u64 connection;
	__u32 rule;
	__u32 holds; /* verdict_holds() */
};

/* One fault that take() granted: CLOCK_BOOTTIME before and after the call. */
struct taken {
	__u64 before_ns;
	__u64 after_ns;
};

/* As much of struct packet as parse() promises. */
struct parsed {
	__u8 source[16];
	__u8 destination[16];
	__u32 transport;
	__u32 payload;
	__u32 payload_offset;
	__u32 seq;
	__u32 ack;
	__u16 source_port;
	__u16 destination_port;
	__u8 protocol;
	__u8 tcp_flags;
	__u8 ipv6;
	__u8 ok;
};

#define TEST_CONNECTIONS (1 << 17)

#endif
