// SPDX-License-Identifier: GPL-2.0-only
/* What a run amounts to, in words: the verdict in one sentence, and what to improve. */
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "user/base/output.h"
#include "user/findings/report_internal.h"

const char *const report_when[WHEN_COUNT] = {
	[WHEN_STEADY_BEFORE] = "before anything was broken",
	[WHEN_DURING] = "while it was broken",
	[WHEN_STEADY_AFTER] = "after it was repaired",
	[WHEN_RECOVERY] = "recovering",
	[WHEN_ABORT] = "the limit to abort at",
};

void report_value(char *buf, size_t size, double value, const char *unit)
{
	int decimals = fabs(value) >= 100 ? 0 : fabs(value) >= 10 ? 1 : 2;
	char number[352], *end;

	if (!isfinite(value)) {
		snprintf(buf, size, "-");
		return;
	}
	if (strcmp(unit, "ms") == 0 && fabs(value) >= 10000) {
		report_value(buf, size, value / 1000, "s");
		return;
	}
	/* 99.96 % is not 100 %: what was promised hangs on it. */
	if (strcmp(unit, "%") == 0)
		decimals = 2;
	snprintf(number, sizeof(number), "%.*f", decimals, value);
	end = number + strlen(number) - 1;
	while (strchr(number, '.') && (*end == '0' || *end == '.')) {
		bool point = *end == '.';

		*end-- = '\0';
		if (point)
			break;
	}
	snprintf(buf, size, "%s%s%s", number, unit[0] && unit[0] != '/' ? " " : "", unit);
}

void report_promise(const struct hypothesis *hypothesis, char *buf, size_t size)
{
	char threshold[64];

	report_value(threshold, sizeof(threshold), hypothesis->threshold, hypothesis->unit);
	snprintf(buf, size, "%s %s %s", hypothesis->measure, hypothesis->comparison, threshold);
}

const char *report_outcome(const struct hypothesis *hypothesis)
{
	static const char *const outcomes[OUTCOME_COUNT] = { "not tested", "held", "failed" };
	static const char *const limits[OUTCOME_COUNT] = { "not tested", "never came up", "came up" };

	return (hypothesis->when == WHEN_ABORT ? limits : outcomes)[hypothesis->outcome];
}

void report_clock(char *buf, size_t size, double wall_s)
{
	time_t whole = (time_t)wall_s;
	struct tm local;

	if (!localtime_r(&whole, &local) || !strftime(buf, size, "%Y-%m-%d %H:%M:%S %Z", &local))
		snprintf(buf, size, "-");
}

void report_offset(char *buf, size_t size, uint32_t at_ms)
{
	unsigned int seconds = at_ms / 1000;

	if (seconds >= 3600)
		snprintf(buf, size, "%u:%02u:%02u", seconds / 3600, seconds / 60 % 60, seconds % 60);
	else
		snprintf(buf, size, "%u:%02u.%u", seconds / 60, seconds % 60, at_ms % 1000 / 100);
}

bool report_forbidden(uint32_t c)
{
	return (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7f && c < 0xa0) || (c >= 0x202a && c <= 0x202e) ||
	       (c >= 0x2066 && c <= 0x2069) || (c & 0xfffe) == 0xfffe;
}

void report_markup(FILE *out, const char *text)
{
	while (*text) {
		uint32_t c;
		size_t len = utf8_read(text, &c);

		if (!len || report_forbidden(c))
			fputs("\xef\xbf\xbd", out); /* U+FFFD */
		else if (strchr("&<>\"'`", (int)c < 0x80 ? (int)c : 'a'))
			fprintf(out, "&#%u;", (unsigned int)c);
		else
			fwrite(text, 1, len, out);
		text += len ? len : 1;
	}
}

/* ---- the verdict ---- */

/* The hypothesis that matters most: what failed while it was broken, then what failed after, then before. */
static const struct hypothesis *worst(const struct findings_run *run)
{
	static const enum hypothesis_when order[] = { WHEN_ABORT, WHEN_DURING, WHEN_RECOVERY, WHEN_STEADY_AFTER,
						      WHEN_STEADY_BEFORE };

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		for (size_t k = 0; k < run->hypotheses_count; k++) {
			if (run->hypotheses[k].when == order[i] && run->hypotheses[k].outcome == OUTCOME_FAILED)
				return &run->hypotheses[k];
		}
	}
	return NULL;
}

/* ">=" as a person says it. */
static const char *comparison_words(const char *comparison)
{
	static const struct {
		const char *comparison, *words;
	} words[] = { { ">=", "at least" }, { "<=", "at most" }, { ">", "more than" }, { "<", "less than" } };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(comparison, words[i].comparison) == 0)
			return words[i].words;
	}
	return "exactly";
}

