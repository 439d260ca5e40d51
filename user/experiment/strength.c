// SPDX-License-Identifier: GPL-2.0-only
#include "user/experiment/strength.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "user/base/names.h"

#define TABLE(name, count, ...)                           \
	const char *const name[] = { __VA_ARGS__, NULL }; \
	_Static_assert(sizeof(name) / sizeof(name[0]) == (count) + 1, #name " must name every value")

TABLE(breakage_names, BREAKAGE_COUNT, "down", "slow", "random");
TABLE(strength_names, STRENGTH_COUNT, "unknown", "weak", "strong");

static bool matters(const struct trial *trial)
{
	return trial->done && trial->injected &&
	       (trial->verdict.change == ROBUST_FAILS || trial->verdict.change == ROBUST_SLOW);
}

enum strength tested_strength(const struct tested *tested)
{
	const struct trial *down = &tested->trials[BREAK_DOWN];

	for (size_t i = 0; i < BREAKAGE_COUNT; i++) {
		if (matters(&tested->trials[i]))
			return STRENGTH_STRONG;
	}
	if (!down->done || !down->injected || down->verdict.change == ROBUST_TOO_FEW)
		return STRENGTH_UNKNOWN;
	return STRENGTH_WEAK;
}

/* "fails", "slow", "same", "not called", "cannot", "-" */
static const char *trial_words(const struct trial *trial)
{
	if (trial->cannot[0])
		return "cannot";
	if (!trial->done)
		return "-";
	return trial->injected ? robust_change_names[trial->verdict.change] : "not called";
}

static struct trial_record trial_record(const struct trial *trial, enum breakage how)
{
	return (struct trial_record){
		.how = breakage_names[how],
		.change = trial_words(trial),
		.injected = trial->injected,
		.judged = trial->done && trial->injected,
		.failed_percent = trial->verdict.failed * 100,
		.latency_ms = trial->verdict.latency_ms,
		.chance = trial->verdict.chance,
		.cannot = trial->cannot,
	};
}

_Static_assert((int)BREAKAGE_COUNT == DEPENDENCY_TRIALS, "a record for each way to break");

struct dependency_record tested_record(const struct tested *tested, const char *worse)
{
	struct dependency_record record = {
		.name = tested->name,
		.port = tested->port,
		.strength = strength_names[tested_strength(tested)],
		.worse = worse,
	};

	for (size_t i = 0; i < BREAKAGE_COUNT; i++)
		record.trials[i] = trial_record(&tested->trials[i], (enum breakage)i);
	return record;
}

/* ---- what was known ---- */

struct known {
	json_t *root;
};

static int not_ours(const char *file, const char *why, struct error *err)
{
	return error_set(err, -EINVAL, EXIT_USAGE, "'%s' is no file of strong and weak dependencies: %s", file, why);
}

int known_read(const char *file, struct known **known, struct error *err)
{
	json_error_t where;
	json_t *root, *one;
	size_t i;

	*known = NULL;
	if (access(file, R_OK) < 0)
		return error_set(err, -errno, EXIT_USAGE, "cannot read '%s': %s", file, strerror(errno));
	root = json_load_file(file, 0, &where);
	if (!root)
		return not_ours(file, where.text, err);
	*known = calloc(1, sizeof(**known));
	if (!*known || json_integer_value(json_object_get(root, "version")) != 1 ||
	    !json_is_array(json_object_get(root, "dependencies"))) {
		json_decref(root);
		free(*known);
		*known = NULL;
		return not_ours(file, "it needs version 1 and dependencies", err);
	}
	(*known)->root = root;
	json_array_foreach(json_object_get(root, "dependencies"), i, one)
	{
		const char *strength = json_string_value(json_object_get(one, "strength"));

		if (json_string_value(json_object_get(one, "name")) && json_is_integer(json_object_get(one, "port")) &&
		    strength && name_index(strength_names, strength) >= 0)
			continue;
		known_free(*known);
		*known = NULL;
		return not_ours(file, "each dependency needs name, port and strength", err);
	}
	return 0;
}

void known_free(struct known *known)
{
	if (known)
		json_decref(known->root);
	free(known);
}

const char *known_worse(const struct known *known, const struct tested *tested)
{
	json_t *one;
	size_t i;

	if (tested_strength(tested) != STRENGTH_STRONG)
		return NULL;
	json_array_foreach(json_object_get(known->root, "dependencies"), i, one)
	{
		if (strcmp(json_string_value(json_object_get(one, "name")), tested->name) ||
		    json_integer_value(json_object_get(one, "port")) != tested->port)
			continue;
		switch (name_index(strength_names, json_string_value(json_object_get(one, "strength")))) {
		case STRENGTH_STRONG:
			return NULL;
		case STRENGTH_WEAK:
			return "was weak";
		default:
			return "was unknown";
		}
	}
	return "is new";
}

int strength_write(const char *file, const struct tested_list *tested, struct error *err)
{
	json_t *list = json_array(), *root = json_pack("{s:i, s:o}", "version", 1, "dependencies", list);
	char beside[4096];
	int ret = 0;

	for (size_t i = 0; i < tested->count; i++)
		json_array_append_new(list, json_pack("{s:s, s:i, s:s}", "name", tested->list[i].name, "port",
						      (int)tested->list[i].port, "strength",
						      strength_names[tested_strength(&tested->list[i])]));
	snprintf(beside, sizeof(beside), "%s.new", file);
	if (!root || json_dump_file(root, beside, JSON_INDENT(2)) || rename(beside, file))
		ret = error_set(err, -EIO, EXIT_FAILED, "cannot write '%s': %s", file, strerror(errno));
	json_decref(root);
	return ret;
}
