// SPDX-License-Identifier: GPL-2.0-only
/* `chaosbpf endpoints`: the presets, and what is known of one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/log.h"
#include "user/base/names.h"
#include "user/cli/cmd.h"
#include "user/cli/options.h"
#include "user/rules/presets.h"

static const char help[] = "Usage: chaosbpf endpoints [OPTIONS] [NAME]\n"
			   "\n"
			   "Lists the endpoints that are known by name (presets), or says what is known of\n"
			   "NAME: where it is, what a fault can do to it, what its clients do then. A preset\n"
			   "is used by its name: match: { endpoint: qdrant }, or with values of your own:\n"
			   "endpoints: { vectors: { preset: qdrant, hosts: [10.0.0.7] } }.\n"
			   "\n"
			   "  --endpoints F  your own presets, in place of those in " PRESETS_OWN "\n"
			   "  --json         for programs\n"
			   "\n"
			   "Needs no root.\n";

static const struct column columns[] = {
	{ "NAME", NULL, CELL_TEXT, false }, { "WHAT", NULL, CELL_TEXT, false },  { "SPEAKS", NULL, CELL_TEXT, false },
	{ "TLS", NULL, CELL_TEXT, false },  { "PORTS", NULL, CELL_TEXT, false }, { "VERIFIED", NULL, CELL_BOOL, false },
	{ "HOSTS", NULL, CELL_TEXT, true },
};

/* "a, b, c" in fresh memory. */
static char *join(const struct text_list *list, const char *gap)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		abort();
	for (size_t i = 0; i < list->count; i++)
		fprintf(out, "%s%s", i ? gap : "", list->entries[i].text);
	fclose(out);
	return text;
}

static char *join_ports(const struct endpoint *endpoint)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		abort();
	for (size_t i = 0; i < endpoint->ports_count; i++) {
		const struct port_range *range = &endpoint->ports[i];

		fprintf(out, "%s%u", i ? ", " : "", range->first);
		if (range->last != range->first)
			fprintf(out, "-%u", range->last);
	}
	fclose(out);
	return text;
}

static void fill_text(struct table *table, size_t column, char *text)
{
	if (text[0])
		table_text(table, column, text);
	free(text);
}

static void print_list(const struct presets *presets)
{
	struct table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]));

	for (size_t i = 0; i < presets->count; i++) {
		const struct preset *preset = &presets->list[i];

		if (presets_find(presets, preset->name) != preset)
			continue; /* the user's own comes first */
		table_row(table);
		table_text(table, 0, preset->name);
		table_text(table, 1, preset_kind_names[preset->kind]);
		fill_text(table, 2, join(&preset->protocols, ", "));
		table_text(table, 3, preset_tls_names[preset->tls]);
		fill_text(table, 4, join_ports(&preset->ports));
		table_bool(table, 5, preset->verified);
		fill_text(table, 6, join(&preset->hosts, ", "));
	}
	table_print(table, stdout);
	table_free(table);
}

static void list_json(struct json *json, const char *key, const struct text_list *list)
{
	json_open_array(json, key);
	for (size_t i = 0; i < list->count; i++)
		json_text(json, NULL, list->entries[i].text);
	json_close_array(json);
}

static void ports_json(struct json *json, const struct endpoint *endpoint)
{
	char range[16];

	json_open_array(json, "ports");
	for (size_t i = 0; i < endpoint->ports_count; i++) {
		snprintf(range, sizeof(range), "%u-%u", endpoint->ports[i].first, endpoint->ports[i].last);
		if (endpoint->ports[i].first == endpoint->ports[i].last)
			json_count(json, NULL, endpoint->ports[i].first);
		else
			json_text(json, NULL, range);
	}
	json_close_array(json);
}

static void transports_json(struct json *json, unsigned int transports)
{
	json_open_array(json, "transport");
	for (int i = 0; i < CHAOS_PROTOCOL_COUNT; i++) {
		if (transports & 1U << i)
			json_text(json, NULL, protocol_names[i]);
	}
	json_close_array(json);
}

static void text_json(struct json *json, const char *key, const struct text *text)
{
	if (text->text)
		json_text(json, key, text->text);
	else
		json_null(json, key);
}

static void needs_json(struct json *json, const struct preset *preset)
{
	json_open_array(json, "needs");
	for (size_t i = 0; i < PRESET_PLACEHOLDERS; i++) {
		if (preset_needs(preset, i))
			json_text(json, NULL, preset_placeholders[i]);
	}
	json_close_array(json);
}

static void preset_json(struct json *json, const struct preset *preset)
{
	json_open_object(json, NULL);
	json_text(json, "name", preset->name);
	text_json(json, "title", &preset->title);
	list_json(json, "aliases", &preset->aliases);
	json_text(json, "kind", preset_kind_names[preset->kind]);
	list_json(json, "hosts", &preset->hosts);
	needs_json(json, preset);
	ports_json(json, &preset->ports);
	list_json(json, "protocol", &preset->protocols);
	transports_json(json, preset->transports);
	json_text(json, "tls", preset_tls_names[preset->tls]);
	text_json(json, "stream", &preset->stream);
	list_json(json, "clients", &preset->clients);
	text_json(json, "note", &preset->note);
	json_bool(json, "verified", preset->verified);
	json_text(json, "file", preset->file);
	json_count(json, "line", preset->mark.line);
	json_close_object(json);
}

