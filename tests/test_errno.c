// SPDX-License-Identifier: GPL-2.0-only
/*
 * `errno` without a kernel: what is written and what is wrong (user/rules/rules_call.c), how it reads (user/rules/explain_call.c), which
 * rules a path leads to (user/tables/tables_path.c, against a matcher that reads the rules one by one), links (user/rules/path.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/random_rules.h"
#include "tests/rule_words.h"
#include "user/base/names.h"
#include "user/rules/operation.h"
#include "user/rules/path.h"

#define ERRNO(text) DOC("{ pid: 7 }", "{ errno: { " text " } }", "")
#define PATH(text)  ERRNO("operation: open, error: EIO, path: " text)

Test(operations, what_is_written)
{
	struct rules *rules = parse(ERRNO("operation: write, path: \"/var/lib/index/**\", error: ENOSPC"));
	const struct fault *f = &rules->rules[0].fault;

	cr_expect_eq(f->faults, 1U << CHAOS_ERRNO);
	cr_expect_eq(f->operation, CHAOS_WRITE);
	cr_expect_eq(f->error, ENOSPC);
	cr_expect_str_eq(f->path.text, "/var/lib/index/**");
	cr_expect_eq(rules->rules[0].per, CHAOS_PER_CALL);
	rules_free(rules);
	for (int i = 0; i < CHAOS_OPERATION_COUNT; i++) {
		char source[256];

		snprintf(source, sizeof(source), ERRNO("operation: %s, error: EIO"), operation_names[i]);
		rules = parse(source);
		cr_expect_eq(rules->rules[0].fault.operation, (enum chaos_operation)i);
		cr_expect_null(rules->rules[0].fault.path.text);
		rules_free(rules);
	}
}

Test(operations, what_is_wrong)
{
	static const struct wrong cases[] = {
		{ DOC("{ pid: 7 }", "{ errno: 1 }", ""),
		  "t:5:19: 'errno' is a single value, expected a map such as { operation: open, path: \"/models/**\", error: "
		  "EIO }" },
		{ ERRNO("operation: open"),
		  "t:5:19: 'errno' needs 'operation' and 'error', as in { operation: write, error: ENOSPC }" },
		{ ERRNO("error: EIO"),
		  "t:5:19: 'errno' needs 'operation' and 'error', as in { operation: write, error: ENOSPC }" },
		{ ERRNO("operation: opne, error: EIO"), "t:5:32: unknown operation 'opne', did you mean 'open'?" },
		{ ERRNO("operation: delete, error: EIO"),
		  "t:5:32: unknown operation 'delete', expected open, create, read, write, mmap, memory, connect, send, "
		  "receive, socket, ioctl, fork, thread or exec" },
		{ ERRNO("operation: open, error: EOUTOFDISK"),
		  "t:5:45: unknown error 'EOUTOFDISK', expected the name of an errno such as EIO or ENOSPC" },
		{ ERRNO("operation: open, error: enospc"), "t:5:45: unknown error 'enospc', did you mean 'ENOSPC'?" },
		{ ERRNO("operation: open, error: 5"),
		  "t:5:45: unknown error '5', expected the name of an errno such as EIO or ENOSPC" },
		{ ERRNO("operation: open, eror: EIO"), "t:5:38: unknown key 'eror', did you mean 'error'?" },
		{ ERRNO("operation: connect, error: EIO, path: /a"),
		  "t:5:53: 'path' makes no sense with 'connect', which has no file" },
		{ PATH("models"), "t:5:56: path 'models' must begin with '/'" },
		{ PATH("/a//b"), "t:5:56: path '/a//b' must be written without '//', '.' and '..'" },
		{ PATH("/a/./b"), "t:5:56: path '/a/./b' must be written without '//', '.' and '..'" },
		{ PATH("/a/../b"), "t:5:56: path '/a/../b' must be written without '//', '.' and '..'" },
		{ PATH("/a/.."), "t:5:56: path '/a/..' must be written without '//', '.' and '..'" },
		{ PATH("/a/"), "t:5:56: path '/a/' ends with '/', write '/a/**' for all that is below" },
		{ PATH("/"), "t:5:56: path '/' ends with '/', write '/**' for all that is below" },
		{ PATH("/a*b"), "t:5:56: path '/a*b' has a '*' in the middle; a path may end with '*' (names that begin so) "
				"or '/**' (all below)" },
		{ PATH("/a**"), "t:5:56: path '/a**' has a '*' in the middle; a path may end with '*' (names that begin so) "
				"or '/**' (all below)" },
		{ PATH("/*/b"), "t:5:56: path '/*/b' has a '*' in the middle; a path may end with '*' (names that begin so) "
				"or '/**' (all below)" },
		{ PATH("/1/2/3/4/5/6/7/8/9/0/1/2/3/4/5/6/7/8/9/0/1/2/3/4/5/6/7/8/9/0/1/2/3"),
		  "t:5:56: path '/1/2/3/4/5/6/7/8/9/0/1/2/3/4/5/6/7/8/9/0/1/2/3/4/5/6/7/8/9/0/1/2/3' has more than 32 parts" },
		{ DOC("{ everything: true }", "{ errno: { operation: open, error: EIO } }", ""),
		  "t:4:24: 'errno' with 'everything: true' would take the machine down with it: name processes" },
		{ DOC("{ pid: 7, ports: 80 }", "{ errno: { operation: open, error: EIO } }", ""),
		  "t:4:20: 'ports' is about connections, and 'errno' has callers: name processes by cgroup, container, pod, "
		  "unit, pid, process or user" },
		{ DOC("{ pid: 7 }", "{ errno: { operation: open, error: EIO }, delay: 1s }", ""),
		  "t:5:12: 'errno' goes with no other fault: give each a rule of its own" },
		{ DOC("{ pid: 7 }", "{ errno: { operation: open, error: EIO } }", "  per: packet\n"),
		  "t:7:8: 'per: packet' makes no sense with 'errno', decided for each call" },
		{ DOC("{ pid: 7 }", "{ errno: { operation: open, error: EIO } }", "  max-rate: 1001/s\n"),
		  "t:7:13: max-rate '1001/s' is out of range with 'errno', expected at most 1000" },
	};

	EXPECT_WRONG(cases);
}

