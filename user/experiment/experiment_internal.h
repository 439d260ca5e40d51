/* SPDX-License-Identifier: GPL-2.0-only */
/* From the tree to user/experiment/experiment.h: what the files user/experiment*.c share, for nobody else. */
#ifndef USER_EXPERIMENT_INTERNAL_H
#define USER_EXPERIMENT_INTERNAL_H

#include "user/experiment/experiment.h"
#include "user/rules/rules_parse.h"

/* The parser of the rule language reads the values; it is the first member, so that its functions' argument leads here. */
struct reading {
	struct parser p;
	struct experiment *experiment;
	const struct experiment_options *options;
	const struct node *root;
	char folder[4096]; /* of the experiment file, with a slash at the end, or empty */
};

static inline struct reading *reading_of(struct parser *p)
{
	return (struct reading *)p;
}

/* user/experiment/experiment_value.c: parse functions for tables; the target is a char *, a uint64_t, a name's array */

int key_string(struct parser *p, const struct node *node, void *target);
int key_phase(struct parser *p, const struct node *node, void *target);   /* a duration that may be 0 */
int key_timeout(struct parser *p, const struct node *node, void *target); /* one that may not */
int key_word(struct parser *p, const struct node *node, void *target);    /* a name as of rules */
int key_command(struct parser *p, const struct node *node, void *target); /* char **: a list, no shell */
void strings_free(char **strings, size_t count);
void command_free(char **command);

/* The path as seen from here, of a file that is named in the experiment; to be freed. */
char *experiment_path(const struct reading *r, const char *path);

/* user/experiment/experiment_request.c: one table of keys for whatever sends a request, one for what is expected of the answer */

#define REQUEST_KEYS(type, member)                                                                                    \
	{ "method", key_method, offsetof(type, member) }, { "headers", key_headers, offsetof(type, member) },         \
		{ "body", key_body, offsetof(type, member) }, { "body-file", key_body_file, offsetof(type, member) }, \
		{ "characters", key_characters, offsetof(type, member) },                                             \
		{ "insecure", key_bool, offsetof(type, member) + offsetof(struct request, insecure) },                \
	{                                                                                                             \
		"fresh", key_bool, offsetof(type, member) + offsetof(struct request, fresh)                           \
	}

int key_method(struct parser *p, const struct node *node, void *request);
int key_headers(struct parser *p, const struct node *node, void *request);
int key_body(struct parser *p, const struct node *node, void *request);
int key_body_file(struct parser *p, const struct node *node, void *request);
int key_characters(struct parser *p, const struct node *node, void *request);
int key_url(struct parser *p, const struct node *node, void *url); /* char * */

/* Once all keys are read: generates the body, sets the method. `node` is the map. */
int request_complete(struct parser *p, const struct node *node, struct request *request);
void request_free(struct request *request);

int key_expect_answer(struct parser *p, const struct node *node, void *expect); /* of HTTP */
int key_expect_exit(struct parser *p, const struct node *node, void *expect);   /* of a command */
int key_expect_value(struct parser *p, const struct node *node, void *expect);  /* of Prometheus */
void expect_free(struct expect *expect);

/* user/experiment/experiment_condition.c */

int conditions_parse(struct parser *p, const struct node *map, const char *section, const char *duration_key,
		     uint64_t *duration_ns, struct conditions *conditions);

/* "<= 800ms" to its parts; `measure` says which unit. */
int comparison_parse(struct parser *p, const struct node *node, enum measure measure, enum comparison *comparison,
		     double *threshold);

/* user/experiment/experiment_probe.c */

int probes_make(struct parser *p); /* room for all that there may be */
int probes_parse(struct parser *p, const struct node *list);
int probe_name_free(struct parser *p, const struct node *at, const char *name);
void experiment_probe_free(struct experiment_probe *probe);
/* user/experiment/experiment_watch.c */

int watch_parse(struct parser *p, const struct node *node, void *experiment);

/* The probe for what a condition measures in the kernel by that name; SIZE_MAX: it is no such name. */
int watch_probe(struct parser *p, const struct node *at, const char *name, size_t *index);

/* user/experiment/experiment_step.c */

int steps_parse(struct parser *p, const struct node *list);
void step_free(struct step *step);

#endif
