/* SPDX-License-Identifier: GPL-2.0-only */
/* Small programs and libraries that tests compile for themselves, each in a directory of its own. */
#ifndef TESTS_COMPILE_H
#define TESTS_COMPILE_H

#include <criterion/criterion.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char compile_dir[] = "/tmp/chaosbpf-compile-XXXXXX";

static int compile_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static void compile_ends(void)
{
	nftw(compile_dir, compile_remove, 16, FTW_DEPTH | FTW_PHYS);
}

static void compile_begins(void)
{
	cr_assert_not_null(mkdtemp(compile_dir));
	chmod(compile_dir, 0755); /* for tests that change users */
}

/* The path of a file in the directory; the last sixteen results are valid. */
static inline const char *compile_path(const char *name)
{
	static char paths[16][512];
	static int next;

	next = (next + 1) % 16;
	snprintf(paths[next], sizeof(paths[next]), "%s/%s", compile_dir, name);
	return paths[next];
}

static inline void compile_text(const char *name, const char *text)
{
	FILE *file = fopen(compile_path(name), "w");

	cr_assert_not_null(file);
	fputs(text, file);
	fclose(file);
}

/* Compiles C into a file in the directory; options such as "-shared -fPIC". */
static inline const char *compile(const char *name, const char *source, const char *options)
{
	const char *path = compile_path(name);
	char command[2048];

	compile_text("source.c", source);
	snprintf(command, sizeof(command), "cd %s && ${CC:-cc} -O1 -w -o %s source.c %s", compile_dir, path, options);
	cr_assert_eq(system(command), 0, "%s", command);
	return path;
}

#endif
