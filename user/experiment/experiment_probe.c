// SPDX-License-Identifier: GPL-2.0-only
/* `probes`: who asks whether the service keeps its promise, how often, and what a good answer is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/experiment/experiment_internal.h"

#define SECOND_NS 1000000000ULL

static int key_every(struct parser *p, const struct node *node, void *target)
{
	uint64_t *ns = target;
	int err = key_phase(p, node, target);

	if (!err && *ns < EXPERIMENT_MIN_EVERY_NS)
		err = fail(p, node->mark, "every '%s' is too often, at least 50 ms", show(p, node->text));
	return err;
}

/* "127.0.0.1:6333", "[::1]:6333", "qdrant:6333" */
static int key_tcp(struct parser *p, const struct node *node, void *target)
{
	static const char expected[] = "an address and a port such as 127.0.0.1:6333 or [::1]:6333";
	struct experiment_probe *probe = target;
	const char *text, *colon;
	uint64_t port;
	size_t len;
	int err;

	err = value_text(p, node, expected, &text);
	if (err)
		return err;
	colon = strrchr(text, ':');
	if (!colon || colon == text || parse_number(colon + 1, &port) || port < 1 || port > 65535)
		return fail(p, node->mark, "invalid tcp '%s', expected %s", show(p, text), expected);
	len = (size_t)(colon - text);
	if (text[0] == '[' && colon[-1] == ']') {
		text++;
		len -= 2;
	} else if (memchr(text, ':', len)) {
		return fail(p, node->mark, "invalid tcp '%s', an IPv6 address stands in brackets: [::1]:6333",
			    show(p, text));
	}
	probe->host = strndup(text, len);
	probe->port = strdup(colon + 1);
	return probe->host && probe->port ? 0 : out_of_memory(p);
}

#define COMMON_KEYS                                                                   \
	{ "name", key_word, offsetof(struct experiment_probe, name) },                \
		{ "every", key_every, offsetof(struct experiment_probe, every_ns) },  \
	{                                                                             \
		"timeout", key_timeout, offsetof(struct experiment_probe, timeout_ns) \
	}

static const struct key http_keys[] = {
	COMMON_KEYS,
	{ "http", key_url, offsetof(struct experiment_probe, request.url) },
	REQUEST_KEYS(struct experiment_probe, request),
	{ "expect", key_expect_answer, offsetof(struct experiment_probe, expect) },
	{ NULL, NULL, 0 },
};

static const struct key tcp_keys[] = {
	COMMON_KEYS,
	{ "tcp", key_tcp, 0 },
	{ NULL, NULL, 0 },
};

static const struct key exec_keys[] = {
	COMMON_KEYS,
	{ "exec", key_command, offsetof(struct experiment_probe, command) },
	{ "expect", key_expect_exit, offsetof(struct experiment_probe, expect) },
	{ NULL, NULL, 0 },
};

static const struct key prometheus_keys[] = {
	COMMON_KEYS,
	{ "prometheus", key_url, offsetof(struct experiment_probe, request.url) },
	{ "query", key_string, offsetof(struct experiment_probe, host) },
	{ "headers", key_headers, offsetof(struct experiment_probe, request) },
	{ "insecure", key_bool, offsetof(struct experiment_probe, request.insecure) },
	{ "expect", key_expect_value, offsetof(struct experiment_probe, expect) },
	{ NULL, NULL, 0 },
};

static const char *const kind_words[] = { "http", "tcp", "exec", "prometheus", NULL };
static const struct key *const kind_keys[] = { http_keys, tcp_keys, exec_keys, prometheus_keys };

/* Which of the words that make a probe is there. */
static int probe_kind(struct parser *p, const struct node *node, enum probe_kind *kind)
{
	const struct node *found = NULL;

	for (unsigned int i = 0; kind_words[i]; i++) {
		const struct node *child = node_get(node, kind_words[i]);

		if (child && found)
			return fail(p, child->key_mark, "'%s' and '%s' exclude each other, a probe asks one thing",
				    found->key, child->key);
		if (child) {
			found = child;
			*kind = i;
		}
	}
	if (found)
		return 0;
	for (size_t i = 0; i < node->count; i++) {
		const char *near = nearest_word(node->children[i].key, kind_words);

		if (near)
			return fail(p, node->children[i].key_mark, "unknown key '%s', did you mean '%s'?",
				    show(p, node->children[i].key), near);
	}
	return fail(p, node->mark, "this probe asks nothing; give it http, tcp, exec or prometheus");
}

