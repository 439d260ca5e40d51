// SPDX-License-Identifier: GPL-2.0-only
#include "user/state/state.h"
#include "user/state/state_awaits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "user/base/clock.h"
#include "user/base/vector.h"
#include "user/state/eventlog.h"
#include "user/state/store.h"

#define TAKING_DOWN_MOMENTS 250 /* five seconds: more than it takes on a slow machine */

const char *const rule_state_names[] = { "waiting", "active", "observing", "finished", NULL };
_Static_assert(sizeof(rule_state_names) / sizeof(rule_state_names[0]) == RULE_STATE_COUNT + 1, "rule_state_names");

/* ---- status --------------------------------------------------------------------------------------------------------- */

int state_rules(struct rules **rules, struct error *err)
{
	/* Every rule had its end when it was loaded, perhaps from --duration: ends are read from the kernel, not here. */
	const struct rules_options options = { .duration_ns = 1000000000ULL, .again = true };
	struct store_record record;
	size_t size;
	void *data;
	int ret = store_read_record(&record, err);

	*rules = NULL;
	ret = ret ?: store_read_file(STORE_RULES, RULES_MAX_FILE_SIZE, &data, &size, err);
	if (ret)
		return ret;
	ret = rules_parse(record.file, data, size, &options, rules, err);
	free(data);
	return ret;
}

/* Sums a per-CPU value of counters. */
static void sum(const __u64 *per_cpu, size_t words, int cpus, __u64 *total)
{
	memset(total, 0, words * sizeof(*total));
	for (int cpu = 0; cpu < cpus; cpu++) {
		for (size_t w = 0; w < words; w++)
			total[w] += per_cpu[cpu * words + w];
	}
}

/* A fault that was counted and not done. */
static void take_back(struct rule_status *rule, uint64_t count)
{
	struct chaos_stats *stats = &rule->stats;

	count = count < stats->injected ? count : stats->injected;
	stats->injected -= count;
	stats->faults[__builtin_ctz(rule->faults)] -= count;
	stats->skipped[CHAOS_SKIP_ASSIST] += count;
}

/* Notes that nobody has taken away: the assist was killed before it could do what they say. */
static void take_back_left(int returns, struct status *s)
{
	const uint64_t now = boot_ns();
	struct chaos_return note;
	uint32_t tid, *last = NULL;

	while (bpf_map_get_next_key(returns, last, &tid) == 0) {
		last = &tid;
		if (bpf_map_lookup_elem(returns, &tid, &note) == 0 && note.rule < s->rules_count &&
		    note.runs != CHAOS_RUNS_NOW && !note.held && now > note.time_ns + CHAOS_ASSIST_STALE_NS)
			take_back(&s->rules[note.rule], 1);
	}
}

/* Faults that were decided and that the assist could not do: the program that counted them cannot know. */
static int take_back_failed(uint32_t generation, struct status *s)
{
	int failed = store_open_pin(generation, "chaos_assist_failed"),
	    returns = store_open_pin(generation, "chaos_returns"),
	    ret = failed < 0    ? failed
		  : returns < 0 ? returns
				: 0;

	for (uint32_t i = 0; !ret && i < s->rules_count; i++) {
		uint64_t count = 0;

		if (!(s->rules[i].faults & FAULTS_BY_PROBE))
			continue;
		if (bpf_map_lookup_elem(failed, &i, &count))
			ret = -errno;
		else
			take_back(&s->rules[i], count);
	}
	if (!ret)
		take_back_left(returns, s);
	if (failed >= 0)
		close(failed);
	if (returns >= 0)
		close(returns);
	return ret;
}

static int read_counters(uint32_t generation, struct status *s)
{
	int stats = store_open_pin(generation, "chaos_stats"), totals = store_open_pin(generation, "chaos_totals");
	int cpus = libbpf_num_possible_cpus(), ret = stats < 0 ? stats : totals < 0 ? totals : 0;
	__u64 *per_cpu = calloc(cpus > 0 ? cpus : 1, sizeof(struct chaos_stats) + sizeof(struct chaos_totals));

	if (!per_cpu)
		ret = -ENOMEM;
	for (uint32_t i = 0; !ret && i < s->rules_count; i++) {
		if (bpf_map_lookup_elem(stats, &i, per_cpu) == 0)
			sum(per_cpu, sizeof(struct chaos_stats) / 8, cpus, (__u64 *)&s->rules[i].stats);
		else
			ret = -errno;
	}
	if (!ret)
		ret = take_back_failed(generation, s);
	if (!ret) {
		uint32_t zero = 0;

		if (bpf_map_lookup_elem(totals, &zero, per_cpu) == 0)
			sum(per_cpu, sizeof(struct chaos_totals) / 8, cpus, (__u64 *)&s->totals);
	}
	free(per_cpu);
	if (stats >= 0)
		close(stats);
	if (totals >= 0)
		close(totals);
	return ret;
}

