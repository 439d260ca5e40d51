// SPDX-License-Identifier: GPL-2.0-only
#include "user/base/process.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_ANCESTORS 1024 /* a loop in the tree cannot be, but /proc is read while it changes */

/* Reads a small file below /proc whole; returns its length or a negative errno. */
static ssize_t read_file(int dir, const char *name, char *buf, size_t size)
{
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	ssize_t len;

	if (fd < 0)
		return -errno;
	len = read(fd, buf, size - 1);
	close(fd);
	if (len < 0)
		return -errno;
	buf[len] = '\0';
	return len;
}

static uint64_t inode_at(int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, 0) == 0 ? st.st_ino : 0;
}

/* Many processes share a cgroup: the last one looked up is remembered. */
static uint64_t cgroup_id(const char *mount, const char *text)
{
	static char last_path[4096];
	static uint64_t last_id;
	char path[4096];
	const char *line = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
	struct stat st;
	size_t len;

	if (!line || !mount[0])
		return 0;
	line += *line == '\n' ? 4 : 3;
	len = strcspn(line, "\n");
	if (snprintf(path, sizeof(path), "%s%.*s", mount, (int)len, line) >= (int)sizeof(path))
		return 0;
	if (strcmp(path, last_path) != 0) {
		if (stat(path, &st) < 0)
			return 0;
		snprintf(last_path, sizeof(last_path), "%s", path);
		last_id = st.st_ino;
	}
	return last_id;
}

static int read_process(int proc, const char *name, const char *cgroup2_mount, struct process *p)
{
	char buf[8192], *field;
	int dir = openat(proc, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int err = -ESRCH;

	if (dir < 0)
		return -errno;
	memset(p, 0, sizeof(*p));
	p->pid = strtoul(name, NULL, 10);
	if (read_file(dir, "comm", buf, sizeof(buf)) <= 0)
		goto out;
	buf[strcspn(buf, "\n")] = '\0';
	memcpy(p->comm, buf, strnlen(buf, sizeof(p->comm) - 1));
	if (read_file(dir, "status", buf, sizeof(buf)) <= 0)
		goto out;
	field = strstr(buf, "\nPPid:");
	if (field)
		p->parent = strtoul(field + 6, NULL, 10);
	field = strstr(buf, "\nUid:");
	if (field) {
		strtoul(field + 5, &field, 10); /* the real one */
		p->uid = strtoul(field, NULL, 10);
	}
	if (read_file(dir, "cgroup", buf, sizeof(buf)) > 0)
		p->cgroup_id = cgroup_id(cgroup2_mount, buf);
	p->netns = inode_at(dir, "ns/net");
	err = 0;
out:
	close(dir);
	return err;
}

static int by_pid(const void *a, const void *b)
{
	const struct process *x = a, *y = b;

	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

int process_list(const char *cgroup2_mount, struct process_list *list, struct error *err)
{
	size_t room = 0;
	struct dirent *entry;
	DIR *proc = opendir("/proc");

	list->entries = NULL;
	list->count = 0;
	if (!proc)
		return error_set(err, -errno, EXIT_FAILED, "cannot read /proc: %m");
	while ((entry = readdir(proc))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		if (list->count == room) {
			struct process *more;

			room = room ? 2 * room : 256;
			more = realloc(list->entries, room * sizeof(*more));
			if (!more) {
				closedir(proc);
				process_list_free(list);
				return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
			}
			list->entries = more;
		}
		if (read_process(dirfd(proc), entry->d_name, cgroup2_mount, &list->entries[list->count]) == 0)
			list->count++;
	}
	closedir(proc);
	if (list->count)
		qsort(list->entries, list->count, sizeof(*list->entries), by_pid);
	return 0;
}

void process_list_free(struct process_list *list)
{
	free(list->entries);
	list->entries = NULL;
	list->count = 0;
}

const struct process *process_find(const struct process_list *list, uint32_t pid)
{
	struct process key = { .pid = pid };

	if (!list->count)
		return NULL;
	return bsearch(&key, list->entries, list->count, sizeof(key), by_pid);
}

int process_descends(const struct process_list *list, uint32_t pid, uint32_t ancestor)
{
	for (int i = 0; pid && i < MAX_ANCESTORS; i++) {
		const struct process *p;

		if (pid == ancestor)
			return 1;
		p = process_find(list, pid);
		if (!p)
			return 0;
		pid = p->parent;
	}
	return 0;
}
