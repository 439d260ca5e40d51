// SPDX-License-Identifier: GPL-2.0-only
/* user/report*.c, history.c, percentile.c: the numbers are right, and no text of a user is ever markup. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/findings_file.h"
#include "user/base/percentile.h"
#include "user/findings/history.h"
#include "user/findings/report.h"
#include "user/findings/report_internal.h"

TestSuite(report, .init = findings_enter, .fini = findings_leave);

/* ---- percentiles ---- */

Test(percentile, nearest_rank)
{
	static const struct {
		size_t count;
		double percent, expected;
	} cases[] = {
		{ 1, 50, 1 },      { 1, 99, 1 },        { 2, 50, 1 },  { 2, 51, 2 },    { 100, 50, 50 },
		{ 100, 99, 99 },   { 100, 100, 100 },   { 100, 1, 1 }, { 100, 0.5, 1 }, { 101, 99, 100 },
		{ 1000, 99, 990 }, { 1000, 99.9, 999 }, { 10, 90, 9 }, { 10, 91, 10 },  { 200, 99, 198 },
	};
	double values[1000];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		/* 1 to count, backwards */
		for (size_t k = 0; k < cases[i].count; k++)
			values[k] = (double)(cases[i].count - k);
		percentile_sort(values, cases[i].count);
		cr_expect_eq(percentile(values, cases[i].count, cases[i].percent), cases[i].expected,
			     "p%g of %zu is %g", cases[i].percent, cases[i].count,
			     percentile(values, cases[i].count, cases[i].percent));
	}
	cr_expect(isnan(percentile(values, 0, 50)));
}

/* ---- numbers and words ---- */

Test(report, values)
{
	static const struct {
		double value;
		const char *unit, *text;
	} cases[] = {
		{ 100, "%", "100 %" },      { 99.96, "%", "99.96 %" }, { 99.999, "%", "100 %" },
		{ 0, "%", "0 %" },          { 812.4, "ms", "812 ms" }, { 12.04, "ms", "12 ms" },
		{ 12.06, "ms", "12.1 ms" }, { 0.5, "ms", "0.5 ms" },   { 41500, "ms", "41.5 s" },
		{ 9, "s", "9 s" },          { 4.25, "/s", "4.25/s" },  { 7, "", "7" },
		{ NAN, "ms", "-" },         { -3.5, "ms", "-3.5 ms" }, { 1500, "ms", "1500 ms" },
	};
	char text[64];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		report_value(text, sizeof(text), cases[i].value, cases[i].unit);
		cr_expect_str_eq(text, cases[i].text);
	}
}

Test(report, stages_are_measured_apart)
{
	struct findings *findings;
	struct findings_run *run;
	struct measured before, during;

	findings_old("old.db");
	findings = findings_get("old.db", FINDINGS_READ);
	run = findings_run_get(findings, "2");
	before = report_measure(run, "ask", report_stage(run, STAGE_BEFORE));
	during = report_measure(run, "ask", report_stage(run, STAGE_DURING));
	cr_expect(before.attempts == 10 && before.ok == 10 && before.success == 100);
	cr_expect(during.attempts == 20 && during.ok == 12 && during.success == 60);
	cr_expect_lt(during.p99, 300, "what failed has no latency: %g", during.p99);
	findings_run_free(run);
	findings_close(findings);
}

static void expect_sentence(struct findings_run *run, const char *expected)
{
	char sentence[1024];

	report_sentence(run, sentence, sizeof(sentence));
	cr_expect_str_eq(sentence, expected);
}

Test(report, sentences)
{
	static struct hypothesis hypotheses[] = {
		{ WHEN_DURING, "ask.p99", "<=", 800, "ms", 4800, OUTCOME_FAILED, NULL },
		{ WHEN_RECOVERY, "recovery", "<=", 60, "s", NAN, OUTCOME_FAILED, NULL },
	};
	struct findings_run run = { .reason = "", .verdict = VERDICT_HELD };

	expect_sentence(&run, "Held: the service kept every promise while it was broken and after it.");
	run.verdict = VERDICT_WEAKNESS;
	run.hypotheses = hypotheses;
	run.hypotheses_count = 1;
	expect_sentence(&run,
			"Weakness found: while it was broken p99 of ask was 4800 ms, and at most 800 ms was promised.");
	run.hypotheses = hypotheses + 1;
	expect_sentence(&run, "Weakness found: it did not recover, and at most 60 s was promised.");
	run.hypotheses = hypotheses;
	run.hypotheses_count = 2;
	expect_sentence(&run,
			"Weakness found: while it was broken p99 of ask was 4800 ms, and at most 800 ms was promised; "
			"2 promises did not hold in all.");
	run.verdict = VERDICT_INTERRUPTED;
	run.phase = PHASE_OBSERVE;
	expect_sentence(&run, "Interrupted in phase observe: its process was gone before there was a verdict.");
}