/* Everything that is no letter or digit as %XX. */
static char *escaped(const char *text)
{
	char *out = malloc(3 * strlen(text) + 1), *at = out;

	for (; out && *text; text++) {
		unsigned char c = (unsigned char)*text;

		if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
			*at++ = (char)c;
		else
			at += sprintf(at, "%%%02X", c);
	}
	if (out)
		*at = '\0';
	return out;
}

/* http://host:9090 and a query to the address of an instant query. `host` held the query. */
static int prometheus_url(struct parser *p, const struct node *node, struct experiment_probe *probe)
{
	size_t len = strlen(probe->request.url);
	char *query, *url;
	int got;

	if (!probe->host)
		return fail(p, node->mark, "probe '%s' has no query", probe->name);
	query = escaped(probe->host);
	if (!query)
		return out_of_memory(p);
	while (len && probe->request.url[len - 1] == '/')
		probe->request.url[--len] = '\0';
	got = asprintf(&url, "%s%s?query=%s", probe->request.url,
		       strstr(probe->request.url, "/api/") ? "" : "/api/v1/query", query);
	free(query);
	if (got < 0)
		return out_of_memory(p);
	free(probe->request.url);
	probe->request.url = url;
	free(probe->host);
	probe->host = NULL;
	return 0;
}

/* As many attempts as may be under way when all of them take as long as they may. */
static int check_in_flight(struct parser *p, const struct node *node, struct experiment_probe *probe)
{
	const struct node *timeout = node_get(node, "timeout");
	uint64_t most = probe->timeout_ns / probe->every_ns + 1;

	if (most > EXPERIMENT_MAX_IN_FLIGHT)
		return fail(
			p, timeout ? timeout->mark : node->mark,
			"probe '%s' could have %llu attempts under way, at most %d are allowed: a longer 'every' or "
			"a shorter 'timeout'",
			probe->name, (unsigned long long)most, EXPERIMENT_MAX_IN_FLIGHT);
	probe->in_flight = (unsigned int)most;
	return 0;
}

int probe_name_free(struct parser *p, const struct node *at, const char *name)
{
	const struct experiment *e = reading_of(p)->experiment;

	for (size_t i = 0; i < e->probes_count; i++) {
		if (strcmp(e->probes[i].name, name) == 0)
			return fail(p, at->mark, "name '%s' is taken by the probe on line %u", name,
				    e->probes[i].mark.line);
	}
	return 0;
}

static int probe_parse(struct parser *p, const struct node *node)
{
	struct experiment *e = reading_of(p)->experiment;
	struct experiment_probe *probe = &e->probes[e->probes_count];
	int err;

	err = value_kind(p, node, NODE_MAP, "a probe such as { name: ask, http: \"http://127.0.0.1:8080/health\" }");
	if (!err)
		err = probe_kind(p, node, &probe->kind);
	if (err)
		return err;
	probe->mark = node->mark;
	probe->every_ns = SECOND_NS;
	probe->timeout_ns = 5 * SECOND_NS;
	err = map_parse(p, node, "a probe", kind_keys[probe->kind], probe);
	if (!err && !probe->name[0])
		err = fail(p, node->mark, "this probe has no name");
	if (!err)
		err = probe_name_free(p, node_get(node, "name"), probe->name);
	if (!err && probe->kind == PROBE_PROMETHEUS)
		err = prometheus_url(p, node, probe);
	if (!err && (probe->kind == PROBE_HTTP || probe->kind == PROBE_PROMETHEUS))
		err = request_complete(p, node, &probe->request);
	if (!err)
		err = check_in_flight(p, node, probe);
	e->probes_count++; /* also when it failed: what it holds is to be freed */
	return err;
}

/* Loads with a name, and what is measured in the kernel, are added to those of the file. */
int probes_make(struct parser *p)
{
	struct experiment *e = reading_of(p)->experiment;

	e->probes = calloc(EXPERIMENT_MAX_PROBES + EXPERIMENT_MAX_STEPS + EXPERIMENT_MAX_WATCHES, sizeof(*e->probes));
	return e->probes ? 0 : out_of_memory(p);
}

int probes_parse(struct parser *p, const struct node *list)
{
	int err;

	err = value_kind(p, list, NODE_LIST, "a list of probes, each beginning with '- name:'");
	if (err)
		return err;
	if (list->count == 0)
		return fail(p, list->mark, "'probes' is an empty list");
	if (list->count > EXPERIMENT_MAX_PROBES)
		return fail(p, list->mark, "more than %d probes", EXPERIMENT_MAX_PROBES);
	for (size_t i = 0; i < list->count && !err; i++)
		err = probe_parse(p, &list->children[i]);
	return err;
}

void experiment_probe_free(struct experiment_probe *probe)
{
	request_free(&probe->request);
	expect_free(&probe->expect);
	free(probe->host);
	free(probe->port);
	command_free(probe->command);
}
