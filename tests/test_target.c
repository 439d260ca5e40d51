// SPDX-License-Identifier: GPL-2.0-only
/* user/target/target.c and user/base/process.c: names of rules looked up in made-up process lists and cgroup trees, and in /proc. */
#include <criterion/criterion.h>
#include <errno.h>
#include <ftw.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "user/base/process.h"
#include "user/target/target.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

/* ---- processes ---- */

static struct process made_up[] = {
	{ .pid = 1 },		      { .pid = 2 },		    { .pid = 10, .parent = 1 },	 { .pid = 11, .parent = 10 },
	{ .pid = 12, .parent = 10 },  { .pid = 20, .parent = 1 },   { .pid = 25, .parent = 12 }, { .pid = 30, .parent = 12 },
	{ .pid = 40, .parent = 404 }, { .pid = 50, .parent = 51 },  { .pid = 51, .parent = 50 }, { .pid = 60, .parent = 60 },
};
static const struct process_list made_up_list = { made_up, COUNT(made_up) };

Test(target, descent)
{
	static const struct {
		uint32_t pid, ancestor;
		int descends;
	} cases[] = {
		{ 10, 10, 1 }, { 11, 10, 1 }, { 25, 10, 1 }, { 30, 12, 1 }, { 30, 11, 0 }, { 20, 10, 0 }, { 10, 11, 0 },
		{ 30, 1, 1 },  { 2, 1, 0 },   { 40, 1, 0 },  { 40, 40, 1 }, { 99, 10, 0 }, { 0, 10, 0 },  { 30, 0, 0 },
		{ 50, 51, 1 }, { 50, 1, 0 },  { 60, 1, 0 },  { 60, 60, 1 },
	};
	const struct process_list none = { 0 };

	for (size_t i = 0; i < COUNT(cases); i++)
		cr_expect_eq(process_descends(&made_up_list, cases[i].pid, cases[i].ancestor), cases[i].descends, "%u of %u",
			     cases[i].pid, cases[i].ancestor);
	cr_expect_eq(process_descends(&none, 10, 1), 0);
	cr_expect_null(process_find(&none, 1));
	cr_expect_null(process_find(&made_up_list, 13));
	for (size_t i = 0; i < COUNT(made_up); i++)
		cr_expect_eq(process_find(&made_up_list, made_up[i].pid), &made_up[i]);
}

/* A long chain is followed to its end, a longer one given up. */
Test(target, long_chains)
{
	struct process_list list = { calloc(3000, sizeof(struct process)), 3000 };

	for (uint32_t i = 0; i < 3000; i++) {
		list.entries[i].pid = i + 1;
		list.entries[i].parent = i;
	}
	cr_expect_eq(process_descends(&list, 1000, 1), 1);
	cr_expect_eq(process_descends(&list, 3000, 1), 0);
	free(list.entries);
}

