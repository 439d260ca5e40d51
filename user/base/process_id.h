/* SPDX-License-Identifier: GPL-2.0-only */
/* Processes that are remembered in files: by number and start, so that none is mistaken for a later one. */
#ifndef USER_PROCESS_ID_H
#define USER_PROCESS_ID_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A process that cannot be mistaken for another that got its number later. */
struct process_id {
	pid_t pid;        /* 0: none */
	uint64_t started; /* ticks since boot, field 22 of /proc/PID/stat */
};
struct process_id process_id_of(pid_t pid);
bool process_id_alive(const struct process_id *id);

/* SIGKILL; returns when it is gone. Never the caller itself. */
void process_id_kill(const struct process_id *id);

#endif
