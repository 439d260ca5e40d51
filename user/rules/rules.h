/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A rules file, parsed: what the user wrote, checked, and nothing resolved yet.
 *
 * Knows YAML and the language (rules/README.md), nothing of BPF, processes or devices: names of cgroups and users are
 * kept as written, user/target/target.c looks them up. Every element remembers where it stands in the file, so that later
 * stages can point at it as well.
 */
#ifndef USER_RULES_H
#define USER_RULES_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/chaos.h"
#include "user/base/error.h"

#define RULES_MAX_FILE_SIZE (1024 * 1024)
#define RULES_MAX_DEPTH 16
#define RULES_MAX_ENDPOINTS 256
#define RULES_MAX_HOST_NAME 253
#define RULES_MAX_LIST 1024 /* entries of one list: hosts, ports, ... */
#define RULES_MAX_TEXT 511  /* bytes of one value or key */
#define RULES_MAX_DURATION_NS (7ULL * 24 * 3600 * 1000000000ULL)
#define RULES_MAX_NAME 63   /* of a rule or an endpoint: [A-Za-z0-9][A-Za-z0-9._-]* */

/* Position in the file, counted from 1; 0 when the thing is a default. */
struct mark {
	unsigned int line, column;
};

/* An address or network; IPv4 in mapped form, prefix_len counts all 128 bits (an IPv4 host has 128). */
struct host {
	struct in6_addr address;
	unsigned int prefix_len;
	struct mark mark;
};

/*
 * A host by name: lower case, without the dot at the end. With `suffix` it stands for every name below it: `*.ml.internal`.
 * The addresses are filled in by names_resolve().
 */
struct host_name {
	char *name;
	bool suffix;
	bool one_of_many; /* a preset's: need not have an address as long as another host of the endpoint has */
	struct in6_addr *addresses; /* IPv4 in mapped form */
	size_t addresses_count;
	struct mark mark;
};

struct port_range {
	uint16_t first, last;
	struct mark mark;
};

/* A string of the file with its place, or text == NULL. Owned by the rules. */
struct text {
	char *text;
	struct mark mark;
};

/* What an endpoint is, whether named under `endpoints:` or written into a rule. */
struct endpoint {
	char name[RULES_MAX_NAME + 1]; /* empty when written into a rule */
	struct mark mark;
	struct host *hosts;
	size_t hosts_count;
	struct host_name *names;       /* of hosts, too; no hosts and no names: any address */
	size_t names_count;
	struct port_range *ports;
	size_t ports_count;	       /* 0: any port */
	char preset[RULES_MAX_NAME + 1]; /* what filled in the rest, or empty */
	unsigned int protocols;	       /* of the preset: set of 1 << enum chaos_protocol; 0: any */
};

/* Sets of 1 << enum chaos_protocol. */
#define RULES_ANY_PROTOCOL ((1 << CHAOS_TCP) | (1 << CHAOS_UDP))

/* Which requests of HTTP; patterns may hold `*`. */
#define RULES_MAX_PATTERN 255 /* characters */
#define RULES_MAX_METHOD 16
#define RULES_MAX_BODY (1ULL << 40) /* bytes */
struct http_header {
	char *name;		   /* lower case */
	struct mark mark;
	struct text value;
};

struct http_match {
	struct mark mark;
	bool given;
	struct text path, method, model;
	struct text body_contains; /* as it is */
	uint64_t min_size;	   /* bytes of the body; 0: any */
	struct mark min_size_mark;
	struct http_header *headers;
	size_t headers_count;
};

struct match {
	struct mark mark;
	struct endpoint endpoint;  /* a copy of the named one, narrowed by hosts and ports of the rule */
	struct text cgroup;	   /* as written, without a leading slash */
	struct text container;     /* name, id or beginning of an id */
	struct text pod;           /* namespace/name, or UID */
	struct text unit;          /* of systemd, `.service` may be left out */
	struct text process;	   /* comm, may hold `*` */
	struct text user;	   /* name or number */
	uint32_t pid;		   /* 0: any */
	struct mark pid_mark;
	unsigned int protocols;	   /* set of 1 << enum chaos_protocol */
	enum chaos_side side;	   /* CHAOS_SIDE_CLIENT unless written */
	unsigned int directions;   /* enum chaos_direction, a set */
	struct http_match http;	   /* `http`: decided for each request */
	bool everything;	   /* `everything: true` */
	bool include_ssh;
	bool resolver;		   /* `dns`: questions that the machine's resolver sends count, too */
};

