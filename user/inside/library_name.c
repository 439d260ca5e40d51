// SPDX-License-Identifier: GPL-2.0-only
/* What a rule's `library` means: among the files that are mapped, and on disk before anybody maps it. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "user/inside/library_internal.h"

#define MIN_HASH  8 /* digits; what wheels put into names */
#define MAX_CACHE (64u << 20)

/* ---- names ---- */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Is `have` `want`, or that with a version behind it? */
static bool goes_on(const char *have, const char *want)
{
	size_t len = strlen(want);

	return strncmp(have, want, len) == 0 && (have[len] == '\0' || have[len] == '.');
}

/* "libcudart-d0da41ae.so.12.1.105" is "libcudart.so.12": auditwheel puts a hash behind the name. */
static bool goes_on_behind_hash(const char *have, const char *want)
{
	size_t stem = strcspn(want, "."), digits;

	if (!stem || strncmp(have, want, stem) != 0 || have[stem] != '-')
		return false;
	have += stem + 1;
	digits = strspn(have, "0123456789abcdef");
	return digits >= MIN_HASH && goes_on(have + digits, want + stem);
}

static bool name_is(const char *have, const char *want)
{
	return goes_on(have, want) || goes_on_behind_hash(have, want);
}

/* ---- paths ---- */

/* Opens a path below a root as a process that has this root would: no symbolic link leads out of it. */
static int open_below(const char *root, const char *path)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC), fd;

	if (dir < 0)
		return -errno;
	fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
	if (fd < 0)
		fd = -errno;
	close(dir);
	return fd;
}

/* In two overlays a file has two devices, and the rest is the same. */
static bool is_seen_elsewhere(const struct library *library, const struct stat *st)
{
	return library->below && library->size == st->st_size && library->changed.tv_sec == st->st_mtim.tv_sec &&
	       library->changed.tv_nsec == st->st_mtim.tv_nsec;
}

static bool is_inode(const struct library *library, const char *root, const char *path)
{
	struct stat st;
	int fd = open_below(root, path);
	bool is_it;

	if (fd < 0)
		return false;
	is_it = fstat(fd, &st) == 0 && st.st_ino == library->inode &&
		(st.st_dev == library->dev || is_seen_elsewhere(library, &st));
	close(fd);
	return is_it;
}

/* The file that had this path until it was replaced: of the same folder, and of a name that can be the wanted one. */
static bool was_replaced(const struct library *library, const char *path)
{
	char folder[PATH_MAX], real[PATH_MAX];
	size_t len = (size_t)(base_name(library->path) - library->path);

	if (!library->is_deleted || !name_is(base_name(library->path), base_name(path)))
		return false;
	snprintf(folder, sizeof(folder), "%.*s", (int)(base_name(path) - path), path);
	if (!realpath(folder, real))
		return false;
	return strlen(real) + 1 == len && strncmp(real, library->path, len - 1) == 0;
}

static bool path_is(const struct library *library, const char *path)
{
	char root[32];

	if (strcmp(library->path, path) == 0 || is_inode(library, "/", path))
		return true;
	snprintf(root, sizeof(root), "/proc/%u/root", library->pid);
	return (library->pid && is_inode(library, root, path)) || was_replaced(library, path);
}

bool library_is(const struct library *library, const char *word)
{
	if (strchr(word, '/'))
		return path_is(library, word);
	return name_is(base_name(library->path), word) || name_is(library->soname, word);
}

/* ---- on disk ---- */

/*
 * /etc/ld.so.cache as glibc 2.1 and later write it: sysdeps/generic/dl-cache.h. Until 2.32 the old table stood before
 * it. The names are offsets from the beginning of the new one.
 */
#define OLD_MAGIC "ld.so-1.7.0"
#define NEW_MAGIC "glibc-ld.so.cache1.1"
struct cache_head {
	char magic[20];
	uint32_t count, text_size;
	uint8_t flags, pad[3];
	uint32_t extensions, unused[3];
};
struct cache_entry {
	int32_t flags;
	uint32_t name, path, os;
	uint64_t capabilities;
};
struct old_head {
	char magic[12]; /* sizeof(OLD_MAGIC) */
	uint32_t count;
};
#define OLD_ENTRY 12 /* bytes */

#ifdef __aarch64__
#define CACHE_FLAGS 0x0a03 /* FLAG_AARCH64_LIB64 | FLAG_ELF_LIBC6 */
#else
#define CACHE_FLAGS 0x0303 /* FLAG_X8664_LIB64 | FLAG_ELF_LIBC6 */
#endif

