// SPDX-License-Identifier: GPL-2.0-only
#include "user/experiment/generator.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* A place for one request under way. */
struct slot {
	struct generator *generator;
	bool busy;
	uint64_t at_ns;
};

struct generator {
	const struct step *step;
	struct web *web;
	probe_told told;
	void *arg;
	struct slot slots[EXPERIMENT_MAX_IN_FLIGHT];
	uint64_t round, began_ns; /* the present round, and when it began */
	uint64_t count;           /* requests whose time has come in it */
	struct generator_sum sum;
	bool over;
};

int generator_open(const struct step *step, struct web *web, probe_told told, void *arg, uint64_t now,
		   struct generator **generator, struct error *err)
{
	struct generator *g = calloc(1, sizeof(*g));

	*generator = g;
	if (!g)
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	*g = (struct generator){ .step = step, .web = web, .told = told, .arg = arg, .began_ns = now };
	for (size_t i = 0; i < step->at_once; i++)
		g->slots[i].generator = g;
	return 0;
}

void generator_close(struct generator *generator)
{
	free(generator);
}

/* How many requests belong to the first `seconds` of a round: the rate grows in a straight line, then stays. */
static double requests_until(const struct step *step, double seconds)
{
	double ramp = (double)step->ramp_ns / 1e9;

	if (seconds < ramp)
		return step->rate * seconds * seconds / (2 * ramp);
	return step->rate * (seconds - ramp / 2);
}

/* When request number `count` is due; the other way round. */
static double moment_of(const struct step *step, double count)
{
	double ramp = (double)step->ramp_ns / 1e9;

	if (count < step->rate * ramp / 2)
		return sqrt(2 * ramp * count / step->rate);
	return count / step->rate + ramp / 2;
}

static void on_answer(const struct web_answer *web, void *arg)
{
	struct slot *slot = arg;
	struct generator *g = slot->generator;
	char reason[256];
	bool ok = web_expected(&g->step->expect, web, reason, sizeof(reason));
	const struct probe_answer answer = {
		.probe = g->step->probe,
		.at_ns = slot->at_ns,
		.ok = ok,
		.latency_ms = web->error ? NAN : web->latency_ms,
		.value = NAN,
		.status = web->status,
		.reason = ok ? NULL : reason,
	};

	slot->busy = false;
	g->sum.good += ok;
	g->sum.bad += !ok;
	if (g->step->probe != SIZE_MAX)
		g->told(&answer, g->arg);
}

static void send_one(struct generator *g, uint64_t now)
{
	for (size_t i = 0; i < g->step->at_once; i++) {
		struct slot *slot = &g->slots[i];

		if (slot->busy)
			continue;
		slot->at_ns = now;
		slot->busy = web_start(g->web, &g->step->request, g->step->timeout_ns, on_answer, slot) == 0;
		g->sum.sent += slot->busy;
		return;
	}
	g->sum.held_back++;
}

static void next_round(struct generator *g, uint64_t now)
{
	g->round++;
	g->count = 0;
	g->began_ns = now + g->step->pause_ns;
	g->over = g->round >= g->step->rounds;
}

uint64_t generator_tick(struct generator *g, uint64_t now)
{
	double length = (double)g->step->for_ns / 1e9, total = requests_until(g->step, length), seconds;

	if (g->over)
		return UINT64_MAX;
	if (now < g->began_ns)
		return g->began_ns;
	seconds = (double)(now - g->began_ns) / 1e9;
	while ((double)g->count < total && (double)g->count <= requests_until(g->step, seconds)) {
		send_one(g, now);
		g->count++;
	}
	if (seconds >= length) {
		next_round(g, now);
		return g->over ? UINT64_MAX : g->began_ns;
	}
	if ((double)g->count >= total)
		return g->began_ns + g->step->for_ns;
	return g->began_ns + (uint64_t)(moment_of(g->step, (double)g->count) * 1e9);
}

void generator_stop(struct generator *generator)
{
	generator->over = true;
}

bool generator_done(const struct generator *g)
{
	for (size_t i = 0; i < g->step->at_once; i++) {
		if (g->slots[i].busy)
			return false;
	}
	return g->over;
}

struct generator_sum generator_sum(const struct generator *generator)
{
	return generator->sum;
}
