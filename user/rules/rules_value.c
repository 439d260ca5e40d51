// SPDX-License-Identifier: GPL-2.0-only
/* Single values of the rule language, and the walk over a map's keys; see rules_parse.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/rules/explain.h"
#include "user/rules/rules_parse.h"

int out_of_memory(struct parser *p)
{
	return error_set(p->err, -ENOMEM, EXIT_FAILED, "out of memory");
}

const char *show(struct parser *p, const char *text)
{
	char *shown = p->shown[p->shown_next++ % 4];
	size_t len = strlen(text);

	if (len < sizeof(p->shown[0]))
		return strcpy(shown, text);
	len = sizeof(p->shown[0]) - sizeof("...");
	while ((text[len] & 0xc0) == 0x80)
		len--; /* not in the middle of a character */
	memcpy(shown, text, len);
	strcpy(shown + len, "...");
	return shown;
}

static bool is_null(const struct node *node)
{
	return node->kind == NODE_TEXT && node->plain &&
	       (node->text[0] == '\0' || strcmp(node->text, "~") == 0 || strcmp(node->text, "null") == 0);
}

int value_kind(struct parser *p, const struct node *node, enum node_kind kind, const char *expected)
{
	static const char *const names[] = { "a single value", "a list", "a map" };

	if (is_null(node))
		return fail(p, node->mark, "'%s' has no value, expected %s", show(p, node->label), expected);
	if (node->kind != kind)
		return fail(p, node->mark, "'%s' is %s, expected %s", show(p, node->label), names[node->kind],
			    expected);
	return 0;
}

int value_text(struct parser *p, const struct node *node, const char *expected, const char **text)
{
	int err;

	*text = NULL;
	err = value_kind(p, node, NODE_TEXT, expected);
	if (err)
		return err;
	if (node->text[0] == '\0')
		return fail(p, node->mark, "'%s' is empty, expected %s", show(p, node->label), expected);
	*text = node->text;
	return 0;
}

int value_number(struct parser *p, const struct node *node, uint64_t min, uint64_t max, uint64_t *number)
{
	char expected[80];
	const char *text;
	int err;

	snprintf(expected, sizeof(expected), "a whole number from %llu to %llu", (unsigned long long)min,
		 (unsigned long long)max);
	err = value_text(p, node, expected, &text);
	if (err)
		return err;
	err = parse_number(text, number);
	if (err == 0 && *number >= min && *number <= max)
		return 0;
	return fail(p, node->mark, "invalid %s '%s', expected %s%s", node->label, show(p, text), expected,
		    err == -EINVAL && text[0] == '0' ? ", in decimal and without a leading zero" : "");
}

int value_size(struct parser *p, const struct node *node, const char *expected, uint64_t max, const char *too_much,
	       uint64_t *bytes)
{
	const char *text;
	int err;

	err = value_text(p, node, expected, &text);
	if (err)
		return err;
	err = parse_size(text, bytes);
	if (err == -EINVAL)
		return fail(p, node->mark, "invalid %s '%s', expected %s", node->label, show(p, text), expected);
	if (err || *bytes > max)
		return fail(p, node->mark, "%s '%s' is %s", node->label, show(p, text), too_much);
	return 0;
}

int value_duration(struct parser *p, const struct node *node, uint64_t max_ns, uint64_t *ns)
{
	static const char expected[] = "a duration such as 500ms, 8s or 1m30s";
	char most[64];
	const char *text;
	uint64_t number;
	int err;

	err = value_text(p, node, expected, &text);
	if (err)
		return err;
	err = parse_duration(text, ns);
	if (err == -EINVAL && parse_number(text, &number) == 0)
		return fail(p, node->mark, "invalid %s '%s', it has no unit; expected %s", node->label, show(p, text),
			    expected);
	if (err == -EINVAL)
		return fail(p, node->mark, "invalid %s '%s', expected %s", node->label, show(p, text), expected);
	if (err || *ns > max_ns) {
		format_duration(most, sizeof(most), max_ns);
		return fail(p, node->mark, "%s '%s' is too long, at most %s", node->label, show(p, text), most);
	}
	return 0;
}