static char *read_whole(int fd, size_t *size)
{
	struct stat st;
	char *text = NULL;
	ssize_t len;

	if (fstat(fd, &st) || st.st_size > MAX_CACHE)
		return NULL;
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return NULL;
	len = read(fd, text, (size_t)st.st_size);
	if (len < 0) {
		free(text);
		return NULL;
	}
	text[len] = '\0';
	*size = (size_t)len;
	return text;
}

/* Where the new table begins, or `size`. */
static size_t skip_old(const char *text, size_t size)
{
	struct old_head old;
	size_t at;

	if (size < sizeof(old) || memcmp(text, OLD_MAGIC, sizeof(OLD_MAGIC) - 1) != 0)
		return 0;
	memcpy(&old, text, sizeof(old));
	at = sizeof(old) + (size_t)old.count * OLD_ENTRY;
	at = (at + 7) / 8 * 8;
	return at < size ? at : size;
}

static const char *name_at(const char *text, size_t size, uint32_t offset)
{
	return offset < size ? text + offset : "";
}

/* The path that the cache has for a name: the one for every CPU, where there are several. To be freed, or NULL. */
static char *find_cached(const char *text, size_t size, const char *name)
{
	struct cache_head head;
	struct cache_entry entry;
	const char *found = NULL;
	size_t begin = skip_old(text, size);

	text += begin;
	size -= begin;
	if (size < sizeof(head) || memcmp(text, NEW_MAGIC, sizeof(head.magic)) != 0)
		return NULL;
	memcpy(&head, text, sizeof(head));
	for (size_t i = 0, at = sizeof(head); i < head.count && at + sizeof(entry) <= size; i++, at += sizeof(entry)) {
		memcpy(&entry, text + at, sizeof(entry));
		if (entry.flags != CACHE_FLAGS || strcmp(name_at(text, size, entry.name), name) != 0)
			continue;
		if (!found || !entry.capabilities)
			found = name_at(text, size, entry.path);
	}
	return found && *found ? strdup(found) : NULL;
}

static char *cached_path(const char *root, const char *name)
{
	int fd = open_below(root, "/etc/ld.so.cache");
	size_t size = 0;
	char *text, *path = NULL;

	fd = fd < 0 ? fd : open_regular(fd);
	if (fd < 0)
		return NULL;
	text = read_whole(fd, &size);
	if (text)
		path = find_cached(text, size, name);
	free(text);
	close(fd);
	return path;
}

/* Opens for reading; the path must be that of a regular file. */
static int open_file_below(const char *root, const char *path)
{
	int fd = open_below(root, path);

	return fd < 0 ? fd : open_regular(fd);
}

/* Where loaders look without a cache, and where programs are. musl has no cache. */
static int open_usual(const char *root, const char *name, char *path, size_t size)
{
	static const char *const folders[] = {
#ifdef __aarch64__
		"/lib/aarch64-linux-gnu",
		"/usr/lib/aarch64-linux-gnu",
#else
		"/lib/x86_64-linux-gnu",
		"/usr/lib/x86_64-linux-gnu",
#endif
		"/lib64",
		"/usr/lib64",
		"/lib",
		"/usr/lib",
		"/usr/local/lib",
		"/usr/local/bin",
		"/usr/bin",
		"/bin",
		"/usr/local/sbin",
		"/usr/sbin",
		"/sbin",
		NULL,
	};
	int fd = -ENOENT;

	for (size_t i = 0; folders[i] && fd < 0; i++) {
		snprintf(path, size, "%s/%s", folders[i], name);
		fd = open_file_below(root, path);
	}
	return fd;
}

int library_on_disk(struct library_list *list, const char *root, const char *word, struct library **library,
		    struct error *err)
{
	char path[PATH_MAX], *cached = NULL;
	int fd;

	*library = NULL;
	if (!strchr(word, '/'))
		cached = cached_path(root, word);
	snprintf(path, sizeof(path), "%s", cached ? cached : word);
	free(cached);
	fd = path[0] == '/' ? open_file_below(root, path) : -ENOENT;
	if (fd < 0 && !strchr(word, '/'))
		fd = open_usual(root, word, path, sizeof(path));
	if (fd == -EMFILE || fd == -ENFILE)
		return error_set(err, fd, EXIT_FAILED, "cannot open '%s': %s", path, strerror(-fd));
	return fd < 0 ? 0 : library_add(list, fd, file_below(fd, NULL), path, library, err);
}
