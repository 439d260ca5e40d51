// SPDX-License-Identifier: GPL-2.0-only
/*
 * Curves as inline SVG. Colours and line styles are classes of the page's style sheet (report_html.c), so that one
 * picture serves light, dark and paper.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "user/findings/report_internal.h"

#define WIDTH  880
#define LEFT   64
#define RIGHT  22
#define TOP    24
#define BOTTOM 26
#define PIECES 160

struct chart {
	FILE *out;
	const struct findings_run *run;
	double height, length_ms, max; /* the value at the top; 0 is at the bottom */
	const char *unit;
};

/* One line of a chart: a value for each bucket, NAN where there is none. */
struct curve {
	double *values;
	size_t count;
	double bucket_ms;
};

static double x_of(const struct chart *chart, double at_ms)
{
	double share = chart->length_ms > 0 ? at_ms / chart->length_ms : 0;

	return LEFT + (WIDTH - LEFT - RIGHT) * fmin(fmax(share, 0), 1);
}

static double y_of(const struct chart *chart, double value)
{
	double share = fmin(fmax(value / chart->max, 0), 1);

	return chart->height - BOTTOM - (chart->height - TOP - BOTTOM) * share;
}

/* The smallest of 1, 2, 5 times a power of ten that is not less. */
static double round_up(double value)
{
	double power = pow(10, floor(log10(value)));
	double mantissa = value / power;

	return power * (mantissa <= 1 ? 1 : mantissa <= 2 ? 2 : mantissa <= 5 ? 5 : 10);
}

static double round_seconds(double least)
{
	static const double rounds[] = { 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 86400 };
	const size_t last = sizeof(rounds) / sizeof(rounds[0]) - 1;
	size_t i = 0;

	while (i < last && rounds[i] < least)
		i++;
	return rounds[i];
}

static void begin(const struct chart *chart, const char *label)
{
	fprintf(chart->out, "<svg class=\"chart\" viewBox=\"0 0 %d %.0f\" role=\"img\" aria-label=\"", WIDTH,
		chart->height);
	report_markup(chart->out, label);
	fputs("\">\n", chart->out);
}

/* ---- what every chart has: the shaded time of the fault, the axes ---- */

static void shade(const struct chart *chart, struct span window, const char *class, const char *label)
{
	double from = x_of(chart, window.from_ms), to = x_of(chart, window.to_ms);

	if (window.from_ms >= chart->length_ms || to - from < 0.5)
		return;
	fprintf(chart->out, "<rect class=\"%s\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%.1f\"/>\n", class, from,
		TOP, to - from, chart->height - TOP - BOTTOM);
	if (to - from > 8.0 * (double)strlen(label))
		fprintf(chart->out, "<text class=\"phase\" x=\"%.1f\" y=\"%d\">%s</text>\n", (from + to) / 2, TOP - 8,
			label);
}

static void draw_stages(const struct chart *chart)
{
	struct span after = report_stage(chart->run, STAGE_AFTER);
	double recover_ms = findings_run_number(chart->run, NUMBER_TIME_TO_RECOVER);

	shade(chart, report_stage(chart->run, STAGE_BEFORE), "none", "before");
	shade(chart, report_stage(chart->run, STAGE_DURING), "fault", "the fault is at work");
	if (!isnan(recover_ms)) {
		struct span recovering = { after.from_ms, after.from_ms + recover_ms };

		shade(chart, recovering, "recovering", "recovering");
		after.from_ms += recover_ms;
	}
	shade(chart, after, "none", "after");
}

static void draw_mark(const struct chart *chart, double at_ms, const char *label)
{
	double x = x_of(chart, at_ms);
	bool left = x > WIDTH - 160;

	if (isnan(at_ms) || at_ms > chart->length_ms)
		return;
	fprintf(chart->out, "<line class=\"mark\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%.1f\"/>", x, x, TOP,
		chart->height - BOTTOM);
	fprintf(chart->out, "<text class=\"mark\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n",
		x + (left ? -5 : 5), chart->height - BOTTOM - 6, left ? "end" : "start", label);
}

static void draw_marks(const struct chart *chart)
{
	struct span during = report_stage(chart->run, STAGE_DURING);

	draw_mark(chart, during.from_ms + findings_run_number(chart->run, NUMBER_TIME_TO_DEGRADE),
		  "degraded as promised");
	draw_mark(chart, during.to_ms + findings_run_number(chart->run, NUMBER_TIME_TO_RECOVER), "recovered");
}