int value_percent(struct parser *p, const struct node *node, uint32_t *ppm)
{
	static const char expected[] = "a percentage from 0 to 100, such as 30 or 0.5%";
	const char *text;
	int err;

	err = value_text(p, node, expected, &text);
	if (err)
		return err;
	err = parse_percent(text, ppm);
	if (err)
		return fail(p, node->mark, "invalid %s '%s', expected %s", node->label, show(p, text), expected);
	return 0;
}

static bool is_yaml11_bool(const char *text)
{
	static const char *const words[] = { "true", "false", "yes", "no", "on", "off", "y", "n", NULL };

	for (size_t i = 0; words[i]; i++) {
		if (strcasecmp(words[i], text) == 0)
			return true;
	}
	return false;
}

int key_bool(struct parser *p, const struct node *node, void *target)
{
	bool *value = target;
	const char *text;
	int err;

	err = value_text(p, node, "true or false", &text);
	if (err)
		return err;
	*value = strcmp(text, "true") == 0;
	if (*value || strcmp(text, "false") == 0)
		return 0;
	if (is_yaml11_bool(text))
		return fail(p, node->mark, "invalid %s '%s', yes and no are written true and false", node->label, text);
	return fail(p, node->mark, "invalid %s '%s', expected true or false", node->label, show(p, text));
}

int value_true(struct parser *p, const struct node *node)
{
	bool value;
	int err;

	err = key_bool(p, node, &value);
	if (err)
		return err;
	if (!value)
		return fail(p, node->mark, "'%s: false' does nothing, leave it out", node->label);
	return 0;
}

/* "a, b or c" */
static void join_words(const char *const *words, char *buf, size_t size)
{
	const char *gap = "";
	size_t len = 0;

	buf[0] = '\0';
	for (size_t i = 0; words[i] && len < size; i++) {
		len += (size_t)snprintf(buf + len, size - len, "%s%s", gap, words[i]);
		gap = words[i + 1] && words[i + 2] ? ", " : " or ";
	}
}

int value_choice(struct parser *p, const struct node *node, const char *const *names, unsigned int *index)
{
	const char *text, *near;
	char expected[160];
	int err;

	join_words(names, expected, sizeof(expected));
	err = value_text(p, node, expected, &text);
	if (err)
		return err;
	for (*index = 0; names[*index]; ++*index) {
		if (strcmp(names[*index], text) == 0)
			return 0;
	}
	near = nearest_word(text, names);
	if (near)
		return fail(p, node->mark, "unknown %s '%s', did you mean '%s'?", node->label, show(p, text), near);
	return fail(p, node->mark, "unknown %s '%s', expected %s", node->label, show(p, text), expected);
}

size_t value_count(const struct node *node)
{
	return node->kind == NODE_LIST && node->count ? node->count : 1;
}

int value_each(struct parser *p, const struct node *node, entry_fn read, void *target)
{
	int err = 0;

	if (node->kind != NODE_LIST)
		return read(p, node, target);
	if (node->count == 0)
		return fail(p, node->mark, "'%s' is an empty list", show(p, node->label));
	for (size_t i = 0; i < node->count && !err; i++)
		err = read(p, &node->children[i], target);
	return err;
}

int key_text(struct parser *p, const struct node *node, void *target)
{
	struct text *owned = target;
	const char *text;
	int err;

	err = value_text(p, node, "a single value", &text);
	if (err)
		return err;
	owned->mark = node->mark;
	owned->text = strdup(text);
	return owned->text ? 0 : out_of_memory(p);
}

int key_later(struct parser *p, const struct node *node, void *target)
{
	(void)p;
	(void)node;
	(void)target;
	return 0;
}

