/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files behind user/inside/library.h share. */
#ifndef USER_LIBRARY_INTERNAL_H
#define USER_LIBRARY_INTERNAL_H

#include "user/inside/library.h"

/* ---- library_maps.c: one process ---- */

/* A line of /proc/PID/maps. */
struct map_line {
	uint64_t start, end;
	uint32_t major, minor;
	uint64_t inode;
	char *path; /* within the line; newlines as they are, " (deleted)" still there */
};

/* Takes apart a line of a file that is mapped executable; false for all others. Changes the line. */
bool map_line_parse(char *line, struct map_line *map);

/* Writes the path as it can be shown, without " (deleted)" if is_deleted; to be freed. */
char *map_path_shown(const char *path, bool is_deleted);

/*
 * Opens the mapped file: below the root of the process if that is still the same, else by /proc/PID/map_files. Returns
 * the descriptor, opened for reading, or a negative errno: -ESTALE when the process or the mapping is gone, -EINVAL
 * when it is no file that can be read.
 */
int map_open(uint32_t pid, const struct map_line *map, bool *is_deleted);

/* Opens for reading what the O_PATH descriptor is, if a regular file (else -EINVAL); takes the descriptor over. */
int open_regular(int fd);

/*
 * A number that stands for the file which an overlayfs shows, the same in all of them that show it; 0 for files of
 * other file systems and if the kernel does not tell. Probes are put on that one: two for two containers of one image
 * would be two for each. `map` may be NULL.
 */
uint64_t file_below(int fd, const struct map_line *map);

/* Ends the text as the kernel marks a file that is not on disk any more? Files can be called so. */
bool has_deleted_mark(const char *path);

/* ---- library.c ---- */

/*
 * Appends an opened file, or finds it in the list. Takes the descriptor over; `below` is of file_below(). *library is
 * NULL for no ELF file.
 */
int library_add(struct library_list *list, int fd, uint64_t below, const char *path, struct library **library,
		struct error *err);

#endif
