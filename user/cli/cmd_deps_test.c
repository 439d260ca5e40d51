// SPDX-License-Identifier: GPL-2.0-only
/* `chaosbpf deps test`: which dependencies are strong, which weak. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "user/base/clock.h"
#include "user/base/log.h"
#include "user/cli/cmd.h"
#include "user/cli/options.h"
#include "user/experiment/experiment.h"
#include "user/experiment/trials_record.h"
#include "user/findings/dependency_record.h"
#include "user/rules/rules.h"

#define BASELINE_NS (180 * NS_PER_S)
#define EACH_NS     (60 * NS_PER_S)
#define GAP_NS      (30 * NS_PER_S)
#define DELAY_NS    (2 * NS_PER_S)
#define LEAST_NS    (6 * NS_PER_S) /* of what is broken: a dozen looks at it */

static void add_word(void *arg, const char *name, const char *argument)
{
	inject_add(arg, name, argument);
}

/* ---- what was found ---- */

static void print_notes(const struct trials_result *result)
{
	for (size_t i = 0; i < result->tested.count; i++) {
		const struct tested *one = &result->tested.list[i];

		for (size_t b = 0; b < BREAKAGE_COUNT; b++) {
			if (one->trials[b].cannot[0])
				log_note("%s port %u, %s: %s", one->name, one->port, breakage_names[b],
					 one->trials[b].cannot);
		}
	}
}

static void print_result(const struct trials_result *result, const struct dependency_record *records)
{
	struct table *table = dependencies_table(records, result->tested.count);
	char failed[64], latency[64], limit[64];

	value_words(failed, sizeof(failed), result->normal.failed * 100, "%");
	value_words(latency, sizeof(latency), result->normal.median_ms, "ms");
	value_words(limit, sizeof(limit), result->normal.latency_ms, "ms");
	if (result->window_s > 0) /* else it was ended before anything was known */
		printf("normal: at most %s fail, %s, and up to %s by chance; looked at in windows of %.3g s\n", failed,
		       latency, limit, result->window_s);
	table_print(table, stdout);
	table_free(table);
	print_notes(result);
}

static void print_json(const struct trials_result *result, const struct dependency_record *records, const char *failed,
		       int64_t id, int code)
{
	struct json json;

	json_begin(&json, stdout, false);
	json_open_object(&json, NULL);
	if (id)
		json_count(&json, "id", (uint64_t)id);
	else
		json_null(&json, "id");
	json_open_object(&json, "normal");
	json_count(&json, "requests", result->normal.attempts);
	json_number(&json, "failed_percent", result->normal.failed * 100);
	json_number(&json, "latency_ms", result->normal.median_ms);
	json_number(&json, "latency_limit_ms", result->normal.latency_ms);
	json_number(&json, "window_s", result->window_s);
	json_close_object(&json);
	dependencies_json(&json, "dependencies", records, result->tested.count);
	if (failed)
		json_text(&json, "failed", failed);
	else
		json_null(&json, "failed");
	json_count(&json, "exit", (uint64_t)code);
	json_close_object(&json);
	json_end(&json);
}

/* ---- the command ---- */

struct asked {
	struct trials_options options;
	const char *who, *environment, *policy, *database, *webhooks, *compare, *save;
};

/* How it ended, as it is told and kept. */
struct ending {
	enum verdict verdict;
	int code;
	char reason[400];
};

static struct dependency_record *make_records(const struct trials_result *result, const struct known *known)
{
	struct dependency_record *records = calloc(result->tested.count + 1, sizeof(*records));

	for (size_t i = 0; records && i < result->tested.count; i++) {
		const struct tested *tested = &result->tested.list[i];

		records[i] = tested_record(tested, known ? known_worse(known, tested) : NULL);
	}
	return records;
}

/* "1 strong, 2 weak, 1 unknown, and none matters that did not in known.json" */
static void count_words(const struct asked *asked, const struct trials_result *result, char *buf, size_t size)
{
	size_t counts[STRENGTH_COUNT] = { 0 };

	for (size_t i = 0; i < result->tested.count; i++)
		counts[tested_strength(&result->tested.list[i])]++;
	snprintf(buf, size, "%zu strong, %zu weak, %zu unknown%s%s", counts[STRENGTH_STRONG], counts[STRENGTH_WEAK],
		 counts[STRENGTH_UNKNOWN], asked->compare ? ", and none matters that did not in " : "",
		 asked->compare ?: "");
}

static struct ending make_ending(const struct asked *asked, const struct trials_result *result,
				 const struct dependency_record *records, int ret, const struct error *err)
{
	struct ending end = { .verdict = VERDICT_HELD, .code = EXIT_DONE };
	size_t worse = 0;

	for (size_t i = 0; i < result->tested.count; i++)
		worse += records[i].worse != NULL;
	if (result->aborted) {
		end = (struct ending){ .verdict = VERDICT_ABORTED, .code = EXIT_ABORTED };
		snprintf(end.reason, sizeof(end.reason), "%s", result->why);
	} else if (ret < 0) {
		end = (struct ending){ .verdict = VERDICT_ERROR, .code = err->exit };
		snprintf(end.reason, sizeof(end.reason), "%.390s", err->text);
	} else if (worse) {
		end = (struct ending){ .verdict = VERDICT_WEAKNESS, .code = EXIT_WEAKNESS };
		snprintf(end.reason, sizeof(end.reason), "%zu of the dependencies matter%s now, and did not in %.300s",
			 worse, worse == 1 ? "s" : "", asked->compare);
	} else {
		count_words(asked, result, end.reason, sizeof(end.reason));
	}
	return end;
}

