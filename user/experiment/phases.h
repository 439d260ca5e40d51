/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The course of a run, and its verdict:
 *
 *	baseline -> inject (the steps of the method) -> observe -> roll back -> recover -> cooldown -> verdict
 *
 * It does nothing itself and knows no clock: it is told the time and what has happened, looks at the samples, and says
 * what is to be done next. Times are in nanoseconds of any clock that only goes forward, and never 0.
 */
#ifndef USER_PHASES_H
#define USER_PHASES_H

#include "user/experiment/samples.h"

enum order {
	ORDER_WAIT,      /* nothing at present */
	ORDER_STEP,      /* begin step phases->step; then phases_step_done() */
	ORDER_ROLL_BACK, /* end all faults, loads and commands at once; then phases_rolled_back() */
	ORDER_END,       /* the verdict is there */
};

struct phases {
	const struct experiment *experiment;
	const struct samples *samples;
	enum phase phase;
	uint64_t began_ns[PHASE_COUNT]; /* 0: not reached */
	size_t step;
	bool step_running;
	uint64_t broken_ns;    /* when the first fault was there; 0: not yet */
	uint64_t roll_back_ns; /* when it was ordered: what is promised for `during` is judged up to here */
	uint64_t rolled_back_ns;
	uint64_t steady_since_ns; /* after the roll back; moves forward while it does not hold */
	bool recovered, judge_recovery;
	uint64_t matched, injected; /* see phases_hits() */
	const char *missed;
	bool hurry; /* somebody wants an end: no recovery, no cooldown */
	enum verdict verdict;
	char reason[512];
	int exit;                  /* enum exit_code */
	double time_to_degrade_ms; /* from broken_ns until what is promised for `during` held; NAN: never, or not known */
	double time_to_recover_ms;
};

void phases_begin(struct phases *phases, const struct experiment *experiment, const struct samples *samples,
		  uint64_t now);

/*
 * What is to be done now. Everything that was begun before `settled` has its sample: what is judged waits for that, so
 * that an attempt that hangs counts as much as one that fails at once.
 */
enum order phases_tick(struct phases *phases, uint64_t now, uint64_t settled);

/* The faults of the present step are there. */
void phases_broken(struct phases *phases, uint64_t now);
/* The present step has done what it does. */
void phases_step_done(struct phases *phases);
/* Something went wrong: the verdict is `error`, after a roll back. */
void phases_fail(struct phases *phases, const struct error *err);
/*
 * Faults were lost that nobody here has ended, so nothing can be said: the verdict is `error`. Unlike a step that fails
 * it was broken until then, so after the roll back recovery is waited for.
 */
void phases_lost(struct phases *phases, const char *what);
/* What the rules of the method have hit so far, in sum. `missed`: one that has hit nothing, or NULL; it must live on. */
void phases_hits(struct phases *phases, uint64_t matched, uint64_t injected, const char *missed);
/* Somebody or something ends it. With `hurry` nothing is measured any more. */
void phases_abort(struct phases *phases, bool hurry, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void phases_rolled_back(struct phases *phases, uint64_t now);

/* When the present phase ends if nothing happens; 0: that is not known. */
uint64_t phases_expected_end(const struct phases *phases);

/* One line of the verdict. Texts are those of the words of the language, or in `text`. */
struct finding {
	enum hypothesis_when when;
	const struct condition *condition; /* NULL: recovery */
	double actual;
	enum outcome outcome;
	char detail[128];
};

/* All hypotheses, in the order in which they are judged; `list` has room for PHASES_MAX_FINDINGS. */
#define PHASES_MAX_FINDINGS (4 * EXPERIMENT_MAX_CONDITIONS + 1)
size_t phases_findings(const struct phases *phases, struct finding *list);

#endif
