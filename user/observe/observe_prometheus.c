// SPDX-License-Identifier: GPL-2.0-only
/*
 * Prometheus's text format. Buckets of times end at powers of two microseconds, which are borders of the histograms'
 * own buckets: what is said is exact. At most PROMETHEUS_LINES lines are told apart, the rest is summed up in one more.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/names.h"
#include "user/observe/histogram.h"
#include "user/observe/observe_show.h"

#define PROMETHEUS_LINES 256
#define FIRST_POWER      8  /* 256 us */
#define LAST_POWER       26 /* 67 s */

/* A label's value: quotes, backslashes and newlines are escaped, and nothing but clean UTF-8 comes out. */
static void put_label(FILE *out, const char *name, const char *value, bool *first)
{
	char clean[4200];

	if (!value[0])
		return;
	text_clean(clean, sizeof(clean), value);
	fprintf(out, "%s%s=\"", *first ? "" : ",", name);
	for (const char *c = clean; *c; c++) {
		if (*c == '"' || *c == '\\')
			fputc('\\', out);
		fputc(*c, out);
	}
	fputc('"', out);
	*first = false;
}

/* All labels of a line, and one more that may be NULL. */
static void put_labels(FILE *out, const struct observe_view *view, const struct observe_row *row, const char *name,
		       const char *value)
{
	char text[4200];
	bool first = true;

	fputc('{', out);
	if (row->key.side)
		put_label(out, "side", side_names[row->key.side], &first);
	put_label(out, "process", observe_show_process(&row->key), &first);
	put_label(out, "cgroup", observe_show_cgroup(view, &row->key, text, sizeof(text)), &first);
	put_label(out, "endpoint", observe_endpoint(&row->key, text), &first);
	if (name)
		put_label(out, name, value, &first);
	fputc('}', out);
}

static void put_count(FILE *out, const struct observe_view *view, const struct observe_row *row, const char *metric,
		      const char *name, const char *value, uint64_t count)
{
	fprintf(out, "chaosbpf_observe_%s", metric);
	put_labels(out, view, row, name, value);
	fprintf(out, " %" PRIu64 "\n", count);
}

static void put_head(FILE *out, const char *metric, const char *type, const char *text)
{
	fprintf(out, "# HELP chaosbpf_observe_%s %s\n# TYPE chaosbpf_observe_%s %s\n", metric, text, metric, type);
}

/* One metric of all lines at a time, as the format wants it. */
static void put_plain(FILE *out, const struct observe_view *view, const char *metric, const char *text, size_t offset)
{
	put_head(out, metric, "counter", text);
	for (size_t i = 0; i < view->lines->count; i++) {
		const struct observe_row *row = &view->lines->rows[i];

		put_count(out, view, row, metric, NULL, NULL, *(const uint64_t *)((const char *)row + offset));
	}
}

/* A metric with a label for each of `names`; zeros are left out, but the first line of each is there. */
static void put_named(FILE *out, const struct observe_view *view, const char *metric, const char *text,
		      const char *label, const char *const *names, size_t offset)
{
	put_head(out, metric, "counter", text);
	for (size_t i = 0; i < view->lines->count; i++) {
		const struct observe_row *row = &view->lines->rows[i];
		const uint64_t *counts = (const uint64_t *)((const char *)row + offset);

		for (size_t k = 0; names[k]; k++) {
			if (counts[k])
				put_count(out, view, row, metric, label, names[k], counts[k]);
		}
	}
}

static void put_histogram(FILE *out, const struct observe_view *view, const struct observe_row *row, const char *metric,
			  const struct histogram *h)
{
	char name[64], end[32];
	uint64_t count = 0;
	unsigned int bucket = 0;

	snprintf(name, sizeof(name), "%s_bucket", metric);
	for (unsigned int power = FIRST_POWER; power <= LAST_POWER; power++) {
		while (bucket < HISTOGRAM_BUCKETS && histogram_least(bucket) < 1ULL << power)
			count += h->counts[bucket++];
		snprintf(end, sizeof(end), "%.9g", (double)(1ULL << power) / 1e6);
		put_count(out, view, row, name, "le", end, count);
	}
	put_count(out, view, row, name, "le", "+Inf", histogram_count(h));
	fprintf(out, "chaosbpf_observe_%s_sum", metric);
	put_labels(out, view, row, NULL, NULL);
	fprintf(out, " %.6f\n", (double)h->sum / 1e6);
	snprintf(name, sizeof(name), "%s_count", metric);
	put_count(out, view, row, name, NULL, NULL, histogram_count(h));
}

static void put_time(FILE *out, const struct observe_view *view, enum observe_time time, const char *text)
{
	char metric[32];

	snprintf(metric, sizeof(metric), "%s_seconds", observe_time_names[time]);
	put_head(out, metric, "histogram", text);
	for (size_t i = 0; i < view->lines->count; i++) {
		const struct histogram *h = &view->lines->rows[i].times[time];

		if (histogram_count(h))
			put_histogram(out, view, &view->lines->rows[i], metric, h);
	}
}

static void put_all(FILE *out, const struct observe_view *view)
{
	static const char *const ways[] = { "sent", "received", NULL }, *const ends[] = { "received", "sent", NULL };
#define AT(member) offsetof(struct observe_row, member)

	put_plain(out, view, "connections_total", "Connections that were made.", AT(connections));
	put_named(out, view, "connect_failures_total", "Connections that could not be had.", "reason",
		  observe_failure_names, AT(failures));
	put_named(out, view, "resets_total", "Connections that ended with a reset.", "direction", ends,
		  AT(resets_received));
	put_plain(out, view, "retransmits_total", "Segments that were sent again.", AT(retransmits));
	put_plain(out, view, "requests_total", "Requests.", AT(requests));
	put_plain(out, view, "unanswered_total", "Requests whose connection ended without a response.", AT(unanswered));
	put_named(out, view, "responses_total", "Responses, by the class of HTTP's status where it can be read.",
		  "status", observe_class_names, AT(status));
	put_named(out, view, "bytes_total", "Payload.", "direction", ways, AT(bytes_sent));
	put_time(out, view, OBSERVE_RESPONSE, "From a request's last byte to its response's first.");
	put_time(out, view, OBSERVE_CONNECT, "From the first SYN to the connection.");
	put_time(out, view, OBSERVE_RTT, "TCP's smoothed round trip time, at each response.");
	put_time(out, view, OBSERVE_GAP, "From one packet of an event stream to the next.");
}

/* Those that were not among the first are one line. Lines are sorted, so the busiest of each side are told. */
static int sum_up(const struct observe_lines *lines, struct observe_lines *few)
{
	const size_t count = lines->count > PROMETHEUS_LINES ? PROMETHEUS_LINES + 1 : lines->count;

	few->count = count;
	few->rows = calloc(count + 1, sizeof(*few->rows));
	if (!few->rows)
		return -1;
	for (size_t i = 0; i < lines->count; i++) {
		struct observe_row *row = &few->rows[i < PROMETHEUS_LINES ? i : PROMETHEUS_LINES];

		if (i < PROMETHEUS_LINES)
			row->key = lines->rows[i].key;
		observe_row_add(row, &lines->rows[i]);
	}
	return 0;
}

void observe_show_prometheus(FILE *out, const struct observe_view *view)
{
	struct observe_view shown = *view;
	struct observe_lines few;

	if (sum_up(view->lines, &few))
		return;
	shown.lines = &few;
	put_all(out, &shown);
	observe_lines_free(&few);
}
