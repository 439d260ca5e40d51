// SPDX-License-Identifier: GPL-2.0-only
/* SQL without repetition, errors as the rest of chaosbpf has them, and the schema. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "user/findings/findings_internal.h"

/*
 * Columns are only ever added, in a step of their own. Words (verdicts, phases) are kept as words and counters as JSON,
 * so that the file can be read without this program and survives changes of its enums.
 */
const char *const findings_schema[] = {
	/* 0 to 1 */
	"CREATE TABLE runs ("
	"  id INTEGER PRIMARY KEY AUTOINCREMENT," /* a number is never given twice */
	"  experiment TEXT NOT NULL, title TEXT, environment TEXT, operator TEXT, file TEXT, text TEXT, plan TEXT,"
	"  started_s REAL NOT NULL, ended_s REAL, written_s REAL NOT NULL, length_ms INTEGER NOT NULL DEFAULT 0,"
	"  phase TEXT, verdict TEXT, reason TEXT, kernel TEXT, version TEXT, host TEXT,"
	"  boot TEXT, pid INTEGER, process_started INTEGER,"
	"  thinned INTEGER NOT NULL DEFAULT 0, thinning INTEGER NOT NULL DEFAULT 4294967296,"
	"  settled INTEGER NOT NULL DEFAULT 0," /* 1: old, and made small already */
	"  resolved_s REAL, resolved_by TEXT, resolved_note TEXT);"
	"CREATE INDEX runs_experiment ON runs(experiment, started_s);"
	"CREATE TABLE hypotheses ("
	"  run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE, place INTEGER NOT NULL,"
	"  \"when\" TEXT NOT NULL, measure TEXT NOT NULL, comparison TEXT NOT NULL, threshold REAL, unit TEXT,"
	"  actual REAL, held INTEGER, detail TEXT,"
	"  PRIMARY KEY (run, place), UNIQUE (run, \"when\", measure, comparison, threshold));"
	"CREATE TABLE samples ("
	"  run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE, number INTEGER NOT NULL, at_ms INTEGER NOT NULL,"
	"  probe TEXT NOT NULL, ok INTEGER NOT NULL, latency_ms REAL, status INTEGER, error TEXT,"
	"  PRIMARY KEY (run, number)) WITHOUT ROWID;"
	"CREATE TABLE timeline ("
	"  run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE, at_ms INTEGER NOT NULL, kind TEXT NOT NULL,"
	"  text TEXT NOT NULL);"
	"CREATE INDEX timeline_run ON timeline(run);"
	"CREATE TABLE rules ("
	"  run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE, rule TEXT NOT NULL, sentence TEXT,"
	"  counters TEXT NOT NULL, UNIQUE (run, rule));"
	"CREATE TABLE events ("
	"  run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE, rule TEXT NOT NULL, fault TEXT NOT NULL,"
	"  count INTEGER NOT NULL, first_ms INTEGER, last_ms INTEGER, UNIQUE (run, rule, fault));"
	"CREATE TABLE numbers ("
	"  run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE, name TEXT NOT NULL, value REAL, UNIQUE (run, "
	"name));",
	/* 1 to 2: measures that are no probe's */
	"CREATE TABLE points ("
	"  run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE, at_ms INTEGER NOT NULL, measure TEXT NOT NULL,"
	"  unit TEXT, value REAL);"
	"CREATE INDEX points_run ON points(run);",
	/* 2 to 3: what `deps test` has found */
	"CREATE TABLE dependencies ("
	"  run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE, place INTEGER NOT NULL, name TEXT NOT NULL,"
	"  port INTEGER NOT NULL, strength TEXT NOT NULL, worse TEXT, trials TEXT NOT NULL,"
	"  PRIMARY KEY (run, place), UNIQUE (run, name, port));",
	NULL,
};
_Static_assert(sizeof(findings_schema) / sizeof(findings_schema[0]) == FINDINGS_SCHEMA + 1, "a step to each version");