static bool is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

int name_parse(struct parser *p, struct mark mark, const char *text, char *name)
{
	size_t len = strlen(text);

	if (!len)
		return fail(p, mark, "a name is empty, expected letters, digits, '.', '_' and '-'");
	if (len > RULES_MAX_NAME)
		return fail(p, mark, "name '%s' has %zu characters, at most %d are allowed", show(p, text), len,
			    RULES_MAX_NAME);
	for (size_t i = 0; i < len; i++) {
		if (!is_name_char(text[i]) && (i == 0 || !strchr("._-", text[i])))
			return fail(p, mark,
				    "invalid name '%s', expected letters, digits, '.', '_' and '-', beginning with a "
				    "letter or digit",
				    show(p, text));
	}
	memcpy(name, text, len + 1);
	return 0;
}

static const struct key *key_find(const struct key *keys, const char *name)
{
	for (; keys->name; keys++) {
		if (strcmp(keys->name, name) == 0)
			return keys;
	}
	return NULL;
}

/* Words of other tools, and where we say something else. */
static const char *translate(const char *word)
{
	static const char *const words[][2] = {
		{ "latency", "delay" },      { "loss", "drop" },        { "probability", "percent" },
		{ "percentage", "percent" }, { "toxicity", "percent" }, { "comm", "process" },
		{ "uid", "user" },           { "address", "hosts" },    { "addresses", "hosts" },
		{ "ip", "hosts" },           { "timeout", "duration" }, { "schedule", "between" },
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(words[i][0], word) == 0)
			return words[i][1];
	}
	return NULL;
}

static const char *near_key(const char *word, const struct key *keys)
{
	const char *names[32], *other = translate(word);
	size_t count = 0;

	if (other && key_find(keys, other))
		return other;
	for (; keys->name && count < 31; keys++) {
		if (keys->parse)
			names[count++] = keys->name;
	}
	names[count] = NULL;
	return nearest_word(word, names);
}

/* A key that is right in another section is the likelier slip. */
static int misplaced_key(struct parser *p, const struct node *child)
{
	if (key_find(match_keys, child->key))
		return fail(p, child->key_mark, "'%s' belongs under 'match'", child->key);
	if (key_find(fault_keys, child->key))
		return fail(p, child->key_mark, "'%s' belongs under 'fault'", child->key);
	if (key_find(rule_keys, child->key))
		return fail(p, child->key_mark, "'%s' belongs to a rule, beside 'name'", child->key);
	return 0;
}

static int unknown_key(struct parser *p, const struct node *child, const struct key *keys)
{
	const char *near = near_key(child->key, keys);
	int err;

	err = p->presets_only ? 0 : misplaced_key(p, child);
	if (err)
		return err;
	if (near)
		return fail(p, child->key_mark, "unknown key '%s', did you mean '%s'?", show(p, child->key), near);
	return fail(p, child->key_mark, "unknown key '%s'", show(p, child->key));
}

static int check_key(struct parser *p, const struct node *child, const struct key *keys, const struct key **found)
{
	*found = key_find(keys, child->key);
	if (!*found)
		return unknown_key(p, child, keys);
	return 0;
}

int map_check_keys(struct parser *p, const struct node *map, const char *expected, const struct key *keys)
{
	const struct key *key;
	int err;

	err = value_kind(p, map, NODE_MAP, expected);
	for (size_t i = 0; i < map->count && !err; i++)
		err = check_key(p, &map->children[i], keys, &key);
	return err;
}

int map_parse(struct parser *p, const struct node *map, const char *expected, const struct key *keys, void *target)
{
	const struct key *key;
	int err;

	err = value_kind(p, map, NODE_MAP, expected);
	for (size_t i = 0; i < map->count && !err; i++) {
		err = check_key(p, &map->children[i], keys, &key);
		if (!err)
			err = key->parse(p, &map->children[i], (char *)target + key->offset);
	}
	return err;
}
