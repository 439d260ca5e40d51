// SPDX-License-Identifier: GPL-2.0-only
/* Where presets are kept, and whether the file there may be believed; see presets.h. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "user/rules/presets.h"
#include "user/rules/rules_parse.h"

#define INSTALLED CHAOSBPF_DATADIR "/endpoints.yaml"
#define IN_TREE   "rules/presets/endpoints.yaml"

/* A file that is looked for without being named, and whose word is as good as that of `owner`. */
struct place {
	const char *path;
	uid_t owner;
	bool shared_group; /* a source tree is often writable by its owner's group */
};

static int distrust(const struct place *place, const char *why, struct error *err)
{
	error_set(err, -EPERM, EXIT_USAGE, "'%s' is not trusted: %s", place->path, why);
	return -EPERM;
}

static int trust_check(const struct place *place, int fd, struct error *err)
{
	struct stat st;

	if (fstat(fd, &st))
		return error_set(err, -errno, EXIT_USAGE, "cannot read '%s': %s", place->path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return distrust(place, "it is no file", err);
	if (st.st_uid != 0 && st.st_uid != geteuid() && st.st_uid != place->owner)
		return distrust(place, "it belongs to another user", err);
	if (st.st_mode & S_IWOTH || (st.st_mode & S_IWGRP && st.st_gid != 0 && !place->shared_group))
		return distrust(place, "others may write to it", err);
	return 0;
}

/* Opens it, or -ENOENT without a word. */
static int place_open(const struct place *place, struct error *err)
{
	int fd = open(place->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), code;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return -ENOENT;
	if (fd < 0)
		return error_set(err, -errno, EXIT_USAGE, "cannot open '%s': %s", place->path, strerror(errno));
	code = trust_check(place, fd, err);
	if (!code)
		return fd;
	close(fd);
	return code;
}

/*
 * The source tree, if the program runs from a build directory in it. Whoever owns the directory above could exchange the
 * program as well.
 */
static bool find_tree(char path[PATH_MAX], struct place *place)
{
	char program[PATH_MAX], *above;
	ssize_t len = readlink("/proc/self/exe", program, sizeof(program) - 1);
	struct stat st;

	if (len <= 0)
		return false;
	program[len] = '\0';
	above = dirname(dirname(program));
	if (stat(above, &st) || snprintf(path, PATH_MAX, "%s/" IN_TREE, above) >= PATH_MAX)
		return false;
	*place = (struct place){ .path = path, .owner = st.st_uid, .shared_group = true };
	return true;
}

/* Adds what a file holds to the list. `fd`: what was opened, or -1 for a file that the caller names. */
static int add_file(struct presets *presets, size_t index, const char *path, int fd, struct error *err)
{
	struct presets one = { 0 };
	struct preset *more;
	int code = -ENOMEM;

	presets->files[index] = rules_new(path);
	if (!presets->files[index])
		return error_set(err, code, EXIT_FAILED, "out of memory");
	code = fd < 0 ? source_read(presets->files[index], path, err) : source_read_fd(presets->files[index], fd, err);
	if (!code)
		code = presets_parse_source(presets->files[index], &one, err);
	more = reallocarray(presets->list, presets->count + one.count + 1, sizeof(*more));
	if (more) {
		presets->list = more;
		if (one.count)
			memcpy(more + presets->count, one.list, one.count * sizeof(*more));
		presets->count += one.count;
		one.count = 0;
	} else if (!code) {
		code = error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	}
	presets_free_list(&one);
	return code;
}

static int add_place(struct presets *presets, size_t index, const struct place *place, struct error *err)
{
	int fd = place_open(place, err), code;

	if (fd < 0)
		return fd;
	code = add_file(presets, index, place->path, fd, err);
	close(fd);
	return code;
}

static int add_own(struct presets *presets, const char *own, struct error *err)
{
	const struct place place = { .path = PRESETS_OWN };
	int code;

	if (own)
		return add_file(presets, 0, own, -1, err);
	code = add_place(presets, 0, &place, err);
	return code == -ENOENT ? 0 : code;
}

/* Not to be there is a fault of the installation, unless the caller brings presets of his own. */
static int add_installed(struct presets *presets, const char *own, struct error *err)
{
	const struct place installed = { .path = INSTALLED };
	char path[PATH_MAX];
	struct place tree;
	int code = find_tree(path, &tree) ? add_place(presets, 1, &tree, err) : -ENOENT;

	if (code == -ENOENT)
		code = add_place(presets, 1, &installed, err);
	if (code == -ENOENT && own)
		return 0;
	if (code == -ENOENT)
		error_set(err, code, EXIT_USAGE, "cannot open '%s': %s", INSTALLED, strerror(ENOENT));
	return code;
}

int presets_load(const char *own, struct presets **presets, struct error *err)
{
	struct presets *made = calloc(1, sizeof(*made));
	int code;

	*presets = NULL;
	if (!made)
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	code = add_own(made, own, err);
	if (!code)
		code = add_installed(made, own, err);
	if (code) {
		presets_free(made);
		return code;
	}
	*presets = made;
	return 0;
}
