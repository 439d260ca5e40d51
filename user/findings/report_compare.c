// SPDX-License-Identifier: GPL-2.0-only
/* Two runs side by side: what was promised, what probes measured, how long degrading and recovering took. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/output.h"
#include "user/findings/report_internal.h"

enum {
	WHAT,
	LEFT,
	RIGHT,
	CHANGE,
	COLUMNS,
};

struct comparison {
	const struct findings_run *a, *b;
	struct table *table;
	struct column columns[COLUMNS];
	char left_title[32], right_title[32];
};

static void add(struct comparison *comparison, const char *what, const char *left, const char *right,
		const char *change)
{
	table_row(comparison->table);
	table_text(comparison->table, WHAT, what);
	table_text(comparison->table, LEFT, left);
	table_text(comparison->table, RIGHT, right);
	if (change && change[0])
		table_text(comparison->table, CHANGE, change);
}

/* "+12 ms (+40 %)" */
static void add_values(struct comparison *comparison, const char *what, double left, double right, const char *unit)
{
	char left_text[64], right_text[64], difference[64], change[160] = "";

	if (isnan(left) && isnan(right))
		return;
	report_value(left_text, sizeof(left_text), left, unit);
	report_value(right_text, sizeof(right_text), right, unit);
	report_value(difference, sizeof(difference), right - left, unit);
	if (!isnan(left) && !isnan(right) && left != right)
		snprintf(change, sizeof(change), "%s%s", right > left ? "+" : "", difference);
	add(comparison, what, left_text, right_text, change);
}

static bool same_promise(const struct hypothesis *a, const struct hypothesis *b)
{
	return a->when == b->when && strcmp(a->measure, b->measure) == 0 && strcmp(a->comparison, b->comparison) == 0 &&
	       a->threshold == b->threshold;
}

static const struct hypothesis *find(const struct findings_run *run, const struct hypothesis *like)
{
	for (size_t i = 0; i < run->hypotheses_count; i++) {
		if (same_promise(&run->hypotheses[i], like))
			return &run->hypotheses[i];
	}
	return NULL;
}

static void hypothesis_text(const struct hypothesis *hypothesis, char *buf, size_t size)
{
	char actual[64];

	if (!hypothesis) {
		snprintf(buf, size, "-");
		return;
	}
	report_value(actual, sizeof(actual), hypothesis->actual, hypothesis->unit);
	snprintf(buf, size, "%s, %s", actual, report_outcome(hypothesis));
}

static const char *outcome_change(const struct hypothesis *a, const struct hypothesis *b)
{
	if (!a || !b || a->outcome == b->outcome)
		return NULL;
	if (a->outcome == OUTCOME_HELD && b->outcome == OUTCOME_FAILED)
		return "worse";
	return a->outcome == OUTCOME_FAILED && b->outcome == OUTCOME_HELD ? "better" : NULL;
}

static void add_hypothesis(struct comparison *comparison, const struct hypothesis *a, const struct hypothesis *b)
{
	char promise[320], what[400], left[128], right[128];

	report_promise(a ? a : b, promise, sizeof(promise));
	snprintf(what, sizeof(what), "%s: %s", when_names[(a ? a : b)->when], promise);
	hypothesis_text(a, left, sizeof(left));
	hypothesis_text(b, right, sizeof(right));
	add(comparison, what, left, right, outcome_change(a, b));
}

static void add_hypotheses(struct comparison *comparison)
{
	for (size_t i = 0; i < comparison->a->hypotheses_count; i++)
		add_hypothesis(comparison, &comparison->a->hypotheses[i],
			       find(comparison->b, &comparison->a->hypotheses[i]));
	for (size_t i = 0; i < comparison->b->hypotheses_count; i++) {
		if (!find(comparison->a, &comparison->b->hypotheses[i]))
			add_hypothesis(comparison, NULL, &comparison->b->hypotheses[i]);
	}
}

static void add_stage(struct comparison *comparison, const char *probe, enum stage stage)
{
	struct measured a = report_measure(comparison->a, probe, report_stage(comparison->a, stage));
	struct measured b = report_measure(comparison->b, probe, report_stage(comparison->b, stage));
	char what[320];

	snprintf(what, sizeof(what), "%s.success %s", probe, stage_names[stage]);
	add_values(comparison, what, a.success, b.success, "%");
	snprintf(what, sizeof(what), "%s.p50 %s", probe, stage_names[stage]);
	add_values(comparison, what, a.p50, b.p50, "ms");
	snprintf(what, sizeof(what), "%s.p99 %s", probe, stage_names[stage]);
	add_values(comparison, what, a.p99, b.p99, "ms");
}

