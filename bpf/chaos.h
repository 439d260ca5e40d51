/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The contract between chaosbpf's BPF programs and its userspace half.
 *
 * Everything that crosses the border is declared here and nowhere else: the compiled rule, the bit vectors of the
 * matcher, the state kept with a socket, counters, events and the control word. Both sides include this file, sizes
 * are asserted at its end. Times are nanoseconds of CLOCK_BOOTTIME unless a name says otherwise; addresses are 16 bytes
 * in network order, IPv4 in its mapped form (::ffff:a.b.c.d); ports are in host order.
 */
#ifndef CHAOS_H
#define CHAOS_H

#include <linux/bpf.h>
#include <linux/types.h>

#define CHAOS_MAX_RULES 1024
#define CHAOS_WORDS (CHAOS_MAX_RULES / 64)
#define CHAOS_COMM_LEN 16
#define CHAOS_MAX_DELAY_NS (600ULL * 1000000000ULL) /* ten minutes, jitter included */

/* One bit for each rule, in file order: bit 0 of word 0 is the first rule of the file. */
struct chaos_vector {
	__u64 word[CHAOS_WORDS];
};

/* What a rule does. The order is that of the names in chaos_fault_name (user/base/names.c) and of stats.faults[]. */
enum chaos_fault {
	CHAOS_DROP,
	CHAOS_DELAY,
	CHAOS_REFUSE,
	CHAOS_RESET,
	CHAOS_ACCEPT_SILENCE,
	CHAOS_TLS_STALL,
	CHAOS_DUPLICATE,
	CHAOS_CORRUPT,
	CHAOS_REORDER,
	CHAOS_HALF_OPEN,
	CHAOS_RATE,
	CHAOS_TOKENS,
	CHAOS_DNS,
	CHAOS_BREAK_AFTER,
	CHAOS_STATUS,
	CHAOS_BODY,
	CHAOS_HANG,
	CHAOS_ERROR_EVENT,
	CHAOS_DROP_DONE,
	CHAOS_GARBLE,
	CHAOS_GRPC,
	CHAOS_NETWORK_FAULT_COUNT, /* from here on there is a caller and no connection */
	CHAOS_GPU_OOM = CHAOS_NETWORK_FAULT_COUNT,
	CHAOS_CALL,
	CHAOS_ERRNO,
	CHAOS_FAULT_COUNT,
	/* break-after with `how: clean` is done elsewhere, and counted and told as break-after: a bit of rules only. */
	CHAOS_BREAK_CLEAN = CHAOS_FAULT_COUNT,
};

/* Faults inside a process. */
#define CHAOS_CALLS (1 << CHAOS_GPU_OOM | 1 << CHAOS_CALL | 1 << CHAOS_ERRNO)

/* Requests of HTTP that get another answer than the server's, or none; the same of events in a stream. */
#define CHAOS_STREAMS (1 << CHAOS_BREAK_CLEAN | 1 << CHAOS_ERROR_EVENT | 1 << CHAOS_DROP_DONE | 1 << CHAOS_GARBLE)
#define CHAOS_ANSWERS (1 << CHAOS_STATUS | 1 << CHAOS_BODY | 1 << CHAOS_HANG | CHAOS_STREAMS)

/* Connections that are there and say nothing; connections that are slow all along. */
#define CHAOS_SILENCE (1 << CHAOS_ACCEPT_SILENCE | 1 << CHAOS_TLS_STALL | 1 << CHAOS_HALF_OPEN)
#define CHAOS_PACING (1 << CHAOS_RATE | 1 << CHAOS_TOKENS)

/* Faults that lose packets where they leave, below the socket. */
#define CHAOS_LOSING (1 << CHAOS_DROP | CHAOS_SILENCE)

/* Faults that go on for as long as the rule does, on the connection that they have hit. */
#define CHAOS_LASTING (CHAOS_SILENCE | CHAOS_PACING | 1 << CHAOS_BREAK_AFTER | 1 << CHAOS_HANG | \
		       1 << CHAOS_DROP_DONE | 1 << CHAOS_GARBLE)

/* Damage to single packets; faults that tc does to what arrives; those that need a queue that honours skb->tstamp. */
#define CHAOS_DAMAGE (1 << CHAOS_DUPLICATE | 1 << CHAOS_CORRUPT | 1 << CHAOS_REORDER)
#define CHAOS_FAULTS_AT_ARRIVAL (1 << CHAOS_RESET | CHAOS_DAMAGE | 1 << CHAOS_BREAK_AFTER)
#define CHAOS_FAULTS_BY_FQ (1 << CHAOS_DELAY | 1 << CHAOS_REORDER) /* and CHAOS_PACING of what leaves */

/* What becomes of a question for a name. */
enum chaos_dns {
	CHAOS_DNS_NXDOMAIN,
	CHAOS_DNS_SERVFAIL,
	CHAOS_DNS_TIMEOUT, /* it is lost */
	CHAOS_DNS_EMPTY,   /* the name exists, and has no address */
	CHAOS_DNS_COUNT,
};

/* What a process asks of the kernel, and `errno` refuses. */
enum chaos_operation {
	CHAOS_OPEN,
	CHAOS_CREATE,
	CHAOS_READ,
	CHAOS_WRITE,
	CHAOS_MMAP,
	CHAOS_MEMORY,
	CHAOS_CONNECT,
	CHAOS_SEND,
	CHAOS_RECEIVE,
	CHAOS_SOCKET,
	CHAOS_IOCTL,
	CHAOS_FORK,
	CHAOS_THREAD,
	CHAOS_EXEC,
	CHAOS_OPERATION_COUNT,
};

/* What `percent` is a percentage of. */
enum chaos_per {
	CHAOS_PER_CONNECTION,
	CHAOS_PER_PACKET,
	CHAOS_PER_REQUEST,
	CHAOS_PER_CALL, /* of a fault inside a process, always */
	CHAOS_PER_COUNT,
};

enum chaos_distribution {
	CHAOS_UNIFORM,
	CHAOS_NORMAL,
	CHAOS_PARETO,
	CHAOS_DISTRIBUTION_COUNT,
};

/* Which packets a drop loses that does not lose them all, see bpf/loss.bpf.h. */
enum chaos_loss {
	CHAOS_LOSS_CHANCE,
	CHAOS_LOSS_EVERY,
	CHAOS_LOSS_BURST,
	CHAOS_LOSS_COUNT,
};

/* How a response, or a request, stops in the middle. */
enum chaos_break_how {
	CHAOS_BREAK_RESET,
	CHAOS_BREAK_CLOSE, /* with the end of the stream, as if that were all */
	CHAOS_BREAK_STALL, /* with nothing: the connection stays open */
	CHAOS_BREAK_AS_IF_OVER, /* as if the answer were over: CHAOS_BREAK_CLEAN */
	CHAOS_BREAK_HOW_COUNT,
};

/* Which end of the connection the named process is. */
enum chaos_side {
	CHAOS_SIDE_UNKNOWN,
	CHAOS_SIDE_CLIENT,
	CHAOS_SIDE_SERVER,
	CHAOS_SIDE_COUNT,
};

/* Directions a rule touches; a set. A request runs from client to server, whichever side is the named one. */
enum chaos_direction {
	CHAOS_REQUEST = 1,
	CHAOS_RESPONSE = 2,
	CHAOS_BOTH = CHAOS_REQUEST | CHAOS_RESPONSE,
};

