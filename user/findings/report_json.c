// SPDX-License-Identifier: GPL-2.0-only
/* A run for programs: everything that was kept. Words and keys are those of the database. */
#include <math.h>
#include <stdlib.h>

#include "user/base/output.h"
#include "user/findings/dependency_record.h"
#include "user/findings/report_internal.h"

static void text_or_null(struct json *json, const char *key, const char *text)
{
	if (text && text[0])
		json_text(json, key, text);
	else
		json_null(json, key);
}

static void write_hypotheses(const struct findings_run *run, struct json *json)
{
	json_open_array(json, "hypotheses");
	for (size_t i = 0; i < run->hypotheses_count; i++) {
		const struct hypothesis *hypothesis = &run->hypotheses[i];

		json_open_object(json, NULL);
		json_text(json, "when", when_names[hypothesis->when]);
		json_text(json, "measure", hypothesis->measure);
		json_text(json, "comparison", hypothesis->comparison);
		json_number(json, "threshold", hypothesis->threshold);
		json_text(json, "unit", hypothesis->unit);
		json_number(json, "actual", hypothesis->actual);
		if (hypothesis->outcome == OUTCOME_UNTESTED)
			json_null(json, "held");
		else
			json_bool(json, "held", hypothesis->outcome == OUTCOME_HELD);
		text_or_null(json, "detail", hypothesis->detail);
		json_close_object(json);
	}
	json_close_array(json);
}

static void write_stages(const struct findings_run *run, const char *probe, struct json *json)
{
	for (enum stage stage = 0; stage < STAGE_COUNT; stage++) {
		struct measured measured = report_measure(run, probe, report_stage(run, stage));

		json_open_object(json, stage_names[stage]);
		json_count(json, "attempts", measured.attempts);
		json_number(json, "success", measured.success);
		json_number(json, "p50_ms", measured.p50);
		json_number(json, "p90_ms", measured.p90);
		json_number(json, "p99_ms", measured.p99);
		json_close_object(json);
	}
}

static void write_probes(const struct findings_run *run, struct json *json)
{
	size_t count;
	const char **probes = report_probes(run, &count);

	json_open_array(json, "probes");
	for (size_t i = 0; i < count; i++) {
		json_open_object(json, NULL);
		json_text(json, "probe", probes[i]);
		write_stages(run, probes[i], json);
		json_close_object(json);
	}
	json_close_array(json);
	free(probes);
}

static void write_samples(const struct findings_run *run, struct json *json)
{
	json_count(json, "thinned", run->thinned);
	json_open_array(json, "samples");
	for (size_t i = 0; i < run->samples_count; i++) {
		const struct sample *sample = &run->samples[i];

		json_open_object(json, NULL);
		json_count(json, "at_ms", sample->at_ms);
		json_text(json, "probe", sample->probe);
		json_bool(json, "ok", sample->ok);
		json_number(json, "latency_ms", sample->latency_ms);
		if (sample->status)
			json_count(json, "status", (uint64_t)sample->status);
		else
			json_null(json, "status");
		text_or_null(json, "error", sample->error);
		json_close_object(json);
	}
	json_close_array(json);
	json_open_array(json, "points");
	for (size_t i = 0; i < run->points_count; i++) {
		json_open_object(json, NULL);
		json_count(json, "at_ms", run->points[i].at_ms);
		json_text(json, "measure", run->points[i].measure);
		json_text(json, "unit", run->points[i].unit);
		json_number(json, "value", run->points[i].value);
		json_close_object(json);
	}
	json_close_array(json);
}

static void write_counts(struct json *json, const char *key, const struct named_count *counts, size_t count)
{
	json_open_object(json, key);
	for (size_t i = 0; i < count; i++)
		json_count(json, counts[i].name, counts[i].count);
	json_close_object(json);
}

