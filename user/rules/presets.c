// SPDX-License-Identifier: GPL-2.0-only
/* A presets file from its tree to struct preset; see presets.h. The same keys, values and errors as in a rules file. */
#include "user/rules/presets.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/names.h"
#include "user/rules/rules_parse.h"

_Static_assert(RULES_MAX_KEYS <= RULES_MAX_ENDPOINTS, "the limit of a map is that of the presets");

#define MAX_PATTERNS 64 /* hosts of one preset */
#define MAX_TEXTS    16 /* entries of any other list */

const char *const preset_kind_names[] = { "model-api", "model-server", "gateway", "vector-database",
					  "database",  "cache",        NULL };
_Static_assert(sizeof(preset_kind_names) / sizeof(preset_kind_names[0]) == PRESET_KIND_COUNT + 1, "preset_kind_names");

const char *const preset_tls_names[] = { "always", "never", "optional", NULL };
_Static_assert(sizeof(preset_tls_names) / sizeof(preset_tls_names[0]) == PRESET_TLS_COUNT + 1, "preset_tls_names");

const char *const preset_placeholders[] = { "region", "instance", NULL };
_Static_assert(sizeof(preset_placeholders) / sizeof(preset_placeholders[0]) == PRESET_PLACEHOLDERS + 1,
	       "preset_placeholders");

static int add_text(struct parser *p, const struct node *node, void *target)
{
	struct text_list *list = target;

	return key_text(p, node, &list->entries[list->count++]);
}

static int key_text_list(struct parser *p, const struct node *node, void *target)
{
	struct text_list *list = target;

	list->entries = calloc(value_count(node), sizeof(*list->entries));
	if (!list->entries)
		return out_of_memory(p);
	return value_each(p, node, add_text, list);
}

static int key_texts(struct parser *p, const struct node *node, void *target)
{
	if (node->kind == NODE_LIST && node->count > MAX_TEXTS)
		return fail(p, node->mark, "'%s' has more than %d entries", node->label, MAX_TEXTS);
	return key_text_list(p, node, target);
}

/* "{region}" at `text`: moves behind it. */
static int placeholder_check(struct parser *p, const struct node *node, const char **text)
{
	size_t len = strcspn(*text + 1, "}");
	char word[RULES_MAX_NAME + 1];
	const char *near;

	if ((*text)[len + 1] != '}' || len >= sizeof(word))
		return fail(p, node->mark, "host '%s' has a '{' without its '}'", show(p, node->text));
	memcpy(word, *text + 1, len);
	word[len] = '\0';
	*text += len + 2;
	if (name_index(preset_placeholders, word) >= 0)
		return 0;
	near = nearest_word(word, preset_placeholders);
	if (near)
		return fail(p, node->mark, "unknown placeholder '{%s}', did you mean '{%s}'?", show(p, word), near);
	return fail(p, node->mark, "unknown placeholder '{%s}', expected {region} or {instance}", show(p, word));
}

/* A host's name whose labels may hold placeholders; "*." may stand before it. */
static int pattern_check(struct parser *p, const struct node *node, void *unused)
{
	const char *text = node->text;
	int err = 0;

	(void)unused;
	if (strncmp(text, "*.", 2) == 0)
		text += 2;
	while (*text && !err) {
		if (*text == '{')
			err = placeholder_check(p, node, &text);
		else if (isalnum((unsigned char)*text) || strchr(".-_:/", *text))
			text++;
		else
			err = fail(p, node->mark,
				   "invalid host '%s', expected a name such as api.example.com or "
				   "{region}.example.com",
				   show(p, node->text));
	}
	return err;
}

static int key_patterns(struct parser *p, const struct node *node, void *target)
{
	int err = key_text_list(p, node, target);

	if (!err && value_count(node) > MAX_PATTERNS)
		err = fail(p, node->mark, "'%s' has more than %d entries", node->label, MAX_PATTERNS);
	return err ? err : value_each(p, node, pattern_check, NULL);
}

static int key_kind(struct parser *p, const struct node *node, void *target)
{
	enum preset_kind *kind = target;
	unsigned int index;
	int err;

	err = value_choice(p, node, preset_kind_names, &index);
	if (!err)
		*kind = index;
	return err;
}

static int key_tls(struct parser *p, const struct node *node, void *target)
{
	enum preset_tls *tls = target;
	unsigned int index;
	int err;

	err = value_choice(p, node, preset_tls_names, &index);
	if (!err)
		*tls = index;
	return err;
}

static const struct key preset_keys[] = {
	{ "title", key_text, offsetof(struct preset, title) },
	{ "aliases", key_texts, offsetof(struct preset, aliases) },
	{ "kind", key_kind, offsetof(struct preset, kind) },
	{ "hosts", key_patterns, offsetof(struct preset, hosts) },
	{ "ports", key_ports, offsetof(struct preset, ports) },
	{ "protocol", key_texts, offsetof(struct preset, protocols) },
	{ "transport", key_protocol, offsetof(struct preset, transports) },
	{ "tls", key_tls, offsetof(struct preset, tls) },
	{ "stream", key_text, offsetof(struct preset, stream) },
	{ "clients", key_texts, offsetof(struct preset, clients) },
	{ "note", key_text, offsetof(struct preset, note) },
	{ "verified", key_bool, offsetof(struct preset, verified) },
	{ NULL, NULL, 0 },
};

