// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writing a run. What happens is kept in memory and written once a second in one transaction, so that the disk is asked
 * rarely and the lock is held for moments only.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "bpf/chaos.h"
#include "user/base/clock.h"
#include "user/base/memory.h"
#include "user/base/names.h"
#include "user/base/output.h"
#include "user/findings/dependency_record.h"
#include "user/findings/findings_internal.h"

#define FLUSH_MS    1000
#define PENDING_MAX 50000  /* when the disk is full for long */
#define SAMPLES_MAX 100000 /* of one run; then every second one goes */
#define POINTS_MAX  100000
#define MOMENTS_MAX 10000
#define ERROR_BYTES 200
#define TEXT_BYTES  (1 << 20)

#ifndef CHAOSBPF_VERSION
#define CHAOSBPF_VERSION "unknown"
#endif

enum pending_kind {
	PENDING_SAMPLE,
	PENDING_POINT,
	PENDING_MOMENT,
	PENDING_HYPOTHESIS,
	PENDING_RULE,
	PENDING_EVENTS,
	PENDING_NUMBER,
	PENDING_DEPENDENCY,
	PENDING_COUNT,
};

struct rule_row {
	const char *rule, *sentence, *counters;
};

struct dependency_row {
	const char *name, *strength, *worse, *trials;
	int64_t port;
};

struct pending {
	enum pending_kind kind;
	int64_t order; /* of samples: their number */
	union {
		struct sample sample;
		struct point point;
		struct run_moment moment;
		struct hypothesis hypothesis;
		struct rule_row rule;
		struct event_sum events;
		struct number number;
		struct dependency_row dependency;
	};
};

struct findings_writer {
	struct findings *findings;
	int64_t id;
	double start_ms; /* CLOCK_MONOTONIC */
	double flushed_ms;

	struct pending *pending;
	size_t pending_count, pending_room;
	struct memory *texts; /* what the pending ones point to */

	const char *phase, *verdict, *reason; /* to be written with the next flush; NULL: as it is */

	int64_t next_number, samples, limit; /* of samples: number of the next, how many are kept, by which limit */
	uint64_t points, moments, lost;
};

static const char *const insert[PENDING_COUNT] = {
	[PENDING_SAMPLE] = "INSERT INTO samples(run, number, at_ms, probe, ok, latency_ms, status, error)"
			   " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
	[PENDING_POINT] = "INSERT INTO points(run, at_ms, measure, unit, value) VALUES (?, ?, ?, ?, ?)",
	[PENDING_MOMENT] = "INSERT INTO timeline(run, at_ms, kind, text) VALUES (?, ?, ?, ?)",
	[PENDING_HYPOTHESIS] =
		"INSERT INTO hypotheses(run, \"when\", measure, comparison, threshold, unit, actual, held, detail, "
		"place)"
		" VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, (SELECT count(*) FROM hypotheses WHERE run = ?1))"
		" ON CONFLICT(run, \"when\", measure, comparison, threshold) DO UPDATE SET"
		" unit = excluded.unit, actual = excluded.actual, held = excluded.held, detail = excluded.detail",
	[PENDING_RULE] = "INSERT INTO rules(run, rule, sentence, counters) VALUES (?, ?, ?, ?)"
			 " ON CONFLICT(run, rule) DO UPDATE SET sentence = coalesce(excluded.sentence, sentence),"
			 " counters = excluded.counters",
	[PENDING_EVENTS] = "INSERT OR REPLACE INTO events(run, rule, fault, count, first_ms, last_ms)"
			   " VALUES (?, ?, ?, ?, ?, ?)",
	[PENDING_NUMBER] = "INSERT OR REPLACE INTO numbers(run, name, value) VALUES (?, ?, ?)",
	[PENDING_DEPENDENCY] =
		"INSERT INTO dependencies(run, name, port, strength, worse, trials, place)"
		" VALUES (?1, ?2, ?3, ?4, ?5, ?6, (SELECT count(*) FROM dependencies WHERE run = ?1))"
		" ON CONFLICT(run, name, port) DO UPDATE SET strength = excluded.strength, worse = excluded.worse,"
		" trials = excluded.trials",
};

static double wall_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int no_memory(struct error *err)
{
	return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
}

/* ---- the beginning ---- */

static int insert_run(struct findings *findings, const struct findings_plan *plan, struct error *err)
{
	struct process_id self = process_id_of(getpid());
	double now = wall_s();
	struct utsname host;
	char *text;
	int code;

	uname(&host);
	text = strndup(plan->text ? plan->text : "", TEXT_BYTES);
	if (!text)
		return no_memory(err);
	code = findings_do(findings, err,
			   "INSERT INTO runs(experiment, title, environment, operator, file, text, plan, started_s,"
			   " written_s, kernel, version, host, boot, pid, process_started)"
			   " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			   "tttttttddttttii", plan->experiment, plan->title, plan->environment, plan->operator,
			   plan->file, text, plan->json, now, now, host.release, CHAOSBPF_VERSION, host.nodename,
			   findings_boot(), (int64_t)self.pid, (int64_t)self.started);
	free(text);
	return code;
}

