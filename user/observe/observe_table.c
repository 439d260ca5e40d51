// SPDX-License-Identifier: GPL-2.0-only
/* Rows as numbers: what came between two readings, what several rows are together. Knows no kernel. */
#include "user/observe/observe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/observe/histogram.h"

#define TABLE(name, count, ...)                     \
	const char *const name[] = { __VA_ARGS__ }; \
	_Static_assert(sizeof(name) / sizeof(name[0]) == (count) + 1, #name " must be complete")

TABLE(observe_failure_names, OBSERVE_FAILURE_COUNT, "refused", "timeout", "reset", "unreachable", "denied", "given-up",
      "at-once", "other", NULL);
TABLE(observe_time_names, OBSERVE_TIME_COUNT, "response", "connect", "rtt", "gap", NULL);
TABLE(observe_class_names, OBSERVE_CLASSES, "none", "1xx", "2xx", "3xx", "4xx", "5xx", NULL);
TABLE(observe_by_names, OBSERVE_BY_COUNT, "connection", "process", "cgroup", "endpoint", NULL);

/* The counters lie between the key and the histograms, and are all of one type. */
#define COUNTERS ((offsetof(struct observe_row, times) - offsetof(struct observe_row, connections)) / sizeof(__u64))

static __u64 *counters(struct observe_row *row)
{
	return (__u64 *)((char *)row + offsetof(struct observe_row, connections));
}

static const __u64 *counters_of(const struct observe_row *row)
{
	return (const __u64 *)((const char *)row + offsetof(struct observe_row, connections));
}

void observe_row_add(struct observe_row *to, const struct observe_row *from)
{
	for (size_t i = 0; i < COUNTERS; i++)
		counters(to)[i] += counters_of(from)[i];
	for (size_t i = 0; i < OBSERVE_TIME_COUNT; i++)
		histogram_add(&to->times[i], &from->times[i]);
}

static void row_since(struct observe_row *now, const struct observe_row *earlier)
{
	struct histogram times[OBSERVE_TIME_COUNT];

	for (size_t i = 0; i < COUNTERS; i++)
		counters(now)[i] -= counters_of(earlier)[i];
	for (size_t i = 0; i < OBSERVE_TIME_COUNT; i++)
		histogram_since(&times[i], &now->times[i], &earlier->times[i]);
	memcpy(now->times, times, sizeof(times));
}

void observe_table_since(struct observe_table *now, const struct observe_table *earlier)
{
	for (size_t i = 0; i < now->count && i < earlier->count; i++)
		row_since(&now->rows[i], &earlier->rows[i]);
}

void observe_table_free(struct observe_table *table)
{
	free(table->rows);
	*table = (struct observe_table){ 0 };
}

bool observe_row_is_empty(const struct observe_row *row)
{
	for (size_t i = 0; i < COUNTERS; i++) {
		if (counters_of(row)[i])
			return false;
	}
	return true;
}

uint64_t observe_failures(const struct observe_row *row)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < OBSERVE_FAILURE_COUNT; i++)
		sum += row->failures[i];
	return sum;
}

uint64_t observe_failed_requests(const struct observe_row *row)
{
	return row->unanswered + row->status[5];
}

/* ---- grouping -------------------------------------------------------------------------------------------------------- */

/* The part of a key that lines are told apart by. */
static struct observe_key group_key(const struct observe_key *key, enum observe_by_what by)
{
	struct observe_key group = { .side = key->side };

	if (by == OBSERVE_EACH)
		return *key;
	if (by == OBSERVE_BY_PROCESS)
		memcpy(group.comm, key->comm, sizeof(group.comm));
	if (by == OBSERVE_BY_PROCESS || by == OBSERVE_BY_CGROUPS)
		group.cgroup_id = key->cgroup_id;
	if (by == OBSERVE_BY_ENDPOINT) {
		memcpy(group.address, key->address, sizeof(group.address));
		group.port = key->port;
	}
	return group;
}

static int by_requests(const void *a, const void *b)
{
	const struct observe_row *x = a, *y = b;

	if (x->key.side != y->key.side)
		return (int)y->key.side - (int)x->key.side; /* what is served first */
	if (x->requests != y->requests)
		return x->requests > y->requests ? -1 : 1;
	if (x->connections != y->connections)
		return x->connections > y->connections ? -1 : 1;
	return memcmp(&x->key, &y->key, sizeof(x->key));
}

static struct observe_row *line_for(struct observe_lines *lines, const struct observe_key *key)
{
	for (size_t i = 0; i < lines->count; i++) {
		if (memcmp(&lines->rows[i].key, key, sizeof(*key)) == 0)
			return &lines->rows[i];
	}
	lines->rows[lines->count].key = *key;
	return &lines->rows[lines->count++];
}

int observe_group(const struct observe_table *table, enum observe_by_what by, struct observe_lines *lines)
{
	lines->count = 0;
	lines->rows = calloc(table->count + 1, sizeof(*lines->rows));
	if (!lines->rows)
		return -ENOMEM;
	for (size_t i = 0; i < table->count; i++) {
		struct observe_key key = group_key(&table->rows[i].key, by);

		if (!observe_row_is_empty(&table->rows[i]))
			observe_row_add(line_for(lines, &key), &table->rows[i]);
	}
	qsort(lines->rows, lines->count, sizeof(*lines->rows), by_requests);
	return 0;
}

void observe_lines_free(struct observe_lines *lines)
{
	free(lines->rows);
	*lines = (struct observe_lines){ 0 };
}

const char *observe_endpoint(const struct observe_key *key, char *buf)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	char text[INET6_ADDRSTRLEN] = "";

	if (!key->port)
		snprintf(buf, OBSERVE_ENDPOINT_LEN, "%s", "");
	else if (key->side == CHAOS_SIDE_SERVER)
		snprintf(buf, OBSERVE_ENDPOINT_LEN, ":%u", key->port);
	else if (memcmp(key->address, mapped, sizeof(mapped)) == 0)
		snprintf(buf, OBSERVE_ENDPOINT_LEN, "%s:%u", inet_ntop(AF_INET, key->address + 12, text, sizeof(text)),
			 key->port);
	else
		snprintf(buf, OBSERVE_ENDPOINT_LEN, "[%s]:%u", inet_ntop(AF_INET6, key->address, text, sizeof(text)),
			 key->port);
	return buf;
}