static void print_json(const struct presets *presets, const struct preset *only)
{
	struct json json;

	json_begin(&json, stdout, false);
	json_open_object(&json, NULL);
	json_open_array(&json, "endpoints");
	for (size_t i = 0; i < presets->count; i++) {
		const struct preset *preset = &presets->list[i];

		if (only ? preset == only : presets_find(presets, preset->name) == preset)
			preset_json(&json, preset);
	}
	json_close_array(&json);
	json_close_object(&json);
	json_end(&json);
}

/* ---- one of them, in sentences ---- */

static void say_where(const struct preset *preset)
{
	char *hosts = join(&preset->hosts, ", "), *ports = join_ports(&preset->ports);

	if (preset->hosts.count)
		printf("  hosts: %s\n", hosts);
	else
		printf("  hosts: wherever you run it; a rule that names no hosts means these ports at any address\n");
	printf("  ports: %s\n", ports[0] ? ports : "any");
	for (size_t i = 0; i < PRESET_PLACEHOLDERS; i++) {
		const char *name = preset_placeholders[i];

		if (preset_needs(preset, i))
			printf("  needs: { preset: %s, %s: ... } says which {%s}\n", preset->name, name, name);
		else if (preset_takes(preset, i))
			printf("  may have: { preset: %s, %s: ... } means that {%s} only\n", preset->name, name, name);
	}
	free(hosts);
	free(ports);
}

static void say_protocol(const struct preset *preset)
{
	static const char *const transports[] = { "", "TCP", "UDP", "TCP, or UDP with HTTP/3" };
	static const char *const tls[] = { "always inside TLS", "in clear", "in clear or inside TLS" };
	char *protocols = join(&preset->protocols, ", ");

	printf("  speaks: %s%sover %s, %s\n", protocols, protocols[0] ? " " : "", transports[preset->transports & 3],
	       tls[preset->tls]);
	free(protocols);
}

static void say_faults(const struct preset *preset)
{
	static const char *const what[] = { "what is said inside TLS can be read in clients that use OpenSSL",
					    "what is said can be read",
					    "what is said can be read, inside TLS in clients that use OpenSSL" };

	printf("  faults: connections can be refused, reset, slowed or silenced; %s\n", what[preset->tls]);
}

static void print_one(const struct preset *preset)
{
	printf("%s: %s (%s)\n", preset->name, preset->title.text ? preset->title.text : preset->name,
	       preset_kind_names[preset->kind]);
	for (size_t i = 0; i < preset->aliases.count; i++)
		printf("%s%s", i ? ", " : "  also called: ", preset->aliases.entries[i].text);
	if (preset->aliases.count)
		putchar('\n');
	say_where(preset);
	say_protocol(preset);
	say_faults(preset);
	if (preset->stream.text)
		printf("  streams: %s\n", preset->stream.text);
	for (size_t i = 0; i < preset->clients.count; i++)
		printf("  clients: %s\n", preset->clients.entries[i].text);
	if (preset->note.text)
		printf("  note: %s\n", preset->note.text);
	if (preset->verified)
		puts("  verified: hosts and ports were checked");
	else
		puts("  not verified: hosts and ports were not all checked against a source; look before you rely on "
		     "them");
	printf("  from: %s:%u\n", preset->file, preset->mark.line);
}

static int unknown(const struct presets *presets, const char *name)
{
	const char *near = presets_nearest(presets, name);
	char hint[160] = "'chaosbpf endpoints' lists them";

	if (near)
		snprintf(hint, sizeof(hint), "did you mean '%s'?", near);
	return log_fail(EXIT_USAGE, hint, "no endpoint is known by the name '%s'", name);
}

static int print(const struct presets *presets, const char *name)
{
	const struct preset *only = name ? presets_find(presets, name) : NULL;

	if (name && !only)
		return unknown(presets, name);
	if (options_json)
		print_json(presets, only);
	else if (only)
		print_one(only);
	else
		print_list(presets);
	return EXIT_DONE;
}

static int run(int argc, char **argv)
{
	const char *own = NULL;
	const struct option_spec specs[] = {
		{ "endpoints", OPTION_TEXT, &own, NULL },
		{ 0 },
	};
	struct presets *presets;
	struct error err;
	int rc = options_parse("endpoints", &argc, &argv, specs);

	if (!rc)
		rc = options_operands("endpoints", argc, argv, 0, 1, "at most one name");
	if (rc)
		return rc;
	if (presets_load(own, &presets, &err) < 0)
		return log_error(&err);
	rc = print(presets, argc ? argv[0] : NULL);
	presets_free(presets);
	return rc;
}

const struct command cmd_endpoints = {
	.name = "endpoints",
	.summary = "list the endpoints that are known by name, or explain one",
	.help = help,
	.run = run,
};
