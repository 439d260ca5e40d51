// SPDX-License-Identifier: GPL-2.0-only
/* Faults in the events of a stream: `break-after` with `how: clean`, `error-event`, `drop-done` and `garble`. */
#include <stddef.h>
#include <string.h>

#include "user/base/names.h"
#include "user/rules/rules_parse.h"

const char *const stream_error_names[] = { "overloaded", "server-error", "rate-limit", NULL };
_Static_assert(sizeof(stream_error_names) / sizeof(stream_error_names[0]) == STREAM_ERROR_COUNT + 1, "a name for each");

static int key_error_type(struct parser *p, const struct node *node, void *target)
{
	struct fault *fault = target;
	unsigned int index = 0;
	int err = value_choice(p, node, stream_error_names, &index);

	fault->stream_error = index;
	return err;
}

/* `error-event: overloaded`, in the place of the first event, or `{ type: overloaded, chunks: 12 }` */
int key_error_event(struct parser *p, const struct node *node, void *target)
{
	static const struct key keys[] = {
		{ "type", key_error_type, 0 },
		{ "chunks", key_chunks, offsetof(struct fault, stream_chunks) },
		{ NULL, NULL, 0 },
	};
	struct fault *fault = target;
	int err;

	fault->faults |= 1U << CHAOS_ERROR_EVENT;
	if (node->kind == NODE_TEXT)
		return key_error_type(p, node, fault);
	err = map_parse(
		p, node,
		"one of overloaded, server-error, rate-limit, or a map such as { type: overloaded, chunks: 12 }", keys,
		fault);
	if (!err && !node_get(node, "type"))
		err = fail(p, node->mark, "'error-event' needs 'type', as in { type: overloaded, chunks: 12 }");
	return err;
}

int key_drop_done(struct parser *p, const struct node *node, void *target)
{
	struct fault *fault = target;

	fault->faults |= 1U << CHAOS_DROP_DONE;
	return value_true(p, node);
}

/* `garble: { every: 5 }`, or `true` for each event */
int key_garble(struct parser *p, const struct node *node, void *target)
{
	static const struct key keys[] = {
		{ "every", key_chunks, offsetof(struct fault, stream_chunks) },
		{ NULL, NULL, 0 },
	};
	static const char expected[] = "true, or a map such as { every: 5 }";
	struct fault *fault = target;
	int err;

	fault->faults |= 1U << CHAOS_GARBLE;
	fault->stream_chunks = 1;
	if (node->kind == NODE_TEXT && strcmp(node->text, "true") != 0 && strcmp(node->text, "false") != 0)
		return fail(p, node->mark, "invalid garble '%s', expected %s", show(p, node->text), expected);
	if (node->kind == NODE_TEXT)
		return value_true(p, node);
	err = map_parse(p, node, expected, keys, fault);
	if (!err && !node_get(node, "every"))
		err = fail(p, node->mark, "'garble' needs 'every', as in { every: 5 }");
	return err;
}

/* break-after with `how: clean` is about the events of an answer, and done where these are read. */
int stream_break(struct parser *p, const struct node *node, struct fault *fault)
{
	if (fault->break_how != CHAOS_BREAK_AS_IF_OVER)
		return 0;
	if (!fault->break_chunks)
		return fail(p, node_get(node, "how")->mark,
			    "'how: clean' needs 'chunks', as in { chunks: 12, how: clean }: an answer that ends in the "
			    "middle of one is not clean");
	fault->faults = (fault->faults & ~(1U << CHAOS_BREAK_AFTER)) | 1U << CHAOS_BREAK_CLEAN;
	fault->stream_chunks = fault->break_chunks;
	fault->break_chunks = 0;
	return 0;
}
