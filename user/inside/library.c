// SPDX-License-Identifier: GPL-2.0-only
/*
 * The list of files, and what is remembered between scans:
 *
 *   process   its size when its maps were read last, and the files that were in them
 *   key       what maps calls a file (device and inode), in one mount namespace: which entry of the list it is
 *
 * A process is read again when its size without private memory has changed, which every newly mapped library does, and
 * from time to time in any case. Two subvolumes of btrfs share device and inode numbers in maps, so that those mean
 * the same file only within one mount namespace.
 */
#include "user/inside/library.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "user/inside/elf_file.h"
#include "user/inside/library_internal.h"

#define MAX_KEYS    (4 * LIBRARY_MAX_FILES)
#define BUCKETS     4096
#define LOOK_ALWAYS 64 /* scans after which a process is read again even if it looks unchanged; not all in one */
#define NONE        UINT32_MAX

struct key {
	uint64_t mounts; /* inode of the mount namespace */
	uint64_t device, inode;
	struct library *library; /* NULL: no file that could have functions */
	uint32_t processes;      /* of this scan */
	uint32_t reader;         /* the last reading of a process that met it */
	uint32_t next;           /* in its bucket, or in the list of unused ones */
	bool is_used;
};

struct watched {
	uint32_t pid;
	uint32_t scan; /* the last one that had it */
	uint64_t pages, text;
	uint32_t *keys;
	size_t count, room;
};

struct library_cache {
	struct key *keys;
	size_t key_count, key_room;
	uint32_t unused, buckets[BUCKETS];
	struct watched *watched; /* by pid */
	size_t watched_count, watched_room;
	uint32_t scan, reading;
};

static int no_memory(struct error *err)
{
	return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
}

/* Makes room for one more element. */
static int grow(void *array, size_t count, size_t *room, size_t size)
{
	void **place = array, *more;

	if (count < *room)
		return 0;
	more = reallocarray(*place, *room ? 2 * *room : 64, size);
	if (!more)
		return -ENOMEM;
	*place = more;
	*room = *room ? 2 * *room : 64;
	return 0;
}

/* ---- entries ---- */

static void library_free(struct library *library)
{
	if (library->fd >= 0)
		close(library->fd);
	free(library->path);
	free(library->soname);
	free(library);
}

void library_forget(struct library *library)
{
	if (library->fd >= 0)
		close(library->fd);
	library->fd = -1;
	library->attach_path[0] = '\0';
}

/*
 * A descriptor keeps an inode from being used again for another file. Where there is none any more, it takes size and
 * time of change as well to know a file again.
 */
static bool is_file(const struct library *library, const struct stat *st, uint64_t below)
{
	bool is_inode = library->dev == st->st_dev && library->inode == st->st_ino;

	if (!is_inode && (!below || library->below != below))
		return false;
	return library->fd >= 0 || (library->size == st->st_size && library->changed.tv_sec == st->st_mtim.tv_sec &&
				    library->changed.tv_nsec == st->st_mtim.tv_nsec);
}

static struct library *find_file(const struct library_list *list, const struct stat *st, uint64_t below)
{
	for (size_t i = 0; i < list->count; i++) {
		if (is_file(list->entries[i], st, below))
			return list->entries[i];
	}
	return NULL;
}

/* The SONAME of an ELF file, to be freed; NULL when it is none for this machine. */
static char *soname_of(int fd)
{
	struct elf_file *elf;
	struct error err;
	char *soname;

	if (elf_file_open(fd, "", &elf, &err))
		return NULL;
	soname = strdup(elf_file_soname(elf));
	elf_file_close(elf);
	return soname;
}

static struct library *new_library(int fd, const struct stat *st, const char *path, char *soname)
{
	struct library *library = calloc(1, sizeof(*library));

	if (!library)
		return NULL;
	library->dev = st->st_dev;
	library->inode = st->st_ino;
	library->size = st->st_size;
	library->changed = st->st_mtim;
	library->fd = fd;
	snprintf(library->attach_path, sizeof(library->attach_path), "/proc/self/fd/%d", fd);
	library->soname = soname;
	library->path = strdup(path);
	if (!library->path) {
		free(library);
		return NULL;
	}
	return library;
}

