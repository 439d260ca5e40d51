// SPDX-License-Identifier: GPL-2.0-only
#include "tests/findings_file.h"

#include <criterion/criterion.h>
#include <ftw.h>
#include <jansson.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char place[] = "/tmp/chaosbpf-findings-XXXXXX";
static char source[PATH_MAX];

void findings_enter(void)
{
	cr_assert(getcwd(source, sizeof(source)));
	cr_assert(mkdtemp(place) && chdir(place) == 0);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st;
	(void)kind;
	(void)ftw;
	return remove(path);
}

void findings_leave(void)
{
	cr_assert_eq(chdir("/"), 0);
	nftw(place, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *findings_source(void)
{
	return source;
}

char *file_text(const char *file)
{
	FILE *in = fopen(file, "r");
	char *text = NULL;
	size_t size = 0;

	cr_assert(in, "no file '%s'", file);
	if (getdelim(&text, &size, '\0', in) < 0)
		text = strdup("");
	fclose(in);
	return text;
}

void findings_old(const char *file)
{
	char path[PATH_MAX + 64], *sql;
	sqlite3 *db;

	snprintf(path, sizeof(path), "%s/tests/data/findings-1.sql", source);
	sql = file_text(path);
	cr_assert_eq(sqlite3_open(file, &db), SQLITE_OK);
	cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
	sqlite3_close(db);
	free(sql);
}

struct findings *findings_get(const char *file, enum findings_mode mode)
{
	struct findings *findings;
	struct error err;

	cr_assert_eq(findings_open(&findings, file, mode, &err), 0, "%s", err.text);
	return findings;
}

struct findings_run *findings_run_get(struct findings *findings, const char *word)
{
	struct findings_run *run;
	struct error err;

	cr_assert_eq(findings_read(findings, word, &run, &err), 0, "%s", err.text);
	return run;
}

char *json_text_of(const char *document, const char *key)
{
	json_error_t where;
	json_t *root = json_loads(document, 0, &where);
	char *text;

	cr_assert(root, "line %d: %s", where.line, where.text);
	text = strdup(json_string_value(json_object_get(root, key)) ?: "");
	json_decref(root);
	return text;
}
