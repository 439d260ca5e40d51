// SPDX-License-Identifier: GPL-2.0-only
/* A policy file from its bytes to struct policy. */
#include "user/experiment/policy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "user/rules/rules_parse.h"

static int key_production(struct parser *p, const struct node *node, void *target)
{
	static const char *const names[] = { "forbidden", "allowed", NULL };
	struct policy *policy = target;
	unsigned int index = 0;
	int err = value_choice(p, node, names, &index);

	policy->production = index == 1;
	policy->production_mark = node->mark;
	return err;
}

/* Room for `count` more in an array of texts. */
static int add_text(struct parser *p, const struct node *node, struct text **list, size_t *count)
{
	struct text *grown = reallocarray(*list, *count + 1, sizeof(**list));
	int err;

	if (!grown)
		return out_of_memory(p);
	*list = grown;
	grown[*count] = (struct text){ 0 };
	err = key_text(p, node, &grown[*count]);
	++*count;
	return err;
}

static int add_operator(struct parser *p, const struct node *node, void *target)
{
	struct policy *policy = target;

	return add_text(p, node, &policy->operators, &policy->operators_count);
}

/* `required`, or who may be. */
static int key_operator(struct parser *p, const struct node *node, void *target)
{
	struct policy *policy = target;

	policy->operator_required = true;
	policy->operator_mark = node->mark;
	if (node->kind == NODE_TEXT && strcmp(node->text, "required") == 0)
		return 0;
	if (node->kind == NODE_TEXT)
		return fail(p, node->mark, "invalid operator '%s', expected required, or a list of names",
			    show(p, node->text));
	return value_each(p, node, add_operator, policy);
}

static const struct key window_keys[] = {
	{ "between", key_between, offsetof(struct policy_window, window) },
	{ "days", key_days, offsetof(struct policy_window, window) },
	{ NULL, NULL, 0 },
};

static int add_window(struct parser *p, const struct node *node, void *target)
{
	struct policy_window *window = target;

	*window = (struct policy_window){ .mark = node->mark };
	window->window.last_minute = 1440;
	window->window.days = 0x7f;
	return map_parse(p, node, "a map such as { between: \"09:00-17:00\", days: [mon, tue] }", window_keys, window);
}

static int windows_parse(struct parser *p, const struct node *node, struct policy_window **windows, size_t *count)
{
	int err = value_kind(p, node, NODE_LIST, "a list such as [{ between: \"09:00-17:00\" }]");

	if (err)
		return err;
	if (node->count == 0)
		return fail(p, node->mark, "'%s' is an empty list", node->label);
	if (node->count > POLICY_MAX_WINDOWS)
		return fail(p, node->mark, "'%s' has more than %d entries", node->label, POLICY_MAX_WINDOWS);
	*windows = calloc(node->count, sizeof(**windows));
	if (!*windows)
		return out_of_memory(p);
	for (; *count < node->count && !err; ++*count)
		err = add_window(p, &node->children[*count], &(*windows)[*count]);
	return err;
}

static int key_hours(struct parser *p, const struct node *node, void *target)
{
	struct policy *policy = target;

	return windows_parse(p, node, &policy->hours, &policy->hours_count);
}

static int key_peak_hours(struct parser *p, const struct node *node, void *target)
{
	struct policy *policy = target;

	return windows_parse(p, node, &policy->peak_hours, &policy->peak_hours_count);
}

static int key_max_percent(struct parser *p, const struct node *node, void *target)
{
	struct policy *policy = target;
	int err = value_percent(p, node, &policy->max_percent_ppm);

	policy->percent_mark = node->mark;
	if (!err && !policy->max_percent_ppm)
		err = fail(p, node->mark, "'max-percent' of 0 allows nothing");
	return err;
}

static int key_max_duration(struct parser *p, const struct node *node, void *target)
{
	struct policy *policy = target;
	int err = value_duration(p, node, RULES_MAX_DURATION_NS, &policy->max_duration_ns);

	policy->duration_mark = node->mark;
	if (!err && !policy->max_duration_ns)
		err = fail(p, node->mark, "'max-duration' of 0 allows nothing");
	return err;
}

static int key_max_hits(struct parser *p, const struct node *node, void *target)
{
	struct policy *policy = target;

	policy->hits_mark = node->mark;
	return value_number(p, node, 1, 1000000000000ULL, &policy->max_hits);
}