static int append(struct library_list *list, struct library *library)
{
	struct library **more = list->entries;

	if (!(list->count & (list->count - 1))) /* full at each power of two */
		more = reallocarray(list->entries, list->count ? 2 * list->count : 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	list->entries = more;
	list->entries[list->count++] = library;
	return 0;
}

int library_add(struct library_list *list, int fd, uint64_t below, const char *path, struct library **result,
		struct error *err)
{
	struct stat st;
	char *soname = NULL;

	*result = fstat(fd, &st) ? NULL : find_file(list, &st, below);
	if (!*result)
		soname = soname_of(fd);
	if (*result || !soname || list->count == LIBRARY_MAX_FILES) {
		list->is_truncated = list->is_truncated || soname;
		close(fd);
		free(soname);
		return 0;
	}
	*result = new_library(fd, &st, path, soname);
	if (!*result) {
		close(fd);
		free(soname);
		return no_memory(err);
	}
	(*result)->below = below;
	if (append(list, *result)) {
		library_free(*result);
		*result = NULL;
		return no_memory(err);
	}
	return 0;
}

/* ---- keys ---- */

static uint32_t *bucket_of(struct library_cache *cache, uint64_t mounts, uint64_t device, uint64_t inode)
{
	uint64_t hash = (mounts ^ device << 20 ^ inode) * 0x9e3779b97f4a7c15ULL;

	return &cache->buckets[hash >> 52];
}

static struct key *find_key(struct library_cache *cache, uint64_t mounts, uint64_t device, uint64_t inode)
{
	for (uint32_t i = *bucket_of(cache, mounts, device, inode); i != NONE; i = cache->keys[i].next) {
		struct key *key = &cache->keys[i];

		if (key->mounts == mounts && key->device == device && key->inode == inode)
			return key;
	}
	return NULL;
}

static struct key *add_key(struct library_cache *cache, uint64_t mounts, uint64_t device, uint64_t inode)
{
	uint32_t *bucket = bucket_of(cache, mounts, device, inode), index = cache->unused;
	struct key *key;

	if (index != NONE) {
		cache->unused = cache->keys[index].next;
	} else {
		if (grow(&cache->keys, cache->key_count, &cache->key_room, sizeof(*cache->keys)))
			return NULL;
		index = (uint32_t)cache->key_count++;
	}
	key = &cache->keys[index];
	*key = (struct key){ .mounts = mounts, .device = device, .inode = inode, .next = *bucket, .is_used = true };
	*bucket = index;
	return key;
}

static void drop_key(struct library_cache *cache, uint32_t index)
{
	struct key *key = &cache->keys[index];
	uint32_t *link = bucket_of(cache, key->mounts, key->device, key->inode);

	while (*link != index)
		link = &cache->keys[*link].next;
	*link = key->next;
	key->next = cache->unused;
	key->is_used = false;
	cache->unused = index;
}

/* Numbers may come to mean another file when nothing keeps the inode: neither a process nor a descriptor of ours. */
static void drop_stale_keys(struct library_cache *cache)
{
	for (uint32_t i = 0; i < cache->key_count; i++) {
		const struct key *key = &cache->keys[i];

		if (key->is_used && !key->processes && (!key->library || key->library->fd < 0))
			drop_key(cache, i);
	}
}

/* ---- one process ---- */

static uint64_t device_of(const struct map_line *map)
{
	return (uint64_t)map->major << 32 | map->minor;
}

static bool is_out_of_descriptors(int code)
{
	return code == -EMFILE || code == -ENFILE || code == -ENOMEM;
}

/* What a map is of, as an entry of the list; NULL when it is no file with functions. -ESTALE: it is gone. */
static int open_mapped(struct library_list *list, uint32_t pid, const struct map_line *map, struct library **library,
		       struct error *err)
{
	bool is_deleted;
	char *shown;
	int fd = map_open(pid, map, &is_deleted), code;

	*library = NULL;
	if (is_out_of_descriptors(fd))
		return error_set(err, fd, EXIT_FAILED, "cannot open '%s': %s", map->path, strerror(-fd));
	if (fd < 0)
		return fd == -ESTALE ? fd : 0;
	shown = map_path_shown(map->path, is_deleted);
	if (!shown) {
		close(fd);
		return no_memory(err);
	}
	code = library_add(list, fd, file_below(fd, map), shown, library, err);
	free(shown);
	if (*library)
		(*library)->is_deleted = is_deleted;
	return code;
}

static int new_key(struct library_list *list, uint32_t pid, const struct map_line *map, uint64_t mounts,
		   struct key **key, struct error *err)
{
	struct library *library;
	int code = open_mapped(list, pid, map, &library, err);

	if (code)
		return code;
	*key = add_key(list->cache, mounts, device_of(map), map->inode);
	if (!*key)
		return no_memory(err);
	(*key)->library = library;
	return 0;
}

static int take_line(struct library_list *list, struct watched *w, const struct map_line *map, uint64_t mounts,
		     struct error *err)
{
	struct library_cache *cache = list->cache;
	struct key *key = find_key(cache, mounts, device_of(map), map->inode);
	int code;

	if (!key && cache->key_count == MAX_KEYS && cache->unused == NONE) {
		list->is_truncated = true;
		return 0;
	}
	if (!key) {
		code = new_key(list, w->pid, map, mounts, &key, err);
		if (code == -ESTALE)
			w->pages = 0; /* to be read again, if it is the mapping alone that is gone */
		if (code)
			return code == -ESTALE ? 0 : code;
	}
	if (key->reader == cache->reading)
		return 0;
	key->reader = cache->reading;
	if (key->library && has_deleted_mark(map->path) && !has_deleted_mark(key->library->path))
		key->library->is_deleted = true;
	if (grow(&w->keys, w->count, &w->room, sizeof(*w->keys)))
		return no_memory(err);
	w->keys[w->count++] = (uint32_t)(key - cache->keys);
	return 0;
}

static uint64_t inode_of(uint32_t pid, const char *name, struct stat *st)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/%s", pid, name);
	return stat(path, st) == 0 ? st->st_ino : 0;
}

