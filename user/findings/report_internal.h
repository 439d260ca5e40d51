/* SPDX-License-Identifier: GPL-2.0-only */
/* What the forms of a report share: words, and numbers that are made of samples. */
#ifndef USER_REPORT_INTERNAL_H
#define USER_REPORT_INTERNAL_H

#include "user/findings/report.h"

/* ---- numbers (report_series.c) ---- */

/* When the method was at work: from the injection to the roll back; `ms` of the run. */
struct span {
	double from_ms, to_ms;
};

enum stage {
	STAGE_BEFORE,
	STAGE_DURING,
	STAGE_AFTER,
	STAGE_COUNT,
};
extern const char *const stage_names[STAGE_COUNT + 1]; /* before, during, after */

/* Where each stage lies; one that was not reached is empty. */
struct span report_stage(const struct findings_run *run, enum stage stage);

/* What a probe gave in a span of time. Percentiles are those of attempts that succeeded; NAN: none did. */
struct measured {
	size_t attempts, ok;
	double success; /* %; NAN without attempts */
	double p50, p90, p99;
};
struct measured report_measure(const struct findings_run *run, const char *probe, struct span window);

/* The names of the probes, those first of which something was promised; to be freed (the array alone). */
const char **report_probes(const struct findings_run *run, size_t *count);

/* The commonest error of a probe while the method was at work; NULL: none. */
const char *report_commonest_error(const struct findings_run *run, const char *probe, size_t *count, size_t *errors);

/* A round length in seconds for about `most` pieces with some samples in each. */
double report_bucket_s(const struct findings_run *run, const char *probe, unsigned int most);

/* Seconds of a number in milliseconds; NAN if it was not kept. */
double report_seconds(const struct findings_run *run, const char *name);

/* ---- members of a JSON object (report_json.c): also what webhooks are told ---- */

struct json;

/* How a text is written that may be empty: as it is, or as null. */
typedef void (*json_text_fn)(struct json *json, const char *key, const char *text);

void report_json_verdict(const struct findings_run *run, struct json *json); /* verdict, sentence */
void report_json_whose(const struct findings_run *run, struct json *json,
		       json_text_fn text);                                  /* experiment, ..., operator */
void report_json_advice(const struct findings_run *run, struct json *json); /* to_improve */

/* ---- words (report_words.c) ---- */

/* "ask.success >= 99 %" */
void report_promise(const struct hypothesis *hypothesis, char *buf, size_t size);

/* "held", "failed", "not tested" */
const char *report_outcome(const struct hypothesis *hypothesis);

/* "before the fault", "while it was broken", ... */
extern const char *const report_when[WHEN_COUNT];

/* Calls `say` with each sentence on what to improve. */
void report_advice(const struct findings_run *run, void (*say)(void *to, const char *sentence), void *to);

/* "2026-11-30 05:12:03 UTC" */
void report_clock(char *buf, size_t size, double wall_s);

/* "2m30s"; "0:00" of the axis is report_offset(). */
void report_offset(char *buf, size_t size, uint32_t at_ms);

/* Characters that no form lets through: what controls a terminal, turns the direction of text, or is none in XML. */
bool report_forbidden(uint32_t c);

/* Text of users inside HTML and XML, also in attributes: nothing of it is markup, and what XML forbids is replaced. */
void report_markup(FILE *out, const char *text);

/* ---- the forms ---- */

void report_text(const struct findings_run *run, FILE *out);
void report_json(const struct findings_run *run, FILE *out);
void report_markdown(const struct findings_run *run, FILE *out);
void report_junit(const struct findings_run *run, FILE *out);
void report_html(const struct findings_run *run, FILE *out);

/* The curves of one probe, of one measure (report_svg.c). */
void report_svg_probe(const struct findings_run *run, const char *probe, FILE *out);
void report_svg_points(const struct findings_run *run, const struct point *points, size_t count, FILE *out);

extern const char report_style[];

#endif
