// SPDX-License-Identifier: GPL-2.0-only
/* user/findings*.c: what was kept comes back, nothing less than a whole run, whatever happens to the process. */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bpf/chaos.h"
#include "tests/findings_file.h"
#include "user/findings/findings_internal.h"

TestSuite(findings, .init = findings_enter, .fini = findings_leave);

/* experiment, title, environment, operator, file, text, json */
static const struct findings_plan plan = {
	"vector-db-timeout", "When the vector database goes silent", "staging", "Alice", "x.yaml", "version: 1\n", "{}"
};

#define OK(call)                                               \
	do {                                                   \
		int code = (call);                             \
		cr_assert_eq(code, 0, #call ": %s", err.text); \
	} while (0)

static struct findings_writer *begin(struct findings *findings)
{
	struct findings_writer *writer;
	struct error err;

	OK(findings_begin(findings, &plan, &writer, &err));
	return writer;
}

/* A whole run of that verdict; its number. */
static int64_t make_run(struct findings *findings, enum verdict verdict)
{
	struct findings_writer *writer = begin(findings);
	int64_t id = findings_id(writer);
	struct error err;

	OK(findings_finish(writer, verdict, "because", &err));
	return id;
}

/* ---- round trip ---- */

static void write_everything(struct findings *findings)
{
	struct findings_writer *writer = begin(findings);
	struct chaos_stats stats = { .seen = 10, .matched = 5, .injected = 3, .packets = 7 };
	struct hypothesis hypothesis = {
		WHEN_DURING, "ask.success", ">=", 90, "%", 70.5, OUTCOME_FAILED, "within 30 s"
	};
	struct dependency_record dependency = {
		.name = "vectors.internal",
		.port = 6333,
		.strength = "weak",
		.trials = { { "down", "fails", 7, true, 60, NAN, 0.001, "" },
			    { "slow", "cannot", 0, false, NAN, NAN, NAN, "no fq" },
			    { "random", "-", 0, false, NAN, NAN, NAN, "" } },
	};
	struct error err;

	stats.skipped[CHAOS_SKIP_PERCENT] = 2;
	stats.faults[CHAOS_DELAY] = 3;
	OK(findings_phase(writer, PHASE_BASELINE, &err));
	OK(findings_sample(writer, &(struct sample){ 5, "ask", true, 12.5, 200, NULL }, &err));
	OK(findings_sample(writer, &(struct sample){ 9, "ask", false, NAN, 0, "refused\n" }, &err));
	OK(findings_point(writer, &(struct point){ 7, "service.rate", "/s", 4.5 }, &err));
	OK(findings_phase(writer, PHASE_INJECT, &err));
	OK(findings_moment(writer, MOMENT_ACTION, "flush the cache", &err));
	OK(findings_hypothesis(writer, &hypothesis, &err));
	hypothesis.actual = 71.5; /* said again: replaced */
	OK(findings_hypothesis(writer, &hypothesis, &err));
	hypothesis.when = WHEN_RECOVERY;
	hypothesis.actual = NAN;
	hypothesis.outcome = OUTCOME_UNTESTED;
	hypothesis.detail = NULL;
	OK(findings_hypothesis(writer, &hypothesis, &err));
	OK(findings_rule(writer, "slow", "is slow", &stats, &err));
	stats.injected = 4;
	OK(findings_rule(writer, "slow", NULL, &stats, &err));
	OK(findings_events(writer, &(struct event_sum){ "slow", "delay", 3, 6, 8 }, &err));
	OK(findings_number(writer, NUMBER_TIME_TO_RECOVER, 1234, &err));
	OK(findings_dependency(writer, &dependency, &err));
	dependency.strength = "strong"; /* said again: replaced */
	dependency.worse = "was weak";
	OK(findings_dependency(writer, &dependency, &err));
	OK(findings_finish(writer, VERDICT_WEAKNESS, "not enough", &err));
}

static void check_samples(const struct findings_run *run)
{
	cr_assert_eq(run->samples_count, 2);
	cr_expect(run->samples[0].ok && run->samples[0].latency_ms == 12.5 && run->samples[0].status == 200);
	cr_expect_null(run->samples[0].error);
	cr_expect(!run->samples[1].ok && isnan(run->samples[1].latency_ms));
	cr_expect_str_eq(run->samples[1].error, "refused\\x0a");
	cr_assert_eq(run->points_count, 1);
	cr_expect_str_eq(run->points[0].measure, "service.rate");
	cr_expect_eq(run->points[0].value, 4.5);
}

static void check_hypotheses(const struct findings_run *run)
{
	cr_assert_eq(run->hypotheses_count, 2);
	cr_expect_eq(run->hypotheses[0].when, WHEN_DURING);
	cr_expect_eq(run->hypotheses[0].outcome, OUTCOME_FAILED);
	cr_expect_eq(run->hypotheses[0].actual, 71.5);
	cr_expect_str_eq(run->hypotheses[0].detail, "within 30 s");
	cr_expect_eq(run->hypotheses[1].outcome, OUTCOME_UNTESTED);
	cr_expect(isnan(run->hypotheses[1].actual));
	cr_expect_null(run->hypotheses[1].detail);
}

static void check_rules(const struct findings_run *run)
{
	cr_assert_eq(run->rules_count, 1);
	cr_expect_str_eq(run->rules[0].sentence, "is slow");
	cr_expect_eq(run->rules[0].injected, 4);
	cr_expect_eq(run->rules[0].matched, 5);
	cr_assert_eq(run->rules[0].skipped_count, 1);
	cr_expect_str_eq(run->rules[0].skipped[0].name, "percent");
	cr_expect_eq(run->rules[0].skipped[0].count, 2);
	cr_assert_eq(run->rules[0].faults_count, 1);
	cr_expect_str_eq(run->rules[0].faults[0].name, "delay");
	cr_assert_eq(run->events_count, 1);
	cr_expect_eq(run->events[0].last_ms, 8);
}

static void check_dependencies(const struct findings_run *run)
{
	const struct dependency_record *one = run->dependencies;

	cr_assert_eq(run->dependencies_count, 1);
	cr_expect_str_eq(one->name, "vectors.internal");
	cr_expect_eq(one->port, 6333);
	cr_expect_str_eq(one->strength, "strong");
	cr_expect_str_eq(one->worse, "was weak");
	cr_expect_str_eq(one->trials[0].how, "down");
	cr_expect_str_eq(one->trials[0].change, "fails");
	cr_expect(one->trials[0].judged && one->trials[0].injected == 7 && one->trials[0].failed_percent == 60);
	cr_expect(isnan(one->trials[0].latency_ms) && one->trials[0].chance == 0.001);
	cr_expect_not(one->trials[1].judged);
	cr_expect_str_eq(one->trials[1].cannot, "no fq");
	cr_expect_str_eq(one->trials[2].change, "-");
}

Test(findings, round_trip)
{
	struct findings *findings = findings_get("f.db", FINDINGS_WRITE);
	struct findings_run *run;

	write_everything(findings);
	findings_close(findings);
	findings = findings_get("f.db", FINDINGS_READ);
	run = findings_run_get(findings, "last");
	cr_expect_eq(run->id, 1);
	cr_expect_str_eq(run->experiment, "vector-db-timeout");
	cr_expect_str_eq(run->operator, "Alice");
	cr_expect_str_eq(run->text, "version: 1\n");
	cr_expect_eq(run->verdict, VERDICT_WEAKNESS);
	cr_expect_str_eq(run->reason, "not enough");
	cr_expect_eq(run->phase, PHASE_INJECT);
	cr_expect(run->open && !run->resolved_note);
	cr_expect(fabs(run->started_s - (double)time(NULL)) < 60 && run->ended_s >= run->started_s);
	cr_expect(run->kernel[0] && run->host[0] && run->version[0]);
	check_samples(run);
	check_hypotheses(run);
	check_rules(run);
	check_dependencies(run);
	cr_assert_eq(run->moments_count, 3);
	cr_expect_str_eq(run->moments[1].text, "inject");
	cr_expect_eq(run->moments[2].kind, MOMENT_ACTION);
	cr_expect_eq(findings_run_number(run, NUMBER_TIME_TO_RECOVER), 1234);
	cr_expect(isnan(findings_run_number(run, NUMBER_TIME_TO_DEGRADE)));
	findings_run_free(run);
	findings_close(findings);
}

Test(findings, only_the_owner_may_read_it)
{
	struct findings *findings;
	struct stat st;

	umask(0);
	findings = findings_get("f.db", FINDINGS_WRITE);
	make_run(findings, VERDICT_HELD);
	for (const char *const *file = (const char *const[]){ "f.db", "f.db-wal", "f.db-shm", NULL }; *file; file++) {
		cr_assert_eq(stat(*file, &st), 0, "%s", *file);
		cr_expect_eq(st.st_mode & 0777, 0600, "%s", *file);
	}
	findings_close(findings);
}

Test(findings, runs_and_words)
{
	struct findings *findings = findings_get("f.db", FINDINGS_WRITE);
	struct findings_filter filter = { 0 };
	struct findings_run *runs, *run;
	struct error err;
	size_t count;

	for (int i = 0; i < 5; i++)
		make_run(findings, VERDICT_HELD);
	OK(findings_list(findings, &filter, &runs, &count, &err));
	cr_assert_eq(count, 5);
	cr_expect_eq(runs[0].id, 5);
	findings_runs_free(runs, count);
	filter.experiment = "another";
	OK(findings_list(findings, &filter, &runs, &count, &err));
	cr_expect_eq(count, 0);
	findings_runs_free(runs, count);
	filter = (struct findings_filter){ .since_s = (double)time(NULL) + 100 };
	OK(findings_list(findings, &filter, &runs, &count, &err));
	cr_expect_eq(count, 0);
	findings_runs_free(runs, count);
	for (const char *const *word = (const char *const[]){ "6", "0", "-1", "x", "", "99999999999999999999", NULL };
	     *word; word++) {
		cr_expect_lt(findings_read(findings, *word, &run, &err), 0, "%s", *word);
		cr_expect_eq(err.exit, EXIT_USAGE);
	}
	findings_close(findings);
}

/* ---- guards ---- */

Test(findings, a_weakness_is_open_until_a_person_resolves_it)
{
	struct findings *findings = findings_get("f.db", FINDINGS_WRITE);
	struct error err;
	int64_t id;

	OK(findings_open_weakness(findings, plan.experiment, &id, &err));
	cr_expect_eq(id, 0);
	make_run(findings, VERDICT_WEAKNESS);
	make_run(findings, VERDICT_HELD); /* does not close it */
	OK(findings_open_weakness(findings, plan.experiment, &id, &err));
	cr_expect_eq(id, 1);
	OK(findings_open_weakness(findings, "another", &id, &err));
	cr_expect_eq(id, 0);
	cr_expect_eq(findings_resolve(findings, 2, "alice", "no", &err), -EINVAL);
	cr_expect_str_eq(err.text, "run 2 found no weakness");
	cr_expect_eq(findings_resolve(findings, 7, "alice", "no", &err), -ENOENT);
	OK(findings_resolve(findings, 1, "alice", "capped the retries", &err));
	cr_expect_eq(findings_resolve(findings, 1, "bob", "again", &err), -EINVAL);
	OK(findings_open_weakness(findings, plan.experiment, &id, &err));
	cr_expect_eq(id, 0);
	findings_close(findings);
}

Test(findings, an_abort_is_a_weakness_when_the_limit_came_up)
{
	struct findings *findings = findings_get("f.db", FINDINGS_WRITE);
	struct hypothesis limit = { WHEN_ABORT, "ask.success", "<", 20, "%", 3, OUTCOME_FAILED, NULL };
	struct findings_writer *writer;
	struct findings_run *run;
	struct error err;
	int64_t id;

	make_run(findings, VERDICT_ABORTED); /* by a person */
	OK(findings_open_weakness(findings, plan.experiment, &id, &err));
	cr_expect_eq(id, 0);
	writer = begin(findings);
	OK(findings_hypothesis(writer, &limit, &err));
	OK(findings_finish(writer, VERDICT_ABORTED, "the limit", &err));
	OK(findings_open_weakness(findings, plan.experiment, &id, &err));
	cr_expect_eq(id, 2);
	run = findings_run_get(findings, "2");
	cr_expect(run->open);
	findings_run_free(run);
	run = findings_run_get(findings, "1");
	cr_expect_not(run->open);
	findings_run_free(run);
	findings_close(findings);
}

Test(findings, last_held_and_running)
{
	struct findings *findings = findings_get("f.db", FINDINGS_WRITE);
	struct findings_writer *writer;
	struct error err;
	double started_s;
	int64_t id;

	make_run(findings, VERDICT_HELD);
	make_run(findings, VERDICT_WEAKNESS);
	OK(findings_last_held(findings, plan.experiment, "staging", &id, &started_s, &err));
	cr_expect_eq(id, 1);
	cr_expect(fabs(started_s - (double)time(NULL)) < 60);
	OK(findings_last_held(findings, plan.experiment, "production", &id, &started_s, &err));
	cr_expect_eq(id, 0);
	OK(findings_running(findings, &id, &err));
	cr_expect_eq(id, 0);
	writer = begin(findings);
	OK(findings_running(findings, &id, &err));
	cr_expect_eq(id, 3);
	OK(findings_finish(writer, VERDICT_HELD, NULL, &err));
	findings_close(findings);
}

/* ---- size ---- */

/* A fair part stays: of two probes that take turns neither is favoured, and percentiles stay where they were. */
Test(findings, thinning_is_fair)
{
	struct findings *findings = findings_get("f.db", FINDINGS_WRITE);
	struct findings_writer *writer = begin(findings);
	int64_t limit, ask, slow, count, kept = 0;
	struct error err;

	for (uint32_t i = 0; i < 20000; i++) {
		struct sample sample = { i, i % 2 ? "ask" : "search", true, i % 10 == 0 ? 1000 : 10, 200, NULL };

		OK(findings_sample(writer, &sample, &err));
	}
	OK(findings_flush(writer, &err));
	OK(findings_thin(findings, 1, 2000, &limit, &err));
	OK(findings_ask(findings, &ask, &err, "SELECT count(*) FROM samples WHERE probe = 'ask'", ""));
	OK(findings_ask(findings, &slow, &err, "SELECT count(*) FROM samples WHERE latency_ms > 500", ""));
	/* What SQL keeps and what the writer keeps are the same ones. */
	for (int64_t number = 0; number < 20000; number++)
		kept += findings_kept(number, limit);
	OK(findings_ask(findings, &count, &err, "SELECT count(*) FROM samples", ""));
	cr_expect_eq(count, kept);
	cr_expect(ask > 500 && ask < 750, "%d of 10000, asked for 625", (int)ask);
	cr_expect(slow > 90 && slow < 160, "%d of 2000, asked for 125", (int)slow);
	OK(findings_finish(writer, VERDICT_HELD, NULL, &err));
	findings_close(findings);
}

Test(findings, a_run_of_many_samples_stays_small)
{
	struct findings *findings = findings_get("f.db", FINDINGS_WRITE);
	struct findings_writer *writer = begin(findings);
	struct findings_run *run;
	struct error err;

	for (uint32_t i = 0; i < 300000; i++) {
		OK(findings_sample(writer, &(struct sample){ i, "ask", true, 10, 200, NULL }, &err));
		if (i % 40000 == 0)
			OK(findings_flush(writer, &err));
	}
	OK(findings_finish(writer, VERDICT_HELD, NULL, &err));
	run = findings_run_get(findings, "1");
	cr_expect(run->samples_count <= 100000 && run->samples_count > 40000, "%zu", run->samples_count);
	cr_expect_eq(run->samples_count + run->thinned, 300000, "%zu kept, %llu thinned", run->samples_count,
		     (unsigned long long)run->thinned);
	cr_expect(run->samples[run->samples_count - 1].at_ms > 299000);
	findings_run_free(run);
	findings_close(findings);
}

Test(findings, prune_leaves_the_newest_and_what_is_open)
{
	struct findings *findings = findings_get("f.db", FINDINGS_WRITE);
	struct findings_run *runs;
	uint64_t removed;
	struct error err;
	size_t count;

	make_run(findings, VERDICT_HELD);
	make_run(findings, VERDICT_WEAKNESS);
	for (int i = 0; i < 4; i++)
		make_run(findings, VERDICT_HELD);
	OK(findings_prune(findings, 2, &removed, &err));
	cr_expect_eq(removed, 3);
	OK(findings_list(findings, &(struct findings_filter){ 0 }, &runs, &count, &err));
	cr_assert_eq(count, 3);
	cr_expect_eq(runs[2].id, 2);
	findings_runs_free(runs, count);
	OK(findings_prune(findings, 0, &removed, &err));
	cr_expect_eq(make_run(findings, VERDICT_HELD), 7, "a number is never given twice");
	findings_close(findings);
}

/* ---- versions ---- */

Test(findings, the_first_schema_is_brought_to_this_one)
{
	struct findings *findings;
	struct findings_run *run;
	int64_t version;
	struct error err;

	findings_old("old.db");
	findings = findings_get("old.db", FINDINGS_READ);
	OK(findings_ask(findings, &version, &err, "PRAGMA user_version", ""));
	cr_expect_eq(version, FINDINGS_SCHEMA);
	run = findings_run_get(findings, "2");
	cr_expect_eq(run->verdict, VERDICT_WEAKNESS);
	cr_expect_eq(run->samples_count, 40);
	cr_expect_eq(run->hypotheses_count, 5);
	cr_expect_eq(run->points_count, 0);
	findings_run_free(run);
	cr_expect_eq(make_run(findings, VERDICT_HELD), 5);
	findings_close(findings);
}

Test(findings, an_empty_file_is_version_0)
{
	struct findings *findings;
	struct error err;

	cr_assert_eq(fclose(fopen("f.db", "w")), 0);
	cr_expect_eq(findings_open(&findings, "f.db", FINDINGS_READ, &err), -ENOENT);
	cr_expect_null(findings);
	findings = findings_get("f.db", FINDINGS_WRITE);
	cr_expect_eq(make_run(findings, VERDICT_HELD), 1);
	findings_close(findings);
}

static void expect_refused(const char *file, const char *words)
{
	char *before = file_text(file), *after;
	struct findings *findings;
	struct error err;

	cr_expect_lt(findings_open(&findings, file, FINDINGS_WRITE, &err), 0);
	cr_expect_null(findings);
	cr_expect(strstr(err.text, words), "%s", err.text);
	after = file_text(file);
	cr_expect_str_eq(before, after);
	free(before);
	free(after);
}

Test(findings, what_is_not_ours_is_left_alone)
{
	sqlite3 *db;
	FILE *file;

	cr_assert_eq(sqlite3_open("later.db", &db), SQLITE_OK);
	sqlite3_exec(db, "PRAGMA application_id = 1128419398; PRAGMA user_version = 99; CREATE TABLE t(x)", 0, 0, 0);
	sqlite3_close(db);
	cr_assert_eq(sqlite3_open("other.db", &db), SQLITE_OK);
	sqlite3_exec(db, "CREATE TABLE runs(x)", 0, 0, 0);
	sqlite3_close(db);
	file = fopen("text.db", "w");
	for (int i = 0; i < 1000; i++)
		fputs("this is no database\n", file);
	fclose(file);
	expect_refused("later.db", "later chaosbpf (schema 99");
	expect_refused("other.db", "no findings database");
	expect_refused("text.db", "no findings database, or is damaged");
}

/* As an artifact of CI: its reader may write neither to it nor beside it. */
static int read_as_nobody(void)
{
	struct findings *findings;
	struct findings_run *run;
	struct error err;

	if (geteuid() == 0 && (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534)))
		return 2;
	if (access("f.db", W_OK) == 0 || findings_open(&findings, "f.db", FINDINGS_READ, &err) < 0)
		return 3;
	if (findings_read(findings, "last", &run, &err) < 0 || run->verdict != VERDICT_HELD)
		return 4;
	findings_run_free(run);
	findings_close(findings);
	return 0;
}

