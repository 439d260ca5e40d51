/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is loaded at present: kept in bpffs (pins) and /run/chaosbpf (rules, journal, events), readable by every command
 * with no daemon, under one lock. store.h lists the files.
 */
#ifndef USER_STATE_H
#define USER_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bpf/chaos.h"
#include "user/base/error.h"
#include "user/inside/probe.h"
#include "user/rules/rules.h"
#include "user/state/lock.h"
#include "user/state/state_names.h"

enum rule_state {
	RULE_WAITING, /* its time has not come, or it is outside its window */
	RULE_ACTIVE,
	RULE_OBSERVING, /* active in a load that only observes */
	RULE_FINISHED,  /* its end has passed, max-hits is reached, or it was unloaded */
	RULE_STATE_COUNT,
};
extern const char *const rule_state_names[]; /* waiting, active, observing, finished */

struct rule_status {
	char name[RULES_MAX_NAME + 1];
	enum rule_state state;
	unsigned int faults;      /* set of 1 << enum chaos_fault */
	struct chaos_stats stats; /* summed over CPUs */
	uint64_t max_hits;        /* 0: no limit */
	double ends_in_s;         /* until its end; 0 when finished */
	double starts_in_s;       /* until it becomes active next; 0 when active or finished */
	bool unloaded;            /* by `unload RULE` */
	char awaits[600];         /* "container rag-api": nothing runs now that the rule names; else empty */
};

struct status {
	bool loaded;
	bool observe;
	uint32_t generation;
	char file[256];       /* the rules file as it was named */
	char command[64];     /* load, exec, inject */
	uint64_t loaded_at_s; /* wall clock */
	double ends_in_s;     /* until the last rule ends; 0 when all are over */
	pid_t owner;          /* the process whose life bounds the load (exec, --foreground), or 0 */
	pid_t reaper;         /* 0: not running: the next command cleans up after the end */
	struct chaos_totals totals;
	uint64_t events; /* written to the log so far */
	struct rule_status *rules;
	size_t rules_count;
	size_t devices;              /* prepared */
	struct name_list names;      /* of hosts in the rules */
	struct probe_status *probes; /* files whose functions are hooked */
	size_t probes_count;
};

/* Keeps the counters of a load that ends now, for status_read() afterwards. */
int status_save(const struct status *status, struct error *err);

/* Reads everything. Nothing loaded is not an error. Free with status_free(). */
int status_read(struct status **status, struct error *err);
void status_free(struct status *status);

/* Is something of a load left whose end has passed or whose owner is gone? Then cleans up. Called by every command. */
int state_tidy(struct error *err);

/* The rules that are loaded, parsed again from the copy that was kept; -ENOENT when nothing is. */
int state_rules(struct rules **rules, struct error *err);

#endif
