// SPDX-License-Identifier: GPL-2.0-only
#include "user/observe/observe_show.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "user/base/names.h"
#include "user/experiment/experiment.h"
#include "user/observe/histogram.h"

const char *observe_show_process(const struct observe_key *key)
{
	return key->side ? key->comm : "(rest)";
}

const char *observe_show_cgroup(const struct observe_view *view, const struct observe_key *key, char *buf, size_t size)
{
	const char *path = "";

	buf[0] = '\0';
	if (!key->cgroup_id)
		return buf;
	if (view->observe)
		path = observe_cgroup(view->observe, key->cgroup_id);
	if (path[0])
		snprintf(buf, size, "%s", path);
	else
		snprintf(buf, size, "id %" PRIu64, (uint64_t)key->cgroup_id);
	return buf;
}

static double milliseconds(double us)
{
	return us / 1000;
}

/* ---- the table ------------------------------------------------------------------------------------------------------- */

enum {
	SIDE,
	PROCESS,
	CGROUP,
	ENDPOINT,
	REQUESTS,
	RATE,
	P50,
	P90,
	P99,
	MAX,
	FAILED,
	CONNECTIONS,
	NOT_MADE,
	RESETS,
	RETRANSMITS,
	RTT,
	COLUMNS,
};

static const struct column all_columns[COLUMNS] = {
	[SIDE] = { "SIDE", NULL, CELL_TEXT, false },
	[PROCESS] = { "PROCESS", NULL, CELL_TEXT, false },
	[CGROUP] = { "CGROUP", NULL, CELL_TEXT, true },
	[ENDPOINT] = { "ENDPOINT", NULL, CELL_TEXT, false },
	[REQUESTS] = { "REQUESTS", NULL, CELL_COUNT, false },
	[RATE] = { "RATE", NULL, CELL_TEXT, false },
	[P50] = { "P50", NULL, CELL_TEXT, false },
	[P90] = { "P90", NULL, CELL_TEXT, false },
	[P99] = { "P99", NULL, CELL_TEXT, false },
	[MAX] = { "MAX", NULL, CELL_TEXT, false },
	[FAILED] = { "FAILED", NULL, CELL_COUNT, false },
	[CONNECTIONS] = { "CONNECTIONS", NULL, CELL_COUNT, false },
	[NOT_MADE] = { "NOT-MADE", NULL, CELL_COUNTS, true },
	[RESETS] = { "RESETS", NULL, CELL_COUNT, false },
	[RETRANSMITS] = { "RETRANS", NULL, CELL_COUNT, false },
	[RTT] = { "RTT", NULL, CELL_TEXT, false },
};

/* Columns that these lines have nothing to say in have no title. A static one: a table keeps the pointer. */
static const struct column *columns_of(enum observe_by_what by)
{
	static struct column columns[OBSERVE_BY_COUNT][COLUMNS];
	struct column *own = columns[by];

	memcpy(own, all_columns, sizeof(all_columns));
	if (by == OBSERVE_BY_CGROUPS || by == OBSERVE_BY_ENDPOINT)
		own[PROCESS].title = NULL;
	if (by == OBSERVE_BY_ENDPOINT)
		own[CGROUP].title = NULL;
	if (by == OBSERVE_BY_PROCESS || by == OBSERVE_BY_CGROUPS)
		own[ENDPOINT].title = NULL;
	return own;
}

static void put_value(struct table *table, size_t column, double value, const char *unit)
{
	char text[64];

	value_words(text, sizeof(text), value, unit);
	table_text(table, column, text);
}

static void put_percentile(struct table *table, size_t column, const struct histogram *h, double share)
{
	put_value(table, column, milliseconds(histogram_percentile(h, share)), "ms");
}

