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
#include "user/experiment/trials.h"
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

/* ---- for people ---- */

enum {
	NAME,
	PORT,
	STRENGTH,
	DOWN,
	SLOW,
	RANDOM,
	WORSE,
	COLUMNS,
};

static const struct column columns[COLUMNS] = {
	[NAME] = { "DEPENDENCY", NULL, CELL_TEXT, false },   [PORT] = { "PORT", NULL, CELL_COUNT, false },
	[STRENGTH] = { "STRENGTH", NULL, CELL_TEXT, false }, [DOWN] = { "DOWN", NULL, CELL_TEXT, false },
	[SLOW] = { "SLOW", NULL, CELL_TEXT, false },         [RANDOM] = { "RANDOM", NULL, CELL_TEXT, false },
	[WORSE] = { "BEFORE", NULL, CELL_TEXT, false },
};

/* "fails: 60 %", "slow: 2.1 s", "same" */
static void trial_cell(struct table *table, size_t column, const struct trial *trial)
{
	const struct robust_verdict *v = &trial->verdict;
	char value[64], text[128];
	bool told = trial->done && trial->injected;

	snprintf(text, sizeof(text), "%s", trial_words(trial));
	if (told && v->change == ROBUST_FAILS) {
		value_words(value, sizeof(value), v->failed * 100, "%");
		snprintf(text, sizeof(text), "fails: %s", value);
	} else if (told && v->change == ROBUST_SLOW) {
		value_words(value, sizeof(value), v->latency_ms, "ms");
		snprintf(text, sizeof(text), "slow: %s", value);
	}
	table_text(table, column, text);
}

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

static void print_result(const struct trials_result *result, const struct known *known)
{
	struct table *table = table_new(columns, COLUMNS);
	char failed[64], latency[64], limit[64];

	value_words(failed, sizeof(failed), result->normal.failed * 100, "%");
	value_words(latency, sizeof(latency), result->normal.median_ms, "ms");
	value_words(limit, sizeof(limit), result->normal.latency_ms, "ms");
	printf("normal: at most %s fail, %s, and up to %s by chance; looked at in windows of %.3g s\n", failed, latency,
	       limit, result->window_s);
	for (size_t i = 0; i < result->tested.count; i++) {
		const struct tested *one = &result->tested.list[i];

		table_row(table);
		table_text(table, NAME, one->name);
		table_count(table, PORT, one->port);
		table_text(table, STRENGTH, strength_names[tested_strength(one)]);
		for (size_t b = 0; b < BREAKAGE_COUNT; b++)
			trial_cell(table, DOWN + b, &one->trials[b]);
		table_text(table, WORSE, known ? known_worse(known, one) : NULL);
	}
	table_print(table, stdout);
	table_free(table);
	print_notes(result);
}

/* ---- for programs ---- */

static void trial_json(struct json *json, const char *name, const struct trial *trial)
{
	json_open_object(json, name);
	json_text(json, "change", trial_words(trial));
	json_count(json, "injected", trial->injected);
	if (trial->done && trial->injected) {
		json_number(json, "failed_percent", trial->verdict.failed * 100);
		json_number(json, "latency_ms", trial->verdict.latency_ms);
		json_number(json, "chance", trial->verdict.chance);
	}
	json_text(json, "cannot", trial->cannot);
	json_close_object(json);
}

static void strength_json(struct json *json, const struct tested_list *tested, const struct known *known)
{
	json_open_array(json, "dependencies");
	for (size_t i = 0; i < tested->count; i++) {
		const struct tested *one = &tested->list[i];
		const char *worse = known ? known_worse(known, one) : NULL;

		json_open_object(json, NULL);
		json_text(json, "name", one->name);
		json_count(json, "port", one->port);
		json_text(json, "strength", strength_names[tested_strength(one)]);
		for (size_t b = 0; b < BREAKAGE_COUNT; b++)
			trial_json(json, breakage_names[b], &one->trials[b]);
		if (worse)
			json_text(json, "worse", worse);
		else
			json_null(json, "worse");
		json_close_object(json);
	}
	json_close_array(json);
}

static void print_json(const struct trials_result *result, const struct known *known, const char *failed, int code)
{
	struct json json;

	json_begin(&json, stdout, false);
	json_open_object(&json, NULL);
	json_open_object(&json, "normal");
	json_count(&json, "requests", result->normal.attempts);
	json_number(&json, "failed_percent", result->normal.failed * 100);
	json_number(&json, "latency_ms", result->normal.median_ms);
	json_number(&json, "latency_limit_ms", result->normal.latency_ms);
	json_number(&json, "window_s", result->window_s);
	json_close_object(&json);
	strength_json(&json, &result->tested, known);
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
	const char *who, *environment, *policy, *compare, *save;
};

static size_t count_worse(const struct trials_result *result, const struct known *known)
{
	size_t count = 0;

	for (size_t i = 0; known && i < result->tested.count; i++)
		count += known_worse(known, &result->tested.list[i]) != NULL;
	return count;
}

static int tell(const struct asked *asked, const struct trials_result *result, const struct known *known)
{
	size_t worse = count_worse(result, known);
	int code = result->aborted ? EXIT_ABORTED : worse ? EXIT_WEAKNESS : EXIT_DONE;
	char failed[320] = "";
	struct error err;

	if (result->aborted)
		snprintf(failed, sizeof(failed), "aborted: %s", result->why);
	else if (worse)
		snprintf(failed, sizeof(failed), "%zu of the dependencies matter%s now, and did not in %s", worse,
			 worse == 1 ? "s" : "", asked->compare);
	if (options_json)
		print_json(result, known, failed[0] ? failed : NULL, code);
	else
		print_result(result, known);
	if (!result->aborted && asked->save && strength_write(asked->save, &result->tested, &err) < 0)
		return log_error(&err);
	return code && !options_json ? log_fail(code, NULL, "%s", failed) : code;
}

static int for_real(struct asked *asked, const struct policy *policy)
{
	struct trials_result result = { 0 };
	struct known *known = NULL;
	struct error err;
	int code;

	asked->options.policy = policy;
	if (asked->compare && known_read(asked->compare, &known, &err) < 0)
		return log_error(&err);
	if (check_nothing_loaded(&err) < 0 || (trials_run(&asked->options, &result, &err) < 0 && !result.aborted))
		code = log_error(&err);
	else
		code = tell(asked, &result, known);
	trials_free(&result);
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
