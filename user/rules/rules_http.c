// SPDX-License-Identifier: GPL-2.0-only
/*
 * `match.http`: which requests of HTTP a rule is about. Patterns are kept as written; user/tables/tables_http.c makes of them what
 * the kernel's reader goes by.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/names.h"
#include "user/rules/rules_parse.h"

#define HAS(fault, which) ((fault)->faults & (1U << (which)))

/* Printable, without a space; `*` stands for any number of characters. */
static int key_pattern(struct parser *p, const struct node *node, const char *expected, bool spaces,
		       struct text *target)
{
	const char *text;
	size_t literal = 0;
	int err = value_text(p, node, expected, &text);

	if (err)
		return err;
	for (const char *c = text; *c; c++) {
		if ((unsigned char)*c < ' ' || *c == 0x7f || (*c == ' ' && !spaces))
			return fail(p, node->mark, "invalid %s '%s', expected %s", node->label, show(p, text),
				    expected);
		literal += *c != '*';
	}
	if (!literal)
		return fail(p, node->mark, "%s '%s' fits every request; leave '%s' out", node->label, show(p, text),
			    node->label);
	if (literal > RULES_MAX_PATTERN)
		return fail(p, node->mark, "%s '%s' is too long, at most %d characters", node->label, show(p, text),
			    RULES_MAX_PATTERN);
	return key_text(p, node, target);
}

static int key_path(struct parser *p, const struct node *node, void *target)
{
	static const char expected[] = "a path such as /v1/chat/completions or \"/v1/*\"";
	struct text *path = target;
	int err = key_pattern(p, node, expected, false, path);

	if (err)
		return err;
	if (strchr(path->text, '?'))
		return fail(p, node->mark,
			    "path '%s' holds a '?': what follows it is no part of the path, leave it out",
			    show(p, path->text));
	if (path->text[0] != '/' && path->text[0] != '*')
		return fail(p, node->mark, "invalid path '%s', it begins with '/'", show(p, path->text));
	return 0;
}

static int key_method(struct parser *p, const struct node *node, void *target)
{
	static const char *const known[] = { "GET",     "HEAD",    "POST",  "PUT",   "DELETE",
					     "CONNECT", "OPTIONS", "TRACE", "PATCH", NULL };
	static const char expected[] = "a method such as POST";
	const char *text, *near;
	int err = value_text(p, node, expected, &text);

	if (err)
		return err;
	for (const char *c = text; *c; c++) {
		if (islower((unsigned char)*c))
			return fail(p, node->mark, "invalid method '%s', methods are written in capitals, such as POST",
				    show(p, text));
		if (!isupper((unsigned char)*c) && *c != '-')
			return fail(p, node->mark, "invalid method '%s', expected %s", show(p, text), expected);
	}
	near = name_index(known, text) < 0 ? nearest_word(text, known) : NULL;
	if (near)
		return fail(p, node->mark, "unknown method '%s', did you mean '%s'?", show(p, text), near);
	if (strlen(text) > RULES_MAX_METHOD)
		return fail(p, node->mark, "method '%s' is too long", show(p, text));
	return key_text(p, node, target);
}

static int key_model(struct parser *p, const struct node *node, void *target)
{
	static const char expected[] = "a model's name such as gpt-4o or \"qwen-*\"";
	struct text *model = target;
	int err = key_pattern(p, node, expected, true, model);

	if (!err && strpbrk(model->text, "\"\\"))
		err = fail(p, node->mark, "invalid model '%s', expected %s", show(p, model->text), expected);
	return err;
}

static int key_body_contains(struct parser *p, const struct node *node, void *target)
{
	static const char expected[] = "a piece of text";
	const char *text;
	int err = value_text(p, node, expected, &text);

	if (!err && strlen(text) > RULES_MAX_PATTERN)
		err = fail(p, node->mark, "%s '%s' is too long, at most %d characters", node->label, show(p, text),
			   RULES_MAX_PATTERN);
	return err ? err : key_text(p, node, target);
}

static int key_min_size(struct parser *p, const struct node *node, void *target)
{
	struct http_match *http = target;
	int err = value_size(p, node, "a size such as 200KB or 1MiB", RULES_MAX_BODY, "out of range", &http->min_size);

	if (!err && !http->min_size)
		err = fail(p, node->mark, "min-size '%s' fits every request; leave 'min-size' out",
			   show(p, node->text));
	http->min_size_mark = node->mark;
	return err;
}

static bool is_header_name(const char *name)
{
	for (const char *c = name; *c; c++) {
		if (!isalnum((unsigned char)*c) && !strchr("!#$%&'+-.^_`|~", *c))
			return false;
	}
	return *name;
}

