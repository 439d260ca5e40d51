/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The command of `exec`: made ready early, started only when the faults are armed, as the user who called sudo.
 *
 *   prepare: fork; the child waits at a pipe. When we die before the start, it reads the end of the pipe and is gone.
 *   start:   one byte; the child gives up root, takes default signals and becomes the command.
 *   wait:    its exit code as a shell would give it.
 *
 * The child stays in our process group: it is in the foreground of the terminal exactly when we are, Ctrl-C and Ctrl-Z
 * reach both, and only signals that were sent to us alone have to be forwarded.
 */
#ifndef USER_EXEC_CHILD_H
#define USER_EXEC_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "user/base/error.h"

struct exec_user {
	bool change; /* false: stay who we are */
	uid_t uid;
	gid_t gid;
	char name[64], home[256], shell[128]; /* empty: not known */
};

/* Who called sudo, by SUDO_UID and SUDO_GID; nobody else when they are not set. -EINVAL when they make no sense. */
int exec_user_find(struct exec_user *user, struct error *err);

/* In a child before it runs something: gives up root for that user. 0 or a negative errno. */
int exec_user_become(const struct exec_user *user);

struct exec_child {
	pid_t pid;
	int pidfd;     /* readable when the command has ended */
	int go_fd;     /* a byte lets it start; closed: it must not */
	int failed_fd; /* why it could not become the command */
};

/* argv ends with NULL. */
int exec_child_prepare(struct exec_child *child, const struct exec_user *user, char *const *argv, struct error *err);

/* 0: the command runs. Negative: it does not, err->exit is 126 or 127 as a shell says it (or EXIT_FAILED). */
int exec_child_start(struct exec_child *child, const char *command, struct error *err);

/* Ends a child that was never started. */
void exec_child_cancel(struct exec_child *child);

/* Waits for the end; the exit code, or 128 + the signal that killed it. */
int exec_child_wait(struct exec_child *child);

#endif