Test(findings, a_file_that_cannot_be_written_is_read)
{
	struct findings *findings = findings_get("f.db", FINDINGS_WRITE);
	pid_t child;
	int status;

	make_run(findings, VERDICT_HELD);
	findings_close(findings);
	cr_assert(chmod("f.db", 0444) == 0 && chmod(".", 0555) == 0);
	child = fork();
	if (child == 0)
		_exit(read_as_nobody());
	cr_assert_eq(waitpid(child, &status, 0), child);
	chmod(".", 0700);
	cr_expect_eq(status, 0, "%d", WEXITSTATUS(status));
}

/* ---- kill -9 ---- */

/*
 * Writes as fast as it can until it is killed; says when the first run has begun. A cache of a few pages makes SQLite write
 * in the middle of each transaction: there most of the kills fall, and only a journal makes that good again.
 */
static void write_until_killed(int told)
{
	struct findings *findings = findings_get("f.db", FINDINGS_WRITE);
	struct findings_writer *writer;
	struct error err;

	sqlite3_exec(findings->db, "PRAGMA cache_size = 5; PRAGMA cache_spill = 1", NULL, NULL, NULL);
	writer = begin(findings);
	if (write(told, "", 1) != 1)
		_exit(1);
	for (uint32_t i = 0;; i++) {
		findings_sample(writer, &(struct sample){ i, "ask", false, 10, 200, "no answer within 3 s" }, &err);
		if (i % 100 == 0)
			findings_moment(writer, MOMENT_ACTION, "an action", &err);
		if (i % 1000 == 0)
			findings_phase(writer, (enum phase)(i / 1000 % PHASE_COUNT), &err);
	}
}

