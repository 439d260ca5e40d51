// SPDX-License-Identifier: GPL-2.0-only
/*
 * `match`: whom and what a rule hits. The guard against hitting everything by accident is here: a match must name
 * something, or say `everything: true`.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/names.h"
#include "user/rules/rules_parse.h"

#define MAX_PID    4194304 /* PID_MAX_LIMIT */
#define COMM_CHARS (CHAOS_COMM_LEN - 1)

static int key_endpoint(struct parser *p, const struct node *node, void *target)
{
	struct endpoint *endpoint = target;
	const struct endpoint *named;
	int err;

	err = endpoint_find(p, node, &named);
	if (err)
		return err;
	strcpy(endpoint->name, named->name);
	strcpy(endpoint->preset, named->preset);
	endpoint->mark = node->mark;
	return 0;
}

/* What a preset speaks, unless the rule says it; what it says must leave something. */
static int narrow_protocols(struct parser *p, const struct node *node, struct match *match,
			    const struct endpoint *named)
{
	const struct node *protocol = node_get(node, "protocol");

	if (!named->protocols)
		return 0;
	if (!(match->protocols & named->protocols))
		return fail(p, protocol->mark, "preset '%s' is reached by %s only", named->preset,
			    protocol_names[match->protocols == 1U << CHAOS_TCP ? CHAOS_UDP : CHAOS_TCP]);
	match->protocols &= named->protocols;
	return 0;
}

static int add_protocol(struct parser *p, const struct node *node, void *target)
{
	unsigned int *protocols = target, index;
	int err = value_choice(p, node, protocol_names, &index);

	if (!err)
		*protocols |= 1U << index;
	return err;
}

int key_protocol(struct parser *p, const struct node *node, void *target)
{
	unsigned int *protocols = target;

	*protocols = 0;
	return value_each(p, node, add_protocol, protocols);
}

/* Each part of a path must be a directory's name and lead downwards. */
static bool path_leads_down(const char *path)
{
	size_t len;

	for (; *path; path += len + (path[len] == '/')) {
		len = strcspn(path, "/");
		if (len == 0 || (len == 1 && path[0] == '.') || (len == 2 && path[0] == '.' && path[1] == '.'))
			return false;
	}
	return true;
}

static int key_cgroup(struct parser *p, const struct node *node, void *target)
{
	struct text *cgroup = target;
	const char *text;
	size_t len;
	int err;

	err = value_text(p, node, "a cgroup's path such as system.slice/rag.service", &text);
	if (err)
		return err;
	while (*text == '/')
		text++;
	len = strlen(text);
	while (len > 0 && text[len - 1] == '/')
		len--;
	if (len == 0)
		return fail(p, node->mark, "cgroup '%s' holds every process; leave 'cgroup' out", show(p, node->text));
	if (strncmp(text, "sys/fs/cgroup", strlen("sys/fs/cgroup")) == 0)
		return fail(p, node->mark, "cgroup '%s': leave out /sys/fs/cgroup, the path begins below it",
			    show(p, node->text));
	cgroup->mark = node->mark;
	cgroup->text = strndup(text, len);
	if (!cgroup->text)
		return out_of_memory(p);
	if (!path_leads_down(cgroup->text))
		return fail(p, node->mark, "invalid cgroup '%s', '.', '..' and '//' are not allowed",
			    show(p, node->text));
	return 0;
}

/* A name that may hold `chars` beside letters and digits, which begin it. */
static int key_name_of(struct parser *p, const struct node *node, const char *expected, const char *chars,
		       struct text *target)
{
	const char *text;
	int err;

	err = value_text(p, node, expected, &text);
	for (size_t i = 0; !err && text[i]; i++) {
		if (!isalnum((unsigned char)text[i]) && (i == 0 || !strchr(chars, text[i])))
			err = fail(p, node->mark, "invalid %s '%s', expected %s", node->label, show(p, text), expected);
	}
	return err ? err : key_text(p, node, target);
}

static int key_container(struct parser *p, const struct node *node, void *target)
{
	return key_name_of(p, node, "a container's name or id, such as rag-api", "_.-", target);
}

static int key_unit(struct parser *p, const struct node *node, void *target)
{
	return key_name_of(p, node, "a unit's name, such as rag.service", "_.-@:\\", target);
}

