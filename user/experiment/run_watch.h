/* SPDX-License-Identifier: GPL-2.0-only */
/* What the kernel measures of the service under experiment, made into samples as if probes had taken them. */
#ifndef USER_RUN_WATCH_H
#define USER_RUN_WATCH_H

#include "user/base/error.h"
#include "user/observe/observe.h"

struct run;

struct watch {
	struct observe *observe; /* NULL: no condition asks for it */
	struct observe_table last;
	uint64_t next_ns, follow_ns;
};

/* Begins to measure when some condition asks for it. */
int watch_open(struct run *run, struct error *err);
void watch_close(struct watch *watch);

/* Reads when it is time to; when to call again at the latest. */
uint64_t watch_tick(struct run *run, uint64_t now);

/* Reads now, so that what comes after is told apart: a phase begins. */
void watch_read(struct run *run, uint64_t now);

/* Everything that was answered before this has its samples. */
uint64_t watch_settled(const struct watch *watch, uint64_t now);

#endif
