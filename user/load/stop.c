// SPDX-License-Identifier: GPL-2.0-only
/* Taking a load down: at its end, rule by rule, or at once. Disarming always comes first. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "user/base/clock.h"
#include "user/base/vector.h"
#include "user/load/load_internal.h"
#include "user/state/lock.h"
#include "user/state/state.h"
#include "user/state/sweep.h"

static int disarm(void)
{
	int control = store_open_pin(0, "chaos_control"), ret;

	if (control < 0)
		return control == -ENOENT ? 0 : control;
	ret = engine_arm(control, 0);
	close(control);
	return ret;
}

static void keep_first(int *first, int ret)
{
	if (!*first)
		*first = ret;
}

/* The last counters of a load, for `status` after its end. */
static int save_stats(const struct store_record *record, struct error *err)
{
	struct status *status;
	int ret = status_read(&status, err);

	if (ret)
		return ret;
	if (status->generation == record->generation)
		ret = status_save(status, err);
	status_free(status);
	return ret;
}

/*
 * Queues and filters first, pins after them, and whatever links are left last: taking a TCX link off holds the lock that
 * changing a device needs, through an RCU grace period each.
 */
static int take_down(struct error *err)
{
	int ret = device_restore_all(STORE_JOURNAL, 0, err);

	store_remove_generations(0);
	sweep_links();
	return ret;
}

int load_finish(struct store_record *record, struct error *err)
{
	struct error ignored;
	int first = 0;

	save_stats(record, &ignored);
	keep_first(&first, disarm());
	keep_first(&first, take_down(&ignored));
	store_remove_shared();
	record->over = true;
	record->reaper = (struct process_id){ 0 };
	record->owner = (struct process_id){ 0 };
	keep_first(&first, store_write_record(record, &ignored));
	return first ? error_set(err, first, EXIT_FAILED, "cannot take everything down: %s", strerror(-first)) : 0;
}

void load_disarm(struct load *load)
{
	engine_disarm(load->engine.control_fd, load->record.generation);
}

int load_end(struct load *load, struct error *err)
{
	struct store_record record;
	struct error ignored;
	int lock, ret = 0;

	eventlog_move(&load->log);
	engine_disarm(load->engine.control_fd, load->record.generation);
	lock = lock_take(10000, err);
	if (store_read_record(&record, &ignored) == 0 && record.generation == load->record.generation) {
		eventlog_move(&load->log);
		/* The programs go with our descriptors; what is pinned and on devices is taken down by hand. */
		ret = load_finish(&record, err);
	}
	if (lock >= 0)
		lock_release(lock);
	load_free(load);
	free(load);
	return ret;
}

/* ---- unload --------------------------------------------------------------------------------------------------------- */

/* Marks rules as finished in the kernel, and has every connection choose again. */
static int finish_rules(const struct store_record *record, const struct chaos_vector *which)
{
	struct finished_maps maps;
	int bss = store_open_pin(record->generation, "chaos_bss");
	int ret = store_open_finished(record->generation, &maps);

	ret = ret ?: bss < 0 ? bss : 0;
	ret = ret ?: finished_add(&maps, which);
	ret = ret ?: engine_choose_again(bss);
	store_close_finished(&maps);
	if (bss >= 0)
		close(bss);
	return ret;
}

static int unknown_rule(const struct rules *rules, const char *name, struct error *err)
{
	const char **names = calloc(rules->count + 1, sizeof(*names)), *near = NULL;

	for (size_t i = 0; names && i < rules->count; i++)
		names[i] = rules->rules[i].name;
	if (names)
		near = nearest_word(name, names);
	error_set(err, -ENOENT, EXIT_USAGE, "no rule '%s' is loaded", name);
	if (near)
		error_hint(err, "did you mean '%s'?", near);
	free(names);
	return -ENOENT;
}

/* Waits until nothing is held: at most as long as the longest delay. */
static void wait_for_drain(uint64_t longest_ns)
{
	double until = now_ms() + longest_ns / 1e6 + 1000;

	while (longest_ns && now_ms() < until && sweep_backlog() > 0)
		usleep(20000);
}

int load_unload(const char *name, struct error *err)
{
	struct chaos_vector which = { 0 };
	struct store_record record;
	struct rules *rules;
	size_t index;
	int ret = store_read_record(&record, err);

	if (ret == -ENOENT || (!ret && record.over))
		return name ? error_set(err, -ENOENT, EXIT_FAILED, "nothing is loaded") : 0;
	ret = ret ?: state_rules(&rules, err);
	if (ret)
		return ret;
	if (name) {
		for (index = 0; index < rules->count && strcmp(rules->rules[index].name, name) != 0; index++)
			;
		if (index == rules->count) {
			ret = unknown_rule(rules, name, err);
			goto out;
		}
		set_bit(&which, index);
	} else {
		memset(&which, 0xff, sizeof(which));
	}
	ret = finish_rules(&record, &which);
	if (ret) {
		error_set(err, ret, EXIT_FAILED, "cannot end the rules: %s", strerror(-ret));
		goto out;
	}
	if (name)
		goto out;
	wait_for_drain(rules_longest_delay(rules));
	process_id_kill(&record.reaper);
	ret = load_finish(&record, err);
	store_remove_all();
out:
	rules_free(rules);
	return ret;
}

/* ---- stop ------------------------------------------------------------------------------------------------------------ */

int load_stop(struct stop_result *result, struct error *err)
{
	struct store_record record = { 0 };
	double began = now_ms();
	struct error ignored = { 0 };
	int first, lock, readable;

	memset(result, 0, sizeof(*result));
	first = disarm();
	keep_first(&first, sweep_disarm());
	result->disarmed_ms = now_ms() - began;
	lock = lock_take(200, &ignored);
	if (lock < 0) {
		/* Somebody is loading, and would arm behind our back. */
		lock_interrupt_loading();
		lock = lock_take(2000, &ignored);
		keep_first(&first, sweep_disarm());
	}
	readable = store_read_record(&record, &ignored) == 0;
	result->was_loaded = (readable && !record.over) || sweep_count_links() > 0;
	if (readable)
		process_id_kill(&record.reaper);
	keep_first(&first, take_down(&ignored));
	keep_first(&first, store_remove_all());
	if (lock >= 0)
		lock_release(lock);
	result->took_ms = now_ms() - began;
	if (first)
		return error_set(err, first, EXIT_FAILED, "cannot clean up everything: %s",
				 ignored.text[0] ? ignored.text : strerror(-first));
	return 0;
}
