// SPDX-License-Identifier: GPL-2.0-only
/* From rows to structs. What is not in the database (an interruption) is worked out here. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/memory.h"
#include "user/base/names.h"
#include "user/findings/findings_internal.h"
#include "user/rules/rules.h"

/* A list goes without the long ones: ?3 is the run, if one is asked for. */
#define RUN_COLUMNS                                                                                                    \
	"id, experiment, title, environment, operator, file, CASE WHEN ?3 THEN text END, CASE WHEN ?3 THEN plan END, " \
	"started_s, ended_s, written_s, length_ms,"                                                                    \
	" phase, verdict, reason, kernel, version, host, boot, pid, process_started, thinned, resolved_s,"             \
	" resolved_by, resolved_note, EXISTS (SELECT 1 FROM hypotheses WHERE run = runs.id AND \"when\" = 'abort'"     \
	" AND held = 0)"

enum {
	ID,
	EXPERIMENT,
	TITLE,
	ENVIRONMENT,
	OPERATOR,
	FILE_NAME,
	TEXT,
	PLAN,
	STARTED,
	ENDED,
	WRITTEN,
	LENGTH,
	PHASE,
	VERDICT,
	REASON,
	KERNEL,
	VERSION,
	HOST,
	BOOT,
	PID,
	PROCESS_STARTED,
	THINNED,
	RESOLVED,
	RESOLVED_BY,
	RESOLVED_NOTE,
	ABORT_CAME_UP,
};

/* One look at a table: where its rows go and how one is read. */
struct reader {
	struct findings_run *run;
	sqlite3_stmt *row;
	bool failed; /* memory ran out */
};

static const char *column_or(struct reader *reader, int column, const char *otherwise)
{
	const char *text = (const char *)sqlite3_column_text(reader->row, column);

	if (!text)
		return otherwise;
	text = memory_text(&reader->run->memory, text);
	if (!text)
		reader->failed = true;
	return text ? text : "";
}

static const char *column(struct reader *reader, int number)
{
	return column_or(reader, number, "");
}

static void take_text(struct reader *reader, int number, const char **text)
{
	*text = column(reader, number);
}

static double column_number(struct reader *reader, int number)
{
	return sqlite3_column_type(reader->row, number) == SQLITE_NULL ? NAN
								       : sqlite3_column_double(reader->row, number);
}

/* A word that this version does not know is `otherwise`. */
static int column_word(struct reader *reader, int number, const char *const *names, int otherwise)
{
	const char *word = (const char *)sqlite3_column_text(reader->row, number);
	int index = word ? name_index(names, word) : -1;

	return index < 0 ? otherwise : index;
}

/* ---- the run itself ---- */

static enum verdict read_verdict(struct reader *reader)
{
	const char *boot = (const char *)sqlite3_column_text(reader->row, BOOT);

	if (sqlite3_column_type(reader->row, VERDICT) != SQLITE_NULL)
		return (enum verdict)column_word(reader, VERDICT, verdict_names, VERDICT_ERROR);
	if (boot && strcmp(boot, findings_boot()) == 0 && process_id_alive(&reader->run->process))
		return VERDICT_RUNNING;
	return VERDICT_INTERRUPTED;
}

static void read_run(struct reader *reader)
{
	struct findings_run *run = reader->run;
	bool weakness;

	run->id = sqlite3_column_int64(reader->row, ID);
	take_text(reader, EXPERIMENT, &run->experiment);
	take_text(reader, TITLE, &run->title);
	take_text(reader, ENVIRONMENT, &run->environment);
	take_text(reader, OPERATOR, &run->operator);
	take_text(reader, FILE_NAME, &run->file);
	take_text(reader, TEXT, &run->text);
	take_text(reader, PLAN, &run->json);
	run->started_s = sqlite3_column_double(reader->row, STARTED);
	run->ended_s = sqlite3_column_double(reader->row,
					     sqlite3_column_type(reader->row, ENDED) == SQLITE_NULL ? WRITTEN : ENDED);
	run->length_ms = (uint32_t)sqlite3_column_int64(reader->row, LENGTH);
	run->phase = (enum phase)column_word(reader, PHASE, phase_names, PHASE_BASELINE);
	run->process.pid = (pid_t)sqlite3_column_int64(reader->row, PID);
	run->process.started = (uint64_t)sqlite3_column_int64(reader->row, PROCESS_STARTED);
	run->verdict = read_verdict(reader);
	take_text(reader, REASON, &run->reason);
	take_text(reader, KERNEL, &run->kernel);
	take_text(reader, VERSION, &run->version);
	take_text(reader, HOST, &run->host);
	run->thinned = (uint64_t)sqlite3_column_int64(reader->row, THINNED);
	run->resolved_s = sqlite3_column_double(reader->row, RESOLVED);
	run->resolved_by = column_or(reader, RESOLVED_BY, NULL);
	run->resolved_note = column_or(reader, RESOLVED_NOTE, NULL);
	weakness = run->verdict == VERDICT_WEAKNESS ||
		   (run->verdict == VERDICT_ABORTED && sqlite3_column_int(reader->row, ABORT_CAME_UP));
	run->open = weakness && sqlite3_column_type(reader->row, RESOLVED) == SQLITE_NULL;
}

