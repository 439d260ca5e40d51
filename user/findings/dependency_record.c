// SPDX-License-Identifier: GPL-2.0-only
#include "user/findings/dependency_record.h"

#include <stdio.h>
#include <string.h>

#include "user/findings/report.h"

/* ---- for programs ---- */

void trials_json(struct json *json, const struct dependency_record *dependency)
{
	for (size_t i = 0; i < DEPENDENCY_TRIALS; i++) {
		const struct trial_record *trial = &dependency->trials[i];

		if (!trial->how[0])
			continue;
		json_open_object(json, trial->how);
		json_text(json, "change", trial->change);
		json_count(json, "injected", trial->injected);
		if (trial->judged) {
			json_number(json, "failed_percent", trial->failed_percent);
			json_number(json, "latency_ms", trial->latency_ms);
			json_number(json, "chance", trial->chance);
		}
		json_text(json, "cannot", trial->cannot);
		json_close_object(json);
	}
}

void dependencies_json(struct json *json, const char *key, const struct dependency_record *list, size_t count)
{
	json_open_array(json, key);
	for (size_t i = 0; i < count; i++) {
		json_open_object(json, NULL);
		json_text(json, "name", list[i].name);
		json_count(json, "port", list[i].port);
		json_text(json, "strength", list[i].strength);
		trials_json(json, &list[i]);
		if (list[i].worse)
			json_text(json, "worse", list[i].worse);
		else
			json_null(json, "worse");
		json_close_object(json);
	}
	json_close_array(json);
}

/* ---- for people ---- */

enum {
	NAME,
	PORT,
	STRENGTH,
	DOWN,
	SLOW,
	RANDOM,
	WORSE,
	COLUMNS,
};

static const struct column columns[COLUMNS] = {
	[NAME] = { "DEPENDENCY", NULL, CELL_TEXT, false },   [PORT] = { "PORT", NULL, CELL_COUNT, false },
	[STRENGTH] = { "STRENGTH", NULL, CELL_TEXT, false }, [DOWN] = { "DOWN", NULL, CELL_TEXT, false },
	[SLOW] = { "SLOW", NULL, CELL_TEXT, false },         [RANDOM] = { "RANDOM", NULL, CELL_TEXT, false },
	[WORSE] = { "BEFORE", NULL, CELL_TEXT, false },
};
_Static_assert(WORSE - DOWN == DEPENDENCY_TRIALS, "a column for each trial");

void trial_text(const struct trial_record *trial, char *buf, size_t size)
{
	char value[64];

	if (trial->judged && strcmp(trial->change, "fails") == 0) {
		report_value(value, sizeof(value), trial->failed_percent, "%");
		snprintf(buf, size, "fails: %s", value);
	} else if (trial->judged && strcmp(trial->change, "slow") == 0) {
		report_value(value, sizeof(value), trial->latency_ms, "ms");
		snprintf(buf, size, "slow: %s", value);
	} else {
		snprintf(buf, size, "%s", trial->change);
	}
}

struct table *dependencies_table(const struct dependency_record *list, size_t count)
{
	struct table *table = table_new(columns, COLUMNS);
	char text[128];

	for (size_t i = 0; i < count; i++) {
		table_row(table);
		table_text(table, NAME, list[i].name);
		table_count(table, PORT, list[i].port);
		table_text(table, STRENGTH, list[i].strength);
		for (size_t b = 0; b < DEPENDENCY_TRIALS; b++) {
			trial_text(&list[i].trials[b], text, sizeof(text));
			table_text(table, DOWN + b, text);
		}
		if (list[i].worse)
			table_text(table, WORSE, list[i].worse);
	}
	return table;
}
