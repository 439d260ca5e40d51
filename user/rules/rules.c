// SPDX-License-Identifier: GPL-2.0-only
/*
 * A rules file from its bytes to struct rules: the way in, the top of the language, one rule, and the checks across
 * rules. The parts of a rule are in rules_match.c, rules_fault.c and rules_time.c.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/names.h"
#include "user/rules/presets.h"
#include "user/rules/rules_parse.h"

_Static_assert(RULES_MAX_LIST <= CHAOS_MAX_RULES, "the limit of a list is that of the rules");

#define MAX_HITS 1000000000000ULL
#define ALL_PPM  1000000

static int key_name(struct parser *p, const struct node *node, void *target)
{
	const char *text;
	int err;

	err = value_text(p, node, "a name such as slow-embeddings", &text);
	return err ? err : name_parse(p, node->mark, text, target);
}

static int key_percent(struct parser *p, const struct node *node, void *target)
{
	struct rule *rule = target;

	return percent_ramped(p, node, &rule->percent_ppm, &rule->percent_ramp);
}

static int key_per(struct parser *p, const struct node *node, void *target)
{
	enum chaos_per *per = target;
	unsigned int index;
	int err;

	err = value_choice(p, node, per_names, &index);
	if (!err)
		*per = index;
	return err;
}

static int key_max_hits(struct parser *p, const struct node *node, void *target)
{
	return value_number(p, node, 1, MAX_HITS, target);
}

static int key_start_after(struct parser *p, const struct node *node, void *target)
{
	return value_duration(p, node, RULES_MAX_DURATION_NS, target);
}

static int key_duration(struct parser *p, const struct node *node, void *target)
{
	uint64_t *ns = target;
	int err;

	err = value_duration(p, node, RULES_MAX_DURATION_NS, ns);
	if (!err && *ns == 0)
		err = fail(p, node->mark, "duration '%s' is over at once, it must be more than 0", show(p, node->text));
	return err;
}

static int key_seed(struct parser *p, const struct node *node, void *target)
{
	struct rule *rule = target;

	rule->seed_given = true;
	return value_number(p, node, 0, UINT64_MAX, &rule->seed);
}

const struct key rule_keys[] = {
	{ "name", key_name, offsetof(struct rule, name) },
	{ "match", key_match, offsetof(struct rule, match) },
	{ "fault", key_fault, offsetof(struct rule, fault) },
	{ "percent", key_percent, 0 },
	{ "per", key_per, offsetof(struct rule, per) },
	{ "max-hits", key_max_hits, offsetof(struct rule, max_hits) },
	{ "max-rate", key_max_rate, 0 },
	{ "start-after", key_start_after, offsetof(struct rule, start_after_ns) },
	{ "duration", key_duration, offsetof(struct rule, duration_ns) },
	{ "between", key_between, offsetof(struct rule, window) },
	{ "days", key_days, offsetof(struct rule, window) },
	{ "seed", key_seed, 0 },
	{ NULL, NULL, 0 },
};

static const struct key defaults_keys[] = {
	{ "duration", key_duration, offsetof(struct rule, duration_ns) },
	{ "percent", key_percent, 0 },
	{ "per", key_per, offsetof(struct rule, per) },
	{ "seed", key_seed, 0 },
	{ NULL, NULL, 0 },
};

/* What a rule is before its keys are read. */
static void rule_init(struct rule *rule, const struct parser *p, const struct node *node)
{
	*rule = p->defaults;
	rule->mark = node->mark;
	rule->match.mark = node->mark;
	rule->match.protocols = RULES_ANY_PROTOCOL;
	rule->match.side = CHAOS_SIDE_CLIENT;
	rule->match.directions = CHAOS_BOTH;
	rule->window.last_minute = 1440;
	rule->window.days = 0x7f;
}

static int check_unique(struct parser *p, const struct node *node, const struct rule *rule)
{
	for (const struct rule *other = p->rules->rules; other < rule; other++) {
		if (strcmp(other->name, rule->name) == 0)
			return fail(p, node_get(node, "name")->mark, "rule name '%s' is taken by the rule on line %u",
				    rule->name, other->mark.line);
	}
	return 0;
}

