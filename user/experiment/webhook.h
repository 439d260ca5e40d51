/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tells others that a weakness was found: one POST for each webhook of a file, in a child process, tried again three
 * times with growing pauses. Whether there is something to tell is the caller's to know. Addresses and tokens are
 * secrets: they come from files or the environment, and stand in no message, report or record.
 */
#ifndef USER_WEBHOOK_H
#define USER_WEBHOOK_H

#include <stdbool.h>
#include <sys/types.h>

#include "user/base/error.h"
#include "user/findings/findings.h"

#define WEBHOOK_FILE "/etc/chaosbpf/webhooks.yaml"

/*
 * Reads `file` and the secrets it names, and begins to tell; returns at once. `file` NULL: WEBHOOK_FILE, and that it is
 * not there is no error. What became of each is written into the timeline of the run, in `database`. *child: the process
 * that does it, 0 when there is nothing to do. Call it after the roll back, with a run from findings_read() and no
 * findings open: SQLite does not bear a fork with a database open, and the child opens it again.
 */
int webhook_begin(const char *file, const struct findings_run *run, const char *database, pid_t *child,
		  struct error *err);

/*
 * All of it after a run, with no findings open: nothing if it has no weakness that is open, else tells of it, waits a few
 * seconds, and leaves the rest to the child.
 */
int webhook_after(const char *database, int64_t run, struct error *err);

/*
 * Waits at most so long for the child, then leaves it to go on alone. Where the caller's end is the end of all (a
 * container, a CI step) a child that goes on alone does not.
 */
void webhook_wait(pid_t child, double seconds);

#endif
