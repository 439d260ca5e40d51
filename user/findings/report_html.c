// SPDX-License-Identifier: GPL-2.0-only
/*
 * A run as one page for a manager: the verdict first, then what it rests on. It needs no other file, no script and no
 * network, and says so to the browser (a content security policy), so that a text that got past the escaping could do
 * nothing. Curves are report_svg.c's.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/output.h"
#include "user/findings/dependency_record.h"
#include "user/findings/report_internal.h"

static const char head[] =
	"<!DOCTYPE html>\n"
	"<html lang=\"en\">\n"
	"<head>\n"
	"<meta charset=\"utf-8\">\n"
	"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
	"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	"<meta name=\"color-scheme\" content=\"light dark\">\n"
	"<style>\n";

static void print(FILE *out, const char *before, const char *text, const char *after)
{
	fputs(before, out);
	report_markup(out, text);
	fputs(after, out);
}

/* ---- the top: verdict, title, the four numbers ---- */

static void print_verdict(const struct findings_run *run, FILE *out)
{
	char sentence[1024];

	report_sentence(run, sentence, sizeof(sentence));
	fprintf(out, "<header class=\"verdict %s\"><div class=\"word\">%s</div>", verdict_names[run->verdict],
		verdict_names[run->verdict]);
	print(out, "<h1>", sentence, "</h1>");
	if (run->resolved_note) {
		print(out, "<p class=\"dim\">Resolved by ", run->resolved_by ? run->resolved_by : "-", ": ");
		print(out, "", run->resolved_note, "</p>");
	}
	fputs("</header>\n", out);
}

static void print_title(const struct findings_run *run, FILE *out)
{
	char started[64], length[64];

	report_clock(started, sizeof(started), run->started_s);
	seconds_text(length, sizeof(length), run->length_ms / 1e3);
	if (run->title[0])
		print(out, "<p class=\"title\">", run->title, "</p>\n");
	print(out, "<p class=\"dim\">Experiment <b>", run->experiment, "</b>");
	fprintf(out, ", run %lld", (long long)run->id);
	if (run->environment[0])
		print(out, ", in ", run->environment, "");
	print(out, ", ", started, "");
	print(out, ", took ", length, "</p>\n");
}

static void fact(FILE *out, const char *value, const char *what)
{
	fprintf(out, "<div><b>%s</b>", value);
	print(out, "<span>", what, "</span></div>\n");
}

static void fact_time(FILE *out, double seconds, const char *what)
{
	char text[64];

	if (isnan(seconds))
		return;
	report_value(text, sizeof(text), seconds, "s");
	fact(out, text, what);
}

static void fact_success(const struct findings_run *run, const char *probe, FILE *out)
{
	struct measured measured = report_measure(run, probe, report_stage(run, STAGE_DURING));
	char text[64], what[320];

	if (!measured.attempts)
		return;
	report_value(text, sizeof(text), measured.success, "%");
	snprintf(what, sizeof(what), "of %s succeeded, injection to roll back", probe);
	fact(out, text, what);
}

static void print_facts(const struct findings_run *run, FILE *out)
{
	uint64_t injected = 0;
	size_t count;
	const char **probes = report_probes(run, &count);
	char text[64];

	fputs("<div class=\"facts\">\n", out);
	for (size_t i = 0; i < count && i < 2; i++)
		fact_success(run, probes[i], out);
	fact_time(out, report_seconds(run, NUMBER_TIME_TO_DEGRADE), "to degrade as promised");
	fact_time(out, report_seconds(run, NUMBER_TIME_TO_RECOVER), "to recover after the fault");
	for (size_t i = 0; i < run->rules_count; i++)
		injected += run->rules[i].injected;
	snprintf(text, sizeof(text), "%llu", (unsigned long long)injected);
	if (run->rules_count)
		fact(out, text, injected == 1 ? "fault injected" : "faults injected");
	fputs("</div>\n", out);
	free(probes);
}

/* ---- what failed, what was expected ---- */

struct list {
	FILE *out;
	size_t count;
};

static void print_advice(void *to, const char *sentence)
{
	struct list *list = to;

	if (!list->count++)
		fputs("<h2>What to improve</h2>\n<ul>\n", list->out);
	print(list->out, "<li>", sentence, "</li>\n");
}

static void print_advices(const struct findings_run *run, FILE *out)
{
	struct list list = { .out = out };

	report_advice(run, print_advice, &list);
	if (list.count)
		fputs("</ul>\n", out);
}

/* ">=" is not for everybody. */
static const char *comparison_sign(const char *comparison)
{
	if (strcmp(comparison, ">=") == 0)
		return "≥";
	if (strcmp(comparison, "<=") == 0)
		return "≤";
	return strcmp(comparison, "==") == 0 ? "=" : comparison;
}

