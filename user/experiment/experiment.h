/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An experiment file, parsed: what is promised in numbers, how it is measured, what is broken, and when it is given up.
 *
 * The language is rules/experiments/README.md. Nothing here measures or breaks anything; rules are parsed to the end, as
 * user/rules/rules.h has them, and nothing of them is resolved.
 */
#ifndef USER_EXPERIMENT_H
#define USER_EXPERIMENT_H

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "user/base/error.h"
#include "user/findings/findings.h"
#include "user/rules/rules.h"

#define EXPERIMENT_MAX_PROBES     32
#define EXPERIMENT_MAX_WATCHES    16 /* the service and endpoints that are measured in the kernel */
#define EXPERIMENT_MAX_CONDITIONS 32 /* of one section */
#define EXPERIMENT_MAX_STEPS      64
#define EXPERIMENT_MAX_ARGUMENTS  64 /* of one command; headers of one request */
#define EXPERIMENT_MAX_IN_FLIGHT  64 /* attempts of one probe, requests of one load */
#define EXPERIMENT_MAX_CHARACTERS (16 * 1024 * 1024)
#define EXPERIMENT_MAX_BODY       (1024 * 1024) /* of a file, and of what is kept of an answer */
#define EXPERIMENT_MAX_PHASE_NS   (24ULL * 3600 * 1000000000ULL)
#define EXPERIMENT_MIN_EVERY_NS   (50ULL * 1000000)
#define EXPERIMENT_MAX_RATE       1000 /* requests a second of one load */

/* ---- what is promised ---- */

enum measure {
	MEASURE_SUCCESS, /* attempts that met what is expected, of all, in % */
	MEASURE_P50,     /* how long those that did took, in ms */
	MEASURE_P90,
	MEASURE_P95,
	MEASURE_P99,
	MEASURE_MAX,
	MEASURE_RATE,     /* attempts that met what is expected, a second */
	MEASURE_ATTEMPTS, /* all of them */
	MEASURE_VALUE,    /* what Prometheus said, on average */
	MEASURE_COUNT,
};
extern const char *const measure_names[]; /* success, p50, ... */
extern const char *const measure_units[]; /* "%", "ms", "/s", "" */

enum comparison {
	AT_LEAST,
	AT_MOST,
	MORE_THAN,
	LESS_THAN,
	EQUAL_TO,
	COMPARISON_COUNT,
};
extern const char *const comparison_names[]; /* >=, <=, >, <, == */

/* `ask.success: ">= 99%"` */
struct condition {
	struct mark mark;
	size_t probe; /* index into experiment->probes */
	enum measure measure;
	enum comparison comparison;
	double threshold; /* in the measure's unit */
};

struct conditions {
	struct mark mark;
	struct condition *list;
	size_t count;
};

/* ---- how it is measured ---- */

struct request {
	char *url;
	char method[16];
	char **headers; /* "Name: value", as they are sent */
	size_t headers_count;
	char *body; /* NULL: none; complete, with what was generated */
	size_t body_len;
	uint64_t characters; /* that were generated for it */
	bool insecure;       /* whoever answers is believed to be who it says */
	bool fresh;          /* a connection of its own for each */
};

struct status_range {
	unsigned int first, last;
};

struct json_expect {
	char *path, *value; /* "choices.0.message.content" */
	bool plain;         /* written without quotes: may be a number, true, false, null */
};

struct expect {
	struct status_range *status;
	size_t status_count; /* 0: 200 to 299 */
	char **headers;      /* "name: value" */
	size_t headers_count;
	char *contains;
	char *matches;
	regex_t regex; /* of `matches` */
	struct json_expect *json;
	size_t json_count;
	unsigned int exit; /* of a command */
	bool has_value;    /* of Prometheus */
	enum comparison comparison;
	double value;
};

enum probe_kind {
	PROBE_HTTP,
	PROBE_TCP,
	PROBE_EXEC,
	PROBE_PROMETHEUS,
	PROBE_LOAD,  /* requests of a `load` step with a name */
	PROBE_WATCH, /* nobody asks: the service, or an endpoint that it calls, is measured in the kernel */
};

