// SPDX-License-Identifier: GPL-2.0-only
/* What a request sends and what is expected of its answer. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "user/experiment/experiment_internal.h"

#define MAX_COPIES 1000
#define CHARACTERS "{characters}" /* in a body: where those that are generated go */

int key_url(struct parser *p, const struct node *node, void *target)
{
	static const char expected[] = "a URL such as http://127.0.0.1:8080/health";
	const char *text, *host;
	char **url = target;
	int err;

	err = value_text(p, node, expected, &text);
	if (err)
		return err;
	if (strncmp(text, "http://", 7) != 0 && strncmp(text, "https://", 8) != 0)
		return fail(p, node->mark, "invalid %s '%s', expected %s", node->label, show(p, text), expected);
	host = strstr(text, "://") + 3;
	if (!host[0] || strchr("/?#:", host[0]))
		return fail(p, node->mark, "invalid %s '%s', it names no host", node->label, show(p, text));
	if (strpbrk(text, " \"<>\\"))
		return fail(p, node->mark, "invalid %s '%s', blanks and quotes are written %%20 and %%22", node->label,
			    show(p, text));
	*url = strdup(text);
	return *url ? 0 : out_of_memory(p);
}

int key_method(struct parser *p, const struct node *node, void *target)
{
	static const char *const names[] = { "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", NULL };
	struct request *request = target;
	unsigned int index;
	int err = value_choice(p, node, names, &index);

	if (!err)
		snprintf(request->method, sizeof(request->method), "%s", names[index]);
	return err;
}

static bool is_header_name(const char *text)
{
	for (const char *c = text; *c; c++) {
		if (!isalnum((unsigned char)*c) && !strchr("!#$%&'*+-.^_`|~", *c))
			return false;
	}
	return text[0] != '\0';
}

static int headers_parse(struct parser *p, const struct node *node, char ***headers, size_t *count)
{
	const char *text;
	int err;

	err = value_kind(p, node, NODE_MAP, "a map such as { Authorization: \"Bearer key\" }");
	if (err)
		return err;
	if (node->count > EXPERIMENT_MAX_ARGUMENTS)
		return fail(p, node->mark, "more than %d headers", EXPERIMENT_MAX_ARGUMENTS);
	*headers = calloc(node->count + 1, sizeof(**headers));
	if (!*headers)
		return out_of_memory(p);
	for (size_t i = 0; i < node->count; i++) {
		const struct node *child = &node->children[i];

		if (!is_header_name(child->key))
			return fail(p, child->key_mark, "'%s' is no name of a header", show(p, child->key));
		err = value_text(p, child, "a single value", &text);
		if (err)
			return err;
		if (asprintf(&(*headers)[i], "%s: %s", child->key, text) < 0) {
			(*headers)[i] = NULL;
			return out_of_memory(p);
		}
		++*count;
	}
	return 0;
}

int key_headers(struct parser *p, const struct node *node, void *target)
{
	struct request *request = target;

	return headers_parse(p, node, &request->headers, &request->headers_count);
}

static int refuse_second_body(struct parser *p, const struct node *node, const struct request *request)
{
	return request->body ? fail(p, node->key_mark, "'body' and 'body-file' exclude each other") : 0;
}

int key_body(struct parser *p, const struct node *node, void *target)
{
	struct request *request = target;
	int err = refuse_second_body(p, node, request);

	if (!err)
		err = value_kind(p, node, NODE_TEXT, "a text in quotes");
	if (err)
		return err;
	request->body = strdup(node->text);
	request->body_len = strlen(node->text);
	return request->body ? 0 : out_of_memory(p);
}

static int read_body(int fd, struct request *request)
{
	size_t room = EXPERIMENT_MAX_BODY + 1;
	ssize_t got = 1;

	request->body = malloc(room);
	if (!request->body)
		return -ENOMEM;
	while (got > 0 && request->body_len < EXPERIMENT_MAX_BODY) {
		got = read(fd, request->body + request->body_len, EXPERIMENT_MAX_BODY - request->body_len);
		if (got < 0)
			return -errno;
		request->body_len += (size_t)got;
	}
	request->body[request->body_len] = '\0';
	return got > 0 && read(fd, &room, 1) == 1 ? -EFBIG : 0;
}

