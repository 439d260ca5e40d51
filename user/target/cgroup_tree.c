// SPDX-License-Identifier: GPL-2.0-only
#include "user/target/cgroup_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define MAX_DEPTH 24

struct walk {
	struct cgroup_tree *tree;
	size_t room;
	cgroup_dir_fn fn;
	void *arg;
	size_t mount_len;
};

static int add(struct walk *w, const char *path)
{
	struct cgroup_tree *tree = w->tree;

	if (tree->count == CGROUP_MAX_DIRS)
		return -E2BIG;
	if (tree->count == w->room) {
		size_t room = w->room ? 2 * w->room : 256;
		char **more = realloc(tree->paths, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		tree->paths = more;
		w->room = room;
	}
	tree->paths[tree->count] = strdup(path);
	return tree->paths[tree->count] ? (tree->count++, 0) : -ENOMEM;
}

static int walk_dir(struct walk *w, char *path, int depth);

static int walk_entry(struct walk *w, char *path, const char *name, int depth)
{
	size_t len = strlen(path);
	int err;

	if (len + strlen(name) + 2 > PATH_MAX)
		return 0;
	path[len] = '/';
	strcpy(path + len + 1, name);
	err = add(w, path + w->mount_len + 1);
	if (!err)
		err = walk_dir(w, path, depth + 1);
	path[len] = '\0';
	return err;
}

/* `path` has room for PATH_MAX bytes. Directories that go meanwhile are left out. */
static int walk_dir(struct walk *w, char *path, int depth)
{
	struct dirent *entry;
	int err = 0, fd;
	DIR *dir;

	if (depth > MAX_DEPTH)
		return 0;
	if (w->fn)
		w->fn(path, w->arg);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir)
		return 0;
	while (!err && (entry = readdir(dir))) {
		if (entry->d_type == DT_DIR && strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			err = walk_entry(w, path, entry->d_name, depth);
	}
	closedir(dir);
	return err;
}

static int walk_mount(struct walk *w, const char *mount)
{
	char path[PATH_MAX];
	int err = 0;

	if (mount[0] && snprintf(path, sizeof(path), "%s", mount) < (int)sizeof(path)) {
		w->mount_len = strlen(path);
		err = walk_dir(w, path, 0);
	}
	return err;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorts, and keeps each path once. */
static void tidy(struct cgroup_tree *tree)
{
	size_t kept = 0;

	if (!tree->count)
		return;
	qsort(tree->paths, tree->count, sizeof(*tree->paths), by_path);
	for (size_t i = 1; i < tree->count; i++) {
		if (strcmp(tree->paths[kept], tree->paths[i]) == 0)
			free(tree->paths[i]);
		else
			tree->paths[++kept] = tree->paths[i];
	}
	tree->count = kept + 1;
}

int cgroup_tree_read(const struct cgroup_mounts *mounts, cgroup_dir_fn fn, void *arg, struct cgroup_tree *tree)
{
	struct walk w = { .tree = tree, .fn = fn, .arg = arg };
	int err;

	memset(tree, 0, sizeof(*tree));
	err = walk_mount(&w, mounts->v2);
	for (size_t i = 0; i < mounts->v1_count && !err; i++)
		err = walk_mount(&w, mounts->v1[i].mount);
	if (err)
		cgroup_tree_free(tree);
	tidy(tree);
	return err;
}

void cgroup_tree_free(struct cgroup_tree *tree)
{
	for (size_t i = 0; i < tree->count; i++)
		free(tree->paths[i]);
	free(tree->paths);
	memset(tree, 0, sizeof(*tree));
}

/* ---- what names tell ---- */

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool is_id(const char *text)
{
	return strspn(text, "0123456789abcdef") == CONTAINER_ID_LEN;
}

/*
 *	<id>                     docker, containerd and CRI-O with the plain layout
 *	libpod-<id>              podman with the plain layout
 *	docker-<id>.scope        and libpod-, cri-containerd-, crio-, nerdctl-: with systemd's
 *
 * libpod-conmon-<id>.scope and crio-conmon-<id>.scope are those of the monitor, not of the container.
 */
bool cgroup_container_id(const char *path, char id[CONTAINER_ID_LEN + 1])
{
	static const char *const runtimes[] = { "docker-", "libpod-", "cri-containerd-", "crio-", "nerdctl-", NULL };
	const char *name = last_part(path), *end;

	for (size_t i = 0; runtimes[i]; i++) {
		if (strncmp(name, runtimes[i], strlen(runtimes[i])) == 0) {
			name += strlen(runtimes[i]);
			break;
		}
	}
	if (!is_id(name))
		return false;
	end = name + CONTAINER_ID_LEN;
	if (*end && strcmp(end, ".scope") != 0)
		return false;
	memcpy(id, name, CONTAINER_ID_LEN);
	id[CONTAINER_ID_LEN] = '\0';
	return true;
}

static bool same_uid(const char *a, const char *b, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		char x = a[i] == '_' ? '-' : a[i], y = b[i] == '_' ? '-' : b[i];

		if (x != y)
			return false;
	}
	return true;
}

/* pod<uid>, or kubepods-pod<uid>.slice, kubepods-burstable-pod<uid>.slice, with dashes as underscores. */
bool cgroup_is_pod(const char *path, const char *uid)
{
	static const char *const classes[] = { "kubepods-", "kubepods-burstable-", "kubepods-besteffort-", NULL };
	const char *name = last_part(path), *end = name + strlen(name);
	size_t len = strlen(uid);

	for (size_t i = 0; classes[i]; i++) {
		size_t class_len = strlen(classes[i]);

		if (strncmp(name, classes[i], class_len) != 0 || strncmp(name + class_len, "pod", 3) != 0)
			continue;
		name += class_len;
		if (end - name < 6 || strcmp(end - 6, ".slice") != 0)
			return false;
		end -= 6;
		break;
	}
	return strncmp(name, "pod", 3) == 0 && (size_t)(end - name) == len + 3 && same_uid(name + 3, uid, len);
}

static bool ends_with(const char *text, size_t len, const char *end)
{
	size_t end_len = strlen(end);

	return len > end_len && memcmp(text + len - end_len, end, end_len) == 0;
}

/* Above a unit are slices, and for a user's the service of that user's systemd. What is below a scope is a container's. */
bool cgroup_is_unit(const char *path, const char *unit)
{
	const char *name = last_part(path);

	if (strcmp(name, unit) != 0)
		return false;
	while (path < name) {
		size_t len = strcspn(path, "/");

		if (!ends_with(path, len, ".slice") &&
		    !(strncmp(path, "user@", 5) == 0 && ends_with(path, len, ".service")))
			return false;
		path += len + 1;
	}
	return true;
}

bool cgroup_is_below(const char *path, const char *above)
{
	size_t len = strlen(above);

	return strncmp(path, above, len) == 0 && (path[len] == '\0' || path[len] == '/');
}
