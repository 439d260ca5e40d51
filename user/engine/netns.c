// SPDX-License-Identifier: GPL-2.0-only
/*
 * Network namespaces: finding all of them, and running something inside one.
 *
 * A namespace is found through whatever keeps it alive: a process, a thread, or a file it is bound to. Thousands of
 * processes usually share a handful of namespaces, so nothing is opened before stat() has shown a new inode.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "user/base/linux_compat.h"
#include "user/engine/device.h"

/* A thread rarely lives elsewhere than its process, so threads are looked at only up to this many in all. */
#define MAX_THREADS 4096

static int open_own(void)
{
	/* Of this thread: another thread of ours may be elsewhere. */
	return open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
}

static int inode_of(int fd, uint64_t *inode)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	*inode = st.st_ino;
	return 0;
}

static bool list_knows(const struct netns_list *list, uint64_t inode)
{
	size_t i;

	for (i = 0; i < list->count; i++)
		if (list->entries[i].inode == inode)
			return true;
	return false;
}

/* Takes the descriptor over, also on failure. */
static int list_add(struct netns_list *list, uint64_t inode, int fd, const char *name)
{
	struct netns *grown = list->entries;

	if (!(list->count & (list->count - 1))) /* full at each power of two */
		grown = realloc(list->entries, (list->count ? list->count * 2 : 1) * sizeof(*grown));
	if (!grown) {
		close(fd);
		return -ENOMEM;
	}
	list->entries = grown;
	grown += list->count++;
	memset(grown, 0, sizeof(*grown));
	grown->inode = inode;
	grown->fd = fd;
	snprintf(grown->name, sizeof(grown->name), "%s", name);
	return 0;
}

/* One descriptor a namespace: the usual soft limit of 1024 is not meant for that. */
static bool raise_open_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max)
		return false;
	limit.rlim_cur = limit.rlim_max;
	return !setrlimit(RLIMIT_NOFILE, &limit);
}

/* Opens what stat() said to be a new namespace. 0 also when it is gone meanwhile. */
static int open_new(struct netns_list *list, int dir, const char *path, int flags, uint64_t inode, const char *name)
{
	uint64_t opened = 0;
	int fd;

	do
		fd = openat(dir, path, O_RDONLY | O_CLOEXEC | flags);
	while (fd < 0 && errno == EMFILE && raise_open_files());
	if (fd < 0)
		return errno == EMFILE || errno == ENFILE ? -errno : 0;
	if (inode_of(fd, &opened) || opened != inode) {
		close(fd);
		return 0;
	}
	return list_add(list, inode, fd, name);
}

static int add_own(struct netns_list *list)
{
	uint64_t inode = 0;
	int fd, ret;

	fd = open_own();
	if (fd < 0)
		return -errno;
	ret = inode_of(fd, &inode);
	if (ret) {
		close(fd);
		return ret;
	}
	return list_add(list, inode, fd, "host");
}

/* mountinfo writes blanks, tabs, newlines and backslashes of a path as \ooo. */
static void unescape(char *text)
{
	char *to = text;

	for (; *text; text++) {
		if (text[0] == '\\' && isdigit(text[1]) && isdigit(text[2]) && isdigit(text[3])) {
			*to++ = (text[1] - '0') * 64 + (text[2] - '0') * 8 + (text[3] - '0');
			text += 3;
		} else {
			*to++ = *text;
		}
	}
	*to = '\0';
}

/* "36 35 0:4 net:[4026532621] /run/netns/ns1 rw shared:5 - nsfs nsfs rw" */
static int add_mount(struct netns_list *list, char *line)
{
	unsigned long long inode;
	char *word, *path, *save = NULL;
	const char *name;
	struct statfs fs;
	int i;

	word = strtok_r(line, " ", &save);
	for (i = 0; word && i < 3; i++)
		word = strtok_r(NULL, " ", &save);
	path = word ? strtok_r(NULL, " ", &save) : NULL;
	if (!path || sscanf(word, "net:[%llu]", &inode) != 1 || list_knows(list, inode))
		return 0;
	unescape(path);
	/* Something else may lie on top of it by now; statfs() keeps us from opening a device by accident. */
	if (statfs(path, &fs) || fs.f_type != NSFS_MAGIC)
		return 0;
	name = strrchr(path, '/');
	return open_new(list, AT_FDCWD, path, O_NOFOLLOW | O_NONBLOCK, inode, name ? name + 1 : path);
}

static int add_mounts(struct netns_list *list)
{
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	char *line = NULL;
	size_t size = 0;
	int ret = 0;

	if (!mounts)
		return 0;
	while (!ret && getline(&line, &size, mounts) > 0)
		ret = add_mount(list, line);
	free(line);
	fclose(mounts);
	return ret;
}