/* ---- what belongs to it ---- */

static void read_hypothesis(struct reader *reader, void *row)
{
	struct hypothesis *hypothesis = row;

	hypothesis->when = (enum hypothesis_when)column_word(reader, 0, when_names, WHEN_DURING);
	hypothesis->measure = column(reader, 1);
	hypothesis->comparison = column(reader, 2);
	hypothesis->threshold = column_number(reader, 3);
	hypothesis->unit = column(reader, 4);
	hypothesis->actual = column_number(reader, 5);
	hypothesis->outcome = sqlite3_column_type(reader->row, 6) == SQLITE_NULL ? OUTCOME_UNTESTED
			      : sqlite3_column_int(reader->row, 6)               ? OUTCOME_HELD
										 : OUTCOME_FAILED;
	hypothesis->detail = column_or(reader, 7, NULL);
}

/* There are few probes and many samples: a name that the row before has is not kept again. */
static const char *same_or_column(struct reader *reader, int number, const char *before)
{
	const char *text = (const char *)sqlite3_column_text(reader->row, number);

	return before && text && strcmp(before, text) == 0 ? before : column(reader, number);
}

static void read_sample(struct reader *reader, void *row)
{
	struct sample *sample = row;

	sample->at_ms = (uint32_t)sqlite3_column_int64(reader->row, 0);
	sample->probe = same_or_column(reader, 1, sample > reader->run->samples ? sample[-1].probe : NULL);
	sample->ok = sqlite3_column_int(reader->row, 2);
	sample->latency_ms = column_number(reader, 3);
	sample->status = sqlite3_column_int(reader->row, 4);
	sample->error = column_or(reader, 5, NULL);
}

static void read_point(struct reader *reader, void *row)
{
	struct point *point = row;
	const struct point *before = point > reader->run->points ? point - 1 : NULL;

	point->at_ms = (uint32_t)sqlite3_column_int64(reader->row, 0);
	point->measure = same_or_column(reader, 1, before ? before->measure : NULL);
	point->unit = same_or_column(reader, 2, before ? before->unit : NULL);
	point->value = column_number(reader, 3);
}

static void read_moment(struct reader *reader, void *row)
{
	struct run_moment *moment = row;

	moment->at_ms = (uint32_t)sqlite3_column_int64(reader->row, 0);
	moment->kind = (enum moment_kind)column_word(reader, 1, moment_names, MOMENT_NOTE);
	moment->text = column(reader, 2);
}

static size_t read_counts(struct reader *reader, const json_t *object, struct named_count **counts)
{
	const char *name;
	json_t *value;
	size_t n = 0;

	*counts = memory_take(&reader->run->memory, (json_object_size(object) + 1) * sizeof(**counts));
	if (!*counts) {
		reader->failed = true;
		return 0;
	}
	json_object_foreach((json_t *)object, name, value)
	{
		char *copy = memory_text(&reader->run->memory, name);

		reader->failed |= !copy;
		(*counts)[n++] = (struct named_count){ copy ? copy : "", (uint64_t)json_integer_value(value) };
	}
	return n;
}

static void read_rule(struct reader *reader, void *row)
{
	const char *text = (const char *)sqlite3_column_text(reader->row, 2);
	json_t *counters = json_loads(text ? text : "{}", 0, NULL);
	struct rule_record *rule = row;

	rule->rule = column(reader, 0);
	rule->sentence = column_or(reader, 1, NULL);
	rule->seen = (uint64_t)json_integer_value(json_object_get(counters, "seen"));
	rule->matched = (uint64_t)json_integer_value(json_object_get(counters, "matched"));
	rule->injected = (uint64_t)json_integer_value(json_object_get(counters, "injected"));
	rule->packets = (uint64_t)json_integer_value(json_object_get(counters, "packets"));
	rule->skipped_count = read_counts(reader, json_object_get(counters, "skipped"), &rule->skipped);
	rule->faults_count = read_counts(reader, json_object_get(counters, "faults"), &rule->faults);
	json_decref(counters);
}

