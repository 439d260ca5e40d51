/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Requests at a rate: a `load` step. They are sent when their time has come, whether or not those before were answered, as
 * users do; but never more than `at-once` are under way, and what then finds no room is let go and counted.
 */
#ifndef USER_GENERATOR_H
#define USER_GENERATOR_H

#include "user/experiment/prober.h"

struct generator;

struct generator_sum {
	uint64_t sent, good, bad, held_back;
};

/* Each answer is told as that of probe step->probe. Close it after the web. */
int generator_open(const struct step *step, struct web *web, probe_told told, void *arg, uint64_t now,
		   struct generator **generator, struct error *err);
void generator_close(struct generator *generator);

/* Sends what is due. When to call again at the latest. */
uint64_t generator_tick(struct generator *generator, uint64_t now);

/* Sends nothing more. */
void generator_stop(struct generator *generator);

/* Everything was sent and answered. */
bool generator_done(const struct generator *generator);
struct generator_sum generator_sum(const struct generator *generator);

#endif
