// SPDX-License-Identifier: GPL-2.0-only
/* `method`: what is done to the service, one step after the other. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "user/experiment/experiment_internal.h"
#include "user/rules/explain.h"

#define SECOND_NS     1000000000ULL
#define MAX_ROUNDS    1000
#define MAX_FILES     32
#define RULES_SLACK_S 60 /* how much later than planned a rule without an end of its own ends */

const char *const step_names[] = { "rules", "http", "exec", "load", "wait", NULL };
_Static_assert(sizeof(step_names) / sizeof(step_names[0]) == STEP_COUNT + 1, "a name for every step");

static int key_rate(struct parser *p, const struct node *node, void *target)
{
	double *rate = target;
	uint64_t count, window_ns;
	int err = value_per_time(p, node, &count, &window_ns);

	if (err)
		return err;
	*rate = (double)count / ((double)window_ns / 1e9);
	if (*rate > EXPERIMENT_MAX_RATE)
		return fail(p, node->mark, "rate '%s' is too high, at most %d/s", show(p, node->text),
			    EXPERIMENT_MAX_RATE);
	return 0;
}

static int key_rounds(struct parser *p, const struct node *node, void *target)
{
	return value_number(p, node, 1, MAX_ROUNDS, target);
}

static int key_at_once(struct parser *p, const struct node *node, void *target)
{
	unsigned int *most = target;
	uint64_t number = 0;
	int err = value_number(p, node, 1, EXPERIMENT_MAX_IN_FLIGHT, &number);

	*most = (unsigned int)number;
	return err;
}

static const struct key rules_keys[] = {
	{ "rules", key_later, 0 }, /* when it is known how long all takes */
	{ "name", key_word, offsetof(struct step, name) },
	{ "for", key_timeout, offsetof(struct step, for_ns) },
	{ NULL, NULL, 0 },
};

static const struct key http_keys[] = {
	{ "http", key_url, offsetof(struct step, request.url) },
	{ "name", key_word, offsetof(struct step, name) },
	REQUEST_KEYS(struct step, request),
	{ "timeout", key_timeout, offsetof(struct step, timeout_ns) },
	{ "expect", key_expect_answer, offsetof(struct step, expect) },
	{ NULL, NULL, 0 },
};

static const struct key exec_keys[] = {
	{ "exec", key_command, offsetof(struct step, command) },
	{ "name", key_word, offsetof(struct step, name) },
	{ "timeout", key_timeout, offsetof(struct step, timeout_ns) },
	{ "background", key_bool, offsetof(struct step, background) },
	{ "expect", key_expect_exit, offsetof(struct step, expect) },
	{ NULL, NULL, 0 },
};

static const struct key load_keys[] = {
	{ "load", key_url, offsetof(struct step, request.url) },
	{ "name", key_word, offsetof(struct step, name) },
	REQUEST_KEYS(struct step, request),
	{ "rate", key_rate, offsetof(struct step, rate) },
	{ "ramp", key_phase, offsetof(struct step, ramp_ns) },
	{ "for", key_timeout, offsetof(struct step, for_ns) },
	{ "rounds", key_rounds, offsetof(struct step, rounds) },
	{ "pause", key_phase, offsetof(struct step, pause_ns) },
	{ "at-once", key_at_once, offsetof(struct step, at_once) },
	{ "timeout", key_timeout, offsetof(struct step, timeout_ns) },
	{ "background", key_bool, offsetof(struct step, background) },
	{ "expect", key_expect_answer, offsetof(struct step, expect) },
	{ NULL, NULL, 0 },
};

static const struct key wait_keys[] = {
	{ "wait", key_timeout, offsetof(struct step, for_ns) },
	{ NULL, NULL, 0 },
};

static const struct key *const kind_keys[] = { rules_keys, http_keys, exec_keys, load_keys, wait_keys };
_Static_assert(sizeof(kind_keys) / sizeof(kind_keys[0]) == STEP_COUNT, "keys for every step");

static int step_kind(struct parser *p, const struct node *node, enum step_kind *kind)
{
	const struct node *found = NULL;

	for (unsigned int i = 0; step_names[i]; i++) {
		const struct node *child = node_get(node, step_names[i]);

		if (child && found)
			return fail(p, child->key_mark,
				    "'%s' and '%s' are two steps, each begins with a '-' of its own", found->key,
				    child->key);
		if (child) {
			found = child;
			*kind = i;
		}
	}
	if (found)
		return 0;
	for (size_t i = 0; i < node->count; i++) {
		const char *near = nearest_word(node->children[i].key, step_names);

		if (near)
			return fail(p, node->children[i].key_mark, "unknown key '%s', did you mean '%s'?",
				    show(p, node->children[i].key), near);
	}
	return fail(p, node->mark, "this step does nothing; give it rules, http, exec, load or wait");
}

/* ---- titles ---- */

static void command_title(struct step *step)
{
	size_t used = (size_t)snprintf(step->title, sizeof(step->title), "exec");

	for (char **word = step->command; *word && used < sizeof(step->title); word++)
		used += (size_t)snprintf(step->title + used, sizeof(step->title) - used, " %s", *word);
}