/* Why a rule that came up for decision did nothing; stats.matched == stats.injected + the sum of stats.skipped[]. */
enum chaos_skip {
	CHAOS_SKIP_PERCENT,  /* the dice said no */
	CHAOS_SKIP_MAX_HITS, /* the budget is used up */
	CHAOS_SKIP_MAX_RATE, /* enough faults in the present window of max-rate */
	CHAOS_SKIP_OBSERVE,  /* would have been injected, but the rules were loaded to observe */
	CHAOS_SKIP_SSH,	     /* an SSH connection, and the rule does not say include-ssh */
	CHAOS_SKIP_DEVICE,   /* the packet left by a device that cannot do this fault (yet) */
	CHAOS_SKIP_ENCRYPTED, /* what the fault has to count cannot be seen: TLS, HTTP/2 */
	CHAOS_SKIP_ASSIST, /* the calling thread could not be stopped to be given another result */
	CHAOS_SKIP_NO_ROOM, /* the answer that came is shorter than every form of the one that was to take its place */
	CHAOS_SKIP_UNREAD, /* the rule asks for HTTP requests, and this connection's cannot be told apart */
	CHAOS_SKIP_COUNT,
};

/* rule.flags */
enum chaos_rule_flag {
	CHAOS_RULE_OBSERVE = 1,	    /* count, never inject */
	CHAOS_RULE_DROP_ALL = 2,    /* `drop: true`: the connection goes silent, decided once for it */
	CHAOS_RULE_INCLUDE_SSH = 4, /* SSH connections are not spared */
	CHAOS_RULE_LASTS = 8,	    /* max-hits ends no fault that is under way: the rule stays, and hits no more */
	CHAOS_RULE_PATH = 16,	    /* errno: of files of some path only */
	CHAOS_RULE_ASSIST = 32,	    /* call: only the assist can do it, whatever programs may write here */
	CHAOS_RULE_RUNS = 64,	    /* call: the function runs after all, once its delay is over */
	CHAOS_RULE_INSIDE = 128,    /* reset: only the process hears of it, no packet is touched */
};

/* A value that moves in a straight line to `to` while the rule lasts, and stays there. See bpf/ramp.h. */
struct chaos_ramp {
	__u64 to;
	__u64 over_ns; /* counted from chaos_rule.begins_ns; 0: the value stays as it is */
};

/* A rule as the kernel sees it: what to do once the matcher has chosen it. */
struct chaos_rule {
	__u32 faults;	      /* set of 1 << enum chaos_fault */
	__u32 percent_ppm;    /* 0 to 1,000,000: chance of the unit named by `per` */
	__u32 drop_ppm;	      /* chance of each packet when the drop is partial; 1,000,000 with CHAOS_RULE_DROP_ALL */
	__u32 flags;	      /* enum chaos_rule_flag */
	__u64 delay_ns;	      /* of CHAOS_CALL, too */
	__u64 jitter_ns;
	__u64 seed;
	__u64 max_hits;	      /* 0: no limit */
	__u64 rate_window_ns; /* 0: no limit; else at most rate_count faults in any window of that length */
	__u64 begins_ns;      /* first in force: where ramps begin */
	struct chaos_ramp percent_ramp, drop_ramp, delay_ramp; /* of percent_ppm, drop_ppm, delay_ns */
	__u32 rate_count;     /* see struct chaos_budget */
	__s32 error;	      /* refuse: the errno that connect() returns; errno: that of the operation; call: what errno becomes; positive */
	__u8 per;	      /* enum chaos_per */
	__u8 distribution;    /* enum chaos_distribution */
	__u8 directions;      /* enum chaos_direction, a set */
	__u8 loss;	      /* enum chaos_loss */
	__u32 drop_every;     /* CHAOS_LOSS_EVERY: each so manieth packet of a connection */
	__u32 burst_enter;    /* CHAOS_LOSS_BURST, parts of 2^32: chance that a burst begins at a packet, */
	__u32 burst_leave;    /* and that it ends; drop_ppm is the share that both come to */
	__u32 duplicate_ppm;  /* chances of each packet */
	__u32 corrupt_ppm;
	__u32 reorder_ppm;
	__u32 dns;	      /* enum chaos_dns */
	__u8 idle_how;	      /* half-open: CHAOS_BREAK_STALL or CHAOS_BREAK_RESET */
	__u8 break_how;	      /* break-after: enum chaos_break_how, */
	__u8 waits_for;	      /* enum chaos_device_flag, a set: what must be there before payload may leave */
	__u8 pad;
	__u32 break_chunks;   /* after so many events of a stream, */
	__u64 break_ns;	      /* or so long, or, when both are 0, */
	__u64 break_bytes;    /* so many bytes */
	__u64 reorder_ns;     /* how long a packet is held back for others to overtake it */
	__u64 idle_ns;	      /* half-open */
	__u64 rate_bytes;     /* a second, of a connection */
	__u64 token_ns;	      /* from one event of a stream to the next */
	__s64 returns;	      /* call: the result */
	__u64 min_bytes;      /* gpu-oom: smaller allocations succeed */
	__u64 above_bytes;    /* gpu-oom: what a process may hold; 0: no limit */
	__u32 failures;	      /* gpu-oom: calls that fail in a row, once one has been chosen; at least 1 */
	__u16 form;	      /* CHAOS_ANSWERS: first of its forms in chaos_forms, best first, */
	__u8 forms;	      /* so many */
	__u8 grpc;	      /* error code of HTTP/2 with which streams are reset */
	__u32 stream_chunks;  /* CHAOS_STREAMS: after so many events of a stream; CHAOS_GARBLE: each so manieth */
	__u32 pad3;
};

/*
 * What a rule has spent, for all CPUs together; every field is touched under the lock only.
 *
 * max-rate is an exact sliding window: `recent` holds when the last CHAOS_RATE_SLOTS slots were begun, a slot stands for
 * `slot_faults` faults, and a new slot may begin only when the one it replaces is a window old. Rates up to
 * CHAOS_RATE_SLOTS use one fault a slot and are exact; for higher ones `slots` * `slot_faults` + `slot_faults` - 1 is at
 * most the limit, so it is never exceeded.
 */
#define CHAOS_RATE_SLOTS 64
struct chaos_budget {
	struct bpf_spin_lock lock;
	__u32 slot;	     /* index of the newest slot in recent[] */
	__u32 slot_used;     /* faults done in the newest slot */
	__u32 slots;	     /* slots in use */
	__u32 slot_faults;   /* faults that one slot stands for */
	__u32 pad;
	__u64 used;	     /* faults done: never above max_hits */
	__u64 max_hits;	     /* 0: no limit */
	__u64 window_ns;     /* 0: no max-rate */
	__u64 connections;   /* connections numbered so far: the dice are thrown for (seed, number) */
	__u64 recent[CHAOS_RATE_SLOTS];
};

/*
 * The same for calls. Programs on user functions may not take a lock: a fault is claimed by being the first to write its
 * number into chaos_claims, where the time stands at which it was done.
 */
struct chaos_claim_key {
	__u32 rule;
	__u32 pad;
	__u64 number; /* from 0 */
};
#define CHAOS_MAX_CALL_RATE 1000 /* max-rate of a fault inside a process: each claim in the window is kept */
#define CHAOS_CLAIMS_KEPT 64	 /* and some more, for whoever is late */

/* A thread that has made calls that a rule looks at. */
struct chaos_caller_key {
	__u32 tid;
	__u32 rule;
};
struct chaos_caller {
	__u64 calls;   /* so many, the present one included */
	__u32 thread;  /* number among the threads of the rule: the dice are thrown for (seed, thread, call) */
	__u32 failing; /* gpu-oom: so many more fail, whatever the dice say */
};

