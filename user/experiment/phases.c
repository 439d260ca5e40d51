// SPDX-License-Identifier: GPL-2.0-only
#include "user/experiment/phases.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define DEGRADED_NS 10000000000ULL /* for so long it must hold to be taken for degraded in order, not for a pause */

static void enter(struct phases *p, enum phase phase, uint64_t now)
{
	p->phase = phase;
	p->began_ns[phase] = now;
}

void phases_begin(struct phases *p, const struct experiment *experiment, const struct samples *samples, uint64_t now)
{
	*p = (struct phases){ .experiment = experiment, .samples = samples };
	p->time_to_degrade_ms = NAN;
	p->time_to_recover_ms = NAN;
	enter(p, PHASE_BASELINE, now);
}

/* The first to give a verdict is right: what follows from ending is no reason. */
static void decide(struct phases *p, enum verdict verdict, int exit, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
static void decide(struct phases *p, enum verdict verdict, int exit, const char *fmt, ...)
{
	va_list ap;

	if (p->verdict != VERDICT_RUNNING)
		return;
	p->verdict = verdict;
	p->exit = exit;
	va_start(ap, fmt);
	vsnprintf(p->reason, sizeof(p->reason), fmt, ap);
	va_end(ap);
}

void phases_broken(struct phases *p, uint64_t now)
{
	if (!p->broken_ns)
		p->broken_ns = now;
}

void phases_step_done(struct phases *p)
{
	if (!p->step_running)
		return;
	p->step_running = false;
	p->step++;
}

void phases_fail(struct phases *p, const struct error *err)
{
	decide(p, VERDICT_ERROR, err->exit, "%.500s", err->text);
	p->hurry = true;
}

void phases_lost(struct phases *p, const char *what)
{
	decide(p, VERDICT_ERROR, EXIT_FAILED, "%.400s: what was measured proves nothing", what);
}

void phases_hits(struct phases *p, uint64_t matched, uint64_t injected, const char *missed)
{
	p->matched = matched;
	p->injected = injected;
	p->missed = missed;
}

void phases_abort(struct phases *p, bool hurry, const char *fmt, ...)
{
	char text[sizeof(p->reason)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	decide(p, VERDICT_ABORTED, EXIT_ABORTED, "%s", text);
	p->hurry = p->hurry || hurry;
}

void phases_rolled_back(struct phases *p, uint64_t now)
{
	if (p->phase != PHASE_ROLLBACK || p->rolled_back_ns)
		return;
	p->rolled_back_ns = now;
	p->steady_since_ns = now;
}

/* ---- what is measured ---- */

static uint64_t longest_every(const struct experiment *e, const struct conditions *conditions)
{
	uint64_t longest = 0;

	for (size_t i = 0; i < conditions->count; i++) {
		uint64_t every = e->probes[conditions->list[i].probe].every_ns;

		longest = every > longest ? every : longest;
	}
	return longest;
}

/*
 * When the service had degraded as it should: the earliest moment from which on what is promised holds up to the roll back,
 * and holds right from there. At most some hundred moments are tried, at even distances.
 */
static double time_to_degrade(const struct phases *p)
{
	const struct conditions *during = &p->experiment->during;
	uint64_t every = longest_every(p->experiment, during), length = p->roll_back_ns - p->broken_ns;
	uint64_t pace = every > length / 500 ? every : length / 500;
	uint64_t first = 10 * every > DEGRADED_NS ? 10 * every : DEGRADED_NS;

	for (uint64_t at = 0; at < length; at += pace ?: 1) {
		uint64_t from = p->broken_ns + at;
		uint64_t to = at + first < length ? from + first : p->roll_back_ns;

		if (conditions_hold(p->samples, during, from, p->roll_back_ns) &&
		    conditions_hold(p->samples, during, from, to))
			return (double)at / 1e6;
	}
	return NAN;
}

/* From where to where `during` is judged; false: it did not come to that. */
static bool during_span(const struct phases *p, uint64_t *from, uint64_t *to)
{
	*from = p->broken_ns + p->experiment->within_ns;
	*to = p->roll_back_ns;
	return p->broken_ns && p->roll_back_ns && *from < *to;
}

static void add_conditions(const struct phases *p, enum hypothesis_when when, const struct conditions *conditions,
			   uint64_t from, uint64_t to, struct finding *list, size_t *count)
{
	const bool reached = from && from < to;

	for (size_t i = 0; i < conditions->count; i++) {
		const struct condition *c = &conditions->list[i];
		struct finding *f = &list[(*count)++];

		*f = (struct finding){ .when = when, .condition = c, .actual = NAN, .outcome = OUTCOME_UNTESTED };
		if (!reached)
			continue;
		f->actual = samples_measure(p->samples, c->probe, c->measure, from, to);
		f->outcome = condition_holds(c, f->actual) ? OUTCOME_HELD : OUTCOME_FAILED;
		if (isnan(f->actual))
			snprintf(f->detail, sizeof(f->detail), "%s",
				 isnan(samples_measure(p->samples, c->probe, MEASURE_SUCCESS, from, to))
					 ? "no attempt ended"
					 : "no attempt was answered as expected");
	}
}

static void add_recovery(const struct phases *p, struct finding *list, size_t *count)
{
	struct finding *f = &list[(*count)++];

	*f = (struct finding){ .when = WHEN_RECOVERY, .actual = p->time_to_recover_ms, .outcome = OUTCOME_UNTESTED };
	if (!p->judge_recovery)
		return;
	f->outcome = p->recovered ? OUTCOME_HELD : OUTCOME_FAILED;
	if (!p->recovered)
		snprintf(f->detail, sizeof(f->detail), "the steady state did not come back");
}

static void add_abort(const struct phases *p, struct finding *list, size_t *count)
{
	const struct conditions *abort = &p->experiment->abort;
	uint64_t to = p->roll_back_ns, from = p->broken_ns;

	if (to > p->experiment->abort_for_ns && to - p->experiment->abort_for_ns > from)
		from = to - p->experiment->abort_for_ns;
	for (size_t i = 0; i < abort->count; i++) {
		struct finding *f = &list[(*count)++];

		*f = (struct finding){ .when = WHEN_ABORT, .condition = &abort->list[i], .actual = NAN };
		if (!p->broken_ns || from >= to)
			continue;
		f->actual = samples_measure(p->samples, f->condition->probe, f->condition->measure, from, to);
		f->outcome = p->verdict == VERDICT_ABORTED && condition_holds(f->condition, f->actual) ? OUTCOME_FAILED
												       : OUTCOME_HELD;
	}
}

size_t phases_findings(const struct phases *p, struct finding *list)
{
	const struct experiment *e = p->experiment;
	uint64_t baseline = p->began_ns[PHASE_BASELINE], from, to;
	const bool judged = p->began_ns[PHASE_INJECT] || p->verdict == VERDICT_SKIPPED;
	size_t count = 0;

	add_conditions(p, WHEN_STEADY_BEFORE, &e->steady, judged ? baseline : 0, baseline + e->baseline_ns, list,
		       &count);
	if (!during_span(p, &from, &to))
		from = to = 0;
	add_conditions(p, WHEN_DURING, &e->during, from, to, list, &count);
	if (e->steady.count) {
		from = p->judge_recovery ? p->steady_since_ns : 0;
		to = p->began_ns[PHASE_COOLDOWN] ?: p->began_ns[PHASE_VERDICT];
		add_conditions(p, WHEN_STEADY_AFTER, &e->steady, from, to, list, &count);
		add_recovery(p, list, &count);
	}
	add_abort(p, list, &count);
	return count;
}

/* ---- the course ---- */

static void finding_words(const struct phases *p, const struct finding *f, char *buf, size_t size)
{
	char promised[160], actual[64];

	if (!f->condition) {
		snprintf(buf, size, "the steady state did not come back within %.1f s after the roll back",
			 (double)p->experiment->recovery_within_ns / 1e9);
		return;
	}
	condition_text(p->experiment, f->condition, promised, sizeof(promised));
	value_words(actual, sizeof(actual), f->actual, measure_units[f->condition->measure]);
	snprintf(buf, size, "%s: promised is %s, it was %s%s%s%s", when_names[f->when], promised, actual,
		 f->detail[0] ? " (" : "", f->detail, f->detail[0] ? ")" : "");
}

/* Where the method has rules these are what breaks, and they broke nothing. */
static bool hit_nothing(const struct phases *p)
{
	for (size_t i = 0; i < p->experiment->steps_count && !p->injected; i++) {
		if (p->experiment->steps[i].kind == STEP_RULES)
			return true;
	}
	return false;
}

/* What is promised holds, but does it prove something? */
static void judge_held(struct phases *p, size_t held)
{
	if (hit_nothing(p) && p->matched)
		decide(p, VERDICT_ERROR, EXIT_FAILED,
		       "nothing was injected, so what held proves nothing: faults came up %llu times and were all "
		       "skipped",
		       (unsigned long long)p->matched);
	else if (hit_nothing(p))
		decide(p, VERDICT_ERROR, EXIT_FAILED,
		       "nothing was injected, so what held proves nothing: nothing that the rules name was used");
	else if (p->missed)
		decide(p, VERDICT_HELD, EXIT_DONE, "all %zu hypotheses held, but rule '%s' injected nothing", held,
		       p->missed);
	else
		decide(p, VERDICT_HELD, EXIT_DONE, "all %zu hypotheses held", held);
}

/* Nothing else was decided: the hypotheses do. What comes back late is told as that, and not measure by measure. */
static void judge(struct phases *p)
{
	struct finding list[PHASES_MAX_FINDINGS];
	size_t count = phases_findings(p, list), held = 0;
	char words[400];

	for (size_t i = 0; i < count; i++) {
		if (list[i].when == WHEN_ABORT)
			continue;
		held += list[i].outcome == OUTCOME_HELD;
		if (list[i].outcome == OUTCOME_FAILED && list[i].when != WHEN_STEADY_AFTER) {
			finding_words(p, &list[i], words, sizeof(words));
			decide(p, VERDICT_WEAKNESS, EXIT_WEAKNESS, "%s%s", words,
			       hit_nothing(p) ? "; but nothing was injected" : "");
		}
	}
	judge_held(p, held);
}

static void skip(struct phases *p)
{
	struct finding list[PHASES_MAX_FINDINGS];
	size_t count;
	char words[400];

	p->verdict = VERDICT_SKIPPED; /* for phases_findings(): the baseline is judged */
	count = phases_findings(p, list);
	p->verdict = VERDICT_RUNNING;
	for (size_t i = 0; i < count; i++) {
		if (list[i].outcome == OUTCOME_FAILED) {
			finding_words(p, &list[i], words, sizeof(words));
			decide(p, VERDICT_SKIPPED, EXIT_DONE, "not healthy at the start, nothing was injected: %s",
			       words);
		}
	}
}

static enum order finish(struct phases *p, uint64_t now)
{
	enter(p, PHASE_VERDICT, now);
	if (p->broken_ns && p->roll_back_ns > p->broken_ns && p->experiment->during.count)
		p->time_to_degrade_ms = time_to_degrade(p);
	judge(p);
	return ORDER_END;
}

static enum order roll_back(struct phases *p, uint64_t now)
{
	enter(p, PHASE_ROLLBACK, now);
	p->roll_back_ns = now;
	return ORDER_ROLL_BACK;
}

static enum order baseline(struct phases *p, uint64_t now, uint64_t settled)
{
	uint64_t end = p->began_ns[PHASE_BASELINE] + p->experiment->baseline_ns;

	if (p->verdict != VERDICT_RUNNING)
		return finish(p, now);
	if (now < end || settled < end)
		return ORDER_WAIT;
	if (!conditions_hold(p->samples, &p->experiment->steady, p->began_ns[PHASE_BASELINE], end)) {
		skip(p);
		return finish(p, now);
	}
	enter(p, PHASE_INJECT, now);
	p->step_running = true;
	return ORDER_STEP;
}

static void check_abort(struct phases *p, uint64_t now)
{
	const struct experiment *e = p->experiment;
	const struct condition *condition;
	char words[160];

	if (!e->abort.count || !p->broken_ns || now - p->broken_ns < e->abort_for_ns)
		return;
	condition = conditions_any(p->samples, &e->abort, now - e->abort_for_ns, now);
	if (!condition)
		return;
	condition_text(e, condition, words, sizeof(words));
	phases_abort(p, false, "%s for %.3g s", words, (double)e->abort_for_ns / 1e9);
}

static enum order inject(struct phases *p, uint64_t now)
{
	check_abort(p, now);
	if (p->verdict != VERDICT_RUNNING)
		return roll_back(p, now);
	if (p->step_running)
		return ORDER_WAIT;
	if (p->step < p->experiment->steps_count) {
		p->step_running = true;
		return ORDER_STEP;
	}
	enter(p, PHASE_OBSERVE, now);
	return ORDER_WAIT;
}

static enum order observe(struct phases *p, uint64_t now)
{
	check_abort(p, now);
	if (p->verdict != VERDICT_RUNNING || now >= p->began_ns[PHASE_OBSERVE] + p->experiment->observe_ns)
		return roll_back(p, now);
	return ORDER_WAIT;
}

static enum order rolling_back(struct phases *p, uint64_t now)
{
	if (!p->rolled_back_ns)
		return ORDER_WAIT;
	if (p->hurry)
		return finish(p, now);
	enter(p, PHASE_RECOVER, now);
	return ORDER_WAIT;
}

static enum order recovered(struct phases *p, uint64_t now, bool yes)
{
	p->judge_recovery = p->experiment->steady.count > 0;
	p->recovered = yes;
	if (yes && p->judge_recovery)
		p->time_to_recover_ms = (double)(p->steady_since_ns - p->rolled_back_ns) / 1e6;
	enter(p, PHASE_COOLDOWN, now);
	return ORDER_WAIT;
}

static enum order recover(struct phases *p, uint64_t now, uint64_t settled)
{
	const struct experiment *e = p->experiment;
	uint64_t latest = p->rolled_back_ns + e->recovery_within_ns;
	bool holds;

	if (p->hurry)
		return finish(p, now);
	if (settled < p->roll_back_ns)
		return ORDER_WAIT; /* of `during`, some answers are still to come */
	if (!e->steady.count)
		return recovered(p, now, true);
	holds = conditions_hold_since(p->samples, &e->steady, settled, &p->steady_since_ns);
	if (p->steady_since_ns > latest)
		return recovered(p, now, false);
	if (holds && settled >= p->steady_since_ns + e->recovery_for_ns)
		return recovered(p, now, true);
	/* An end also when nothing is answered any more. */
	if (!holds && settled >= latest + e->recovery_for_ns)
		return recovered(p, now, false);
	return ORDER_WAIT;
}

enum order phases_tick(struct phases *p, uint64_t now, uint64_t settled)
{
	switch (p->phase) {
	case PHASE_BASELINE:
		return baseline(p, now, settled);
	case PHASE_INJECT:
		return inject(p, now);
	case PHASE_OBSERVE:
		return observe(p, now);
	case PHASE_ROLLBACK:
		return rolling_back(p, now);
	case PHASE_RECOVER:
		return recover(p, now, settled);
	case PHASE_COOLDOWN:
		if (!p->hurry && now < p->began_ns[PHASE_COOLDOWN] + p->experiment->cooldown_ns)
			return ORDER_WAIT;
		return finish(p, now);
	case PHASE_VERDICT:
	case PHASE_COUNT:
		break;
	}
	return ORDER_END;
}

uint64_t phases_expected_end(const struct phases *p)
{
	const struct experiment *e = p->experiment;
	uint64_t began = p->began_ns[p->phase];

	switch (p->phase) {
	case PHASE_BASELINE:
		return began + e->baseline_ns;
	case PHASE_INJECT:
		return experiment_method_ns(e) ? began + experiment_method_ns(e) : 0;
	case PHASE_OBSERVE:
		return began + e->observe_ns;
	case PHASE_RECOVER:
		return began + e->recovery_within_ns + e->recovery_for_ns;
	case PHASE_COOLDOWN:
		return began + e->cooldown_ns;
	default:
		return 0;
	}
}
