/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The commands: one file each (cmd_NAME.c), thin: options, a call, what is printed. The exit codes are those of
 * user/base/error.h.
 */
#ifndef USER_CMD_H
#define USER_CMD_H

#include <stdbool.h>

#include "user/base/output.h"
#include "user/findings/findings.h"
#include "user/load/load.h"
#include "user/state/state.h"

struct command {
	const char *name;
	const char *summary;               /* its line in `chaosbpf --help` */
	const char *help;                  /* what `chaosbpf NAME --help` prints */
	int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns the exit code */
	bool runs_another; /* standard output belongs to another program: JSON errors go to standard error */
};

extern const struct command cmd_check, cmd_load, cmd_exec, cmd_inject, cmd_unload, cmd_stop, cmd_status, cmd_observe,
	cmd_events, cmd_doctor, cmd_endpoints, cmd_run, cmd_history, cmd_report, cmd_compare, cmd_deps, cmd_help,
	cmd_version;

/* All of them, in the order of the help, ending with NULL (command.c). */
extern const struct command *const commands[];

/* The command of that name, or NULL (command.c). */
const struct command *command_find(const char *name);

/* Says that there is no such command, and which one was meant; returns the exit code (command.c). */
int command_unknown(const char *name);

/*
 * What a command that needs root does first, after its options: says no without root, and cleans up what a load that is
 * over has left. Returns 0 or the exit code (command.c).
 */
int command_begin(const char *name);

/* Loads in the background and prints what was loaded; for `load` and `inject`. Returns the exit code (cmd_load.c). */
int load_and_print(struct rules *rules, const struct load_options *options);

/* A baseline under somebody's faults would say nothing, and loading would end them: -EBUSY (cmd_run.c). */
int check_nothing_loaded(struct error *err);

/* Two at once would measure each other's faults: -EBUSY when a run is under way (cmd_run.c). */
int check_not_running(struct findings *findings, struct error *err);

/* Tells webhooks of a run that ended so; 0 is none. A failure to tell changes no verdict (cmd_run.c). */
void tell_weakness(const char *webhooks, const char *database, enum verdict verdict, int64_t id);

/* `deps test`; the words after that, argv[0] is `test` (cmd_deps_test.c). Returns the exit code. */
int deps_test(int argc, char **argv);

/* Prints the general help (cmd_help.c). */
void help_print(void);

/* The rules with their counters; to be freed with table_free() (cmd_status.c). */
struct table *status_table(const struct status *status);
void status_json(struct json *json, const struct status *status);

#endif