static void read_events(struct reader *reader, void *row)
{
	struct event_sum *events = row;

	events->rule = column(reader, 0);
	events->fault = column(reader, 1);
	events->count = (uint64_t)sqlite3_column_int64(reader->row, 2);
	events->first_ms = (uint32_t)sqlite3_column_int64(reader->row, 3);
	events->last_ms = (uint32_t)sqlite3_column_int64(reader->row, 4);
}

static void read_number(struct reader *reader, void *row)
{
	struct number *number = row;

	number->name = column(reader, 0);
	number->value = column_number(reader, 1);
}

static const char *text_member(struct reader *reader, const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	char *copy = memory_text(&reader->run->memory, text ? text : "");

	reader->failed |= !copy;
	return copy ? copy : "";
}

static double number_member(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	return json_is_number(value) ? json_number_value(value) : NAN;
}

static void read_trial(struct reader *reader, const char *how, const json_t *object, struct trial_record *trial)
{
	*trial = (struct trial_record){ .how = memory_text(&reader->run->memory, how) };
	reader->failed |= !trial->how;
	trial->change = text_member(reader, object, "change");
	trial->injected = (uint64_t)json_integer_value(json_object_get(object, "injected"));
	trial->judged = json_object_get(object, "failed_percent");
	trial->failed_percent = number_member(object, "failed_percent");
	trial->latency_ms = number_member(object, "latency_ms");
	trial->chance = number_member(object, "chance");
	trial->cannot = text_member(reader, object, "cannot");
}

static void read_dependency(struct reader *reader, void *row)
{
	const char *text = (const char *)sqlite3_column_text(reader->row, 4), *how;
	json_t *trials = json_loads(text ? text : "{}", 0, NULL), *one;
	struct dependency_record *dependency = row;
	size_t n = 0;

	dependency->name = column(reader, 0);
	dependency->port = (uint16_t)sqlite3_column_int(reader->row, 1);
	dependency->strength = column(reader, 2);
	dependency->worse = column_or(reader, 3, NULL);
	json_object_foreach(trials, how, one)
	{
		if (n < DEPENDENCY_TRIALS)
			read_trial(reader, how, one, &dependency->trials[n++]);
	}
	for (; n < DEPENDENCY_TRIALS; n++)
		dependency->trials[n] = (struct trial_record){ .how = "", .change = "-", .cannot = "" };
	json_decref(trials);
}

/* Reads the rows of `sql` (its one parameter is the run) into an array that is the run's. */
static int read_rows(struct findings *findings, struct findings_run *run, const char *table, const char *sql,
		     size_t size, void (*read)(struct reader *reader, void *row), void **rows, size_t *count,
		     struct error *err)
{
	struct reader reader = { .run = run };
	char ask[64];
	int64_t there;
	int code;

	snprintf(ask, sizeof(ask), "SELECT count(*) FROM %s WHERE run = ?", table);
	code = findings_ask(findings, &there, err, ask, "i", run->id);
	if (!code)
		code = findings_prepare(findings, &reader.row, err, sql, "i", run->id);
	if (code)
		return code;
	*rows = memory_take(&run->memory, ((size_t)there + 1) * size);
	reader.failed = !*rows;
	*count = 0;
	while (!reader.failed && *count < (size_t)there && (code = findings_step(findings, reader.row, err)) > 0)
		read(&reader, (char *)*rows + (*count)++ * size);
	sqlite3_finalize(reader.row);
	if (reader.failed)
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	return code < 0 ? code : 0;
}

