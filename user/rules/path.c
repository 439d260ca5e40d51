// SPDX-License-Identifier: GPL-2.0-only
#include "user/rules/path.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Resolves the first `len` bytes of the path, and puts the rest behind that. NULL: there is no such file. */
static char *resolve_beginning(const char *path, size_t len)
{
	char *beginning = strndup(path, len), *real, *whole = NULL;

	real = beginning ? realpath(len ? beginning : "/", NULL) : NULL;
	if (real) {
		const char *root = strcmp(real, "/") == 0 ? "" : real;

		whole = malloc(strlen(root) + strlen(path + len) + 1);
		if (whole)
			stpcpy(stpcpy(whole, root), path + len);
	}
	free(real);
	free(beginning);
	return whole;
}

char *path_resolve(const char *path)
{
	size_t len = strcspn(path, "*");
	char *real = NULL;

	/* Of `/a/b*` only the directory is a file; of what does not exist, as much as does. */
	while (len && path[len] && path[len] != '/')
		len--;
	while (len && !(real = resolve_beginning(path, len))) {
		do
			len--;
		while (len && path[len] != '/');
	}
	if (real && strcmp(real, path) == 0) {
		free(real);
		return NULL;
	}
	return real;
}

int paths_resolve(struct rules *rules, struct error *err)
{
	for (size_t i = 0; i < rules->count; i++) {
		struct fault *fault = &rules->rules[i].fault;

		if (!fault->path.text || fault->real_path)
			continue;
		errno = 0;
		fault->real_path = path_resolve(fault->path.text);
		if (!fault->real_path && errno == ENOMEM)
			return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	}
	return 0;
}