int key_body_file(struct parser *p, const struct node *node, void *target)
{
	struct request *request = target;
	const char *text;
	char *path;
	int fd, err;

	err = refuse_second_body(p, node, request);
	if (!err)
		err = value_text(p, node, "a file", &text);
	if (err)
		return err;
	path = experiment_path(reading_of(p), text);
	if (!path)
		return out_of_memory(p);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	free(path);
	if (fd < 0)
		return fail(p, node->mark, "cannot open '%s': %s", show(p, text), strerror(errno));
	err = read_body(fd, request);
	close(fd);
	if (err == -EFBIG)
		return fail(p, node->mark, "'%s' is larger than 1 MiB; 'characters' makes long bodies", show(p, text));
	return err ? fail(p, node->mark, "cannot read '%s': %s", show(p, text), strerror(-err)) : 0;
}

int key_characters(struct parser *p, const struct node *node, void *target)
{
	struct request *request = target;

	return value_number(p, node, 1, EXPERIMENT_MAX_CHARACTERS, &request->characters);
}

/* Words, so that a tokenizer finds as many tokens as in a text of that length; nothing that JSON would have to escape. */
static void generate(char *out, uint64_t count)
{
	static const char words[] = "the quick brown fox jumps over the lazy dog and runs on ";

	for (uint64_t i = 0; i < count; i++)
		out[i] = words[i % (sizeof(words) - 1)];
}

static int generate_body(struct parser *p, const struct node *node, struct request *request)
{
	const char *given = request->body ?: CHARACTERS;
	const char *place = strstr(given, CHARACTERS);
	size_t before, after;
	char *body;

	if (!place)
		return fail(p, node->mark, "'body' does not say where the 'characters' go: write %s into it",
			    CHARACTERS);
	before = (size_t)(place - given);
	after = strlen(place + strlen(CHARACTERS));
	body = malloc(before + request->characters + after + 1);
	if (!body)
		return out_of_memory(p);
	memcpy(body, given, before);
	generate(body + before, request->characters);
	memcpy(body + before + request->characters, place + strlen(CHARACTERS), after + 1);
	free(request->body);
	request->body = body;
	request->body_len = before + request->characters + after;
	return 0;
}

int request_complete(struct parser *p, const struct node *node, struct request *request)
{
	int err = request->characters ? generate_body(p, node, request) : 0;

	if (err)
		return err;
	if (request->body && (strcmp(request->method, "GET") == 0 || strcmp(request->method, "HEAD") == 0))
		return fail(p, node->mark, "a %s request has no body", request->method);
	if (!request->method[0])
		snprintf(request->method, sizeof(request->method), "%s", request->body ? "POST" : "GET");
	return 0;
}

void request_free(struct request *request)
{
	free(request->url);
	strings_free(request->headers, request->headers_count);
	free(request->body);
}

/* ---- what is expected ---- */

static int add_status(struct parser *p, const struct node *node, void *target)
{
	static const char expected[] = "a status such as 200 or 2xx";
	struct expect *expect = target;
	struct status_range *range = &expect->status[expect->status_count];
	const char *text;
	uint64_t number;
	int err;

	err = value_text(p, node, expected, &text);
	if (err)
		return err;
	if (strlen(text) == 3 && text[0] >= '1' && text[0] <= '5' && strcasecmp(text + 1, "xx") == 0)
		*range = (struct status_range){ (text[0] - '0') * 100, (text[0] - '0') * 100 + 99 };
	else if (parse_number(text, &number) == 0 && number >= 100 && number <= 599)
		*range = (struct status_range){ number, number };
	else
		return fail(p, node->mark, "invalid %s '%s', expected %s", node->label, show(p, text), expected);
	expect->status_count++;
	return 0;
}

static int key_status(struct parser *p, const struct node *node, void *target)
{
	struct expect *expect = target;

	if (value_count(node) > EXPERIMENT_MAX_ARGUMENTS)
		return fail(p, node->mark, "'status' has more than %d entries", EXPERIMENT_MAX_ARGUMENTS);
	expect->status = calloc(value_count(node), sizeof(*expect->status));
	if (!expect->status)
		return out_of_memory(p);
	return value_each(p, node, add_status, expect);
}

static int key_expect_headers(struct parser *p, const struct node *node, void *target)
{
	struct expect *expect = target;

	return headers_parse(p, node, &expect->headers, &expect->headers_count);
}

/*
 * Copies of a part that the braces of a regular expression ask for, all of them multiplied: regcomp() makes each of them,
 * and ((a{255}){255}){255} would take all memory.
 */