static int add_cgroup(struct parser *p, const struct node *node, void *target)
{
	struct policy *policy = target;

	return add_text(p, node, &policy->cgroups, &policy->cgroups_count);
}

static int key_cgroups(struct parser *p, const struct node *node, void *target)
{
	return value_each(p, node, add_cgroup, target);
}

static int add_name(struct parser *p, const struct node *node, void *target)
{
	struct policy *policy = target;

	return add_text(p, node, &policy->names, &policy->names_count);
}

static int key_names(struct parser *p, const struct node *node, void *target)
{
	return value_each(p, node, add_name, target);
}

static int key_forbidden_ports(struct parser *p, const struct node *node, void *target)
{
	struct policy *policy = target;
	struct endpoint endpoint = { 0 };
	int err = key_ports(p, node, &endpoint);

	policy->ports = endpoint.ports;
	policy->ports_count = endpoint.ports_count;
	return err;
}

static int key_blast(struct parser *p, const struct node *node, void *target)
{
	static const struct key keys[] = {
		{ "max-percent", key_max_percent, 0 },
		{ "max-duration", key_max_duration, 0 },
		{ "max-hits", key_max_hits, 0 },
		{ "forbidden-cgroups", key_cgroups, 0 },
		{ "forbidden-names", key_names, 0 },
		{ "forbidden-ports", key_forbidden_ports, 0 },
		{ NULL, NULL, 0 },
	};

	return map_parse(p, node, "a map such as { max-percent: 50%, max-duration: 10m }", keys, target);
}

static int key_within(struct parser *p, const struct node *node, void *target)
{
	struct policy *policy = target;

	return value_duration(p, node, 365ULL * 24 * 3600 * 1000000000ULL, &policy->staging_within_ns);
}

static const struct key file_keys[] = {
	{ "version", key_later, 0 },         { "production", key_production, 0 },
	{ "operator", key_operator, 0 },     { "hours", key_hours, 0 },
	{ "peak-hours", key_peak_hours, 0 }, { "blast", key_blast, 0 },
	{ "staging-within", key_within, 0 }, { NULL, NULL, 0 },
};

static int tree_parse(struct rules *source, struct policy *policy, struct error *err)
{
	struct parser p = { .rules = source, .err = err, .presets_only = true };
	struct node *root = NULL;
	int code = source_check(source, err);

	code = code ?: yaml_read(source, &root, err);
	code = code ?: value_kind(&p, root, NODE_MAP, "a map with version, hours, blast and so on");
	code = code ?: version_check(&p, root);
	code = code ?: map_parse(&p, root, "a map with version, hours, blast and so on", file_keys, policy);
	node_free(root);
	return code;
}

/* Takes `source`. */
static int parse(struct rules *source, struct policy **policy, struct error *err)
{
	struct policy *made = calloc(1, sizeof(*made));
	int code = 0;

	if (made)
		made->file = strdup(source->file);
	if (!made || !made->file)
		code = error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	code = code ?: tree_parse(source, made, err);
	rules_free(source);
	if (code) {
		policy_free(made);
		made = NULL;
	}
	*policy = made;
	return code;
}

int policy_parse(const char *file, const char *text, size_t len, struct policy **policy, struct error *err)
{
	struct rules *source = rules_new(file);

	*policy = NULL;
	if (source)
		source->source = bytes_copy(text, len);
	if (!source || !source->source) {
		rules_free(source);
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	}
	source->source_len = len;
	return parse(source, policy, err);
}

int policy_load(const char *path, struct policy **policy, struct error *err)
{
	struct rules *source;
	int code;

	*policy = NULL;
	if (!path && access(POLICY_FILE, F_OK) != 0 && errno == ENOENT) {
		*policy = calloc(1, sizeof(**policy));
		return *policy ? 0 : error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	}
	source = rules_new(path ?: POLICY_FILE);
	if (!source)
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	code = source_read(source, source->file, err);
	if (code) {
		rules_free(source);
		return code;
	}
	return parse(source, policy, err);
}

static void texts_free(struct text *texts, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(texts[i].text);
	free(texts);
}

void policy_free(struct policy *policy)
{
	if (!policy)
		return;
	texts_free(policy->operators, policy->operators_count);
	texts_free(policy->cgroups, policy->cgroups_count);
	texts_free(policy->names, policy->names_count);
	free(policy->hours);
	free(policy->peak_hours);
	free(policy->ports);
	free(policy->file);
	free(policy);
}
