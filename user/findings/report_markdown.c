// SPDX-License-Identifier: GPL-2.0-only
/* A run as Markdown, for a comment on a pull request. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/output.h"
#include "user/findings/dependency_record.h"
#include "user/findings/report_internal.h"

/* Text of users: no markup, no HTML, no line breaks, and nobody is called by an "@" in it. */
static void print(FILE *out, const char *text)
{
	while (*text) {
		uint32_t c;
		size_t len = utf8_read(text, &c);

		if (!len || report_forbidden(c))
			fputs("\xef\xbf\xbd", out);
		else if (c == '\n' || c == '\t')
			putc(' ', out);
		else if (c == '&' || c == '<' || c == '>')
			fputs(c == '&' ? "&amp;" : c == '<' ? "&lt;" : "&gt;", out);
		else if (c == '@')
			fputs("@\xe2\x80\x8b", out); /* a blank without width behind it */
		else if (c < 0x80 && strchr("\\`*_[]#|~$", (int)c))
			fprintf(out, "\\%c", (char)c);
		else
			fwrite(text, 1, len, out);
		text += len ? len : 1;
	}
}

static void print_hypotheses(const struct findings_run *run, FILE *out)
{
	static const char *const signs[OUTCOME_COUNT] = { "", "✅ ", "❌ " };

	fputs("\n| when | expected | actual | |\n|---|---|---|---|\n", out);
	for (size_t i = 0; i < run->hypotheses_count; i++) {
		const struct hypothesis *hypothesis = &run->hypotheses[i];
		char promise[320], actual[64];

		report_promise(hypothesis, promise, sizeof(promise));
		report_value(actual, sizeof(actual), hypothesis->actual, hypothesis->unit);
		fprintf(out, "| %s | ", when_names[hypothesis->when]);
		print(out, promise);
		fputs(" | ", out);
		print(out, actual);
		fprintf(out, " | %s%s", signs[hypothesis->outcome], report_outcome(hypothesis));
		if (hypothesis->detail) {
			fputs(" (", out);
			print(out, hypothesis->detail);
			putc(')', out);
		}
		fputs(" |\n", out);
	}
}

static void print_probe(const struct findings_run *run, const char *probe, FILE *out)
{
	for (enum stage stage = 0; stage < STAGE_COUNT; stage++) {
		struct measured measured = report_measure(run, probe, report_stage(run, stage));
		char success[64], p50[64], p99[64];

		if (!measured.attempts)
			continue;
		report_value(success, sizeof(success), measured.success, "%");
		report_value(p50, sizeof(p50), measured.p50, "ms");
		report_value(p99, sizeof(p99), measured.p99, "ms");
		fputs("| ", out);
		print(out, probe);
		fprintf(out, " | %s | %zu | %s | %s | %s |\n", stage_names[stage], measured.attempts, success, p50,
			p99);
	}
}

static void print_probes(const struct findings_run *run, FILE *out)
{
	size_t count;
	const char **probes = report_probes(run, &count);

	if (count)
		fputs("\n| probe | | attempts | success | p50 | p99 |\n|---|---|---:|---:|---:|---:|\n", out);
	for (size_t i = 0; i < count; i++)
		print_probe(run, probes[i], out);
	free(probes);
}

static void print_rules(const struct findings_run *run, FILE *out)
{
	if (run->rules_count)
		fputs("\n| rule | injected | matched | seen |\n|---|---:|---:|---:|\n", out);
	for (size_t i = 0; i < run->rules_count; i++) {
		fputs("| ", out);
		print(out, run->rules[i].rule);
		fprintf(out, " | %llu | %llu | %llu |\n", (unsigned long long)run->rules[i].injected,
			(unsigned long long)run->rules[i].matched, (unsigned long long)run->rules[i].seen);
	}
}

static void print_dependency(const struct dependency_record *dependency, FILE *out)
{
	char text[128];

	fputs("| ", out);
	print(out, dependency->name);
	fprintf(out, " | %u | %s", dependency->port, dependency->worse ? "❌ " : "");
	print(out, dependency->strength);
	fputs(" |", out);
	for (size_t i = 0; i < DEPENDENCY_TRIALS; i++) {
		trial_text(&dependency->trials[i], text, sizeof(text));
		putc(' ', out);
		print(out, text);
		fputs(" |", out);
	}
	putc(' ', out);
	print(out, dependency->worse ? dependency->worse : "");
	fputs(" |\n", out);
}

static void print_dependencies(const struct findings_run *run, FILE *out)
{
	if (run->dependencies_count)
		fputs("\n| dependency | port | strength | down | slow | random | before "
		      "|\n|---|---:|---|---|---|---|---|\n",
		      out);
	for (size_t i = 0; i < run->dependencies_count; i++)
		print_dependency(&run->dependencies[i], out);
}

static void print_time(FILE *out, const char *what, double seconds)
{
	char text[64];

	if (isnan(seconds))
		return;
	report_value(text, sizeof(text), seconds, "s");
	fprintf(out, "\n%s: **%s**\n", what, text);
}

struct list {
	FILE *out;
	size_t count;
};

static void print_advice(void *to, const char *sentence)
{
	struct list *list = to;

	if (!list->count++)
		fputs("\n**To improve**\n\n", list->out);
	fputs("- ", list->out);
	print(list->out, sentence);
	putc('\n', list->out);
}

void report_markdown(const struct findings_run *run, FILE *out)
{
	static const char *const signs[VERDICT_COUNT] = { "⏳", "✅", "❌", "🛑", "⏭️", "⚠️", "⚠️" };
	struct list list = { .out = out };
	char sentence[1024], started[64];

	report_sentence(run, sentence, sizeof(sentence));
	report_clock(started, sizeof(started), run->started_s);
	fprintf(out, "### %s ", signs[run->verdict]);
	print(out, sentence);
	fputs("\n\n**", out);
	print(out, run->experiment);
	fputs("**", out);
	if (run->title[0]) {
		fputs(": ", out);
		print(out, run->title);
	}
	fprintf(out, "\n\nrun %lld, %s", (long long)run->id, started);
	if (run->environment[0]) {
		fputs(", ", out);
		print(out, run->environment);
	}
	putc('\n', out);
	if (run->hypotheses_count)
		print_hypotheses(run, out);
	print_time(out, "Time to degrade", report_seconds(run, NUMBER_TIME_TO_DEGRADE));
	print_time(out, "Time to recover", report_seconds(run, NUMBER_TIME_TO_RECOVER));
	print_dependencies(run, out);
	print_probes(run, out);
	print_rules(run, out);
	report_advice(run, print_advice, &list);
}