static void add_line(struct table *table, const struct observe_view *view, const struct observe_row *row)
{
	const struct histogram *response = &row->times[OBSERVE_RESPONSE];
	char text[4096];

	table_row(table);
	table_text(table, SIDE, row->key.side ? side_names[row->key.side] : NULL);
	table_text(table, PROCESS, observe_show_process(&row->key));
	table_text(table, CGROUP, observe_show_cgroup(view, &row->key, text, sizeof(text)));
	table_text(table, ENDPOINT, observe_endpoint(&row->key, text));
	table_count(table, REQUESTS, row->requests);
	put_value(table, RATE, view->seconds > 0 ? (double)row->requests / view->seconds : NAN, "/s");
	put_percentile(table, P50, response, 0.5);
	put_percentile(table, P90, response, 0.9);
	put_percentile(table, P99, response, 0.99);
	put_value(table, MAX, milliseconds(histogram_max(response)), "ms");
	table_count(table, FAILED, observe_failed_requests(row));
	table_count(table, CONNECTIONS, row->connections);
	table_counts(table, NOT_MADE, observe_failure_names, (const uint64_t *)row->failures);
	table_count(table, RESETS, row->resets_received + row->resets_sent);
	table_count(table, RETRANSMITS, row->retransmits);
	put_percentile(table, RTT, &row->times[OBSERVE_RTT], 0.5);
}

struct table *observe_show_table(const struct observe_view *view)
{
	struct table *table = table_new(columns_of(view->by), COLUMNS);

	for (size_t i = 0; i < view->lines->count; i++)
		add_line(table, view, &view->lines->rows[i]);
	return table;
}

/* ---- JSON ------------------------------------------------------------------------------------------------------------ */

static void counts_json(struct json *json, const char *key, const char *const *names, const __u64 *counts)
{
	json_open_object(json, key);
	for (size_t i = 0; names[i]; i++)
		json_count(json, names[i], counts[i]);
	json_close_object(json);
}

static void time_json(struct json *json, const char *name, const struct histogram *h)
{
	char key[32];

	snprintf(key, sizeof(key), "%s_ms", name);
	json_open_object(json, key);
	json_count(json, "count", histogram_count(h));
	json_number(json, "mean", milliseconds(histogram_mean(h)));
	json_number(json, "p50", milliseconds(histogram_percentile(h, 0.5)));
	json_number(json, "p90", milliseconds(histogram_percentile(h, 0.9)));
	json_number(json, "p99", milliseconds(histogram_percentile(h, 0.99)));
	json_number(json, "max", milliseconds(histogram_max(h)));
	json_close_object(json);
}

static void text_or_null(struct json *json, const char *key, const char *text)
{
	if (text[0])
		json_text(json, key, text);
	else
		json_null(json, key);
}

static void line_json(struct json *json, const struct observe_view *view, const struct observe_row *row)
{
	char text[4096];

	json_open_object(json, NULL);
	text_or_null(json, "side", row->key.side ? side_names[row->key.side] : "");
	text_or_null(json, "process", observe_show_process(&row->key));
	text_or_null(json, "cgroup", observe_show_cgroup(view, &row->key, text, sizeof(text)));
	text_or_null(json, "endpoint", observe_endpoint(&row->key, text));
	json_count(json, "connections", row->connections);
	counts_json(json, "failures", observe_failure_names, row->failures);
	json_count(json, "resets_received", row->resets_received);
	json_count(json, "resets_sent", row->resets_sent);
	json_count(json, "retransmits", row->retransmits);
	json_count(json, "requests", row->requests);
	json_number(json, "requests_per_s", view->seconds > 0 ? (double)row->requests / view->seconds : NAN);
	json_count(json, "responses", row->responses);
	json_count(json, "unanswered", row->unanswered);
	counts_json(json, "status", observe_class_names, row->status);
	json_count(json, "bytes_sent", row->bytes_sent);
	json_count(json, "bytes_received", row->bytes_received);
	for (size_t i = 0; i < OBSERVE_TIME_COUNT; i++)
		time_json(json, observe_time_names[i], &row->times[i]);
	json_close_object(json);
}

void observe_show_json(struct json *json, const struct observe_view *view)
{
	json_open_object(json, NULL);
	json_number(json, "seconds", view->seconds);
	json_text(json, "by", observe_by_names[view->by]);
	json_number(json, "error_percent", 100 * HISTOGRAM_ERROR);
	json_open_array(json, "rows");
	for (size_t i = 0; i < view->lines->count; i++)
		line_json(json, view, &view->lines->rows[i]);
	json_close_array(json);
	json_close_object(json);
}