static bool has(const char **probes, size_t count, const char *probe)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(probes[i], probe) == 0)
			return true;
	}
	return false;
}

static void add_probes(struct comparison *comparison)
{
	size_t left_count, right_count;
	const char **left = report_probes(comparison->a, &left_count);
	const char **right = report_probes(comparison->b, &right_count);

	for (size_t i = 0; i < left_count; i++) {
		for (enum stage stage = 0; stage < STAGE_COUNT; stage++)
			add_stage(comparison, left[i], stage);
	}
	for (size_t i = 0; i < right_count; i++) {
		for (enum stage stage = 0; stage < STAGE_COUNT && !has(left, left_count, right[i]); stage++)
			add_stage(comparison, right[i], stage);
	}
	free(left);
	free(right);
}

static const struct dependency_record *same_dependency(const struct findings_run *run,
						       const struct dependency_record *like)
{
	for (size_t i = 0; i < run->dependencies_count; i++) {
		if (run->dependencies[i].port == like->port && strcmp(run->dependencies[i].name, like->name) == 0)
			return &run->dependencies[i];
	}
	return NULL;
}

static void add_dependency(struct comparison *comparison, const struct dependency_record *a,
			   const struct dependency_record *b)
{
	const char *left = a ? a->strength : "-", *right = b ? b->strength : "-", *change = NULL;
	char what[320];

	snprintf(what, sizeof(what), "%s port %u", (a ? a : b)->name, (a ? a : b)->port);
	if (strcmp(left, right) != 0 && strcmp(right, "strong") == 0)
		change = "worse";
	else if (strcmp(left, "strong") == 0 && strcmp(right, "weak") == 0)
		change = "better";
	add(comparison, what, left, right, change);
}

static void add_dependencies(struct comparison *comparison)
{
	const struct findings_run *a = comparison->a, *b = comparison->b;

	for (size_t i = 0; i < a->dependencies_count; i++)
		add_dependency(comparison, &a->dependencies[i], same_dependency(b, &a->dependencies[i]));
	for (size_t i = 0; i < b->dependencies_count; i++) {
		if (!same_dependency(a, &b->dependencies[i]))
			add_dependency(comparison, NULL, &b->dependencies[i]);
	}
}

static double injected(const struct findings_run *run)
{
	double sum = run->rules_count ? 0 : NAN;

	for (size_t i = 0; i < run->rules_count; i++)
		sum += (double)run->rules[i].injected;
	return sum;
}

static void fill(struct comparison *comparison)
{
	const struct findings_run *a = comparison->a, *b = comparison->b;
	char left[64], right[64];

	report_clock(left, sizeof(left), a->started_s);
	report_clock(right, sizeof(right), b->started_s);
	add(comparison, "started", left, right, NULL);
	add(comparison, "verdict", verdict_names[a->verdict], verdict_names[b->verdict],
	    a->verdict == b->verdict ? NULL : "changed");
	add_hypotheses(comparison);
	add_dependencies(comparison);
	add_values(comparison, "time to degrade", report_seconds(a, NUMBER_TIME_TO_DEGRADE),
		   report_seconds(b, NUMBER_TIME_TO_DEGRADE), "s");
	add_values(comparison, "time to recover", report_seconds(a, NUMBER_TIME_TO_RECOVER),
		   report_seconds(b, NUMBER_TIME_TO_RECOVER), "s");
	add_probes(comparison);
	add_values(comparison, "faults injected", injected(a), injected(b), "");
}

void report_compare(const struct findings_run *a, const struct findings_run *b, bool json, FILE *out)
{
	struct comparison comparison = {
		.a = a,
		.b = b,
		.columns = { { "", "what", CELL_TEXT, false },
			     { comparison.left_title, "a", CELL_TEXT, false },
			     { comparison.right_title, "b", CELL_TEXT, false },
			     { "CHANGE", "change", CELL_TEXT, false } },
	};

	snprintf(comparison.left_title, sizeof(comparison.left_title), "RUN %lld", (long long)a->id);
	snprintf(comparison.right_title, sizeof(comparison.right_title), "RUN %lld", (long long)b->id);
	comparison.table = table_new(comparison.columns, COLUMNS);
	fill(&comparison);
	if (json) {
		struct json document;

		json_begin(&document, out, false);
		json_open_object(&document, NULL);
		json_count(&document, "a", (uint64_t)a->id);
		json_count(&document, "b", (uint64_t)b->id);
		table_json(comparison.table, &document, "rows");
		json_close_object(&document);
		json_end(&document);
	} else {
		table_print(comparison.table, out);
	}
	table_free(comparison.table);
}