int findings_begin(struct findings *findings, const struct findings_plan *plan, struct findings_writer **writer,
		   struct error *err)
{
	struct findings_writer *new = calloc(1, sizeof(*new));
	int code;

	*writer = NULL;
	if (!new)
		return no_memory(err);
	code = findings_transaction(findings, err);
	if (code)
		goto out;
	code = findings_bound(findings, err);
	if (!code)
		code = insert_run(findings, plan, err);
	new->id = sqlite3_last_insert_rowid(findings->db);
	code = findings_end(findings, code, err);
	if (code)
		goto out;
	new->findings = findings;
	new->limit = THINNING_ALL;
	new->start_ms = new->flushed_ms = now_ms();
	*writer = new;
	return 0;
out:
	free(new);
	return code;
}

int64_t findings_id(const struct findings_writer *writer)
{
	return writer->id;
}

uint32_t findings_now_ms(const struct findings_writer *writer)
{
	return (uint32_t)(now_ms() - writer->start_ms);
}

/* ---- writing ---- */

static int held_value(enum outcome outcome, char *letter)
{
	*letter = outcome == OUTCOME_UNTESTED ? 't' : 'i'; /* text NULL is NULL */
	return outcome == OUTCOME_HELD;
}

static int insert_hypothesis(struct findings_writer *writer, const struct hypothesis *hypothesis, struct error *err)
{
	char letters[] = "itttdtd?t";
	int64_t held = held_value(hypothesis->outcome, &letters[7]);
	const char *sql = insert[PENDING_HYPOTHESIS];

	if (hypothesis->outcome == OUTCOME_UNTESTED)
		return findings_do(writer->findings, err, sql, letters, writer->id, when_names[hypothesis->when],
				   hypothesis->measure, hypothesis->comparison, hypothesis->threshold, hypothesis->unit,
				   hypothesis->actual, (const char *)NULL, hypothesis->detail);
	return findings_do(writer->findings, err, sql, letters, writer->id, when_names[hypothesis->when],
			   hypothesis->measure, hypothesis->comparison, hypothesis->threshold, hypothesis->unit,
			   hypothesis->actual, held, hypothesis->detail);
}

static int insert_sample(struct findings_writer *writer, const struct pending *pending, struct error *err)
{
	const struct sample *sample = &pending->sample;

	if (!findings_kept(pending->order, writer->limit))
		return 0; /* the limit has fallen since */
	return findings_do(writer->findings, err, insert[PENDING_SAMPLE], "iiitidit", writer->id, pending->order,
			   (int64_t)sample->at_ms, sample->probe, (int64_t)sample->ok, sample->latency_ms,
			   (int64_t)sample->status, sample->error);
}

static int insert_pending(struct findings_writer *writer, const struct pending *pending, struct error *err)
{
	struct findings *findings = writer->findings;
	const char *sql = insert[pending->kind];

	switch (pending->kind) {
	case PENDING_SAMPLE:
		return insert_sample(writer, pending, err);
	case PENDING_POINT:
		return findings_do(findings, err, sql, "iittd", writer->id, (int64_t)pending->point.at_ms,
				   pending->point.measure, pending->point.unit, pending->point.value);
	case PENDING_MOMENT:
		return findings_do(findings, err, sql, "iitt", writer->id, (int64_t)pending->moment.at_ms,
				   moment_names[pending->moment.kind], pending->moment.text);
	case PENDING_HYPOTHESIS:
		return insert_hypothesis(writer, &pending->hypothesis, err);
	case PENDING_RULE:
		return findings_do(findings, err, sql, "ittt", writer->id, pending->rule.rule, pending->rule.sentence,
				   pending->rule.counters);
	case PENDING_EVENTS:
		return findings_do(findings, err, sql, "ittiii", writer->id, pending->events.rule,
				   pending->events.fault, (int64_t)pending->events.count,
				   (int64_t)pending->events.first_ms, (int64_t)pending->events.last_ms);
	case PENDING_NUMBER:
		return findings_do(findings, err, sql, "itd", writer->id, pending->number.name, pending->number.value);
	case PENDING_DEPENDENCY:
		return findings_do(findings, err, sql, "itittt", writer->id, pending->dependency.name,
				   pending->dependency.port, pending->dependency.strength, pending->dependency.worse,
				   pending->dependency.trials);
	case PENDING_COUNT:
		break;
	}
	return 0;
}

