// SPDX-License-Identifier: GPL-2.0-only
#include "user/experiment/prober.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/spawn.h"
#include "user/experiment/samples.h"

/* One attempt under way. */
struct
try {
	struct prober *prober;
	size_t probe;
	bool busy;
	uint64_t at_ns;
	struct spawned spawned; /* of a command */
};

/* One probe's clock and its attempts. */
struct pace {
	uint64_t next_ns;
	struct try *tries;
	size_t count;
};

struct prober {
	const struct experiment *experiment;
	struct web *web;
	probe_told told;
	void *arg;
	struct pace *paces;
	uint64_t now;
	bool stopped;
};

void prober_close(struct prober *prober)
{
	if (!prober)
		return;
	for (size_t i = 0; prober->paces && i < prober->experiment->probes_count; i++) {
		for (size_t n = 0; n < prober->paces[i].count; n++)
			spawn_kill(&prober->paces[i].tries[n].spawned);
		free(prober->paces[i].tries);
	}
	free(prober->paces);
	free(prober);
}

static int pace_init(struct prober *prober, size_t index, uint64_t now)
{
	const struct experiment_probe *probe = &prober->experiment->probes[index];
	struct pace *pace = &prober->paces[index];

	if (probe->kind == PROBE_LOAD || probe->kind == PROBE_WATCH) {
		pace->next_ns = UINT64_MAX;
		return 0;
	}
	pace->tries = calloc(probe->in_flight, sizeof(*pace->tries));
	if (!pace->tries)
		return -ENOMEM;
	pace->count = probe->in_flight;
	/* Not all at once. */
	pace->next_ns = now + index * 7000000;
	for (size_t i = 0; i < pace->count; i++)
		pace->tries[i] = (struct try){ .prober = prober, .probe = index, .spawned.pidfd = -1 };
	return 0;
}

int prober_open(const struct experiment *experiment, struct web *web, probe_told told, void *arg, uint64_t now,
		struct prober **prober, struct error *err)
{
	struct prober *made = calloc(1, sizeof(*made));
	int ret = made ? 0 : -ENOMEM;

	*prober = NULL;
	if (made) {
		*made = (struct prober){ .experiment = experiment, .web = web, .told = told, .arg = arg, .now = now };
		made->paces = calloc(experiment->probes_count, sizeof(*made->paces));
		ret = made->paces ? 0 : -ENOMEM;
	}
	for (size_t i = 0; !ret && i < experiment->probes_count; i++)
		ret = pace_init(made, i, now);
	if (ret) {
		prober_close(made);
		return error_set(err, ret, EXIT_FAILED, "out of memory");
	}
	*prober = made;
	return 0;
}

static void end(struct try *try, bool ok, double latency_ms, double value, int status, const char *reason)
{
	struct prober *prober = try->prober;
	const struct probe_answer answer = {
		.probe = try->probe,
		.at_ns = try->at_ns,
		.ok = ok,
		.latency_ms = latency_ms,
		.value = value,
		.status = status,
		.reason = ok ? NULL : reason,
	};

	try->busy = false;
	prober->told(&answer, prober->arg);
}

static void on_http(const struct web_answer *answer, void *arg)
{
	struct try *try = arg;
	char reason[256];
	bool ok = web_expected(&try->prober->experiment->probes[try->probe].expect, answer, reason, sizeof(reason));

	end(try, ok, answer->error ? NAN : answer->latency_ms, NAN, answer->status, reason);
}

static void on_connected(const struct web_answer *answer, void *arg)
{
	end(arg, !answer->error, answer->error ? NAN : answer->latency_ms, NAN, 0, answer->error);
}

static void on_prometheus(const struct web_answer *answer, void *arg)
{
	struct try *try = arg;
	const struct expect *expect = &try->prober->experiment->probes[try->probe].expect;
	const struct condition condition = { .comparison = expect->comparison, .threshold = expect->value };
	char reason[256];
	double value = web_prometheus_value(answer, reason, sizeof(reason));
	bool ok = !isnan(value) && (!expect->has_value || condition_holds(&condition, value));

	if (!ok && !isnan(value))
		snprintf(reason, sizeof(reason), "the value is %g", value);
	end(try, ok, answer->error ? NAN : answer->latency_ms, value, answer->status, reason);
}