/* "only 76.4 % of ask succeeded", "p99 of ask was 4.8 s" */
static void actual_words(const struct hypothesis *hypothesis, char *buf, size_t size)
{
	const char *point = strrchr(hypothesis->measure, '.');
	int name = point ? (int)(point - hypothesis->measure) : 0;
	char actual[64];

	report_value(actual, sizeof(actual), hypothesis->actual, hypothesis->unit);
	if (isnan(hypothesis->actual))
		snprintf(buf, size, "there was no %s to measure", hypothesis->measure);
	else if (point && strcmp(point, ".success") == 0)
		snprintf(buf, size, "only %s of %.*s succeeded", actual, name, hypothesis->measure);
	else if (point)
		snprintf(buf, size, "%s of %.*s was %s", point + 1, name, hypothesis->measure, actual);
	else
		snprintf(buf, size, "%s was %s", hypothesis->measure, actual);
}

static void failure_words(const struct hypothesis *hypothesis, char *buf, size_t size)
{
	char actual[400], promise[320], threshold[64];

	actual_words(hypothesis, actual, sizeof(actual));
	report_promise(hypothesis, promise, sizeof(promise));
	report_value(threshold, sizeof(threshold), hypothesis->threshold, hypothesis->unit);
	if (hypothesis->when == WHEN_ABORT)
		snprintf(buf, size, "%s came up, the limit to abort at", promise);
	else if (hypothesis->when == WHEN_RECOVERY && isnan(hypothesis->actual))
		snprintf(buf, size, "it did not recover, and %s %s was promised",
			 comparison_words(hypothesis->comparison), threshold);
	else if (hypothesis->when == WHEN_RECOVERY) {
		report_value(actual, sizeof(actual), hypothesis->actual, hypothesis->unit);
		snprintf(buf, size, "recovering took %s, and %s %s was promised", actual,
			 comparison_words(hypothesis->comparison), threshold);
	} else {
		snprintf(buf, size, "%s %s, and %s %s was promised", report_when[hypothesis->when], actual,
			 comparison_words(hypothesis->comparison), threshold);
	}
}

static size_t failures(const struct findings_run *run)
{
	size_t count = 0;

	for (size_t i = 0; i < run->hypotheses_count; i++)
		count += run->hypotheses[i].outcome == OUTCOME_FAILED;
	return count;
}

static void weakness_sentence(const struct findings_run *run, char *buf, size_t size)
{
	const struct hypothesis *hypothesis = worst(run);
	char words[1024], more[64] = "";

	if (!hypothesis) {
		snprintf(buf, size, "Weakness found: %s.", run->reason[0] ? run->reason : "see below");
		return;
	}
	failure_words(hypothesis, words, sizeof(words));
	if (failures(run) > 1)
		snprintf(more, sizeof(more), "; %zu promises did not hold in all", failures(run));
	snprintf(buf, size, "Weakness found: %s%s.", words, more);
}

void report_sentence(const struct findings_run *run, char *buf, size_t size)
{
	const char *reason = run->reason[0] ? run->reason : "no reason was kept";

	switch (run->verdict) {
	case VERDICT_HELD:
		if (run->dependencies_count)
			snprintf(buf, size, "Held: %s.", reason);
		else
			snprintf(buf, size, "Held: the service kept every promise while it was broken and after it.");
		break;
	case VERDICT_WEAKNESS:
		weakness_sentence(run, buf, size);
		break;
	case VERDICT_ABORTED:
		snprintf(buf, size, "Aborted and rolled back: %s.", reason);
		break;
	case VERDICT_SKIPPED:
		snprintf(buf, size, "Skipped, nothing was broken: %s.", reason);
		break;
	case VERDICT_RUNNING:
		snprintf(buf, size, "Running: in phase %s.", phase_names[run->phase]);
		break;
	case VERDICT_INTERRUPTED:
		snprintf(buf, size, "Interrupted in phase %s: its process was gone before there was a verdict.",
			 phase_names[run->phase]);
		break;
	default:
		snprintf(buf, size, "Error: %s.", reason);
	}
}

/* ---- what to improve ---- */

struct adviser {
	const struct findings_run *run;
	void (*say)(void *to, const char *sentence);
	void *to;
	bool said[WHEN_COUNT][2]; /* general advice once: of success, of latency */
};