/* What a function with a probe is. */
enum chaos_role {
	CHAOS_ROLE_FUNCTION,  /* of `call` */
	CHAOS_ROLE_ALLOCATE,  /* of `gpu-oom`, like all that follow */
	CHAOS_ROLE_FREE,
	CHAOS_ROLE_INFO,      /* says how much memory is free, and how much there is */
	CHAOS_ROLE_GET_ERROR, /* says what the last call of the thread failed with, and forgets it */
	CHAOS_ROLE_PEEK_ERROR,
	CHAOS_ROLE_TLS_WRITE, /* of a library for TLS, like all that follow: SSL_write(ssl, bytes, size) */
	CHAOS_ROLE_TLS_WRITE_EX, /* (ssl, bytes, size, taken) */
	CHAOS_ROLE_TLS_READ, /* SSL_read(ssl, bytes, size) */
	CHAOS_ROLE_TLS_READ_EX, /* (ssl, bytes, size, got) */
	CHAOS_ROLE_TLS_FREE, /* SSL_free(ssl) */
	CHAOS_ROLE_TLS_RECORD, /* BIO_write(bio, record, size): what it has encrypted is handed on */
};

/* APIs that keep a last error for each thread do so apart. */
enum chaos_gpu_api {
	CHAOS_GPU_RUNTIME, /* CUDA runtime */
	CHAOS_GPU_DRIVER,  /* CUDA driver: keeps none */
	CHAOS_GPU_HIP,
	CHAOS_GPU_API_COUNT,
};

/* A user function with a probe, by number: what the probe's cookie says. Arguments are counted from 1, 0: none. */
#define CHAOS_MAX_POINTS 2048
#define CHAOS_FUNCTION_LEN 32
#define CHAOS_SIZE_ARGS 3
struct chaos_point {
	__u32 set;	     /* of rules */
	__u8 role;	     /* enum chaos_role */
	__u8 api;	     /* enum chaos_gpu_api */
	__u8 size_args[CHAOS_SIZE_ARGS]; /* whose product is asked for */
	__u8 size_bits;	     /* 32: they are that narrow */
	__u8 extent;	     /* 1: width, height and depth lie in a struct on the stack */
	__u8 out_arg;	     /* points to where the address of the memory is written */
	__u8 device;	     /* 1: this is memory of the device, and counts against what a process may hold */
	__u8 freed_arg;	     /* is the address that is freed */
	__u8 pad[2];
	__u32 file;	     /* number of the file that it is in */
	__u32 pad2;
	__s64 ret;	     /* from the function's first byte to that of some `ret` instruction of the same file, never 0 */
	__s64 errno_function; /* and to that of __errno_location, if the file has it, else 0 */
	char function[CHAOS_FUNCTION_LEN]; /* its name, or the beginning of it; ends with a NUL */
};

/* Where a kernel's probes cannot tell their number: by copy of the programs, and the place of the function in its page. */
struct chaos_place_key {
	__u32 copy;
	__u32 offset; /* in a page */
};

/* A call under way whose return is waited for. */
struct chaos_frame {
	__u64 sp; /* at its entry */
	__u32 point;
	__u32 pad;
	__u64 bytes;
	__u64 out[2]; /* pointers that it was given */
};

/* Memory of the device that a process holds. */
struct chaos_block_key {
	__u64 address;
	__u32 pid;
	__u32 pad;
};
#define CHAOS_MAX_BLOCKS 65536

/* A file with probes, for `status`. */
#define CHAOS_MAX_FILES 256
#define CHAOS_PATH_LEN 120
struct chaos_file {
	__u64 functions;	    /* with a probe; 0: no such file */
	char path[CHAOS_PATH_LEN]; /* its end, if it is longer; ends with a NUL */
};

/* Counters of a function on one CPU. */
struct chaos_point_stats {
	__u64 calls;	/* of anyone */
	__u64 injected;
};

/*
 * The assist (user/inside/assist.h) gives a thread another result where programs may not write registers. A program at a function's
 * entry decides, writes into chaos_returns under the thread's number, and sends the thread SIGURG; the assist, which traces
 * it, sees to the rest when the signal is about to be delivered.
 *
 *	chaos_returns        hash, __u32 tid (of the initial pid namespace) to struct chaos_return
 *	chaos_traced         hash, __u32 tgid to __u32 1: processes whose threads are all traced; of others nothing is to be asked,
 *	                     nor of a thread whose task_struct.ptrace is 0: the assist is dead
 *	chaos_assist         array, [0] is __u64: CLOCK_BOOTTIME of the assist's last sign of life; 0 while it traces nobody.
 *	                     Nothing is to be asked of it when that is older than CHAOS_ASSIST_STALE_NS (read it before the clock).
 *	chaos_begun          ring buffer of __u32 tgid: processes that have begun a program and are to be traced
 *	chaos_assist_failed  array, __u64 by rule: calls for which a signal came and nothing could be done; the assist writes it
 *
 * A call that waits before it returns does so for as long as its rule is in force: the assist looks at chaos_control,
 * chaos_schedule and chaos_call_over, too.
 */
#define CHAOS_ASSIST_STALE_NS 1000000000ULL
#define CHAOS_MAX_RETURNS 4096
#define CHAOS_MAX_TRACED 4096

/* Does the function run after all? */
enum chaos_runs {
	CHAOS_RUNS_NEVER, /* it returns `value` */
	CHAOS_RUNS_LATER, /* once the delay is over */
	CHAOS_RUNS_NOW,	  /* it is over, and the kernel may come to the function's entry once more for the same call */
};

/* A call that is to return at once: written at its entry, taken away by the assist when it has seen to it. */
struct chaos_return {
	__u64 entry;   /* address of the function's first byte, */
	__u64 sp;      /* stack pointer there: the return address lies at it */
	__u64 ret;     /* address of some `ret` instruction, where to go on; 0: take the return address from the stack */
	__u64 value;   /* the result */
	__u64 time_ns; /* CLOCK_BOOTTIME */
	__u64 delay_ns; /* how long the thread waits before */
	__u64 errno_function; /* address of __errno_location, where the file of the function has it; 0: the process's C library has */
	__s32 error;   /* what errno becomes; 0: it stays */
	__u32 runs;    /* enum chaos_runs */
	__u32 generation;
	__u32 rule;
	__u32 point;
	__u32 held;    /* 1: the assist holds the thread */
};

/* Counters of one rule on one CPU. */
struct chaos_stats {
	__u64 seen;	/* packets and calls of the connections that the rule's match names */
	__u64 matched;	/* times a fault of the rule came up for decision */
	__u64 injected; /* times it was done */
	__u64 packets;	/* packets that were dropped, held or rewritten for it */
	__u64 faults[CHAOS_FAULT_COUNT]; /* `injected`, by fault */
	__u64 skipped[CHAOS_SKIP_COUNT];
};

/* Counters of the whole load on one CPU. */
struct chaos_totals {
	__u64 decisions;      /* times the matcher ran: new connections, and old ones after a change */
	__u64 unowned;	      /* connections whose owner could not be told */
	__u64 events_dropped; /* events that found no room */
};

/* Which rules are in force until when; the kernel looks for the first interval whose end lies ahead. */
struct chaos_interval {
	__u64 until_ns;
	struct chaos_vector active;
};
#define CHAOS_MAX_INTERVALS 4096

