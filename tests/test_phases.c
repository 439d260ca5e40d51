// SPDX-License-Identifier: GPL-2.0-only
/*
 * user/experiment/samples.c and user/experiment/phases.c: numbers from samples, and the course of a run to each verdict, with a clock that is
 * moved by hand.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "user/experiment/phases.h"

#define SECOND 1000000000ULL
#define MS     1000000ULL
#define START  (1000 * SECOND)

static const char document[] = "version: 1\nexperiment: e\n"
			       "probes: [{ name: ask, tcp: \"h:1\", every: 1s }]\n"
			       "steady: { ask.success: \">= 90%\", ask.p99: \"<= 500ms\" }\n"
			       "during: { ask.success: \">= 80%\", within: 10s }\n"
			       "abort: { ask.success: \"< 10%\", for: 15s }\n"
			       "recovery: { within: 20s, for: 5s }\n"
			       "baseline: 10s\nobserve: 40s\ncooldown: 3s\n"
			       "method: [{ rules: [{ name: a, match: { ports: 1 }, fault: { drop: true } }] }]\n";

/* A run whose service answers as the test wants, once a second. */
struct course {
	struct experiment *experiment;
	struct samples samples;
	struct phases phases;
	uint64_t now;
	bool misses; /* its rules hit nothing */
	unsigned int orders[4]; /* how often each came */
};

static void course_begin(struct course *c, const char *source)
{
	struct error err;

	*c = (struct course){ .now = START };
	cr_assert_eq(experiment_parse("t", source, strlen(source), NULL, &c->experiment, &err), 0, "%s", err.text);
	cr_assert_eq(samples_open(&c->samples, c->experiment->probes_count, &err), 0);
	phases_begin(&c->phases, c->experiment, &c->samples, c->now);
}

static void course_end(struct course *c)
{
	samples_close(&c->samples);
	experiment_free(c->experiment);
}

static void add(struct course *c, uint64_t at, bool ok, double latency_ms)
{
	const struct attempt attempt = { .at_ns = at, .ok = ok, .latency_ms = latency_ms, .value = NAN };

	cr_assert_eq(samples_add(&c->samples, 0, &attempt), 0);
}

/* What the run would do with an order. */
static enum order obey(struct course *c, enum order order)
{
	c->orders[order]++;
	if (order == ORDER_STEP) {
		phases_broken(&c->phases, c->now);
		if (!c->misses)
			phases_hits(&c->phases, 3, 2, NULL);
		phases_step_done(&c->phases);
	} else if (order == ORDER_ROLL_BACK) {
		phases_rolled_back(&c->phases, c->now + 100 * MS);
	}
	return order;
}

/* One second with one attempt; true: the run is over. */
static bool second(struct course *c, bool ok, double latency_ms)
{
	enum phase before;
	enum order order;

	add(c, c->now, ok, latency_ms);
	c->now += SECOND;
	do {
		before = c->phases.phase;
		order = obey(c, phases_tick(&c->phases, c->now, c->now));
	} while (order == ORDER_STEP || order == ORDER_ROLL_BACK || (order == ORDER_WAIT && c->phases.phase != before));
	return order == ORDER_END;
}

/* Good but for `bad` seconds after the faults are there, and `late` seconds after the roll back. */
static void run(struct course *c, unsigned int bad, unsigned int late)
{
	for (int i = 0; i < 200; i++) {
		const uint64_t broken = c->phases.broken_ns, back = c->phases.rolled_back_ns;
		bool ok = true;

		if (back)
			ok = c->now - back >= late * SECOND;
		else if (broken)
			ok = c->now - broken >= bad * SECOND;
		if (second(c, ok, 100))
			return;
	}
	cr_assert_fail("no end");
}

static const struct finding *finding(const struct course *c, enum hypothesis_when when, enum measure measure)
{
	static struct finding list[PHASES_MAX_FINDINGS];
	size_t count = phases_findings(&c->phases, list);

	for (size_t i = 0; i < count; i++) {
		if (list[i].when == when && (!list[i].condition || list[i].condition->measure == measure))
			return &list[i];
	}
	return NULL;
}