static int add_header(struct parser *p, const struct node *node, struct http_match *http)
{
	struct http_header *header = &http->headers[http->headers_count];
	const char *text;
	int err;

	if (!is_header_name(node->key))
		return fail(p, node->key_mark, "invalid header '%s', expected a name such as x-chaos",
			    show(p, node->key));
	err = value_text(p, node, "a header's value such as 1 or \"Bearer *\"", &text);
	if (!err && strlen(node->key) + strlen(text) > RULES_MAX_PATTERN)
		err = fail(p, node->mark, "header '%s' is too long, at most %d characters with its value",
			   show(p, node->key), RULES_MAX_PATTERN);
	for (const char *c = text; !err && *c; c++) {
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			err = fail(p, node->mark, "invalid value '%s' of header '%s'", show(p, text),
				   show(p, node->key));
	}
	if (!err && (text[0] == ' ' || text[strlen(text) - 1] == ' '))
		err = fail(p, node->mark, "value '%s' of header '%s': spaces at its ends are not sent", show(p, text),
			   show(p, node->key));
	if (err)
		return err;
	http->headers_count++;
	header->name = strdup(node->key);
	header->mark = node->key_mark;
	for (char *c = header->name; c && *c; c++)
		*c = (char)tolower((unsigned char)*c);
	return header->name ? key_text(p, node, &header->value) : out_of_memory(p);
}

static int key_header(struct parser *p, const struct node *node, void *target)
{
	struct http_match *http = target;
	int err = value_kind(p, node, NODE_MAP, "a map such as { x-chaos: 1 }");

	if (err)
		return err;
	if (!node->count)
		return fail(p, node->mark, "'header' is an empty map");
	http->headers = calloc(node->count, sizeof(*http->headers));
	if (!http->headers)
		return out_of_memory(p);
	for (size_t i = 0; i < node->count && !err; i++)
		err = add_header(p, &node->children[i], http);
	return err;
}

int key_http(struct parser *p, const struct node *node, void *target)
{
	static const struct key keys[] = {
		{ "path", key_path, offsetof(struct http_match, path) },
		{ "method", key_method, offsetof(struct http_match, method) },
		{ "model", key_model, offsetof(struct http_match, model) },
		{ "header", key_header, 0 },
		{ "body-contains", key_body_contains, offsetof(struct http_match, body_contains) },
		{ "min-size", key_min_size, 0 },
		{ NULL, NULL, 0 },
	};
	struct http_match *http = target;
	int err;

	http->given = true;
	http->mark = node->mark;
	err = map_parse(p, node, "a map such as { path: /v1/chat/completions }", keys, http);
	if (!err && !node->count)
		err = fail(p, node->mark,
			   "'http' names nothing of a request; write a path, method, model, header, "
			   "body-contains or min-size");
	return err;
}

/* Requests are read at the client, and rules about them hit what belongs to a request. */
int http_check(struct parser *p, const struct node *node, struct rule *rule)
{
	static const unsigned int possible =
		1U << CHAOS_DROP | 1U << CHAOS_DELAY | 1U << CHAOS_RESET | 1U << CHAOS_BREAK_AFTER | CHAOS_ANSWERS;
	const struct fault *fault = &rule->fault;
	const struct node *match = node_get(node, "match"), *per = node_get(node, "per"), *found;
	const unsigned int answers = fault->faults & CHAOS_ANSWERS, other = fault->faults & ~possible;
	const char *key = "http";

	if (!rule->match.http.given && !answers)
		return 0;
	if (!rule->match.http.given) { /* any request */
		rule->match.http = (struct http_match){ .given = true, .mark = fault->mark };
		key = fault_word(__builtin_ctz(answers));
	}
	if (other)
		return fail(
			p, rule->match.http.mark,
			"'http' does not go with '%s', which is not about requests; it goes with delay, drop, reset, "
			"break-after, status, body, hang, error-event, drop-done and garble",
			fault_word(__builtin_ctz(other)));
	if (HAS(fault, CHAOS_DROP) && !fault->drop_all)
		return fail(p, node_get(node_get(node, "fault"), "drop")->mark,
			    "with 'http', 'drop' is for requests, not for single packets: write 'drop: true'");
	if (rule->match.side == CHAOS_SIDE_SERVER)
		return fail(p, node_get(match, "side")->mark,
			    "'%s' is for the client: its requests are read where they leave; leave 'side' out and name "
			    "the clients",
			    key);
	found = node_get(match, "protocol");
	if (found && rule->match.protocols & 1U << CHAOS_UDP)
		return fail(p, found->mark, "'%s' is for tcp only, HTTP/3 (udp) is encrypted", key);
	found = node_get(match, "direction");
	if (found && answers && !(rule->match.directions & CHAOS_RESPONSE))
		return fail(p, found->mark, "'%s' is about the response; leave 'direction' out",
			    fault_word(__builtin_ctz(answers)));
	if (per && rule->per != CHAOS_PER_REQUEST)
		return fail(p, per->mark, "'per: %s' makes no sense with '%s', decided for each request",
			    per_names[rule->per], key);
	rule->per = CHAOS_PER_REQUEST;
	rule->match.protocols = 1U << CHAOS_TCP;
	return 0;
}

void http_free(struct http_match *http)
{
	for (size_t i = 0; i < http->headers_count; i++) {
		free(http->headers[i].name);
		free(http->headers[i].value.text);
	}
	free(http->headers);
	free(http->path.text);
	free(http->method.text);
	free(http->model.text);
	free(http->body_contains.text);
}
