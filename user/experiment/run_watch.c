// SPDX-License-Identifier: GPL-2.0-only
/*
 * Requests are counted in the kernel in buckets; each bucket of what came since the last look is one sample that stands for
 * as many. What failed (no answer, a status of 500 or more, no connection) has no time of its own.
 */
#include "user/experiment/run_watch.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/log.h"
#include "user/experiment/run_internal.h"
#include "user/observe/histogram.h"
#include "user/target/resolve.h"

#define WATCH_NS  500000000ULL
#define FOLLOW_NS 3000000000ULL /* how often it is looked for containers that came */

static bool is_watched(const struct experiment *e)
{
	for (size_t i = 0; i < e->probes_count; i++) {
		if (e->probes[i].kind == PROBE_WATCH)
			return true;
	}
	return false;
}

int watch_open(struct run *run, struct error *err)
{
	const struct observe_options options = { .filter = run->experiment->watch, .both_sides = true };
	struct features features;
	int ret;

	if (!is_watched(run->experiment))
		return 0;
	features_probe(&features);
	ret = names_resolve(run->experiment->watch, true, err);
	ret = ret ?: observe_open(&features, &options, &run->watch.observe, err);
	if (!ret && observe_read(run->watch.observe, &run->watch.last))
		ret = error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	return ret;
}

void watch_close(struct watch *watch)
{
	observe_close(watch->observe);
	observe_table_free(&watch->last);
	watch->observe = NULL;
}

/* ---- which rows are a probe's ------------------------------------------------------------------------------------------- */

static bool is_within(const uint8_t *address, const struct host *host)
{
	const unsigned int bytes = host->prefix_len / 8, bits = host->prefix_len % 8;

	if (memcmp(address, &host->address, bytes) != 0)
		return false;
	return !bits || (address[bytes] ^ host->address.s6_addr[bytes]) >> (8 - bits) == 0;
}

static bool has_address(const struct endpoint *e, const uint8_t *address)
{
	for (size_t i = 0; i < e->hosts_count; i++) {
		if (is_within(address, &e->hosts[i]))
			return true;
	}
	for (size_t i = 0; i < e->names_count; i++) {
		for (size_t k = 0; k < e->names[i].addresses_count; k++) {
			if (memcmp(address, &e->names[i].addresses[k], 16) == 0)
				return true;
		}
	}
	return !e->hosts_count && !e->names_count;
}

static bool has_port(const struct endpoint *e, uint16_t port)
{
	for (size_t i = 0; i < e->ports_count; i++) {
		if (port >= e->ports[i].first && port <= e->ports[i].last)
			return true;
	}
	return !e->ports_count;
}

static bool is_of(const struct experiment *e, const struct experiment_probe *probe, const struct observe_key *key)
{
	const struct endpoint *endpoint = &e->watch->rules[probe->watch].match.endpoint;

	if (!probe->watch)
		return key->side == CHAOS_SIDE_SERVER;
	return key->side == CHAOS_SIDE_CLIENT && has_port(endpoint, key->port) && has_address(endpoint, key->address);
}

/* ---- samples -------------------------------------------------------------------------------------------------------------- */

static void add(struct run *run, size_t probe, uint64_t at_ns, bool ok, double latency_ms, uint64_t times)
{
	const struct attempt attempt = {
		.at_ns = at_ns, .latency_ms = latency_ms, .value = NAN, .ok = ok, .times = times
	};

	if (!times)
		return;
	run->attempts[probe] += times;
	run->good[probe] += ok ? times : 0;
	samples_add(&run->samples, probe, &attempt);
}

/* The histogram does not tell whose time was that of a failure: errors are taken for the fastest. */
static void add_samples(struct run *run, size_t probe, uint64_t at_ns, const struct observe_row *row)
{
	const struct histogram *h = &row->times[OBSERVE_RESPONSE];
	uint64_t bad = row->status[5];

	add(run, probe, at_ns, false, NAN, observe_failed_requests(row) + observe_failures(row));
	for (unsigned int i = 0; i < HISTOGRAM_BUCKETS; i++) {
		uint64_t count = h->counts[i], less = bad < count ? bad : count;

		bad -= less;
		add(run, probe, at_ns, true, ((double)histogram_least(i) + (double)histogram_least(i + 1) - 1) / 2000,
		    count - less);
	}
}

static void keep_points(struct run *run, size_t probe, uint64_t from, uint64_t to)
{
	static const enum measure kept[] = { MEASURE_SUCCESS, MEASURE_P50, MEASURE_P99, MEASURE_RATE };

	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		record_measure(run, probe, kept[i], from, samples_measure(&run->samples, probe, kept[i], from, to));
}

void watch_read(struct run *run, uint64_t now)
{
	const struct experiment *e = run->experiment;
	struct watch *w = &run->watch;
	struct observe_table read, since;
	uint64_t from = w->last.at_ns;

	if (!w->observe || observe_read(w->observe, &read))
		return;
	since = (struct observe_table){ .at_ns = read.at_ns, .count = read.count };
	since.rows = calloc(read.count, sizeof(*read.rows));
	if (!since.rows) {
		observe_table_free(&read);
		return;
	}
	memcpy(since.rows, read.rows, read.count * sizeof(*read.rows));
	observe_table_since(&since, &w->last);
	for (size_t i = 0; i < e->probes_count; i++) {
		struct observe_row sum = { 0 };

		if (e->probes[i].kind != PROBE_WATCH)
			continue;
		for (size_t r = 0; r < since.count; r++) {
			if (is_of(e, &e->probes[i], &since.rows[r].key))
				observe_row_add(&sum, &since.rows[r]);
		}
		add_samples(run, i, from, &sum);
		keep_points(run, i, from, read.at_ns);
	}
	observe_table_free(&since);
	observe_table_free(&w->last);
	w->last = read;
	w->next_ns = now + WATCH_NS;
}

uint64_t watch_tick(struct run *run, uint64_t now)
{
	struct watch *w = &run->watch;
	struct error err;

	if (!w->observe)
		return UINT64_MAX;
	if (now >= w->next_ns)
		watch_read(run, now);
	if (now >= w->follow_ns) {
		w->follow_ns = now + FOLLOW_NS;
		if (observe_follow(w->observe, &err) < 0)
			log_note("could not look for what has come since: %s", err.text);
	}
	return w->next_ns;
}

uint64_t watch_settled(const struct watch *w, uint64_t now)
{
	return w->observe ? w->last.at_ns : now;
}