static int check_present(struct parser *p, const struct node *node, const struct rule *rule)
{
	if (!node_get(node, "name"))
		return fail(p, node->mark, "this rule has no name");
	if (!node_get(node, "fault"))
		return fail(p, node->mark, "rule '%s' has no fault", rule->name);
	if (!node_get(node, "match"))
		return fail(p, node->mark,
			    "rule '%s' has no match and would hit everything; name something, or say 'everything: "
			    "true' in one",
			    rule->name);
	if (!rule->duration_ns)
		return fail(p, node->mark,
			    "rule '%s' has no end; give it a 'duration', put one under 'defaults', or use --duration",
			    rule->name);
	return 0;
}

static int rule_parse(struct parser *p, const struct node *node, struct rule *rule)
{
	int err;

	rule_init(rule, p, node);
	err = map_parse(p, node, "a rule with name, match and fault", rule_keys, rule);
	if (err)
		return err;
	if (p->options && p->options->duration_ns)
		rule->duration_ns = p->options->duration_ns;
	err = check_present(p, node, rule);
	if (!err)
		err = check_unique(p, node, rule);
	if (!err)
		err = fault_check(p, node, rule);
	return err;
}

/* The kernel side has room for so many different patterns. */
static int check_patterns(struct parser *p)
{
	const char *patterns[CHAOS_MAX_PATTERNS + 1] = { NULL };
	const struct text *process;
	int count = 0;

	for (size_t i = 0; i < p->rules->count; i++) {
		process = &p->rules->rules[i].match.process;
		if (!process->text || !strchr(process->text, '*') || name_index(patterns, process->text) >= 0)
			continue;
		if (count == CHAOS_MAX_PATTERNS)
			return fail(p, process->mark, "more than %d different patterns with '*' under 'process'",
				    CHAOS_MAX_PATTERNS);
		patterns[count++] = process->text;
	}
	return 0;
}

static int rules_list_parse(struct parser *p, const struct node *node)
{
	struct rules *rules = p->rules;
	int err;

	err = value_kind(p, node, NODE_LIST, "a list of rules, each beginning with '- name:'");
	if (err)
		return err;
	if (node->count == 0)
		return fail(p, node->mark, "'rules' is an empty list");
	rules->rules = calloc(node->count, sizeof(*rules->rules));
	if (!rules->rules)
		return out_of_memory(p);
	for (size_t i = 0; i < node->count && !err; i++)
		err = rule_parse(p, &node->children[i], &rules->rules[rules->count++]);
	return err ? err : check_patterns(p);
}

/* The top level is read in the order of the meaning, not of the file: rules need endpoints and defaults. */
static const struct key file_keys[] = {
	{ "version", key_later, 0 },
	{ "endpoints", key_later, 0 },
	{ "defaults", key_later, 0 },
	{ "rules", key_later, 0 },
	{ NULL, NULL, 0 },
};

int version_check(struct parser *p, const struct node *root)
{
	const struct node *version = node_get(root, "version");
	const char *text;
	int err;

	if (!version)
		return fail(p, root->mark, "the version is missing, write 'version: 1'");
	err = value_text(p, version, "1", &text);
	if (err)
		return err;
	if (strcmp(text, "1") != 0)
		return fail(p, version->mark, "unknown version '%s', expected 1", show(p, text));
	return 0;
}

static int file_parse(struct parser *p, const struct node *root)
{
	const struct node *node;
	int err;

	err = map_check_keys(p, root, "a map with version and rules", file_keys);
	if (!err)
		err = version_check(p, root);
	if (err)
		return err;
	node = node_get(root, "defaults");
	err = node ? map_parse(p, node, "a map such as { duration: 5m }", defaults_keys, &p->defaults) : 0;
	if (err)
		return err;
	node = node_get(root, "endpoints");
	err = node ? endpoints_parse(p, node) : 0;
	if (err)
		return err;
	node = node_get(root, "rules");
	if (!node)
		return fail(p, root->mark, "the rules are missing, write 'rules:' and a list below it");
	return rules_list_parse(p, node);
}

