// SPDX-License-Identifier: GPL-2.0-only
/*
 * cgroup v2 first: a path there is a set of ids, and the kernel adds what is made below it later. A path that only a v1
 * hierarchy has (docker on an old host) names no id that a socket would know: it is a set of processes instead, with
 * their children, and those that enter it later are added by the kernel as well.
 */
#include "user/target/target.h"

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <linux/magic.h>
#include <mntent.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "user/target/container.h"

#define MAX_CGROUPS 8192 /* of one rule */

/* By what sockets are known to be in a cgroup: its own id, or its processes. */
enum cgroup_kind { EITHER, BY_ID, BY_PROCESSES };

static bool is_cgroup2(const char *path)
{
	struct statfs fs;

	return statfs(path, &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC;
}

/* The path of a mount point leads elsewhere when something else is mounted over it: into a cgroup that has the name, at worst. */
static bool leads_to_mount(const char *mount)
{
	char above[PATH_MAX];

	snprintf(above, sizeof(above), "%s/..", mount);
	return is_cgroup2(mount) && !is_cgroup2(above);
}

void find_cgroup2(char *mount, size_t size)
{
	FILE *file = setmntent("/proc/self/mounts", "re");
	struct mntent *entry;

	mount[0] = '\0';
	if (!file)
		return;
	while ((entry = getmntent(file))) {
		if (strcmp(entry->mnt_type, "cgroup2") == 0 && leads_to_mount(entry->mnt_dir)) {
			snprintf(mount, size, "%s", entry->mnt_dir);
			break;
		}
	}
	endmntent(file);
}

/* "4:memory:/x" in /proc/self/cgroup: the number of the hierarchy that has all of `options`' first controller. */
static unsigned int hierarchy_number(const struct mntent *mount)
{
	char line[512], name[128];
	unsigned int number, found = 0;
	FILE *file = fopen("/proc/self/cgroup", "re");

	if (!file)
		return 0;
	while (!found && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%u:%127[^:]:", &number, name) != 2)
			continue;
		if (strncmp(name, "name=", 5) != 0)
			name[strcspn(name, ",")] = '\0';
		if (hasmntopt(mount, name))
			found = number;
	}
	fclose(file);
	return found;
}

void find_mounts(const char *cgroup2_mount, struct cgroup_mounts *mounts)
{
	struct v1_hierarchy *hierarchies = mounts->v1;
	FILE *file = setmntent("/proc/self/mounts", "re");
	struct mntent *entry;
	size_t count = 0;

	mounts->v2 = cgroup2_mount;
	mounts->v1_count = 0;
	mounts->v1_rules = false;
	if (!file)
		return;
	while (count < CGROUP_MAX_V1 && (entry = getmntent(file))) {
		unsigned int number;

		if (strcmp(entry->mnt_type, "cgroup") != 0)
			continue;
		number = hierarchy_number(entry);
		if (!number)
			continue;
		mounts->v1_rules |= hasmntopt(entry, "memory") || hasmntopt(entry, "pids") || hasmntopt(entry, "name");
		hierarchies[count].number = number;
		snprintf(hierarchies[count].mount, sizeof(hierarchies[count].mount), "%s", entry->mnt_dir);
		count++;
	}
	endmntent(file);
	mounts->v1_count = count;
}

static int add_cgroup(struct target *t, uint32_t hierarchy, uint64_t id)
{
	struct chaos_cgroup_key *more;

	if (t->cgroups_count >= MAX_CGROUPS)
		return -E2BIG;
	more = realloc(t->cgroups, (t->cgroups_count + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	t->cgroups = more;
	more[t->cgroups_count++] = (struct chaos_cgroup_key){ .id = id, .hierarchy = hierarchy };
	return 0;
}

static int add_pid(struct target *t, uint32_t pid)
{
	uint32_t *more;

	for (size_t i = 0; i < t->pids_count; i++) {
		if (t->pids[i] == pid)
			return 0;
	}
	more = realloc(t->pids, (t->pids_count + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	t->pids = more;
	more[t->pids_count++] = pid;
	return 0;
}

static int add_members(struct target *t, const char *dir)
{
	char path[4352];
	unsigned int pid;
	int err = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
	file = fopen(path, "re");
	if (!file)
		return 0; /* a threaded cgroup, or gone */
	while (!err && fscanf(file, "%u", &pid) == 1)
		err = add_pid(t, pid);
	fclose(file);
	return err;
}

/* nftw() has no argument to pass on. */
static struct {
	struct target *target;
	uint32_t hierarchy;
} walk;

static int walk_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	int err;

	(void)ftw;
	if (type != FTW_D)
		return 0;
	err = add_cgroup(walk.target, walk.hierarchy, st->st_ino);
	if (!err && walk.hierarchy)
		err = add_members(walk.target, path);
	return err;
}

static int walk_cgroup(struct target *t, uint32_t hierarchy, const char *path)
{
	walk.target = t;
	walk.hierarchy = hierarchy;
	return nftw(path, walk_one, 16, FTW_PHYS);
}

static bool is_dir(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool has_members(const char *path)
{
	struct target t = { 0 };
	bool found;

	walk_cgroup(&t, 1, path);
	found = t.pids_count > 0;
	free(t.pids);
	free(t.cgroups);
	return found;
}

static int resolve_v1(const struct cgroup_mounts *mounts, const char *cgroup, struct target *t, bool *found)
{
	char path[4352];
	int err = 0;

	*found = false;
	for (size_t i = 0; i < mounts->v1_count && !err; i++) {
		snprintf(path, sizeof(path), "%s/%s", mounts->v1[i].mount, cgroup);
		if (!is_dir(path))
			continue;
		*found = true;
		t->by_pid = true;
		err = walk_cgroup(t, mounts->v1[i].number, path);
	}
	return err;
}

/* Adds the cgroups of one path to `t`; *found: there is such a cgroup. */
static int add_path(const struct cgroup_mounts *mounts, const char *cgroup, enum cgroup_kind kind, struct target *t,
		    bool *found)
{
	size_t cgroups_before = t->cgroups_count, pids_before = t->pids_count;
	char path[4352];
	bool in_v2, in_v1 = false;
	int ret = 0;

	snprintf(path, sizeof(path), "%s/%s", mounts->v2, cgroup);
	in_v2 = kind != BY_PROCESSES && mounts->v2[0] && is_dir(path);
	/* An empty v2 cgroup may be the shadow of one that v1 uses. */
	if (kind == BY_PROCESSES || (kind == EITHER && (!in_v2 || !has_members(path))))
		ret = resolve_v1(mounts, cgroup, t, &in_v1);
	if (!ret && in_v1 && in_v2 && t->pids_count == pids_before) {
		t->by_pid = false;
		t->cgroups_count = cgroups_before;
		in_v1 = false;
	}
	if (!ret && in_v2 && !in_v1) {
		t->by_cgroup = true;
		ret = walk_cgroup(t, 0, path);
	}
	*found = in_v1 || in_v2;
	return ret;
}

static int cannot_read(const struct rules *rules, const char *cgroup, struct mark mark, int ret, struct error *err)
{
	if (ret == -E2BIG)
		return rules_error_at(rules, mark, err, EXIT_USAGE, "cgroup '%s' has more than %d cgroups below it",
				      cgroup, MAX_CGROUPS);
	return error_set(err, ret < 0 ? ret : -errno, EXIT_FAILED, "cannot read cgroup '%s': %m", cgroup);
}

/* -ENOENT when there is no such cgroup. */
static int resolve_cgroup(const struct rules *rules, const char *cgroup, struct mark mark,
			  const struct cgroup_mounts *mounts, enum cgroup_kind kind, struct target *t,
			  struct error *err)
{
	bool found;
	int ret = add_path(mounts, cgroup, kind, t, &found);

	if (ret)
		return cannot_read(rules, cgroup, mark, ret, err);
	if (!found) {
		rules_error_at(rules, mark, err, EXIT_USAGE, "no cgroup '%s' on this machine", cgroup);
		error_hint(err, "write the path below the cgroup mount, as in /proc/PID/cgroup or `systemd-cgls`");
		return -ENOENT;
	}
	return 0;
}

static int resolve_container(const struct rules *rules, const struct match *m, struct machine *machine,
			     enum cgroup_kind kind, struct target *t, struct error *err)
{
	char **paths;
	size_t count;
	int ret = container_cgroups(machine, rules, m, &paths, &count, err);

	for (size_t i = 0; i < count; i++) {
		if (!ret) {
			ret = resolve_cgroup(rules, paths[i], m->mark, machine->mounts, kind, t, err);
			kind = t->by_pid ? BY_PROCESSES : BY_ID;
			/* Gone since it was found, or not in this kind of hierarchy: the others count. */
			ret = ret == -ENOENT ? 0 : ret;
		}
		free(paths[i]);
	}
	free(paths);
	if (!ret && !t->cgroups_count) {
		rules_error_at(rules, m->mark, err, EXIT_USAGE, "what this names has just ended");
		ret = -ENOENT;
	}
	return ret;
}

/* Nothing is there yet. How will sockets be known? Where v1 hierarchies rule, containers and units are in those. */
static void await(struct target *t, enum cgroup_kind kind, const struct cgroup_mounts *mounts)
{
	t->waits = true;
	t->by_pid = kind == BY_PROCESSES || (kind == EITHER && mounts->v1_rules);
	t->by_cgroup = !t->by_pid;
}

bool target_may_come(const struct rule *rule)
{
	return rule->match.cgroup.text || match_names_container(&rule->match);
}

static int resolve_pid(const struct rules *rules, const struct match *m, const struct process_list *processes,
		       struct target *t, struct error *err)
{
	if (!process_find(processes, m->pid))
		return rules_error_at(rules, m->pid_mark, err, EXIT_USAGE, "no process %u", m->pid);
	t->by_pid = true;
	for (size_t i = 0; i < processes->count; i++) {
		if (process_descends(processes, processes->entries[i].pid, m->pid) &&
		    add_pid(t, processes->entries[i].pid))
			return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	}
	return 0;
}

static int resolve_user(const struct rules *rules, const struct text *user, struct target *t, struct error *err)
{
	char *end;
	unsigned long uid = strtoul(user->text, &end, 10);
	struct passwd *entry;

	t->by_user = true;
	if (user->text[0] >= '0' && user->text[0] <= '9' && !*end && uid < UINT32_MAX) {
		t->uid = uid;
		return 0;
	}
	entry = getpwnam(user->text);
	if (!entry)
		return rules_error_at(rules, user->mark, err, EXIT_USAGE, "no user '%s' on this machine", user->text);
	t->uid = entry->pw_uid;
	return 0;
}

/* Processes that are in both: a pid with its children, and a v1 cgroup. */
static void keep_common(struct target *t, const struct target *both)
{
	size_t kept = 0;

	for (size_t i = 0; i < t->pids_count; i++) {
		for (size_t k = 0; k < both->pids_count; k++) {
			if (both->pids[k] == t->pids[i]) {
				t->pids[kept++] = t->pids[i];
				break;
			}
		}
	}
	t->pids_count = kept;
	t->cgroups_count = 0; /* who enters the cgroup later is not a child of the pid */
}

static int narrow_to_pid(const struct rules *rules, const struct match *m, const struct process_list *processes,
			 bool later, struct target *t, struct error *err)
{
	struct target both = *t;
	int ret;

	t->pids = NULL;
	t->pids_count = 0;
	ret = resolve_pid(rules, m, processes, t, err);
	if (ret == -EINVAL && later) {
		t->by_pid = true; /* it has ended meanwhile */
		ret = 0;
	}
	if (!ret && both.by_pid)
		keep_common(t, &both);
	free(both.pids);
	return ret;
}

static enum cgroup_kind kind_before(const struct target *before)
{
	if (!before)
		return EITHER;
	return before->by_cgroup ? BY_ID : BY_PROCESSES;
}

/* The cgroups of a rule, of whichever kind of name. */
static int resolve_cgroups(const struct rules *rules, const struct rule *rule, const struct target_options *options,
			   struct machine *machine, const struct target *before, struct target *t, struct error *err)
{
	const struct match *m = &rule->match;
	const char *only = options->only_cgroup, *cgroup = only ? only : m->cgroup.text;
	enum cgroup_kind kind = kind_before(before);
	int ret = 0;

	t->may_come = !only && target_may_come(rule);
	if (cgroup)
		ret = resolve_cgroup(rules, cgroup, only ? m->mark : m->cgroup.mark, machine->mounts, kind, t, err);
	else if (match_names_container(m))
		ret = resolve_container(rules, m, machine, kind, t, err);
	if (ret == -ENOENT && !only && (options->wait || (options->wait_container && match_names_container(m)))) {
		await(t, kind, machine->mounts);
		return 0;
	}
	return ret;
}

static int resolve(const struct rules *rules, const struct rule *rule, const struct target_options *options,
		   struct machine *machine, const struct target *before, const struct process_list *processes,
		   struct target *t, struct error *err)
{
	const struct match *m = &rule->match;
	int ret = resolve_cgroups(rules, rule, options, machine, before, t, err);

	if (!ret && m->pid && !options->only_cgroup)
		ret = narrow_to_pid(rules, m, processes, before != NULL, t, err);
	if (!ret && m->user.text)
		ret = resolve_user(rules, &m->user, t, err);
	return ret;
}

int targets_resolve(const struct rules *rules, const struct target_options *options,
		    const struct process_list *processes, struct target **targets, struct error *err)
{
	struct target *t = calloc(rules->count, sizeof(*t));
	struct cgroup_mounts mounts;
	struct machine machine = { .mounts = &mounts, .root = options->root };
	int ret = 0;

	*targets = NULL;
	if (!t)
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	find_mounts(options->cgroup2_mount, &mounts);
	for (size_t i = 0; i < rules->count && !ret; i++)
		ret = resolve(rules, &rules->rules[i], options, &machine, options->before ? &options->before[i] : NULL,
			      processes, &t[i], err);
	machine_free(&machine);
	if (ret) {
		targets_free(t, rules->count);
		return ret;
	}
	*targets = t;
	return 0;
}

void targets_free(struct target *targets, size_t count)
{
	if (!targets)
		return;
	for (size_t i = 0; i < count; i++) {
		free(targets[i].pids);
		free(targets[i].cgroups);
	}
	free(targets);
}
