// SPDX-License-Identifier: GPL-2.0-only
/* What a run leaves in the findings. A disk that is full is no reason to end a run: it is said once. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/clock.h"
#include "user/base/log.h"
#include "user/base/names.h"
#include "user/experiment/run_internal.h"
#include "user/rules/explain.h"
#include "user/state/event.h"

#define MAX_SUMS 256

static void kept(struct run *run, int ret, const struct error *err)
{
	if (ret >= 0 || run->writer_failed)
		return;
	run->writer_failed = true;
	log_note("the run goes on, but is not kept: %s", err->text);
}

void record_begin(struct run *run)
{
	const struct experiment *e = run->experiment;
	struct findings_plan plan = {
		.experiment = e->name,
		.title = e->title,
		.environment = e->environment,
		.operator= run->options->operator,
		.file = e->file,
		.text = e->text,
	};
	struct error err;
	char *json;
	int ret;

	if (!run->options->findings)
		return;
	json = plan_document(e);
	plan.json = json;
	ret = findings_begin(run->options->findings, &plan, &run->writer, &err);
	free(json);
	kept(run, ret, &err);
	if (ret < 0)
		run->writer = NULL;
	else
		run->id = findings_id(run->writer);
}

void record_phase(struct run *run)
{
	struct error err;

	if (run->writer)
		kept(run, findings_phase(run->writer, run->phases.phase, &err), &err);
}

/* Milliseconds of the run's own clock, from a moment of ours. */
static uint32_t run_ms(const struct run *run, uint64_t at_ns)
{
	uint64_t ago_ms = (run_now() - at_ns) / 1000000;
	uint32_t now_ms = findings_now_ms(run->writer);

	return ago_ms < now_ms ? now_ms - (uint32_t)ago_ms : 0;
}

void record_sample(struct run *run, const struct probe_answer *answer)
{
	const struct experiment_probe *probe = &run->experiment->probes[answer->probe];
	const struct attempt attempt = {
		.at_ns = answer->at_ns,
		.latency_ms = answer->latency_ms,
		.value = answer->value,
		.ok = answer->ok,
	};
	struct sample sample = {
		.probe = probe->name,
		.ok = answer->ok,
		.latency_ms = answer->latency_ms,
		.status = answer->status,
		.error = answer->reason,
	};
	struct point point = { .unit = "", .value = answer->value };
	char measure[RULES_MAX_NAME + 8];
	struct error err;

	run->attempts[answer->probe]++;
	run->good[answer->probe] += answer->ok;
	samples_add(&run->samples, answer->probe, &attempt);
	if (!run->writer)
		return;
	sample.at_ms = run_ms(run, answer->at_ns);
	kept(run, findings_sample(run->writer, &sample, &err), &err);
	if (isnan(answer->value))
		return;
	snprintf(measure, sizeof(measure), "%s.value", probe->name);
	point.measure = measure;
	point.at_ms = sample.at_ms;
	kept(run, findings_point(run->writer, &point, &err), &err);
}

void record_measure(struct run *run, size_t probe, enum measure measure, uint64_t at_ns, double value)
{
	struct point point = { .unit = measure_units[measure], .value = value };
	char name[RULES_MAX_NAME + 16];
	struct error err;

	if (!run->writer || isnan(value))
		return;
	snprintf(name, sizeof(name), "%s.%s", run->experiment->probes[probe].name, measure_names[measure]);
	point.measure = name;
	point.at_ms = run_ms(run, at_ns);
	kept(run, findings_point(run->writer, &point, &err), &err);
}

void record_note(struct run *run, enum moment_kind kind, const char *fmt, ...)
{
	char text[512];
	struct error err;
	va_list ap;

	if (!run->writer)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	kept(run, findings_moment(run->writer, kind, text, &err), &err);
}

/* ---- rules and events ---- */

static struct run_rule *rule_record(struct run *run, const char *name)
{
	struct run_rule *rules;

	for (size_t i = 0; i < run->rules_count; i++) {
		if (strcmp(run->rules[i].name, name) == 0)
			return &run->rules[i];
	}
	rules = reallocarray(run->rules, run->rules_count + 1, sizeof(*rules));
	if (!rules)
		return NULL;
	run->rules = rules;
	memset(&rules[run->rules_count], 0, sizeof(*rules));
	snprintf(rules[run->rules_count].name, sizeof(rules->name), "%s", name);
	return &rules[run->rules_count++];
}

static void add_stats(struct chaos_stats *sum, const struct chaos_stats *stats)
{
	__u64 *to = (__u64 *)sum; /* not uint64_t: that is another type than the fields' */
	const __u64 *from = (const __u64 *)stats;

	for (size_t i = 0; i < sizeof(*sum) / sizeof(*to); i++)
		to[i] += from[i];
}