static void __attribute__((format(printf, 2, 3))) say(struct adviser *adviser, const char *fmt, ...)
{
	char sentence[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(sentence, sizeof(sentence), fmt, ap);
	va_end(ap);
	adviser->say(adviser->to, sentence);
}

static bool is_latency(const struct hypothesis *hypothesis)
{
	return strcmp(hypothesis->unit, "ms") == 0 || strcmp(hypothesis->unit, "s") == 0;
}

static const char *what_helps(const struct hypothesis *hypothesis)
{
	switch (hypothesis->when) {
	case WHEN_STEADY_BEFORE:
		return "This is not the fault's doing: repair the service or correct `steady`, then run again.";
	case WHEN_DURING:
		if (is_latency(hypothesis))
			return "Answers come late: give the call a timeout well below the promise, open the breaker "
			       "after a "
			       "few failures, retry less, and measure the fallback under full load.";
		return "Requests fail with the dependency: catch its errors and timeouts (also those of the "
		       "transport), "
		       "with a timeout below the caller's own, and answer from a fallback.";
	case WHEN_STEADY_AFTER:
		return "The service does not come back by itself: look for pools that keep dead connections, breakers "
		       "that stay open, queues that are still full, and caches that were emptied.";
	case WHEN_RECOVERY:
		return "Recovering takes too long: shorten the breaker's pause and the longest pause between retries, "
		       "and "
		       "let pools test connections before they are used.";
	default:
		return "There is no working fallback for this dependency: without it the service is down.";
	}
}

/* The probe that a measure is of: "ask" of "ask.p99". */
static void probe_of(const char *measure, char *probe, size_t size)
{
	snprintf(probe, size, "%.*s", (int)strcspn(measure, "."), measure);
}

static void say_error(struct adviser *adviser, const struct hypothesis *hypothesis)
{
	char probe[256];
	size_t count, errors;
	const char *error;

	if (hypothesis->when != WHEN_DURING && hypothesis->when != WHEN_ABORT)
		return;
	probe_of(hypothesis->measure, probe, sizeof(probe));
	error = report_commonest_error(adviser->run, probe, &count, &errors);
	if (error)
		say(adviser, "What callers of %s saw while it was broken: \"%s\" (%zu of %zu failures).", probe, error,
		    count, errors);
}

static void advise(struct adviser *adviser, const struct hypothesis *hypothesis)
{
	bool *said = &adviser->said[hypothesis->when][is_latency(hypothesis)];
	char words[1024];

	failure_words(hypothesis, words, sizeof(words));
	words[0] = words[0] >= 'a' && words[0] <= 'z' && strncmp(words, hypothesis->measure, 3) != 0
			   ? (char)(words[0] - 'a' + 'A')
			   : words[0];
	say(adviser, "%s.%s%s", words, *said ? "" : " ", *said ? "" : what_helps(hypothesis));
	if (!*said)
		say_error(adviser, hypothesis);
	*said = true;
}

static void advise_dependency(struct adviser *adviser, const struct dependency_record *dependency)
{
	if (dependency->worse)
		say(adviser,
		    "%s port %u has become one that the service cannot do without (%s): look for what has changed "
		    "since, and "
		    "answer from a fallback.",
		    dependency->name, dependency->port, dependency->worse);
	else if (strcmp(dependency->strength, "unknown") == 0)
		say(adviser,
		    "Of %s port %u nothing is known: it was not called, or too seldom, while it was broken. Give it "
		    "more "
		    "time with --each.",
		    dependency->name, dependency->port);
}

/* A fault that nobody met proves nothing. What was tested dependency by dependency is told so. */
static void advise_rules(struct adviser *adviser)
{
	if (adviser->run->dependencies_count)
		return;
	for (size_t i = 0; i < adviser->run->rules_count; i++) {
		const struct rule_record *rule = &adviser->run->rules[i];

		if (rule->injected)
			continue;
		if (rule->matched)
			say(adviser,
			    "Rule %s injected nothing: it came up %llu times and was skipped each time. The verdict "
			    "says nothing about it.",
			    rule->rule, (unsigned long long)rule->matched);
		else
			say(adviser,
			    "Rule %s injected nothing: nothing that it names was used. The verdict says nothing "
			    "about it; chaosbpf check says what it would hit.",
			    rule->rule);
	}
}

void report_advice(const struct findings_run *run, void (*say_to)(void *to, const char *sentence), void *to)
{
	struct adviser adviser = { .run = run, .say = say_to, .to = to };

	for (size_t i = 0; i < run->hypotheses_count; i++) {
		if (run->hypotheses[i].outcome == OUTCOME_FAILED)
			advise(&adviser, &run->hypotheses[i]);
	}
	for (size_t i = 0; i < run->dependencies_count; i++)
		advise_dependency(&adviser, &run->dependencies[i]);
	advise_rules(&adviser);
}
