/* SPDX-License-Identifier: GPL-2.0-only */
/* What is known of dependencies, as `deps test` tells it and reports show it. */
#ifndef USER_DEPENDENCY_RECORD_H
#define USER_DEPENDENCY_RECORD_H

#include "user/base/output.h"
#include "user/findings/findings.h"

/* The members that are objects, one for each way to break it: also what the database keeps. */
void trials_json(struct json *json, const struct dependency_record *dependency);

/* An array of that name. */
void dependencies_json(struct json *json, const char *key, const struct dependency_record *list, size_t count);

/* To be freed with table_free(). */
struct table *dependencies_table(const struct dependency_record *list, size_t count);

/* "fails: 60 %", "slow: 2.1 s", "same" */
void trial_text(const struct trial_record *trial, char *buf, size_t size);

#endif
