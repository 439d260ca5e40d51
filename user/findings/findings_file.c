// SPDX-License-Identifier: GPL-2.0-only
/*
 * Opening the database: where it is, whose it is, and which version its schema has. WAL, so that readers and the writer
 * do not wait for each other, with every commit on the disk before it counts.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "user/findings/findings_internal.h"

#define BUSY_MS 5000

const char *findings_file(const char *option)
{
	const char *variable = getenv(FINDINGS_VARIABLE);

	if (option)
		return option;
	return variable && variable[0] ? variable : FINDINGS_FILE;
}

/* SQLite would create it with the modes of the umask; its companions take the modes of this one. */
static int make_file(const char *file, struct error *err)
{
	int fd;

	if (strcmp(file, FINDINGS_FILE) == 0 && mkdir(FINDINGS_DIRECTORY, 0700) < 0 && errno != EEXIST)
		return error_set(err, -errno, EXIT_FAILED, "cannot make directory '%s': %s", FINDINGS_DIRECTORY,
				 strerror(errno));
	fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return error_set(err, -errno, EXIT_FAILED, "cannot make findings database '%s': %s", file,
				 strerror(errno));
	close(fd);
	return 0;
}

static int check_file(const char *file, struct error *err)
{
	int code;

	if (access(file, R_OK) == 0)
		return 0;
	code = -errno;
	if (code == -ENOENT) {
		error_set(err, code, EXIT_FAILED, "no experiment has been run: there is no '%s'", file);
		error_hint(err, "'chaosbpf run FILE' makes it; --database or " FINDINGS_VARIABLE " name another file");
		return code;
	}
	error_set(err, code, EXIT_FAILED, "cannot read findings database '%s': %s", file, strerror(-code));
	if (code == -EACCES)
		error_hint(err, "it is root's: run it with sudo");
	return code;
}