static void write_rules(const struct findings_run *run, struct json *json)
{
	json_open_array(json, "rules");
	for (size_t i = 0; i < run->rules_count; i++) {
		const struct rule_record *rule = &run->rules[i];

		json_open_object(json, NULL);
		json_text(json, "rule", rule->rule);
		text_or_null(json, "sentence", rule->sentence);
		json_count(json, "seen", rule->seen);
		json_count(json, "matched", rule->matched);
		json_count(json, "injected", rule->injected);
		json_count(json, "packets", rule->packets);
		write_counts(json, "skipped", rule->skipped, rule->skipped_count);
		write_counts(json, "faults", rule->faults, rule->faults_count);
		json_close_object(json);
	}
	json_close_array(json);
}

static void write_events(const struct findings_run *run, struct json *json)
{
	json_open_array(json, "events");
	for (size_t i = 0; i < run->events_count; i++) {
		const struct event_sum *events = &run->events[i];

		json_open_object(json, NULL);
		json_text(json, "rule", events->rule);
		json_text(json, "fault", events->fault);
		json_count(json, "count", events->count);
		json_count(json, "first_ms", events->first_ms);
		json_count(json, "last_ms", events->last_ms);
		json_close_object(json);
	}
	json_close_array(json);
}

static void write_timeline(const struct findings_run *run, struct json *json)
{
	json_open_array(json, "timeline");
	for (size_t i = 0; i < run->moments_count; i++) {
		json_open_object(json, NULL);
		json_count(json, "at_ms", run->moments[i].at_ms);
		json_text(json, "kind", moment_names[run->moments[i].kind]);
		json_text(json, "text", run->moments[i].text);
		json_close_object(json);
	}
	json_close_array(json);
}

void report_json_verdict(const struct findings_run *run, struct json *json)
{
	char sentence[1024];

	report_sentence(run, sentence, sizeof(sentence));
	json_text(json, "verdict", verdict_names[run->verdict]);
	json_text(json, "sentence", sentence);
}

void report_json_whose(const struct findings_run *run, struct json *json, json_text_fn text)
{
	json_text(json, "experiment", run->experiment);
	text(json, "title", run->title);
	text(json, "environment", run->environment);
	text(json, "operator", run->operator);
}

static void write_advice(void *to, const char *sentence)
{
	json_text(to, NULL, sentence);
}

void report_json_advice(const struct findings_run *run, struct json *json)
{
	json_open_array(json, "to_improve");
	report_advice(run, write_advice, json);
	json_close_array(json);
}

static void write_about(const struct findings_run *run, struct json *json)
{
	json_count(json, "id", (uint64_t)run->id);
	report_json_verdict(run, json);
	text_or_null(json, "reason", run->reason);
	report_json_whose(run, json, text_or_null);
	text_or_null(json, "file", run->file);
	json_number(json, "started_at", run->started_s);
	json_number(json, "ended_at", run->ended_s);
	json_count(json, "length_ms", run->length_ms);
	json_text(json, "phase", phase_names[run->phase]);
	json_bool(json, "open", run->open);
	text_or_null(json, "resolved_by", run->resolved_by);
	text_or_null(json, "resolved_note", run->resolved_note);
	text_or_null(json, "kernel", run->kernel);
	text_or_null(json, "version", run->version);
	text_or_null(json, "host", run->host);
}

void report_json(const struct findings_run *run, FILE *out)
{
	struct json json;

	json_begin(&json, out, false);
	json_open_object(&json, NULL);
	write_about(run, &json);
	for (size_t i = 0; i < run->numbers_count; i++)
		json_number(&json, run->numbers[i].name, run->numbers[i].value);
	write_hypotheses(run, &json);
	write_probes(run, &json);
	write_rules(run, &json);
	if (run->dependencies_count)
		dependencies_json(&json, "dependencies", run->dependencies, run->dependencies_count);
	write_events(run, &json);
	write_timeline(run, &json);
	report_json_advice(run, &json);
	write_samples(run, &json);
	text_or_null(&json, "plan", run->json);
	text_or_null(&json, "text", run->text);
	json_close_object(&json);
	json_end(&json);
}