/* `path` is relative to /proc, up to the process or thread. */
static int add_task(struct netns_list *list, int proc, const char *task, const char *pid)
{
	char path[64], name[32];
	struct stat st;

	snprintf(path, sizeof(path), "%s/ns/net", task);
	if (fstatat(proc, path, &st, 0) || list_knows(list, st.st_ino))
		return 0; /* gone, a zombie, not ours to look at; or nothing new */
	snprintf(name, sizeof(name), "pid %s", pid);
	return open_new(list, proc, path, 0, st.st_ino, name);
}

static int add_threads(struct netns_list *list, int proc, const char *pid, unsigned int *budget)
{
	char path[64];
	struct dirent *entry;
	struct stat st;
	int fd, ret = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "%.16s/task", pid);
	/* The links of the folder count the threads: one, beside "." and "..". */
	if (fstatat(proc, path, &st, 0) || st.st_nlink <= 3 || st.st_nlink - 3 > *budget)
		return 0;
	*budget -= st.st_nlink - 3;
	fd = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	while (!ret && (entry = readdir(dir))) {
		if (!isdigit(entry->d_name[0]) || !strcmp(entry->d_name, pid))
			continue;
		snprintf(path, sizeof(path), "%.16s/task/%.16s", pid, entry->d_name);
		ret = add_task(list, proc, path, pid);
	}
	closedir(dir);
	return ret;
}

static int add_processes(struct netns_list *list)
{
	unsigned int budget = MAX_THREADS;
	struct dirent *entry;
	DIR *proc = opendir("/proc");
	int ret = 0;

	if (!proc)
		return -errno;
	while (!ret && (entry = readdir(proc))) {
		if (!isdigit(entry->d_name[0]))
			continue;
		ret = add_task(list, dirfd(proc), entry->d_name, entry->d_name);
		if (!ret)
			ret = add_threads(list, dirfd(proc), entry->d_name, &budget);
	}
	closedir(proc);
	return ret;
}

int netns_list(struct netns_list *list, struct error *err)
{
	int ret;

	memset(list, 0, sizeof(*list));
	ret = add_own(list);
	if (!ret)
		ret = add_mounts(list); /* before the processes: their names are the better ones */
	if (!ret)
		ret = add_processes(list);
	if (ret) {
		netns_list_free(list);
		error_set(err, ret, EXIT_FAILED, "cannot list network namespaces: %s", strerror(-ret));
	}
	return ret;
}

void netns_list_free(struct netns_list *list)
{
	size_t i;

	for (i = 0; i < list->count; i++)
		netns_close(&list->entries[i]);
	free(list->entries);
	memset(list, 0, sizeof(*list));
}

static bool is_own(uint64_t inode)
{
	struct stat st;

	return !stat("/proc/thread-self/ns/net", &st) && st.st_ino == inode;
}

int netns_of_pid(uint32_t pid, struct netns *netns, struct error *err)
{
	char path[64];
	int ret;

	memset(netns, 0, sizeof(*netns));
	snprintf(path, sizeof(path), "/proc/%u/ns/net", pid);
	netns->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (netns->fd < 0) {
		ret = errno == ENOENT ? -ESRCH : -errno;
		return error_set(err, ret, EXIT_FAILED, "cannot open the network namespace of process %u: %s", pid,
				 strerror(-ret));
	}
	ret = inode_of(netns->fd, &netns->inode);
	if (ret) {
		netns_close(netns);
		return error_set(err, ret, EXIT_FAILED, "cannot read the network namespace of process %u: %s", pid,
				 strerror(-ret));
	}
	if (is_own(netns->inode))
		strcpy(netns->name, "host");
	else
		snprintf(netns->name, sizeof(netns->name), "pid %u", pid);
	return 0;
}

void netns_close(struct netns *netns)
{
	if (netns->fd >= 0)
		close(netns->fd);
	netns->fd = -1;
}

int netns_run(const struct netns *netns, int (*fn)(void *arg), void *arg)
{
	uint64_t own = 0;
	int home, ret;

	home = open_own();
	if (home < 0)
		return -errno;
	ret = inode_of(home, &own);
	if (!ret && own == netns->inode) {
		ret = fn(arg);
	} else if (!ret) {
		if (setns(netns->fd, CLONE_NEWNET)) {
			ret = -errno;
		} else {
			ret = fn(arg);
			if (setns(home, CLONE_NEWNET))
				abort();
		}
	}
	close(home);
	return ret;
}