/* Walks the schedule as the kernel does: what is active now, next, and last. */
static void apply_interval(struct status *s, const struct chaos_interval *interval, uint64_t starts_ns, uint64_t now)
{
	for (size_t i = 0; i < s->rules_count; i++) {
		struct rule_status *r = &s->rules[i];

		if (interval->until_ns <= now || !has_rule(&interval->active, i))
			continue;
		if (r->state == RULE_FINISHED) {
			r->state = starts_ns <= now ? (s->observe ? RULE_OBSERVING : RULE_ACTIVE) : RULE_WAITING;
			r->starts_in_s = starts_ns <= now ? 0 : (starts_ns - now) / 1e9;
		}
		r->ends_in_s = (interval->until_ns - now) / 1e9;
	}
}

static int read_schedule(uint32_t generation, struct status *s)
{
	int schedule = store_open_pin(generation, "chaos_schedule"),
	    size = store_open_pin(generation, "chaos_intervals");
	struct finished_maps maps;
	uint32_t zero = 0, count = 0;
	uint64_t starts = 0, now = boot_ns();
	struct chaos_vector finished;
	int ret = store_open_finished(generation, &maps);

	ret = ret ?: schedule < 0 ? schedule : size < 0 ? size : 0;

	for (size_t i = 0; i < s->rules_count; i++)
		s->rules[i].state = RULE_FINISHED;
	if (!ret && bpf_map_lookup_elem(size, &zero, &count))
		ret = -errno;
	for (uint32_t k = 0; !ret && k < count; k++) {
		struct chaos_interval interval;

		if (bpf_map_lookup_elem(schedule, &k, &interval)) {
			ret = -errno;
			break;
		}
		apply_interval(s, &interval, starts, now);
		starts = interval.until_ns;
	}
	if (!ret && finished_read(&maps, &finished) == 0) {
		for (size_t i = 0; i < s->rules_count; i++) {
			if (!has_rule(&finished, i))
				continue;
			s->rules[i].state = RULE_FINISHED;
			s->rules[i].ends_in_s = s->rules[i].starts_in_s = 0;
			s->rules[i].unloaded = true;
		}
	}
	if (schedule >= 0)
		close(schedule);
	if (size >= 0)
		close(size);
	store_close_finished(&maps);
	return ret;
}

/* Those that have something of ours. */
static size_t count_devices(uint32_t generation)
{
	int fd = store_open_pin(generation, "chaos_devices");
	struct chaos_device_key key, *last = NULL;
	size_t count = 0;
	struct chaos_device device;

	while (fd >= 0 && bpf_map_get_next_key(fd, last, &key) == 0) {
		last = &key;
		if (bpf_map_lookup_elem(fd, &key, &device) == 0 && device.flags & ~CHAOS_DEVICE_SEEN)
			count++;
	}
	if (fd >= 0)
		close(fd);
	return count;
}

static uint64_t count_events(void)
{
	struct stat st;

	return stat(STORE_EVENTS, &st) == 0 ? st.st_size / sizeof(struct chaos_event) : 0;
}

/* What a load that is over has left: written by status_save(). */
struct saved {
	uint32_t generation, rules;
	struct chaos_totals totals;
	struct chaos_stats stats[];
};

int status_save(const struct status *status, struct error *err)
{
	size_t size = sizeof(struct saved) + status->rules_count * sizeof(struct chaos_stats);
	struct saved *saved = calloc(1, size);
	int ret;

	if (!saved)
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	saved->generation = status->generation;
	saved->rules = status->rules_count;
	saved->totals = status->totals;
	for (size_t i = 0; i < status->rules_count; i++)
		saved->stats[i] = status->rules[i].stats;
	ret = store_write_file(STORE_STATS, saved, size, err);
	free(saved);
	return ret;
}