/*
 * Dimensions of the matcher. Each look-up gives a number of a rule set (chaos_sets holds the vectors): the rules that
 * this value allows, those that do not ask for the dimension included. A look-up that finds nothing means the set
 * knobs.wildcard[dimension]: only those that do not ask.
 */
enum chaos_dimension {
	CHAOS_DIM_PID,
	CHAOS_DIM_CGROUP,
	CHAOS_DIM_COMM,
	CHAOS_DIM_USER,
	CHAOS_DIM_ADDRESS,
	CHAOS_DIM_PORT,
	CHAOS_DIM_COUNT,
};

enum chaos_protocol {
	CHAOS_TCP,
	CHAOS_UDP,
	CHAOS_PROTOCOL_COUNT,
};
#define CHAOS_QUERY CHAOS_PROTOCOL_COUNT /* a question for a name, by whatever protocol: of the matcher alone */
#define CHAOS_KIND_COUNT ((CHAOS_QUERY + 1) * CHAOS_SIDE_COUNT)

struct chaos_cgroup_key {
	__u64 id;	  /* kernfs id: the inode number of the cgroup's directory */
	__u32 hierarchy;  /* 0: cgroup v2; else the v1 hierarchy's number, as in /proc/PID/cgroup */
	__u32 pad;
};

struct chaos_address_key {
	__u32 prefix_len; /* bits of address that count, 96 more than IPv4's own */
	__u8 address[16];
};

/*
 * Host names of rules, exact ones and `*.suffix`: a name as DNS and TLS send it, in lower case, is turned around, so that
 * the longest prefix is the closest pattern. An exact name ends with a NUL, the suffix of a `*` with a dot.
 *
 *	api.openai.com    "moc.ianepo.ipa\0"
 *	*.openai.com      "moc.ianepo."
 */
#define CHAOS_NAME_LEN 256 /* 253 characters of a name and its NUL */
struct chaos_name_key {
	__u32 prefix_len; /* bits */
	__u8 reversed[CHAOS_NAME_LEN];
};

/* A name of the rules by number; chaos_name_sets leads to the rules. */
#define CHAOS_MAX_NAMES 8192
#define CHAOS_NAME_OPEN 0	/* nobody knows yet; a connection has not said */
#define CHAOS_NAME_HALF 0xfffe	/* its client has begun to say: none of a rule until it is through */
#define CHAOS_NAME_OTHER 0xffff /* none that a rule asks for */

/* So many connections at a time may have sent half a ClientHello; of more than that, the oldest are known by address. */
#define CHAOS_MAX_HELLOS 128

/*
 * What an address was last asked for as, by one process (as programs connect right after they asked) or by anyone (pid 0).
 * An address of many names, as at a CDN, is known by process.
 */
struct chaos_learned_key {
	__u8 address[16];
	__u32 pid;
};
struct chaos_learned {
	__u64 until_ns;
	__u32 name; /* number, or CHAOS_NAME_OTHER */
	__u32 pad;
};

/*
 * Paths of rules are a tree that the kernel goes down from the root, part by part. A trie leads from (node, name) to what
 * is known there: an exact name ends with a NUL, the beginning of one (`model*`) does not, and the longest that fits holds.
 *
 *	/models/llama*    (root, "models\0") to node 2, then (2, "llama")
 *	/models/\**       (root, "models\0"), whose `below` has the rule
 */
#define CHAOS_PART_LEN 252 /* characters of a name and its NUL: of longer names, so many count */
#define CHAOS_MAX_PARTS 32 /* of a rule's path */
#define CHAOS_PART_ROOT 1  /* node */
struct chaos_part_key {
	__u32 prefix_len; /* bits of node and name */
	__u32 node;
	__u8 name[CHAOS_PART_LEN];
};
struct chaos_part {
	__u32 node;  /* from where it goes on; 0: no rule knows more of it */
	__u32 ends;  /* set of rules for the path that ends here */
	__u32 below; /* and for those that go on, whatever follows */
};

/* A path on its way from the file up and down again: names are kept as pointers, the topmost ones when there are too many. */
#define CHAOS_WALK_PARTS 64
struct chaos_walk {
	__u64 dentry[CHAOS_WALK_PARTS]; /* [0] is the file */
	__u32 count;
	__u32 whole;			/* 1: it leads up to a root */
	struct chaos_part_key key;
};
#define CHAOS_WALK_MKDIR CHAOS_OPERATION_COUNT
#define CHAOS_WALKS (CHAOS_OPERATION_COUNT + 1)

/*
 * What rules ask of HTTP requests, see bpf/http.h. Each pattern is a row of bits, one for each of its characters and one
 * behind them; all patterns together fill the bits of `CHAOS_HTTP_WORDS` words, and a byte of the request moves all of
 * them on at once, as a shift. The parts of a request (classes) begin and end at different places: each has the mask of
 * its own bits. The first bits belong to the reader itself.
 */
#define CHAOS_HTTP_WORDS 16
#define CHAOS_HTTP_CONDITIONS 32 /* different ones of a load */
#define CHAOS_HTTP_BODY_READ 16384 /* so much of a body is looked at */
enum chaos_http_class {
	CHAOS_HTTP_METHOD,
	CHAOS_HTTP_PATH,
	CHAOS_HTTP_HEADER, /* a whole line, its name in any case */
	CHAOS_HTTP_MODEL,  /* the value of "model" at the top of a body of JSON */
	CHAOS_HTTP_TEXT,   /* anywhere in the body */
	CHAOS_HTTP_CLASS_COUNT,
	CHAOS_HTTP_NONE = 7, /* stays empty */
};

/* Bits of word 0 that the reader asks for itself: so many characters of a name have come, and so on. */
#define CHAOS_HTTP_LENGTH_START 0  /* "content-length:", and then for the rest of the line: */
#define CHAOS_HTTP_LENGTH 15
#define CHAOS_HTTP_CHUNKED_START 16 /* "transfer-encoding:" and "chunked" at the end */
#define CHAOS_HTTP_CHUNKED 41
#define CHAOS_HTTP_HEAD_START 42 /* the method "HEAD" */
#define CHAOS_HTTP_HEAD 46
#define CHAOS_HTTP_FIRST_FREE 47

struct chaos_http_table {
	__u64 step[256][CHAOS_HTTP_WORDS];  /* bits that byte c moves on from */
	__u64 star[CHAOS_HTTP_WORDS];	    /* bits that stay, whatever comes, */
	__u64 blank[CHAOS_HTTP_WORDS];	    /* and those that stay over a space */
	__u64 start[CHAOS_HTTP_WORDS];	    /* first bit of each pattern */
	__u64 accept[CHAOS_HTTP_WORDS];	    /* last bit of each */
	__u64 class[8][CHAOS_HTTP_WORDS];   /* by enum chaos_http_class */
	__u64 indifferent[CHAOS_WORDS][CHAOS_HTTP_CONDITIONS]; /* rules that do not ask for this condition */
	__u64 rules[CHAOS_WORDS];	    /* rules that are about requests of HTTP */
	__u16 condition[CHAOS_HTTP_CONDITIONS]; /* the last bit of its pattern; 0: it has none, */
	__u64 size[CHAOS_HTTP_CONDITIONS];	/* but asks for a Content-Length of so much; else CHAOS_HTTP_NO_SIZE */
};
#define CHAOS_HTTP_NO_SIZE (1ULL << 62)