Test(phases, held)
{
	struct course c;

	course_begin(&c, document);
	run(&c, 5, 0);
	cr_expect_eq(c.phases.verdict, VERDICT_HELD, "%s", c.phases.reason);
	cr_expect_eq(c.phases.exit, EXIT_DONE);
	cr_expect_eq(c.phases.began_ns[PHASE_INJECT] - START, 10 * SECOND);
	cr_expect_eq(c.phases.roll_back_ns - c.phases.broken_ns, 40 * SECOND, "%llu",
		     (unsigned long long)(c.phases.roll_back_ns - c.phases.broken_ns));
	cr_expect_eq(c.orders[ORDER_STEP], 1);
	cr_expect_eq(c.orders[ORDER_ROLL_BACK], 1);
	cr_expect_eq(finding(&c, WHEN_DURING, MEASURE_SUCCESS)->actual, 100);
	cr_expect_eq(finding(&c, WHEN_RECOVERY, 0)->outcome, OUTCOME_HELD);
	course_end(&c);
}

/* 5 bad ones of 10 are over the limit, of all 40 they are not: it must hold right from there. */
Test(phases, time_to_degrade)
{
	struct course c;

	course_begin(&c, document);
	run(&c, 5, 0);
	cr_expect_eq(c.phases.time_to_degrade_ms, 3000, "%f", c.phases.time_to_degrade_ms);
	course_end(&c);
	course_begin(&c, document);
	run(&c, 0, 0);
	cr_expect_eq(c.phases.time_to_degrade_ms, 0);
	course_end(&c);
}

Test(phases, degrades_too_late)
{
	struct course c;

	course_begin(&c, document);
	c.experiment->abort.count = 0;
	run(&c, 25, 0);
	cr_expect_eq(c.phases.verdict, VERDICT_WEAKNESS);
	cr_expect_eq(c.phases.exit, EXIT_WEAKNESS);
	cr_expect(strstr(c.phases.reason, "during: promised is ask.success >= 80 %"), "%s", c.phases.reason);
	cr_expect_eq(finding(&c, WHEN_DURING, MEASURE_SUCCESS)->outcome, OUTCOME_FAILED);
	cr_expect_eq(finding(&c, WHEN_STEADY_BEFORE, MEASURE_SUCCESS)->outcome, OUTCOME_HELD);
	course_end(&c);
}

Test(phases, time_to_recover)
{
	struct course c;

	course_begin(&c, document);
	run(&c, 0, 8);
	cr_expect_eq(c.phases.verdict, VERDICT_HELD, "%s", c.phases.reason);
	/* Rolled back 100 ms after a sample: the first good one is begun 8.9 s later. */
	cr_expect_eq(c.phases.time_to_recover_ms, 8900, "%f", c.phases.time_to_recover_ms);
	course_end(&c);
}

Test(phases, recovers_too_late)
{
	struct course c;

	course_begin(&c, document);
	run(&c, 0, 25);
	cr_expect_eq(c.phases.verdict, VERDICT_WEAKNESS);
	cr_expect_str_eq(c.phases.reason, "the steady state did not come back within 20.0 s after the roll back");
	cr_expect_eq(finding(&c, WHEN_RECOVERY, 0)->outcome, OUTCOME_FAILED);
	cr_expect(isnan(c.phases.time_to_recover_ms));
	course_end(&c);
}

Test(phases, not_healthy_at_the_start)
{
	struct course c;
	bool over = false;

	course_begin(&c, document);
	for (int i = 0; i < 20 && !over; i++)
		over = second(&c, i > 2, 100);
	cr_expect(over);
	cr_expect_eq(c.phases.verdict, VERDICT_SKIPPED);
	cr_expect_eq(c.phases.exit, EXIT_DONE);
	cr_expect_eq(c.orders[ORDER_STEP], 0, "nothing was broken");
	cr_expect_eq(finding(&c, WHEN_STEADY_BEFORE, MEASURE_SUCCESS)->outcome, OUTCOME_FAILED);
	cr_expect_eq(finding(&c, WHEN_DURING, MEASURE_SUCCESS)->outcome, OUTCOME_UNTESTED);
	course_end(&c);
}

