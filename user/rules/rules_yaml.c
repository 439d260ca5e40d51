// SPDX-License-Identifier: GPL-2.0-only
/* libyaml's events to a tree of struct node; see rules_yaml.h. */
#include "user/rules/rules_yaml.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

struct reader {
	const struct rules *rules;
	struct error *err;
	yaml_parser_t yaml;
	yaml_event_t event; /* the present one; deleted by next_event() */
	size_t nodes;
	unsigned int depth;
};

/* libyaml counts lines and columns from 0. */
static struct mark mark_of(yaml_mark_t mark)
{
	return (struct mark){ (unsigned int)mark.line + 1, (unsigned int)mark.column + 1 };
}

static struct mark event_mark(const struct reader *reader)
{
	return mark_of(reader->event.start_mark);
}

#define refuse(reader, mark, ...) rules_error_at((reader)->rules, mark, (reader)->err, EXIT_USAGE, __VA_ARGS__)

static int out_of_memory(struct reader *reader)
{
	return error_set(reader->err, -ENOMEM, EXIT_FAILED, "out of memory");
}

static int syntax_error(struct reader *reader)
{
	const char *problem = reader->yaml.problem ? reader->yaml.problem : "cannot be read";
	const char *context = reader->yaml.context;
	struct mark mark = mark_of(reader->yaml.problem_mark);

	if (reader->yaml.error == YAML_MEMORY_ERROR)
		return out_of_memory(reader);
	if (context && strcmp(context, "while scanning an alias") == 0)
		return refuse(reader, mark, "a value that begins with '*' needs quotes");
	if (context && strcmp(context, "while scanning a block scalar") == 0)
		return refuse(reader, mark, "a value that begins with '>' or '|' needs quotes");
	if (strcmp(problem, "did not find expected node content") == 0)
		return refuse(reader, mark, "not valid YAML: a value is missing, or needs quotes as '::1' does");
	if (strcmp(problem, "mapping values are not allowed in this context") == 0)
		return refuse(reader, mark, "not valid YAML: a second ': ' on this line, or a line indented too far");
	return refuse(reader, mark, "not valid YAML: %s%s%s", problem, context ? " " : "", context ? context : "");
}

static int next_event(struct reader *reader)
{
	yaml_event_delete(&reader->event);
	if (!yaml_parser_parse(&reader->yaml, &reader->event)) {
		memset(&reader->event, 0, sizeof(reader->event));
		return syntax_error(reader);
	}
	return 0;
}

static int refuse_decoration(struct reader *reader, const unsigned char *anchor, const unsigned char *tag)
{
	if (anchor)
		return refuse(reader, event_mark(reader), "anchors and aliases are not supported: '&%.60s'", anchor);
	if (tag)
		return refuse(reader, event_mark(reader), "tags such as !!str are not supported");
	return 0;
}

/* Takes a scalar's text out of the event. */
static int take_text(struct reader *reader, char **text, bool *plain)
{
	const yaml_char_t *value = reader->event.data.scalar.value;
	size_t len = reader->event.data.scalar.length;
	int err;

	err = refuse_decoration(reader, reader->event.data.scalar.anchor, reader->event.data.scalar.tag);
	if (err)
		return err;
	if (len > RULES_MAX_TEXT)
		return refuse(reader, event_mark(reader), "text of %zu bytes, at most %d are allowed", len,
			      RULES_MAX_TEXT);
	if (!text_is_clean((const char *)value, len))
		return refuse(reader, event_mark(reader), "a line end or control character in a text");
	*text = strdup((const char *)value);
	if (!*text)
		return out_of_memory(reader);
	*plain = reader->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	return 0;
}

/* Room for one more child, zeroed. The array grows by half; rules and hosts come in hundreds. */
static struct node *add_child(struct node *node, size_t *room)
{
	struct node *children;

	if (node->count == *room) {
		*room = *room + *room / 2 + 4;
		children = reallocarray(node->children, *room, sizeof(*children));
		if (!children)
			return NULL;
		node->children = children;
	}
	memset(&node->children[node->count], 0, sizeof(*node->children));
	return &node->children[node->count++];
}

static int read_node(struct reader *reader, struct node *node);

static int check_key(struct reader *reader, const struct node *map, const struct node *child)
{
	const struct node *first = node_get(map, child->key);

	if (strcmp(child->key, "<<") == 0)
		return refuse(reader, child->key_mark, "merge keys ('<<') are not supported");
	if (first != child)
		return refuse(reader, child->key_mark, "duplicate key '%s', first on line %u", child->key,
			      first->key_mark.line);
	return 0;
}

static int read_key(struct reader *reader, const struct node *map, struct node *child)
{
	bool plain;
	int err;

	child->key_mark = event_mark(reader);
	if (reader->event.type == YAML_ALIAS_EVENT)
		return refuse(reader, child->key_mark, "anchors and aliases are not supported: '*%.60s'",
			      reader->event.data.alias.anchor);
	if (reader->event.type != YAML_SCALAR_EVENT)
		return refuse(reader, child->key_mark, "a key must be a word, not a list or a map");
	err = take_text(reader, &child->key, &plain);
	if (err)
		return err;
	err = check_key(reader, map, child);
	if (err)
		return err;
	child->label = child->key;
	return next_event(reader);
}

