// SPDX-License-Identifier: GPL-2.0-only
#include "user/experiment/trials_record.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "user/base/clock.h"
#include "user/base/log.h"
#include "user/rules/explain.h"
#include "user/state/state.h"

static void kept(struct trials_record *record, int ret, const struct error *err)
{
	if (ret >= 0 || record->failed)
		return;
	record->failed = true;
	log_note("the test goes on, but is not kept: %s", err->text);
}

/* "deps-rag.service": one name for one service, in the letters that names of experiments have. */
static void name_of(const struct inject *words, char *name, size_t size)
{
	snprintf(name, size, "deps-%s", words->count ? words->words[0].value : "");
	for (char *c = name; *c; c++) {
		if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
			*c = '-';
	}
}

static void title_of(const struct inject *words, char *title, size_t size)
{
	size_t used = (size_t)snprintf(title, size, "What the service cannot do without:");

	for (size_t i = 0; i < words->count && used < size; i++)
		used += (size_t)snprintf(title + used, size - used, " %s %s", words->words[i].option,
					 words->words[i].value);
}

void trials_record_begin(struct trials_record *record, struct findings *findings, const struct trials_options *options)
{
	char name[RULES_MAX_NAME + 1], title[512];
	const struct findings_plan plan = { .experiment = name,
					    .title = title,
					    .environment = options->environment,
					    .operator= options->who.operator, };
	struct error err;
	int ret;

	name_of(&options->words, name, sizeof(name));
	title_of(&options->words, title, sizeof(title));
	*record = (struct trials_record){ 0 };
	ret = findings_begin(findings, &plan, &record->writer, &err);
	kept(record, ret, &err);
	if (ret < 0)
		record->writer = NULL;
	else
		record->id = findings_id(record->writer);
}

void trials_record_phase(struct trials_record *record, enum phase phase)
{
	struct error err;

	if (record->writer)
		kept(record, findings_phase(record->writer, phase, &err), &err);
}

void trials_record_trial(struct trials_record *record, const struct tested *tested, enum breakage how, uint64_t for_ns)
{
	char text[WIRE_NAME_LEN + 80];
	struct error err;

	if (!record->writer)
		return;
	snprintf(text, sizeof(text), "%s port %u: %s for %.3g s", tested->name, tested->port, breakage_names[how],
		 (double)for_ns / NS_PER_S);
	kept(record, findings_moment(record->writer, MOMENT_ACTION, text, &err), &err);
}

static void keep_point(struct trials_record *record, const char *measure, const char *unit, double value)
{
	const struct point point = {
		.at_ms = findings_now_ms(record->writer), .measure = measure, .unit = unit, .value = value
	};
	struct error err;

	if (!isnan(value))
		kept(record, findings_point(record->writer, &point, &err), &err);
}

void trials_record_tick(struct trials_record *record, uint64_t ended, uint64_t failed, double median_ms)
{
	if (!record->writer || !ended)
		return;
	keep_point(record, "service.success", "%", 100.0 * (double)(ended - failed) / (double)ended);
	keep_point(record, "service.p50", "ms", median_ms);
}

void trials_record_rule(struct trials_record *record, const struct tested *tested, enum breakage how,
			const struct rules *rules)
{
	char name[WIRE_NAME_LEN + 32], sentence[1024];
	struct status *status;
	struct error err;

	if (!record->writer || status_read(&status, &err))
		return;
	snprintf(name, sizeof(name), "%s:%u %s", tested->name, tested->port, breakage_names[how]);
	explain_rule(rules, 0, sentence, sizeof(sentence));
	if (status->rules_count)
		kept(record, findings_rule(record->writer, name, sentence, &status->rules[0].stats, &err), &err);
	status_free(status);
}

static void keep_number(struct trials_record *record, const char *name, double value)
{
	struct error err;

	if (!isnan(value))
		kept(record, findings_number(record->writer, name, value, &err), &err);
}

void trials_record_end(struct trials_record *record, const struct trials_result *result,
		       const struct dependency_record *records, enum verdict verdict, const char *reason)
{
	struct error err;

	if (!record->writer)
		return;
	for (size_t i = 0; i < result->tested.count; i++)
		kept(record, findings_dependency(record->writer, &records[i], &err), &err);
	keep_number(record, "normal_failed_percent", result->normal.failed * 100);
	keep_number(record, "normal_latency_ms", result->normal.median_ms);
	keep_number(record, "latency_limit_ms", result->normal.latency_ms);
	keep_number(record, "window_s", result->window_s);
	trials_record_phase(record, PHASE_VERDICT);
	kept(record, findings_finish(record->writer, verdict, reason, &err), &err);
	record->writer = NULL;
	if (record->failed)
		record->id = 0;
}
