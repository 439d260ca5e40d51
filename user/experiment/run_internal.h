/* SPDX-License-Identifier: GPL-2.0-only */
/* A run under way: what the files user/run*.c share, for nobody else. */
#ifndef USER_RUN_INTERNAL_H
#define USER_RUN_INTERNAL_H

#include "user/base/spawn.h"
#include "user/experiment/generator.h"
#include "user/experiment/holder.h"
#include "user/experiment/phases.h"
#include "user/experiment/prober.h"
#include "user/experiment/run.h"
#include "user/experiment/run_watch.h"
#include "user/state/state.h"

/* What a step of the method is doing. */
struct action {
	struct run *run;
	size_t step;
	bool busy;
	uint64_t began_ns, until_ns; /* 0: no end of its own */
	struct spawned spawned;
	struct generator *generator;
};

/* A rule that was loaded in this run, as it was last seen. Of one that several steps load these are sums. */
struct run_rule {
	char name[RULES_MAX_NAME + 1];
	char sentence[1024];
	struct chaos_stats stats;
	uint32_t generation;       /* of the load that it was last seen in, */
	struct chaos_stats before; /* and what it did before that */
};

/* What is drawn while it runs. */
struct view {
	bool terminal, quiet;
	uint64_t next_ns; /* when to draw again */
	size_t drawn;     /* characters of the live line that is there */
};

struct run {
	const struct experiment *experiment;
	const struct run_options *options;
	struct samples samples;
	struct phases phases;
	struct web *web;
	struct prober *prober;
	struct watch watch;
	struct holder holder;
	struct action *actions; /* one for each step */
	bool loaded, loading;   /* rules are in force; are being loaded, or the order to end them is on its way */
	size_t load_step;       /* whose rules */
	bool over;              /* they have ended by themselves, and are being taken down */
	bool load_next;         /* what is loaded is being ended to make room for load_step */
	uint32_t generation;
	int control_fd; /* of the word that arms; -1 */
	uint64_t end_boot_ns;
	int signals;
	int button;                 /* `chaosbpf stop`, also while nothing is loaded */
	uint64_t began_ns, look_ns; /* when counters are read next */
	uint64_t injected;          /* in sum */
	struct run_rule *rules;
	size_t rules_count;
	uint64_t events_dropped;
	struct findings_writer *writer;
	bool writer_failed; /* said once */
	int64_t id;
	struct view view;
	uint64_t *attempts, *good; /* of each probe, since the start */
	double rollback_ms;
};

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t run_now(void);

/* user/experiment/run_steps.c */

void step_begin(struct run *run, uint64_t now);
uint64_t steps_tick(struct run *run, uint64_t now);
void steps_roll_back(struct run *run, uint64_t now);
void steps_news(struct run *run, uint64_t now);
/* Is what was armed still armed? */
void steps_watch(struct run *run, uint64_t now);
size_t steps_fds(const struct run *run, struct pollfd *fds, size_t room);
void steps_free(struct run *run);

/* user/experiment/run_record.c: whatever cannot be kept is told once, and the run goes on */

void record_begin(struct run *run);
void record_phase(struct run *run);
void record_sample(struct run *run, const struct probe_answer *answer);
void record_measure(struct run *run, size_t probe, enum measure measure, uint64_t at_ns, double value);
void record_note(struct run *run, enum moment_kind kind, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void record_rules(struct run *run); /* reads the counters of what is loaded, or was last */
void record_events(struct run *run);
void record_end(struct run *run);

/* user/experiment/run_show.c */

void show_begin(struct run *run);
void show_phase(struct run *run, uint64_t now);
uint64_t show_tick(struct run *run, uint64_t now);
void show_note(struct run *run, const char *text);
void show_result(struct run *run);
void show_json(struct run *run);

#endif