struct experiment_probe {
	char name[RULES_MAX_NAME + 1];
	struct mark mark;
	enum probe_kind kind;
	uint64_t every_ns, timeout_ns;
	unsigned int in_flight; /* at most so many attempts at once */
	struct request request; /* PROBE_HTTP, PROBE_PROMETHEUS */
	char *host, *port;      /* PROBE_TCP */
	char **command;         /* PROBE_EXEC: ends with NULL */
	size_t watch;           /* PROBE_WATCH: index into experiment->watch->rules */
	struct expect expect;
};

/* ---- what is broken ---- */

enum step_kind {
	STEP_RULES,
	STEP_HTTP,
	STEP_EXEC,
	STEP_LOAD,
	STEP_WAIT,
	STEP_COUNT,
};
extern const char *const step_names[]; /* rules, http, exec, load, wait */

struct step {
	enum step_kind kind;
	struct mark mark;
	char name[RULES_MAX_NAME + 1]; /* or empty */
	char title[256];               /* in words: "rules ../silent-qdrant.yaml" */
	struct rules *rules;           /* STEP_RULES */
	uint64_t for_ns;               /* STEP_RULES: 0: until the roll back; STEP_LOAD: of one round; STEP_WAIT */
	uint64_t timeout_ns;           /* STEP_HTTP, STEP_EXEC, of each request of STEP_LOAD */
	bool background;               /* STEP_EXEC, STEP_LOAD: the next step begins at once */
	struct request request;        /* STEP_HTTP, STEP_LOAD */
	struct expect expect;
	bool must;            /* `expect` was written: another answer is an error */
	char **command;       /* STEP_EXEC */
	double rate;          /* STEP_LOAD: requests a second, */
	uint64_t ramp_ns;     /* reached after so long, */
	uint64_t rounds;      /* so many times, */
	uint64_t pause_ns;    /* with a pause between them, */
	unsigned int at_once; /* and at most so many requests in flight */
	size_t probe;         /* STEP_LOAD: whose samples its requests are; SIZE_MAX: nobody's */
};

/* ---- the whole ---- */

struct experiment {
	char *file; /* as it was named */
	char *text; /* of the file */
	char name[RULES_MAX_NAME + 1];
	struct mark mark; /* of the name */
	char *title;      /* or NULL */
	char environment[RULES_MAX_NAME + 1];
	struct mark environment_mark;
	/*
	 * NULL: no `service` is named. Else the match of the first rule is whose promises they are, and those of the others are the
	 * endpoints that it calls and conditions ask for; nothing else of them counts.
	 */
	struct rules *watch;
	struct experiment_probe *probes;
	size_t probes_count;
	struct conditions steady, during, abort;
	uint64_t within_ns;          /* of `during`: how long degrading may take */
	uint64_t recovery_within_ns; /* how long recovering may take */
	uint64_t recovery_for_ns;    /* and how long the steady state must hold to be believed */
	uint64_t abort_for_ns;
	uint64_t baseline_ns, observe_ns, cooldown_ns;
	struct step *steps;
	size_t steps_count;
};

struct experiment_options {
	const char *environment; /* --environment: in place of the file's; or NULL */
	const char *endpoints;   /* as in struct rules_options */
};

/*
 * Reads `path` ("-": standard input) and the files that it names, relative to its own place. On success *experiment is the
 * caller's, to be given to experiment_free(); on failure it is NULL and err->text begins with file:line:column.
 */
int experiment_load(const char *path, const struct experiment_options *options, struct experiment **experiment,
		    struct error *err);

/* The same from memory; `file` is used in messages, and files that it names are relative to its place. */
int experiment_parse(const char *file, const char *source, size_t len, const struct experiment_options *options,
		     struct experiment **experiment, struct error *err);

void experiment_free(struct experiment *experiment);

/* How long the method takes at most, from its first step to the end of its last; of one step. */
uint64_t experiment_method_ns(const struct experiment *experiment);
uint64_t step_longest_ns(const struct step *step);

/* From the start to the latest verdict. */
uint64_t experiment_longest_ns(const struct experiment *experiment);

/* Does it count as breaking something? The first of these steps is where the time to degrade begins. */
bool step_injects(const struct experiment *experiment, const struct step *step);

/* Sets err to "file:line:column: ..."; returns -EINVAL. */
int experiment_error_at(const struct experiment *experiment, struct mark mark, struct error *err, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* "ask.success >= 99 %" */
void condition_text(const struct experiment *experiment, const struct condition *condition, char *buf, size_t size);

/* "99.2 %", "812 ms", "41 s", "-" for NAN */
void value_words(char *buf, size_t size, double value, const char *unit);

#endif