static int tree_parse(struct rules *rules, const struct node *root, const struct rules_options *options,
		      struct error *err)
{
	struct parser parser = { .rules = rules, .options = options, .err = err };
	int code;

	parser.defaults.percent_ppm = ALL_PPM;
	parser.defaults.duration_ns = options ? options->default_ns : 0;
	code = file_parse(&parser, root);
	presets_free(parser.presets);
	return code;
}

/* Fills in `rules`, whose file and source are there already. */
static int source_parse(struct rules *rules, const struct rules_options *options, struct error *err)
{
	struct node *root = NULL;
	int code;

	if (options && options->duration_ns > RULES_MAX_DURATION_NS)
		return error_set(err, -EINVAL, EXIT_USAGE, "the duration is too long, at most 7 d");
	code = source_check(rules, err);
	if (!code)
		code = yaml_read(rules, &root, err);
	if (!code)
		code = tree_parse(rules, root, options, err);
	node_free(root);
	return code;
}

struct rules *rules_new(const char *file)
{
	struct rules *rules = calloc(1, sizeof(*rules));

	if (!rules)
		return NULL;
	rules->file = strdup(file);
	if (!rules->file) {
		free(rules);
		return NULL;
	}
	return rules;
}

/* Hands over on success, tidies up on failure. */
static int rules_finish(struct rules *made, int code, struct rules **rules)
{
	if (code) {
		rules_free(made);
		made = NULL;
	}
	*rules = made;
	return code;
}

int rules_parse(const char *file, const char *source, size_t len, const struct rules_options *options,
		struct rules **rules, struct error *err)
{
	struct rules *made = rules_new(file);

	*rules = NULL;
	if (!made)
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	made->source = bytes_copy(source, len);
	made->source_len = len;
	if (!made->source)
		return rules_finish(made, error_set(err, -ENOMEM, EXIT_FAILED, "out of memory"), rules);
	return rules_finish(made, source_parse(made, options, err), rules);
}

int rules_from_tree(const char *file, const struct node *root, const struct rules_options *options,
		    struct rules **rules, struct error *err)
{
	struct rules *made = rules_new(file);

	*rules = NULL;
	if (!made)
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	made->source = yaml_write(root);
	if (!made->source)
		return rules_finish(made, error_set(err, -ENOMEM, EXIT_FAILED, "out of memory"), rules);
	made->source_len = strlen(made->source);
	return rules_finish(made, tree_parse(made, root, options, err), rules);
}

int rules_load(const char *path, const struct rules_options *options, struct rules **rules, struct error *err)
{
	struct rules *made = rules_new(strcmp(path, "-") == 0 ? "<stdin>" : path);
	int code;

	*rules = NULL;
	if (!made)
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	code = source_read(made, path, err);
	if (!code)
		code = source_parse(made, options, err);
	return rules_finish(made, code, rules);
}

void rules_free(struct rules *rules)
{
	if (!rules)
		return;
	for (size_t i = 0; i < rules->endpoints_count; i++)
		endpoint_free(&rules->endpoints[i]);
	for (size_t i = 0; i < rules->count; i++) {
		match_free(&rules->rules[i].match);
		fault_free(&rules->rules[i].fault);
	}
	free(rules->endpoints);
	free(rules->rules);
	free(rules->source);
	free(rules->file);
	free(rules);
}

int rules_error_at(const struct rules *rules, struct mark mark, struct error *err, enum exit_code exit, const char *fmt,
		   ...)
{
	size_t len = strlen(rules->file), most = 300; /* leaves room for what is wrong */
	char text[sizeof(err->text)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return error_set(err, -EINVAL, exit, "%s%s:%u:%u: %s", len > most ? "..." : "",
			 rules->file + (len > most ? len - most : 0), mark.line, mark.column, text);
}