Test(operations, in_plain_words)
{
	static const char *const cases[][2] = {
		{ PATH("\"/models/**\""), "a: opening files at /models/** fails with EIO for process 7 and its children; ends "
					  "after 1 min." },
		{ DOC("{ process: \"py*\" }", "{ errno: { operation: memory, error: ENOMEM } }", "  percent: 5\n"),
		  "a: asking for memory fails with ENOMEM for processes named py*; on 5 % of the calls; ends after 1 min." },
		{ DOC("{ user: www-data }", "{ errno: { operation: thread, error: EAGAIN } }", "  max-hits: 3\n"),
		  "a: starting threads fails with EAGAIN for processes of user www-data; at most 3 times; ends after 1 min." },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct rules *rules = parse(cases[i][0]);
		char buf[1024];

		cr_expect_eq(explain_rule(rules, 0, buf, sizeof(buf)), 0);
		cr_expect_str_eq(buf, cases[i][1], "\n  got:      %s\n  expected: %s", buf, cases[i][1]);
		rules_free(rules);
	}
}

/* The kernel sees the whole number only in so many bits. */
Test(operations, every_operation_has_a_hook)
{
	unsigned int all = 0;

	for (const struct operation_hook *hook = operation_hooks; hook->program; hook++) {
		cr_expect_lt(strlen(hook->program), 16, "%s", hook->program);
		all |= hook->operations;
	}
	cr_expect_eq(all, (1U << CHAOS_OPERATION_COUNT) - 1);
}

/* ---- paths ------------------------------------------------------------------------------------------------------ */

/* NULL stands for a rule without a path. */
static struct made make_paths(const char *const *paths, size_t count)
{
	struct made made;
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	fputs("version: 1\nrules:\n", out);
	for (size_t i = 0; i < count; i++) {
		fprintf(out, "- name: r%zu\n  match: { pid: 7 }\n  fault: { errno: { operation: open, error: EIO", i);
		if (paths[i])
			fprintf(out, ", path: \"%s\"", paths[i]);
		fputs(" } }\n  duration: 1m\n", out);
	}
	fclose(out);
	made = make(text);
	free(text);
	return made;
}

static uint64_t rules_of(const struct made *made, const char *path)
{
	struct chaos_vector rules;

	tables_path_rules(made->tables, path, &rules);
	return rules.word[0];
}

Test(operations, which_paths_fit)
{
	static const char *const paths[] = {
		"/models/llama/weights.bin", "/models/llama/w*", "/models/**", "/models/llama", "/models/*", NULL, "/**",
		"/models/llama/weights*",
	};
	static const struct {
		const char *path;
		uint64_t rules;
	} cases[] = {
		{ "/models/llama/weights.bin", 1 << 0 | 1 << 1 | 1 << 2 | 1 << 5 | 1 << 6 | 1 << 7 },
		{ "/models/llama/weights", 1 << 1 | 1 << 2 | 1 << 5 | 1 << 6 | 1 << 7 },
		{ "/models/llama/weights.bin2", 1 << 1 | 1 << 2 | 1 << 5 | 1 << 6 | 1 << 7 },
		{ "/models/llama/w", 1 << 1 | 1 << 2 | 1 << 5 | 1 << 6 },
		{ "/models/llama/v", 1 << 2 | 1 << 5 | 1 << 6 },
		{ "/models/llama/weights.bin/x", 1 << 2 | 1 << 5 | 1 << 6 },
		{ "/models/llama", 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 },
		{ "/models/mistral", 1 << 2 | 1 << 4 | 1 << 5 | 1 << 6 },
		{ "/models/mistral/a/b/c", 1 << 2 | 1 << 5 | 1 << 6 },
		{ "/models", 1 << 5 | 1 << 6 },
		{ "/modelsx/a", 1 << 5 | 1 << 6 },
		{ "/", 1 << 5 },
		{ NULL, 1 << 5 },
	};
	struct made made = make_paths(paths, COUNT(paths));

	for (size_t i = 0; i < COUNT(cases); i++)
		cr_expect_eq(rules_of(&made, cases[i].path), cases[i].rules, "%s: %#lx, expected %#lx",
			     cases[i].path ?: "nothing", (unsigned long)rules_of(&made, cases[i].path),
			     (unsigned long)cases[i].rules);
	cr_expect_eq(made.tables->knobs.paths, 1);
	cr_expect_eq(made.tables->operations, 1U << CHAOS_OPEN);
	cr_expect_eq(made.tables->rules[0].flags, CHAOS_RULE_PATH);
	cr_expect_eq(made.tables->rules[5].flags, 0);
	unmake(&made);
}