static void begin(struct prober *prober, struct try *try, uint64_t now)
{
	const struct experiment_probe *probe = &prober->experiment->probes[try->probe];
	struct error err = { .text = "out of memory" };
	int ret = 0;

	try->busy = true;
	try->at_ns = now;
	switch (probe->kind) {
	case PROBE_HTTP:
		ret = web_start(prober->web, &probe->request, probe->timeout_ns, on_http, try);
		break;
	case PROBE_TCP:
		ret = web_connect(prober->web, probe->host, probe->port, probe->timeout_ns, on_connected, try);
		break;
	case PROBE_PROMETHEUS:
		ret = web_start(prober->web, &probe->request, probe->timeout_ns, on_prometheus, try);
		break;
	case PROBE_EXEC:
		ret = spawn(&try->spawned, probe->command, &err);
		break;
	case PROBE_LOAD:
	case PROBE_WATCH:
		break;
	}
	if (ret)
		end(try, false, NAN, NAN, 0, err.text);
}

static void look_at_command(struct prober *prober, struct try *try, uint64_t now)
{
	const struct experiment_probe *probe = &prober->experiment->probes[try->probe];
	double took_ms = (double)(now - try->at_ns) / 1e6;
	char reason[128];
	int code;

	if (spawn_ended(&try->spawned, &code)) {
		snprintf(reason, sizeof(reason), code == 127 ? "command not found" : "exit code %d", code);
		end(try, (unsigned int)code == probe->expect.exit, took_ms, NAN, 0, reason);
	} else if (now - try->at_ns >= probe->timeout_ns) {
		spawn_kill(&try->spawned);
		snprintf(reason, sizeof(reason), "took longer than %.3g s", (double)probe->timeout_ns / 1e9);
		end(try, false, took_ms, NAN, 0, reason);
	}
}

/* Begins one attempt if it is due. Moments that were missed, as while the machine slept, are let go. */
static void keep_pace(struct prober *prober, size_t index, uint64_t now)
{
	const uint64_t every = prober->experiment->probes[index].every_ns;
	struct pace *pace = &prober->paces[index];

	if (prober->stopped || now < pace->next_ns)
		return;
	for (size_t i = 0; i < pace->count; i++) {
		if (!pace->tries[i].busy) {
			begin(prober, &pace->tries[i], now);
			break;
		}
	}
	pace->next_ns += every;
	if (pace->next_ns <= now)
		pace->next_ns = now + every;
}

uint64_t prober_tick(struct prober *prober, uint64_t now)
{
	uint64_t next = UINT64_MAX, until;

	prober->now = now;
	for (size_t i = 0; i < prober->experiment->probes_count; i++) {
		struct pace *pace = &prober->paces[i];

		for (size_t n = 0; n < pace->count; n++) {
			if (!pace->tries[n].spawned.pid)
				continue;
			look_at_command(prober, &pace->tries[n], now);
			until = pace->tries[n].at_ns + prober->experiment->probes[i].timeout_ns;
			next = pace->tries[n].spawned.pid && until < next ? until : next;
		}
		keep_pace(prober, i, now);
		next = !prober->stopped && pace->next_ns < next ? pace->next_ns : next;
	}
	return next;
}

void prober_stop(struct prober *prober)
{
	prober->stopped = true;
}

size_t prober_fds(const struct prober *prober, struct pollfd *fds, size_t room)
{
	size_t count = 0;

	for (size_t i = 0; i < prober->experiment->probes_count; i++) {
		const struct pace *pace = &prober->paces[i];

		for (size_t n = 0; n < pace->count && count < room; n++) {
			if (pace->tries[n].spawned.pidfd >= 0)
				fds[count++] = (struct pollfd){ .fd = pace->tries[n].spawned.pidfd, .events = POLLIN };
		}
	}
	return count;
}

uint64_t prober_settled(const struct prober *prober, uint64_t now)
{
	uint64_t settled = now;

	for (size_t i = 0; i < prober->experiment->probes_count; i++) {
		for (size_t n = 0; n < prober->paces[i].count; n++) {
			const struct try *try = &prober->paces[i].tries[n];

			settled = try->busy && try->at_ns < settled ? try->at_ns : settled;
		}
	}
	return settled;
}
