// SPDX-License-Identifier: GPL-2.0-only
/* From samples to numbers: what a probe gave before, during and after the method was at work. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/percentile.h"
#include "user/findings/report_internal.h"

const char *const stage_names[STAGE_COUNT + 1] = { "before", "during", "after", NULL };

/* When that phase began; NAN: it did not. */
static double phase_ms(const struct findings_run *run, enum phase phase)
{
	for (size_t i = 0; i < run->moments_count; i++) {
		if (run->moments[i].kind == MOMENT_PHASE && strcmp(run->moments[i].text, phase_names[phase]) == 0)
			return run->moments[i].at_ms;
	}
	return NAN;
}

struct span report_stage(const struct findings_run *run, enum stage stage)
{
	double end = run->length_ms + 1.0, inject = phase_ms(run, PHASE_INJECT), back = phase_ms(run, PHASE_ROLLBACK);

	if (isnan(inject))
		inject = end;
	if (isnan(back) || back < inject)
		back = end;
	switch (stage) {
	case STAGE_BEFORE:
		return (struct span){ 0, inject };
	case STAGE_DURING:
		return (struct span){ inject, back };
	default:
		return (struct span){ back, end };
	}
}

static bool is_in(const struct sample *sample, const char *probe, struct span window)
{
	return sample->at_ms >= window.from_ms && sample->at_ms < window.to_ms && strcmp(sample->probe, probe) == 0;
}

struct measured report_measure(const struct findings_run *run, const char *probe, struct span window)
{
	struct measured measured = { .success = NAN, .p50 = NAN, .p90 = NAN, .p99 = NAN };
	double *latency = calloc(run->samples_count + 1, sizeof(*latency));
	size_t count = 0;

	for (size_t i = 0; i < run->samples_count; i++) {
		const struct sample *sample = &run->samples[i];

		if (!is_in(sample, probe, window))
			continue;
		measured.attempts++;
		measured.ok += sample->ok;
		if (latency && sample->ok && !isnan(sample->latency_ms))
			latency[count++] = sample->latency_ms;
	}
	if (measured.attempts)
		measured.success = 100.0 * (double)measured.ok / (double)measured.attempts;
	if (latency) {
		percentile_sort(latency, count);
		measured.p50 = percentile(latency, count, 50);
		measured.p90 = percentile(latency, count, 90);
		measured.p99 = percentile(latency, count, 99);
	}
	free(latency);
	return measured;
}

static bool is_promised(const struct findings_run *run, const char *probe)
{
	size_t len = strlen(probe);

	for (size_t i = 0; i < run->hypotheses_count; i++) {
		const char *measure = run->hypotheses[i].measure;

		if (strncmp(measure, probe, len) == 0 && measure[len] == '.')
			return true;
	}
	return false;
}

static void promised_first(const struct findings_run *run, const char **probes, size_t count)
{
	size_t place = 0;

	for (size_t i = 0; i < count; i++) {
		const char *probe = probes[i];

		if (!is_promised(run, probe))
			continue;
		memmove(probes + place + 1, probes + place, (i - place) * sizeof(*probes));
		probes[place++] = probe;
	}
}

const char **report_probes(const struct findings_run *run, size_t *count)
{
	const char **probes = NULL, **more;

	*count = 0;
	for (size_t i = 0; i < run->samples_count; i++) {
		const char *probe = run->samples[i].probe;
		size_t known = 0;

		while (known < *count && strcmp(probes[known], probe) != 0)
			known++;
		if (known < *count)
			continue;
		more = reallocarray(probes, *count + 1, sizeof(*probes));
		if (!more)
			break;
		probes = more;
		probes[(*count)++] = probe;
	}
	promised_first(run, probes, *count);
	return probes;
}

static int compare_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The text that stands there most often; `texts` is sorted. */
static const char *commonest(const char **texts, size_t count, size_t *times)
{
	const char *best = NULL;
	size_t length = 0;

	*times = 0;
	for (size_t i = 0; i < count; i++) {
		length = i && strcmp(texts[i], texts[i - 1]) == 0 ? length + 1 : 1;
		if (length > *times) {
			*times = length;
			best = texts[i];
		}
	}
	return best;
}

const char *report_commonest_error(const struct findings_run *run, const char *probe, size_t *count, size_t *errors)
{
	const char **texts = calloc(run->samples_count + 1, sizeof(*texts)), *best;
	struct span during = report_stage(run, STAGE_DURING);

	*count = *errors = 0;
	if (!texts)
		return NULL;
	for (size_t i = 0; i < run->samples_count; i++) {
		const struct sample *sample = &run->samples[i];

		if (!sample->ok && sample->error && sample->error[0] && is_in(sample, probe, during))
			texts[(*errors)++] = sample->error;
	}
	qsort(texts, *errors, sizeof(*texts), compare_text);
	best = commonest(texts, *errors, count);
	free(texts);
	return best;
}

double report_bucket_s(const struct findings_run *run, const char *probe, unsigned int most)
{
	static const double rounds[] = { 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600 };
	const size_t last = sizeof(rounds) / sizeof(rounds[0]) - 1;
	double length_s = run->length_ms / 1e3, least = length_s / most;
	size_t samples = 0, i = 0;

	for (size_t k = 0; k < run->samples_count; k++)
		samples += strcmp(run->samples[k].probe, probe) == 0;
	/* A percentile of less than five says little. */
	if (samples && length_s * 5 / (double)samples > least)
		least = length_s * 5 / (double)samples;
	while (i < last && rounds[i] < least)
		i++;
	return rounds[i];
}

double report_seconds(const struct findings_run *run, const char *name)
{
	return findings_run_number(run, name) / 1e3;
}
