// SPDX-License-Identifier: GPL-2.0-only
#include "user/findings/history.h"

#include <math.h>
#include <string.h>

#include "user/findings/report.h"
#include "user/findings/report_internal.h"

static const char *const colors[VERDICT_COUNT] = { "cyan", "green", "red", "red", "yellow", "yellow", "yellow" };

struct history_sums history_sum(const struct findings_run *runs, size_t count, const char *experiment)
{
	struct history_sums sums = { 0 };

	for (size_t i = 0; i < count; i++) {
		if (experiment && strcmp(runs[i].experiment, experiment) != 0)
			continue;
		if (!sums.runs++)
			sums.last = runs[i].verdict;
		sums.verdicts[runs[i].verdict]++;
		if (runs[i].open && !sums.open++)
			sums.newest_open = runs[i].id;
	}
	return sums;
}

double history_pass_rate(const struct history_sums *sums)
{
	size_t held = sums->verdicts[VERDICT_HELD];
	size_t tested = held + sums->verdicts[VERDICT_WEAKNESS] + sums->verdicts[VERDICT_ABORTED];

	return tested ? 100.0 * (double)held / (double)tested : NAN;
}

/* ---- the list ---- */

enum {
	RUN,
	STARTED,
	STARTED_AT,
	EXPERIMENT,
	ENVIRONMENT,
	OPERATOR,
	VERDICT,
	TOOK,
	OPEN,
	RESOLVED,
	LIST_COLUMNS,
};

static const struct column list_columns[LIST_COLUMNS] = {
	[RUN] = { "RUN", "id", CELL_COUNT, false },
	[STARTED] = { "STARTED", NULL, CELL_TEXT, false },
	[STARTED_AT] = { NULL, "started_at", CELL_COUNT, false },
	[EXPERIMENT] = { "EXPERIMENT", "experiment", CELL_TEXT, false },
	[ENVIRONMENT] = { "ENVIRONMENT", "environment", CELL_TEXT, false },
	[OPERATOR] = { NULL, "operator", CELL_TEXT, false },
	[VERDICT] = { "VERDICT", "verdict", CELL_TEXT, false },
	[TOOK] = { "TOOK", "length_s", CELL_SECONDS, false },
	[OPEN] = { "OPEN", "open", CELL_BOOL, false },
	[RESOLVED] = { NULL, "resolved_note", CELL_TEXT, false },
};

static void text_if(struct table *table, size_t column, const char *text)
{
	if (text && text[0])
		table_text(table, column, text);
}

struct table *history_table(const struct findings_run *runs, size_t count)
{
	struct table *table = table_new(list_columns, LIST_COLUMNS);
	char started[64];

	for (size_t i = 0; i < count; i++) {
		report_clock(started, sizeof(started), runs[i].started_s);
		table_row(table);
		table_count(table, RUN, (uint64_t)runs[i].id);
		table_text(table, STARTED, started);
		table_count(table, STARTED_AT, (uint64_t)runs[i].started_s);
		table_text(table, EXPERIMENT, runs[i].experiment);
		text_if(table, ENVIRONMENT, runs[i].environment);
		text_if(table, OPERATOR, runs[i].operator);
		table_text(table, VERDICT, verdict_names[runs[i].verdict]);
		table_color(table, VERDICT, colors[runs[i].verdict]);
		table_seconds(table, TOOK, runs[i].length_ms / 1e3);
		table_bool(table, OPEN, runs[i].open);
		text_if(table, RESOLVED, runs[i].resolved_note);
	}
	return table;
}

/* ---- the sums ---- */

enum {
	NAME,
	RUNS,
	HELD,
	WEAKNESS,
	ABORTED,
	SKIPPED,
	OTHERS,
	PASS_RATE,
	OPEN_COUNT,
	LAST,
	SUMMARY_COLUMNS,
};

static const struct column summary_columns[SUMMARY_COLUMNS] = {
	[NAME] = { "EXPERIMENT", "experiment", CELL_TEXT, false },
	[RUNS] = { "RUNS", "runs", CELL_COUNT, false },
	[HELD] = { "HELD", "held", CELL_COUNT, false },
	[WEAKNESS] = { "WEAKNESS", "weakness", CELL_COUNT, false },
	[ABORTED] = { "ABORTED", "aborted", CELL_COUNT, false },
	[SKIPPED] = { "SKIPPED", "skipped", CELL_COUNT, false },
	[OTHERS] = { "OTHERS", "others", CELL_COUNT, false }, /* errors, interrupted, running */
	[PASS_RATE] = { "PASS RATE", "pass_rate", CELL_TEXT, false },
	[OPEN_COUNT] = { "OPEN", "open", CELL_COUNT, false },
	[LAST] = { "LAST", "last", CELL_TEXT, false },
};

static void add_sums(struct table *table, const char *name, const struct history_sums *sums)
{
	double rate = history_pass_rate(sums);
	char text[64];

	table_row(table);
	table_text(table, NAME, name);
	table_count(table, RUNS, sums->runs);
	table_count(table, HELD, sums->verdicts[VERDICT_HELD]);
	table_count(table, WEAKNESS, sums->verdicts[VERDICT_WEAKNESS]);
	table_count(table, ABORTED, sums->verdicts[VERDICT_ABORTED]);
	table_count(table, SKIPPED, sums->verdicts[VERDICT_SKIPPED]);
	table_count(table, OTHERS,
		    sums->verdicts[VERDICT_ERROR] + sums->verdicts[VERDICT_INTERRUPTED] +
			    sums->verdicts[VERDICT_RUNNING]);
	report_value(text, sizeof(text), rate, "%");
	if (!isnan(rate))
		table_text(table, PASS_RATE, text);
	table_count(table, OPEN_COUNT, sums->open);
	table_text(table, LAST, verdict_names[sums->last]);
	table_color(table, LAST, colors[sums->last]);
}

static bool is_first(const struct findings_run *runs, size_t index)
{
	for (size_t i = 0; i < index; i++) {
		if (strcmp(runs[i].experiment, runs[index].experiment) == 0)
			return false;
	}
	return true;
}

struct table *history_summary(const struct findings_run *runs, size_t count)
{
	struct table *table = table_new(summary_columns, SUMMARY_COLUMNS);

	for (size_t i = 0; i < count; i++) {
		struct history_sums sums;

		if (!is_first(runs, i))
			continue;
		sums = history_sum(runs, count, runs[i].experiment);
		add_sums(table, runs[i].experiment, &sums);
	}
	return table;
}
