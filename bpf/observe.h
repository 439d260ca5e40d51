/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The contract between the programs that measure (observe.bpf.c) and user/observe/observe.c. Conventions are those of chaos.h;
 * durations are microseconds.
 */
#ifndef OBSERVE_BPF_CONTRACT_H
#define OBSERVE_BPF_CONTRACT_H

#include "bpf/chaos.h"
#include "bpf/histogram.h"

/* How a connection could not be had. */
enum observe_failure {
	OBSERVE_REFUSED,
	OBSERVE_TIMEOUT,
	OBSERVE_RESET,
	OBSERVE_UNREACHABLE,
	OBSERVE_DENIED,
	OBSERVE_GIVEN_UP, /* the application closed the socket before there was an answer */
	OBSERVE_AT_ONCE,  /* connect() failed before anything was sent; with what the kernel did not say */
	OBSERVE_OTHER,
	OBSERVE_FAILURE_COUNT,
};

/* What is counted in histograms, in microseconds. */
enum observe_time {
	OBSERVE_RESPONSE, /* from a request's last byte to its response's first */
	OBSERVE_CONNECT,  /* from the first SYN to the connection */
	OBSERVE_RTT,      /* TCP's smoothed round trip, looked at with each response */
	OBSERVE_GAP,      /* from one packet of an event stream to the next */
	OBSERVE_TIME_COUNT,
};

/* Classes of HTTP's status: [2] are those from 200 to 299. [0]: none could be read. */
#define OBSERVE_CLASSES 6

/* Whose traffic a row counts. What the service calls is told apart by address and port, what it serves by its port. */
struct observe_key {
	__u64 cgroup_id;
	__u8 address[16]; /* of the server; 0 where that is this machine */
	char comm[CHAOS_COMM_LEN];
	__u16 port; /* of the server */
	__u8 side;  /* enum chaos_side; 0: no key, see OBSERVE_REST */
	__u8 pad[5];
};

/* The row that counts what found no other, once all are taken. */
#define OBSERVE_REST 0

struct observe_row {
	struct observe_key key;
	__u64 connections; /* made while it was looked at */
	__u64 failures[OBSERVE_FAILURE_COUNT];
	__u64 resets_received, resets_sent; /* connections that ended so */
	__u64 retransmits;                  /* segments that this side sent again */
	__u64 requests, responses;
	__u64 unanswered; /* requests whose connection ended before there was a response */
	__u64 status[OBSERVE_CLASSES];
	__u64 bytes_sent, bytes_received; /* payload of TCP, each byte once */
	struct histogram times[OBSERVE_TIME_COUNT];
};

/* What is kept with every socket of TCP. An accepted one begins as a copy of its listener's. */
struct observe_sock {
	__u64 cgroup_id;
	char comm[CHAOS_COMM_LEN];
	__u64 connect_ns;    /* times are those of CLOCK_MONOTONIC */
	__u64 request_ns;    /* last byte of the open request */
	__u64 event_ns;      /* last packet of an event stream */
	__u32 row;           /* 1 more than its index; 0: not looked for yet */
	__u32 request_seq;   /* first byte of the open request */
	__u32 request_high;  /* one beyond the highest byte of requests, */
	__u32 response_high; /* of responses */
	__u32 retransmits;   /* of TCP's, those that have been counted */
	__u16 port;          /* where it connects to, while nothing has been sent */
	__u8 known;          /* cgroup, comm and wanted are filled in */
	__u8 wanted;         /* its owner is one of those that are looked for */
	__u8 side;           /* enum chaos_side */
	__u8 connecting;     /* 1: connect() was called, and nothing was sent yet; 2: and there is no answer yet */
	__u8 fresh;          /* a new connection, not counted yet */
	__u8 refused;        /* the peer said so */
	__u8 seen;           /* OBSERVE_SEEN_... */
	__u8 stream;         /* enum chaos_stream */
	__u8 after_ccs;
	__u8 waiting; /* a request is open */
	__u8 events;  /* its response is an event stream */
	__u8 ended;   /* by a reset, which is counted */
	__u8 pad[2];
	__u8 address[16]; /* see port */
};
#define OBSERVE_SEEN_REQUEST  1          /* request_high is valid */
#define OBSERVE_SEEN_RESPONSE 2          /* response_high is valid */
#define OBSERVE_SEEN_ANSWER   4          /* some request was answered */
#define OBSERVE_NOBODY        0xffffffff /* observe_sock.row: nobody wants to know */

/* Rows given so far. */
struct observe_state {
	struct bpf_spin_lock lock;
	__u32 rows;
};

/* One bit for each port. */
struct observe_ports {
	__u64 word[65536 / 64];
};

/* What has to hold of a socket's owner; a set. */
enum observe_by {
	OBSERVE_BY_CGROUP = 1,
	OBSERVE_BY_PID = 2,
	OBSERVE_BY_COMM = 4,
	OBSERVE_BY_USER = 8,
};
#define OBSERVE_MAX_LEVELS 32 /* of cgroups: deeper ones are known by those above */

/* Fixed at load. */
struct observe_knobs {
	__u32 rows;         /* how many there are, OBSERVE_REST included */
	__u32 by;           /* enum observe_by */
	__u32 uid;          /* OBSERVE_BY_USER */
	__u32 sides;        /* set of 1 << enum chaos_side */
	__u32 ports;        /* 1: only those in chaos_obs_ports */
	__u32 hosts;        /* 1: only those in chaos_obs_hosts */
	__u32 leader_comm;  /* as in struct chaos_knobs */
	__u32 socket_error; /* 1: why a connection failed can be read from the socket */
	__u32 get_retval;   /* 1: what programs before us made of connect() can be asked for */
};

_Static_assert(sizeof(struct observe_key) == 48, "observe_key");
_Static_assert(sizeof(struct observe_sock) == 104, "observe_sock");
_Static_assert(sizeof(struct histogram) == 16 + 4 * HISTOGRAM_BUCKETS, "histogram");

#endif
