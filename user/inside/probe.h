/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Probes on functions of programs and libraries, for `gpu-oom` and `call`: finds the files that the rules' processes have
 * mapped, the functions in them, and attaches the programs of bpf/call.bpf.c. A probe is on a file, so everybody who calls
 * the function comes by; whom it hits is decided there.
 */
#ifndef USER_PROBE_H
#define USER_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "user/base/error.h"
#include "user/base/process.h"
#include "user/engine/feature.h"
#include "user/inside/assist.h"
#include "user/inside/engine_probe.h"
#include "user/inside/library.h"
#include "user/rules/rules.h"
#include "user/tables/tables.h"

struct probes {
	const struct rules *rules;
	struct tables *tables;
	struct engine *engine; /* NULL: only look, nothing is attached */
	const struct features *features;
	const char *pin_dir; /* for links, or NULL: they live with this process */
	bool wait;           /* a library that no process has yet may come */

	struct library_list libraries;
	uint32_t points, files; /* given so far */
	bool *met;              /* by rule: it has a function somewhere */
	struct bpf_link **links;
	size_t links_count;
	bool handed_over; /* the links are the reaper's: probes_free() leaves them on */
	struct engine_copies copies;
	struct assist assist;
	uint32_t *named; /* processes that the rules named when they were last looked for, ascending, */
	size_t named_count;
	uint32_t *traced; /* and those among them that the assist has to trace */
	size_t traced_count;
};

/* Does any rule need probes? Does one of them need a tracing process here? */
bool probes_needed(const struct rules *rules);
bool probes_need_assist(const struct rules *rules, const struct features *features);

/*
 * Puts probes on what the rules' processes have mapped now, and at the first time also on what they would open. At the first
 * time a function that is not there is an error that points into the rules file. Can be called again at any time; without
 * `processes` those of the last time are looked at again, which costs much less than a look through /proc.
 */
int probes_look(struct probes *p, const struct process_list *processes, bool first, struct error *err);

/*
 * Starts the assist and has it trace the rules' processes. All or nothing, but for those that the assist of another load
 * traces: that one is about to be replaced, and then they are to be had.
 */
int probes_trace(struct probes *p, struct error *err);

/* Whoever has begun since, or the assist anew if it was stuck. What cannot be traced is left: its calls are skipped. */
void probes_follow(struct probes *p);

/* Does some call still take its time, or is it about to? */
bool probes_hold(const struct probes *p);

/* Ends the assist in good order, and frees what is not pinned. */
void probes_free(struct probes *p);

/* One file with probes, as `status` shows it. */
struct probe_status {
	char file[CHAOS_PATH_LEN];
	uint64_t functions, calls, injected;
};

/* Reads them from the pins of a load; *list is the caller's, to be freed with free(). */
int probes_read(uint32_t generation, struct probe_status **list, size_t *count);

#endif