static void find_words(void *to, const char *sentence)
{
	*(bool *)to |= strstr(sentence, "injected nothing") != NULL;
}

Test(report, a_rule_that_nobody_met_is_told)
{
	struct rule_record rule = { .rule = "slow", .seen = 5 };
	struct findings_run run = { .reason = "", .verdict = VERDICT_HELD, .rules = &rule, .rules_count = 1 };
	bool told = false;

	report_advice(&run, find_words, &told);
	cr_expect(told);
	rule.injected = 1;
	told = false;
	report_advice(&run, find_words, &told);
	cr_expect_not(told);
}

/* ---- texts that wish nobody well ---- */

#define HOSTILE                                                                                              \
	"<script>alert(1)</script>\"'><img src=x onerror=y>&amp;]]><!--\x01\x1b[31m\xff\xc3\x28\xed\xa0\x80" \
	"\xef\xbf\xbf\xe2\x80\xae|`*_@all\n# h"

static void write_hostile(void)
{
	static const struct findings_plan plan = { HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE };
	struct findings *findings = findings_get("h.db", FINDINGS_WRITE);
	struct findings_writer *writer;
	struct chaos_stats *stats = calloc(1, 4096);
	struct error err;

	cr_assert_eq(findings_begin(findings, &plan, &writer, &err), 0);
	findings_phase(writer, PHASE_INJECT, &err);
	findings_moment(writer, MOMENT_NOTE, HOSTILE, &err);
	findings_hypothesis(
		writer,
		&(struct hypothesis){ WHEN_DURING, HOSTILE ".p99", HOSTILE, 5, HOSTILE, 6, OUTCOME_FAILED, HOSTILE },
		&err);
	findings_rule(writer, HOSTILE, HOSTILE, stats, &err);
	findings_sample(writer, &(struct sample){ 1, HOSTILE, false, 5, 200, HOSTILE }, &err);
	findings_point(writer, &(struct point){ 1, HOSTILE, HOSTILE, 5 }, &err);
	findings_events(writer, &(struct event_sum){ HOSTILE, HOSTILE, 1, 1, 1 }, &err);
	findings_number(writer, HOSTILE, 5, &err);
	findings_dependency(writer,
			    &(struct dependency_record){ HOSTILE,
							 80,
							 HOSTILE,
							 HOSTILE,
							 { { "down", HOSTILE, 1, true, 5, 5, 5, HOSTILE },
							   { "slow", HOSTILE, 1, true, 5, 5, 5, HOSTILE },
							   { "random", HOSTILE, 1, true, 5, 5, 5, HOSTILE } } },
			    &err);
	cr_assert_eq(findings_finish(writer, VERDICT_WEAKNESS, HOSTILE, &err), 0, "%s", err.text);
	findings_close(findings);
	free(stats);
}

/* The report in a file and as a text. */
static char *print_hostile(enum report_form form, const char *file)
{
	struct findings *findings = findings_get("h.db", FINDINGS_WRITE);
	struct findings_run *run = findings_run_get(findings, "last");
	FILE *out = fopen(file, "w");
	struct error err;

	cr_assert_eq(findings_resolve(findings, 1, HOSTILE, HOSTILE, &err) == 0 || run->resolved_note, 1);
	findings_run_free(run);
	run = findings_run_get(findings, "last");
	report_print(run, form, out);
	fclose(out);
	findings_run_free(run);
	findings_close(findings);
	return file_text(file);
}

static bool is_clean_utf8(const char *text)
{
	for (uint32_t c; *text;) {
		size_t len = utf8_read(text, &c);

		if (!len || (c < 0x20 && c != '\n' && c != '\t') || c == 0x202e)
			return false;
		text += len;
	}
	return true;
}