static uint64_t copies(const char *pattern)
{
	uint64_t product = 1;

	for (const char *c = pattern; (c = strchr(c, '{')); c++) {
		uint64_t most = strtoul(c + 1, NULL, 10), second;
		const char *comma = c + 1 + strspn(c + 1, "0123456789");

		second = *comma == ',' ? strtoul(comma + 1, NULL, 10) : 0;
		most = second > most ? second : most;
		if (most > 1 && __builtin_mul_overflow(product, most, &product))
			return UINT64_MAX;
	}
	return product;
}

static int key_matches(struct parser *p, const struct node *node, void *target)
{
	struct expect *expect = target;
	char why[128];
	int err = key_string(p, node, &expect->matches);

	if (err)
		return err;
	if (copies(expect->matches) > MAX_COPIES) {
		free(expect->matches);
		expect->matches = NULL; /* nothing was compiled */
		return fail(p, node->mark, "%s '%s' repeats too much, the numbers in braces may multiply to %d at most",
			    node->label, show(p, node->text), MAX_COPIES);
	}
	err = regcomp(&expect->regex, expect->matches, REG_EXTENDED | REG_NOSUB);
	if (!err)
		return 0;
	regerror(err, &expect->regex, why, sizeof(why));
	free(expect->matches);
	expect->matches = NULL; /* nothing was compiled */
	return fail(p, node->mark, "invalid %s '%s', not an extended regular expression: %s", node->label,
		    show(p, node->text), why);
}

static int key_json(struct parser *p, const struct node *node, void *target)
{
	struct expect *expect = target;
	int err = value_kind(p, node, NODE_MAP, "a map such as { choices.0.message.role: assistant }");

	if (err)
		return err;
	if (node->count > EXPERIMENT_MAX_ARGUMENTS)
		return fail(p, node->mark, "'json' has more than %d entries", EXPERIMENT_MAX_ARGUMENTS);
	expect->json = calloc(node->count + 1, sizeof(*expect->json));
	if (!expect->json)
		return out_of_memory(p);
	for (size_t i = 0; i < node->count; i++) {
		const struct node *child = &node->children[i];
		struct json_expect *json = &expect->json[expect->json_count++];

		/* Here, unlike elsewhere, `null` and `~` are values. */
		err = child->kind == NODE_TEXT ? 0 : value_kind(p, child, NODE_TEXT, "a single value");
		if (err)
			return err;
		json->path = strdup(child->key);
		json->value = strdup(child->text[0] || !child->plain ? child->text : "null");
		json->plain = child->plain;
		if (!json->path || !json->value)
			return out_of_memory(p);
	}
	return 0;
}

int key_expect_answer(struct parser *p, const struct node *node, void *target)
{
	static const struct key keys[] = {
		{ "status", key_status, 0 },
		{ "headers", key_expect_headers, 0 },
		{ "body-contains", key_string, offsetof(struct expect, contains) },
		{ "body-matches", key_matches, 0 },
		{ "json", key_json, 0 },
		{ NULL, NULL, 0 },
	};

	return map_parse(p, node, "a map such as { status: 200, body-contains: answer }", keys, target);
}

static int key_exit(struct parser *p, const struct node *node, void *target)
{
	unsigned int *code = target;
	uint64_t number = 0;
	int err = value_number(p, node, 0, 255, &number);

	*code = (unsigned int)number;
	return err;
}

int key_expect_exit(struct parser *p, const struct node *node, void *target)
{
	static const struct key keys[] = {
		{ "exit", key_exit, offsetof(struct expect, exit) },
		{ NULL, NULL, 0 },
	};

	return map_parse(p, node, "a map such as { exit: 0 }", keys, target);
}

static int key_value(struct parser *p, const struct node *node, void *target)
{
	struct expect *expect = target;

	expect->has_value = true;
	return comparison_parse(p, node, MEASURE_VALUE, &expect->comparison, &expect->value);
}

int key_expect_value(struct parser *p, const struct node *node, void *target)
{
	static const struct key keys[] = {
		{ "value", key_value, 0 },
		{ NULL, NULL, 0 },
	};

	return map_parse(p, node, "a map such as { value: \"< 5\" }", keys, target);
}

void expect_free(struct expect *expect)
{
	free(expect->status);
	strings_free(expect->headers, expect->headers_count);
	free(expect->contains);
	if (expect->matches)
		regfree(&expect->regex);
	free(expect->matches);
	for (size_t i = 0; i < expect->json_count; i++) {
		free(expect->json[i].path);
		free(expect->json[i].value);
	}
	free(expect->json);
}