static void request_title(struct step *step)
{
	char characters[48] = "", rate[64] = "", time[64];

	if (step->request.characters)
		snprintf(characters, sizeof(characters), ", %llu characters",
			 (unsigned long long)step->request.characters);
	if (step->kind == STEP_LOAD)
		snprintf(rate, sizeof(rate), ", %g a second for %s", step->rate,
			 format_duration(time, sizeof(time), step->for_ns));
	snprintf(step->title, sizeof(step->title), "%s %s %.120s%s%s", step_names[step->kind], step->request.method,
		 step->request.url, characters, rate);
}

static void make_title(struct step *step)
{
	char time[64];

	if (step->kind == STEP_EXEC)
		command_title(step);
	else if (step->kind == STEP_WAIT)
		snprintf(step->title, sizeof(step->title), "wait %s",
			 format_duration(time, sizeof(time), step->for_ns));
	else
		request_title(step);
}

/* ---- steps but for rules ---- */

/* The requests of a load with a name are measured as those of a probe. */
static int add_load_probe(struct parser *p, const struct node *node, struct step *step)
{
	struct experiment *e = reading_of(p)->experiment;
	struct experiment_probe *probe = &e->probes[e->probes_count];
	int err = probe_name_free(p, node_get(node, "name"), step->name);

	if (err)
		return err;
	memcpy(probe->name, step->name, sizeof(probe->name));
	probe->mark = step->mark;
	probe->kind = PROBE_LOAD;
	probe->timeout_ns = step->timeout_ns;
	probe->every_ns = (uint64_t)(1e9 / step->rate);
	step->probe = e->probes_count++;
	return 0;
}

static int complete_load(struct parser *p, const struct node *node, struct step *step)
{
	if (step->rate == 0)
		return fail(p, node->mark, "this load has no rate, such as 20/s");
	if (step->for_ns == 0)
		return fail(p, node->mark, "this load has no end; say how long with 'for'");
	if (step->ramp_ns > step->for_ns)
		return fail(p, node_get(node, "ramp")->mark, "'ramp' is longer than 'for'");
	if (step->pause_ns && step->rounds == 1)
		return fail(p, node_get(node, "pause")->mark,
			    "a 'pause' stands between 'rounds', and there is one only");
	return step->name[0] ? add_load_probe(p, node, step) : 0;
}

static int step_parse(struct parser *p, const struct node *node, struct step *step)
{
	int err;

	err = value_kind(p, node, NODE_MAP, "a step such as { rules: ../silent-qdrant.yaml }");
	if (!err)
		err = step_kind(p, node, &step->kind);
	if (err)
		return err;
	step->mark = node->mark;
	step->timeout_ns = 30 * SECOND_NS;
	step->rounds = 1;
	step->at_once = 16;
	step->probe = SIZE_MAX;
	step->must = step->kind == STEP_EXEC || node_get(node, "expect");
	err = map_parse(p, node, "a step", kind_keys[step->kind], step);
	if (!err && (step->kind == STEP_HTTP || step->kind == STEP_LOAD))
		err = request_complete(p, node, &step->request);
	if (!err && step->kind == STEP_LOAD)
		err = complete_load(p, node, step);
	if (!err && step->kind != STEP_RULES)
		make_title(step);
	return err;
}

/* ---- rules ---- */

static int rules_files(struct parser *p, const struct node *node, struct step *step)
{
	const struct rules_options options = { .endpoints = reading_of(p)->options ? reading_of(p)->options->endpoints
										   : NULL };
	const size_t count = value_count(node);
	char *paths[MAX_FILES] = { NULL };
	size_t used;
	int err = 0;

	if (count > MAX_FILES)
		return fail(p, node->mark, "more than %d files in one step", MAX_FILES);
	used = (size_t)snprintf(step->title, sizeof(step->title), "rules");
	for (size_t i = 0; i < count && !err; i++) {
		const struct node *file = node->kind == NODE_LIST ? &node->children[i] : node;
		const char *text;

		err = value_text(p, file, "a rules file, or a list of rules", &text);
		paths[i] = err ? NULL : experiment_path(reading_of(p), text);
		if (!err && !paths[i])
			err = out_of_memory(p);
		if (!err && access(paths[i], R_OK) != 0)
			err = fail(p, file->mark, "cannot open '%s': %s", show(p, text), strerror(errno));
		if (!err && used < sizeof(step->title))
			used += (size_t)snprintf(step->title + used, sizeof(step->title) - used, "%s %s", i ? "," : "",
						 text);
	}
	if (!err)
		err = rules_load_together((const char *const *)paths, count, &options, &step->rules, p->err);
	for (size_t i = 0; i < MAX_FILES; i++)
		free(paths[i]);
	return err;
}

/* From the moment a step begins to the roll back. */
static uint64_t until_roll_back(const struct experiment *e, const struct step *step)
{
	uint64_t ns = e->observe_ns;

	for (const struct step *s = step; s < e->steps + e->steps_count; s++)
		ns += step_longest_ns(s);
	return ns;
}