Test(report, html_of_hostile_texts)
{
	char *html;

	write_hostile();
	html = print_hostile(REPORT_HTML, "h.html");
	cr_expect_null(strstr(html, "<script"));
	cr_expect_null(strstr(html, "<img"));
	cr_expect_null(strstr(html, "<!--"));
	cr_expect(strstr(html, "&#60;script&#62;alert(1)"));
	cr_expect(is_clean_utf8(html));
	/* Nothing is fetched. */
	cr_expect_null(strstr(html, "src=\""));
	cr_expect_null(strstr(html, "href=\""));
	cr_expect_null(strstr(html, "url("));
	cr_expect(strstr(html, "default-src 'none'"));
	free(html);
}

/* 0 if `file` is XML; -1: nothing here can say. */
static int xml_check(const char *file)
{
	char command[512];

	snprintf(command, sizeof(command),
		 "if command -v xmllint >/dev/null; then xmllint --noout %s 2>/dev/null; elif command -v python3 "
		 ">/dev/null; then "
		 "python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' %s 2>/dev/null; else exit 99; fi",
		 file, file);
	switch (system(command)) {
	case 0:
		return 0;
	case 99 << 8:
		return -1;
	default:
		return 1;
	}
}

Test(report, junit_of_hostile_texts, .timeout = 60)
{
	char *xml;
	int rc;

	write_hostile();
	xml = print_hostile(REPORT_JUNIT, "h.xml");
	cr_expect(is_clean_utf8(xml));
	free(xml);
	rc = xml_check("h.xml");
	if (rc < 0)
		cr_skip("needs xmllint or python3");
	cr_expect_eq(rc, 0);
}

/* What is not well is known to be not well: else the test above proves nothing. */
Test(report, xml_check_can_fail)
{
	FILE *out = fopen("bad.xml", "w");
	int rc;

	fputs("<a>\x01</a>\n", out);
	fclose(out);
	rc = xml_check("bad.xml");
	if (rc < 0)
		cr_skip("needs xmllint or python3");
	cr_expect_eq(rc, 1);
}

Test(report, json_of_hostile_texts)
{
	char *text, *verdict;

	write_hostile();
	text = print_hostile(REPORT_JSON, "h.json");
	cr_expect(is_clean_utf8(text));
	verdict = json_text_of(text, "verdict");
	cr_expect_str_eq(verdict, "weakness");
	free(verdict);
	free(text);
}

Test(report, markdown_and_text_of_hostile_texts)
{
	char *text;

	write_hostile();
	text = print_hostile(REPORT_MARKDOWN, "h.md");
	cr_expect_null(strstr(text, "<script"));
	cr_expect_null(strstr(text, "@all"));
	cr_expect_null(strstr(text, "\n# h"));
	cr_expect(is_clean_utf8(text));
	free(text);
	text = print_hostile(REPORT_TEXT, "h.txt");
	cr_expect(is_clean_utf8(text));
	free(text);
}

/* A run of which nearly nothing is known gives every form all the same. */
Test(report, a_run_without_anything)
{
	static const struct findings_plan plan = { .experiment = "x" };
	struct findings *findings = findings_get("f.db", FINDINGS_WRITE);
	struct findings_writer *writer;
	struct findings_run *run;
	struct error err;

	cr_assert_eq(findings_begin(findings, &plan, &writer, &err), 0);
	run = findings_run_get(findings, "last");
	for (enum report_form form = REPORT_TEXT; form <= REPORT_HTML; form++) {
		FILE *out = fopen("out", "w");

		report_print(run, form, out);
		cr_expect_gt(ftell(out), 20);
		fclose(out);
		if (form == REPORT_JUNIT)
			cr_expect_leq(xml_check("out"), 0);
	}
	findings_run_free(run);
	findings_drop(writer);
	findings_close(findings);
}

/* ---- dependencies ---- */

static struct dependency_record dependency(const char *name, const char *strength, const char *worse)
{
	return (struct dependency_record){
		.name = name,
		.port = 80,
		.strength = strength,
		.worse = worse,
		.trials = { { "down", "fails", 9, true, 62.5, NAN, 0.001, "" },
			    { "slow", "slow", 9, true, 0, 2100, 0.001, "" },
			    { "random", "-", 0, false, NAN, NAN, NAN, "" } },
	};
}