/* A service that says nothing at all is not healthy either. */
Test(phases, no_answer_at_the_start)
{
	struct course c;

	course_begin(&c, document);
	cr_expect_eq(phases_tick(&c.phases, START + 10 * SECOND, START + 9 * SECOND), ORDER_WAIT, "one is under way");
	cr_expect_eq(phases_tick(&c.phases, START + 12 * SECOND, START + 10 * SECOND), ORDER_END);
	cr_expect_eq(c.phases.verdict, VERDICT_SKIPPED);
	course_end(&c);
}

Test(phases, aborts)
{
	struct course c;

	course_begin(&c, document);
	run(&c, 1000, 0);
	cr_expect_eq(c.phases.verdict, VERDICT_ABORTED);
	cr_expect_eq(c.phases.exit, EXIT_ABORTED);
	cr_expect_str_eq(c.phases.reason, "ask.success < 10 % for 15 s");
	cr_expect_eq(c.phases.roll_back_ns - c.phases.broken_ns, 15 * SECOND);
	cr_expect_eq(finding(&c, WHEN_ABORT, MEASURE_SUCCESS)->outcome, OUTCOME_FAILED);
	cr_expect_eq(finding(&c, WHEN_RECOVERY, 0)->outcome, OUTCOME_HELD, "it is still measured");
	course_end(&c);
}

Test(phases, somebody_ends_it)
{
	struct course c;

	course_begin(&c, document);
	for (int i = 0; i < 15; i++)
		cr_assert(!second(&c, true, 100));
	phases_abort(&c.phases, true, "ended by Ctrl-C");
	cr_expect_eq(phases_tick(&c.phases, c.now, c.now), ORDER_ROLL_BACK);
	cr_expect_eq(phases_tick(&c.phases, c.now, c.now), ORDER_WAIT);
	phases_rolled_back(&c.phases, c.now);
	cr_expect_eq(phases_tick(&c.phases, c.now, c.now), ORDER_END, "without a recovery");
	cr_expect_eq(c.phases.exit, EXIT_ABORTED);
	cr_expect_eq(finding(&c, WHEN_RECOVERY, 0)->outcome, OUTCOME_UNTESTED);
	course_end(&c);
}

Test(phases, a_step_fails)
{
	const struct error cannot = { .exit = EXIT_CANNOT, .text = "this kernel cannot" };
	struct course c;

	course_begin(&c, document);
	for (int i = 0; i < 9; i++)
		cr_assert(!second(&c, true, 100));
	add(&c, c.now, true, 100);
	c.now += SECOND;
	cr_expect_eq(phases_tick(&c.phases, c.now, c.now), ORDER_STEP);
	phases_fail(&c.phases, &cannot);
	cr_expect_eq(phases_tick(&c.phases, c.now, c.now), ORDER_ROLL_BACK);
	phases_rolled_back(&c.phases, c.now);
	cr_expect_eq(phases_tick(&c.phases, c.now, c.now), ORDER_END, "without a recovery");
	cr_expect_eq(c.phases.phase, PHASE_VERDICT);
	cr_expect_eq(c.phases.verdict, VERDICT_ERROR);
	cr_expect_eq(c.phases.exit, EXIT_CANNOT);
	course_end(&c);
}

