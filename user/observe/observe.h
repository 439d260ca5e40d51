/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the kernel measures of services and of what they call: opens bpf/observe.bpf.c, attached for as long as it is open
 * and gone with the process, and reads the rows. Touches no traffic; knows nothing of faults and runs beside them.
 *
 *	observe_open()  ->  observe_read() now and then  ->  observe_table_since()  ->  observe_group()
 *
 * Rows and histograms are those of bpf/observe.h: durations in microseconds, percentiles by user/observe/histogram.h.
 */
#ifndef USER_OBSERVE_H
#define USER_OBSERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/observe.h"
#include "user/base/error.h"
#include "user/engine/feature.h"
#include "user/rules/rules.h"

#define OBSERVE_ROWS     1024 /* kinds of connections that are told apart, about 8 KiB of memory each */
#define OBSERVE_MIN_ROWS 16
#define OBSERVE_MAX_ROWS 65536

/* In the order of bpf/observe.h, ending with NULL. */
extern const char *const observe_failure_names[]; /* refused, timeout, reset, unreachable, denied, given-up, ... */
extern const char *const observe_time_names[];    /* response, connect, rtt, gap */
extern const char *const observe_class_names[];   /* none, 1xx, ... 5xx */

struct observe;

struct observe_options {
	const struct rules
		*filter; /* whom its first rule matches; NULL: everybody. Must live as long as the observer */
	bool both_sides; /* whatever side that match says */
	bool wait;       /* a cgroup or container that is not there may come */
	uint32_t rows;   /* 0: OBSERVE_ROWS */
};

/*
 * Begins to measure: sockets that are open already included (their connections are not counted as new ones).
 * EXIT_CANNOT when this kernel cannot; EXIT_USAGE when the filter names what is not there.
 */
int observe_open(const struct features *features, const struct observe_options *options, struct observe **observe,
		 struct error *err);
void observe_close(struct observe *observe);

/* To be called every few seconds: cgroups, containers and processes of the filter that came since. */
int observe_follow(struct observe *observe, struct error *err);

/* All rows at one moment. [OBSERVE_REST] counts what found no row of its own. */
struct observe_table {
	uint64_t at_ns; /* CLOCK_MONOTONIC */
	struct observe_row *rows;
	size_t count;
};

/* To be freed with observe_table_free(). -ENOMEM. */
int observe_read(const struct observe *observe, struct observe_table *table);
void observe_table_free(struct observe_table *table);

/* What was counted between two readings of the same observer: into `now`, in place. */
void observe_table_since(struct observe_table *now, const struct observe_table *earlier);

/* to += from; keys stay. */
void observe_row_add(struct observe_row *to, const struct observe_row *from);

/* Is there anything but zeros in it? */
bool observe_row_is_empty(const struct observe_row *row);

/* Connections that could not be had, whatever the reason. */
uint64_t observe_failures(const struct observe_row *row);

/* Requests that came to nothing: never answered, or with a status of 500 or more. */
uint64_t observe_failed_requests(const struct observe_row *row);

/* The path of a cgroup below the mount; "" when it was gone before anybody asked. Lives as long as the observer. */
const char *observe_cgroup(struct observe *observe, uint64_t id);

/* ---- rows for people ---- */

enum observe_by_what {
	OBSERVE_EACH,        /* every row by itself */
	OBSERVE_BY_PROCESS,  /* name of the process and cgroup together with it are one */
	OBSERVE_BY_CGROUPS,  /* all processes of a cgroup */
	OBSERVE_BY_ENDPOINT, /* whoever calls it, or serves it */
	OBSERVE_BY_COUNT,
};
extern const char *const observe_by_names[]; /* connection, process, cgroup, endpoint */

/* In each line only what it was grouped by is set in row.key; the side always is. */
struct observe_lines {
	struct observe_row *rows;
	size_t count;
};

/* Empty rows are left out; sorted by side, then by requests, most first. To be freed with observe_lines_free(). */
int observe_group(const struct observe_table *table, enum observe_by_what by, struct observe_lines *lines);
void observe_lines_free(struct observe_lines *lines);

/* "10.0.0.7:6333", "[::1]:80"; of what is served ":8080"; "" where the key says nothing. */
#define OBSERVE_ENDPOINT_LEN 64
const char *observe_endpoint(const struct observe_key *key, char *buf);

#endif