static int key_pod(struct parser *p, const struct node *node, void *target)
{
	static const char expected[] = "namespace/name, or a pod's UID";
	struct text *pod = target;
	const char *slash;
	int err;

	err = key_name_of(p, node, expected, "_.-/", pod);
	if (err)
		return err;
	slash = strchr(pod->text, '/');
	if (slash ? !slash[1] || strchr(slash + 1, '/') : strspn(pod->text, "0123456789abcdef-") < 32)
		return fail(p, node->mark, "invalid pod '%s', expected %s", show(p, pod->text), expected);
	return 0;
}

static int key_pid(struct parser *p, const struct node *node, void *target)
{
	struct match *match = target;
	uint64_t pid;
	int err;

	err = value_number(p, node, 1, MAX_PID, &pid);
	if (err)
		return err;
	if (pid == 1)
		return fail(p, node->mark, "pid '1' is every process's ancestor; leave 'pid' out");
	match->pid = (uint32_t)pid;
	match->pid_mark = node->mark;
	return 0;
}

static int process_too_long(struct parser *p, const struct node *node)
{
	char kept[COMM_CHARS + 1];
	size_t len = COMM_CHARS;

	while ((node->text[len] & 0xc0) == 0x80)
		len--; /* not in the middle of a character */
	memcpy(kept, node->text, len);
	kept[len] = '\0';
	return fail(p, node->mark, "process '%s' is too long, the kernel keeps %d characters of a name: write '%s%s'",
		    show(p, node->text), COMM_CHARS, kept, len < COMM_CHARS ? "*" : "");
}

/* A pattern's own characters; each `*` stands for any number of them, none too. */
static size_t count_literal(const char *pattern)
{
	size_t count = 0;

	for (; *pattern; pattern++)
		count += *pattern != '*';
	return count;
}

static int key_process(struct parser *p, const struct node *node, void *target)
{
	struct text *process = target;
	const char *text;
	size_t literal;
	int err;

	err = value_text(p, node, "a process's name such as gunicorn or \"gunicorn*\"", &text);
	if (err)
		return err;
	literal = count_literal(text);
	if (literal == 0)
		return fail(p, node->mark, "process '%s' holds every process; leave 'process' out", show(p, text));
	if (strchr(text, '/'))
		return fail(p, node->mark, "invalid process '%s', write the name without its path", show(p, text));
	if (literal > COMM_CHARS && strchr(text, '*'))
		return fail(p, node->mark, "process '%s' is too long, the kernel keeps %d characters of a name",
			    show(p, text), COMM_CHARS);
	if (literal > COMM_CHARS)
		return process_too_long(p, node);
	return key_text(p, node, process);
}

static int key_user(struct parser *p, const struct node *node, void *target)
{
	const uint64_t max_uid = UINT32_MAX - 1; /* the last one means "none" */
	const char *text;
	uint64_t uid;
	int err;

	err = value_text(p, node, "a user's name or number", &text);
	if (err)
		return err;
	if (text[strspn(text, "0123456789")] == '\0') {
		err = value_number(p, node, 0, max_uid, &uid);
		if (err)
			return err;
	}
	if (strpbrk(text, ":/ "))
		return fail(p, node->mark, "invalid user '%s', expected a user's name or number", show(p, text));
	return key_text(p, node, target);
}

static int key_side(struct parser *p, const struct node *node, void *target)
{
	enum chaos_side *side = target;
	unsigned int index;
	int err;

	err = value_choice(p, node, side_names + CHAOS_SIDE_CLIENT, &index);
	if (!err)
		*side = CHAOS_SIDE_CLIENT + index;
	return err;
}

static int key_direction(struct parser *p, const struct node *node, void *target)
{
	static const char *const names[] = { "request", "response", "both", NULL };
	unsigned int *directions = target, index;
	int err;

	err = value_choice(p, node, names, &index);
	if (!err)
		*directions = index + 1; /* CHAOS_REQUEST, CHAOS_RESPONSE, CHAOS_BOTH */
	return err;
}

