/* SPDX-License-Identifier: GPL-2.0-only */
/* The log of events: moving them there from the ring buffer of a load. See event.h for reading. */
#ifndef USER_EVENTLOG_H
#define USER_EVENTLOG_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/chaos.h"

struct eventlog {
	int fd;		  /* the log */
	int ring_fd;	  /* readable when something is in the ring */
	uint64_t dropped; /* found no room in the log */
	/* News for whoever prepares devices (enum chaos_event_kind but FAULT), or NULL: they are lost. */
	void (*on_notice)(const struct chaos_event *event, void *arg);
	void *arg;
};

/* Opens the log, empty with `fresh`, and the ring of that load. 0 or a negative errno. */
int eventlog_open(uint32_t generation, bool fresh, struct eventlog *log);

/* Moves everything that is in the ring. Safe beside other movers. */
int eventlog_move(struct eventlog *log);

void eventlog_close(struct eventlog *log);

#endif
