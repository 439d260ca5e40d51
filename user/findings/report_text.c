// SPDX-License-Identifier: GPL-2.0-only
/* A run for a terminal. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/output.h"
#include "user/findings/dependency_record.h"
#include "user/findings/report_internal.h"

enum {
	WHEN,
	EXPECTED,
	ACTUAL,
	RESULT,
	HYPOTHESIS_COLUMNS,
};

static const struct column hypothesis_columns[HYPOTHESIS_COLUMNS] = {
	[WHEN] = { "WHEN", NULL, CELL_TEXT, false },
	[EXPECTED] = { "EXPECTED", NULL, CELL_TEXT, false },
	[ACTUAL] = { "ACTUAL", NULL, CELL_TEXT, false },
	[RESULT] = { "RESULT", NULL, CELL_TEXT, false },
};

static const char *const outcome_colors[OUTCOME_COUNT] = { "darkgray", "green", "red" };

static void print_hypotheses(const struct findings_run *run, FILE *out)
{
	struct table *table = table_new(hypothesis_columns, HYPOTHESIS_COLUMNS);

	for (size_t i = 0; i < run->hypotheses_count; i++) {
		const struct hypothesis *hypothesis = &run->hypotheses[i];
		char promise[320], actual[64], result[512];

		report_promise(hypothesis, promise, sizeof(promise));
		report_value(actual, sizeof(actual), hypothesis->actual, hypothesis->unit);
		snprintf(result, sizeof(result), "%s%s%s%s", report_outcome(hypothesis), hypothesis->detail ? " (" : "",
			 hypothesis->detail ? hypothesis->detail : "", hypothesis->detail ? ")" : "");
		table_row(table);
		table_text(table, WHEN, when_names[hypothesis->when]);
		table_text(table, EXPECTED, promise);
		table_text(table, ACTUAL, actual);
		table_text(table, RESULT, result);
		table_color(table, RESULT, outcome_colors[hypothesis->outcome]);
	}
	if (run->hypotheses_count) {
		putc('\n', out);
		table_print(table, out);
	}
	table_free(table);
}

enum {
	PROBE,
	STAGE,
	ATTEMPTS,
	SUCCESS,
	P50,
	P99,
	PROBE_COLUMNS,
};

static const struct column probe_columns[PROBE_COLUMNS] = {
	[PROBE] = { "PROBE", NULL, CELL_TEXT, false },
	[STAGE] = { "STAGE", NULL, CELL_TEXT, false },
	[ATTEMPTS] = { "ATTEMPTS", NULL, CELL_COUNT, false },
	[SUCCESS] = { "SUCCESS", NULL, CELL_TEXT, false },
	[P50] = { "P50", NULL, CELL_TEXT, false },
	[P99] = { "P99", NULL, CELL_TEXT, false },
};

static void add_stage(struct table *table, const struct findings_run *run, const char *probe, enum stage stage)
{
	struct measured measured = report_measure(run, probe, report_stage(run, stage));
	char text[64];

	if (!measured.attempts)
		return;
	table_row(table);
	table_text(table, PROBE, probe);
	table_text(table, STAGE, stage_names[stage]);
	table_count(table, ATTEMPTS, measured.attempts);
	report_value(text, sizeof(text), measured.success, "%");
	table_text(table, SUCCESS, text);
	report_value(text, sizeof(text), measured.p50, "ms");
	table_text(table, P50, text);
	report_value(text, sizeof(text), measured.p99, "ms");
	table_text(table, P99, text);
}

static void print_probes(const struct findings_run *run, FILE *out)
{
	struct table *table = table_new(probe_columns, PROBE_COLUMNS);
	size_t count;
	const char **probes = report_probes(run, &count);

	for (size_t i = 0; i < count; i++) {
		for (enum stage stage = 0; stage < STAGE_COUNT; stage++)
			add_stage(table, run, probes[i], stage);
	}
	if (count) {
		putc('\n', out);
		table_print(table, out);
	}
	free(probes);
	table_free(table);
}

enum {
	RULE,
	SEEN,
	MATCHED,
	INJECTED,
	SKIPPED,
	RULE_COLUMNS,
};

static const struct column rule_columns[RULE_COLUMNS] = {
	[RULE] = { "RULE", NULL, CELL_TEXT, false },        [SEEN] = { "SEEN", NULL, CELL_COUNT, false },
	[MATCHED] = { "MATCHED", NULL, CELL_COUNT, false }, [INJECTED] = { "INJECTED", NULL, CELL_COUNT, false },
	[SKIPPED] = { "SKIPPED", NULL, CELL_TEXT, true },
};

static void counts_text(char *buf, size_t size, const struct named_count *counts, size_t count)
{
	size_t used = 0;

	snprintf(buf, size, "-");
	for (size_t i = 0; i < count && used < size; i++)
		used += (size_t)snprintf(buf + used, size - used, "%s%s %llu", i ? ", " : "", counts[i].name,
					 (unsigned long long)counts[i].count);
}

static void print_rules(const struct findings_run *run, FILE *out)
{
	struct table *table = table_new(rule_columns, RULE_COLUMNS);

	for (size_t i = 0; i < run->rules_count; i++) {
		const struct rule_record *rule = &run->rules[i];
		char skipped[512];

		counts_text(skipped, sizeof(skipped), rule->skipped, rule->skipped_count);
		table_row(table);
		table_text(table, RULE, rule->rule);
		table_count(table, SEEN, rule->seen);
		table_count(table, MATCHED, rule->matched);
		table_count(table, INJECTED, rule->injected);
		table_text(table, SKIPPED, skipped);
	}
	if (run->rules_count) {
		putc('\n', out);
		table_print(table, out);
	}
	table_free(table);
}

static void print_dependencies(const struct findings_run *run, FILE *out)
{
	struct table *table = dependencies_table(run->dependencies, run->dependencies_count);

	if (run->dependencies_count) {
		putc('\n', out);
		table_print(table, out);
	}
	table_free(table);
}

static void print_time(FILE *out, const char *what, double seconds)
{
	char text[64];

	if (isnan(seconds))
		return;
	report_value(text, sizeof(text), seconds, "s");
	fprintf(out, "%s: %s\n", what, text);
}

static void print_times(const struct findings_run *run, FILE *out)
{
	double degrade = report_seconds(run, NUMBER_TIME_TO_DEGRADE);
	double recover = report_seconds(run, NUMBER_TIME_TO_RECOVER);

	if (!isnan(degrade) || !isnan(recover))
		putc('\n', out);
	print_time(out, "time to degrade", degrade);
	print_time(out, "time to recover", recover);
}

static void print_clean(FILE *out, const char *before, const char *text, const char *after)
{
	char clean[4096];

	text_clean(clean, sizeof(clean), text);
	fprintf(out, "%s%s%s", before, clean, after);
}

static void print_timeline(const struct findings_run *run, FILE *out)
{
	char offset[32];

	for (size_t i = 0; i < run->moments_count; i++) {
		report_offset(offset, sizeof(offset), run->moments[i].at_ms);
		fprintf(out, "%s%9s  %-6s ", i ? "" : "\n", offset, moment_names[run->moments[i].kind]);
		print_clean(out, "", run->moments[i].text, "\n");
	}
}

struct list {
	FILE *out;
	size_t count;
};

static void print_advice(void *to, const char *sentence)
{
	struct list *list = to;

	print_clean(list->out, list->count++ ? "- " : "\nto improve\n- ", sentence, "\n");
}

static void print_head(const struct findings_run *run, FILE *out)
{
	char sentence[1024], started[64], length[64];

	report_sentence(run, sentence, sizeof(sentence));
	report_clock(started, sizeof(started), run->started_s);
	seconds_text(length, sizeof(length), run->length_ms / 1e3);
	print_clean(out, "", sentence, "\n\n");
	fprintf(out, "run %lld of ", (long long)run->id);
	print_clean(out, "", run->experiment, "");
	print_clean(out, run->title[0] ? ": " : "", run->title, "\n");
	fprintf(out, "started %s, took %s", started, length);
	print_clean(out, run->environment[0] ? ", in " : "", run->environment, "");
	print_clean(out, run->operator[0] ? ", on call: " : "", run->operator, "\n");
	print_clean(out, "on ", run->host, "");
	print_clean(out, ", kernel ", run->kernel, "");
	print_clean(out, ", chaosbpf ", run->version, "\n");
	if (run->resolved_note) {
		print_clean(out, "resolved by ", run->resolved_by ? run->resolved_by : "-", "");
		print_clean(out, ": ", run->resolved_note, "\n");
	} else if (run->open) {
		fprintf(out, "open: chaosbpf history resolve %lld --note TEXT closes it\n", (long long)run->id);
	}
}

void report_text(const struct findings_run *run, FILE *out)
{
	struct list list = { .out = out };

	print_head(run, out);
	print_hypotheses(run, out);
	print_times(run, out);
	print_dependencies(run, out);
	print_probes(run, out);
	print_rules(run, out);
	print_timeline(run, out);
	report_advice(run, print_advice, &list);
}