static void keep_rule(struct run *run, const struct rule_status *status)
{
	const struct rules *rules = run->experiment->steps[run->load_step].rules;
	struct run_rule *rule = rule_record(run, status->name);
	struct error err;

	if (!rule)
		return;
	if (rule->generation != run->generation)
		rule->before = rule->stats;
	rule->generation = run->generation;
	rule->stats = rule->before;
	add_stats(&rule->stats, &status->stats);
	for (size_t i = 0; i < rules->count && !rule->sentence[0]; i++) {
		if (strcmp(rules->rules[i].name, status->name) == 0)
			explain_rule(rules, i, rule->sentence, sizeof(rule->sentence));
	}
	if (run->writer)
		kept(run, findings_rule(run->writer, rule->name, rule->sentence, &rule->stats, &err), &err);
}

static void sum_up(struct run *run)
{
	const char *missed = NULL;
	uint64_t matched = 0;

	run->injected = 0;
	for (size_t i = 0; i < run->rules_count; i++) {
		const struct run_rule *rule = &run->rules[i];

		matched += rule->stats.matched;
		run->injected += rule->stats.injected;
		if (!rule->stats.injected && !missed)
			missed = rule->name;
	}
	phases_hits(&run->phases, matched, run->injected, missed);
}

void record_rules(struct run *run)
{
	struct status *status;
	struct error ignored;

	if (status_read(&status, &ignored))
		return;
	if (status->generation == run->generation) {
		for (size_t i = 0; i < status->rules_count; i++)
			keep_rule(run, &status->rules[i]);
		run->events_dropped = status->totals.events_dropped;
	}
	status_free(status);
	sum_up(run);
}

struct sums {
	struct {
		char rule[RULES_MAX_NAME + 1];
		unsigned int fault;
		uint64_t count, first_ns, last_ns;
	} list[MAX_SUMS];
	size_t count;
};

static int add_event(const struct chaos_event *event, const char *rule, void *arg)
{
	struct sums *sums = arg;
	size_t i;

	if (event->kind != CHAOS_EVENT_FAULT)
		return 0;
	for (i = 0; i < sums->count; i++) {
		if (sums->list[i].fault == event->fault && strcmp(sums->list[i].rule, rule) == 0)
			break;
	}
	if (i == MAX_SUMS)
		return 0;
	if (i == sums->count) {
		snprintf(sums->list[i].rule, sizeof(sums->list[i].rule), "%s", rule);
		sums->list[i].fault = event->fault;
		sums->list[i].first_ns = event->time_ns;
		sums->count++;
	}
	sums->list[i].count++;
	sums->list[i].last_ns = event->time_ns;
	return 0;
}

void record_events(struct run *run)
{
	struct sums *sums = calloc(1, sizeof(*sums));
	uint64_t boot = boot_ns(), now = run_now();
	struct error err;

	if (sums && run->writer && events_read(false, -1, add_event, sums, &err) == 0) {
		for (size_t i = 0; i < sums->count; i++) {
			const struct event_sum sum = {
				.rule = sums->list[i].rule,
				.fault = sums->list[i].fault < CHAOS_FAULT_COUNT ? fault_names[sums->list[i].fault]
										 : "unknown",
				.count = sums->list[i].count,
				.first_ms = run_ms(run, now - (boot - sums->list[i].first_ns)),
				.last_ms = run_ms(run, now - (boot - sums->list[i].last_ns)),
			};

			kept(run, findings_events(run->writer, &sum, &err), &err);
		}
	}
	free(sums);
}

/* ---- the end ---- */

static void keep_hypothesis(struct run *run, const struct finding *finding)
{
	const struct experiment *e = run->experiment;
	const struct condition *c = finding->condition;
	char measure[RULES_MAX_NAME + 16] = "recovery";
	const char *sign = "<=";
	struct hypothesis hypothesis = {
		.when = finding->when,
		.measure = measure,
		.threshold = c ? c->threshold : (double)e->recovery_within_ns / 1e6,
		.unit = c ? measure_units[c->measure] : "ms",
		.actual = finding->actual,
		.outcome = finding->outcome,
		.detail = finding->detail[0] ? finding->detail : NULL,
	};
	struct error err;

	if (c) {
		snprintf(measure, sizeof(measure), "%s.%s", e->probes[c->probe].name, measure_names[c->measure]);
		sign = comparison_names[c->comparison];
	}
	hypothesis.comparison = sign;
	kept(run, findings_hypothesis(run->writer, &hypothesis, &err), &err);
}

static void keep_number(struct run *run, const char *name, double value)
{
	struct error err;

	if (!isnan(value))
		kept(run, findings_number(run->writer, name, value, &err), &err);
}

void record_end(struct run *run)
{
	const struct phases *p = &run->phases;
	struct finding list[PHASES_MAX_FINDINGS];
	size_t count = phases_findings(p, list);
	struct error err;

	if (!run->writer)
		return;
	for (size_t i = 0; i < count; i++)
		keep_hypothesis(run, &list[i]);
	keep_number(run, NUMBER_TIME_TO_DEGRADE, p->time_to_degrade_ms);
	keep_number(run, NUMBER_TIME_TO_RECOVER, p->time_to_recover_ms);
	keep_number(run, NUMBER_ROLLBACK, run->rollback_ms);
	keep_number(run, NUMBER_EVENTS_DROPPED, (double)run->events_dropped);
	kept(run, findings_finish(run->writer, p->verdict, p->reason, &err), &err);
	run->writer = NULL;
}
