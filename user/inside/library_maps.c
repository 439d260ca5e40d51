// SPDX-License-Identifier: GPL-2.0-only
/* What /proc tells of the files that one process has mapped, and how to get hold of them. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "user/inside/library_internal.h"

#define DELETED " (deleted)"

#ifndef OVERLAYFS_SUPER_MAGIC
#define OVERLAYFS_SUPER_MAGIC 0x794c7630
#endif
/* Linux 6.5: handles that name a file and cannot be opened, which overlayfs gives without further ado. */
#ifndef AT_HANDLE_FID
#define AT_HANDLE_FID 0x200
#endif

/* The kernel writes newlines in paths as \012, and nothing else so (a backslash stays one). */
static void unescape_newlines(char *text)
{
	char *to = text;

	for (; *text; text++) {
		if (strncmp(text, "\\012", 4) == 0) {
			*to++ = '\n';
			text += 3;
		} else {
			*to++ = *text;
		}
	}
	*to = '\0';
}

/* "7f00-7f01 r-xp 00001000 fe:00 1234                       /usr/lib/libc.so.6" */
bool map_line_parse(char *line, struct map_line *map)
{
	char permissions[5];
	int path = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*x %x:%x %" SCNu64 " %n", &map->start, &map->end, permissions,
		   &map->major, &map->minor, &map->inode, &path) != 6)
		return false;
	if (!path || line[path] != '/' || permissions[2] != 'x' || !map->inode)
		return false;
	map->path = line + path;
	map->path[strcspn(map->path, "\n")] = '\0';
	unescape_newlines(map->path);
	return true;
}

bool has_deleted_mark(const char *path)
{
	size_t len = strlen(path), end = strlen(DELETED);

	return len > end && strcmp(path + len - end, DELETED) == 0;
}

char *map_path_shown(const char *path, bool is_deleted)
{
	size_t len = strlen(path);
	char *shown = malloc(4 * len + 1), *to = shown;

	if (!shown)
		return NULL;
	if (is_deleted && has_deleted_mark(path))
		len -= strlen(DELETED);
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)path[i];

		if (c < ' ' || c == 0x7f)
			to += sprintf(to, "\\%03o", c);
		else
			*to++ = (char)c;
	}
	*to = '\0';
	return shown;
}

/* One descriptor a file: the usual soft limit of 1024 is not meant for that. */
static bool raise_open_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max)
		return false;
	limit.rlim_cur = limit.rlim_max;
	return !setrlimit(RLIMIT_NOFILE, &limit);
}

static int open_path(const char *path, int flags)
{
	int fd;

	do
		fd = open(path, flags | O_CLOEXEC);
	while (fd < 0 && errno == EMFILE && raise_open_files());
	return fd < 0 ? -errno : fd;
}

static uint64_t hash(uint64_t seed, const void *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		seed = (seed ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3ULL; /* FNV-1a */
	return seed | 1;
}

uint64_t file_below(int fd, const struct map_line *map)
{
	union {
		struct file_handle handle;
		uint8_t bytes[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} h = { .handle = { .handle_bytes = MAX_HANDLE_SZ } };
	struct statfs fs;
	struct stat st;
	int mount;

	if (fstatfs(fd, &fs) || fs.f_type != OVERLAYFS_SUPER_MAGIC || fstat(fd, &st))
		return 0;
	/* Before Linux 6.8 maps has the numbers of the file below. */
	if (map && makedev(map->major, map->minor) != st.st_dev)
		return hash(makedev(map->major, map->minor), &map->inode, sizeof(map->inode));
	if (name_to_handle_at(fd, "", &h.handle, &mount, AT_EMPTY_PATH | AT_HANDLE_FID))
		return 0;
	return hash(0xcbf29ce484222325ULL, h.handle.f_handle, h.handle.handle_bytes);
}

/* A path of a container may be a device or a FIFO by now: those do things when they are opened. */
int open_regular(int fd)
{
	char path[32];
	struct stat st;
	int opened = -EINVAL;

	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		opened = open_path(path, O_RDONLY | O_NONBLOCK);
	}
	close(fd);
	return opened;
}

/*
 * Both are asked of the same place, so that the numbers can be compared: those of maps are the file system's own on
 * btrfs and overlayfs.
 */
static bool is_same(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int map_open(uint32_t pid, const struct map_line *map, bool *is_deleted)
{
	char path[64], *below;
	struct stat st;
	int by_path, by_map;

	if (asprintf(&below, "/proc/%u/root%s", pid, map->path) < 0)
		return -ENOMEM;
	by_path = open_path(below, O_PATH | O_NOFOLLOW);
	free(below);
	snprintf(path, sizeof(path), "/proc/%u/map_files/%" PRIx64 "-%" PRIx64, pid, map->start, map->end);
	by_map = open_path(path, O_PATH);
	*is_deleted = by_path < 0 || (by_map >= 0 && !is_same(by_path, by_map));
	if (by_map >= 0) {
		if (by_path >= 0)
			close(by_path);
		return open_regular(by_map);
	}
	/* map_files is for root alone; without it the inode's number has to do. */
	if (by_map == -EPERM || by_map == -EACCES) {
		if (by_path >= 0 && fstat(by_path, &st) == 0 && st.st_ino == map->inode)
			return open_regular(by_path);
		by_map = -EINVAL;
	}
	if (by_path >= 0)
		close(by_path);
	return by_map == -ENOENT || by_map == -ESRCH ? -ESTALE : by_map;
}