/* A value that moves in a straight line to `to` from the moment at which the rule is first in force. */
struct ramp {
	uint64_t to;
	uint64_t over_ns; /* 0: it stays */
};

/* What the body of an answer is to be. */
enum body {
	BODY_JSON, /* an error */
	BODY_EMPTY,
	BODY_GARBAGE,
	BODY_TRUNCATED, /* JSON that stops in the middle, of its right length for HTTP */
	BODY_HTML,
	BODY_COUNT,
};

/* Whose errors. */
enum provider {
	PROVIDER_ANY,
	PROVIDER_OPENAI,
	PROVIDER_OPENAI_QUOTA,
	PROVIDER_AZURE,
	PROVIDER_ANTHROPIC,
	PROVIDER_GEMINI,
	PROVIDER_BEDROCK,
	PROVIDER_LLAMA,
	PROVIDER_VLLM,
	PROVIDER_TGI,
	PROVIDER_COUNT,
};

/* Ended by NULL: of enum body from BODY_EMPTY on, and of enum provider. */
extern const char *const body_names[], *const provider_names[];

/* What an event of a stream says that ends it. */
enum stream_error {
	STREAM_ERROR_OVERLOADED, /* as Anthropic does */
	STREAM_ERROR_SERVER,	 /* as OpenAI does, and what speaks like it */
	STREAM_ERROR_RATE_LIMIT,
	STREAM_ERROR_COUNT,
};
extern const char *const stream_error_names[]; /* ended by NULL */

struct fault {
	struct mark mark;
	unsigned int faults;	   /* set of 1 << enum chaos_fault */
	uint32_t drop_ppm;	   /* 1,000,000 for `drop: true` */
	struct ramp drop_ramp;
	bool drop_all;
	enum chaos_loss loss;
	uint32_t drop_every;	   /* CHAOS_LOSS_EVERY */
	uint32_t burst_length;	   /* CHAOS_LOSS_BURST: packets on average; drop_ppm is the whole loss */
	uint64_t delay_ns, jitter_ns;
	struct ramp delay_ramp;
	enum chaos_distribution distribution;
	uint32_t duplicate_ppm, corrupt_ppm, reorder_ppm; /* chances of each packet */
	uint64_t reorder_ns;	   /* how long a packet is held back */
	uint64_t idle_ns;	   /* half-open, */
	enum chaos_break_how idle_how; /* stall unless written, or reset */
	uint64_t rate_bits;	   /* a second */
	uint64_t token_ns;	   /* from one event to the next */
	enum chaos_dns dns;
	uint64_t break_bytes, break_ns; /* break-after: one of these two, */
	uint32_t break_chunks;		/* or this one */
	enum chaos_break_how break_how;
	uint8_t grpc;		   /* error code of HTTP/2, see grpc_codes */
	uint32_t stream_chunks;	   /* CHAOS_STREAMS: after so many events of a stream; garble: every so manieth */
	enum stream_error stream_error;
	uint32_t status;	   /* of HTTP; 0: the server's, if there is a body, 200 */
	enum body body;
	enum provider as;
	bool retry_after;
	uint64_t retry_after_ns;
	uint64_t oom_min_bytes, oom_above_bytes; /* gpu-oom; 0: no limit */
	uint32_t oom_failures;	   /* gpu-oom: calls that fail in a row */
	struct text call_library, call_function; /* call: name or path of a file; symbol or demangled name */
	int64_t call_returns;
	bool call_runs;		   /* nothing is said of its result: it runs */
	uint64_t call_delay_ns;	   /* how long the thread is held before */
	enum chaos_operation operation; /* errno, */
	struct text path;	   /* of its file, may end with a star, */
	char *real_path;	   /* without symbolic links, by paths_resolve(); NULL: the same */
	int error;		   /* and what it fails with, positive; call: what errno becomes; 0: it stays */
	bool reset_inside;	   /* only the process hears of it */
	int refuse;		   /* positive errno: ECONNREFUSED, ETIMEDOUT, ENETUNREACH, EPERM (denied) */
};

