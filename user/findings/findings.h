/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is known of experiments that were run: one SQLite file. It keeps and gives back; it judges nothing, and how a run
 * is shown is report.h's.
 *
 * A run is written by the one process that makes it, with findings_begin() ... findings_finish(). Whatever has been
 * written by a call that flushes (each says so) outlives kill -9 and power loss. A run without a verdict whose process is
 * gone was interrupted: readers see VERDICT_INTERRUPTED, nobody needs to repair anything.
 *
 * Times within a run are milliseconds since findings_begin(), by the monotonic clock (findings_now_ms()). A handle
 * belongs to one thread and must not be used after fork() in the child. Writing waits for the disk and, while another
 * process writes, up to five seconds for that: never do it between "must roll back" and "is rolled back".
 */
#ifndef USER_FINDINGS_H
#define USER_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "user/base/error.h"
#include "user/base/process_id.h"

struct chaos_stats;

#define FINDINGS_DIRECTORY "/var/lib/chaosbpf"
#define FINDINGS_FILE      FINDINGS_DIRECTORY "/findings.db"
#define FINDINGS_VARIABLE  "CHAOSBPF_DATABASE"

enum verdict {
	VERDICT_RUNNING, /* none yet, and its process lives */
	VERDICT_HELD,
	VERDICT_WEAKNESS,
	VERDICT_ABORTED,
	VERDICT_SKIPPED, /* not healthy at the start, so nothing was broken */
	VERDICT_ERROR,
	VERDICT_INTERRUPTED, /* what readers make of a run without verdict whose process is gone */
	VERDICT_COUNT,
};

/* In the order in which a run goes through them. */
enum phase {
	PHASE_BASELINE,
	PHASE_INJECT, /* from here to PHASE_ROLLBACK the method is at work: shaded in reports */
	PHASE_OBSERVE,
	PHASE_ROLLBACK,
	PHASE_RECOVER,
	PHASE_COOLDOWN,
	PHASE_VERDICT,
	PHASE_COUNT,
};

/* When a hypothesis must hold. The words are those of the experiment file and of verdicts. */
enum hypothesis_when {
	WHEN_STEADY_BEFORE,
	WHEN_DURING,
	WHEN_STEADY_AFTER,
	WHEN_RECOVERY,
	WHEN_ABORT,
	WHEN_COUNT,
};

enum outcome {
	OUTCOME_UNTESTED, /* its phase was not reached, or there was nothing to measure: `actual` is NAN */
	OUTCOME_HELD,
	OUTCOME_FAILED,
	OUTCOME_COUNT,
};

/* What stands in the timeline. */
enum moment_kind {
	MOMENT_PHASE,
	MOMENT_ACTION, /* what the method did */
	MOMENT_NOTE,
	MOMENT_COUNT,
};

/* "held", "baseline", "steady-before", "phase", ...: in the database, JSON and texts. */
extern const char *const verdict_names[VERDICT_COUNT + 1];
extern const char *const phase_names[PHASE_COUNT + 1];
extern const char *const when_names[WHEN_COUNT + 1];
extern const char *const moment_names[MOMENT_COUNT + 1];

/*
 * "ask.success >= 99 %". For WHEN_ABORT the comparison is the one of the file (the condition to abort at), and
 * OUTCOME_HELD means that it never came up: held is always good.
 */
struct hypothesis {
	enum hypothesis_when when;
	const char *measure;    /* "ask.success"; for recovery "recovery" */
	const char *comparison; /* "<", "<=", ">", ">=", "==" */
	double threshold;
	const char *unit; /* "%", "ms", "s", "/s" or "" */
	double actual;    /* in the same unit; NAN: none */
	enum outcome outcome;
	const char *detail; /* more words: "within 30 s", "after 41 s"; may be NULL */
};

/* One answer of a probe. */
struct sample {
	uint32_t at_ms; /* when the request was made */
	const char *probe;
	bool ok;
	double latency_ms; /* NAN: none, as of a connection refused */
	int status;        /* of HTTP; 0: none */
	const char *error; /* a few words; NULL when ok */
};

/* A measure that is not a probe's: of the kernel, of Prometheus. */
struct point {
	uint32_t at_ms;
	const char *measure; /* "service.p99" */
	const char *unit;    /* as in hypotheses */
	double value;
};