static void print_promise(const struct hypothesis *hypothesis, FILE *out)
{
	char threshold[64];

	report_value(threshold, sizeof(threshold), hypothesis->threshold, hypothesis->unit);
	print(out, "<td>", hypothesis->measure, " ");
	print(out, "", comparison_sign(hypothesis->comparison), " ");
	print(out, "", threshold, "</td>");
}

static void print_hypothesis(const struct hypothesis *hypothesis, FILE *out)
{
	static const char *const rows[OUTCOME_COUNT] = { "untested", "held", "failed" };
	static const char *const tones[OUTCOME_COUNT] = { "dim", "good", "bad" };
	static const char *const signs[OUTCOME_COUNT] = { "", "✓ ", "✗ " };
	char actual[64];

	report_value(actual, sizeof(actual), hypothesis->actual, hypothesis->unit);
	fprintf(out, "<tr class=\"row-%s %s\"><td>%s</td>", rows[hypothesis->outcome],
		hypothesis->outcome == OUTCOME_FAILED ? "failed" : "", report_when[hypothesis->when]);
	print_promise(hypothesis, out);
	print(out, "<td class=\"n\">", actual, "</td>");
	fprintf(out, "<td><span class=\"%s\">%s%s</span>", tones[hypothesis->outcome], signs[hypothesis->outcome],
		report_outcome(hypothesis));
	if (hypothesis->detail)
		print(out, " (", hypothesis->detail, ")");
	fputs("</td></tr>\n", out);
}

static void print_hypotheses(const struct findings_run *run, FILE *out)
{
	if (!run->hypotheses_count)
		return;
	fputs("<h2>Expected and actual</h2>\n<table><thead><tr><th>when</th><th>expected</th><th "
	      "class=\"n\">actual</th>"
	      "<th>result</th></tr></thead><tbody>\n",
	      out);
	for (size_t i = 0; i < run->hypotheses_count; i++)
		print_hypothesis(&run->hypotheses[i], out);
	fputs("</tbody></table>\n", out);
}

static void print_dependency(const struct dependency_record *dependency, FILE *out)
{
	char text[128];

	print(out, dependency->worse ? "<tr class=\"failed\"><td><b>" : "<tr><td><b>", dependency->name, "</b></td>");
	fprintf(out, "<td class=\"n\">%u</td>", dependency->port);
	print(out, "<td>", dependency->strength, "</td>");
	for (size_t i = 0; i < DEPENDENCY_TRIALS; i++) {
		trial_text(&dependency->trials[i], text, sizeof(text));
		print(out, "<td>", text, "</td>");
	}
	print(out, "<td>", dependency->worse ? dependency->worse : "", "</td></tr>\n");
}

static void print_dependencies(const struct findings_run *run, FILE *out)
{
	if (!run->dependencies_count)
		return;
	fputs("<h2>Strong and weak</h2>\n<table><thead><tr><th>dependency</th><th "
	      "class=\"n\">port</th><th>strength</th>"
	      "<th>down</th><th>slow</th><th>random</th><th>before</th></tr></thead><tbody>\n",
	      out);
	for (size_t i = 0; i < run->dependencies_count; i++)
		print_dependency(&run->dependencies[i], out);
	fputs("</tbody></table>\n<p class=\"dim small\">Strong: the service fails more, or is slower, while it is "
	      "broken. "
	      "Weak: it does without.</p>\n",
	      out);
}

/* ---- curves ---- */

static void print_stages(const struct findings_run *run, const char *probe, FILE *out)
{
	static const char *const words[STAGE_COUNT] = { "before", "while it was broken", "after" };

	fputs("<table><thead><tr><th></th><th class=\"n\">attempts</th><th class=\"n\">success</th><th "
	      "class=\"n\">p50</th>"
	      "<th class=\"n\">p90</th><th class=\"n\">p99</th></tr></thead><tbody>\n",
	      out);
	for (enum stage stage = 0; stage < STAGE_COUNT; stage++) {
		struct measured measured = report_measure(run, probe, report_stage(run, stage));
		char success[64], p50[64], p90[64], p99[64];

		if (!measured.attempts)
			continue;
		report_value(success, sizeof(success), measured.success, "%");
		report_value(p50, sizeof(p50), measured.p50, "ms");
		report_value(p90, sizeof(p90), measured.p90, "ms");
		report_value(p99, sizeof(p99), measured.p99, "ms");
		fprintf(out,
			"<tr><td>%s</td><td class=\"n\">%zu</td><td class=\"n\">%s</td><td class=\"n\">%s</td>"
			"<td class=\"n\">%s</td><td class=\"n\">%s</td></tr>\n",
			words[stage], measured.attempts, success, p50, p90, p99);
	}
	fputs("</tbody></table>\n", out);
}

