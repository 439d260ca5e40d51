// SPDX-License-Identifier: GPL-2.0-only
/*
 * Faults inside a process: `gpu-oom`, `call` and `errno`. They are decided for each call, and have callers in the place
 * of connections: a rule of this family names processes and nothing of a network.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/names.h"
#include "user/rules/operation.h"
#include "user/rules/rules_parse.h"

#define MAX_FAILURES 1000
#define NAME_MAX_LEN (CHAOS_PART_LEN - 2) /* of a file, for the kernel to see its end */

/*
 * PyTorch asks up to three times before its user hears of it: what is left of one failure is a number in its
 * statistics.
 */
#define DEFAULT_FAILURES 3

static int key_min_size(struct parser *p, const struct node *node, void *target)
{
	return value_size(p, node, "a size such as 64MiB or 20GiB", INT64_MAX, "out of range", target);
}

static int key_above(struct parser *p, const struct node *node, void *target)
{
	uint64_t *bytes = target;
	int err = key_min_size(p, node, bytes);

	if (!err && *bytes == 0)
		err = fail(p, node->mark, "above '%s' leaves no memory at all, leave 'above' out", show(p, node->text));
	return err;
}

static int key_failures(struct parser *p, const struct node *node, void *target)
{
	struct fault *fault = target;
	uint64_t count = 0;
	int err = value_number(p, node, 1, MAX_FAILURES, &count);

	fault->oom_failures = (uint32_t)count;
	return err;
}

int key_gpu_oom(struct parser *p, const struct node *node, void *target)
{
	static const struct key keys[] = {
		{ "min-size", key_min_size, offsetof(struct fault, oom_min_bytes) },
		{ "above", key_above, offsetof(struct fault, oom_above_bytes) },
		{ "failures", key_failures, 0 },
		{ NULL, NULL, 0 },
	};
	static const char expected[] = "true, or a map such as { min-size: 64MiB }";
	struct fault *fault = target;

	fault->faults |= 1U << CHAOS_GPU_OOM;
	fault->oom_failures = DEFAULT_FAILURES;
	if (node->kind == NODE_TEXT && strcmp(node->text, "true") != 0)
		return fail(p, node->mark, "invalid gpu-oom '%s', expected %s", show(p, node->text), expected);
	return node->kind == NODE_TEXT ? 0 : map_parse(p, node, expected, keys, fault);
}

/* ---- call ------------------------------------------------------------------------------------------------------- */

/* A whole number as C has it, or `null`. */
static int key_returns(struct parser *p, const struct node *node, void *target)
{
	static const char expected[] = "a whole number such as 28, -1 or 0x10, or null";
	int64_t *value = target;
	const char *text;
	char *end;
	int err;

	if (node->kind == NODE_TEXT && strcmp(node->text, "null") == 0) { /* elsewhere it stands for no value at all */
		*value = 0;
		return 0;
	}
	err = value_text(p, node, expected, &text);
	if (err)
		return err;
	if (!*text || !strchr("-0123456789", *text))
		return fail(p, node->mark, "invalid returns '%s', expected %s", show(p, text), expected);
	errno = 0;
	*value = strtoll(text, &end, 0);
	if (errno == ERANGE) {
		errno = 0;
		*value = (int64_t)strtoull(text, &end, 0);
	}
	if (*end || end == text)
		return fail(p, node->mark, "invalid returns '%s', expected %s", show(p, text), expected);
	if (errno == ERANGE)
		return fail(p, node->mark, "returns '%s' does not fit into 64 bits", show(p, text));
	return 0;
}

/* The name of an errno. */
static int key_error(struct parser *p, const struct node *node, void *target)
{
	struct fault *fault = target;
	const char *text, *near;
	int err;

	err = value_text(p, node, "the name of an error such as EIO", &text);
	if (err)
		return err;
	fault->error = errno_of_name(text);
	if (fault->error)
		return 0;
	near = nearest_word(text, errno_names());
	if (near)
		return fail(p, node->mark, "unknown %s '%s', did you mean '%s'?", node->label, show(p, text), near);
	return fail(p, node->mark, "unknown %s '%s', expected the name of an errno such as EIO or ENOSPC", node->label,
		    show(p, text));
}

static int key_call_delay(struct parser *p, const struct node *node, void *target)
{
	uint64_t *ns = target;
	int err = value_duration(p, node, CHAOS_MAX_DELAY_NS, ns);

	if (!err && *ns == 0)
		err = fail(p, node->mark, "delay '%s' does nothing, it must be more than 0", show(p, node->text));
	return err;
}

#define CALL_EXAMPLE "{ library: libcurl.so.4, function: curl_easy_perform, returns: 28 }"

int key_call(struct parser *p, const struct node *node, void *target)
{
	static const struct key keys[] = {
		{ "library", key_text, offsetof(struct fault, call_library) },
		{ "function", key_text, offsetof(struct fault, call_function) },
		{ "returns", key_returns, offsetof(struct fault, call_returns) },
		{ "errno", key_error, 0 },
		{ "delay", key_call_delay, offsetof(struct fault, call_delay_ns) },
		{ NULL, NULL, 0 },
	};
	static const char *const needed[] = { "library", "function" };
	struct fault *fault = target;
	int err;

	fault->faults |= 1U << CHAOS_CALL;
	err = map_parse(p, node, "a map such as " CALL_EXAMPLE, keys, fault);
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]) && !err; i++) {
		if (!node_get(node, needed[i]))
			err = fail(p, node->mark, "'call' needs '%s', as in " CALL_EXAMPLE, needed[i]);
	}
	if (err)
		return err;
	fault->call_runs = !node_get(node, "returns");
	if (fault->call_runs && fault->error)
		return fail(p, node_get(node, "errno")->key_mark,
			    "'errno' needs 'returns' beside it: what the function returns when it fails, such as -1 or "
			    "null");
	if (fault->call_runs && !fault->call_delay_ns)
		return fail(p, node->mark, "'call' needs 'returns' or 'delay', as in " CALL_EXAMPLE);
	return 0;
}