Test(target, this_process_as_proc_has_it)
{
	struct process_list list;
	const struct process *self, *child;
	struct error err = { 0 };
	struct stat st;
	pid_t pid;

	prctl(PR_SET_NAME, "a name (1)");
	pid = fork();
	if (!pid) {
		prctl(PR_SET_NAME, "fifteen letters");
		pause();
		_exit(0);
	}
	do /* until the child has got its name */
		cr_assert(process_list("", &list, &err) == 0 && (child = process_find(&list, pid)), "%s", err.text);
	while (strcmp(child->comm, "fifteen letters") != 0 && (process_list_free(&list), usleep(1000), true));
	cr_expect_eq(child->parent, (uint32_t)getpid());
	cr_expect_eq(process_descends(&list, pid, getpid()), 1);
	cr_expect_eq(process_descends(&list, getpid(), pid), 0);
	for (size_t i = 1; i < list.count; i++)
		cr_assert_lt(list.entries[i - 1].pid, list.entries[i].pid);
	self = process_find(&list, getpid());
	cr_assert_not_null(self);
	cr_expect_eq(self->parent, (uint32_t)getppid());
	cr_expect_eq(self->uid, geteuid());
	cr_expect_eq(self->cgroup_id, 0, "no cgroup v2 was named");
	cr_expect(stat("/proc/self/ns/net", &st) == 0 && self->netns == st.st_ino);
	process_list_free(&list);
	cr_expect_eq(list.count, 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* ---- rules ---- */

static char root[] = "/tmp/chaosbpf-target-XXXXXX";

static struct rules *parse(const char *source)
{
	struct error err = { 0 };
	struct rules *rules;

	cr_assert_eq(rules_parse("t", source, strlen(source), NULL, &rules, &err), 0, "%s\n%s", err.text, source);
	return rules;
}

static int resolve(const char *match, const char *only_cgroup, struct target **targets, struct error *err)
{
	struct rules *rules;
	char source[512];
	int ret;

	snprintf(source, sizeof(source), "version: 1\nrules:\n- name: a\n  match: { %s }\n  fault: { drop: true }\n  duration: 1m\n", match);
	rules = parse(source);
	memset(err, 0, sizeof(*err));
	ret = targets_resolve(
		rules, &(struct target_options){ .only_cgroup = only_cgroup, .cgroup2_mount = root, .root = root },
		&made_up_list, targets, err);
	rules_free(rules);
	return ret;
}

static struct target *resolved(const char *match, const char *only_cgroup)
{
	struct target *t;
	struct error err;

	cr_assert_eq(resolve(match, only_cgroup, &t, &err), 0, "%s: %s", match, err.text);
	return t;
}

static void expect_error(const char *match, int code, const char *text)
{
	struct target *t = (void *)1;
	struct error err;

	cr_expect_eq(resolve(match, NULL, &t, &err), code, "%s", match);
	cr_expect_null(t);
	cr_expect_eq(err.exit, EXIT_USAGE);
	cr_expect_str_eq(err.text, text, "%s: %s", match, err.text);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static void tree_ends(void)
{
	nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void make_dir(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", root, name);
	cr_assert_eq(mkdir(path, 0700), 0, "%s", path);
}

static void put_members(const char *name, const char *pids)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s/cgroup.procs", root, name);
	file = fopen(path, "w");
	cr_assert_not_null(file);
	fputs(pids, file);
	fclose(file);
}

/* Looks like a cgroup2 mount to those who only read it. */
static void tree(void)
{
	cr_assert_not_null(mkdtemp(root));
	make_dir("chaos-a.slice");
	make_dir("chaos-a.slice/x");
	make_dir("chaos-a.slice/x/deep");
	make_dir("chaos-a.slice/y");
	make_dir("chaos-b");
	put_members("chaos-a.slice/x/deep", "11\n12\n");
	put_members("chaos-b", "20\n");
}

static uint64_t id_of(const char *name)
{
	char path[256];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	cr_assert_eq(stat(path, &st), 0, "%s", path);
	return st.st_ino;
}

static bool has_cgroup(const struct target *t, const char *name)
{
	for (size_t i = 0; i < t->cgroups_count; i++)
		if (t->cgroups[i].id == id_of(name) && t->cgroups[i].hierarchy == 0 && t->cgroups[i].pad == 0)
			return true;
	return false;
}

static bool has_pids(const struct target *t, const uint32_t *pids, size_t count)
{
	size_t found = 0;

	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < t->pids_count; k++)
			found += t->pids[k] == pids[i];
	return found == count && t->pids_count == count;
}

#define HAS_PIDS(t, ...) has_pids(t, (const uint32_t[]){ __VA_ARGS__ }, COUNT(((const uint32_t[]){ __VA_ARGS__ })))

TestSuite(target_names, .init = tree, .fini = tree_ends);

Test(target_names, nothing_named)
{
	struct target *t = resolved("ports: 1", NULL);

	cr_expect(!t->by_pid && !t->by_cgroup && !t->by_user);
	cr_expect(!t->pids_count && !t->cgroups_count);
	targets_free(t, 1);
}

Test(target_names, a_pid_and_its_descendants)
{
	struct target *t = resolved("pid: 10", NULL);

	cr_expect(t->by_pid && !t->by_cgroup && !t->by_user);
	cr_expect(HAS_PIDS(t, 10, 11, 12, 25, 30));
	targets_free(t, 1);
	t = resolved("pid: 40", NULL);
	cr_expect(HAS_PIDS(t, 40));
	targets_free(t, 1);
	expect_error("pid: 4242", -EINVAL, "t:4:17: no process 4242");
}

Test(target_names, users_by_number_and_name)
{
	struct target *t = resolved("user: \"33333\"", NULL);

	cr_expect(t->by_user && t->uid == 33333 && !t->by_pid);
	targets_free(t, 1);
	if (getpwnam("root")) {
		t = resolved("user: root", NULL);
		cr_expect(t->by_user && t->uid == 0);
		targets_free(t, 1);
	}
	expect_error("user: no-such-user", -EINVAL, "t:4:18: no user 'no-such-user' on this machine");
	expect_error("user: 33x", -EINVAL, "t:4:18: no user '33x' on this machine");
	expect_error("user: \"-1\"", -EINVAL, "t:4:18: no user '-1' on this machine");
}

Test(target_names, a_cgroup_and_all_below_it)
{
	struct target *t = resolved("cgroup: chaos-a.slice", NULL);

	cr_expect(t->by_cgroup && !t->by_pid);
	cr_expect_eq(t->cgroups_count, 4);
	cr_expect(has_cgroup(t, "chaos-a.slice") && has_cgroup(t, "chaos-a.slice/x") &&
		  has_cgroup(t, "chaos-a.slice/x/deep") && has_cgroup(t, "chaos-a.slice/y"));
	cr_expect_eq(t->pids_count, 0, "cgroup v2 is known by its number, not by its processes");
	targets_free(t, 1);
	t = resolved("cgroup: /chaos-a.slice/x/deep/", NULL);
	cr_expect(t->cgroups_count == 1 && has_cgroup(t, "chaos-a.slice/x/deep"));
	targets_free(t, 1);
	t = resolved("cgroup: chaos-a.slice/y", NULL); /* nobody in it yet */
	cr_expect(t->by_cgroup && t->cgroups_count == 1 && has_cgroup(t, "chaos-a.slice/y"));
	targets_free(t, 1);
}

Test(target_names, a_cgroup_that_is_not_there)
{
	struct error err;
	struct target *t;

	expect_error("cgroup: chaos-no.slice", -ENOENT, "t:4:20: no cgroup 'chaos-no.slice' on this machine");
	cr_expect_neq(resolve("cgroup: chaos-a.slice/x/deep/cgroup.procs", NULL, &t, &err), 0, "a file is no cgroup");
}

Test(target_names, every_name_is_kept)
{
	struct target *t = resolved("cgroup: chaos-b, pid: 12, user: \"33\"", NULL);

	cr_expect(t->by_cgroup && t->by_pid && t->by_user);
	cr_expect(HAS_PIDS(t, 12, 25, 30));
	cr_expect(t->cgroups_count == 1 && has_cgroup(t, "chaos-b"));
	targets_free(t, 1);
}

/* `exec`: the command's own cgroup takes the place of cgroup and pid; users stay. */
Test(target_names, one_cgroup_for_all_rules)
{
	struct target *t = resolved("cgroup: chaos-no.slice, pid: 4242, user: \"33\"", "chaos-b");

	cr_expect(t->by_cgroup && !t->by_pid && t->by_user);
	cr_expect(t->cgroups_count == 1 && has_cgroup(t, "chaos-b"));
	targets_free(t, 1);
}

Test(target_names, each_rule_has_its_own)
{
	struct rules *rules = parse("version: 1\nrules:\n"
				    "- { name: a, match: { pid: 10 }, fault: { drop: true }, duration: 1m }\n"
				    "- { name: b, match: { cgroup: chaos-b }, fault: { drop: true }, duration: 1m }\n"
				    "- { name: c, match: { ports: 1 }, fault: { drop: true }, duration: 1m }\n");
	struct target *t;
	struct error err;

	cr_assert_eq(targets_resolve(rules, &(struct target_options){ .cgroup2_mount = root, .root = root },
				     &made_up_list, &t, &err),
		     0, "%s", err.text);
	cr_expect(t[0].by_pid && !t[0].by_cgroup);
	cr_expect(!t[1].by_pid && t[1].by_cgroup);
	cr_expect(!t[2].by_pid && !t[2].by_cgroup && !t[2].by_user);
	targets_free(t, 3);
	rules_free(rules);
}

/* 8,192 cgroups below one are the limit of a rule. */
Test(target_names, too_many_cgroups)
{
	struct target *t;
	char name[64];

	make_dir("chaos-many");
	for (int i = 0; i < 8191; i++) {
		snprintf(name, sizeof(name), "chaos-many/%d", i);
		make_dir(name);
	}
	t = resolved("cgroup: chaos-many", NULL);
	cr_expect_eq(t->cgroups_count, 8192);
	targets_free(t, 1);
	make_dir("chaos-many/more");
	expect_error("cgroup: chaos-many", -EINVAL, "t:4:20: cgroup 'chaos-many' has more than 8192 cgroups below it");
}

Test(target_names, where_cgroup2_is_mounted)
{
	char mount[256] = "x";

	find_cgroup2(mount, sizeof(mount));
	if (mount[0] == '\0')
		cr_skip_test("no cgroup v2 here");
	cr_expect_eq(mount[0], '/');
}
