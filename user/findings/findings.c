// SPDX-License-Identifier: GPL-2.0-only
/* The words of findings, what guards ask, what a person resolves, and the size of the file. */
#include "user/findings/findings.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "user/findings/findings_internal.h"

#define FULL_RUNS    100   /* the newest, whose samples are all kept */
#define OLD_SAMPLES  2000  /* at most, of older ones */
#define THIN_AT_ONCE 20    /* so that a run begins soon */
#define MAX_RUNS     10000 /* then the oldest go, but for open weaknesses */

#define TABLE(name, count, ...)                           \
	const char *const name[] = { __VA_ARGS__, NULL }; \
	_Static_assert(sizeof(name) / sizeof(name[0]) == (count) + 1, #name " must name every value")

TABLE(verdict_names, VERDICT_COUNT, "running", "held", "weakness", "aborted", "skipped", "error", "interrupted");
TABLE(phase_names, PHASE_COUNT, "baseline", "inject", "observe", "rollback", "recover", "cooldown", "verdict");
TABLE(when_names, WHEN_COUNT, "steady-before", "during", "steady-after", "recovery", "abort");
TABLE(moment_names, MOMENT_COUNT, "phase", "action", "note");

/* An abort counts as a weakness when it was the service that caused it, not a person. */
#define IS_WEAKNESS                                                                         \
	"(verdict = 'weakness' OR verdict = 'aborted' AND EXISTS (SELECT 1 FROM hypotheses" \
	" WHERE hypotheses.run = runs.id AND \"when\" = 'abort' AND held = 0))"
#define IS_OPEN "(" IS_WEAKNESS " AND resolved_s IS NULL)"

const char *findings_boot(void)
{
	static char boot[40];
	FILE *file;

	if (boot[0])
		return boot;
	file = fopen("/proc/sys/kernel/random/boot_id", "re");
	if (!file || fscanf(file, "%39s", boot) != 1)
		strcpy(boot, "unknown");
	if (file)
		fclose(file);
	return boot;
}

/* ---- guards ---- */

int findings_open_weakness(struct findings *findings, const char *experiment, int64_t *id, struct error *err)
{
	return findings_ask(findings, id, err,
			    "SELECT id FROM runs WHERE experiment = ? AND " IS_OPEN " ORDER BY id DESC LIMIT 1", "t",
			    experiment);
}

int findings_last_held(struct findings *findings, const char *experiment, const char *environment, int64_t *id,
		       double *started_s, struct error *err)
{
	sqlite3_stmt *statement;
	int code = findings_prepare(findings, &statement, err,
				    "SELECT id, started_s FROM runs WHERE experiment = ? AND environment = ?"
				    " AND verdict = 'held' ORDER BY id DESC LIMIT 1",
				    "tt", experiment, environment);

	*id = 0;
	*started_s = 0;
	if (code)
		return code;
	code = findings_step(findings, statement, err);
	if (code > 0) {
		*id = sqlite3_column_int64(statement, 0);
		*started_s = sqlite3_column_double(statement, 1);
		code = 0;
	}
	sqlite3_finalize(statement);
	return code;
}

int findings_running(struct findings *findings, int64_t *id, struct error *err)
{
	sqlite3_stmt *statement;
	int code = findings_prepare(findings, &statement, err,
				    "SELECT id, pid, process_started FROM runs WHERE verdict IS NULL AND boot = ?"
				    " ORDER BY id DESC",
				    "t", findings_boot());

	*id = 0;
	if (code)
		return code;
	while (!*id && (code = findings_step(findings, statement, err)) > 0) {
		struct process_id process = { .pid = (pid_t)sqlite3_column_int64(statement, 1),
					      .started = (uint64_t)sqlite3_column_int64(statement, 2) };

		if (process_id_alive(&process))
			*id = sqlite3_column_int64(statement, 0);
	}
	sqlite3_finalize(statement);
	return code < 0 ? code : 0;
}

static int cannot_resolve(struct findings *findings, int64_t id, struct error *err)
{
	int64_t there, weak;
	int code = findings_ask(findings, &there, err, "SELECT count(*) FROM runs WHERE id = ?", "i", id);

	if (!code)
		code = findings_ask(findings, &weak, err, "SELECT count(*) FROM runs WHERE id = ? AND " IS_WEAKNESS,
				    "i", id);
	if (code)
		return code;
	if (!there) {
		error_set(err, -ENOENT, EXIT_USAGE, "there is no run %lld", (long long)id);
		error_hint(err, "'chaosbpf history' lists them");
		return -ENOENT;
	}
	return error_set(err, -EINVAL, EXIT_USAGE,
			 weak ? "the weakness of run %lld is resolved already" : "run %lld found no weakness",
			 (long long)id);
}

int findings_resolve(struct findings *findings, int64_t id, const char *by, const char *note, struct error *err)
{
	int code = findings_do(findings, err,
			       "UPDATE runs SET resolved_s = ?, resolved_by = ?, resolved_note = ?"
			       " WHERE id = ? AND " IS_OPEN,
			       "dtti", (double)time(NULL), by, note, id);

	if (code)
		return code;
	return sqlite3_changes(findings->db) ? 0 : cannot_resolve(findings, id, err);
}

int findings_note(struct findings *findings, int64_t id, const char *text, struct error *err)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return findings_do(
		findings, err,
		"INSERT INTO timeline(run, at_ms, kind, text)"
		" SELECT id, max(0, CAST(1000 * (? - started_s) AS INTEGER)), 'note', ? FROM runs WHERE id = ?",
		"dti", (double)now.tv_sec + (double)now.tv_nsec / 1e9, text, id);
}