/* ---- errno ------------------------------------------------------------------------------------------------------ */

static int key_operation(struct parser *p, const struct node *node, void *target)
{
	struct fault *fault = target;
	unsigned int index;
	int err = value_choice(p, node, operation_names, &index);

	if (!err)
		fault->operation = index;
	return err;
}

/* Every part is a name, and the last may be a glob that the kernel can follow: `name*`, or `**` for all below. */
static int check_path(struct parser *p, const struct node *node, const char *path)
{
	const char *star = strchr(path, '*');
	size_t parts = 0;

	if (path[0] != '/')
		return fail(p, node->mark, "path '%s' must begin with '/'", show(p, path));
	if (star && strcmp(star, "*") != 0 && (strcmp(star, "**") != 0 || star[-1] != '/'))
		return fail(p, node->mark,
			    "path '%s' has a '*' in the middle; a path may end with '*' (names that begin so) or '/**' "
			    "(all below)",
			    show(p, path));
	for (const char *name = path; *name; parts++) {
		size_t len = strcspn(++name, "/");

		if (!len && !name[len])
			return fail(p, node->mark, "path '%s' ends with '/', write '%s**' for all that is below",
				    show(p, path), show(p, path));
		if (!len || (len <= 2 && strncmp(name, "..", len) == 0))
			return fail(p, node->mark, "path '%s' must be written without '//', '.' and '..'",
				    show(p, path));
		if (len > NAME_MAX_LEN)
			return fail(p, node->mark, "path '%s' has a name of more than %d bytes", show(p, path),
				    NAME_MAX_LEN);
		name += len;
	}
	if (parts > CHAOS_MAX_PARTS)
		return fail(p, node->mark, "path '%s' has more than %d parts", show(p, path), CHAOS_MAX_PARTS);
	return 0;
}

int key_errno(struct parser *p, const struct node *node, void *target)
{
	static const struct key keys[] = {
		{ "operation", key_operation, 0 },
		{ "path", key_text, offsetof(struct fault, path) },
		{ "error", key_error, 0 },
		{ NULL, NULL, 0 },
	};
	struct fault *fault = target;
	int err;

	fault->faults |= 1U << CHAOS_ERRNO;
	err = map_parse(p, node, "a map such as { operation: open, path: \"/models/**\", error: EIO }", keys, fault);
	if (err)
		return err;
	if (!node_get(node, "operation") || !node_get(node, "error"))
		return fail(p, node->mark,
			    "'errno' needs 'operation' and 'error', as in { operation: write, error: ENOSPC }");
	if (!fault->path.text)
		return 0;
	if (!operation_has_path(fault->operation))
		return fail(p, node_get(node, "path")->key_mark, "'path' makes no sense with '%s', which has no file",
			    operation_names[fault->operation]);
	return check_path(p, node_get(node, "path"), fault->path.text);
}

/* ---- checks ----------------------------------------------------------------------------------------------------- */

/* Keys of `match` that are about connections. */
static const char *const network_keys[] = { "endpoint",  "hosts",       "ports",    "protocol", "side",
					    "direction", "include-ssh", "resolver", "http",     NULL };

/* `per` of such a rule is `call`, whatever the defaults of the file say. */
static int check_per_call(struct parser *p, const struct node *node, struct rule *rule, const char *fault)
{
	const struct node *per = node_get(node, "per");

	if (per && rule->per != CHAOS_PER_CALL)
		return fail(p, per->mark, "'per: %s' makes no sense with '%s', decided for each call",
			    per_names[rule->per], fault);
	rule->per = CHAOS_PER_CALL;
	return 0;
}

int call_check(struct parser *p, const struct node *node, struct rule *rule)
{
	const unsigned int calls = rule->fault.faults & CHAOS_CALLS;
	const struct node *match = node_get(node, "match"), *rate = node_get(node, "max-rate");
	const char *fault;

	if (!calls) {
		if (rule->per == CHAOS_PER_CALL)
			return fail(
				p, node_get(node, "per") ? node_get(node, "per")->mark : node->mark,
				"'per: call' is for 'gpu-oom', 'call' and 'errno'; use connection, packet or request");
		return 0;
	}
	fault = fault_names[__builtin_ctz(calls)];
	if (rule->fault.faults & (calls - 1) || rule->fault.faults & ~CHAOS_CALLS)
		return fail(p, node_get(node_get(node, "fault"), fault)->key_mark,
			    "'%s' goes with no other fault: give each a rule of its own", fault);
	for (size_t i = 0; network_keys[i]; i++) {
		const struct node *found = node_get(match, network_keys[i]);

		if (found)
			return fail(p, found->key_mark,
				    "'%s' is about connections, and '%s' has callers: name processes "
				    "by cgroup, container, pod, unit, pid, process or user",
				    network_keys[i], fault);
	}
	if (rule->rate_count > CHAOS_MAX_CALL_RATE)
		return fail(p, rate->mark, "max-rate '%s' is out of range with '%s', expected at most %d",
			    show(p, rate->text), fault, CHAOS_MAX_CALL_RATE);
	if (rule->match.everything && calls == 1U << CHAOS_ERRNO)
		return fail(p, node_get(match, "everything")->mark,
			    "'errno' with 'everything: true' would take the machine down with it: name processes");
	return check_per_call(p, node, rule, fault);
}
