// SPDX-License-Identifier: GPL-2.0-only
/* What is promised, in numbers: `ask.success: ">= 99%"`. Words without a number are no promise, so they are refused. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/names.h"
#include "user/experiment/experiment_internal.h"

const char *const measure_names[] = { "success", "p50", "p90", "p95", "p99", "max", "rate", "attempts", "value", NULL };
const char *const measure_units[] = { "%", "ms", "ms", "ms", "ms", "ms", "/s", "", "", NULL };
_Static_assert(sizeof(measure_names) / sizeof(measure_names[0]) == MEASURE_COUNT + 1, "a name for every measure");
_Static_assert(sizeof(measure_units) / sizeof(measure_units[0]) == MEASURE_COUNT + 1, "a unit for every measure");

const char *const comparison_names[] = { ">=", "<=", ">", "<", "==", NULL };
_Static_assert(sizeof(comparison_names) / sizeof(comparison_names[0]) == COMPARISON_COUNT + 1,
	       "a sign for every comparison");

static const char *const examples[] = {
	[MEASURE_SUCCESS] = "\">= 99%\"", [MEASURE_P50] = "\"<= 300ms\"",   [MEASURE_P90] = "\"<= 500ms\"",
	[MEASURE_P95] = "\"<= 800ms\"",   [MEASURE_P99] = "\"<= 1s\"",      [MEASURE_MAX] = "\"<= 3s\"",
	[MEASURE_RATE] = "\">= 20/s\"",   [MEASURE_ATTEMPTS] = "\">= 10\"", [MEASURE_VALUE] = "\"< 5\"",
};

/* Takes the sign off the front. The longer ones are tried first, as the table has them. */
static int read_sign(const char **text, enum comparison *comparison)
{
	for (unsigned int i = 0; comparison_names[i]; i++) {
		size_t len = strlen(comparison_names[i]);

		if (strncmp(*text, comparison_names[i], len) == 0) {
			*text += len;
			*text += strspn(*text, " ");
			*comparison = i;
			return 0;
		}
	}
	return -EINVAL;
}

/* A decimal number, perhaps negative, and what stands behind it. */
static int read_decimal(const char *text, double *number, const char **rest)
{
	size_t len = text[0] == '-', digits;
	char copy[40];

	digits = strspn(text + len, "0123456789");
	len += digits;
	if (digits && text[len] == '.' && strspn(text + len + 1, "0123456789"))
		len += 1 + strspn(text + len + 1, "0123456789");
	if (!digits || len >= sizeof(copy))
		return -EINVAL;
	memcpy(copy, text, len);
	copy[len] = '\0';
	*number = strtod(copy, NULL);
	*rest = text + len;
	return 0;
}

static int read_threshold(const char *text, enum measure measure, double *threshold)
{
	const char *unit = measure_units[measure], *rest;
	uint32_t ppm;
	uint64_t ns;
	int err;

	if (measure == MEASURE_SUCCESS) {
		/* Without the sign a share of 1 could be meant. */
		if (!strchr(text, '%') || parse_percent(text, &ppm))
			return -EINVAL;
		*threshold = ppm / 1e4;
		return 0;
	}
	if (strcmp(unit, "ms") == 0) {
		err = parse_duration(text, &ns);
		*threshold = err ? 0 : (double)ns / 1e6;
		return err;
	}
	err = read_decimal(text, threshold, &rest);
	if (err || (strcmp(rest, unit) != 0 && rest[0]))
		return -EINVAL;
	return *threshold < 0 && measure != MEASURE_VALUE ? -EINVAL : 0;
}

int comparison_parse(struct parser *p, const struct node *node, enum measure measure, enum comparison *comparison,
		     double *threshold)
{
	const char *text, *at;
	char expected[80];
	int err;

	snprintf(expected, sizeof(expected), "a comparison such as %s", examples[measure]);
	err = value_text(p, node, expected, &text);
	if (err)
		return err;
	at = text;
	if (read_sign(&at, comparison)) {
		if (text[0] == '=' || text[0] == '!' || strncmp(text, "\xe2\x89", 2) == 0)
			return fail(p, node->mark, "invalid %s '%s', the signs are >=, <=, >, < and ==", node->label,
				    show(p, text));
		return fail(p, node->mark, "invalid %s '%s', it is no comparison; expected %s", node->label,
			    show(p, text), expected);
	}
	err = read_threshold(at, measure, threshold);
	if (err)
		return fail(p, node->mark, "invalid %s '%s', expected %s", node->label, show(p, text), expected);
	return 0;
}

static int unknown_probe(struct parser *p, const struct node *node, const char *name)
{
	const struct experiment *e = reading_of(p)->experiment;
	const char *names[EXPERIMENT_MAX_PROBES + EXPERIMENT_MAX_STEPS + EXPERIMENT_MAX_WATCHES + 1], *near;
	size_t count = 0;

	for (; count < e->probes_count; count++)
		names[count] = e->probes[count].name;
	names[count] = NULL;
	near = nearest_word(name, names);
	if (near)
		return fail(p, node->key_mark, "no probe '%s', did you mean '%s'?", show(p, name), near);
	return fail(p, node->key_mark, "no probe '%s'; measures are written PROBE.success, PROBE.p99 and so on",
		    show(p, name));
}