/* ---- size ---- */

bool findings_kept(int64_t number, int64_t limit)
{
	return ((number * 2654435761LL) & 0xffffffffLL) < limit; /* Knuth's multiplicative hash; in SQL, too */
}

int findings_thin(struct findings *findings, int64_t run, int64_t most, int64_t *limit, struct error *err)
{
	int64_t count;
	int code = findings_ask(findings, limit, err, "SELECT thinning FROM runs WHERE id = ?", "i", run);

	while (!code) {
		code = findings_ask(findings, &count, err, "SELECT count(*) FROM samples WHERE run = ?", "i", run);
		if (code || count <= most || *limit <= 1)
			break;
		*limit /= 2;
		code = findings_do(findings, err,
				   "DELETE FROM samples WHERE run = ? AND ((number * 2654435761) & 4294967295) >= ?",
				   "ii", run, *limit);
		if (!code)
			code = findings_do(findings, err,
					   "UPDATE runs SET thinning = ?, thinned = thinned + changes() WHERE id = ?",
					   "ii", *limit, run);
	}
	return code;
}

/* Measures that are no probe's have no number to thin by: those of old runs become one in so many. */
static int thin_points(struct findings *findings, int64_t run, struct error *err)
{
	return findings_do(findings, err,
			   "DELETE FROM points WHERE run = ?1 AND (SELECT count(*) FROM points WHERE run = ?1) > ?2"
			   " AND ((rowid * 2654435761) & 4294967295) * (SELECT count(*) FROM points WHERE run = ?1)"
			   " >= ?2 * 4294967296",
			   "ii", run, (int64_t)OLD_SAMPLES);
}

int findings_prune(struct findings *findings, uint64_t keep, uint64_t *removed, struct error *err)
{
	int code;

	*removed = 0;
	if (keep > INT64_MAX)
		return 0;
	code = findings_do(findings, err,
			   "DELETE FROM runs WHERE NOT " IS_OPEN " AND id NOT IN"
			   " (SELECT id FROM runs ORDER BY id DESC LIMIT ?)",
			   "i", (int64_t)keep);
	if (!code)
		*removed = (uint64_t)sqlite3_changes(findings->db);
	return code;
}

int findings_bound(struct findings *findings, struct error *err)
{
	int64_t run[THIN_AT_ONCE], limit;
	sqlite3_stmt *statement;
	uint64_t removed;
	int count = 0;
	int code = findings_prepare(findings, &statement, err,
				    "SELECT id FROM runs WHERE NOT settled AND id NOT IN"
				    " (SELECT id FROM runs ORDER BY id DESC LIMIT ?) LIMIT ?",
				    "ii", (int64_t)FULL_RUNS, (int64_t)THIN_AT_ONCE);

	while (!code && (code = findings_step(findings, statement, err)) > 0) {
		run[count++] = sqlite3_column_int64(statement, 0);
		code = 0;
	}
	sqlite3_finalize(statement);
	for (int i = 0; i < count && !code; i++) {
		code = findings_thin(findings, run[i], OLD_SAMPLES, &limit, err);
		if (!code)
			code = thin_points(findings, run[i], err);
		if (!code)
			code = findings_do(findings, err, "UPDATE runs SET settled = 1 WHERE id = ?", "i", run[i]);
	}
	return code ? code : findings_prune(findings, MAX_RUNS, &removed, err);
}