/* How an answer that is made up takes the place of the server's, byte for byte: see bpf/answer.bpf.c. */
enum chaos_form_kind {
	CHAOS_FORM_KEEP,  /* as long as the server's, and the connection is kept */
	CHAOS_FORM_CLOSE, /* at its end the connection is closed */
	CHAOS_FORM_DIGITS, /* the server's, with another status */
	CHAOS_FORM_NONE,  /* no answer at all */
	CHAOS_FORM_SHUT,  /* inside TLS: as long as what is read of the server's; the client closes the connection */
	CHAOS_FORM_KIND_COUNT,
};
#define CHAOS_FORM_TEXT 1024
#define CHAOS_FORM_FIRST 9 /* byte of the status in the first line */
#define CHAOS_FORM_DIGITS_LENGTH 8 /* room for Content-Length */
#define CHAOS_MAX_FORMS 9  /* of a rule */
struct chaos_form {
	__u16 length;	 /* bytes of text */
	__u16 head;	 /* so many of them are the head */
	__u16 length_at; /* where the digits of Content-Length go, after spaces; 0: nowhere */
	__u16 status;
	__u8 kind;	 /* enum chaos_form_kind */
	__u8 filler;	 /* what follows the text up to the end of the server's answer */
	__u8 brief;	 /* 1: less than a real server would say; 2: not even how long it is, the end of the stream tells */
	__u8 open_head;	 /* 1: what fills is a header's value, and the empty line comes behind it */
	__u8 pad[4];
	__u8 text[CHAOS_FORM_TEXT];
};

/* An answer, or how a stream ends, as it is written: byte by byte, wherever segments and reads begin. */
struct chaos_made {
	__u64 end;    /* bytes that come last, the first of them lowest, */
	__u32 ends;   /* from this number on; ~0: there are none */
	__u32 length; /* of the text; behind it comes filler */
	__u8 filler;
	__u8 pad[7];
	__u8 text[CHAOS_FORM_TEXT];
};

/* The answer to a request that is to be another one. Written where packets arrive, but for `asked` and what it comes with. */
enum chaos_answer_state {
	CHAOS_ANSWER_NONE,
	CHAOS_ANSWER_WAITS, /* for the server's first byte */
	CHAOS_ANSWER_STREAMS, /* its head has passed, what comes is read for the events in it */
	CHAOS_ANSWER_UNDER_WAY,
	CHAOS_ANSWER_LEFT, /* as it is */
	CHAOS_ANSWER_LAST_CHUNK, /* inside TLS: it is over but for the chunk that says so */
	CHAOS_ANSWER_IN_TLS, /* what becomes of it is decided inside the process */
	CHAOS_ANSWER_ENDED, /* before the server's end: nothing that comes is for anybody */
};
struct chaos_answer {
	__u32 from;    /* number of its first byte */
	__u32 end;     /* one beyond the last that is changed */
	__u32 length;  /* KEEP: Content-Length; in a stream: bytes of the text and what fills its place */
	__u32 acked;   /* what the client has said that it has got; written where packets leave */
	__u16 form;
	__u8 kind;     /* enum chaos_form_kind */
	__u8 state;
	__u8 head;     /* the request was HEAD: there is no body */
	__u8 last_chunk; /* behind all of it: the end of this chunk, and the last one */
	__u8 pad[2];
};

/* How the end of an answer's body is told. */
enum chaos_stream_coding {
	CHAOS_STREAM_TO_THE_END, /* by the connection's */
	CHAOS_STREAM_COUNTED,
	CHAOS_STREAM_CHUNKED,
};

/* Where the reader of a stream stands, see bpf/stream.h; and what was changed in it, to be changed again when it is sent again. */
#define CHAOS_STREAM_EDITS 8 /* the last ones */
struct chaos_stream_reader {
	__u32 next;	 /* number of the byte that it waits for */
	__u32 left;	 /* bytes of the chunk, or of the body, that are to come */
	__u32 events;	 /* that are over */
	__u32 line_from; /* number of the first byte of the line */
	__u32 edits;	 /* so many bytes were changed, */
	__u32 edit_at[CHAOS_STREAM_EDITS]; /* these, at number modulo their count */
	__u8 coding;	 /* enum chaos_stream_coding */
	__u8 phase;	 /* enum http_phase; CHAOS_STREAM_TO_THE_END and _COUNTED: HTTP_BODY, then HTTP_START */
	__u8 line;	 /* enum stream_line */
	__u8 words;	 /* that may be meant here: a set of enum stream_word, */
	__u8 at;	 /* of which so many bytes have come */
	__u8 has_data;	 /* a line of this event had data */
	__u8 ending;	 /* a line of this event says that the stream is at its end */
	__u8 json;	 /* it has lines of JSON */
	__u8 allowed;	 /* the rule's fault has been decided: changes are made */
	__u8 pad[3];
};

/* Why reading stops. */
enum chaos_stream_stop {
	STOP_NOT,
	STOP_ASK,   /* may the byte `change_at` be changed? */
	STOP_HERE,  /* the stream ends before the next byte */
	STOP_OTHER, /* it would, and is no stream of events */
};

/* The fault in question, and what came of it. */
struct chaos_stream_fault {
	__u32 fault;     /* enum chaos_fault */
	__u32 chunks;    /* see struct chaos_rule: stream_chunks */
	__u32 stop;      /* enum chaos_stream_stop */
	__u32 change_at; /* number of a byte that is to be another */
};

/* Where the reader of requests stands, see bpf/http.h. */
struct chaos_http_reader {
	__u64 state[CHAOS_HTTP_WORDS];
	__u64 found[CHAOS_HTTP_WORDS]; /* last bits of patterns that have been met in this request */
	__u64 left;	   /* bytes of the body or chunk that are to come; in its head: Content-Length */
	__u64 length;	   /* of the body; 0: none, or it is chunked and its length is not known */
	__u32 begun;	   /* requests */
	__u32 body_read;   /* bytes of the body that were looked at */
	__u8 phase;	   /* enum http_phase */
	__u8 at;	   /* in a part of known length */
	__u8 chunked;
	__u8 ready;	   /* all that rules ask of the request is known, */
	__u8 decided;	   /* and whoever asked has been told */
	__u8 pipelined;	   /* another began before */
	__u8 string;	   /* JSON: enum http_string, */
	__u8 escaped;	   /* behind a backslash of it, */
	__u8 key;	   /* 1: the next string is a key of the outermost object, */
	__u8 key_at;	   /* so many characters of "model" have come; 0xff: another key, */
	__u8 value;	   /* 1: what comes is the value of "model" */
	__u8 over;	   /* nothing of it is asked for any more */
	__u8 begin, feed, text, end; /* classes, of the present byte, */
	__u8 byte;	   /* which is this one */
	__u8 has_length;   /* a Content-Length has come */
	__u8 answer;	   /* 1: it is the head of an answer that is read */
	__u8 pad;
	__u32 depth;
};

/*
 * Patterns of `process` that hold a `*` are matched all at once, bit-parallel: each has CHAOS_PATTERN_STATES bits in
 * a lane of its own, four lanes to a word. See comm_patterns() in bpf/match.h.
 */
#define CHAOS_MAX_PATTERNS 64
#define CHAOS_PATTERN_STATES 16
#define CHAOS_PATTERN_WORDS (CHAOS_MAX_PATTERNS * CHAOS_PATTERN_STATES / 64)
struct chaos_patterns {
	__u64 step[256][CHAOS_PATTERN_WORDS]; /* states that byte c moves on from */
	__u64 star[CHAOS_PATTERN_WORDS];      /* states that stay, whatever comes */
	__u64 start[CHAOS_PATTERN_WORDS];     /* first state of each lane in use */
	__u64 accept[CHAOS_PATTERN_WORDS];    /* last state of each lane in use */
};

