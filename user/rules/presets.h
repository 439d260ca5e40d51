/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Presets: what is known of well-known endpoints (hosted model APIs, model servers, vector databases, caches), read from
 * YAML that is installed with the program, rules/presets/endpoints.yaml, and from the user's own, which comes first.
 *
 * A preset becomes part of a rule as if its hosts and ports had been written there; the rest of it is for people.
 */
#ifndef USER_PRESETS_H
#define USER_PRESETS_H

#include "user/rules/rules.h"

#define PRESETS_OWN "/etc/chaosbpf/endpoints.yaml"

enum preset_kind {
	PRESET_MODEL_API,
	PRESET_MODEL_SERVER,
	PRESET_GATEWAY,
	PRESET_VECTOR_DATABASE,
	PRESET_DATABASE,
	PRESET_CACHE,
	PRESET_KIND_COUNT,
};

enum preset_tls {
	PRESET_TLS_ALWAYS,
	PRESET_TLS_NEVER,
	PRESET_TLS_OPTIONAL,
	PRESET_TLS_COUNT,
};

/* In the order of their enums, ending with NULL. */
extern const char *const preset_kind_names[]; /* model-api, model-server, gateway, vector-database, database, cache */
extern const char *const preset_tls_names[];  /* always, never, optional */

/* What may stand in braces in a host's pattern, and beside `preset` in a rules file: region, instance. */
#define PRESET_PLACEHOLDERS 2
extern const char *const preset_placeholders[];

struct text_list {
	struct text *entries;
	size_t count;
};

struct preset {
	char name[RULES_MAX_NAME + 1];
	struct mark mark;
	const char *file; /* where it stands; not owned */
	struct text title;
	struct text_list aliases; /* other names */
	enum preset_kind kind;
	struct text_list hosts;     /* patterns; none: it is wherever somebody runs it */
	struct endpoint ports;      /* `ports` of it */
	struct text_list protocols; /* http, grpc, redis: what is spoken, for people */
	unsigned int transports;    /* set of 1 << enum chaos_protocol */
	enum preset_tls tls;
	struct text stream;       /* how a streamed answer ends; text NULL: it streams nothing */
	struct text_list clients; /* what the usual clients do when it fails, and how patient they are */
	struct text note;
	bool verified;
};

struct presets {
	struct rules *files[2]; /* names and sources only; NULL: not there */
	struct preset *list;    /* those of the user's file first */
	size_t count;
};

/*
 * Reads the user's file (`own`; NULL: PRESETS_OWN if there is one) and the installed one. A file that is not named by
 * the caller must belong to root or the caller and be writable by nobody else. To be freed with presets_free().
 */
int presets_load(const char *own, struct presets **presets, struct error *err);

/* One file from memory, for tests; `file` is used in messages. */
int presets_parse(const char *file, const char *source, size_t len, struct presets **presets, struct error *err);

void presets_free(struct presets *presets);

/* By name or alias, or NULL. */
const struct preset *presets_find(const struct presets *presets, const char *name);

/* The name nearest to `word`, or NULL. */
const char *presets_nearest(const struct presets *presets, const char *word);

/* Has a host of this preset that placeholder? */
bool preset_takes(const struct preset *preset, size_t placeholder);

/* Does this preset need something to be written for `placeholder` before its hosts are known? */
bool preset_needs(const struct preset *preset, size_t placeholder);

/*
 * The hosts of a preset with what was given for each placeholder (a list, or none): a pattern that begins with a
 * placeholder for which nothing was given becomes "*.rest", and as soon as anything was given patterns without it are
 * left out: a region is that region only. Returns a list that ends with NULL, each of it and itself to be freed; or
 * NULL and in *missing the placeholder that must be given (PRESET_PLACEHOLDERS: memory ran out).
 */
char **preset_hosts(const struct preset *preset, const struct text_list given[PRESET_PLACEHOLDERS], size_t *missing);

#endif