/* `between`: minutes of the local day; first > last runs over midnight. Whole day: 0 and 1440. */
struct window {
	struct mark mark;
	unsigned int first_minute, last_minute;
	unsigned int days;	   /* set of 1 << tm_wday of the day on which the window begins; 0x7f: all */
	bool limited;		   /* between or days was written */
};

struct rule {
	char name[RULES_MAX_NAME + 1];
	struct mark mark;
	struct match match;
	struct fault fault;
	uint32_t percent_ppm;
	struct ramp percent_ramp;
	enum chaos_per per;
	uint64_t max_hits;	   /* 0: no limit */
	uint32_t rate_count;	   /* 0: no limit */
	uint64_t rate_window_ns;   /* a second, a minute or an hour */
	uint64_t start_after_ns;
	uint64_t duration_ns;	   /* never 0 after rules_load(): counts from the start of the rule */
	struct window window;
	uint64_t seed;
	bool seed_given;
};

struct rules {
	char *file;		   /* name for messages */
	char *source;		   /* the text itself, kept so that `status` can tell what was loaded */
	size_t source_len;
	struct endpoint *endpoints;
	size_t endpoints_count;
	struct rule *rules;
	size_t count;		   /* 1 to CHAOS_MAX_RULES */
};

/* From the command line. */
struct rules_options {
	uint64_t duration_ns;	   /* --duration: replaces every rule's own; 0: not given */
	uint64_t default_ns;	   /* of rules that name no duration; 0: that is an error */
	const char *endpoints;	   /* --endpoints: the user's presets, in place of PRESETS_OWN; NULL: not given */
	bool again;		   /* it was good when it was loaded: presets are not looked up, their hosts stay empty */
};

/*
 * Reads `path` ("-": standard input). On success *rules is the caller's, to be given to rules_free(); on failure it is
 * NULL and err->text begins with file:line:column.
 */
int rules_load(const char *path, const struct rules_options *options, struct rules **rules, struct error *err);

/* The same from memory; `file` is used in messages. */
int rules_parse(const char *file, const char *source, size_t len, const struct rules_options *options,
		struct rules **rules, struct error *err);

/*
 * Several files as one set: all are in force together. Endpoints of the same name must say the same, names of rules must
 * differ. The set's own source is a document that says the same.
 */
int rules_load_together(const char *const *paths, size_t count, const struct rules_options *options, struct rules **rules,
			struct error *err);

void rules_free(struct rules *rules);

/* The longest that a packet can be held by this fault: jitter, the way of a ramp and being held back included. */
uint64_t fault_longest_delay(const struct fault *fault);

/* Does a `delay` of such a rule let requests go at once and hold their answers, where these arrive at the client? */
bool delay_holds_answers(const struct match *match);

/* "8s", "500ms", "1m30s", "2h" to nanoseconds; -EINVAL for anything else, -ERANGE when above 365 days. */
int parse_duration(const char *text, uint64_t *ns);

/* "30", "30%", "0.5%" to parts per million; -EINVAL, or -ERANGE outside 0 to 100. */
int parse_percent(const char *text, uint32_t *ppm);

/* "4096", "4KiB", "1MB" to bytes; -EINVAL for anything else, -ERANGE when it does not fit. */
int parse_size(const char *text, uint64_t *bytes);

/* "1mbit", "500kbit", "64kbps" (bytes) to bits a second; -EINVAL, or -ERANGE when it does not fit. */
int parse_rate(const char *text, uint64_t *bits);

/* "0", "443" to a number: decimal digits without a leading zero; -EINVAL for anything else, -ERANGE above 2^64 - 1. */
int parse_number(const char *text, uint64_t *number);

/* Sets err to "file:line:column: ..." for something that a later stage found wrong. Returns -EINVAL. */
int rules_error_at(const struct rules *rules, struct mark mark, struct error *err, enum exit_code exit,
		   const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* The known word nearest to `word` if near enough to be a slip of the finger, or NULL. `words` ends with NULL. */
const char *nearest_word(const char *word, const char *const *words);

#endif