const struct key match_keys[] = {
	{ "endpoint", key_endpoint, offsetof(struct match, endpoint) },
	{ "hosts", key_hosts, offsetof(struct match, endpoint) },
	{ "ports", key_ports, offsetof(struct match, endpoint) },
	{ "protocol", key_protocol, offsetof(struct match, protocols) },
	{ "cgroup", key_cgroup, offsetof(struct match, cgroup) },
	{ "pid", key_pid, 0 },
	{ "process", key_process, offsetof(struct match, process) },
	{ "user", key_user, offsetof(struct match, user) },
	{ "side", key_side, offsetof(struct match, side) },
	{ "direction", key_direction, offsetof(struct match, directions) },
	{ "http", key_http, offsetof(struct match, http) },
	{ "everything", key_bool, offsetof(struct match, everything) },
	{ "include-ssh", key_bool, offsetof(struct match, include_ssh) },
	{ "resolver", key_bool, offsetof(struct match, resolver) },
	{ "container", key_container, offsetof(struct match, container) },
	{ "pod", key_pod, offsetof(struct match, pod) },
	{ "unit", key_unit, offsetof(struct match, unit) },
	{ NULL, NULL, 0 },
};

/* The keys that name something; protocol, side and direction alone still leave everything. */
static const char *const narrowing_keys[] = { "endpoint", "hosts",     "ports", "cgroup", "pid", "process",
					      "user",     "container", "pod",   "unit",   NULL };

/* 0.0.0.0/0 and ports 1-65535 narrow nothing. */
static bool narrows(const struct match *match)
{
	const struct endpoint *endpoint = &match->endpoint;
	bool hosts = endpoint->hosts_count + endpoint->names_count > 0, ports = endpoint->ports_count > 0;

	for (size_t i = 0; i < endpoint->hosts_count; i++)
		hosts = hosts &&
			(endpoint->hosts[i].prefix_len != 96 || !IN6_IS_ADDR_V4MAPPED(&endpoint->hosts[i].address));
	for (size_t i = 0; i < endpoint->ports_count; i++)
		ports = ports && (endpoint->ports[i].first > 1 || endpoint->ports[i].last < UINT16_MAX);
	/* A preset was looked at when it was first loaded. */
	return hosts || ports || (endpoint->preset[0] && !endpoint->hosts_count && !endpoint->ports_count) ||
	       match->cgroup.text || match->container.text || match->pod.text || match->unit.text || match->pid ||
	       match->process.text || match->user.text;
}

static int check_everything(struct parser *p, const struct node *node, const struct match *match)
{
	if (!match->everything && !narrows(match))
		return fail(p, node->mark,
			    "this names no address, port, cgroup, pid, process or user and would hit everything; name "
			    "something, or say 'everything: true'");
	for (size_t i = 0; match->everything && narrowing_keys[i]; i++) {
		if (node_get(node, narrowing_keys[i]))
			return fail(p, node_get(node, "everything")->mark,
				    "'everything: true' contradicts '%s', leave one of them out", narrowing_keys[i]);
	}
	return 0;
}

/* Each is a set of cgroups; only a container of a pod is a part of another. */
static int check_cgroups(struct parser *p, const struct node *node)
{
	static const char *const keys[] = { "cgroup", "unit", "container", "pod" };
	const struct node *first = NULL;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const struct node *found = node_get(node, keys[i]);

		if (first && found && strcmp(first->key, "container") != 0)
			return fail(p, found->key_mark, "'%s' and '%s' both say which cgroup, leave one of them out",
				    first->key, found->key);
		first = first ? first : found;
	}
	return 0;
}

int key_match(struct parser *p, const struct node *node, void *target)
{
	const struct node *endpoint_node;
	struct match *match = target;
	const struct endpoint *named;
	int err;

	match->mark = node->mark;
	err = map_parse(p, node, "a map with the keys of a match", match_keys, match);
	if (!err)
		err = check_cgroups(p, node);
	if (err)
		return err;
	endpoint_node = node_get(node, "endpoint");
	if (endpoint_node) {
		err = endpoint_find(p, endpoint_node, &named);
		if (!err)
			err = endpoint_narrow(p, node, &match->endpoint, named);
		if (!err)
			err = narrow_protocols(p, node, match, named);
		if (err)
			return err;
	}
	return check_everything(p, node, match);
}

void match_free(struct match *match)
{
	endpoint_free(&match->endpoint);
	free(match->cgroup.text);
	free(match->container.text);
	free(match->pod.text);
	free(match->unit.text);
	free(match->process.text);
	free(match->user.text);
	http_free(&match->http);
}
