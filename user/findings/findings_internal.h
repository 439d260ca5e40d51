/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of findings share: the open database, and SQL without repetition. */
#ifndef USER_FINDINGS_INTERNAL_H
#define USER_FINDINGS_INTERNAL_H

#include <sqlite3.h>

#include "user/findings/findings.h"

#define FINDINGS_SCHEMA      3
#define FINDINGS_APPLICATION 0x43425046 /* "CBPF": whose database this is */

struct findings {
	sqlite3 *db;
	char *file;
};

/* The statements that bring a database from version `index` to the next; ends with NULL. */
extern const char *const findings_schema[];

/* Fills in *err from what SQLite says; returns a negative errno. */
int findings_failed(const struct findings *findings, struct error *err);

/*
 * Prepares `sql` and binds what follows, a letter each: i (int64_t), d (double, NAN is NULL), t (text, may be NULL).
 * The statement is the caller's to finalize.
 */
int findings_prepare(struct findings *findings, sqlite3_stmt **statement, struct error *err, const char *sql,
		     const char *letters, ...);

/* Steps once: 1 for a row, 0 for the end, or a negative errno. */
int findings_step(struct findings *findings, sqlite3_stmt *statement, struct error *err);

/* Does one statement that gives no rows. */
int findings_do(struct findings *findings, struct error *err, const char *sql, const char *letters, ...);

/* The first column of the first row as a number, 0 if there is none. */
int findings_ask(struct findings *findings, int64_t *answer, struct error *err, const char *sql, const char *letters,
		 ...);

/* BEGIN IMMEDIATE; then COMMIT when `err_code` is 0, else ROLLBACK. The latter returns what is to be returned. */
int findings_transaction(struct findings *findings, struct error *err);
int findings_end(struct findings *findings, int err_code, struct error *err);

/* Of every boot another: with it a process cannot be mistaken for one of before. */
const char *findings_boot(void);

/*
 * Samples are thinned by their number: those stay whose mixed number is below a limit, so that no pattern of the probes
 * decides who stays, and a lower limit always keeps a part of what a higher one kept.
 */
#define THINNING_ALL (1LL << 32)
bool findings_kept(int64_t number, int64_t limit);

/* Halves the samples of a run until at most `most` are left. Within a transaction. */
int findings_thin(struct findings *findings, int64_t run, int64_t most, int64_t *limit, struct error *err);

/* Keeps the file's size in bounds: thins old runs, removes those beyond the limit. Within a transaction. */
int findings_bound(struct findings *findings, struct error *err);

#endif
