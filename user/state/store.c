// SPDX-License-Identifier: GPL-2.0-only
#include "user/state/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <linux/magic.h>

#define RECORD            STORE_RUN "/load"
#define MOUNTED           STORE_RUN "/mounted-bpffs" /* the bpffs is of our making */
#define RECORD_MAX        4096
#define GENERATION_PREFIX "gen-"

/* ---- directories ------------------------------------------------------------------------------------------------ */

static bool is_bpffs(const char *path)
{
	struct statfs fs;

	return statfs(path, &fs) == 0 && (unsigned long)fs.f_type == BPF_FS_MAGIC;
}

/* A directory that is root's alone, and no link to somewhere else. */
static int make_dir(const char *path, struct error *err)
{
	struct stat st;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return error_set(err, -errno, EXIT_FAILED, "cannot make %s: %s", path, strerror(errno));
	if (lstat(path, &st) < 0)
		return error_set(err, -errno, EXIT_FAILED, "cannot look at %s: %s", path, strerror(errno));
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 077)
		return error_set(err, -EPERM, EXIT_FAILED, "%s is not a directory of root's alone", path);
	return 0;
}

int store_make(struct error *err)
{
	int ret = make_dir(STORE_RUN, err);

	if (ret)
		return ret;
	if (!is_bpffs(STORE_BPFFS)) {
		if (mount("bpf", STORE_BPFFS, "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700") < 0)
			return error_set(err, -errno, EXIT_FAILED, "cannot mount bpffs on " STORE_BPFFS ": %s",
					 strerror(errno));
		close(open(MOUNTED, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
	}
	return make_dir(STORE_PINS, err);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static int write_all(int fd, const char *data, size_t size)
{
	while (size) {
		ssize_t written = write(fd, data, size);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return -errno;
		data += written;
		size -= written;
	}
	return 0;
}

int store_write_file(const char *path, const void *data, size_t size, struct error *err)
{
	char fresh[128];
	int fd, ret;

	snprintf(fresh, sizeof(fresh), "%s.new", path);
	unlink(fresh);
	fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return error_set(err, -errno, EXIT_FAILED, "cannot write %s: %s", fresh, strerror(errno));
	ret = write_all(fd, data, size);
	if (close(fd) < 0 && !ret)
		ret = -errno;
	if (!ret && rename(fresh, path) < 0)
		ret = -errno;
	if (ret) {
		unlink(fresh);
		return error_set(err, ret, EXIT_FAILED, "cannot write %s: %s", path, strerror(-ret));
	}
	return 0;
}

int store_read_file(const char *path, size_t max, void **data, size_t *size, struct error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), ret = 0;
	struct stat st;
	ssize_t len;

	*data = NULL;
	*size = 0;
	if (fd < 0)
		return error_set(err, -errno, EXIT_FAILED, "cannot open %s: %s", path, strerror(errno));
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (size_t)st.st_size > max) {
		ret = error_set(err, -EBADMSG, EXIT_FAILED, "%s is not what chaosbpf writes", path);
		goto out;
	}
	*data = malloc(st.st_size + 1);
	if (!*data) {
		ret = error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
		goto out;
	}
	len = read(fd, *data, st.st_size);
	if (len < 0) {
		ret = error_set(err, -errno, EXIT_FAILED, "cannot read %s: %s", path, strerror(errno));
		free(*data);
		*data = NULL;
		goto out;
	}
	((char *)*data)[len] = '\0';
	*size = len;
out:
	close(fd);
	return ret;
}

int store_write_record(const struct store_record *r, struct error *err)
{
	char text[RECORD_MAX];
	int len;

	len = snprintf(text, sizeof(text),
		       "chaosbpf 1\ngeneration %u\nobserve %d\nover %d\nloaded_at %" PRIu64 "\nend %" PRIu64
		       "\nowner %d %" PRIu64 "\nreaper %d %" PRIu64 "\ncommand %s\nfile %s\n",
		       r->generation, r->observe, r->over, r->loaded_at_s, r->end_ns, r->owner.pid, r->owner.started,
		       r->reaper.pid, r->reaper.started, r->command, r->file);
	return store_write_file(RECORD, text, len, err);
}

int store_read_record(struct store_record *r, struct error *err)
{
	int ret, observe, over;
	size_t size;
	void *data;

	memset(r, 0, sizeof(*r));
	ret = store_read_file(RECORD, RECORD_MAX, &data, &size, err);
	if (ret)
		return ret;
	if (sscanf(data,
		   "chaosbpf 1 generation %u observe %d over %d loaded_at %" SCNu64 " end %" SCNu64 " owner %d %" SCNu64
		   " reaper %d %" SCNu64 " command %15s file %255[^\n]",
		   &r->generation, &observe, &over, &r->loaded_at_s, &r->end_ns, &r->owner.pid, &r->owner.started,
		   &r->reaper.pid, &r->reaper.started, r->command, r->file) != 11 ||
	    !r->generation)
		ret = error_set(err, -EBADMSG, EXIT_FAILED, RECORD " is damaged; `chaosbpf stop` cleans up");
	r->observe = observe;
	r->over = over;
	free(data);
	return ret;
}

/* ---- pins --------------------------------------------------------------------------------------------------------- */

void store_generation_dir(uint32_t generation, char *path, size_t size)
{
	snprintf(path, size, STORE_PINS "/" GENERATION_PREFIX "%u", generation);
}

int store_make_generation_dir(uint32_t generation, struct error *err)
{
	char path[64];

	store_generation_dir(generation, path, sizeof(path));
	return make_dir(path, err);
}

int store_open_pin(uint32_t generation, const char *name)
{
	char path[128];
	int fd;

	if (generation)
		snprintf(path, sizeof(path), STORE_PINS "/" GENERATION_PREFIX "%u/%s", generation, name);
	else
		snprintf(path, sizeof(path), STORE_PINS "/%s", name);
	fd = bpf_obj_get(path);
	return fd < 0 ? -errno : fd;
}

/* Calls fn for every load that has pins. */
static int each_generation(int (*fn)(uint32_t generation, const char *name, void *arg), void *arg)
{
	DIR *dir = opendir(STORE_PINS);
	struct dirent *entry;
	int sum = 0;

	if (!dir)
		return 0;
	while ((entry = readdir(dir))) {
		if (strncmp(entry->d_name, GENERATION_PREFIX, strlen(GENERATION_PREFIX)) == 0)
			sum += fn(strtoul(entry->d_name + strlen(GENERATION_PREFIX), NULL, 10), entry->d_name, arg);
	}
	closedir(dir);
	return sum;
}

static int remember_highest(uint32_t generation, const char *name, void *arg)
{
	uint32_t *highest = arg;

	(void)name;
	if (generation > *highest)
		*highest = generation;
	return 1;
}

int store_open_finished(uint32_t generation, struct finished_maps *maps)
{
	maps->finished_fd = store_open_pin(generation, "chaos_finished");
	maps->call_over_fd = store_open_pin(generation, "chaos_call_over");
	return maps->finished_fd < 0 ? maps->finished_fd : maps->call_over_fd < 0 ? maps->call_over_fd : 0;
}

void store_close_finished(struct finished_maps *maps)
{
	if (maps->finished_fd >= 0)
		close(maps->finished_fd);
	if (maps->call_over_fd >= 0)
		close(maps->call_over_fd);
}

uint32_t store_next_generation(void)
{
	struct store_record record;
	uint32_t highest = 0;
	struct error ignored;

	each_generation(remember_highest, &highest);
	if (store_read_record(&record, &ignored) == 0 && record.generation > highest)
		highest = record.generation;
	return highest + 1;
}

/* Removes what is in a directory, not deeper. */
static int empty_dir(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	int ret = 0;

	if (!dir)
		return errno == ENOENT ? 0 : -errno;
	while ((entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (unlinkat(dirfd(dir), entry->d_name, 0) < 0 && errno != ENOENT && !ret)
			ret = -errno;
	}
	closedir(dir);
	return ret;
}

static int remove_generation(uint32_t generation, const char *name, void *arg)
{
	const uint32_t *keep = arg;
	char path[384];

	if (*keep && generation == *keep)
		return 0;
	snprintf(path, sizeof(path), STORE_PINS "/%s", name);
	empty_dir(path);
	return rmdir(path) == 0;
}

int store_remove_generations(uint32_t keep)
{
	return each_generation(remove_generation, &keep);
}

void store_remove_shared(void)
{
	unlink(STORE_PINS "/chaos_control");
	unlink(STORE_PINS "/chaos_sock");
	rmdir(STORE_PINS);
}

/* ---- everything --------------------------------------------------------------------------------------------------- */

static bool is_empty(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	bool empty = dir != NULL;

	while (dir && (entry = readdir(dir))) {
		/* The kernel's own iterators stand in every new bpffs. */
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
		    strcmp(entry->d_name, "maps.debug") != 0 && strcmp(entry->d_name, "progs.debug") != 0)
			empty = false;
	}
	if (dir)
		closedir(dir);
	return empty;
}

int store_remove_all(void)
{
	int ret, other;

	store_remove_generations(0);
	ret = empty_dir(STORE_PINS);
	if (rmdir(STORE_PINS) < 0 && errno != ENOENT && !ret)
		ret = -errno;
	if (access(MOUNTED, F_OK) == 0 && is_empty(STORE_BPFFS))
		umount(STORE_BPFFS);
	other = empty_dir(STORE_RUN);
	if (rmdir(STORE_RUN) < 0 && errno != ENOENT && !other)
		other = -errno;
	return ret ? ret : other;
}