/* Who opened a socket, as far as is known. Zeroed fields are unknown. */
struct chaos_owner {
	__u64 cgroup_id; /* in the cgroup v2 hierarchy */
	__u64 netns;	 /* cookie of the socket's network namespace */
	__u32 pid;	 /* thread group, in the initial pid namespace */
	__u32 uid;
	char comm[CHAOS_COMM_LEN];
};

#define CHAOS_HTTP_GOVERNS 0xffff /* this is what was decided for a request, not for the connection */

/* What was decided for one connection. Belongs to a configuration: anything older is decided anew. */
struct chaos_verdict {
	__u32 generation;	  /* configuration that decided; 0: undecided */
	__u32 epoch;		  /* how many rules had finished by then */
	__u64 valid_until_ns;	  /* the schedule changes then; ~0: no rule can ever match */
	__u64 connection;	  /* number of this connection under `rule`, from 1 */
	__u64 hold_until_mono_ns; /* CLOCK_MONOTONIC, the clock of skb->tstamp */
	__u64 answer_delay_ns;	  /* the answer to the open request is to be held for so long, once it comes */
	__u64 pace_until_mono_ns; /* CHAOS_PACING: the line is taken until then */
	__u32 request;		  /* requests begun */
	__u16 rule;		  /* index, or CHAOS_NO_RULE */
	__u16 decided;		  /* set of faults decided once for the whole connection */
	__u16 inject;		  /* those of `decided` that are done */
	__u8 fresh;		  /* the connection was opened under `rule`: nothing has been said before */
	__u8 loss_ill;		  /* CHAOS_LOSS_BURST: within a burst */
	__u32 loss_packets;	  /* packets that a model of loss has looked at */
	__u64 last_packet_ns;	  /* half-open: 0: none seen yet */
	__u8 upgrade;		  /* payload packets in which a TLS handshake may still begin, after one that asked for it */
	__u8 cut;		  /* break-after, see bpf/break.bpf.h: what is known of chaos_sock.cut_from and cut_at */
	__u16 http;		  /* 0, or first rule before `rule` that is about requests + 1, or CHAOS_HTTP_GOVERNS */
};

/* What is kept with every socket (sk_storage). An accepted socket begins as a copy of its listener's. */
struct chaos_sock {
	struct bpf_spin_lock lock; /* `decided` and `inject` change under it */
	__u8 known;		   /* owner is filled in */
	__u8 side;		   /* enum chaos_side of the owner */
	__u8 spared;		   /* of the session that ran chaosbpf: not hit without include-ssh */
	__u8 listener;		   /* copied from a listener, not looked at since */
	struct chaos_verdict verdict;
	struct chaos_owner owner;
	__u64 cut_begun_ns;	   /* break-after: when the response (or request) began, */
	__u32 cut_from;		   /* its first byte, */
	__u32 cut_at;		   /* the first byte that is withheld, */
	__u32 cut_high;		   /* one beyond the last byte that was let by */
	__u32 cut_chunks;	   /* chunks that have ended since; cut_line: where in a line the last byte was */
	__u64 cookie;		   /* of the listener that this was copied from; of a UDP socket, its own */

	/* TCP, written by packets that leave only. */
	__u32 burst_seq;	   /* first byte of the open request */
	__u32 high_seq;		   /* one beyond the highest byte sent */
	__u32 answers_seen;	   /* `answers` when the open request began */
	__u32 packet;		   /* numbers packets for the dice of `per: packet` */
	__u8 burst_open;
	__u8 burst_held;	   /* the open request is being delayed */
	__u8 sent;		   /* high_seq is valid */
	__u8 stream;		   /* enum chaos_stream */

	/* TCP, written by packets that arrive only. */
	__u32 answered_ack;	   /* acknowledgement carried by the last payload that arrived */
	__u32 answers;		   /* payload packets that arrived */

	__u8 waits;		   /* packets lost while their device was being prepared */
	__u8 after_ccs;		   /* TLS: a ChangeCipherSpec left in a segment of its own */
	__u16 name;		   /* that the client asked for, once its first payload has left: see CHAOS_NAME_OPEN */
	__u8 in_hello;		   /* its ClientHello began in an earlier segment than the one that settles its name */
	__u8 cut_line;
	__u8 arrive_synced;	   /* arrive_record is valid */
	__u8 waited;		   /* something that arrived went through an ifb */
	__u32 cut_acked;	   /* what the receiver has said that it has got */

	/* TCP, packets that arrive and wait in the ifb; outlives the verdict, as they do. */
	__u64 arrive_until_mono_ns; /* when the last of them goes on; 0: none ever came */
	__u32 arrive_next;	   /* one beyond the highest byte that has come without a gap */
	__u32 arrive_record;	   /* TLS: where the next record begins */

	__u32 arrived;		   /* numbers packets for the dice of damage on arrival: `packet` stands still while they wait */
	__u8 length_alone;	   /* DNS over TCP: a message's length came in a segment of its own: 1 leaving, 2 arriving */
	__u8 begins;		   /* enum chaos_begins, for the payload that is leaving */
	__u8 answer;		   /* 1: what arrives is looked at by chaos_answer */
	__u8 pad;
};

/*
 * Where the reader of HTTP/2 stands in what a server sends, see bpf/http2.h; and where a stream was reset, so that it is once
 * more when that is sent again.
 */
#define CHAOS_HTTP2_BEGUN 16
#define CHAOS_HTTP2_EDITS 32 /* the last ones */
#define CHAOS_HTTP2_TEXT 22 /* bytes that are changed each time */
struct chaos_http2_edit {
	__u32 at;     /* number of the frame's first byte */
	__u32 stream;
	__u32 length; /* of its payload; 0: this entry is empty */
	__u32 code;   /* the error */
};
enum chaos_http2_state {
	CHAOS_HTTP2_UNKNOWN, /* joined where a segment begins and ends with frames */
	CHAOS_HTTP2_FOLLOWED,
	CHAOS_HTTP2_FOREIGN, /* it is something else */
};
struct chaos_http2_reader {
	__u32 next;   /* number of the byte that it waits for */
	__u32 left;   /* bytes of the frame that are to come */
	__u32 begins; /* answers that have begun, */
	__u32 edits;  /* and streams that were reset, so far */
	__u32 begun[CHAOS_HTTP2_BEGUN]; /* streams whose answer has begun and has no message yet; 0: none */
	struct chaos_http2_edit edit[CHAOS_HTTP2_EDITS];
	__u8 head[9]; /* of a frame, of which `have` bytes came in the segment before */
	__u8 have;
	__u8 state;   /* enum chaos_http2_state */
	__u8 pad;
};

/* Does a request begin here? Where requests are read (bpf/http.bpf.c), that is when all is known that rules ask for. */
enum chaos_begins {
	CHAOS_BEGINS_UNREAD, /* they are not: the first payload after an answer begins one */
	CHAOS_BEGINS_NOT,
	CHAOS_BEGINS_HERE, /* until that is taken note of: a packet may be lost, and sent again */
};

/*
 * Inside TLS, see bpf/tls.bpf.c. A connection is known by where the library has it in the memory of a process; what it has
 * written is found again where its packets leave by eight bytes of each record, encrypted as they are.
 */
