// SPDX-License-Identifier: GPL-2.0-only
/*
 * Making a load, from parsed rules to an armed kernel:
 *
 *	compile   names are looked up, rules become tables and a schedule; nothing is touched
 *	open      programs are loaded, maps filled
 *	attach    programs run and learn owners, but inject nothing: the control word names another load, or none
 *	prepare   devices get their tc programs and fq queues; what was there is in the journal first
 *	seed      sockets that were there before get their owners
 *	arm       one write, from which on this load is the one
 *	retire    the load before it is taken away
 *
 * kill -9 between any two of these leaves either the old load or the new one in force, and both with their deadlines;
 * what is half made is inert, and taken away by whatever command comes next.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "user/base/clock.h"
#include "user/engine/seed.h"
#include "user/load/load_internal.h"
#include "user/state/lock.h"

#define LOCK_TIMEOUT_MS 60000 /* loading takes long on a slow or emulated machine */

static int check_possible(const struct load *load, struct error *err)
{
	for (size_t i = 0; i < load->rules->count; i++) {
		int ret = rule_possible(load, i, err);

		if (ret)
			return error_prefix(err, ret, "rule '%s'", load->rules->rules[i].name);
	}
	return 0;
}

/* ---- the machine --------------------------------------------------------------------------------------------------- */

/* A map that all loads share: pinned by the first. */
static int pin_shared(int fd, const char *name, struct error *err)
{
	char path[128];

	snprintf(path, sizeof(path), STORE_PINS "/%s", name);
	unlink(path);
	if (bpf_obj_pin(fd, path))
		return error_set(err, -errno, EXIT_FAILED, "cannot pin %s: %s", path, strerror(errno));
	return 0;
}

static int open_programs(struct load *load, uint32_t generation, struct error *err)
{
	int control = store_open_pin(0, "chaos_control"), sock = store_open_pin(0, "chaos_sock"), ret;

	/* One without the other is the leftover of a load that died young: both are made anew. */
	ret = engine_open(load->tables, &load->schedule, &load->features, generation, sock < 0 ? -1 : control,
			  control < 0 ? -1 : sock, &load->engine, err);
	if (!ret && (control < 0 || sock < 0)) {
		ret = pin_shared(load->engine.sock_fd, "chaos_sock", err);
		ret = ret ?: pin_shared(load->engine.control_fd, "chaos_control", err);
	}
	if (control >= 0)
		close(control);
	if (sock >= 0)
		close(sock);
	return ret;
}

static int attach_programs(struct load *load, struct error *err)
{
	uint32_t generation = load->engine.generation;
	int ret;

	store_generation_dir(generation, load->pin_dir, sizeof(load->pin_dir));
	ret = store_make_generation_dir(generation, err);
	ret = ret ?: engine_attach(&load->engine, load->features.cgroup2_mount, err);
	return ret ?: engine_pin(&load->engine, load->pin_dir, load->options.foreground, err);
}

/*
 * Children that were born between reading /proc and attaching the fork hook: read again until nothing is new. From the
 * attachment on the kernel adds them itself.
 */
static int catch_up(struct load *load, struct error *err)
{
	for (int round = 0; round < 8; round++) {
		const struct target_options names = {
			.only_cgroup = load->options.only_cgroup,
			.cgroup2_mount = load->features.cgroup2_mount,
			.root = "/",
			.wait = load->options.wait,
			.before = load->targets,
		};
		struct process_list processes = { 0 };
		struct target *targets = NULL;
		bool changed = false;
		int ret;

		ret = process_list(load->features.cgroup2_mount, &processes, err);
		if (ret)
			return ret;
		process_list_free(&load->processes);
		load->processes = processes;
		ret = targets_resolve(load->rules, &names, &processes, &targets, err);
		if (ret)
			return ret;
		targets_free(load->targets, load->rules->count);
		load->targets = targets;
		ret = tables_update_pids(load->tables, targets, &changed, err);
		ret = ret ?: engine_fill_pids(&load->engine, load->tables, err);
		if (ret || !changed)
			return ret;
	}
	return 0;
}

static void meet_comms(struct load *load)
{
	for (size_t i = 0; i < load->processes.count; i++)
		engine_meet_comm(&load->engine, load->tables, load->processes.entries[i].comm);
}

static int prepare(struct load *load, struct error *err)
{
	load->prepare = (struct prepare){
		.rules = load->rules,
		.tables = load->tables,
		.engine = &load->engine,
		.pin_dir = load->options.foreground ? NULL : load->pin_dir,
		.has_fq = load->features.has[FEATURE_FQ],
	};
	return prepare_devices(&load->prepare, &load->processes, false, err);
}

/*
 * Probes are put where they are needed now. Where it takes a tracing process, one is started here when the load lives with
 * this process, and on trial when it does not: what refuses to be traced is to be known before anything is armed.
 */
static int put_probes(struct load *load, struct error *err)
{
	const bool assisted = probes_need_assist(load->rules, &load->features) && !load->options.observe;
	int ret;

	if (!probes_needed(load->rules))
		return 0;
	load->probes = (struct probes){
		.rules = load->rules,
		.tables = load->tables,
		.engine = &load->engine,
		.features = &load->features,
		.pin_dir = load->options.foreground ? NULL : load->pin_dir,
		.wait = load->options.wait,
	};
	ret = probes_look(&load->probes, &load->processes, true, err);
	if (ret || !assisted)
		return ret;
	ret = probes_trace(&load->probes, err);
	if (!load->options.foreground)
		assist_stop(&load->probes.assist);
	return ret;
}

