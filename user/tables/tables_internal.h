/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files user/tables*.c share, for nobody else. */
#ifndef USER_TABLES_INTERNAL_H
#define USER_TABLES_INTERNAL_H

#include "user/base/vector.h"
#include "user/tables/tables.h"

/* Number of the set with these rules, made when it is new. 0 or -ENOMEM. */
int tables_set_number(struct tables *t, const struct chaos_vector *v, uint32_t *number);

/* Is this the name of a process that asks for names in the place of others, and does a rule count that? */
bool tables_is_resolver(const struct tables *t, const char *comm);

int tables_make_paths(struct tables *t, const struct rules *rules);
/* The forms of a rule's answer. 0, -ENOMEM or -E2BIG, which does not happen. */
int tables_make_answer(struct tables *t, struct chaos_rule *r, const struct fault *f);

int tables_make_http(struct tables *t, const struct rules *rules, struct error *err);
int tables_make_names(struct tables *t, const struct rules *rules, struct error *err);

/* The set that a connection's name leads to: the longest pattern that fits; without a name, what its address was. */
uint32_t tables_name_set(const struct tables *t, const struct probe *probe);

#endif