struct run_moment {
	uint32_t at_ms;
	enum moment_kind kind;
	const char *text; /* of MOMENT_PHASE: the phase's name */
};

/* Events of one rule and fault, in sum. */
struct event_sum {
	const char *rule, *fault;
	uint64_t count;
	uint32_t first_ms, last_ms;
};

/* A single number of a run. Those that reports know by name: */
#define NUMBER_TIME_TO_DEGRADE "time_to_degrade_ms" /* from the injection until what is promised for `during` held */
#define NUMBER_TIME_TO_RECOVER "time_to_recover_ms" /* from the roll back until the steady state held again */
#define NUMBER_ROLLBACK        "rollback_ms"        /* how long rolling back took */
#define NUMBER_EVENTS_DROPPED  "events_dropped"

struct number {
	const char *name;
	double value;
};

/* What came of breaking a dependency in one way. Words are those of `deps test`. */
struct trial_record {
	const char *how;    /* "down", "slow", "random" */
	const char *change; /* "fails", "slow", "same", "not called", ...; "-": it was not tried */
	uint64_t injected;
	bool judged; /* then there are these: of the service meanwhile, and how probable that is by chance */
	double failed_percent, latency_ms, chance;
	const char *cannot; /* why it could not be had, or "" */
};

#define DEPENDENCY_TRIALS 3
struct dependency_record {
	const char *name;
	uint16_t port;
	const char *strength; /* "unknown", "weak", "strong" */
	const char *worse;    /* than what was known before: "was weak", "is new"; NULL: not, or not compared */
	struct trial_record trials[DEPENDENCY_TRIALS];
};

/* ---- the file ---- */

struct findings;

enum findings_mode {
	FINDINGS_READ,  /* the file must be there: -ENOENT */
	FINDINGS_WRITE, /* made if it is not there, and brought to this version's schema */
};

/* `option` if not NULL, else the environment's CHAOSBPF_DATABASE, else FINDINGS_FILE. */
const char *findings_file(const char *option);

/* Opens it. A file of a later chaosbpf, or one that is no findings database, is refused and left as it is. */
int findings_open(struct findings **findings, const char *file, enum findings_mode mode, struct error *err);
void findings_close(struct findings *findings);

/* ---- writing a run ---- */

struct findings_writer;

/* What is known at the start. All but `experiment` may be NULL. */
struct findings_plan {
	const char *experiment;
	const char *title;
	const char *environment;
	const char *operator; /* the person on call */
	const char *file;
	const char *text; /* of the file */
	const char *json; /* the plan with its times, as --dry-run --json prints it */
};

/* Records that this process runs it now, and flushes. The writer is freed by findings_finish() or findings_drop(). */
int findings_begin(struct findings *findings, const struct findings_plan *plan, struct findings_writer **writer,
		   struct error *err);
int64_t findings_id(const struct findings_writer *writer);

/* Milliseconds since findings_begin(). */
uint32_t findings_now_ms(const struct findings_writer *writer);

/* Says that this phase begins now, and flushes. */
int findings_phase(struct findings_writer *writer, enum phase phase, struct error *err);

/*
 * These keep what they are given (texts are copied) and flush once a second, by themselves when called. An error is that
 * of the flush; what could not be written is kept for the next.
 */
int findings_sample(struct findings_writer *writer, const struct sample *sample, struct error *err);
int findings_point(struct findings_writer *writer, const struct point *point, struct error *err);
int findings_moment(struct findings_writer *writer, enum moment_kind kind, const char *text, struct error *err);

/* These are kept with the next flush, too. The same hypothesis (when, measure, comparison, threshold), rule or number
 * again replaces what was said before. */
int findings_hypothesis(struct findings_writer *writer, const struct hypothesis *hypothesis, struct error *err);
/* `sentence`: what the rule does, in words; may be NULL. */
int findings_rule(struct findings_writer *writer, const char *rule, const char *sentence,
		  const struct chaos_stats *stats, struct error *err);
int findings_events(struct findings_writer *writer, const struct event_sum *events, struct error *err);
int findings_number(struct findings_writer *writer, const char *name, double value, struct error *err);