/* It was broken until then: it is rolled back, and recovery is waited for. */
Test(phases, faults_are_lost)
{
	struct course c;

	course_begin(&c, document);
	while (!c.phases.began_ns[PHASE_OBSERVE])
		cr_assert(!second(&c, true, 100));
	phases_lost(&c.phases, "somebody has detached program chaos_out");
	run(&c, 0, 3);
	cr_expect_eq(c.phases.verdict, VERDICT_ERROR);
	cr_expect_eq(c.phases.exit, EXIT_FAILED);
	cr_expect_str_eq(c.phases.reason, "somebody has detached program chaos_out: what was measured proves nothing");
	cr_expect_eq(c.orders[ORDER_ROLL_BACK], 1);
	cr_expect_eq(finding(&c, WHEN_RECOVERY, 0)->outcome, OUTCOME_HELD);
	cr_expect_gt(c.phases.time_to_recover_ms, 0);
	course_end(&c);
}

static void misses(struct course *c, unsigned int late, uint64_t matched, const char *source)
{
	course_begin(c, source);
	c->misses = true;
	phases_hits(&c->phases, matched, 0, "a");
	run(c, 0, late);
}

/* That all is well without a fault is no surprise. */
Test(phases, hits_nothing)
{
	static const char load[] = "version: 1\nexperiment: e\nprobes: [{ name: ask, tcp: \"h:1\" }]\n"
				   "during: { ask.success: \">= 80%\" }\nbaseline: 10s\nobserve: 40s\n"
				   "method: [{ exec: [\"true\"] }]\n";
	struct course c;

	misses(&c, 0, 0, document);
	cr_expect_eq(c.phases.verdict, VERDICT_ERROR);
	cr_expect_eq(c.phases.exit, EXIT_FAILED);
	cr_expect_str_eq(c.phases.reason, "nothing was injected, so what held proves nothing: nothing that the rules "
					  "name was used");
	course_end(&c);
	misses(&c, 0, 7, document);
	cr_expect_str_eq(c.phases.reason, "nothing was injected, so what held proves nothing: faults came up 7 times "
					  "and were all skipped");
	course_end(&c);
	misses(&c, 0, 0, load);
	cr_expect_eq(c.phases.verdict, VERDICT_HELD, "other methods have no counters: %s", c.phases.reason);
	course_end(&c);
}

/* What fails by itself is a weakness all the same, and it is said that it was not the faults. */
Test(phases, fails_without_a_hit)
{
	struct course c;

	misses(&c, 60, 0, document);
	cr_expect_eq(c.phases.verdict, VERDICT_WEAKNESS);
	cr_expect(strstr(c.phases.reason, "; but nothing was injected"), "%s", c.phases.reason);
	course_end(&c);
}

Test(phases, one_rule_hits_nothing)
{
	struct course c;

	course_begin(&c, document);
	c.misses = true;
	phases_hits(&c.phases, 5, 5, "b");
	run(&c, 0, 0);
	cr_expect_eq(c.phases.verdict, VERDICT_HELD);
	cr_expect(strstr(c.phases.reason, "hypotheses held, but rule 'b' injected nothing"), "%s", c.phases.reason);
	course_end(&c);
}

/* Slow answers after the roll back are no steady state. */
Test(phases, recovery_takes_latency_into_account)
{
	struct course c;

	course_begin(&c, document);
	for (int i = 0; i < 200; i++) {
		uint64_t back = c.phases.rolled_back_ns;

		if (second(&c, true, back && c.now - back < 4 * SECOND ? 900 : 100))
			break;
	}
	cr_expect_eq(c.phases.verdict, VERDICT_HELD, "%s", c.phases.reason);
	cr_expect_eq(c.phases.time_to_recover_ms, 4900, "%f", c.phases.time_to_recover_ms);
	course_end(&c);
}

/* ---- samples ---- */