static void note_program(const struct library_list *list, const struct watched *w)
{
	struct stat st;

	if (!inode_of(w->pid, "exe", &st))
		return;
	for (size_t i = 0; i < w->count; i++) {
		struct library *library = list->cache->keys[w->keys[i]].library;

		if (library && library->dev == st.st_dev && library->inode == st.st_ino)
			library->is_program = true;
	}
}

static int read_maps(struct library_list *list, struct watched *w, struct error *err)
{
	struct stat st;
	struct map_line map;
	uint64_t mounts = inode_of(w->pid, "ns/mnt", &st);
	char path[32], *line = NULL;
	size_t size = 0;
	FILE *maps;
	int code = 0;

	w->count = 0;
	list->cache->reading++;
	snprintf(path, sizeof(path), "/proc/%u/maps", w->pid);
	maps = fopen(path, "re");
	if (!maps) {
		list->unreadable += errno != ENOENT && errno != ESRCH;
		return errno == EMFILE ? error_set(err, -EMFILE, EXIT_FAILED, "cannot open '%s': %m", path) : 0;
	}
	for (int i = 0; i < LIBRARY_MAX_LINES && !code && getline(&line, &size, maps) > 0; i++) {
		if (map_line_parse(line, &map))
			code = take_line(list, w, &map, mounts, err);
	}
	list->is_truncated = list->is_truncated || (!code && !feof(maps) && !ferror(maps));
	free(line);
	fclose(maps);
	if (!code)
		note_program(list, w);
	return code;
}