/* Reads entries up to the end event of a list or map. */
static int read_children(struct reader *reader, struct node *node, yaml_event_type_t end)
{
	size_t limit = node->kind == NODE_MAP ? RULES_MAX_KEYS : RULES_MAX_LIST, room = 0;
	struct node *child;
	int err;

	for (;;) {
		err = next_event(reader);
		if (err)
			return err;
		if (reader->event.type == end)
			return 0;
		if (node->count == limit)
			return refuse(reader, event_mark(reader), "'%s' has more than %zu entries", node->label, limit);
		child = add_child(node, &room);
		if (!child)
			return out_of_memory(reader);
		child->label = node->label;
		err = node->kind == NODE_MAP ? read_key(reader, node, child) : 0;
		if (err)
			return err;
		err = read_node(reader, child);
		if (err)
			return err;
	}
}

static int read_collection(struct reader *reader, struct node *node, const unsigned char *anchor,
			   const unsigned char *tag, yaml_event_type_t end)
{
	int err;

	err = refuse_decoration(reader, anchor, tag);
	if (err)
		return err;
	if (++reader->depth > RULES_MAX_DEPTH)
		return refuse(reader, node->mark, "nested deeper than %d levels", RULES_MAX_DEPTH);
	err = read_children(reader, node, end);
	reader->depth--;
	return err;
}

/* Turns the present event, and those that belong to it, into a node. Depth is bounded by RULES_MAX_DEPTH. */
static int read_node(struct reader *reader, struct node *node)
{
	yaml_event_t *event = &reader->event;

	node->mark = event_mark(reader);
	if (++reader->nodes > RULES_MAX_NODES)
		return refuse(reader, node->mark, "more than %d values in the file", RULES_MAX_NODES);
	switch (event->type) {
	case YAML_SCALAR_EVENT:
		node->kind = NODE_TEXT;
		return take_text(reader, &node->text, &node->plain);
	case YAML_SEQUENCE_START_EVENT:
		node->kind = NODE_LIST;
		return read_collection(reader, node, event->data.sequence_start.anchor, event->data.sequence_start.tag,
				       YAML_SEQUENCE_END_EVENT);
	case YAML_MAPPING_START_EVENT:
		node->kind = NODE_MAP;
		return read_collection(reader, node, event->data.mapping_start.anchor, event->data.mapping_start.tag,
				       YAML_MAPPING_END_EVENT);
	case YAML_ALIAS_EVENT:
		return refuse(reader, node->mark,
			      "aliases are not supported; if '*%.60s' is meant as it stands, it needs quotes",
			      event->data.alias.anchor);
	default:
		return refuse(reader, node->mark, "not valid YAML: a value is missing");
	}
}

static int read_document(struct reader *reader, struct node *root)
{
	int err;

	err = next_event(reader); /* stream start */
	if (!err)
		err = next_event(reader);
	if (err)
		return err;
	if (reader->event.type == YAML_STREAM_END_EVENT)
		return refuse(reader, ((struct mark){ 1, 1 }), "the file holds no rules");
	err = next_event(reader);
	if (!err)
		err = read_node(reader, root);
	if (!err)
		err = next_event(reader); /* document end */
	if (!err)
		err = next_event(reader);
	if (err)
		return err;
	if (reader->event.type != YAML_STREAM_END_EVENT)
		return refuse(reader, event_mark(reader), "a second document begins here, one file holds one");
	return 0;
}

int yaml_read(const struct rules *rules, struct node **root, struct error *err)
{
	struct reader reader = { .rules = rules, .err = err };
	const char *source = rules->source;
	size_t len = rules->source_len;
	int code;

	*root = calloc(1, sizeof(**root));
	if (!*root || !yaml_parser_initialize(&reader.yaml)) {
		free(*root);
		*root = NULL;
		return out_of_memory(&reader);
	}
	if (len >= 3 && memcmp(source, "\xef\xbb\xbf", 3) == 0) {
		source += 3;
		len -= 3;
	}
	(*root)->label = "the file";
	yaml_parser_set_encoding(&reader.yaml, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&reader.yaml, (const unsigned char *)source, len);
	code = read_document(&reader, *root);
	yaml_event_delete(&reader.event);
	yaml_parser_delete(&reader.yaml);
	if (code) {
		node_free(*root);
		*root = NULL;
	}
	return code;
}

static void node_free_content(struct node *node)
{
	for (size_t i = 0; i < node->count; i++)
		node_free_content(&node->children[i]);
	free(node->children);
	free(node->key);
	free(node->text);
}

void node_free(struct node *root)
{
	if (!root)
		return;
	node_free_content(root);
	free(root);
}

const struct node *node_get(const struct node *map, const char *key)
{
	for (size_t i = 0; i < map->count; i++) {
		if (map->children[i].key && strcmp(map->children[i].key, key) == 0)
			return &map->children[i];
	}
	return NULL;
}
