// SPDX-License-Identifier: GPL-2.0-only
/* The table of commands, and what they share: the check for root, and the answer to a name that is none of theirs. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "user/base/log.h"
#include "user/cli/cmd.h"

const struct command *const commands[] = {
	&cmd_check,   &cmd_load,   &cmd_exec,   &cmd_inject,    &cmd_unload, &cmd_stop,    &cmd_status,
	&cmd_observe, &cmd_events, &cmd_doctor, &cmd_endpoints, &cmd_run,    &cmd_history, &cmd_report,
	&cmd_compare, &cmd_deps,   &cmd_help,   &cmd_version,   NULL,
};

const struct command *command_find(const char *name)
{
	for (const struct command *const *command = commands; *command; command++) {
		if (strcmp((*command)->name, name) == 0)
			return *command;
	}
	return NULL;
}

int command_begin(const char *name)
{
	struct error err;

	if (geteuid() != 0)
		return log_fail(EXIT_FAILED, NULL, "%s needs root: run it with sudo", name);
	/* What cannot be cleaned up is no reason not to do what was asked: stop and status most of all. */
	if (state_tidy(&err) < 0)
		log_note("could not clean up after an earlier load: %s", err.text);
	return 0;
}

int command_unknown(const char *name)
{
	const char *names[32], *near;
	char hint[96] = "'chaosbpf --help' lists the commands";
	size_t n = 0;

	for (; commands[n]; n++)
		names[n] = commands[n]->name;
	names[n] = NULL;
	near = nearest_word(name, names);
	if (near)
		snprintf(hint, sizeof(hint), "did you mean '%s'?", near);
	return log_fail(EXIT_USAGE, hint, "unknown command '%s'", name);
}