/* Pages of the process but for its private, writable ones, and those of its program's code. */
static bool read_size(uint32_t pid, uint64_t *pages, uint64_t *text)
{
	uint64_t size, data;
	char path[32], buf[128];
	int fd;
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%u/statm", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	len = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);
	if (fd >= 0)
		close(fd);
	if (len <= 0)
		return false;
	buf[len] = '\0';
	if (sscanf(buf, "%" SCNu64 " %*u %*u %" SCNu64 " %*u %" SCNu64, &size, text, &data) != 3)
		return false;
	*pages = size - data;
	return size > 0;
}

static int scan_one(struct library_list *list, struct watched *w, struct error *err)
{
	uint64_t pages = 0, text = 0;
	int code = 0;

	w->scan = list->cache->scan;
	if (!read_size(w->pid, &pages, &text)) { /* ended, or a kernel thread */
		w->count = 0;
		w->pages = 0;
		return 0;
	}
	if (pages != w->pages || text != w->text || (w->scan + w->pid) % LOOK_ALWAYS == 0) {
		w->pages = pages;
		w->text = text;
		code = read_maps(list, w, err);
	}
	for (size_t i = 0; i < w->count; i++) {
		struct key *key = &list->cache->keys[w->keys[i]];

		key->processes++;
		if (key->library && !key->library->processes++)
			key->library->pid = w->pid;
	}
	return code;
}

/* ---- all of them ---- */

static int by_pid(const void *a, const void *b)
{
	const struct watched *x = a, *y = b;

	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

/* New ones stand behind the `known` ones until the scan is done. */
static struct watched *find_watched(struct library_cache *cache, size_t known, uint32_t pid)
{
	struct watched key = { .pid = pid };

	return known ? bsearch(&key, cache->watched, known, sizeof(key), by_pid) : NULL;
}

static void drop_ended(struct library_cache *cache)
{
	size_t kept = 0;

	for (size_t i = 0; i < cache->watched_count; i++) {
		if (cache->watched[i].scan == cache->scan)
			cache->watched[kept++] = cache->watched[i];
		else
			free(cache->watched[i].keys);
	}
	cache->watched_count = kept;
	if (kept)
		qsort(cache->watched, kept, sizeof(*cache->watched), by_pid);
}

static int scan_all(struct library_list *list, const uint32_t *pids, size_t count, struct error *err)
{
	struct library_cache *cache = list->cache;
	size_t known = cache->watched_count;
	int code = 0;

	for (size_t i = 0; i < count && !code; i++) {
		struct watched *w = find_watched(cache, known, pids[i]);

		if (w && w->scan == cache->scan) /* twice in pids */
			continue;
		if (!w) {
			if (grow(&cache->watched, cache->watched_count, &cache->watched_room, sizeof(*w)))
				return no_memory(err);
			w = &cache->watched[cache->watched_count++];
			*w = (struct watched){ .pid = pids[i] };
		}
		code = scan_one(list, w, err);
	}
	return code;
}

static struct library_cache *new_cache(void)
{
	struct library_cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return NULL;
	cache->unused = NONE;
	for (size_t i = 0; i < BUCKETS; i++)
		cache->buckets[i] = NONE;
	return cache;
}

int library_scan(struct library_list *list, const uint32_t *pids, size_t count, struct error *err)
{
	int code;

	if (!list->cache)
		list->cache = new_cache();
	if (!list->cache)
		return no_memory(err);
	list->cache->scan++;
	list->unreadable = 0;
	for (size_t i = 0; i < list->count; i++)
		list->entries[i]->processes = 0;
	for (size_t i = 0; i < list->cache->key_count; i++)
		list->cache->keys[i].processes = 0;
	code = scan_all(list, pids, count, err);
	drop_ended(list->cache);
	if (!code)
		drop_stale_keys(list->cache);
	return code;
}

void library_list_free(struct library_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		library_free(list->entries[i]);
	free(list->entries);
	if (list->cache) {
		for (size_t i = 0; i < list->cache->watched_count; i++)
			free(list->cache->watched[i].keys);
		free(list->cache->watched);
		free(list->cache->keys);
		free(list->cache);
	}
	memset(list, 0, sizeof(*list));
}
