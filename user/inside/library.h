/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Executable files that processes have mapped: programs and libraries, each once, however many processes map it and
 * under whatever path, in whatever container. What a probe is put on is the file, not the name; containers of one image
 * have one, though each sees it in an overlayfs of its own.
 *
 * A scan is meant to be repeated several times a second: what has not changed since the last one costs a small read for
 * each process.
 */
#ifndef USER_LIBRARY_H
#define USER_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "user/base/error.h"

#define LIBRARY_MAX_FILES 4096  /* that one list knows */
#define LIBRARY_MAX_LINES 65536 /* of one process's maps */

struct library {
	dev_t dev; /* of the file, as stat() has them: also when maps shows others (btrfs, overlayfs) */
	ino_t inode;
	int fd; /* opened for reading; -1 after library_forget() */
	/*
	 * What to attach to: "/proc/self/fd/N", which the kernel resolves to the very inode, replaced or deleted or in
	 * another mount namespace. For this process only, and until library_forget().
	 */
	char attach_path[32];
	char *path;              /* for people, as the process has it; control characters are written \ooo */
	char *soname;            /* DT_SONAME, or "" */
	bool is_program;         /* some process runs it as its program */
	bool is_deleted;         /* not on disk any more under this path */
	bool seen;               /* the caller's: false when the entry is new */
	uint32_t processes;      /* of the last scan that map it; 0 also for files that no process maps yet */
	uint32_t pid;            /* one that maps it or did; 0: none */
	struct timespec changed; /* by this and the size a file is known again after library_forget() */
	off_t size;
	uint64_t below; /* stands for the file that an overlayfs shows; 0: it is none */
};

struct library_cache;
struct library_list {
	struct library **entries; /* stay as long as the list */
	size_t count;
	bool is_truncated;           /* there were more than the limits allow: say so */
	uint32_t unreadable;         /* processes of the last scan whose maps could not be read, and that still run */
	struct library_cache *cache; /* of library.c */
};

/*
 * Brings the list up to what these processes map now: new files are appended. Processes that end meanwhile, kernel
 * threads and zombies have none. An empty list is zeroed. Fails only for want of memory or descriptors.
 */
int library_scan(struct library_list *list, const uint32_t *pids, size_t count, struct error *err);
void library_list_free(struct library_list *list);

/* The caller is not interested: closes the descriptor, the entry stays known. */
void library_forget(struct library *library);

/*
 * Is this the file that a rule's `library` means?
 *
 * With a slash: the path, on the host or in the root of a process that maps it. Else the base name of its path, or its
 * SONAME; both may go on with a version ("libcurl.so.4" is libcurl.so.4.8.0, "python3" is python3.11), and may hold the
 * eight or more hexadecimal digits by which wheels make names unique ("libcudart.so.12" is
 * libcudart-d0da41ae.so.12.1.105).
 */
bool library_is(const struct library *library, const char *word);

/*
 * Appends the file that the dynamic linker would take for this name (by /etc/ld.so.cache, else the usual directories;
 * or a program, by the usual ones), or that has this path, in the file tree below `root` ("/", "/proc/PID/root"): for
 * probes that are there before the file is first opened. Symbolic links stay below `root`. *library is NULL when there
 * is none. LD_LIBRARY_PATH and RPATH of programs to come are not known.
 */
int library_on_disk(struct library_list *list, const char *root, const char *word, struct library **library,
		    struct error *err);

#endif
