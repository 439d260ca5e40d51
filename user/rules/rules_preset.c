// SPDX-License-Identifier: GPL-2.0-only
/* `preset: NAME`: an endpoint filled in from what is known of it, as if its hosts and ports had been written there. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/rules/presets.h"
#include "user/rules/rules_parse.h"

static const char how_to_list[] = "'chaosbpf endpoints' lists them";

int presets_get(struct parser *p, struct mark at, struct presets **presets)
{
	struct error err = { 0 };

	*presets = p->presets;
	if (p->presets)
		return 0;
	if (presets_load(p->options ? p->options->endpoints : NULL, presets, &err) == 0) {
		p->presets = *presets;
		return 0;
	}
	return fail(p, at, "presets cannot be had: %s", err.text);
}

int preset_unknown(struct parser *p, const struct node *node, const struct presets *presets)
{
	const char *near = presets_nearest(presets, node->text);

	if (near)
		return fail(p, node->mark, "unknown preset '%s', did you mean '%s'? %s", show(p, node->text), near,
			    how_to_list);
	return fail(p, node->mark, "unknown preset '%s', %s", show(p, node->text), how_to_list);
}

/* A part of a host's name: a label, or several as in "us-east4-0.gcp". */
static int add_word(struct parser *p, const struct node *node, void *target)
{
	struct text_list *given = target;
	static const char expected[] = "a part of a host's name such as us-east-1";
	const char *text;
	size_t len;
	int err;

	err = value_text(p, node, expected, &text);
	if (err)
		return err;
	len = strlen(text);
	for (size_t i = 0; i < len && !err; i++) {
		if (!isalnum((unsigned char)text[i]) && (!strchr("-.", text[i]) || i == 0 || i + 1 == len))
			err = fail(p, node->mark, "invalid %s '%s', expected %s", node->label, show(p, text), expected);
	}
	if (!err && len > 63)
		err = fail(p, node->mark, "%s '%s' is too long, at most 63 characters", node->label, show(p, text));
	given->entries[given->count++].text = node->text;
	return err;
}

/* What `map` gives for a placeholder; the texts stay the tree's. */
static int take_given(struct parser *p, const struct node *map, const struct preset *preset, size_t placeholder,
		      struct text_list *given)
{
	const char *name = preset_placeholders[placeholder];
	const struct node *node = map ? node_get(map, name) : NULL;

	if (!node)
		return 0;
	if (!preset_takes(preset, placeholder))
		return fail(p, node->key_mark, "preset '%s' has no '%s'", preset->name, name);
	given->entries = calloc(value_count(node), sizeof(*given->entries));
	if (!given->entries)
		return out_of_memory(p);
	return value_each(p, node, add_word, given);
}

static int hosts_missing(struct parser *p, const struct node *map, const struct node *node, const struct preset *preset,
			 size_t missing)
{
	const char *name, *value = missing == 0 ? "us-east-1" : "my-instance";

	if (missing == PRESET_PLACEHOLDERS)
		return out_of_memory(p);
	name = preset_placeholders[missing];
	if (map)
		return fail(p, node->mark, "preset '%s' needs '%s', as in { preset: %s, %s: %s }", preset->name, name,
			    preset->name, name, value);
	return fail(p, node->mark, "preset '%s' needs '%s': write 'endpoints: { %s: { preset: %s, %s: %s } }'",
		    preset->name, name, preset->name, preset->name, name, value);
}

/* Hands the hosts to the parser as if they stood where the preset is named. */
static int write_hosts(struct parser *p, const struct node *node, char **hosts, struct endpoint *endpoint)
{
	struct node list = { .kind = NODE_LIST, .mark = node->mark, .label = "hosts" };
	int err = 0;

	while (hosts[list.count])
		list.count++;
	if (list.count > RULES_MAX_LIST)
		return fail(p, node->mark, "preset '%s' comes to more than %d hosts", show(p, node->text),
			    RULES_MAX_LIST);
	if (!list.count)
		return 0;
	list.children = calloc(list.count, sizeof(*list.children));
	if (!list.children)
		return out_of_memory(p);
	for (size_t i = 0; i < list.count; i++)
		list.children[i] =
			(struct node){ .kind = NODE_TEXT, .mark = node->mark, .label = "hosts", .text = hosts[i] };
	err = key_hosts(p, &list, endpoint);
	for (size_t i = 0; !err && i < endpoint->names_count; i++)
		endpoint->names[i].one_of_many = true;
	free(list.children);
	return err;
}

static int fill_hosts(struct parser *p, const struct node *map, const struct node *node, const struct preset *preset,
		      struct endpoint *endpoint)
{
	struct text_list given[PRESET_PLACEHOLDERS] = { 0 };
	char **hosts = NULL;
	size_t missing;
	int err = 0;

	for (size_t i = 0; i < PRESET_PLACEHOLDERS && !err; i++)
		err = take_given(p, map, preset, i, &given[i]);
	if (!err && !endpoint->hosts) {
		hosts = preset_hosts(preset, given, &missing);
		if (!hosts)
			err = hosts_missing(p, map, node, preset, missing);
		else if (!hosts[0] && preset->hosts.count)
			err = fail(p, node->mark, "no host of preset '%s' has both region and instance", preset->name);
		else
			err = write_hosts(p, node, hosts, endpoint);
	}
	for (size_t i = 0; hosts && hosts[i]; i++)
		free(hosts[i]);
	free(hosts);
	for (size_t i = 0; i < PRESET_PLACEHOLDERS; i++)
		free(given[i].entries);
	return err;
}

static int fill_ports(struct parser *p, const struct node *node, const struct preset *preset, struct endpoint *endpoint)
{
	size_t count = preset->ports.ports_count;

	if (endpoint->ports || !count)
		return 0;
	endpoint->ports = calloc(count, sizeof(*endpoint->ports));
	if (!endpoint->ports)
		return out_of_memory(p);
	endpoint->ports_count = count;
	for (size_t i = 0; i < count; i++) {
		endpoint->ports[i] = preset->ports.ports[i];
		endpoint->ports[i].mark = node->mark;
	}
	return 0;
}

int endpoint_preset(struct parser *p, const struct node *map, const struct node *node, struct endpoint *endpoint)
{
	const struct preset *preset;
	struct presets *presets;
	const char *text;
	int err;

	err = value_text(p, node, "a preset's name such as openai", &text);
	if (err)
		return err;
	if (p->options && p->options->again) {
		snprintf(endpoint->preset, sizeof(endpoint->preset), "%s", text);
		return 0;
	}
	err = presets_get(p, node->mark, &presets);
	if (err)
		return err;
	preset = presets_find(presets, text);
	if (!preset)
		return preset_unknown(p, node, presets);
	strcpy(endpoint->preset, preset->name);
	endpoint->protocols = preset->transports;
	err = fill_hosts(p, map, node, preset, endpoint);
	return err ? err : fill_ports(p, node, preset, endpoint);
}
