/* SPDX-License-Identifier: GPL-2.0-only */
/* What was measured, for people (a table), for programs (JSON) and for Prometheus (its text format). */
#ifndef USER_OBSERVE_SHOW_H
#define USER_OBSERVE_SHOW_H

#include "user/base/output.h"
#include "user/observe/observe.h"

/* What is shown: counted in `seconds`, grouped. `observe` tells the paths of cgroups; NULL: by their numbers. */
struct observe_view {
	struct observe *observe;
	enum observe_by_what by;
	double seconds;
	const struct observe_lines *lines;
};

/* To be freed with table_free(). */
struct table *observe_show_table(const struct observe_view *view);

void observe_show_json(struct json *json, const struct observe_view *view);

/* Everything since the start; `view->seconds` does not matter. Errors stay in the stream. */
void observe_show_prometheus(FILE *out, const struct observe_view *view);

/* The cgroup of a line, as it is shown; "" when lines are not told apart by it. */
const char *observe_show_cgroup(const struct observe_view *view, const struct observe_key *key, char *buf, size_t size);

/* "(rest)" for what found no row of its own. */
const char *observe_show_process(const struct observe_key *key);

#endif