static void draw_value_axis(const struct chart *chart, double step)
{
	char text[64];

	for (double value = 0; value <= chart->max * 1.001; value += step) {
		double y = y_of(chart, value);

		report_value(text, sizeof(text), value, chart->unit);
		fprintf(chart->out, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", LEFT,
			WIDTH - RIGHT, y, y);
		fprintf(chart->out, "<text class=\"axis\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">", LEFT - 6, y + 4);
		report_markup(chart->out, text);
		fputs("</text>\n", chart->out);
	}
}

static void draw_time_axis(const struct chart *chart)
{
	double step = 1000 * round_seconds(chart->length_ms / 1000 / 10);

	for (double at = 0; at <= chart->length_ms; at += step) {
		unsigned int seconds = (unsigned int)(at / 1000 + 0.5);

		fprintf(chart->out, "<line class=\"tick\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>",
			x_of(chart, at), x_of(chart, at), chart->height - BOTTOM, chart->height - BOTTOM + 4);
		fprintf(chart->out,
			"<text class=\"axis\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%u:%02u</text>\n",
			x_of(chart, at), chart->height - BOTTOM + 17, seconds / 60, seconds % 60);
	}
}

static void draw_ground(const struct chart *chart, double step)
{
	draw_stages(chart);
	draw_value_axis(chart, step);
	draw_time_axis(chart);
}

/* ---- curves ---- */

static void draw_curve(const struct chart *chart, const struct curve *curve, const char *class)
{
	bool open = false;

	fprintf(chart->out, "<path class=\"%s\" d=\"", class);
	for (size_t i = 0; i < curve->count; i++) {
		double from = x_of(chart, (double)i * curve->bucket_ms);
		double to = x_of(chart, (double)(i + 1) * curve->bucket_ms);

		if (isnan(curve->values[i])) {
			open = false;
			continue;
		}
		fprintf(chart->out, "%s%.1f %.1fH%.1f", open ? "L" : "M", from, y_of(chart, curve->values[i]), to);
		open = true;
	}
	fputs("\"/>\n", chart->out);
}

/* What was promised of `measure`, in the stage that it was promised for. */
static void draw_promises(const struct chart *chart, const char *measure)
{
	static const enum stage stages[WHEN_COUNT] = {
		[WHEN_STEADY_BEFORE] = STAGE_BEFORE, [WHEN_DURING] = STAGE_DURING, [WHEN_STEADY_AFTER] = STAGE_AFTER,
		[WHEN_RECOVERY] = STAGE_AFTER,       [WHEN_ABORT] = STAGE_DURING,
	};

	for (size_t i = 0; i < chart->run->hypotheses_count; i++) {
		const struct hypothesis *hypothesis = &chart->run->hypotheses[i];
		struct span window = report_stage(chart->run, stages[hypothesis->when]);
		double y = y_of(chart, hypothesis->threshold);

		if (strcmp(hypothesis->measure, measure) != 0 || window.from_ms >= chart->length_ms)
			continue;
		fprintf(chart->out, "<line class=\"%s\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n",
			hypothesis->when == WHEN_ABORT ? "abort" : "promise", x_of(chart, window.from_ms),
			x_of(chart, window.to_ms), y, y);
	}
}

static double promised_max(const struct findings_run *run, const char *measure)
{
	double max = 0;

	for (size_t i = 0; i < run->hypotheses_count; i++) {
		if (strcmp(run->hypotheses[i].measure, measure) == 0)
			max = fmax(max, run->hypotheses[i].threshold);
	}
	return max;
}

static void draw_legend(const struct chart *chart, const char *const *classes, const char *const *words, size_t count)
{
	fputs("</svg>\n<p class=\"legend\">", chart->out);
	for (size_t i = 0; i < count; i++)
		fprintf(chart->out,
			"<span><svg viewBox=\"0 0 24 8\"><line class=\"%s\" x1=\"0\" x2=\"24\" y1=\"4\" y2=\"4\"/>"
			"</svg> %s</span> ",
			classes[i], words[i]);
	fputs("</p>\n", chart->out);
}

/* ---- probes ---- */

struct probe_curves {
	struct curve success, p50, p99;
};

static bool make_curve(struct curve *curve, const struct findings_run *run, double bucket_s)
{
	curve->bucket_ms = bucket_s * 1000;
	curve->count = (size_t)(run->length_ms / curve->bucket_ms) + 1;
	curve->values = malloc(curve->count * sizeof(*curve->values));
	return curve->values;
}

static void fill_curves(struct probe_curves *curves, const struct findings_run *run, const char *probe)
{
	for (size_t i = 0; i < curves->success.count; i++) {
		struct span window = { (double)i * curves->success.bucket_ms,
				       (double)(i + 1) * curves->success.bucket_ms };
		struct measured measured = report_measure(run, probe, window);

		curves->success.values[i] = measured.success;
		curves->p50.values[i] = measured.p50;
		curves->p99.values[i] = measured.p99;
	}
}

static void success_chart(const struct chart *like, const char *probe, const struct probe_curves *curves)
{
	static const char *const classes[] = { "success", "promise", "abort" };
	static const char *const words[] = { "success rate", "promised", "limit to abort at" };
	struct chart chart = *like;
	char measure[300];

	chart.height = 190;
	chart.max = 100;
	chart.unit = "%";
	snprintf(measure, sizeof(measure), "%s.success", probe);
	begin(&chart, "success rate over time");
	draw_ground(&chart, 25);
	draw_promises(&chart, measure);
	draw_curve(&chart, &curves->success, "success");
	draw_marks(&chart);
	draw_legend(&chart, classes, words, promised_max(chart.run, measure) > 0 ? 3 : 1);
}

static void latency_chart(const struct chart *like, const char *probe, const struct probe_curves *curves)
{
	static const char *const classes[] = { "p50", "p99", "promise" };
	static const char *const words[] = { "p50, half of the answers are faster", "p99, one in a hundred is slower",
					     "promised" };
	static const char *const percentiles[] = { "p50", "p90", "p95", "p99", "max" };
	struct chart chart = *like;
	char measure[300];
	double max = 1, promised = 0;

	for (size_t i = 0; i < curves->p99.count; i++)
		max = fmax(max, curves->p99.values[i]); /* fmax() ignores NAN */
	for (size_t i = 0; i < sizeof(percentiles) / sizeof(percentiles[0]); i++) {
		snprintf(measure, sizeof(measure), "%s.%s", probe, percentiles[i]);
		promised = fmax(promised, promised_max(chart.run, measure));
	}
	max = fmax(max, 1.1 * promised);
	chart.height = 220;
	chart.unit = "ms";
	chart.max = round_up(max / 4) * ceil(max / round_up(max / 4));
	begin(&chart, "latency over time");
	draw_ground(&chart, round_up(max / 4));
	for (size_t i = 0; i < sizeof(percentiles) / sizeof(percentiles[0]); i++) {
		snprintf(measure, sizeof(measure), "%s.%s", probe, percentiles[i]);
		draw_promises(&chart, measure);
	}
	draw_curve(&chart, &curves->p99, "p99");
	draw_curve(&chart, &curves->p50, "p50");
	draw_legend(&chart, classes, words, promised > 0 ? 3 : 2);
}

void report_svg_probe(const struct findings_run *run, const char *probe, FILE *out)
{
	struct chart chart = { .out = out, .run = run, .length_ms = run->length_ms };
	double bucket_s = report_bucket_s(run, probe, PIECES);
	struct probe_curves curves = { 0 };

	if (make_curve(&curves.success, run, bucket_s) && make_curve(&curves.p50, run, bucket_s) &&
	    make_curve(&curves.p99, run, bucket_s)) {
		fill_curves(&curves, run, probe);
		success_chart(&chart, probe, &curves);
		latency_chart(&chart, probe, &curves);
	}
	free(curves.success.values);
	free(curves.p50.values);
	free(curves.p99.values);
}

/* ---- other measures ---- */

/* The mean of each bucket. */
static void fill_means(struct curve *curve, const struct point *points, size_t count)
{
	size_t *counts = calloc(curve->count, sizeof(*counts));

	for (size_t i = 0; i < curve->count; i++)
		curve->values[i] = NAN;
	for (size_t i = 0; i < count && counts; i++) {
		size_t bucket = (size_t)(points[i].at_ms / curve->bucket_ms);

		if (bucket >= curve->count || isnan(points[i].value))
			continue;
		if (!counts[bucket]++)
			curve->values[bucket] = 0;
		curve->values[bucket] += (points[i].value - curve->values[bucket]) / (double)counts[bucket];
	}
	free(counts);
}

void report_svg_points(const struct findings_run *run, const struct point *points, size_t count, FILE *out)
{
	struct chart chart = { .out = out, .run = run, .length_ms = run->length_ms, .height = 160 };
	struct curve curve;
	double max = 1.1 * promised_max(run, points[0].measure), step;

	if (!make_curve(&curve, run, report_bucket_s(run, points[0].measure, PIECES)))
		return;
	fill_means(&curve, points, count);
	for (size_t i = 0; i < curve.count; i++)
		max = fmax(max, curve.values[i]);
	step = max > 0 ? round_up(max / 4) : 1;
	chart.max = step * fmax(ceil(max / step), 1);
	chart.unit = points[0].unit;
	begin(&chart, "measure over time");
	draw_ground(&chart, step);
	draw_promises(&chart, points[0].measure);
	draw_curve(&chart, &curve, "p50");
	fputs("</svg>\n", out);
	free(curve.values);
}
