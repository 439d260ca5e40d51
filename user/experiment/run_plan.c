// SPDX-License-Identifier: GPL-2.0-only
/* The plan of an experiment: what happens when, in words and as JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/experiment/run.h"
#include "user/rules/explain.h"

static void print_line(FILE *out, uint64_t at_ns, const char *phase, const char *text)
{
	char at[64], clean[2048];

	if (at_ns)
		seconds_text(at, sizeof(at), (double)at_ns / 1e9);
	else
		snprintf(at, sizeof(at), "0s");
	text_clean(clean, sizeof(clean), text);
	fprintf(out, "  +%-7s %-9s %s\n", at, phase, clean);
}

/* "ask.success >= 99 %, ask.p99 <= 800 ms" */
static void conditions_text(const struct experiment *e, const struct conditions *conditions, const char *gap, char *buf,
			    size_t size)
{
	size_t used = 0;
	char one[160];

	buf[0] = '\0';
	for (size_t i = 0; i < conditions->count && used < size; i++) {
		condition_text(e, &conditions->list[i], one, sizeof(one));
		used += (size_t)snprintf(buf + used, size - used, "%s%s", i ? gap : "", one);
	}
}

static void print_probes(const struct experiment *e, FILE *out)
{
	char every[64], timeout[64];

	for (size_t i = 0; i < e->probes_count; i++) {
		const struct experiment_probe *probe = &e->probes[i];
		const char *what = probe->kind == PROBE_TCP    ? probe->host
				   : probe->kind == PROBE_EXEC ? probe->command[0]
							       : probe->request.url;

		if (probe->kind == PROBE_LOAD)
			continue;
		if (probe->kind == PROBE_WATCH) {
			fprintf(out, "%s: measured in the kernel\n", probe->name);
			continue;
		}
		fprintf(out, "probe %s: %s every %s, at most %s\n", probe->name, what,
			format_duration(every, sizeof(every), probe->every_ns),
			format_duration(timeout, sizeof(timeout), probe->timeout_ns));
	}
}

static void print_rules(const struct step *step, FILE *out)
{
	char sentence[2048], clean[4096];

	for (size_t i = 0; step->rules && i < step->rules->count; i++) {
		explain_rule(step->rules, i, sentence, sizeof(sentence));
		text_clean(clean, sizeof(clean), sentence);
		fprintf(out, "                     %s\n", clean);
	}
}

static uint64_t print_method(const struct experiment *e, FILE *out, uint64_t at)
{
	char text[400], time[64];

	for (size_t i = 0; i < e->steps_count; i++) {
		const struct step *step = &e->steps[i];

		snprintf(text, sizeof(text), "%s", step->title);
		if (step->kind == STEP_RULES && step->for_ns)
			snprintf(text, sizeof(text), "%s for %s", step->title,
				 format_duration(time, sizeof(time), step->for_ns));
		else if (step->background)
			snprintf(text, sizeof(text), "%s, beside what follows", step->title);
		print_line(out, at, "inject", text);
		print_rules(step, out);
		at += step_longest_ns(step);
	}
	return at;
}

static void print_course(const struct experiment *e, FILE *out)
{
	char text[1200], conditions[1000], time[64], within[64];
	uint64_t at = 0;

	conditions_text(e, &e->steady, ", ", conditions, sizeof(conditions));
	format_duration(time, sizeof(time), e->baseline_ns);
	snprintf(text, sizeof(text), e->steady.count ? "%s, and before anything is broken: %s" : "%s", time,
		 conditions);
	print_line(out, at, "baseline", text);
	at = print_method(e, out, e->baseline_ns);
	conditions_text(e, &e->during, ", ", conditions, sizeof(conditions));
	format_duration(time, sizeof(time), e->observe_ns);
	format_duration(within, sizeof(within), e->within_ns);
	if (!e->during.count)
		snprintf(text, sizeof(text), "%s", time);
	else if (e->within_ns)
		snprintf(text, sizeof(text), "%s; after at most %s of degrading: %s", time, within, conditions);
	else
		snprintf(text, sizeof(text), "%s; at once: %s", time, conditions);
	print_line(out, at, "observe", text);
	conditions_text(e, &e->abort, " or ", conditions, sizeof(conditions));
	at += e->observe_ns;
	format_duration(time, sizeof(time), e->abort_for_ns);
	snprintf(text, sizeof(text), "or as soon as %s for %s", conditions, time);
	print_line(out, at, "rollback", e->abort.count ? text : "");
	conditions_text(e, &e->steady, ", ", conditions, sizeof(conditions));
	snprintf(text, sizeof(text), "within %s, for %s: %s",
		 format_duration(within, sizeof(within), e->recovery_within_ns),
		 format_duration(time, sizeof(time), e->recovery_for_ns), conditions);
	print_line(out, at, "recover", e->steady.count ? text : "nothing is promised for it");
	at += e->steady.count ? e->recovery_within_ns + e->recovery_for_ns : 0;
	if (e->cooldown_ns)
		print_line(out, at, "cooldown", format_duration(time, sizeof(time), e->cooldown_ns));
	print_line(out, at + e->cooldown_ns, "verdict", "at the latest");
}

