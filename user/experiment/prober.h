/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Asks the service, each probe at its own pace: an attempt begins when its time has come, whatever became of those before
 * it. One that takes longer than it may has failed.
 */
#ifndef USER_PROBER_H
#define USER_PROBER_H

#include <poll.h>

#include "user/base/web.h"
#include "user/experiment/experiment.h"

struct prober;

/* How one attempt ended. */
struct probe_answer {
	size_t probe;
	uint64_t at_ns; /* when it was begun */
	bool ok;
	double latency_ms;  /* NAN: nothing came */
	double value;       /* of Prometheus; NAN: none */
	int status;         /* of HTTP; 0: none */
	const char *reason; /* NULL when ok */
};

typedef void (*probe_told)(const struct probe_answer *answer, void *arg);

int prober_open(const struct experiment *experiment, struct web *web, probe_told told, void *arg, uint64_t now,
		struct prober **prober, struct error *err);
void prober_close(struct prober *prober);

/* Begins what is due, ends what has had its time. When to call again at the latest. */
uint64_t prober_tick(struct prober *prober, uint64_t now);

/* No new attempts from now on. */
void prober_stop(struct prober *prober);

/* What to wait for besides the web: at most `room`. */
size_t prober_fds(const struct prober *prober, struct pollfd *fds, size_t room);

/* Every attempt that was begun before this has ended. */
uint64_t prober_settled(const struct prober *prober, uint64_t now);

#endif