static int read_parts(struct findings *findings, struct findings_run *run, struct error *err)
{
#define PART(table, list, read, order, columns)                                                            \
	read_rows(findings, run, table, "SELECT " columns " FROM " table " WHERE run = ? ORDER BY " order, \
		  sizeof(*run->list), read, (void **)&run->list, &run->list##_count, err)
	int code = PART("hypotheses", hypotheses, read_hypothesis, "place",
			"\"when\", measure, comparison, threshold, unit, actual, held, detail");

	if (!code)
		code = PART("samples", samples, read_sample, "at_ms, number",
			    "at_ms, probe, ok, latency_ms, status, error");
	if (!code)
		code = PART("points", points, read_point, "measure, at_ms", "at_ms, measure, unit, value");
	if (!code)
		code = PART("timeline", moments, read_moment, "at_ms, rowid", "at_ms, kind, text");
	if (!code)
		code = PART("rules", rules, read_rule, "rowid", "rule, sentence, counters");
	if (!code)
		code = PART("events", events, read_events, "first_ms, rowid", "rule, fault, count, first_ms, last_ms");
	if (!code)
		code = PART("numbers", numbers, read_number, "name", "name, value");
	if (!code)
		code = PART("dependencies", dependencies, read_dependency, "place",
			    "name, port, strength, worse, trials");
#undef PART
	return code;
}

/* ---- lists ---- */

static int count_runs(struct findings *findings, const struct findings_filter *filter, int64_t *count,
		      struct error *err)
{
	return findings_ask(findings, count, err,
			    "SELECT count(*) FROM runs WHERE started_s >= ?1 AND (?2 IS NULL OR experiment = ?2)"
			    " AND (?3 = 0 OR id = ?3)",
			    "dti", filter->since_s, filter->experiment, filter->id);
}

/* Reads up to `room` runs without their parts. */
static int fill_runs(struct findings *findings, const struct findings_filter *filter, struct findings_run *runs,
		     size_t room, size_t *count, struct error *err)
{
	struct reader reader = { 0 };
	int code = findings_prepare(findings, &reader.row, err,
				    "SELECT " RUN_COLUMNS " FROM runs WHERE started_s >= ?1"
				    " AND (?2 IS NULL OR experiment = ?2) AND (?3 = 0 OR id = ?3) ORDER BY id DESC",
				    "dti", filter->since_s, filter->experiment, filter->id);

	while (!code && *count < room && (code = findings_step(findings, reader.row, err)) > 0) {
		reader.run = &runs[(*count)++];
		read_run(&reader);
		code = 0;
	}
	sqlite3_finalize(reader.row);
	if (reader.failed)
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	return code < 0 ? code : 0;
}

int findings_list(struct findings *findings, const struct findings_filter *filter, struct findings_run **runs,
		  size_t *count, struct error *err)
{
	int64_t there;
	int code = count_runs(findings, filter, &there, err);

	*runs = NULL;
	*count = 0;
	if (code)
		return code;
	*runs = calloc((size_t)there + 1, sizeof(**runs));
	if (!*runs)
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	code = fill_runs(findings, filter, *runs, (size_t)there, count, err);
	if (code) {
		findings_runs_free(*runs, *count);
		*runs = NULL;
		*count = 0;
	}
	return code;
}

void findings_runs_free(struct findings_run *runs, size_t count)
{
	for (size_t i = 0; i < count; i++)
		memory_free(&runs[i].memory);
	free(runs);
}

int findings_find(struct findings *findings, const char *word, int64_t *id, struct error *err)
{
	uint64_t number = 0;
	int code;

	if (strcmp(word, "last") == 0) {
		code = findings_ask(findings, id, err, "SELECT max(id) FROM runs", "");
		if (!code && !*id)
			return error_set(err, -ENOENT, EXIT_FAILED, "no experiment has been run: '%s' is empty",
					 findings->file);
		return code;
	}
	if (parse_number(word, &number) || !number || number > INT64_MAX) {
		error_set(err, -EINVAL, EXIT_USAGE, "'%s' is not the number of a run", word);
		error_hint(err, "'chaosbpf history' lists them; 'last' is the newest");
		return -EINVAL;
	}
	code = findings_ask(findings, id, err, "SELECT id FROM runs WHERE id = ?", "i", (int64_t)number);
	if (!code && !*id) {
		error_set(err, -ENOENT, EXIT_USAGE, "there is no run %s", word);
		error_hint(err, "'chaosbpf history' lists them; 'last' is the newest");
		return -ENOENT;
	}
	return code;
}

static int read_all(struct findings *findings, const char *word, struct findings_run **run, struct error *err)
{
	struct findings_filter filter = { 0 };
	size_t count;
	int code = findings_find(findings, word, &filter.id, err);

	if (!code)
		code = findings_list(findings, &filter, run, &count, err);
	if (!code)
		code = read_parts(findings, *run, err);
	return code;
}

int findings_read(struct findings *findings, const char *word, struct findings_run **run, struct error *err)
{
	int code;

	*run = NULL;
	/* One picture of all tables, while another process goes on writing. */
	if (sqlite3_exec(findings->db, "BEGIN", NULL, NULL, NULL) != SQLITE_OK)
		return findings_failed(findings, err);
	code = read_all(findings, word, run, err);
	sqlite3_exec(findings->db, "ROLLBACK", NULL, NULL, NULL);
	if (code) {
		findings_run_free(*run);
		*run = NULL;
	}
	return code;
}

void findings_run_free(struct findings_run *run)
{
	if (run)
		findings_runs_free(run, 1);
}

double findings_run_number(const struct findings_run *run, const char *name)
{
	for (size_t i = 0; i < run->numbers_count; i++) {
		if (strcmp(run->numbers[i].name, name) == 0)
			return run->numbers[i].value;
	}
	return NAN;
}
