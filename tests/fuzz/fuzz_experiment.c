// SPDX-License-Identifier: GPL-2.0-only
/*
 * Any bytes as an experiment: the parser says no with a place in the file, or gives an experiment that keeps the promises of
 * user/experiment/experiment.h and whose plan can be printed. The first byte chooses: 'P' makes the rest a policy, 'W' a file of
 * webhooks. No file that it names is there, but for what the working directory has.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/require.h"
#include "user/experiment/policy.h"
#include "user/experiment/run.h"
#include "user/experiment/webhook_internal.h"

static void require_error(const struct error *err)
{
	REQUIRE(err->exit == EXIT_USAGE);
	REQUIRE(err->text[0] != '\0');
	for (const char *c = err->text; *c; c++)
		REQUIRE((unsigned char)*c >= 0x20 && *c != 0x7f);
}

static void require_place(const struct error *err)
{
	unsigned int line = 0, column = 0;
	int end = 0;

	REQUIRE(sscanf(err->text, "f:%u:%u: %n", &line, &column, &end) == 2);
	REQUIRE(line > 0 && column > 0 && end > 0 && err->text[end] != '\0');
}

static void require_conditions(const struct experiment *e, const struct conditions *conditions)
{
	char text[256];

	REQUIRE(conditions->count <= EXPERIMENT_MAX_CONDITIONS);
	for (size_t i = 0; i < conditions->count; i++) {
		REQUIRE(conditions->list[i].probe < e->probes_count);
		REQUIRE(conditions->list[i].measure < MEASURE_COUNT);
		REQUIRE(conditions->list[i].comparison < COMPARISON_COUNT);
		condition_text(e, &conditions->list[i], text, sizeof(text));
		REQUIRE(text[0] != '\0');
	}
}

static void require_probe(const struct experiment_probe *probe)
{
	REQUIRE(probe->name[0] != '\0');
	if (probe->kind == PROBE_LOAD)
		return;
	REQUIRE(probe->every_ns >= EXPERIMENT_MIN_EVERY_NS && probe->every_ns <= EXPERIMENT_MAX_PHASE_NS);
	REQUIRE(probe->timeout_ns >= 1000000);
	REQUIRE(probe->in_flight >= 1 && probe->in_flight <= EXPERIMENT_MAX_IN_FLIGHT);
	REQUIRE(probe->kind != PROBE_EXEC || (probe->command && probe->command[0]));
	REQUIRE(probe->kind != PROBE_TCP || (probe->host && probe->port));
	REQUIRE((probe->kind != PROBE_HTTP && probe->kind != PROBE_PROMETHEUS) || probe->request.url);
}

static void require_step(const struct experiment *e, const struct step *step)
{
	REQUIRE(step->kind < STEP_COUNT && step->title[0] != '\0');
	REQUIRE(step->kind != STEP_RULES || (step->rules && step->rules->count));
	REQUIRE(step->kind != STEP_LOAD ||
		(step->rate > 0 && step->for_ns && step->at_once <= EXPERIMENT_MAX_IN_FLIGHT));
	REQUIRE(step->kind != STEP_LOAD || step->probe == SIZE_MAX || step->probe < e->probes_count);
	REQUIRE(step->request.characters <= EXPERIMENT_MAX_CHARACTERS);
}

static void experiment_one(const uint8_t *data, size_t size)
{
	const struct experiment_options options = { .endpoints = "rules/presets/endpoints.yaml" };
	struct experiment *e;
	struct error err = { 0 };
	char *plan;

	if (experiment_parse("f", (const char *)data, size, &options, &e, &err)) {
		REQUIRE(e == NULL);
		require_error(&err);
		return;
	}
	REQUIRE(e->name[0] && e->environment[0] && e->probes_count && e->steps_count);
	REQUIRE(e->steady.count + e->during.count > 0);
	REQUIRE(experiment_longest_ns(e) <= EXPERIMENT_MAX_PHASE_NS);
	for (size_t i = 0; i < e->probes_count; i++)
		require_probe(&e->probes[i]);
	for (size_t i = 0; i < e->steps_count; i++)
		require_step(e, &e->steps[i]);
	require_conditions(e, &e->steady);
	require_conditions(e, &e->during);
	require_conditions(e, &e->abort);
	plan = plan_document(e);
	REQUIRE(plan);
	free(plan);
	experiment_free(e);
}

static void policy_one(const uint8_t *data, size_t size)
{
	struct policy *policy;
	struct error err = { 0 };

	if (policy_parse("f", (const char *)data, size, &policy, &err)) {
		REQUIRE(policy == NULL);
		require_error(&err);
		require_place(&err);
	}
	policy_free(policy);
}

/* What is posted for a run of which next to nothing is known. */
static void require_webhook(const struct webhook *webhook)
{
	static char word[] = "staging";
	const struct findings_run run = {
		.experiment = word,
		.title = word,
		.environment = word,
		.operator= word,
		.host = word,
		.reason = word,
		.kernel = word,
		.version = word,
		.file = word,
		.verdict = VERDICT_WEAKNESS,
	};
	char *body;

	REQUIRE(webhook->shape < WEBHOOK_SHAPE_COUNT && webhook->authorization < WEBHOOK_AUTHORIZATION_COUNT);
	REQUIRE(strncmp(webhook->url.value, "http", 4) == 0 && !strpbrk(webhook->url.value, "\r\n"));
	REQUIRE(webhook->environments_count <= WEBHOOK_MAX);
	REQUIRE(webhook->shape != WEBHOOK_JIRA || webhook->project.text);
	body = webhook_body(webhook, &run);
	REQUIRE(body);
	free(body);
	webhook_wants(webhook, &run);
}

static void webhooks_one(const uint8_t *data, size_t size)
{
	struct webhooks *webhooks;
	struct error err = { 0 };

	if (webhook_file_parse("f", (const char *)data, size, &webhooks, &err)) {
		REQUIRE(webhooks == NULL);
		require_error(&err);
		require_place(&err);
		return;
	}
	for (size_t i = 0; i < webhooks->count; i++)
		require_webhook(&webhooks->list[i]);
	webhooks_free(webhooks);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	return setenv("URL", "https://example.com/hook", 1); /* the secret that a file may name */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size && data[0] == 'P')
		policy_one(data + 1, size - 1);
	else if (size && data[0] == 'W')
		webhooks_one(data + 1, size - 1);
	else
		experiment_one(data, size);
	return 0;
}
