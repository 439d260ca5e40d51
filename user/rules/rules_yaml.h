/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A YAML document as a small tree, bounded in size and depth, each node with its place in the file. What the rule
 * language does without (anchors, tags, merge keys, several documents) is refused here, with the reason.
 */
#ifndef USER_RULES_YAML_H
#define USER_RULES_YAML_H

#include "user/rules/rules.h"

#define RULES_MAX_NODES 100000
#define RULES_MAX_KEYS  256 /* of one map */

enum node_kind {
	NODE_TEXT,
	NODE_LIST,
	NODE_MAP,
};

struct node {
	enum node_kind kind;
	struct mark mark;
	char *key; /* owned; of a pair of a map, or NULL */
	struct mark key_mark;
	const char *label;     /* not owned: the nearest key above, for messages; "the file" at the top */
	char *text;            /* NODE_TEXT: valid UTF-8 without control characters */
	bool plain;            /* NODE_TEXT: written without quotes */
	struct node *children; /* NODE_LIST: the entries; NODE_MAP: the values, each with its key */
	size_t count;
};

/* Reads the file or standard input ("-") into rules->source; knows the size limit. */
int source_read(struct rules *rules, const char *path, struct error *err);

/* The same from a file that is open. */
int source_read_fd(struct rules *rules, int fd, struct error *err);

/* Refuses what is not UTF-8, control characters, and tabs where YAML does not allow them. */
int source_check(const struct rules *rules, struct error *err);

/* A copy of `len` bytes, which may hold NUL, with a NUL behind them; or NULL. */
char *bytes_copy(const char *bytes, size_t len);

/* No control characters, nothing but UTF-8: fit to be shown on a terminal. */
bool text_is_clean(const char *text, size_t len);

/* Turns rules->source into a tree. On success *root is the caller's, to be given to node_free(). */
int yaml_read(const struct rules *rules, struct node **root, struct error *err);

void node_free(struct node *root);

/* The tree as one document that reads as the same tree; to be freed. NULL: out of memory. */
char *yaml_write(const struct node *root);

/* The value of a key of a map, or NULL. */
const struct node *node_get(const struct node *map, const char *key);

#endif