static void print_curves(const struct findings_run *run, FILE *out)
{
	size_t count, i, end;
	const char **probes = report_probes(run, &count);

	if (count || run->points_count)
		fputs("<h2>What was measured</h2>\n", out);
	for (i = 0; i < count; i++) {
		print(out, "<h3>", probes[i], "</h3>\n");
		report_svg_probe(run, probes[i], out);
		print_stages(run, probes[i], out);
	}
	/* They come sorted by measure. */
	for (i = 0; i < run->points_count; i = end) {
		for (end = i; end < run->points_count && strcmp(run->points[end].measure, run->points[i].measure) == 0;)
			end++;
		print(out, "<h3>", run->points[i].measure, "</h3>\n");
		report_svg_points(run, &run->points[i], end - i, out);
	}
	if (run->thinned)
		fprintf(out,
			"<p class=\"dim small\">%llu samples are not kept any more; what is shown is a fair "
			"part.</p>\n",
			(unsigned long long)run->thinned);
	free(probes);
}

/* ---- what was injected ---- */

static void print_counts(const struct named_count *counts, size_t count, FILE *out)
{
	for (size_t i = 0; i < count; i++) {
		print(out, i ? ", " : "", counts[i].name, "");
		fprintf(out, " %llu", (unsigned long long)counts[i].count);
	}
	if (!count)
		fputs("-", out);
}

static void print_rule(const struct rule_record *rule, FILE *out)
{
	print(out, "<tr><td><b>", rule->rule, "</b>");
	if (rule->sentence)
		print(out, "<br><span class=\"dim small\">", rule->sentence, "</span>");
	fputs("</td><td>", out);
	print_counts(rule->faults, rule->faults_count, out);
	fprintf(out, "</td><td class=\"n\">%llu</td><td class=\"n\">%llu</td><td>", (unsigned long long)rule->injected,
		(unsigned long long)rule->matched);
	print_counts(rule->skipped, rule->skipped_count, out);
	fputs("</td></tr>\n", out);
}

static void print_rules(const struct findings_run *run, FILE *out)
{
	double dropped = findings_run_number(run, NUMBER_EVENTS_DROPPED);

	if (!run->rules_count)
		return;
	fputs("<h2>What was injected</h2>\n<table><thead><tr><th>rule</th><th>faults</th><th class=\"n\">injected</th>"
	      "<th class=\"n\">came up</th><th>skipped, and why</th></tr></thead><tbody>\n",
	      out);
	for (size_t i = 0; i < run->rules_count; i++)
		print_rule(&run->rules[i], out);
	fputs("</tbody></table>\n<p class=\"dim small\">Counted in the kernel, exactly.", out);
	if (dropped > 0)
		fprintf(out, " %.0f events found no room; the counts are right all the same.", dropped);
	fputs("</p>\n", out);
}

/* ---- the rest ---- */

static void print_timeline(const struct findings_run *run, FILE *out)
{
	char offset[32];

	if (!run->moments_count)
		return;
	fputs("<h2>Timeline</h2>\n<table><tbody>\n", out);
	for (size_t i = 0; i < run->moments_count; i++) {
		const struct run_moment *moment = &run->moments[i];

		report_offset(offset, sizeof(offset), moment->at_ms);
		fprintf(out, "<tr><td class=\"n dim\">%s</td><td class=\"dim\">%s</td>", offset,
			moment_names[moment->kind]);
		print(out, moment->kind == MOMENT_PHASE ? "<td><b>" : "<td>", moment->text,
		      moment->kind == MOMENT_PHASE ? "</b></td></tr>\n" : "</td></tr>\n");
	}
	fputs("</tbody></table>\n", out);
}

static void row(FILE *out, const char *what, const char *text)
{
	if (!text[0])
		return;
	print(out, "<tr><td class=\"dim\">", what, "</td>");
	print(out, "<td>", text, "</td></tr>\n");
}

static void print_environment(const struct findings_run *run, FILE *out)
{
	fputs("<h2>Environment</h2>\n<table><tbody>\n", out);
	row(out, "environment", run->environment);
	row(out, "on call", run->operator);
	row(out, "host", run->host);
	row(out, "kernel", run->kernel);
	row(out, "chaosbpf", run->version);
	row(out, "experiment file", run->file);
	fputs("</tbody></table>\n", out);
	if (run->text[0])
		print(out, "<details><summary>The experiment file as it was run</summary><pre>", run->text,
		      "</pre></details>\n");
}

void report_html(const struct findings_run *run, FILE *out)
{
	fputs(head, out);
	fputs(report_style, out);
	fputs("</style>\n", out);
	print(out, "<title>", run->experiment, "");
	fprintf(out, ": %s</title>\n</head>\n<body>\n", verdict_names[run->verdict]);
	print_verdict(run, out);
	print_title(run, out);
	print_facts(run, out);
	print_advices(run, out);
	print_hypotheses(run, out);
	print_dependencies(run, out);
	print_curves(run, out);
	print_rules(run, out);
	print_timeline(run, out);
	print_environment(run, out);
	fputs("</body>\n</html>\n", out);
}