/* Rules count from the moment at which they are armed, not from when loading them began. */
static int reschedule(struct load *load, struct error *err)
{
	struct schedule fresh;
	struct instant now;
	int ret;

	moment_now(&now);
	ret = schedule_make(load->rules, &now, &fresh, err);
	if (ret)
		return ret;
	schedule_free(&load->schedule);
	load->schedule = fresh;
	load->began_ns = now.boot_ns;
	return engine_reschedule(&load->engine, load->tables, &load->schedule, err);
}

static int write_state(struct load *load, struct error *err)
{
	struct store_record *r = &load->record;
	struct timespec wall;
	int ret;

	clock_gettime(CLOCK_REALTIME, &wall);
	r->generation = load->engine.generation;
	r->observe = load->options.observe;
	r->loaded_at_s = wall.tv_sec;
	r->end_ns = load->schedule.end_ns;
	snprintf(r->command, sizeof(r->command), "%s", load->options.command);
	snprintf(r->file, sizeof(r->file), "%s", load->rules->file);
	if (load->options.foreground)
		r->owner = process_id_of(load->options.owner ?: getpid());
	ret = store_write_file(STORE_RULES, load->rules->source, load->rules->source_len, err);
	return ret ?: store_write_record(r, err);
}

/* Takes the tc filters of one load off; TCX links go with their pins. */
static void detach_everywhere(uint32_t generation)
{
	struct netns_list spaces;
	struct error ignored;

	if (netns_list(&spaces, &ignored))
		return;
	for (size_t i = 0; i < spaces.count; i++)
		device_detach(&spaces.entries[i], generation, &ignored);
	netns_list_free(&spaces);
}

/* The load before this one: it is disarmed already. */
static void retire(const struct store_record *old, uint32_t generation)
{
	process_id_kill(&old->reaper);
	store_remove_generations(generation);
	detach_everywhere(old->generation);
}

/* Undoes a load that did not come to be. What was loaded before goes on. */
static void abandon(struct load *load, const struct store_record *old)
{
	uint32_t keep = old->generation && !old->over ? old->generation : 0;
	struct error ignored;

	prepare_free(&load->prepare);
	probes_free(&load->probes);
	if (load->engine.skel)
		engine_free(&load->engine);
	store_remove_generations(keep);
	if (keep)
		detach_everywhere(load->record.generation);
	else
		device_restore_all(STORE_JOURNAL, 0, &ignored);
	device_journal_close();
	if (!keep)
		store_remove_all();
}

static int start(struct load *load, const struct store_record *old, struct load_result *result, struct error *err)
{
	uint32_t generation = store_next_generation();
	int ret;

	load->record.generation = generation;
	ret = device_journal_open(STORE_JOURNAL, err);
	ret = ret ?: open_programs(load, generation, err);
	ret = ret ?: attach_programs(load, err);
	if (!ret && load->tables->pids_count)
		ret = catch_up(load, err);
	if (ret)
		return ret;
	meet_comms(load);
	ret = prepare(load, err);
	ret = ret ?: put_probes(load, err);
	if (!ret && load->rules->count && load->tables->knobs.faults & ~CHAOS_CALLS)
		ret = seed_sockets(load->engine.sock_fd, load->tables, &load->processes, &result->sockets, err);
	if (ret)
		return ret;
	ret = eventlog_open(generation, true, &load->log);
	if (ret)
		return error_set(err, ret, EXIT_FAILED, "cannot open the log of events: %s", strerror(-ret));
	ret = reschedule(load, err);
	ret = ret ?: write_state(load, err);
	if (ret)
		return ret;
	ret = engine_arm(load->engine.control_fd, generation);
	if (ret)
		return error_set(err, ret, EXIT_FAILED, "cannot arm: %s", strerror(-ret));
	if (old->generation)
		retire(old, generation);
	return 0;
}

int load_start(struct rules *rules, const struct load_options *options, struct load **load, struct load_result *result,
	       struct error *err)
{
	struct load *l = calloc(1, sizeof(*l));
	struct store_record old = { 0 };
	double began = now_ms();
	struct error ignored;
	int ret;

	*load = NULL;
	memset(result, 0, sizeof(*result));
	lock_note_loading();
	if (!l)
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	ret = load_compile(l, rules, options, err);
	ret = ret ?: check_possible(l, err);
	ret = ret ?: store_make(err);
	if (ret)
		goto out;
	if (store_read_record(&old, &ignored))
		memset(&old, 0, sizeof(old));
	if (process_id_alive(&old.owner)) {
		ret = error_set(err, -EBUSY, EXIT_FAILED, "process %d runs `chaosbpf %s`, and its rules would end",
				old.owner.pid, old.command);
		error_hint(err, "wait for it, or end it with `chaosbpf stop`");
		goto out;
	}
	ret = start(l, &old, result, err);
	if (ret) {
		abandon(l, &old);
		goto out;
	}
	if (!options->foreground)
		ret = reaper_start(l, err) < 0 ? -EAGAIN : 0;
	result->generation = l->record.generation;
	result->rules = l->rules->count;
	result->ends_in_s = (l->schedule.end_ns - l->began_ns) / 1e9;
	result->devices = l->prepare.devices;
	result->took_ms = now_ms() - began;
	if (!ret && options->foreground) {
		*load = l;
		return 0;
	}
out:
	device_journal_close();
	load_free(l);
	free(l);
	return ret;
}

int load_locked(struct rules *rules, const struct load_options *options, struct load **load, struct load_result *result,
		struct error *err)
{
	int lock = lock_take(LOCK_TIMEOUT_MS, err);
	int rc;

	if (lock < 0)
		return lock;
	rc = load_start(rules, options, load, result, err);
	lock_release(lock);
	return rc;
}