/* In the order in which they are to be shown. The same name and port again replaces what was said before. */
int findings_dependency(struct findings_writer *writer, const struct dependency_record *dependency, struct error *err);

int findings_flush(struct findings_writer *writer, struct error *err);

/*
 * The end: the verdict and why, in a sentence; flushes and frees the writer, also on failure. When it fails the run will
 * be shown as interrupted.
 */
int findings_finish(struct findings_writer *writer, enum verdict verdict, const char *reason, struct error *err);

/* Frees the writer and nothing else, as in a child after fork(). */
void findings_drop(struct findings_writer *writer);

/* ---- for guards ---- */

/* The newest run whose weakness no person has resolved (a weakness, or an abort by the abort condition); *id 0: none. */
int findings_open_weakness(struct findings *findings, const char *experiment, int64_t *id, struct error *err);

/* The newest run of it in that environment that held, with its start (wall clock, seconds); *id 0: none. */
int findings_last_held(struct findings *findings, const char *experiment, const char *environment, int64_t *id,
		       double *started_s, struct error *err);

/* A run that goes on now, of any experiment; *id 0: none. */
int findings_running(struct findings *findings, int64_t *id, struct error *err);

/* Closes the weakness of a run. Refused when it has none or is resolved. `by`: who says so. */
int findings_resolve(struct findings *findings, int64_t id, const char *by, const char *note, struct error *err);

/* Adds a note to the timeline of a run that is over, at the present time. */
int findings_note(struct findings *findings, int64_t id, const char *text, struct error *err);

/* ---- reading ---- */

struct rule_record {
	const char *rule, *sentence; /* sentence: NULL if unknown */
	uint64_t seen, matched, injected, packets;
	struct named_count {
		const char *name;
		uint64_t count;
	} * skipped, *faults; /* those that are not 0 */
	size_t skipped_count, faults_count;
};

/* A run as it was kept. Texts are never NULL but where said; all memory is the run's. */
struct findings_run {
	int64_t id;
	/* "" if not known */
	const char *experiment, *title, *environment;
	const char *operator;
	const char *file, *text, *json;
	double started_s, ended_s; /* wall clock; ended_s of a run without verdict: the last that is known */
	uint32_t length_ms;
	enum phase phase; /* the last that was reached */
	enum verdict verdict;
	const char *reason;
	const char *kernel, *version, *host;     /* version: of chaosbpf */
	const char *resolved_by, *resolved_note; /* NULL: not resolved */
	double resolved_s;
	bool open; /* has a weakness that is not resolved */
	struct process_id process;

	/* Only from findings_read(): */
	struct hypothesis *hypotheses;
	struct sample *samples;
	struct point *points;
	struct run_moment *moments;
	struct rule_record *rules;
	struct event_sum *events;
	struct number *numbers;
	struct dependency_record *dependencies; /* of `deps test` */
	size_t dependencies_count;
	size_t hypotheses_count, samples_count, points_count, moments_count, rules_count, events_count, numbers_count;
	uint64_t thinned; /* samples that were let go because they were old or too many */

	struct memory *memory; /* where all of the above lies */
};

/* What history shows; zero is no restriction. */
struct findings_filter {
	double since_s; /* wall clock */
	const char *experiment;
	int64_t id;
};

/* Newest first; without `text` and `json` unless one is asked for by its id. Free with findings_runs_free(). */
int findings_list(struct findings *findings, const struct findings_filter *filter, struct findings_run **runs,
		  size_t *count, struct error *err);
void findings_runs_free(struct findings_run *runs, size_t count);

/* The run that `word` means: its number, or "last". */
int findings_find(struct findings *findings, const char *word, int64_t *id, struct error *err);

/* One run with everything; `word` as in findings_find(). */
int findings_read(struct findings *findings, const char *word, struct findings_run **run, struct error *err);
void findings_run_free(struct findings_run *run);

/* The number of that name; NAN: none. */
double findings_run_number(const struct findings_run *run, const char *name);

/* ---- size ---- */

/* Removes all runs but the newest `keep` and those with an open weakness; *removed: how many. */
int findings_prune(struct findings *findings, uint64_t keep, uint64_t *removed, struct error *err);

#endif
