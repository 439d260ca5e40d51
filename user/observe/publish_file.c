// SPDX-License-Identifier: GPL-2.0-only
#include "user/observe/publish.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int write_all(int fd, const char *text, size_t len)
{
	while (len) {
		ssize_t done = write(fd, text, len);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -errno;
		text += done;
		len -= (size_t)done;
	}
	return 0;
}

/* Those of the file that is there; a link is replaced, not followed. */
static int set_mode(int fd, const char *path, bool readable)
{
	struct stat st;

	if (lstat(path, &st) || !S_ISREG(st.st_mode))
		return fchmod(fd, readable ? 0644 : 0600) ? -errno : 0;
	if (fchown(fd, st.st_uid, st.st_gid) || fchmod(fd, readable ? 0644 : st.st_mode & 0666))
		return -errno;
	return 0;
}

static int replace(const char *path, char *beside, const char *text, size_t len, bool readable)
{
	int fd = mkostemp(beside, O_CLOEXEC), ret;

	if (fd < 0)
		return -errno;
	ret = set_mode(fd, path, readable);
	ret = ret ?: write_all(fd, text, len);
	if (close(fd) && !ret)
		ret = -errno;
	if (!ret && rename(beside, path))
		ret = -errno;
	if (ret)
		unlink(beside);
	return ret;
}

int publish_file(const char *path, const char *text, size_t len, bool readable, struct error *err)
{
	char *copy = strdup(path), *beside = NULL;
	int ret;

	/* A name that no collector takes for one of its files. */
	if (!copy || asprintf(&beside, "%s/.chaosbpf-XXXXXX", dirname(copy)) < 0) {
		free(copy);
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	}
	ret = replace(path, beside, text, len, readable);
	free(beside);
	free(copy);
	return ret ? error_set(err, ret, EXIT_FAILED, "cannot write '%s': %s", path, strerror(-ret)) : 0;
}