#define CHAOS_MAX_TLS 4096 /* connections; of more than that, those that have been idle for longest are forgotten */
#define CHAOS_PRINT_AT 13 /* of a record: behind its head and what TLS 1.2 puts there for all to count */
struct chaos_tls_key {
	__u64 ssl;
	__u64 started; /* the process, since numbers of processes come again */
	__u32 pid;
	__u32 pad;
};
enum chaos_print_flag {
	CHAOS_PRINT_KNOWN = 1, /* all that rules ask of a request is known with this record */
	CHAOS_PRINT_HEAD = 2, /* it was HEAD */
	CHAOS_PRINT_UNREAD = 4, /* these are no requests of HTTP/1, or one began before the last was over */
	CHAOS_PRINT_HTTP2 = 8,	/* they are of HTTP/2 */
	CHAOS_PRINT_OTHER = 16, /* no request is known to have begun on the connection so far */
};
struct chaos_print {
	struct chaos_tls_key tls;
	__u64 serial; /* of struct chaos_tls */
	__u32 flags;
	__u32 conditions; /* that the request fulfils */
	__u32 begun;	  /* its number in the connection */
	__u32 pad;
};

/* What is kept with a socket whose requests are read. */
struct chaos_http {
	struct chaos_http_reader reader;
	struct chaos_verdict plain;   /* what holds for the connection while a rule for a request governs */
	struct chaos_verdict request; /* what was chosen for the present request */
	struct chaos_answer answer;
	struct chaos_stream_reader stream;
	__u32 next_seq;	   /* of the byte that the reader waits for */
	__u32 asked_ack;   /* acknowledgement that the first segment of the present request carried */
	__u32 at, left;	   /* the rest of the segment that is being read */
	__u8 synced;	   /* next_seq is valid */
	__u8 given_up;	   /* what this connection carries cannot be read */
	__u8 in_tls;	   /* a record has left that is known from inside its process: `print` is the last */
	__u8 after_ccs;	   /* a ChangeCipherSpec has left: what is behind it belongs to the handshake, too */
	__u8 unseen;	   /* records have left that are not, or that are no requests: it was counted */
	__u8 pad[3];
	__u8 piece[8];
	struct chaos_print print;
};

/* What the payload of a connection looks like: decides what begins a request. */
enum chaos_stream {
	CHAOS_STREAM_UNKNOWN,
	CHAOS_STREAM_PLAIN,
	CHAOS_STREAM_TLS,
	CHAOS_STREAM_HTTP2,
};

/* Connections that are reset inside their process, at a time: of more than that, the oldest go on. */
#define CHAOS_MAX_INSIDE 16384

/* Several connections behind one socket: an unconnected UDP socket, or what knocks at a listener. */
struct chaos_flow_key {
	__u64 cookie; /* of the socket */
	__u8 peer[16];
	__u32 peer_port;
	__u32 pad;
};

/* A question of DNS whose answer is to be changed on its way: the asker's end, and the number that both carry. */
struct chaos_question_key {
	__u8 local[16];
	__u16 local_port;
	__u16 id; /* as on the wire */
	__u32 protocol;
};
#define CHAOS_MAX_QUESTIONS 1024
#define CHAOS_MAX_RESOLVERS 32
struct chaos_question {
	__u64 until_ns;
	__u32 rcode;
	__u32 pad;
};

/* Rules that have ended before their time: max-hits reached, or unloaded. */
struct chaos_finished {
	struct bpf_spin_lock lock;
	__u32 pad;
	struct chaos_vector rules;
};

/* The rules for a process name with patterns in play; being filled in until `ready`. */
struct chaos_comm_rules {
	struct chaos_vector rules;
	__u32 ready;
	__u32 pad;
};

/* Quantiles of the spread of a delay in units of jitter / 4096, for the middles of 4096 equal shares. */
#define CHAOS_SPREAD_STEPS 4096
struct chaos_spread {
	__s32 quantile[CHAOS_SPREAD_STEPS];
};
#define CHAOS_NO_RULE 0xffff

/* One thing that was done. Fixed size: the log on disk is an array of these. */
struct chaos_event {
	__u64 time_ns;
	__u64 cgroup_id;
	union {
		__u64 delay_ns; /* CHAOS_DELAY, CHAOS_CALL: how long the request, packet or thread is held */
		__u64 bytes;	/* CHAOS_GPU_OOM: how much was asked for */
	};
	__u64 connection;    /* its number under the rule; of a call, that of the thread */
	__u32 generation;
	__u32 rule;
	__u32 pid;
	__u32 uid;
	__u32 request;	     /* of a call, its number in the thread */
	__s32 error;	     /* CHAOS_REFUSE, CHAOS_ERRNO, CHAOS_CALL, CHAOS_RESET inside: positive errno, or 0 */
	union {
		struct {
			__u8 peer[16]; /* the other end */
			__u8 local[16];
		};
		char function[CHAOS_FUNCTION_LEN]; /* CHAOS_GPU_OOM, CHAOS_CALL; of CHAOS_ERRNO: the file's name */
	};
	__u16 peer_port;
	__u16 local_port;
	__u8 fault;	     /* enum chaos_fault */
	__u8 protocol;	     /* enum chaos_protocol */
	__u8 side;	     /* enum chaos_side; of CHAOS_ERRNO: enum chaos_operation */
	__u8 kind;	     /* enum chaos_event_kind */
	char comm[CHAOS_COMM_LEN];
};

enum chaos_event_kind {
	CHAOS_EVENT_FAULT,
	CHAOS_EVENT_NEW_NETNS,	/* a matching process opened a socket in a namespace that is not prepared */
	CHAOS_EVENT_NEW_DEVICE, /* a fault wanted a device that is not prepared; `error` holds its ifindex */
};

/* An answer that is to be another one: ordered where the request leaves, made where the answer is read. */
struct chaos_order {
	__u32 rule;
	__u16 form;
	__u8 state; /* enum chaos_answer_state */
	__u8 head;  /* the request was HEAD */
	__u32 all;  /* bytes that are to be written, */
	__u32 done; /* of which so many have been read */
	__u8 chunked; /* behind them comes the last chunk */
	__u8 open;    /* counted in chaos_orders */
	__u8 pad[6];
	struct chaos_event event; /* what will be told of it */
};
#define CHAOS_TLS_WRITTEN 64 /* bytes together */
struct chaos_tls {
	struct chaos_http_reader reader; /* of requests, as they are written */
	struct chaos_http_reader head;	 /* of an answer */
	struct chaos_order order;
	__u64 serial; /* when it was met: the library uses the key again for others */
	__u32 ahead;  /* bytes that were looked at, and that the library has not taken yet */
	__u32 read;   /* bytes of the head, */
	__u32 come;   /* and of the answer, in this call */
	__u32 status;
	__u8 synced;  /* the reader of requests knows where it is */
	__u8 unread;  /* nothing here can be read, */
	__u8 http2;   /* because it is HTTP/2 */
	__u8 pad;
	__u32 begun; /* number of the first byte that this call has brought, */
	__u64 bytes; /* and where it is */
	struct chaos_stream_reader stream;
	struct chaos_stream_fault asked;
	__u8 first[16];
	__u8 piece[8];
	__u8 now[CHAOS_TLS_WRITTEN];
	struct chaos_made made;
};