void plan_print(const struct experiment *e, FILE *out)
{
	char clean[2048];

	text_clean(clean, sizeof(clean), e->title ?: "");
	fprintf(out, "%s%s%s\nenvironment %s\n", e->name, e->title ? ": " : "", clean, e->environment);
	print_probes(e, out);
	print_course(e, out);
}

/* ---- JSON ---- */

static void conditions_json(const struct experiment *e, const struct conditions *conditions, const char *key,
			    struct json *json)
{
	char measure[RULES_MAX_NAME + 16];

	json_open_array(json, key);
	for (size_t i = 0; i < conditions->count; i++) {
		const struct condition *c = &conditions->list[i];

		snprintf(measure, sizeof(measure), "%s.%s", e->probes[c->probe].name, measure_names[c->measure]);
		json_open_object(json, NULL);
		json_text(json, "measure", measure);
		json_text(json, "operator", comparison_names[c->comparison]);
		json_number(json, "threshold", c->threshold);
		json_text(json, "unit", measure_units[c->measure]);
		json_close_object(json);
	}
	json_close_array(json);
}

static void probes_json(const struct experiment *e, struct json *json)
{
	static const char *const kinds[] = { "http", "tcp", "exec", "prometheus", "load", "watch" };

	json_open_array(json, "probes");
	for (size_t i = 0; i < e->probes_count; i++) {
		json_open_object(json, NULL);
		json_text(json, "name", e->probes[i].name);
		json_text(json, "kind", kinds[e->probes[i].kind]);
		json_number(json, "every_s", (double)e->probes[i].every_ns / 1e9);
		json_number(json, "timeout_s", (double)e->probes[i].timeout_ns / 1e9);
		json_close_object(json);
	}
	json_close_array(json);
}

static void steps_json(const struct experiment *e, struct json *json)
{
	uint64_t at = e->baseline_ns;
	char sentence[2048];

	json_open_array(json, "method");
	for (size_t i = 0; i < e->steps_count; i++) {
		const struct step *step = &e->steps[i];

		json_open_object(json, NULL);
		json_text(json, "step", step_names[step->kind]);
		json_text(json, "title", step->title);
		json_number(json, "at_s", (double)at / 1e9);
		json_number(json, "at_most_s", (double)step_longest_ns(step) / 1e9);
		json_bool(json, "background", step->background);
		json_open_array(json, "rules");
		for (size_t n = 0; step->rules && n < step->rules->count; n++) {
			explain_rule(step->rules, n, sentence, sizeof(sentence));
			json_text(json, NULL, sentence);
		}
		json_close_array(json);
		json_close_object(json);
		at += step_longest_ns(step);
	}
	json_close_array(json);
}

void plan_json(const struct experiment *e, struct json *json)
{
	json_text(json, "experiment", e->name);
	if (e->title)
		json_text(json, "title", e->title);
	else
		json_null(json, "title");
	json_text(json, "environment", e->environment);
	json_text(json, "file", e->file);
	json_number(json, "baseline_s", (double)e->baseline_ns / 1e9);
	json_number(json, "observe_s", (double)e->observe_ns / 1e9);
	json_number(json, "within_s", (double)e->within_ns / 1e9);
	json_number(json, "recovery_within_s", (double)e->recovery_within_ns / 1e9);
	json_number(json, "recovery_for_s", (double)e->recovery_for_ns / 1e9);
	json_number(json, "abort_for_s", (double)e->abort_for_ns / 1e9);
	json_number(json, "cooldown_s", (double)e->cooldown_ns / 1e9);
	json_number(json, "at_most_s", (double)experiment_longest_ns(e) / 1e9);
	probes_json(e, json);
	conditions_json(e, &e->steady, "steady", json);
	conditions_json(e, &e->during, "during", json);
	conditions_json(e, &e->abort, "abort", json);
	steps_json(e, json);
}

char *plan_document(const struct experiment *e)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	struct json json;

	if (!out)
		return NULL;
	json_begin(&json, out, false);
	json_open_object(&json, NULL);
	plan_json(e, &json);
	json_close_object(&json);
	json_end(&json);
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}
