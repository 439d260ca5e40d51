// SPDX-License-Identifier: GPL-2.0-only
/* The hosts of a preset: patterns with what was given for their placeholders; see presets.h. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/rules/presets.h"

/* Which placeholder begins at `text`, or -1; *len is its length with the braces. */
static int placeholder_at(const char *text, size_t *len)
{
	for (int i = 0; i < PRESET_PLACEHOLDERS; i++) {
		size_t name_len = strlen(preset_placeholders[i]);

		if (text[0] == '{' && strncmp(text + 1, preset_placeholders[i], name_len) == 0 &&
		    text[name_len + 1] == '}') {
			*len = name_len + 2;
			return i;
		}
	}
	return -1;
}

/* A set of 1 << placeholder. */
static unsigned int placeholders_in(const char *pattern)
{
	unsigned int found = 0;
	size_t len;

	for (; *pattern; pattern++) {
		int which = placeholder_at(pattern, &len);

		if (which >= 0)
			found |= 1U << which;
	}
	return found;
}

struct expansion {
	char **list;           /* ends with NULL */
	unsigned int *lacking; /* of each: the placeholders for which "*" stands */
	size_t count, room;
	bool failed;
};

static bool has_text(const struct expansion *e, const char *text)
{
	for (size_t i = 0; i < e->count; i++) {
		if (strcmp(e->list[i], text) == 0)
			return true;
	}
	return false;
}

/* Room for one more and the NULL behind it. */
static bool make_room(struct expansion *e)
{
	size_t room = e->room + 64;
	unsigned int *lacking;
	char **list;

	if (e->count + 1 < e->room)
		return true;
	list = realloc(e->list, room * sizeof(*list));
	if (list)
		e->list = list;
	lacking = realloc(e->lacking, room * sizeof(*lacking));
	if (lacking)
		e->lacking = lacking;
	if (list && lacking)
		e->room = room;
	return list && lacking;
}

static void add(struct expansion *e, char *text, unsigned int lacking)
{
	if (text && has_text(e, text)) {
		free(text);
		return;
	}
	if (!text || !make_room(e)) {
		free(text);
		e->failed = true;
		return;
	}
	e->lacking[e->count] = lacking;
	e->list[e->count++] = text;
	e->list[e->count] = NULL;
}

/* `pattern` with the given words, "*" where none is. */
static char *fill_in(const char *pattern, const char *const words[PRESET_PLACEHOLDERS])
{
	char *text = NULL;
	size_t size, len;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	while (*pattern) {
		int which = placeholder_at(pattern, &len);

		if (which < 0) {
			fputc(*pattern++, out);
			continue;
		}
		fputs(words[which] ? words[which] : "*", out);
		pattern += len;
	}
	return fclose(out) ? NULL : text;
}

/* "*.*.example.com" and "*.example.com" are one: any names below. */
static void join_stars(char *text)
{
	while (strncmp(text, "*.*.", 4) == 0)
		memmove(text, text + 2, strlen(text) - 1);
}

/* May it stand in `hosts`: a name, or "*." and a name. */
static bool is_expressible(const char *text)
{
	return !strchr(strncmp(text, "*.", 2) == 0 ? text + 2 : text, '*');
}

/* "grpc-*.example.com" where "*.example.com" is in the list as well. */
static bool is_covered(const struct expansion *e, const char *text)
{
	const char *rest = strchr(text, '.');

	for (size_t i = 0; rest && i < e->count; i++) {
		const char *wide = e->list[i];

		if (wide && wide[0] == '*' && is_expressible(wide) && strcmp(wide + 1, rest) == 0)
			return true;
	}
	return false;
}

static unsigned int given_set(const struct text_list given[PRESET_PLACEHOLDERS])
{
	unsigned int set = 0;

	for (int i = 0; i < PRESET_PLACEHOLDERS; i++)
		set |= given[i].count ? 1U << i : 0;
	return set;
}

/* All combinations of what was given, for one pattern. */
static void expand(struct expansion *e, const char *pattern, const struct text_list given[PRESET_PLACEHOLDERS])
{
	unsigned int in = placeholders_in(pattern), lacking = in & ~given_set(given);
	size_t regions = in & 1 && given[0].count ? given[0].count : 1;
	size_t instances = in & 2 && given[1].count ? given[1].count : 1;

	for (size_t i = 0; i < regions * instances; i++) {
		const char *const words[PRESET_PLACEHOLDERS] = {
			given[0].count ? given[0].entries[i / instances % given[0].count].text : NULL,
			given[1].count ? given[1].entries[i % instances].text : NULL,
		};
		char *text = fill_in(pattern, words);

		if (text)
			join_stars(text);
		add(e, text, lacking);
	}
}

/* What cannot be expressed and others cover becomes NULL. The placeholders that the rest of those lack. */
static unsigned int drop_covered(struct expansion *e)
{
	unsigned int lacking = 0;

	for (size_t i = 0; i < e->count; i++) {
		if (is_expressible(e->list[i]))
			continue;
		if (!is_covered(e, e->list[i])) {
			lacking |= e->lacking[i];
			continue;
		}
		free(e->list[i]);
		e->list[i] = NULL;
	}
	return lacking;
}

/* Takes out what others cover. What then cannot be expressed lacks a placeholder: which, or -1. */
static int settle(struct expansion *e)
{
	unsigned int lacking = drop_covered(e);
	size_t kept = 0;

	for (size_t i = 0; i < e->count; i++) {
		if (e->list[i])
			e->list[kept++] = e->list[i];
	}
	if (e->list)
		e->list[kept] = NULL;
	e->count = kept;
	if (!lacking)
		return -1;
	return lacking & 1 ? 0 : 1; /* the region says more than an instance's name: it is asked for first */
}

static void hosts_free(char **list)
{
	for (size_t i = 0; list && list[i]; i++)
		free(list[i]);
	free(list);
}

char **preset_hosts(const struct preset *preset, const struct text_list given[PRESET_PLACEHOLDERS], size_t *missing)
{
	unsigned int set = given_set(given);
	struct expansion e = { 0 };
	int lacking;

	*missing = PRESET_PLACEHOLDERS;
	for (size_t i = 0; i < preset->hosts.count; i++) {
		const char *pattern = preset->hosts.entries[i].text;

		if (!set || (placeholders_in(pattern) & set) == set)
			expand(&e, pattern, given);
	}
	lacking = e.failed ? PRESET_PLACEHOLDERS : settle(&e);
	free(e.lacking);
	if (!e.list && !e.failed)
		e.list = calloc(1, sizeof(*e.list));
	if (lacking < 0)
		return e.list;
	hosts_free(e.list);
	*missing = (size_t)lacking;
	return NULL;
}

bool preset_needs(const struct preset *preset, size_t placeholder)
{
	static const struct text_list none[PRESET_PLACEHOLDERS];
	size_t missing;
	char **hosts = preset_hosts(preset, none, &missing);

	hosts_free(hosts);
	return !hosts && missing == placeholder;
}

bool preset_takes(const struct preset *preset, size_t placeholder)
{
	for (size_t i = 0; i < preset->hosts.count; i++) {
		if (placeholders_in(preset->hosts.entries[i].text) & 1U << placeholder)
			return true;
	}
	return false;
}
