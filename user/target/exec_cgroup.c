// SPDX-License-Identifier: GPL-2.0-only
/*
 * Owns the directory's life and the way back for processes. Starting the command is exec_child.c's.
 */
#include "user/target/exec_cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define PREFIX       "chaosbpf-exec-"
#define ORIGIN_XATTR "trusted.chaosbpf.origin" /* survives us: tidying knows where processes came from */
#define REMOVE_TRIES 50                        /* a process that is just dying still counts for some microseconds */

/* Directory of the caller's own cgroup; the root of the hierarchy when it cannot be told. */
static void find_origin(const char *mount, char *origin, size_t size)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[PATH_MAX];

	snprintf(origin, size, "%s", mount);
	if (!file)
		return;
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		/* Outside our cgroup namespace it begins with "/..": nothing that can be reached below the mount. */
		if (strncmp(line, "0::/", 4) == 0 && strncmp(line, "0::/..", 6) != 0 && line[4])
			snprintf(origin, size, "%s%.*s", mount, (int)sizeof(line) - 4, line + 3);
	}
	fclose(file);
}

/* Locks the directory. False when someone removed it in between or holds it. */
static bool lock_directory(const char *path, int *fd)
{
	struct stat locked, named;

	*fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*fd < 0)
		return false;
	if (flock(*fd, LOCK_EX | LOCK_NB) == 0 && fstat(*fd, &locked) == 0 && stat(path, &named) == 0 &&
	    locked.st_ino == named.st_ino)
		return true;
	close(*fd);
	*fd = -1;
	return false;
}

int exec_cgroup_make(const char *mount, struct exec_cgroup *cgroup, struct error *err)
{
	*cgroup = (struct exec_cgroup){ .fd = -1 };
	find_origin(mount, cgroup->origin, sizeof(cgroup->origin));
	snprintf(cgroup->name, sizeof(cgroup->name), PREFIX "%d", (int)getpid());
	if (snprintf(cgroup->path, sizeof(cgroup->path), "%s/%s", mount, cgroup->name) >= (int)sizeof(cgroup->path))
		return error_set(err, -ENAMETOOLONG, EXIT_FAILED, "the cgroup v2 mount has too long a path: '%s'",
				 mount);
	/* Someone who tidies may take the new directory away before it is locked: then make it again. */
	for (int tries = 0; tries < 10; tries++) {
		if (mkdir(cgroup->path, 0755) && errno != EEXIST)
			return error_set(err, -errno, EXIT_FAILED, "cannot make the cgroup '%s': %s", cgroup->path,
					 strerror(errno));
		if (lock_directory(cgroup->path, &cgroup->fd)) {
			fsetxattr(cgroup->fd, ORIGIN_XATTR, cgroup->origin, strlen(cgroup->origin), 0);
			return 0;
		}
	}
	return error_set(err, -EBUSY, EXIT_FAILED, "the cgroup '%s' is in use", cgroup->path);
}

/* cgroup.procs takes one process a write. */
static int add_to(const char *directory, pid_t pid)
{
	char path[PATH_MAX + 16], text[16];
	int fd, err = 0;

	snprintf(path, sizeof(path), "%s/cgroup.procs", directory);
	snprintf(text, sizeof(text), "%d", (int)pid);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		err = -errno;
	close(fd);
	return err;
}

int exec_cgroup_add(const struct exec_cgroup *cgroup, pid_t pid, struct error *err)
{
	int rc = add_to(cgroup->path, pid);

	if (rc < 0)
		return error_set(err, rc, EXIT_FAILED, "cannot move process %d into the cgroup '%s': %s", (int)pid,
				 cgroup->path, strerror(-rc));
	return 0;
}

/* Moves every process of one cgroup; the kernel's list may change under us, so it is read until it is empty. */
static int move_all(const char *from, const char *to, size_t *moved)
{
	char path[PATH_MAX + 16];
	bool found = true;

	snprintf(path, sizeof(path), "%s/cgroup.procs", from);
	for (int tries = 0; found && tries < REMOVE_TRIES; tries++) {
		FILE *file = fopen(path, "re");
		int pid, rc;

		if (!file)
			return -errno;
		found = false;
		while (fscanf(file, "%d", &pid) == 1) {
			found = true;
			rc = add_to(to, pid);
			if (rc < 0 && rc != -ESRCH) {
				fclose(file);
				return rc;
			}
			if (rc == 0)
				(*moved)++;
		}
		fclose(file);
	}
	return 0;
}

static int remove_one(const char *path)
{
	for (int tries = 0; tries < REMOVE_TRIES; tries++) {
		if (rmdir(path) == 0 || errno == ENOENT)
			return 0;
		if (errno != EBUSY)
			break;
		usleep(1000);
	}
	return -errno;
}

/* nftw() passes nothing on to its callback. */
static struct {
	const char *to;
	size_t moved;
	int err;
} walk;

static int leave_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	int rc;

	(void)st;
	(void)ftw;
	if (type != FTW_DP)
		return 0;
	rc = move_all(path, walk.to, &walk.moved);
	if (rc == 0)
		rc = remove_one(path);
	if (rc < 0 && !walk.err)
		walk.err = rc;
	return 0;
}

/* Deepest first: a cgroup with children cannot be removed. */
static int remove_tree(const char *path, const char *to, size_t *moved)
{
	walk.to = to;
	walk.moved = 0;
	walk.err = 0;
	if (nftw(path, leave_one, 16, FTW_DEPTH | FTW_PHYS) < 0 && errno != ENOENT)
		walk.err = -errno;
	*moved = walk.moved;
	return walk.err;
}

int exec_cgroup_remove(struct exec_cgroup *cgroup, size_t *moved, struct error *err)
{
	int rc = remove_tree(cgroup->path, cgroup->origin, moved);

	if (cgroup->fd >= 0)
		close(cgroup->fd);
	cgroup->fd = -1;
	if (rc < 0) {
		error_set(err, rc, EXIT_FAILED, "cannot remove the cgroup '%s': %s", cgroup->path, strerror(-rc));
		error_hint(err, "it does nothing; the next chaosbpf command removes it when it is empty");
	}
	return rc;
}

/* Where the processes of a dead run came from, or "" when that is not known: then they stay until they end. */
static void read_origin(int fd, char *origin, size_t size)
{
	struct stat st;
	ssize_t len = fgetxattr(fd, ORIGIN_XATTR, origin, size - 1);

	origin[len > 0 ? len : 0] = '\0';
	if (stat(origin, &st) || !S_ISDIR(st.st_mode))
		origin[0] = '\0';
}

static bool tidy_one(const char *path)
{
	char origin[PATH_MAX];
	size_t moved;
	bool done;
	int fd;

	if (!lock_directory(path, &fd))
		return false;
	read_origin(fd, origin, sizeof(origin));
	done = origin[0] ? remove_tree(path, origin, &moved) == 0 : rmdir(path) == 0;
	close(fd);
	return done;
}

int exec_cgroup_tidy(const char *cgroup2_mount)
{
	DIR *dir = opendir(cgroup2_mount);
	struct dirent *entry;
	int removed = 0;

	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		char path[PATH_MAX];

		if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0 ||
		    snprintf(path, sizeof(path), "%s/%s", cgroup2_mount, entry->d_name) >= (int)sizeof(path))
			continue;
		removed += tidy_one(path);
	}
	closedir(dir);
	return removed;
}