Test(operations, without_paths_there_is_nothing_to_walk)
{
	static const char *const none[] = { NULL, NULL };
	struct made made = make_paths(none, COUNT(none));

	cr_expect_eq(made.tables->knobs.paths, 0);
	cr_expect_eq(made.tables->parts_count, 0);
	cr_expect_eq(rules_of(&made, "/any"), 3);
	unmake(&made);
}

/* A path of few names, so that many fit. */
static void random_path(char *path, size_t parts)
{
	static const char *const some[] = { "a", "ab", "abc", "b", "ba" };

	path[0] = '\0';
	for (size_t i = 0; i < parts; i++) {
		strcat(path, "/");
		strcat(path, some[rand() % COUNT(some)]);
	}
}

/* As a person would say it. */
static bool path_fits(const char *pattern, const char *path)
{
	const char *star = strchr(pattern, '*');
	size_t len = star ? (size_t)(star - pattern) : 0;

	if (!star)
		return strcmp(pattern, path) == 0;
	return strncmp(pattern, path, len) == 0 && (star[1] ? path[len] != '\0' : !strchr(path + len, '/'));
}

Test(operations, random_paths, .timeout = 60)
{
	srand(4);
	for (int round = 0; round < 200; round++) {
		char patterns[40][64];
		const char *paths[40];
		struct made made;

		for (size_t i = 0; i < COUNT(paths); i++) {
			random_path(patterns[i], 1 + rand() % 4);
			if (rand() % 3 == 0)
				strcpy(strrchr(patterns[i], '/') + 1, "**");
			else if (rand() % 2)
				strcpy(strrchr(patterns[i], '/') + 1 + rand() % 2, "*");
			paths[i] = patterns[i];
		}
		made = make_paths(paths, COUNT(paths));
		for (int k = 0; k < 50; k++) {
			uint64_t expected = 0;
			char path[64];

			random_path(path, 1 + rand() % 5);
			for (size_t i = 0; i < COUNT(paths); i++)
				expected |= (uint64_t)path_fits(paths[i], path) << i;
			cr_assert_eq(rules_of(&made, path), expected, "round %d, %s", round, path);
		}
		unmake(&made);
	}
}

/* ---- links ------------------------------------------------------------------------------------------------------ */

static void expect_resolved(const char *dir, const char *path, const char *expected)
{
	char whole[PATH_MAX], wanted[PATH_MAX], *real;

	snprintf(whole, sizeof(whole), "%s%s", dir, path);
	real = path_resolve(whole);
	if (!expected) {
		cr_expect_null(real, "%s: %s", path, real);
		return;
	}
	snprintf(wanted, sizeof(wanted), "%s%s", dir, expected);
	cr_assert_not_null(real, "%s", path);
	cr_expect_str_eq(real, wanted, "%s: %s", path, real);
	free(real);
}

Test(operations, links_of_this_machine)
{
	char dir[] = "/tmp/chaos-path-XXXXXX", *real, name[PATH_MAX];

	cr_assert_not_null(mkdtemp(dir));
	real = realpath(dir, NULL);
	snprintf(name, sizeof(name), "%s/models", real);
	cr_assert_eq(mkdir(name, 0755), 0);
	snprintf(name, sizeof(name), "%s/soft", real);
	cr_assert_eq(symlink("models", name), 0);
	snprintf(name, sizeof(name), "%s/models/a", real);
	cr_assert_eq(close(open(name, O_CREAT | O_WRONLY, 0644)), 0);
	expect_resolved(real, "/models/a", NULL);
	expect_resolved(real, "/models/**", NULL);
	expect_resolved(real, "/soft/a", "/models/a");
	expect_resolved(real, "/soft", "/models");
	expect_resolved(real, "/soft/**", "/models/**");
	expect_resolved(real, "/soft/a*", "/models/a*");
	expect_resolved(real, "/soft/not/there", "/models/not/there");
	expect_resolved(real, "/so*", NULL);
	expect_resolved(real, "/not/there", NULL);
	cr_expect_null(path_resolve("/**"));
	cr_expect_null(path_resolve("/nothing-of-that-name"));
	unlink(name);
	snprintf(name, sizeof(name), "%s/soft", real);
	unlink(name);
	snprintf(name, sizeof(name), "%s/models", real);
	rmdir(name);
	rmdir(real);
	free(real);
}