int findings_failed(const struct findings *findings, struct error *err)
{
	int rc = sqlite3_errcode(findings->db);

	switch (rc & 0xff) {
	case SQLITE_BUSY:
		return error_set(err, -EBUSY, EXIT_FAILED, "findings database '%s' is in use by another process",
				 findings->file);
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return error_set(err, -EBADMSG, EXIT_FAILED, "'%s' is no findings database, or is damaged: %s",
				 findings->file, sqlite3_errmsg(findings->db));
	case SQLITE_FULL:
		return error_set(err, -ENOSPC, EXIT_FAILED, "findings database '%s': no space left", findings->file);
	case SQLITE_NOMEM:
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	default:
		return error_set(err, -EIO, EXIT_FAILED, "findings database '%s': %s", findings->file,
				 sqlite3_errmsg(findings->db));
	}
}

static int bind(sqlite3_stmt *statement, const char *letters, va_list ap)
{
	int rc = SQLITE_OK;

	for (int i = 1; *letters && rc == SQLITE_OK; i++, letters++) {
		const char *text;

		switch (*letters) {
		case 'i':
			rc = sqlite3_bind_int64(statement, i, va_arg(ap, int64_t));
			break;
		case 'd':
			rc = sqlite3_bind_double(statement, i, va_arg(ap, double)); /* NAN becomes NULL */
			break;
		default:
			text = va_arg(ap, const char *);
			rc = sqlite3_bind_text(statement, i, text, -1, SQLITE_TRANSIENT);
		}
	}
	return rc;
}

static int prepare(struct findings *findings, sqlite3_stmt **statement, struct error *err, const char *sql,
		   const char *letters, va_list ap)
{
	if (sqlite3_prepare_v2(findings->db, sql, -1, statement, NULL) != SQLITE_OK ||
	    bind(*statement, letters, ap) != SQLITE_OK) {
		int code = findings_failed(findings, err);

		sqlite3_finalize(*statement);
		*statement = NULL;
		return code;
	}
	return 0;
}

int findings_prepare(struct findings *findings, sqlite3_stmt **statement, struct error *err, const char *sql,
		     const char *letters, ...)
{
	va_list ap;
	int code;

	va_start(ap, letters);
	code = prepare(findings, statement, err, sql, letters, ap);
	va_end(ap);
	return code;
}

int findings_step(struct findings *findings, sqlite3_stmt *statement, struct error *err)
{
	switch (sqlite3_step(statement)) {
	case SQLITE_ROW:
		return 1;
	case SQLITE_DONE:
		return 0;
	default:
		return findings_failed(findings, err);
	}
}

/* Steps once and finalizes; *answer, if wanted, is the first column. */
static int finish(struct findings *findings, sqlite3_stmt *statement, int64_t *answer, struct error *err)
{
	int code = findings_step(findings, statement, err);

	if (answer)
		*answer = code > 0 ? sqlite3_column_int64(statement, 0) : 0;
	sqlite3_finalize(statement);
	return code < 0 ? code : 0;
}

int findings_do(struct findings *findings, struct error *err, const char *sql, const char *letters, ...)
{
	sqlite3_stmt *statement;
	va_list ap;
	int code;

	va_start(ap, letters);
	code = prepare(findings, &statement, err, sql, letters, ap);
	va_end(ap);
	return code ? code : finish(findings, statement, NULL, err);
}

int findings_ask(struct findings *findings, int64_t *answer, struct error *err, const char *sql, const char *letters,
		 ...)
{
	sqlite3_stmt *statement;
	va_list ap;
	int code;

	va_start(ap, letters);
	code = prepare(findings, &statement, err, sql, letters, ap);
	va_end(ap);
	return code ? code : finish(findings, statement, answer, err);
}

int findings_transaction(struct findings *findings, struct error *err)
{
	/* Immediate: waiting for another writer happens here, never in the middle. */
	return findings_do(findings, err, "BEGIN IMMEDIATE", "");
}

int findings_end(struct findings *findings, int err_code, struct error *err)
{
	if (!err_code)
		err_code = findings_do(findings, err, "COMMIT", "");
	if (err_code)
		sqlite3_exec(findings->db, "ROLLBACK", NULL, NULL, NULL);
	return err_code;
}