static int update_run(struct findings_writer *writer, struct error *err)
{
	double now = wall_s();

	return findings_do(writer->findings, err,
			   "UPDATE runs SET written_s = ?, length_ms = ?, thinned = thinned + ?,"
			   " phase = coalesce(?, phase), verdict = ?, reason = ?, ended_s = ? WHERE id = ?",
			   "diitttdi", now, (int64_t)findings_now_ms(writer), (int64_t)writer->lost, writer->phase,
			   writer->verdict, writer->reason, writer->verdict ? now : NAN, writer->id);
}

static int write_all(struct findings_writer *writer, struct error *err)
{
	int code = 0;

	for (size_t i = 0; i < writer->pending_count && !code; i++)
		code = insert_pending(writer, &writer->pending[i], err);
	if (!code && writer->samples > SAMPLES_MAX)
		code = findings_thin(writer->findings, writer->id, SAMPLES_MAX, &writer->limit, err);
	return code ? code : update_run(writer, err);
}

static int recount(struct findings_writer *writer, struct error *err)
{
	return findings_ask(writer->findings, &writer->samples, err, "SELECT count(*) FROM samples WHERE run = ?", "i",
			    writer->id);
}

/* Writes what is pending, all or nothing. */
int findings_flush(struct findings_writer *writer, struct error *err)
{
	bool thin = writer->samples > SAMPLES_MAX;
	int code;

	writer->flushed_ms = now_ms(); /* also when it fails: not again at every sample */
	code = findings_transaction(writer->findings, err);
	if (code)
		return code;
	code = findings_end(writer->findings, write_all(writer, err), err);
	if (code)
		return code;
	writer->pending_count = 0;
	writer->lost = 0;
	memory_free(&writer->texts);
	return thin ? recount(writer, err) : 0;
}

static int flush_if_time(struct findings_writer *writer, struct error *err)
{
	return now_ms() - writer->flushed_ms >= FLUSH_MS ? findings_flush(writer, err) : 0;
}

/* ---- what is pending ---- */

/* Room for one more, zeroed; NULL when there is no memory. */
static struct pending *add(struct findings_writer *writer, enum pending_kind kind)
{
	struct pending *pending;

	if (writer->pending_count == writer->pending_room) {
		size_t room = writer->pending_room ? 2 * writer->pending_room : 256;

		pending = realloc(writer->pending, room * sizeof(*pending));
		if (!pending)
			return NULL;
		writer->pending = pending;
		writer->pending_room = room;
	}
	pending = &writer->pending[writer->pending_count];
	*pending = (struct pending){ .kind = kind };
	return pending;
}

/* Replaces a text by a copy that lives as long as it is pending; false: no memory. NULL stays NULL. */
static bool copy(struct findings_writer *writer, const char **text)
{
	if (!*text)
		return true;
	*text = memory_text(&writer->texts, *text);
	return *text;
}

/* It counts from here on. */
static int added(struct findings_writer *writer, bool complete, struct error *err)
{
	if (!complete)
		return no_memory(err);
	writer->pending_count++;
	return 0;
}

int findings_sample(struct findings_writer *writer, const struct sample *sample, struct error *err)
{
	int64_t number = writer->next_number++;
	char error[ERROR_BYTES];
	struct pending *pending;
	int code;

	if (!findings_kept(number, writer->limit) || writer->pending_count >= PENDING_MAX) {
		writer->lost++;
		return flush_if_time(writer, err);
	}
	pending = add(writer, PENDING_SAMPLE);
	if (!pending)
		return no_memory(err);
	pending->order = number;
	pending->sample = *sample;
	if (sample->error) {
		text_clean(error, sizeof(error), sample->error);
		pending->sample.error = error;
	}
	code = added(writer, copy(writer, &pending->sample.probe) && copy(writer, &pending->sample.error), err);
	if (!code)
		writer->samples++;
	return code ? code : flush_if_time(writer, err);
}

int findings_point(struct findings_writer *writer, const struct point *point, struct error *err)
{
	struct pending *pending;
	int code;

	if (writer->points >= POINTS_MAX || writer->pending_count >= PENDING_MAX) {
		writer->lost++;
		return flush_if_time(writer, err);
	}
	pending = add(writer, PENDING_POINT);
	if (!pending)
		return no_memory(err);
	pending->point = *point;
	code = added(writer, copy(writer, &pending->point.measure) && copy(writer, &pending->point.unit), err);
	if (!code)
		writer->points++;
	return code ? code : flush_if_time(writer, err);
}

static int add_moment(struct findings_writer *writer, enum moment_kind kind, const char *text, struct error *err)
{
	struct pending *pending = add(writer, PENDING_MOMENT);

	if (!pending)
		return no_memory(err);
	pending->moment = (struct run_moment){ .at_ms = findings_now_ms(writer), .kind = kind, .text = text };
	return added(writer, copy(writer, &pending->moment.text), err);
}

