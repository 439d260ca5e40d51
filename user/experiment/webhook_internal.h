/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of webhooks share. */
#ifndef USER_WEBHOOK_INTERNAL_H
#define USER_WEBHOOK_INTERNAL_H

#include "user/experiment/webhook.h"
#include "user/rules/rules.h"

#define WEBHOOK_MAX      16
#define WEBHOOK_ATTEMPTS 4

enum webhook_shape {
	WEBHOOK_JSON,
	WEBHOOK_SLACK,
	WEBHOOK_JIRA,
	WEBHOOK_SHAPE_COUNT,
};
extern const char *const webhook_shape_names[WEBHOOK_SHAPE_COUNT + 1];

enum webhook_authorization {
	WEBHOOK_BEARER,
	WEBHOOK_BASIC, /* the token is "user:password" */
	WEBHOOK_AUTHORIZATION_COUNT,
};

/* Where a secret is, and then the secret itself. */
struct secret {
	struct text file, variable;
	struct mark mark; /* of the key; line 0: not written */
	char *value;
};

struct webhook {
	struct mark mark;
	enum webhook_shape shape;
	struct secret url, token;
	enum webhook_authorization authorization;
	struct text project, issue_type;
	struct text environments[WEBHOOK_MAX]; /* none: all */
	size_t environments_count;
};

struct webhooks {
	struct webhook list[WEBHOOK_MAX];
	size_t count;
};

/* Reads the file, and the secrets that it names. -ENOENT without a word in *err: there is no such file. */
int webhook_file_load(const char *file, struct webhooks **webhooks, struct error *err);
/* The same from memory. */
int webhook_file_parse(const char *file, const char *source, size_t len, struct webhooks **webhooks, struct error *err);
void webhooks_free(struct webhooks *webhooks);

/* Is it to be told of this run? */
bool webhook_wants(const struct webhook *webhook, const struct findings_run *run);

/* What is posted; to be freed. NULL: no memory. */
char *webhook_body(const struct webhook *webhook, const struct findings_run *run);

/* Seconds before each further attempt; tests make them short. */
extern double webhook_pauses_s[WEBHOOK_ATTEMPTS - 1];

/* Posts until it is taken or there is no hope; says in a few words how it went, without a secret. */
void webhook_tell(const struct webhook *webhook, const char *body, char *outcome, size_t size);

#endif
