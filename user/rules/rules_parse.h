/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * From the tree to the structs of user/rules/rules.h: what the files user/rules*.c share, for nobody else.
 *
 * A section of the language is a table of keys; map_parse() walks a map in file order and hands each value to the
 * function of its key. Functions return 0 or a negative errno with parser->err set.
 */
#ifndef USER_RULES_PARSE_H
#define USER_RULES_PARSE_H

#include "user/rules/rules.h"
#include "user/rules/rules_yaml.h"

struct presets;

struct parser {
	struct rules *rules; /* being filled */
	const struct rules_options *options;
	struct error *err;
	struct rule defaults; /* duration, percent, per and seed; duration 0: none */
	char shown[4][96];    /* see show() */
	unsigned int shown_next;
	struct presets *presets; /* read when the first is asked for, see endpoint_preset() */
	bool presets_only;       /* this is no rules file: presets, or an experiment */
};

struct key {
	const char *name;
	/* NULL: a word of the language that is not built yet. */
	int (*parse)(struct parser *p, const struct node *node, void *target);
	size_t offset; /* of what `parse` fills in, from the section's own struct */
};

#define fail(p, mark, ...) rules_error_at((p)->rules, mark, (p)->err, EXIT_USAGE, __VA_ARGS__)

/* The sections; the tables end with a NULL name. */
extern const struct key rule_keys[];
extern const struct key match_keys[];
extern const struct key fault_keys[];

/* user/rules/rules_value.c: single values */

int out_of_memory(struct parser *p);

/* The text, cut short for a message; lives until the fourth call after this one. */
const char *show(struct parser *p, const char *text);

/* Fails unless node is of that kind; `expected` completes "expected ...". */
int value_kind(struct parser *p, const struct node *node, enum node_kind kind, const char *expected);
int value_text(struct parser *p, const struct node *node, const char *expected, const char **text);
int value_number(struct parser *p, const struct node *node, uint64_t min, uint64_t max, uint64_t *number);
int value_duration(struct parser *p, const struct node *node, uint64_t max_ns, uint64_t *ns);
/* `expected` completes "expected ...", and `too_much` says of more than `max` what is wrong with it. */
int value_size(struct parser *p, const struct node *node, const char *expected, uint64_t max, const char *too_much,
	       uint64_t *bytes);
int value_percent(struct parser *p, const struct node *node, uint32_t *ppm);
int value_true(struct parser *p, const struct node *node); /* `true` and nothing else */
int value_choice(struct parser *p, const struct node *node, const char *const *names, unsigned int *index);

/* user/rules/rules_ramp.c: a value that may move, "200ms..8s over 60s"; ramp->over_ns is 0 when it does not */
typedef int (*value_fn)(struct parser *p, const struct node *node, uint64_t *value);
int value_ramped(struct parser *p, const struct node *node, value_fn read, uint64_t *value, struct ramp *ramp);
int percent_ramped(struct parser *p, const struct node *node, uint32_t *ppm, struct ramp *ramp);

/*
 * Reads each entry of a list, or the one value that stands where a list could, until one is wrong. An empty list is an error.
 * How many there are at most, to make room for.
 */
typedef int (*entry_fn)(struct parser *p, const struct node *node, void *target);
int value_each(struct parser *p, const struct node *node, entry_fn read, void *target);
size_t value_count(const struct node *node);

/* A map whose values go where `keys` says, below `target`. */
int map_parse(struct parser *p, const struct node *map, const char *expected, const struct key *keys, void *target);

/* Unknown keys only; for sections that are read in an order of their own. */
int map_check_keys(struct parser *p, const struct node *map, const char *expected, const struct key *keys);

/* Parse functions for tables; the target is a bool, a struct text. */
int key_bool(struct parser *p, const struct node *node, void *target);
int key_text(struct parser *p, const struct node *node, void *target);
int key_later(struct parser *p, const struct node *node, void *target); /* read elsewhere */

/* [A-Za-z0-9][A-Za-z0-9._-]*, RULES_MAX_NAME at most; `name` has room for it. */
int name_parse(struct parser *p, struct mark mark, const char *text, char *name);

/* user/rules/rules.c */

struct rules *rules_new(const char *file);

/* Rules from a tree: a map with version and rules, perhaps endpoints and defaults. Places are those of `file`. */
int rules_from_tree(const char *file, const struct node *root, const struct rules_options *options,
		    struct rules **rules, struct error *err);
