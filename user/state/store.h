/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where a load is kept: names, files and pins of it, and taking them away again. Knows no rules and no counters; see
 * state.h for the picture that is made of this. Everything is root's and 0600 (directories 0700).
 *
 *   /sys/fs/bpf/chaosbpf/chaos_control   the one word that arms
 *   /sys/fs/bpf/chaosbpf/chaos_sock      what is kept with every socket
 *   /sys/fs/bpf/chaosbpf/gen-N/          maps and links of load N
 *   /run/chaosbpf/lock                   held while something is changed
 *   /run/chaosbpf/load, rules.yaml       what was loaded, by whom, until when
 *   /run/chaosbpf/journal                what devices had before, see journal.h
 *   /run/chaosbpf/events                 see event.h; events-dropped: how many it had no room for
 *   /run/chaosbpf/stats                  last counters of a load that is over
 */
#ifndef USER_STORE_H
#define USER_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "user/base/error.h"
#include "user/base/process_id.h"
#include "user/engine/finished.h"

#define STORE_BPFFS          "/sys/fs/bpf"
#define STORE_PINS           STORE_BPFFS "/chaosbpf"
#define STORE_RUN            "/run/chaosbpf"
#define STORE_JOURNAL        STORE_RUN "/journal"
#define STORE_EVENTS         STORE_RUN "/events"
#define STORE_EVENTS_DROPPED STORE_RUN "/events-dropped"
#define STORE_STATS          STORE_RUN "/stats"
#define STORE_RULES          STORE_RUN "/rules.yaml"

struct store_record {
	uint32_t generation;
	bool observe;
	bool over; /* taken down at its end; counters are in STORE_STATS */
	char command[16];
	char file[256];
	uint64_t loaded_at_s;    /* wall clock */
	uint64_t end_ns;         /* CLOCK_BOOTTIME */
	struct process_id owner; /* whose life bounds the load; none: only its deadlines do */
	struct process_id reaper;
};

/* Makes both directories, and mounts bpffs where it is not. */
int store_make(struct error *err);

/* Replaces the record, whole or not at all. */
int store_write_record(const struct store_record *record, struct error *err);
/* -ENOENT: nothing is loaded. A file that makes no sense is -EBADMSG. */
int store_read_record(struct store_record *record, struct error *err);

/* Replaces a file of STORE_RUN, whole or not at all. */
int store_write_file(const char *path, const void *data, size_t size, struct error *err);
/* Reads at most `max` bytes of a file of STORE_RUN; *data is the caller's. */
int store_read_file(const char *path, size_t max, void **data, size_t *size, struct error *err);

/* Directory of a load's pins, and of one pin in it. */
void store_generation_dir(uint32_t generation, char *path, size_t size);
int store_make_generation_dir(uint32_t generation, struct error *err);
/* Opens a pin: of the load, or with generation 0 a shared one. A descriptor or a negative errno. */
int store_open_pin(uint32_t generation, const char *name);
/* The maps that tell which rules have ended; close them, opened or not. */
int store_open_finished(uint32_t generation, struct finished_maps *maps);
void store_close_finished(struct finished_maps *maps);

/* A number that no pins use and that is above the record's. */
uint32_t store_next_generation(void);

/* Removes all pins of one load, of all loads but one (0: of all). The number of loads removed. */
int store_remove_generations(uint32_t keep);

/* Removes the pins that all loads share, and their directory if it is empty then. */
void store_remove_shared(void);

/* Removes what is left of everything, and the directories. Goes on after a failure; returns the first. */
int store_remove_all(void);

#endif