int findings_moment(struct findings_writer *writer, enum moment_kind kind, const char *text, struct error *err)
{
	int code = 0;

	if (writer->moments <= MOMENTS_MAX)
		code = add_moment(writer, kind,
				  writer->moments == MOMENTS_MAX ? "too much happened: the rest is not kept" : text,
				  err);
	writer->moments++;
	return code ? code : flush_if_time(writer, err);
}

int findings_phase(struct findings_writer *writer, enum phase phase, struct error *err)
{
	int code = add_moment(writer, MOMENT_PHASE, phase_names[phase], err);

	writer->phase = phase_names[phase];
	return code ? code : findings_flush(writer, err);
}

int findings_hypothesis(struct findings_writer *writer, const struct hypothesis *hypothesis, struct error *err)
{
	struct pending *pending = add(writer, PENDING_HYPOTHESIS);

	if (!pending)
		return no_memory(err);
	pending->hypothesis = *hypothesis;
	return added(writer,
		     copy(writer, &pending->hypothesis.measure) && copy(writer, &pending->hypothesis.comparison) &&
			     copy(writer, &pending->hypothesis.unit) && copy(writer, &pending->hypothesis.detail),
		     err);
}

static void counts_json(struct json *json, const char *key, const char *const *names, const __u64 *counts)
{
	json_open_object(json, key);
	for (; *names; names++, counts++) {
		if (*counts)
			json_count(json, *names, *counts);
	}
	json_close_object(json);
}

static void counters_json(struct json *json, const void *what)
{
	const struct chaos_stats *stats = what;

	json_count(json, "seen", stats->seen);
	json_count(json, "matched", stats->matched);
	json_count(json, "injected", stats->injected);
	json_count(json, "packets", stats->packets);
	counts_json(json, "skipped", skip_names, stats->skipped);
	counts_json(json, "faults", fault_names, stats->faults);
}

static void trials_of(struct json *json, const void *what)
{
	trials_json(json, what);
}

/* An object as text, to be freed; NULL: no memory. */
static char *object_text(void (*write)(struct json *json, const void *what), const void *what)
{
	struct json json;
	size_t size;
	char *text = NULL;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	json_begin(&json, out, true);
	json_open_object(&json, NULL);
	write(&json, what);
	json_close_object(&json);
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}

int findings_rule(struct findings_writer *writer, const char *rule, const char *sentence,
		  const struct chaos_stats *stats, struct error *err)
{
	struct pending *pending = add(writer, PENDING_RULE);
	char *counters = object_text(counters_json, stats);
	bool complete = pending && counters;

	if (complete) {
		pending->rule = (struct rule_row){ rule, sentence, counters };
		complete = copy(writer, &pending->rule.rule) && copy(writer, &pending->rule.sentence) &&
			   copy(writer, &pending->rule.counters);
	}
	free(counters);
	return added(writer, complete, err);
}

int findings_events(struct findings_writer *writer, const struct event_sum *events, struct error *err)
{
	struct pending *pending = add(writer, PENDING_EVENTS);

	if (!pending)
		return no_memory(err);
	pending->events = *events;
	return added(writer, copy(writer, &pending->events.rule) && copy(writer, &pending->events.fault), err);
}

int findings_number(struct findings_writer *writer, const char *name, double value, struct error *err)
{
	struct pending *pending = add(writer, PENDING_NUMBER);

	if (!pending)
		return no_memory(err);
	pending->number = (struct number){ name, value };
	return added(writer, copy(writer, &pending->number.name), err);
}

int findings_dependency(struct findings_writer *writer, const struct dependency_record *dependency, struct error *err)
{
	struct pending *pending = add(writer, PENDING_DEPENDENCY);
	char *trials = object_text(trials_of, dependency);
	bool complete = pending && trials;

	if (complete) {
		struct dependency_row *row = &pending->dependency;

		*row = (struct dependency_row){ dependency->name, dependency->strength, dependency->worse, trials,
						dependency->port };
		complete = copy(writer, &row->name) && copy(writer, &row->strength) && copy(writer, &row->worse) &&
			   copy(writer, &row->trials);
	}
	free(trials);
	return added(writer, complete, err);
}

/* ---- the end ---- */

int findings_finish(struct findings_writer *writer, enum verdict verdict, const char *reason, struct error *err)
{
	struct error second;
	int code;

	writer->verdict = verdict_names[verdict];
	writer->reason = reason;
	code = findings_flush(writer, err);
	if (code) {
		/* Better a verdict without its last second than none. */
		writer->pending_count = 0;
		findings_flush(writer, &second);
	}
	findings_drop(writer);
	return code;
}

void findings_drop(struct findings_writer *writer)
{
	if (!writer)
		return;
	memory_free(&writer->texts);
	free(writer->pending);
	free(writer);
}