static int tell(const struct asked *asked, const struct trials_result *result, const struct dependency_record *records,
		const struct ending *end)
{
	const struct trials_record *kept = asked->options.record;
	const bool aborted = end->verdict == VERDICT_ABORTED;
	char failed[512];
	struct error err;

	snprintf(failed, sizeof(failed), "%s%s", aborted ? "aborted: " : "", end->reason);
	if (options_json)
		print_json(result, records, end->code ? failed : NULL, kept->id, end->code);
	else
		print_result(result, records);
	if (!options_json && kept->id)
		printf("run %lld: 'chaosbpf report %lld' shows it\n", (long long)kept->id, (long long)kept->id);
	if (!aborted && asked->save && strength_write(asked->save, &result->tested, &err) < 0)
		return log_error(&err);
	return end->code && !options_json ? log_fail(end->code, NULL, "%s", failed) : end->code;
}

/* With a place where it is kept, and nothing loaded. */
static int test(struct asked *asked, struct findings *findings, const struct known *known)
{
	struct trials_result result = { 0 };
	struct trials_record record;
	struct dependency_record *records;
	struct ending end;
	struct error err = { 0 };
	int ret;

	asked->options.record = &record;
	trials_record_begin(&record, findings, &asked->options);
	ret = trials_run(&asked->options, &result, &err);
	records = make_records(&result, known);
	if (!records) {
		trials_free(&result);
		return log_fail(EXIT_FAILED, NULL, "out of memory");
	}
	end = make_ending(asked, &result, records, ret, &err);
	trials_record_end(&record, &result, records, end.verdict, end.reason);
	if (end.verdict == VERDICT_ERROR)
		end.code = log_error(&err);
	else
		end.code = tell(asked, &result, records, &end);
	tell_weakness(asked->webhooks, findings_file(asked->database), end.verdict, record.id);
	free(records);
	trials_free(&result);
	return end.code;
}

static int for_real(struct asked *asked, const struct policy *policy)
{
	struct findings *findings = NULL;
	struct known *known = NULL;
	struct error err;
	int code;

	asked->options.policy = policy;
	if (asked->compare && known_read(asked->compare, &known, &err) < 0)
		return log_error(&err);
	if (findings_open(&findings, findings_file(asked->database), FINDINGS_WRITE, &err) < 0 ||
	    check_not_running(findings, &err) < 0 || check_nothing_loaded(&err) < 0)
		code = log_error(&err);
	else
		code = test(asked, findings, known);
	findings_close(findings);
	known_free(known);
	return code;
}

static int check_asked(struct asked *asked)
{
	const char *wrong = NULL;

	if (!asked->options.words.count)
		return log_fail(EXIT_USAGE, "as in --unit rag.service", "deps test needs to know whose dependencies");
	if (asked->options.each_ns < LEAST_NS)
		wrong = "--each: at least 6s, and rather a minute";
	else if (asked->options.baseline_ns < asked->options.each_ns)
		wrong = "--baseline: at least as long as --each";
	return wrong ? log_fail(EXIT_USAGE, NULL, "%s", wrong) : 0;
}

int deps_test(int argc, char **argv)
{
	struct asked asked = {
		.options = { .baseline_ns = BASELINE_NS, .each_ns = EACH_NS, .gap_ns = GAP_NS, .delay_ns = DELAY_NS },
	};
	struct inject *words = &asked.options.words;
	const struct option_spec specs[] = {
		{ "pid", OPTION_CALL, words, add_word },
		{ "process", OPTION_CALL, words, add_word },
		{ "cgroup", OPTION_CALL, words, add_word },
		{ "container", OPTION_CALL, words, add_word },
		{ "pod", OPTION_CALL, words, add_word },
		{ "unit", OPTION_CALL, words, add_word },
		{ "user", OPTION_CALL, words, add_word },
		{ "baseline", OPTION_DURATION, &asked.options.baseline_ns, NULL },
		{ "each", OPTION_DURATION, &asked.options.each_ns, NULL },
		{ "gap", OPTION_DURATION, &asked.options.gap_ns, NULL },
		{ "delay", OPTION_DURATION, &asked.options.delay_ns, NULL },
		{ "compare", OPTION_TEXT, &asked.compare, NULL },
		{ "save", OPTION_TEXT, &asked.save, NULL },
		{ "operator", OPTION_TEXT, &asked.who, NULL },
		{ "environment", OPTION_TEXT, &asked.environment, NULL },
		{ "policy", OPTION_TEXT, &asked.policy, NULL },
		{ "database", OPTION_TEXT, &asked.database, NULL },
		{ "webhooks", OPTION_TEXT, &asked.webhooks, NULL },
		{ 0 },
	};
	struct policy *policy = NULL;
	struct error err;
	int rc = options_parse("deps test", &argc, &argv, specs);

	if (!rc)
		rc = options_operands("deps test", argc, argv, 0, 0, "nothing but options");
	rc = rc ?: check_asked(&asked);
	if (!rc && policy_load(asked.policy, &policy, &err) < 0)
		rc = log_error(&err);
	rc = rc ?: command_begin("deps");
	asked.options.environment = asked.environment ?: "test";
	asked.options.who.operator= asked.who;
	asked.options.who.now = time(NULL);
	asked.options.who.production = getenv(POLICY_PRODUCTION);
	asked.options.quiet = options_json;
	rc = rc ?: for_real(&asked, policy);
	policy_free(policy);
	inject_free(words);
	return rc;
}
