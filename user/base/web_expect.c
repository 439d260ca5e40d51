// SPDX-License-Identifier: GPL-2.0-only
/* Whether an answer is what was expected. */
#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "user/base/web.h"

static bool status_expected(const struct expect *expect, int status)
{
	if (!expect->status_count)
		return status >= 200 && status < 300;
	for (size_t i = 0; i < expect->status_count; i++) {
		if ((unsigned int)status >= expect->status[i].first && (unsigned int)status <= expect->status[i].last)
			return true;
	}
	return false;
}

/* A header of that name whose value holds that text. `expected` is "Name: value". */
static bool has_header(const char *headers, const char *expected)
{
	size_t name = strcspn(expected, ":");
	const char *value = expected + name + 2;

	for (const char *line = headers; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		char text[1024];

		if (strncasecmp(line, expected, name) != 0 || line[name] != ':')
			continue;
		snprintf(text, sizeof(text), "%.*s", (int)strcspn(line, "\r\n"), line);
		if (strcasestr(text + name + 1, value))
			return true;
	}
	return false;
}

/* Follows "choices.0.message.content"; NULL: there is no such thing. */
static const json_t *json_at(const json_t *at, const char *path)
{
	char part[512];
	size_t len;

	for (; at && *path; path += len + (path[len] == '.')) {
		len = strcspn(path, ".");
		if (len == 0)
			return NULL;
		snprintf(part, sizeof(part), "%.*s", (int)len, path);
		if (json_is_array(at))
			at = isdigit((unsigned char)part[0]) ? json_array_get(at, strtoul(part, NULL, 10)) : NULL;
		else
			at = json_object_get(at, part);
	}
	return at;
}

/* As it would be written in the experiment. */
static void json_words(const json_t *value, char *buf, size_t size)
{
	if (json_is_string(value))
		snprintf(buf, size, "%s", json_string_value(value));
	else if (json_is_integer(value))
		snprintf(buf, size, "%lld", (long long)json_integer_value(value));
	else if (json_is_real(value))
		snprintf(buf, size, "%g", json_real_value(value));
	else if (json_is_boolean(value))
		snprintf(buf, size, "%s", json_is_true(value) ? "true" : "false");
	else
		snprintf(buf, size, "%s", json_is_null(value) ? "null" : json_is_array(value) ? "a list" : "an object");
}

static bool json_equals(const json_t *value, const struct json_expect *expected)
{
	char words[1024], *end;
	double number;

	json_words(value, words, sizeof(words));
	if (json_is_number(value) && expected->plain) {
		number = strtod(expected->value, &end);
		return end != expected->value && !*end && fabs(number - json_number_value(value)) < 1e-9;
	}
	if (!json_is_string(value) && !expected->plain)
		return false;
	return strcmp(words, expected->value) == 0;
}

static bool json_expected(const struct expect *expect, const struct web_answer *answer, char *reason, size_t size)
{
	json_error_t error;
	json_t *root = json_loadb(answer->body, answer->body_len, JSON_DECODE_ANY, &error);
	bool good = true;
	char words[64];

	if (!root) {
		snprintf(reason, size, "the answer is not JSON");
		return false;
	}
	for (size_t i = 0; i < expect->json_count && good; i++) {
		const json_t *value = json_at(root, expect->json[i].path);

		good = value && json_equals(value, &expect->json[i]);
		if (!value) {
			snprintf(reason, size, "json %s is missing", expect->json[i].path);
		} else if (!good) {
			json_words(value, words, sizeof(words));
			snprintf(reason, size, "json %s is '%s'", expect->json[i].path, words);
		}
	}
	json_decref(root);
	return good;
}

bool web_expected(const struct expect *expect, const struct web_answer *answer, char *reason, size_t size)
{
	reason[0] = '\0';
	if (answer->error) {
		snprintf(reason, size, "%s", answer->error);
		return false;
	}
	if (!status_expected(expect, answer->status)) {
		snprintf(reason, size, "status %d", answer->status);
		return false;
	}
	for (size_t i = 0; i < expect->headers_count; i++) {
		if (!has_header(answer->headers, expect->headers[i])) {
			snprintf(reason, size, "no header '%s'", expect->headers[i]);
			return false;
		}
	}
	if (expect->contains && !memmem(answer->body, answer->body_len, expect->contains, strlen(expect->contains))) {
		snprintf(reason, size, "body does not contain '%s'", expect->contains);
		return false;
	}
	if (expect->matches && regexec(&expect->regex, answer->body, 0, NULL, 0) != 0) {
		snprintf(reason, size, "body does not match '%s'", expect->matches);
		return false;
	}
	return !expect->json_count || json_expected(expect, answer, reason, size);
}

/* {"data": {"resultType": "vector", "result": [{"value": [1700000000, "1.5"]}]}}; a scalar has the pair itself. */
double web_prometheus_value(const struct web_answer *answer, char *reason, size_t size)
{
	json_error_t error;
	const json_t *result, *pair;
	double value = NAN;
	json_t *root;

	reason[0] = '\0';
	if (answer->error || answer->status != 200) {
		if (answer->error)
			snprintf(reason, size, "%s", answer->error);
		else
			snprintf(reason, size, "status %d", answer->status);
		return NAN;
	}
	root = json_loadb(answer->body, answer->body_len, 0, &error);
	result = root ? json_at(root, "data.result") : NULL;
	pair = json_is_object(json_array_get(result, 0)) ? json_at(result, "0.value") : result;
	if (json_is_array(pair) && json_is_string(json_array_get(pair, 1)))
		value = strtod(json_string_value(json_array_get(pair, 1)), NULL);
	if (isnan(value))
		snprintf(reason, size, "the query has no result");
	json_decref(root);
	return value;
}
