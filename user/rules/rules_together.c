// SPDX-License-Identifier: GPL-2.0-only
/*
 * Several rules files as one set. Each is parsed alone first, so that what is wrong in it is told with its own place; then
 * their trees become one, in which every rule has its file's defaults written into it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/rules/rules_parse.h"

struct part {
	struct rules *rules;
	struct node *root;
};

struct together {
	const char *const *paths;
	struct part *parts;
	size_t count;
	struct node version, endpoints, rules; /* children are shallow copies, but for the maps of rules */
	struct error *err;
};

static int out_of_memory_here(struct error *err)
{
	return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
}

static int append(struct node *list, const struct node *child, struct error *err)
{
	struct node *children = reallocarray(list->children, list->count + 1, sizeof(*children));

	if (!children)
		return out_of_memory_here(err);
	list->children = children;
	list->children[list->count++] = *child;
	return 0;
}

static bool same_text(const struct node *a, const struct node *b)
{
	struct node one = { .kind = NODE_LIST, .children = (struct node *)a, .count = 1 };
	struct node other = { .kind = NODE_LIST, .children = (struct node *)b, .count = 1 };
	struct node left = { .kind = NODE_MAP, .children = &one, .count = 1 };
	struct node right = { .kind = NODE_MAP, .children = &other, .count = 1 };
	char *first, *second;
	bool same;

	one.key = other.key = (char *)"x";
	first = yaml_write(&left);
	second = yaml_write(&right);
	same = first && second && strcmp(first, second) == 0;
	free(first);
	free(second);
	return same;
}

static int add_endpoints(struct together *t, const struct part *part)
{
	const struct node *map = node_get(part->root, "endpoints"), *there;
	int ret = 0;

	for (size_t i = 0; map && i < map->count && !ret; i++) {
		there = node_get(&t->endpoints, map->children[i].key);
		if (!there)
			ret = append(&t->endpoints, &map->children[i], t->err);
		else if (!same_text(there, &map->children[i]))
			ret = rules_error_at(part->rules, map->children[i].key_mark, t->err, EXIT_USAGE,
					     "endpoint '%s' is another one in the files before", map->children[i].key);
	}
	return ret;
}

static const struct node *rule_of_name(const struct together *t, const char *name)
{
	for (size_t i = 0; i < t->rules.count; i++) {
		const struct node *other = node_get(&t->rules.children[i], "name");

		if (other && strcmp(other->text, name) == 0)
			return other;
	}
	return NULL;
}

/* A copy of the rule's map with what its file says under `defaults`. */
static int add_rule(struct together *t, const struct part *part, const struct node *rule)
{
	const struct node *defaults = node_get(part->root, "defaults"), *name = node_get(rule, "name");
	struct node copy = *rule;
	int ret = 0;

	if (rule_of_name(t, name->text))
		return rules_error_at(part->rules, name->mark, t->err, EXIT_USAGE,
				      "rule name '%s' is taken by a rule of the files before", name->text);
	copy.children = NULL;
	copy.count = 0;
	for (size_t i = 0; i < rule->count && !ret; i++)
		ret = append(&copy, &rule->children[i], t->err);
	for (size_t i = 0; defaults && i < defaults->count && !ret; i++) {
		if (!node_get(rule, defaults->children[i].key))
			ret = append(&copy, &defaults->children[i], t->err);
	}
	ret = ret ?: append(&t->rules, &copy, t->err);
	if (ret)
		free(copy.children);
	return ret;
}

static int add_part(struct together *t, size_t index, const struct rules_options *options)
{
	struct part *part = &t->parts[index];
	const struct node *list;
	int ret;

	ret = rules_load(t->paths[index], options, &part->rules, t->err);
	ret = ret ?: yaml_read(part->rules, &part->root, t->err);
	ret = ret ?: add_endpoints(t, part);
	list = ret ? NULL : node_get(part->root, "rules");
	for (size_t i = 0; list && i < list->count && !ret; i++)
		ret = add_rule(t, part, &list->children[i]);
	return ret;
}

static int parse_all(struct together *t, const char *name, const struct rules_options *options, struct rules **rules)
{
	struct node children[3], root = { .kind = NODE_MAP, .label = "the file", .children = children };

	t->version = (struct node){ .kind = NODE_TEXT, .text = (char *)"1", .key = (char *)"version" };
	t->endpoints.key = (char *)"endpoints";
	t->rules.key = (char *)"rules";
	t->endpoints.label = "endpoints";
	t->rules.label = "rules";
	children[root.count++] = t->version;
	if (t->endpoints.count)
		children[root.count++] = t->endpoints;
	children[root.count++] = t->rules;
	return rules_from_tree(name, &root, options, rules, t->err);
}

static void free_all(struct together *t)
{
	for (size_t i = 0; i < t->rules.count; i++)
		free(t->rules.children[i].children);
	free(t->rules.children);
	free(t->endpoints.children);
	for (size_t i = 0; t->parts && i < t->count; i++) {
		node_free(t->parts[i].root);
		rules_free(t->parts[i].rules);
	}
	free(t->parts);
}

int rules_load_together(const char *const *paths, size_t count, const struct rules_options *options,
			struct rules **rules, struct error *err)
{
	struct together t = { .paths = paths, .count = count, .err = err };
	char name[256];
	int ret = 0;

	*rules = NULL;
	if (count == 1)
		return rules_load(paths[0], options, rules, err);
	t.parts = calloc(count, sizeof(*t.parts));
	t.endpoints.kind = NODE_MAP;
	t.rules.kind = NODE_LIST;
	if (!t.parts)
		return out_of_memory_here(err);
	for (size_t i = 0; i < count && !ret; i++)
		ret = add_part(&t, i, options);
	snprintf(name, sizeof(name), "%s and %zu more", paths[0], count - 1);
	if (!ret && t.rules.count > RULES_MAX_LIST)
		ret = error_set(err, -EINVAL, EXIT_USAGE, "%s: more than %d rules together", name, RULES_MAX_LIST);
	ret = ret ?: parse_all(&t, name, options, rules);
	free_all(&t);
	return ret;
}