int version_check(struct parser *p, const struct node *root); /* `version` of a file */

/* user/rules/presets.c: fills in `presets` from a file whose bytes are there */

int presets_parse_source(struct rules *file, struct presets *presets, struct error *err);
void presets_free_list(struct presets *presets); /* not the files, not itself */

/* user/rules/rules_preset.c */

/* The presets, read at the first call; `at` is what asks for them. */
int presets_get(struct parser *p, struct mark at, struct presets **presets);
int preset_unknown(struct parser *p, const struct node *node, const struct presets *presets);

/*
 * Fills in what is not written: hosts, ports and protocols of a preset. `map` may hold values for its placeholders, and
 * is NULL when the preset is named by `node` alone.
 */
int endpoint_preset(struct parser *p, const struct node *map, const struct node *node, struct endpoint *endpoint);

/* user/rules/rules_endpoint.c */

int endpoints_parse(struct parser *p, const struct node *map);
int key_hosts(struct parser *p, const struct node *node, void *endpoint);
int key_ports(struct parser *p, const struct node *node, void *endpoint);
int endpoint_find(struct parser *p, const struct node *node, const struct endpoint **found);

/* Makes `endpoint` hold what both hold; `node` is the `match` that names `named`. */
int endpoint_narrow(struct parser *p, const struct node *node, struct endpoint *endpoint, const struct endpoint *named);
void endpoint_free(struct endpoint *endpoint);

/* user/rules/rules_name.c */

/* Could it be meant as a name, right or wrong? */
bool is_host_name(const char *text);
int host_name_parse(struct parser *p, const struct node *node, struct host_name *name);
int names_copy(struct endpoint *to, const struct endpoint *from); /* to an endpoint that has none */
int names_narrow(struct endpoint *endpoint, const struct endpoint *named);
void names_free(struct host_name *names, size_t count);

/* user/rules/rules_match.c, user/rules/rules_fault.c */

int key_match(struct parser *p, const struct node *node, void *match);
int key_protocol(struct parser *p, const struct node *node, void *protocols);
void match_free(struct match *match);
int key_fault(struct parser *p, const struct node *node, void *fault);

/* user/rules/rules_http.c */

int key_http(struct parser *p, const struct node *node, void *http_match);
int http_check(struct parser *p, const struct node *node, struct rule *rule); /* as fault_check() */
void http_free(struct http_match *http);

/* user/rules/rules_answer.c */

int key_http_status(struct parser *p, const struct node *node, void *fault);
int key_http_body(struct parser *p, const struct node *node, void *fault);
int key_as(struct parser *p, const struct node *node, void *fault);
int key_retry_after(struct parser *p, const struct node *node, void *fault);
int key_hang(struct parser *p, const struct node *node, void *fault);
int answer_check(struct parser *p, const struct node *node, struct fault *fault);

/* user/rules/rules_fault.c */

int key_chunks(struct parser *p, const struct node *node, void *uint32); /* events of a stream */

/* user/rules/rules_stream.c */

int key_error_event(struct parser *p, const struct node *node, void *fault);
int key_drop_done(struct parser *p, const struct node *node, void *fault);
int key_garble(struct parser *p, const struct node *node, void *fault);
int stream_break(struct parser *p, const struct node *node, struct fault *fault); /* of break-after's map */

/* user/rules/rules_grpc.c */

int key_grpc(struct parser *p, const struct node *node, void *fault);
int grpc_check(struct parser *p, const struct node *node, struct rule *rule); /* as fault_check() */

/* user/rules/rules_call.c */

int key_gpu_oom(struct parser *p, const struct node *node, void *fault);
int key_call(struct parser *p, const struct node *node, void *fault);
int key_errno(struct parser *p, const struct node *node, void *fault);
int call_check(struct parser *p, const struct node *node, struct rule *rule); /* as fault_check() */
void fault_free(struct fault *fault);

/* user/rules/rules_time.c */

int key_max_rate(struct parser *p, const struct node *node, void *rule);
int value_per_time(struct parser *p, const struct node *node, uint64_t *count, uint64_t *window_ns); /* "5/s" */
int key_between(struct parser *p, const struct node *node, void *window);
int key_days(struct parser *p, const struct node *node, void *window);

/* Checks that need match and fault together; `node` is the rule's map. */
int fault_check(struct parser *p, const struct node *node, struct rule *rule);

#endif