/* `defaults` as the file has them, with an end for rules that name none. The entries are shallow copies. */
static int defaults_with_end(struct parser *p, const struct node *given, struct node *end, struct node *defaults)
{
	*defaults = (struct node){ .kind = NODE_MAP, .key = (char *)"defaults", .label = "defaults" };
	if (given && given->kind != NODE_MAP) {
		*defaults = *given;
		defaults->children = NULL; /* what is wrong with it is told by who reads it */
		return 0;
	}
	if (given)
		defaults->mark = given->mark;
	defaults->children = calloc((given ? given->count : 0) + 1, sizeof(*defaults->children));
	if (!defaults->children)
		return out_of_memory(p);
	for (size_t i = 0; given && i < given->count; i++)
		defaults->children[defaults->count++] = given->children[i];
	if (!given || !node_get(given, "duration"))
		defaults->children[defaults->count++] = *end;
	return 0;
}

static void inline_title(struct step *step)
{
	size_t used = (size_t)snprintf(step->title, sizeof(step->title), "rules");

	for (size_t i = 0; i < step->rules->count && used < sizeof(step->title); i++)
		used += (size_t)snprintf(step->title + used, sizeof(step->title) - used, "%s %s", i ? "," : "",
					 step->rules->rules[i].name);
}

/* Rules that are written into the experiment, with its `endpoints` and `defaults`: a rules file's tree around them. */
static int rules_inline(struct parser *p, const struct node *node, struct step *step)
{
	const struct reading *r = reading_of(p);
	const struct rules_options options = { .endpoints = r->options ? r->options->endpoints : NULL };
	struct node version = { .kind = NODE_TEXT, .text = (char *)"1", .key = (char *)"version" };
	struct node end = { .kind = NODE_TEXT, .key = (char *)"duration", .label = "duration" };
	struct node children[4], root = { .kind = NODE_MAP, .label = "the file", .children = children };
	const struct node *endpoints = node_get(r->root, "endpoints");
	char duration[32];
	int err;

	snprintf(duration, sizeof(duration), "%llus",
		 (unsigned long long)(until_roll_back(r->experiment, step) / SECOND_NS + RULES_SLACK_S));
	end.text = duration;
	children[root.count++] = version;
	if (endpoints)
		children[root.count++] = *endpoints;
	err = defaults_with_end(p, node_get(r->root, "defaults"), &end, &children[root.count]);
	if (err)
		return err;
	struct node *defaults = &children[root.count++];

	children[root.count++] = *node;
	err = rules_from_tree(r->experiment->file, &root, &options, &step->rules, p->err);
	free(defaults->children);
	if (!err)
		inline_title(step);
	return err;
}

static int rules_step_parse(struct parser *p, const struct node *node, struct step *step)
{
	const struct node *rules = node_get(node, "rules");

	if (rules->kind == NODE_LIST && rules->count == 0)
		return fail(p, rules->mark, "'rules' is an empty list, expected files, or rules");
	if (rules->kind == NODE_LIST && rules->children[0].kind == NODE_MAP)
		return rules_inline(p, rules, step);
	return rules_files(p, rules, step);
}

/* ---- all of them ---- */

int steps_parse(struct parser *p, const struct node *list)
{
	struct experiment *e = reading_of(p)->experiment;
	int err;

	err = value_kind(p, list, NODE_LIST, "a list of steps, such as '- rules: ../silent-qdrant.yaml'");
	if (err)
		return err;
	if (list->count == 0)
		return fail(p, list->mark, "'method' is an empty list");
	if (list->count > EXPERIMENT_MAX_STEPS)
		return fail(p, list->mark, "more than %d steps", EXPERIMENT_MAX_STEPS);
	e->steps = calloc(list->count, sizeof(*e->steps));
	if (!e->steps)
		return out_of_memory(p);
	e->steps_count = list->count;
	for (size_t i = 0; i < list->count && !err; i++)
		err = step_parse(p, &list->children[i], &e->steps[i]);
	for (size_t i = 0; i < list->count && !err; i++) {
		if (e->steps[i].kind == STEP_RULES)
			err = rules_step_parse(p, &list->children[i], &e->steps[i]);
	}
	return err;
}

void step_free(struct step *step)
{
	rules_free(step->rules);
	request_free(&step->request);
	expect_free(&step->expect);
	command_free(step->command);
}

uint64_t step_longest_ns(const struct step *step)
{
	if (step->background)
		return 0;
	switch (step->kind) {
	case STEP_RULES:
	case STEP_WAIT:
		return step->for_ns;
	case STEP_HTTP:
	case STEP_EXEC:
		return step->timeout_ns;
	case STEP_LOAD:
		return step->rounds * step->for_ns + (step->rounds - 1) * step->pause_ns;
	case STEP_COUNT:
		break;
	}
	return 0;
}

bool step_injects(const struct experiment *experiment, const struct step *step)
{
	if (step->kind == STEP_RULES)
		return true;
	for (size_t i = 0; i < experiment->steps_count; i++) {
		if (experiment->steps[i].kind == STEP_RULES)
			return false;
	}
	return step->kind != STEP_WAIT;
}