Test(samples, percentiles_are_nearest_rank)
{
	struct course c;

	course_begin(&c, document);
	for (unsigned int i = 0; i < 100; i++)
		add(&c, START + (i * 37 % 100) * SECOND, true, 1 + i * 37 % 100); /* in any order */
	add(&c, START + 50 * SECOND + 1, false, 5000);
	cr_expect_eq(samples_measure(&c.samples, 0, MEASURE_P50, 0, UINT64_MAX), 50);
	cr_expect_eq(samples_measure(&c.samples, 0, MEASURE_P90, 0, UINT64_MAX), 90);
	cr_expect_eq(samples_measure(&c.samples, 0, MEASURE_P99, 0, UINT64_MAX), 99);
	cr_expect_eq(samples_measure(&c.samples, 0, MEASURE_MAX, 0, UINT64_MAX), 100, "what failed does not count");
	cr_expect_eq(samples_measure(&c.samples, 0, MEASURE_ATTEMPTS, START + 10 * SECOND, START + 20 * SECOND), 10);
	cr_expect_eq(samples_measure(&c.samples, 0, MEASURE_RATE, START, START + 10 * SECOND), 1);
	cr_expect_eq(samples_measure(&c.samples, 0, MEASURE_P99, START, START + 10 * SECOND), 10);
	cr_expect(isnan(samples_measure(&c.samples, 0, MEASURE_SUCCESS, 0, START)));
	cr_expect(isnan(samples_measure(&c.samples, 0, MEASURE_VALUE, 0, UINT64_MAX)));
	cr_expect_eq(samples_next(&c.samples, 0, START), START + SECOND);
	cr_expect_eq(samples_next(&c.samples, 0, START + 99 * SECOND), UINT64_MAX);
	course_end(&c);
}

/* What the kernel counted comes in lots. */
Test(samples, one_for_many)
{
	const struct attempt lots[] = { { .at_ns = 1, .latency_ms = 10, .value = NAN, .ok = true, .times = 98 },
					{ .at_ns = 2, .latency_ms = 500, .value = NAN, .ok = true, .times = 2 },
					{ .at_ns = 3, .latency_ms = NAN, .value = NAN, .ok = false, .times = 100 } };
	struct samples samples;
	struct error err;

	cr_assert_eq(samples_open(&samples, 1, &err), 0);
	for (size_t i = 0; i < sizeof(lots) / sizeof(lots[0]); i++)
		cr_assert_eq(samples_add(&samples, 0, &lots[i]), 0);
	cr_expect_eq(samples_measure(&samples, 0, MEASURE_SUCCESS, 0, 10), 50);
	cr_expect_eq(samples_measure(&samples, 0, MEASURE_P50, 0, 10), 10);
	cr_expect_eq(samples_measure(&samples, 0, MEASURE_P99, 0, 10), 500);
	cr_expect_eq(samples_measure(&samples, 0, MEASURE_ATTEMPTS, 0, 10), 200);
	cr_expect_eq(samples_measure(&samples, 0, MEASURE_RATE, 0, 1000000000), 100);
	samples_close(&samples);
}

Test(samples, comparisons)
{
	struct condition condition = { .threshold = 90 };
	static const struct {
		enum comparison comparison;
		bool below, same, above;
	} table[] = {
		{ AT_LEAST, false, true, true },   { AT_MOST, true, true, false },   { MORE_THAN, false, false, true },
		{ LESS_THAN, true, false, false }, { EQUAL_TO, false, true, false },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		condition.comparison = table[i].comparison;
		cr_expect_eq(condition_holds(&condition, 89.9), table[i].below);
		cr_expect_eq(condition_holds(&condition, 90), table[i].same);
		cr_expect_eq(condition_holds(&condition, 90.1), table[i].above);
		cr_expect(!condition_holds(&condition, NAN), "what was not measured holds nothing");
	}
}

Test(samples, words)
{
	static const struct {
		double value;
		const char *unit, *words;
	} table[] = {
		{ 99.25, "%", "99.2 %" }, { 100, "%", "100 %" }, { 812, "ms", "812 ms" },   { 447.4, "ms", "447 ms" },
		{ 1234, "ms", "1.23 s" }, { 3000, "ms", "3 s" }, { 41234, "ms", "41.2 s" }, { 20, "/s", "20/s" },
		{ -1.5, "", "-1.50" },    { NAN, "%", "-" },
	};
	char words[64];

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		value_words(words, sizeof(words), table[i].value, table[i].unit);
		cr_expect_str_eq(words, table[i].words);
	}
}
