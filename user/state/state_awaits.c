// SPDX-License-Identifier: GPL-2.0-only
/* What rules name and what is not there at present, looked up as a load would. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/process.h"
#include "user/state/state_awaits.h"
#include "user/target/target.h"

static void name_it(const struct match *m, char *text, size_t size)
{
	if (m->pod.text && m->container.text)
		snprintf(text, size, "container %s of pod %s", m->container.text, m->pod.text);
	else if (m->pod.text)
		snprintf(text, size, "pod %s", m->pod.text);
	else if (m->container.text)
		snprintf(text, size, "container %s", m->container.text);
	else if (m->unit.text)
		snprintf(text, size, "unit %s", m->unit.text);
	else
		snprintf(text, size, "cgroup %s", m->cgroup.text ? m->cgroup.text : "");
}

/* The rules with nothing but what may come: whether a pid or a user is there says nothing here. */
static struct rule *only_cgroups(const struct rules *rules)
{
	struct rule *copy = calloc(rules->count, sizeof(*copy));

	for (size_t i = 0; copy && i < rules->count; i++) {
		copy[i] = rules->rules[i];
		copy[i].match.pid = 0;
		copy[i].match.user.text = NULL;
	}
	return copy;
}

void awaits_find(const struct rules *rules, struct status *s)
{
	struct target_options options = { .root = "/", .wait = true };
	const struct process_list nobody = { 0 };
	struct rules copy = *rules;
	char mount[256];
	struct target *targets;
	struct error ignored;
	bool some = false;

	for (size_t i = 0; i < rules->count; i++)
		some |= target_may_come(&rules->rules[i]);
	/* `exec` puts a cgroup of its own in the place of what the rules name. */
	if (!some || strcmp(s->command, "exec") == 0)
		return;
	find_cgroup2(mount, sizeof(mount));
	options.cgroup2_mount = mount;
	copy.rules = only_cgroups(rules);
	if (copy.rules && targets_resolve(&copy, &options, &nobody, &targets, &ignored) == 0) {
		for (size_t i = 0; i < s->rules_count; i++) {
			if (targets[i].waits && s->rules[i].state != RULE_FINISHED)
				name_it(&rules->rules[i].match, s->rules[i].awaits, sizeof(s->rules[i].awaits));
		}
		targets_free(targets, rules->count);
	}
	free(copy.rules);
}