static void read_saved(struct status *s)
{
	struct saved *saved;
	struct error ignored;
	void *data;
	size_t size;

	for (size_t i = 0; i < s->rules_count; i++)
		s->rules[i].state = RULE_FINISHED;
	if (store_read_file(STORE_STATS, 1 << 20, &data, &size, &ignored))
		return;
	saved = data;
	if (size >= sizeof(*saved) && saved->generation == s->generation && saved->rules == s->rules_count &&
	    size == sizeof(*saved) + saved->rules * sizeof(struct chaos_stats)) {
		s->totals = saved->totals;
		for (size_t i = 0; i < s->rules_count; i++)
			s->rules[i].stats = saved->stats[i];
	}
	free(data);
}

static int fill_rules(struct status *s, const struct rules *rules)
{
	s->rules = calloc(rules->count, sizeof(*s->rules));
	if (!s->rules)
		return -ENOMEM;
	s->rules_count = rules->count;
	for (size_t i = 0; i < rules->count; i++) {
		snprintf(s->rules[i].name, sizeof(s->rules[i].name), "%s", rules->rules[i].name);
		s->rules[i].faults = rules->rules[i].fault.faults;
		s->rules[i].max_hits = rules->rules[i].max_hits;
	}
	return 0;
}

/* Not because it was told to: because max-hits was reached. */
static void tell_unloaded(struct status *s)
{
	for (size_t i = 0; i < s->rules_count; i++) {
		struct rule_status *r = &s->rules[i];
		uint64_t hits = r->stats.injected + r->stats.skipped[CHAOS_SKIP_OBSERVE];

		if (r->max_hits && hits >= r->max_hits)
			r->unloaded = false;
	}
}

static int read_once(struct status **status, struct error *err)
{
	struct status *s = calloc(1, sizeof(*s));
	struct store_record record;
	struct rules *rules = NULL;
	int ret;

	*status = NULL;
	if (!s)
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	ret = store_read_record(&record, err);
	if (ret == -ENOENT) {
		*status = s;
		return 0;
	}
	ret = ret ?: state_rules(&rules, err);
	if (ret)
		goto out;
	s->loaded = !record.over;
	s->observe = record.observe;
	s->generation = record.generation;
	s->loaded_at_s = record.loaded_at_s;
	s->owner = process_id_alive(&record.owner) ? record.owner.pid : 0;
	s->reaper = process_id_alive(&record.reaper) ? record.reaper.pid : 0;
	snprintf(s->file, sizeof(s->file), "%s", record.file);
	snprintf(s->command, sizeof(s->command), "%s", record.command);
	s->events = count_events();
	ret = fill_rules(s, rules);
	if (!ret && record.over) {
		read_saved(s);
	} else if (!ret) {
		ret = read_counters(record.generation, s);
		ret = ret ?: read_schedule(record.generation, s);
		ret = ret ?: name_list_read(record.generation, &s->names);
		ret = ret ?: probes_read(record.generation, &s->probes, &s->probes_count);
		s->devices = count_devices(record.generation);
		awaits_find(rules, s);
	}
	for (size_t i = 0; i < s->rules_count; i++) {
		if (s->rules[i].ends_in_s > s->ends_in_s)
			s->ends_in_s = s->rules[i].ends_in_s;
	}
	s->totals.events_dropped += eventlog_dropped();
	tell_unloaded(s);
	if (ret)
		error_set(err, ret, EXIT_FAILED, "cannot read the state of the load: %s", strerror(-ret));
out:
	rules_free(rules);
	if (ret)
		status_free(s);
	else
		*status = s;
	return ret;
}

/* A load that is being taken down has its record still and its pins not any more: for a moment, after which it is over. */
int status_read(struct status **status, struct error *err)
{
	static const struct timespec moment = { .tv_nsec = 20000000 };
	int ret = read_once(status, err);

	for (int i = 0; i < TAKING_DOWN_MOMENTS && ret == -ENOENT; i++) {
		nanosleep(&moment, NULL);
		ret = read_once(status, err);
	}
	return ret;
}

void status_free(struct status *status)
{
	if (status) {
		free(status->rules);
		free(status->probes);
		name_list_free(&status->names);
	}
	free(status);
}
