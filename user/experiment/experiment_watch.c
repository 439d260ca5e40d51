// SPDX-License-Identifier: GPL-2.0-only
/*
 * `service`: whom the kernel watches, and what conditions may measure of it: `service.p99` of what it serves, and of what it
 * calls `NAME.p99` with NAME one of the file's endpoints. Each becomes a probe that asks nobody (PROBE_WATCH).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/experiment/experiment_internal.h"

#define WATCH_EVERY_NS 500000000ULL
#define SERVICE        "service"

/* Those keys of a match that say who it is; match_keys reads their values. */
static const struct key service_keys[] = {
	{ "cgroup", key_later, 0 },  { "container", key_later, 0 }, { "pod", key_later, 0 },  { "unit", key_later, 0 },
	{ "process", key_later, 0 }, { "pid", key_later, 0 },       { "user", key_later, 0 }, { NULL, NULL, 0 },
};

static int add_rule(struct parser *p, struct rules *watch, const struct node *match)
{
	struct rule *rules = realloc(watch->rules, (watch->count + 1) * sizeof(*rules));

	if (!rules)
		return out_of_memory(p);
	watch->rules = rules;
	memset(&rules[watch->count], 0, sizeof(*rules));
	rules[watch->count].match.side = CHAOS_SIDE_CLIENT;
	rules[watch->count].match.protocols = RULES_ANY_PROTOCOL;
	return key_match(p, match, &rules[watch->count++].match);
}

int watch_parse(struct parser *p, const struct node *node, void *experiment)
{
	struct experiment *e = experiment;
	int err = map_check_keys(p, node, "a map such as { cgroup: system.slice/rag.service }", service_keys);

	if (err)
		return err;
	if (node->count == 0)
		return fail(p, node->mark, "'service' names nothing");
	e->watch = rules_new(p->rules->file);
	return e->watch ? add_rule(p, e->watch, node) : out_of_memory(p);
}

/* Is it one of those under `endpoints`? They are read when the first is asked for. */
static int find_endpoint(struct parser *p, const char *name, bool *found)
{
	const struct node *node = node_get(reading_of(p)->root, "endpoints");

	*found = node && node->kind == NODE_MAP && node_get(node, name);
	if (!*found || p->rules->endpoints)
		return 0;
	return endpoints_parse(p, node);
}

/* A match that names the endpoint, as if it stood where the condition does. */
static int add_endpoint(struct parser *p, struct rules *watch, const struct node *at, const char *name)
{
	char key[] = "endpoint", text[RULES_MAX_TEXT + 1];
	struct node child = { .kind = NODE_TEXT,
			      .mark = at->key_mark,
			      .key = key,
			      .key_mark = at->key_mark,
			      .label = key,
			      .text = text };
	const struct node match = { .kind = NODE_MAP, .mark = at->key_mark, .children = &child, .count = 1 };

	snprintf(text, sizeof(text), "%s", name);
	return add_rule(p, watch, &match);
}

int watch_probe(struct parser *p, const struct node *at, const char *name, size_t *index)
{
	struct experiment *e = reading_of(p)->experiment;
	struct experiment_probe *probe = &e->probes[e->probes_count];
	const bool service = strcmp(name, SERVICE) == 0;
	bool found = service;
	int err = service ? 0 : find_endpoint(p, name, &found);

	*index = SIZE_MAX;
	if (err || !found || (service && !e->watch && !node_get(reading_of(p)->root, SERVICE)))
		return err;
	if (!e->watch)
		return fail(p, at->key_mark,
			    "'%s' is measured in the kernel, of what the service calls: say whose by "
			    "'service: { cgroup: ... }'",
			    show(p, name));
	if (e->probes_count >= EXPERIMENT_MAX_PROBES + EXPERIMENT_MAX_STEPS + EXPERIMENT_MAX_WATCHES)
		return fail(p, at->key_mark, "more than %d endpoints are measured", EXPERIMENT_MAX_WATCHES - 1);
	if (!service)
		err = add_endpoint(p, e->watch, at, name);
	if (err)
		return err;
	snprintf(probe->name, sizeof(probe->name), "%s", name);
	probe->mark = at->key_mark;
	probe->kind = PROBE_WATCH;
	probe->every_ns = WATCH_EVERY_NS;
	probe->watch = service ? 0 : e->watch->count - 1;
	*index = e->probes_count++;
	return 0;
}
