// SPDX-License-Identifier: GPL-2.0-only
/*
 * A run as JUnit's XML, in the form that Jenkins and GitLab read: a testsuite, and a testcase of each hypothesis, or of each
 * dependency that was tested: one that has become strong fails. A run
 * without a verdict on its hypotheses gets one more testcase that says why, so that it never looks like a success.
 */
#include <math.h>
#include <string.h>
#include <time.h>

#include "user/findings/report_internal.h"

struct sums {
	size_t tests, failures, errors, skipped;
};

static bool has_verdict_case(const struct findings_run *run)
{
	return run->verdict != VERDICT_HELD && run->verdict != VERDICT_WEAKNESS;
}

static bool is_unknown(const struct dependency_record *dependency)
{
	return !dependency->worse && strcmp(dependency->strength, "unknown") == 0;
}

static struct sums count(const struct findings_run *run)
{
	struct sums sums = {
		.tests = run->hypotheses_count + run->dependencies_count + has_verdict_case(run),
	};

	for (size_t i = 0; i < run->dependencies_count; i++) {
		sums.failures += run->dependencies[i].worse != NULL;
		sums.skipped += is_unknown(&run->dependencies[i]);
	}

	for (size_t i = 0; i < run->hypotheses_count; i++) {
		sums.failures += run->hypotheses[i].outcome == OUTCOME_FAILED;
		sums.skipped += run->hypotheses[i].outcome == OUTCOME_UNTESTED;
	}
	if (run->verdict == VERDICT_SKIPPED)
		sums.skipped++;
	else if (run->verdict == VERDICT_ABORTED)
		sums.failures++;
	else if (has_verdict_case(run))
		sums.errors++;
	return sums;
}

static void attribute(FILE *out, const char *name, const char *value)
{
	fprintf(out, " %s=\"", name);
	report_markup(out, value);
	putc('"', out);
}

static void property(FILE *out, const char *name, const char *value)
{
	if (!value || !value[0])
		return;
	fputs("      <property", out);
	attribute(out, "name", name);
	attribute(out, "value", value);
	fputs("/>\n", out);
}

static void begin_case(const struct findings_run *run, const char *name, FILE *out)
{
	fputs("    <testcase", out);
	attribute(out, "classname", run->experiment);
	attribute(out, "name", name);
	fputs(" time=\"0\"", out);
}

static void hypothesis_case(const struct findings_run *run, const struct hypothesis *hypothesis, FILE *out)
{
	char promise[320], name[400], actual[64], message[512];

	report_promise(hypothesis, promise, sizeof(promise));
	report_value(actual, sizeof(actual), hypothesis->actual, hypothesis->unit);
	snprintf(name, sizeof(name), "%s: %s", when_names[hypothesis->when], promise);
	snprintf(message, sizeof(message), "%s %s, was %s%s%s",
		 hypothesis->when == WHEN_ABORT ? "the limit to abort at came up:" : "expected", promise, actual,
		 hypothesis->detail ? ", " : "", hypothesis->detail ? hypothesis->detail : "");
	begin_case(run, name, out);
	if (hypothesis->outcome == OUTCOME_HELD) {
		fputs("/>\n", out);
		return;
	}
	fprintf(out, ">\n      <%s", hypothesis->outcome == OUTCOME_FAILED ? "failure" : "skipped");
	attribute(out, "message", hypothesis->outcome == OUTCOME_FAILED ? message : "not tested");
	if (hypothesis->outcome == OUTCOME_FAILED)
		attribute(out, "type", "weakness");
	fputs("/>\n    </testcase>\n", out);
}

static void dependency_case(const struct findings_run *run, const struct dependency_record *dependency, FILE *out)
{
	char name[320], message[400];

	snprintf(name, sizeof(name), "%s port %u", dependency->name, dependency->port);
	snprintf(message, sizeof(message), "%s is %s%s%s", name, dependency->strength,
		 dependency->worse ? ", and " : "", dependency->worse ? dependency->worse : "");
	begin_case(run, name, out);
	if (!dependency->worse && !is_unknown(dependency)) {
		fputs("/>\n", out);
		return;
	}
	fprintf(out, ">\n      <%s", dependency->worse ? "failure" : "skipped");
	attribute(out, "message", message);
	if (dependency->worse)
		attribute(out, "type", "weakness");
	fputs("/>\n    </testcase>\n", out);
}

static void verdict_case(const struct findings_run *run, FILE *out)
{
	static const char *const elements[VERDICT_COUNT] = { "error", "", "", "failure", "skipped", "error", "error" };
	char sentence[1024];

	report_sentence(run, sentence, sizeof(sentence));
	begin_case(run, "verdict", out);
	fprintf(out, ">\n      <%s", elements[run->verdict]);
	attribute(out, "message", sentence);
	if (run->verdict != VERDICT_SKIPPED)
		attribute(out, "type", verdict_names[run->verdict]);
	fputs("/>\n    </testcase>\n", out);
}

static void print_advice(void *to, const char *sentence)
{
	report_markup(to, sentence);
	putc('\n', to);
}

static void begin_suite(const struct findings_run *run, FILE *out)
{
	struct sums sums = count(run);
	time_t started = (time_t)run->started_s;
	char when[64] = "1970-01-01T00:00:00";
	struct tm utc;

	if (gmtime_r(&started, &utc))
		strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &utc);
	fputs("  <testsuite", out);
	attribute(out, "name", run->experiment);
	fprintf(out, " tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" skipped=\"%zu\" time=\"%.3f\" timestamp=\"%s\"",
		sums.tests, sums.failures, sums.errors, sums.skipped, run->length_ms / 1e3, when);
	attribute(out, "hostname", run->host);
	fputs(">\n", out);
}

void report_junit(const struct findings_run *run, FILE *out)
{
	char id[32], sentence[1024];

	snprintf(id, sizeof(id), "%lld", (long long)run->id);
	report_sentence(run, sentence, sizeof(sentence));
	fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n", out);
	begin_suite(run, out);
	fputs("    <properties>\n", out);
	property(out, "run", id);
	property(out, "verdict", verdict_names[run->verdict]);
	property(out, "title", run->title);
	property(out, "environment", run->environment);
	property(out, "kernel", run->kernel);
	property(out, "chaosbpf", run->version);
	fputs("    </properties>\n", out);
	for (size_t i = 0; i < run->hypotheses_count; i++)
		hypothesis_case(run, &run->hypotheses[i], out);
	for (size_t i = 0; i < run->dependencies_count; i++)
		dependency_case(run, &run->dependencies[i], out);
	if (has_verdict_case(run))
		verdict_case(run, out);
	fputs("    <system-out>", out);
	report_markup(out, sentence);
	putc('\n', out);
	report_advice(run, print_advice, out);
	fputs("</system-out>\n  </testsuite>\n</testsuites>\n", out);
}