static int unknown_measure(struct parser *p, const struct node *node, const char *word)
{
	const char *near = nearest_word(word, measure_names);

	if (near)
		return fail(p, node->key_mark, "unknown measure '%s', did you mean '%s'?", show(p, word), near);
	return fail(p, node->key_mark,
		    "unknown measure '%s', expected success, p50, p90, p95, p99, max, rate, attempts or value",
		    show(p, word));
}

static size_t probe_index(const struct experiment *e, const char *name)
{
	for (size_t i = 0; i < e->probes_count; i++) {
		if (strcmp(e->probes[i].name, name) == 0)
			return i;
	}
	return SIZE_MAX;
}

/* "ask.p99": names may hold dots, so the last one parts. */
static int measure_parse(struct parser *p, const struct node *node, struct condition *condition)
{
	const char *dot = strrchr(node->key, '.');
	char name[RULES_MAX_TEXT + 1];
	int index, err;

	if (!dot || dot == node->key)
		return fail(p, node->key_mark, "'%s' is no measure, expected PROBE.success, PROBE.p99 and so on",
			    show(p, node->key));
	snprintf(name, sizeof(name), "%.*s", (int)(dot - node->key), node->key);
	condition->probe = probe_index(reading_of(p)->experiment, name);
	if (condition->probe == SIZE_MAX) {
		err = watch_probe(p, node, name, &condition->probe);
		if (err)
			return err;
	}
	if (condition->probe == SIZE_MAX)
		return unknown_probe(p, node, name);
	index = name_index(measure_names, dot + 1);
	if (index < 0)
		return unknown_measure(p, node, dot + 1);
	condition->measure = index;
	return 0;
}

/* What can be measured of which probe. */
static int check_measure(struct parser *p, const struct node *node, const char *section,
			 const struct condition *condition)
{
	const struct experiment_probe *probe = &reading_of(p)->experiment->probes[condition->probe];

	if (condition->measure == MEASURE_VALUE && probe->kind != PROBE_PROMETHEUS)
		return fail(p, node->key_mark, "'value' is measured by prometheus probes only, '%s' is none",
			    probe->name);
	if (probe->kind == PROBE_LOAD && strcmp(section, "steady") == 0)
		return fail(p, node->key_mark,
			    "'%s' is a load, which is not there before and after; its measures belong under "
			    "'during' or 'abort'",
			    probe->name);
	return 0;
}

static int condition_parse(struct parser *p, const struct node *node, const char *section, struct condition *condition)
{
	int err;

	condition->mark = node->key_mark;
	err = measure_parse(p, node, condition);
	if (!err)
		err = check_measure(p, node, section, condition);
	if (!err)
		err = comparison_parse(p, node, condition->measure, &condition->comparison, &condition->threshold);
	return err;
}

/* "abort: { withn: 3s }" is a slip of the other key, not a measure. */
static int near_duration_key(struct parser *p, const struct node *node, const char *duration_key)
{
	const char *words[] = { duration_key, NULL };

	if (duration_key && !strchr(node->key, '.') && nearest_word(node->key, words))
		return fail(p, node->key_mark, "unknown key '%s', did you mean '%s'?", show(p, node->key),
			    duration_key);
	return 0;
}

int conditions_parse(struct parser *p, const struct node *map, const char *section, const char *duration_key,
		     uint64_t *duration_ns, struct conditions *conditions)
{
	int err;

	err = value_kind(p, map, NODE_MAP, "a map such as { ask.success: \">= 99%\" }");
	if (err)
		return err;
	if (map->count > EXPERIMENT_MAX_CONDITIONS)
		return fail(p, map->mark, "'%s' has more than %d entries", section, EXPERIMENT_MAX_CONDITIONS);
	conditions->mark = map->mark;
	conditions->list = calloc(map->count + 1, sizeof(*conditions->list));
	if (!conditions->list)
		return out_of_memory(p);
	for (size_t i = 0; i < map->count && !err; i++) {
		const struct node *child = &map->children[i];

		if (duration_key && strcmp(child->key, duration_key) == 0) {
			err = key_phase(p, child, duration_ns);
			continue;
		}
		err = near_duration_key(p, child, duration_key);
		if (!err)
			err = condition_parse(p, child, section, &conditions->list[conditions->count]);
		if (!err)
			conditions->count++;
	}
	if (!err && conditions->count == 0)
		err = fail(p, map->mark, "'%s' says nothing in numbers, expected such as { ask.success: \">= 99%%\" }",
			   section);
	return err;
}

void value_words(char *buf, size_t size, double value, const char *unit)
{
	char number[48];

	if (isnan(value)) {
		snprintf(buf, size, "-");
		return;
	}
	if (strcmp(unit, "ms") == 0 && fabs(value) >= 1000) {
		value /= 1000;
		unit = "s";
	}
	if (fabs(value) >= 1000 || value == floor(value))
		snprintf(number, sizeof(number), "%.0f", value);
	else
		snprintf(number, sizeof(number),
			 fabs(value) < 10    ? "%.2f"
			 : fabs(value) < 100 ? "%.1f"
					     : "%.0f",
			 value);
	snprintf(buf, size, "%s%s%s", number, unit[0] && unit[0] != '/' ? " " : "", unit);
}

void condition_text(const struct experiment *experiment, const struct condition *condition, char *buf, size_t size)
{
	char value[64];

	value_words(value, sizeof(value), condition->threshold, measure_units[condition->measure]);
	snprintf(buf, size, "%s.%s %s %s", experiment->probes[condition->probe].name, measure_names[condition->measure],
		 comparison_names[condition->comparison], value);
}