static char *print_run(const struct findings_run *run, enum report_form form)
{
	FILE *out = fopen("out", "w");

	report_print(run, form, out);
	fclose(out);
	return file_text("out");
}

static void expect_in(const struct findings_run *run, enum report_form form, const char *const *wanted)
{
	char *text = print_run(run, form);

	for (; *wanted; wanted++)
		cr_expect(strstr(text, *wanted), "'%s' in form %d:\n%s", *wanted, form, text);
	free(text);
}

/* What is worse stands out in each form, and what is strong as it was is no failure. */
Test(report, dependencies)
{
	struct dependency_record list[] = { dependency("model", "strong", NULL), dependency("vectors", "strong", "was weak"),
					    dependency("cache", "unknown", NULL) };
	struct findings_run run = {
		.experiment = "deps-rag",
		.title = "",
		.environment = "",
		.operator= "",
		.file = "",
		.host = "",
		.kernel = "",
		.version = "",
		.text = "",
		.json = "",
		.reason = "1 of the dependencies matters now, and did not in known.json",
		.verdict = VERDICT_WEAKNESS,
		.dependencies = list,
		.dependencies_count = 3,
	};

	expect_in(&run, REPORT_TEXT,
		  (const char *[]){ "Weakness found: 1 of the dependencies matters now", "fails: 62.5 %", "slow: 2100 ms",
				    "was weak", "Of cache port 80 nothing is known", NULL });
	expect_in(&run, REPORT_MARKDOWN,
		  (const char *[]){ "| vectors | 80 | ❌ strong | fails: 62.5 % | slow: 2100 ms | - | was weak |", NULL });
	expect_in(&run, REPORT_HTML,
		  (const char *[]){ "<tr class=\"failed\"><td><b>vectors</b>", "<tr><td><b>model</b>", NULL });
	expect_in(&run, REPORT_JUNIT,
		  (const char *[]){ "tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\"",
				    "message=\"vectors port 80 is strong, and was weak\"", NULL });
	cr_expect_leq(xml_check("out"), 0);
	expect_in(&run, REPORT_JSON, (const char *[]){ "\"failed_percent\": 62.5", "\"worse\": \"was weak\"", NULL });
	run.verdict = VERDICT_HELD;
	run.reason = "2 strong, 0 weak, 1 unknown";
	expect_sentence(&run, "Held: 2 strong, 0 weak, 1 unknown.");
}

Test(report, dependencies_compared)
{
	struct dependency_record before[] = { dependency("model", "strong", NULL), dependency("vectors", "weak", NULL) };
	struct dependency_record now[] = { dependency("model", "weak", NULL), dependency("vectors", "strong", "was weak"),
					   dependency("new", "strong", "is new") };
	struct findings_run a = { .dependencies = before, .dependencies_count = 2 };
	struct findings_run b = { .dependencies = now, .dependencies_count = 3 };
	static const char *const wanted[] = { "model port 80", "better", "vectors port 80", "new port 80", "worse" };
	FILE *out = fopen("out", "w");
	char *text;

	report_compare(&a, &b, false, out);
	fclose(out);
	text = file_text("out");
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		cr_expect(strstr(text, wanted[i]), "'%s' in:\n%s", wanted[i], text);
	free(text);
}

/* ---- history ---- */

Test(report, pass_rate)
{
	struct findings_run runs[8] = { 0 };
	struct history_sums sums;

	for (size_t i = 0; i < 8; i++) {
		runs[i].id = (int64_t)(8 - i);
		runs[i].experiment = i < 6 ? "a" : "b";
		runs[i].verdict = (enum verdict)(i < VERDICT_COUNT ? i : VERDICT_HELD);
	}
	runs[2].open = true;
	sums = history_sum(runs, 8, NULL);
	cr_expect_eq(sums.runs, 8);
	cr_expect_eq(history_pass_rate(&sums), 50); /* 2 held, 1 weakness, 1 aborted */
	cr_expect_eq(sums.newest_open, 6);
	cr_expect_eq(sums.last, VERDICT_RUNNING);
	sums = history_sum(runs, 8, "b");
	cr_expect_eq(history_pass_rate(&sums), 100);
	sums = history_sum(runs, 8, "c");
	cr_expect(isnan(history_pass_rate(&sums)));
}