/* A call under way to a library for TLS. */
struct chaos_tls_frame {
	struct chaos_tls_key tls;
	__u64 sp;    /* at its entry */
	__u64 bytes; /* pointers that it was given */
	__u64 out;
	__u64 at;    /* of the bytes that are read or written next, */
	__u32 left;  /* so many; what is written never goes beyond what the call was given, whatever other threads do */
	__u32 place; /* number of the next byte to be written, counted from where `made` begins */
	__u32 size;
	__u32 point;
	__u8 role;
	__u8 printed; /* its first record has been seen */
	__u8 pad[6];
};

/* Devices that are prepared, so that a hook knows what it may rely on. */
struct chaos_device_key {
	__u64 netns;   /* cookie */
	__u32 ifindex;
	__u32 pad;
};
enum chaos_device_flag {
	CHAOS_DEVICE_EGRESS = 1,  /* our tc program runs when a packet leaves */
	CHAOS_DEVICE_INGRESS = 2, /* our tc program runs when a packet arrives */
	CHAOS_DEVICE_FQ = 4,	  /* its queue honours skb->tstamp */
	CHAOS_DEVICE_SEEN = 8,	  /* looked at: what it has no flag for, it will not get */
	CHAOS_DEVICE_IFB = 16,	  /* what arrives can wait in an ifb of ours, with an fq that honours skb->tstamp */
	CHAOS_DEVICE_ANSWER = 32, /* our tc program for answers of HTTP runs when a packet arrives, before the other one */
};
struct chaos_device {
	__u32 flags; /* a set of enum chaos_device_flag */
	__u32 ifb;   /* with CHAOS_DEVICE_IFB: its index */
};

/*
 * The one word that arms: programs of a configuration do nothing unless `generation` is theirs. A load attaches its
 * own set of programs beside the old one and then writes this word; `stop` writes 0 before it does anything else.
 */
struct chaos_control {
	__u64 generation;
};

/* Fixed at load, in the programs' read-only data. */
struct chaos_knobs {
	__u32 generation;
	__u32 rules;	    /* how many */
	__u32 words;	    /* of their vectors that hold a rule: what the verifier has to follow */
	__u32 search_steps; /* look-ups that find an interval of the schedule for sure */
	__u32 patterns;	    /* 1: some `process` holds a `*` */
	__u32 faults;	    /* all faults of all rules, a set */
	__u32 flows;	    /* 1: some rule names UDP or a server: sockets with many peers are looked at */
	__u32 arriving_ports; /* 1: every rule that tc looks at arriving packets for names ports: others are let by */
	__u32 losses;	    /* all models of loss of all rules, a set of 1 << enum chaos_loss */
	__u32 follows;      /* 1: rules' cgroups may come later: a connection that no rule names may be named then */
	__u32 chunks;	    /* 1: some rule counts the chunks of streams */
	__u32 splits;	    /* 1: some rule has `tokens` of what leaves, */
	__u32 splits_arriving; /* or of what arrives, where copies can be sent to an ifb */
	__u32 paces_arriving; /* 1: some rule slows or holds what arrives */
	__u32 cuts_leaving; /* 1: some rule ends early what leaves */
	__u32 datagrams_arriving; /* 1: some rule damages datagrams that arrive */
	__u32 ifb_redirect; /* 1: bpf_redirect() reaches an ifb; 0: a second filter redirects there, see chaos_tc_pick */
	__u32 set_tstamp;   /* 1: bpf_skb_set_tstamp exists; 0: skb->tstamp is written, and cleared at the socket */
	__u32 ramps;	    /* 1: some rule has a value that moves */
	__u32 inside;	    /* 1: some rule resets connections inside their process */
	__u32 set_retval;   /* 1: bpf_set_retval exists; 0: connections are refused by a rewritten destination */
	__u32 leader_comm;  /* 1: the name of the thread group's leader can be read; 0: that of the thread */
	__u32 wildcard[CHAOS_DIM_COUNT];    /* sets */
	__u32 kind[CHAOS_KIND_COUNT];	    /* sets, by protocol * CHAOS_SIDE_COUNT + side */
	__u32 everything;		    /* the set of all rules */
	__u32 nothing;			    /* the empty set */
	__u32 named;			    /* the set of rules that ask for host names */
	__u32 names;			    /* 1: there are such */
	__u32 resolver;			    /* the set of rules that count the questions of the machine's resolvers, too */
	__u32 resolvers;		    /* 1: there are such */
	__u32 operations[CHAOS_OPERATION_COUNT]; /* sets: the rules for an operation */
	__u32 paths;			    /* 1: some rule names the path of a file */
	__u32 pathless;			    /* the set of rules that do not */
	__u32 below_root;		    /* the set of rules for every file there is */
	__u32 assisted;			    /* the set of rules that the assist serves */
	__u32 caller_comm;		    /* 1: some rule for calls names a process */
	__u32 http;			    /* 1: some rule is about requests of HTTP, */
	__u32 requests;			    /* the set of those rules, */
	__u32 http_sets;		    /* first of the sets that programs fill in for requests, */
	__u32 http_words;		    /* and so many words of their patterns are in use */
	__u32 http_wants;		    /* set of enum http_wants: what of a body is asked for */
	__u32 answers;			    /* 1: some rule gives another answer than the server, */
	__u32 streams;			    /* 1: or changes the events in one */
	__u32 grpc;			    /* 1: some rule resets streams of HTTP/2 */
	__u32 tls;			    /* 1: requests inside TLS are read, too */
	__u32 never;			    /* 0: what depends on it is in the program and never run, see own_stack() */
	__u32 registers;		    /* 1: a program on a function may write registers; 0: the assist does it */
	__u32 assist;			    /* 1: there is a rule that the assist serves */
	__u32 write_user;		    /* 1: it may write the process's memory */
	__u32 ceiling;			    /* 1: some rule has `above`: what processes hold is counted */
	__u32 cookies;			    /* 1: a probe can tell its number; 0: this is the copy of struct chaos_place_key */
	__u32 copy;
};

_Static_assert(sizeof(struct chaos_vector) == 128, "chaos_vector");
_Static_assert(sizeof(struct chaos_rule) == 248, "chaos_rule");
_Static_assert(sizeof(struct chaos_event) == 112, "chaos_event");
_Static_assert(sizeof(struct chaos_owner) == 40, "chaos_owner");
_Static_assert(sizeof(struct chaos_interval) == 136, "chaos_interval");
_Static_assert(sizeof(struct chaos_return) == 80, "chaos_return");
_Static_assert(sizeof(struct chaos_verdict) == 80, "chaos_verdict");
_Static_assert(CHAOS_BREAK_AFTER < 16, "chaos_verdict.decided"); /* answers are decided elsewhere */
_Static_assert(sizeof(struct chaos_sock) == 224, "chaos_sock");
_Static_assert(sizeof(struct chaos_http_reader) == 304, "chaos_http_reader");
_Static_assert(sizeof(struct chaos_http) == 632, "chaos_http");
_Static_assert(sizeof(struct chaos_tls) % 8 == 0, "chaos_tls");
_Static_assert(sizeof(struct chaos_http2_reader) == 604, "chaos_http2_reader");
_Static_assert(sizeof(struct chaos_flow_key) == 32, "chaos_flow_key");
_Static_assert(sizeof(struct chaos_name_key) == 260, "chaos_name_key");
_Static_assert(sizeof(struct chaos_learned_key) == 20, "chaos_learned_key");
_Static_assert(sizeof(struct chaos_learned) == 16, "chaos_learned");
_Static_assert(sizeof(struct chaos_part_key) == 260, "chaos_part_key");
_Static_assert(sizeof(struct chaos_part) == 12, "chaos_part");

#endif
