// SPDX-License-Identifier: GPL-2.0-only
/*
 * cgroup v2 first: a path there is a set of ids, and the kernel adds what is made below it later. A path that only a v1
 * hierarchy has (docker on an old host) names no id that a socket would know: it is a set of processes instead, with
 * their children, and those that enter it later are added by the kernel as well.
 */
#include "user/target.h"

#include <errno.h>
#include <ftw.h>
#include <mntent.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_CGROUPS 8192 /* of one rule */
#define MAX_V1 32

struct v1_hierarchy {
	unsigned int number;
	char mount[256];
};

void find_cgroup2(char *mount, size_t size)
{
	FILE *file = setmntent("/proc/self/mounts", "re");
	struct mntent *entry;

	mount[0] = '\0';
	if (!file)
		return;
	while ((entry = getmntent(file))) {
		if (strcmp(entry->mnt_type, "cgroup2") == 0) {
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

static size_t find_v1(struct v1_hierarchy *hierarchies)
{
	FILE *file = setmntent("/proc/self/mounts", "re");
	struct mntent *entry;
	size_t count = 0;

	if (!file)
		return 0;
	while (count < MAX_V1 && (entry = getmntent(file))) {
		unsigned int number;

		if (strcmp(entry->mnt_type, "cgroup") != 0)
			continue;
		number = hierarchy_number(entry);
		if (!number)
			continue;
		hierarchies[count].number = number;
		snprintf(hierarchies[count].mount, sizeof(hierarchies[count].mount), "%s", entry->mnt_dir);
		count++;
	}
	endmntent(file);
	return count;
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

static int resolve_v1(const char *cgroup, struct target *t, bool *found)
{
	struct v1_hierarchy hierarchies[MAX_V1];
	size_t count = find_v1(hierarchies);
	char path[4352];
	int err = 0;

	*found = false;
	for (size_t i = 0; i < count && !err; i++) {
		snprintf(path, sizeof(path), "%s/%s", hierarchies[i].mount, cgroup);
		if (!is_dir(path))
			continue;
		*found = true;
		t->by_pid = true;
		err = walk_cgroup(t, hierarchies[i].number, path);
	}
	return err;
}

static int resolve_cgroup(const struct rules *rules, const char *cgroup, struct mark mark, const char *cgroup2_mount,
			  struct target *t, struct error *err)
{
	char path[4352];
	bool in_v2, in_v1 = false;
	int ret = 0;

	snprintf(path, sizeof(path), "%s/%s", cgroup2_mount, cgroup);
	in_v2 = cgroup2_mount[0] && is_dir(path);
	if (!in_v2 || !has_members(path)) /* an empty v2 cgroup may be the shadow of one that v1 uses */
		ret = resolve_v1(cgroup, t, &in_v1);
	if (!ret && in_v1 && in_v2 && !t->pids_count) {
		t->by_pid = false;
		t->cgroups_count = 0;
		in_v1 = false;
	}
	if (!ret && in_v2 && !in_v1) {
		t->by_cgroup = true;
		ret = walk_cgroup(t, 0, path);
	}
	if (ret == -E2BIG)
		return rules_error_at(rules, mark, err, EXIT_USAGE, "cgroup '%s' has more than %d cgroups below it", cgroup,
				      MAX_CGROUPS);
	if (ret)
		return error_set(err, ret < 0 ? ret : -errno, EXIT_FAILED, "cannot read cgroup '%s': %m", cgroup);
	if (!in_v2 && !in_v1) {
		rules_error_at(rules, mark, err, EXIT_USAGE, "no cgroup '%s' on this machine", cgroup);
		error_hint(err, "write the path below the cgroup mount, as in /proc/PID/cgroup or `systemd-cgls`");
		return -ENOENT;
	}
	return 0;
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

static int resolve(const struct rules *rules, const struct rule *rule, const char *only_cgroup,
		   const char *cgroup2_mount, const struct process_list *processes, struct target *t, struct error *err)
{
	const struct match *m = &rule->match;
	int ret = 0;

	if (only_cgroup)
		ret = resolve_cgroup(rules, only_cgroup, m->mark, cgroup2_mount, t, err);
	else if (m->cgroup.text)
		ret = resolve_cgroup(rules, m->cgroup.text, m->cgroup.mark, cgroup2_mount, t, err);
	if (!ret && m->pid && !only_cgroup) {
		/* A pid and a v1 cgroup are both sets of processes: both must hold. */
		struct target both = *t;

		t->pids = NULL;
		t->pids_count = 0;
		ret = resolve_pid(rules, m, processes, t, err);
		if (!ret && both.by_pid) {
			size_t kept = 0;

			for (size_t i = 0; i < t->pids_count; i++) {
				for (size_t k = 0; k < both.pids_count; k++) {
					if (both.pids[k] == t->pids[i]) {
						t->pids[kept++] = t->pids[i];
						break;
					}
				}
			}
			t->pids_count = kept;
			t->cgroups_count = 0; /* who enters the cgroup later is not a child of the pid */
		}
		free(both.pids);
	}
	if (!ret && m->user.text)
		ret = resolve_user(rules, &m->user, t, err);
	return ret;
}

int targets_resolve(const struct rules *rules, const char *only_cgroup, const char *cgroup2_mount,
		    const struct process_list *processes, struct target **targets, struct error *err)
{
	struct target *t = calloc(rules->count, sizeof(*t));
	int ret = 0;

	*targets = NULL;
	if (!t)
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	for (size_t i = 0; i < rules->count && !ret; i++)
		ret = resolve(rules, &rules->rules[i], only_cgroup, cgroup2_mount, processes, &t[i], err);
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
