/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Commands of an experiment, probes and actions: run without a shell, as the user who called sudo, in a process group of
 * their own, which is killed as one and does not outlive us.
 */
#ifndef USER_SPAWN_H
#define USER_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

#include "user/base/error.h"

struct spawned {
	pid_t pid; /* 0: none */
	int pidfd; /* readable when it has ended */
};

int spawn(struct spawned *spawned, char *const *command, struct error *err);

/* Has it ended? Then *code is its exit code, or 128 + the signal that killed it, and nothing of its group is left. */
bool spawn_ended(struct spawned *spawned, int *code);

/* Kills it and its group, and waits. */
void spawn_kill(struct spawned *spawned);

#endif