/* A database in a place where nothing can be written (an artifact of CI) can be read if nobody else has it open. */
static int open_immutable(const char *file, sqlite3 **db)
{
	char uri[3 * PATH_MAX + 32] = "file:", wal[PATH_MAX + 8];
	size_t used = strlen(uri);

	snprintf(wal, sizeof(wal), "%s-wal", file);
	if (access(wal, F_OK) == 0 || strlen(file) >= PATH_MAX)
		return SQLITE_CANTOPEN;
	for (const char *c = file; *c; c++)
		used += sprintf(uri + used, strchr("%?#", *c) ? "%%%02x" : "%c", *c);
	strcat(uri, "?immutable=1");
	return sqlite3_open_v2(uri, db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
}

static int ask_pragma(struct findings *findings, const char *name, int64_t *value, struct error *err)
{
	char sql[64];

	snprintf(sql, sizeof(sql), "PRAGMA %s", name);
	return findings_ask(findings, value, err, sql, "");
}

static int not_ours(struct findings *findings, struct error *err)
{
	return error_set(err, -EINVAL, EXIT_FAILED, "'%s' is no findings database of chaosbpf", findings->file);
}

/* The version of the schema; 0 of a file that is empty. */
static int read_version(struct findings *findings, int64_t *version, struct error *err)
{
	int64_t application = 0, tables = 0;
	int code = ask_pragma(findings, "application_id", &application, err);

	if (!code)
		code = ask_pragma(findings, "user_version", version, err);
	if (!code)
		code = findings_ask(findings, &tables, err, "SELECT count(*) FROM sqlite_schema", "");
	if (code)
		return code;
	if (tables ? application != FINDINGS_APPLICATION || *version < 1 : application || *version)
		return not_ours(findings, err);
	if (*version > FINDINGS_SCHEMA) {
		error_set(err, -EINVAL, EXIT_FAILED, "'%s' was made by a later chaosbpf (schema %d, this one knows %d)",
			  findings->file, (int)*version, FINDINGS_SCHEMA);
		error_hint(err, "use that chaosbpf, or name another file with --database");
		return -EINVAL;
	}
	return 0;
}

static int migrate_steps(struct findings *findings, int64_t version, struct error *err)
{
	char sql[64];

	for (; version < FINDINGS_SCHEMA; version++) {
		if (sqlite3_exec(findings->db, findings_schema[version], NULL, NULL, NULL) != SQLITE_OK)
			return findings_failed(findings, err);
	}
	snprintf(sql, sizeof(sql), "PRAGMA application_id = %d", FINDINGS_APPLICATION);
	if (sqlite3_exec(findings->db, sql, NULL, NULL, NULL) != SQLITE_OK)
		return findings_failed(findings, err);
	snprintf(sql, sizeof(sql), "PRAGMA user_version = %d", FINDINGS_SCHEMA);
	if (sqlite3_exec(findings->db, sql, NULL, NULL, NULL) != SQLITE_OK)
		return findings_failed(findings, err);
	return 0;
}

/* All steps or none; the version is asked again, since another process may have been faster. */
static int migrate(struct findings *findings, struct error *err)
{
	int64_t version;
	int code = findings_transaction(findings, err);

	if (code)
		return code;
	code = read_version(findings, &version, err);
	if (!code)
		code = migrate_steps(findings, version, err);
	return findings_end(findings, code, err);
}

static int prepare_file(struct findings *findings, enum findings_mode mode, struct error *err)
{
	int64_t version;
	int code;

	sqlite3_busy_timeout(findings->db, BUSY_MS);
	sqlite3_extended_result_codes(findings->db, 1);
	code = read_version(findings, &version, err);
	if (code || version == FINDINGS_SCHEMA)
		return code;
	if (version == 0 && mode == FINDINGS_READ) {
		error_set(err, -ENOENT, EXIT_FAILED, "no experiment has been run: '%s' is empty", findings->file);
		return -ENOENT;
	}
	if (sqlite3_db_readonly(findings->db, "main"))
		return error_set(err, -EROFS, EXIT_FAILED, "'%s' has an older schema and cannot be written to",
				 findings->file);
	/* Must stand before the first table; no error of theirs matters: without them it is larger or slower. */
	sqlite3_exec(findings->db, "PRAGMA auto_vacuum = FULL; PRAGMA journal_mode = WAL;", NULL, NULL, NULL);
	return migrate(findings, err);
}

static int open_database(const char *file, enum findings_mode mode, sqlite3 **db)
{
	int rc = sqlite3_open_v2(file, db, SQLITE_OPEN_READWRITE, NULL);

	/* Opening reads nothing; the first look does, and fails where WAL's companions cannot be made. */
	if (rc == SQLITE_OK && mode == FINDINGS_READ)
		rc = sqlite3_exec(*db, "SELECT 1 FROM sqlite_schema", NULL, NULL, NULL);
	if (mode == FINDINGS_READ && ((rc & 0xff) == SQLITE_CANTOPEN || (rc & 0xff) == SQLITE_READONLY)) {
		sqlite3_close(*db);
		rc = open_immutable(file, db);
	}
	return rc;
}

int findings_open(struct findings **findings, const char *file, enum findings_mode mode, struct error *err)
{
	struct findings *new;
	int code = mode == FINDINGS_WRITE ? make_file(file, err) : check_file(file, err);

	*findings = NULL;
	if (code)
		return code;
	new = calloc(1, sizeof(*new));
	if (new)
		new->file = strdup(file);
	if (!new || !new->file) {
		free(new);
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	}
	open_database(file, mode, &new->db);
	code = prepare_file(new, mode, err);
	/* FULL: a commit is on the disk. Both are of the connection, not of the file. */
	if (!code && sqlite3_exec(new->db, "PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL", NULL, NULL, NULL))
		code = findings_failed(new, err);
	if (code) {
		findings_close(new);
		return code;
	}
	*findings = new;
	return 0;
}

void findings_close(struct findings *findings)
{
	if (!findings)
		return;
	sqlite3_close_v2(findings->db);
	free(findings->file);
	free(findings);
}