/* Names and aliases share one room. */
static int names_check(struct parser *p, const struct presets *presets, const struct preset *preset)
{
	char alias[RULES_MAX_NAME + 1];

	for (const struct preset *other = presets->list; other < preset; other++) {
		for (size_t i = 0; i < other->aliases.count; i++) {
			if (strcmp(other->aliases.entries[i].text, preset->name) == 0)
				return fail(p, preset->mark, "'%s' is an alias of '%s' already", preset->name,
					    other->name);
		}
	}
	for (size_t i = 0; i < preset->aliases.count; i++) {
		const struct text *text = &preset->aliases.entries[i];
		const struct preset *taken;
		int err = name_parse(p, text->mark, text->text, alias);

		if (err)
			return err;
		taken = presets_find(presets, alias);
		if (taken && (taken != preset || strcmp(taken->name, alias) == 0))
			return fail(p, text->mark, "alias '%s' is a name of '%s' already", alias, taken->name);
	}
	return 0;
}

static int preset_parse(struct parser *p, const struct node *node, const struct presets *presets, struct preset *preset)
{
	int err;

	preset->mark = node->key_mark;
	preset->file = p->rules->file;
	preset->transports = 1U << CHAOS_TCP;
	preset->tls = PRESET_TLS_OPTIONAL;
	err = name_parse(p, node->key_mark, node->key, preset->name);
	if (!err)
		err = map_parse(p, node, "a map with hosts, ports and what is known of it", preset_keys, preset);
	if (err)
		return err;
	if (!preset->hosts.count && !preset->ports.ports_count)
		return fail(p, node->key_mark, "preset '%s' has neither hosts nor ports", preset->name);
	return names_check(p, presets, preset);
}

static const struct key file_keys[] = {
	{ "version", key_later, 0 },
	{ "endpoints", key_later, 0 },
	{ NULL, NULL, 0 },
};

static int file_parse(struct parser *p, const struct node *root, struct presets *presets)
{
	const struct node *node;
	int err;

	err = map_check_keys(p, root, "a map with version and endpoints", file_keys);
	if (!err)
		err = version_check(p, root);
	if (err)
		return err;
	node = node_get(root, "endpoints");
	if (!node)
		return fail(p, root->mark, "the endpoints are missing, write 'endpoints:' and a map below it");
	err = value_kind(p, node, NODE_MAP, "a map of names to presets");
	if (err)
		return err;
	presets->list = calloc(node->count + 1, sizeof(*presets->list));
	if (!presets->list)
		return out_of_memory(p);
	for (size_t i = 0; i < node->count && !err; i++) {
		presets->count++;
		err = preset_parse(p, &node->children[i], presets, &presets->list[i]);
	}
	return err;
}

int presets_parse_source(struct rules *file, struct presets *presets, struct error *err)
{
	struct parser parser = { .rules = file, .err = err, .presets_only = true };
	struct node *root = NULL;
	int code;

	code = source_check(file, err);
	if (!code)
		code = yaml_read(file, &root, err);
	if (!code)
		code = file_parse(&parser, root, presets);
	node_free(root);
	return code;
}

int presets_parse(const char *file, const char *source, size_t len, struct presets **presets, struct error *err)
{
	struct presets *made = calloc(1, sizeof(*made));
	int code = -ENOMEM;

	*presets = NULL;
	if (made)
		made->files[0] = rules_new(file);
	if (made && made->files[0])
		made->files[0]->source = bytes_copy(source, len);
	if (made && made->files[0] && made->files[0]->source) {
		made->files[0]->source_len = len;
		code = presets_parse_source(made->files[0], made, err);
	} else {
		error_set(err, code, EXIT_FAILED, "out of memory");
	}
	if (code) {
		presets_free(made);
		return code;
	}
	*presets = made;
	return 0;
}

static void list_free(struct text_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->entries[i].text);
	free(list->entries);
}

void presets_free_list(struct presets *presets)
{
	for (size_t i = 0; i < presets->count; i++) {
		struct preset *preset = &presets->list[i];

		free(preset->title.text);
		free(preset->stream.text);
		free(preset->note.text);
		list_free(&preset->aliases);
		list_free(&preset->hosts);
		list_free(&preset->protocols);
		list_free(&preset->clients);
		endpoint_free(&preset->ports);
	}
	free(presets->list);
}

void presets_free(struct presets *presets)
{
	if (!presets)
		return;
	presets_free_list(presets);
	rules_free(presets->files[0]);
	rules_free(presets->files[1]);
	free(presets);
}

static bool has_name(const struct preset *preset, const char *name)
{
	bool found = strcmp(preset->name, name) == 0;

	for (size_t i = 0; i < preset->aliases.count && !found; i++)
		found = preset->aliases.entries[i].text && strcmp(preset->aliases.entries[i].text, name) == 0;
	return found;
}

const struct preset *presets_find(const struct presets *presets, const char *name)
{
	for (size_t i = 0; i < presets->count; i++) {
		if (has_name(&presets->list[i], name))
			return &presets->list[i];
	}
	return NULL;
}

const char *presets_nearest(const struct presets *presets, const char *word)
{
	const char **names = calloc(presets->count * (MAX_TEXTS + 1) + 1, sizeof(*names)), *near = NULL;
	size_t count = 0;

	if (!names)
		return NULL;
	for (size_t i = 0; i < presets->count; i++) {
		names[count++] = presets->list[i].name;
		for (size_t k = 0; k < presets->list[i].aliases.count; k++)
			names[count++] = presets->list[i].aliases.entries[k].text;
	}
	near = nearest_word(word, names);
	free(names);
	return near;
}
