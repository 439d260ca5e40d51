/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A load in the making or running: made by compile.c and load.c, explained by check.c, served by reaper.c, ended by
 * stop.c.
 */
#ifndef USER_LOAD_INTERNAL_H
#define USER_LOAD_INTERNAL_H

#include "user/base/process.h"
#include "user/engine/engine.h"
#include "user/engine/feature.h"
#include "user/load/load.h"
#include "user/engine/prepare.h"
#include "user/inside/probe.h"
#include "user/state/eventlog.h"
#include "user/load/follow.h"
#include "user/state/store.h"
#include "user/tables/schedule.h"
#include "user/tables/tables.h"
#include "user/target/target.h"

struct load {
	struct rules *rules; /* the caller's */
	struct load_options options;
	struct features features;
	struct process_list processes;
	struct target *targets;
	struct tables *tables;
	struct schedule schedule;
	struct engine engine;
	struct prepare prepare;
	struct probes probes;
	struct store_record record;
	struct eventlog log;
	struct follow follow; /* while it is served */
	char pin_dir[64];
	uint64_t began_ns; /* CLOCK_BOOTTIME: rules count from here */
	bool appeared;     /* something is to be prepared */
};

/* Everything up to, but without, touching the machine. */
int load_compile(struct load *load, struct rules *rules, const struct load_options *options, struct error *err);
void load_free(struct load *load);

/* Why rule `index` cannot be had on this kernel; 0 when it can. */
int rule_possible(const struct load *load, size_t index, struct error *err);

/* Takes down a load that is over: everything but its record, events and last counters. Needs the lock. */
int load_finish(struct store_record *record, struct error *err);

/* Starts the background process that serves a load to its end. Its pid, or a negative errno. */
pid_t reaper_start(struct load *load, struct error *err);

#endif
