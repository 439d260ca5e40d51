/* SPDX-License-Identifier: GPL-2.0-only */
/* Many runs at a glance: the list, the sums, the pass rate that CI asks for. */
#ifndef USER_HISTORY_H
#define USER_HISTORY_H

#include "user/base/output.h"
#include "user/findings/findings.h"

struct history_sums {
	size_t runs, verdicts[VERDICT_COUNT];
	size_t open; /* weaknesses that nobody has resolved */
	int64_t newest_open;
	enum verdict last; /* of the newest run */
};

/* Of the runs of that experiment (NULL: of all). `runs` are the newest first. */
struct history_sums history_sum(const struct findings_run *runs, size_t count, const char *experiment);

/* How many of those that tested something held, in %; NAN if none did. */
double history_pass_rate(const struct history_sums *sums);

/* To be freed with table_free(). */
struct table *history_table(const struct findings_run *runs, size_t count);
struct table *history_summary(const struct findings_run *runs, size_t count);

#endif
