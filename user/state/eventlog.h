/* SPDX-License-Identifier: GPL-2.0-only */
/* The log of events: moving them there from the ring buffer of a load. See event.h for reading. */
#ifndef USER_EVENTLOG_H
#define USER_EVENTLOG_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/chaos.h"

struct eventlog {
	int fd;      /* the log */
	int ring_fd; /* readable when something is in the ring */
	/* News for whoever prepares devices (enum chaos_event_kind but FAULT), or NULL: they are lost. */
	void (*on_notice)(const struct chaos_event *event, void *arg);
	void *arg;
};

/* Opens the log, empty with `fresh`, and the ring of that load. 0 or a negative errno. */
int eventlog_open(uint32_t generation, bool fresh, struct eventlog *log);

/* Waits until somebody else has moved what is in the ring now. False when that does not happen in time. */
bool eventlog_wait_moved(uint32_t generation, int timeout_ms);

/* Moves everything that is in the ring. Safe beside other movers. */
int eventlog_move(struct eventlog *log);

/* Events of the present load that the log had no room for. */
uint64_t eventlog_dropped(void);

void eventlog_close(struct eventlog *log);

#endif