static void kill_writer(unsigned int *seed)
{
	struct timespec pause = { 0 };
	int told[2];
	char byte;
	pid_t child;

	cr_assert_eq(pipe(told), 0);
	child = fork();
	if (child == 0)
		write_until_killed(told[1]);
	close(told[1]);
	/* Every fourth is killed while it opens the file, the others while they write. */
	if (rand_r(seed) % 4)
		cr_assert_eq(read(told[0], &byte, 1), 1);
	close(told[0]);
	pause.tv_nsec = rand_r(seed) % 100000000;
	nanosleep(&pause, NULL);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* The file is sound, and of each run a beginning without a gap is there: no commit is lost, none is half. */
static void check_whole(size_t *interrupted)
{
	struct findings *findings = findings_get("f.db", FINDINGS_WRITE);
	struct findings_run *runs;
	struct error err;
	int64_t sound, gaps;
	size_t count;

	OK(findings_ask(findings, &sound, &err, "SELECT integrity_check = 'ok' FROM pragma_integrity_check", ""));
	cr_assert_eq(sound, 1);
	OK(findings_ask(findings, &gaps, &err, "SELECT count(*) FROM pragma_foreign_key_check", ""));
	cr_assert_eq(gaps, 0);
	OK(findings_ask(findings, &gaps, &err,
			"SELECT count(*) FROM (SELECT 1 FROM samples GROUP BY run HAVING max(number) + 1 <> count(*))",
			""));
	cr_assert_eq(gaps, 0);
	OK(findings_list(findings, &(struct findings_filter){ 0 }, &runs, &count, &err));
	for (size_t i = 0; i < count; i++)
		cr_assert_eq(runs[i].verdict, VERDICT_INTERRUPTED);
	*interrupted = count;
	findings_runs_free(runs, count);
	findings_close(findings);
}

Test(findings, killed_at_any_moment, .timeout = 120)
{
	unsigned int seed = 20261130;
	size_t interrupted = 0;

	for (int i = 0; i < 50; i++) {
		kill_writer(&seed);
		check_whole(&interrupted);
	}
	cr_expect(interrupted >= 30, "only %zu of 50 had begun a run", interrupted);
}

Test(findings, a_run_that_goes_on_is_running)
{
	struct findings *findings = findings_get("f.db", FINDINGS_WRITE);
	struct findings_writer *writer = begin(findings);
	struct findings *reader = findings_get("f.db", FINDINGS_READ);
	struct findings_run *run = findings_run_get(reader, "last");

	cr_expect_eq(run->verdict, VERDICT_RUNNING);
	findings_run_free(run);
	findings_drop(writer);
	findings_close(reader);
	findings_close(findings);
}

/* What could not be written is written later. */
Test(findings, a_busy_file_loses_nothing, .timeout = 60)
{
	struct findings *findings = findings_get("f.db", FINDINGS_WRITE);
	struct findings *other = findings_get("f.db", FINDINGS_WRITE);
	struct findings_writer *writer = begin(findings);
	struct findings_run *run;
	struct error err;

	sqlite3_busy_timeout(findings->db, 10);
	OK(findings_transaction(other, &err));
	OK(findings_sample(writer, &(struct sample){ 1, "ask", true, 10, 200, NULL }, &err));
	cr_expect_eq(findings_flush(writer, &err), -EBUSY);
	OK(findings_end(other, 0, &err));
	OK(findings_sample(writer, &(struct sample){ 2, "ask", true, 10, 200, NULL }, &err));
	OK(findings_finish(writer, VERDICT_HELD, NULL, &err));
	run = findings_run_get(findings, "last");
	cr_expect_eq(run->samples_count, 2);
	findings_run_free(run);
	findings_close(other);
	findings_close(findings);
}
