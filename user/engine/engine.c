// SPDX-License-Identifier: GPL-2.0-only
#include "user/engine/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "bpf/match.h"
#include "user/base/vector.h"
#include "user/engine/attach.h"
#include "user/rules/operation.h"
#include "user/engine/finished.h"
#include "chaos.skel.h"

#define ACCEPT_ARGS_SINCE_6_10 2
#define SETS_OF_CPU            3    /* BENCHES of bpf/name.bpf.h */
#define SPARE_SETS             1024 /* combinations of rules that come with cgroups */
#define SPARE_INTERVALS        16   /* the schedule is made anew right before arming, and may then have some more */

/* ---- what this load needs -------------------------------------------------------------------------------------- */

static bool has_udp(const struct tables *t)
{
	return t->knobs.kind[CHAOS_UDP * CHAOS_SIDE_COUNT + CHAOS_SIDE_CLIENT] !=
		       t->knobs.kind[CHAOS_UDP * CHAOS_SIDE_COUNT + CHAOS_SIDE_UNKNOWN] ||
	       t->knobs.kind[CHAOS_UDP * CHAOS_SIDE_COUNT + CHAOS_SIDE_SERVER] !=
		       t->knobs.kind[CHAOS_UDP * CHAOS_SIDE_COUNT + CHAOS_SIDE_UNKNOWN];
}

/* Sets of kind for side unknown are empty: no rule names it. */
static bool has_server(const struct tables *t)
{
	return t->knobs.kind[CHAOS_SIDE_SERVER] != t->knobs.kind[CHAOS_SIDE_UNKNOWN];
}

static bool has_v1(const struct tables *t)
{
	if (t->follows_v1)
		return true;
	for (size_t i = 0; i < t->cgroups_count; i++) {
		if (t->cgroups[i].key.hierarchy)
			return true;
	}
	return false;
}

/* How many arguments inet_csk_accept has on this kernel; 0 when BTF does not say. */
static unsigned int accept_args(void)
{
	struct btf *btf = btf__load_vmlinux_btf();
	const struct btf_type *type;
	unsigned int count = 0;
	int id;

	if (!btf)
		return 0;
	id = btf__find_by_name_kind(btf, "inet_csk_accept", BTF_KIND_FUNC);
	if (id > 0) {
		type = btf__type_by_id(btf, btf__type_by_id(btf, id)->type);
		count = btf_vlen(type);
	}
	btf__free(btf);
	return count;
}

static void choose_programs(struct chaos *skel, const struct tables *t, const struct features *f)
{
	const bool network = t->knobs.faults & ~CHAOS_CALLS;
	const bool packets =
		network && (t->knobs.faults != 1 << CHAOS_REFUSE || !f->has[FEATURE_SET_RETVAL] || t->knobs.names);
	const bool accept = f->has[FEATURE_ACCEPT_HOOK] && has_server(t);
	const bool hooks = f->has[FEATURE_FORK_HOOK];
	const unsigned int args = accept ? accept_args() : 0;
	const unsigned int operations = t->operations | (t->knobs.inside ? OPERATIONS_INSIDE : 0);

	bpf_program__set_autoload(skel->progs.chaos_create, network);
	bpf_program__set_autoload(skel->progs.chaos_bind4, network);
	bpf_program__set_autoload(skel->progs.chaos_bind6, network);
	bpf_program__set_autoload(skel->progs.chaos_connect4, network);
	bpf_program__set_autoload(skel->progs.chaos_connect6, network);
	for (const struct operation_hook *hook = operation_hooks; hook->program; hook++)
		bpf_program__set_autoload(bpf_object__find_program_by_name(skel->obj, hook->program),
					  hook->operations & operations);
	bpf_program__set_autoload(skel->progs.chaos_egress, packets);
	bpf_program__set_autoload(skel->progs.chaos_ingress, packets);
	bpf_program__set_autoload(skel->progs.chaos_query, t->knobs.faults & 1 << CHAOS_DNS);
	bpf_program__set_autoload(skel->progs.chaos_request, t->knobs.http);
	bpf_program__set_autoload(skel->progs.chaos_sendmsg4, has_udp(t));
	bpf_program__set_autoload(skel->progs.chaos_sendmsg6, has_udp(t));
	bpf_program__set_autoload(skel->progs.chaos_accept2, accept && args == ACCEPT_ARGS_SINCE_6_10);
	bpf_program__set_autoload(skel->progs.chaos_accept4, accept && args > ACCEPT_ARGS_SINCE_6_10);
	bpf_program__set_autoload(skel->progs.chaos_enter, t->knobs.faults & FAULTS_BY_PROBE);
	bpf_program__set_autoload(skel->progs.chaos_leave, t->knobs.faults & 1 << CHAOS_GPU_OOM);
	bpf_program__set_autoload(skel->progs.chaos_tls_enter, t->knobs.tls && f->has[FEATURE_PROBE]);
	bpf_program__set_autoload(skel->progs.chaos_tls_leave, t->knobs.tls && f->has[FEATURE_PROBE]);
	bpf_program__set_autoload(skel->progs.chaos_exec,
				  hooks && t->knobs.faults & FAULTS_BY_PROBE &&
					  (t->knobs.assist || !f->has[FEATURE_PROBE_REGISTERS]));
	if (f->has[FEATURE_PROBE_MULTI]) {
		bpf_program__set_expected_attach_type(skel->progs.chaos_enter, BPF_TRACE_UPROBE_MULTI);
		bpf_program__set_expected_attach_type(skel->progs.chaos_leave, BPF_TRACE_UPROBE_MULTI);
		bpf_program__set_expected_attach_type(skel->progs.chaos_tls_enter, BPF_TRACE_UPROBE_MULTI);
		bpf_program__set_expected_attach_type(skel->progs.chaos_tls_leave, BPF_TRACE_UPROBE_MULTI);
	}
	bpf_program__set_autoload(skel->progs.chaos_fork, hooks && (t->pids_count || has_v1(t)));
	bpf_program__set_autoload(skel->progs.chaos_exit, hooks && (t->pids_count || has_v1(t) || t->knobs.ceiling));
	bpf_program__set_autoload(skel->progs.chaos_mkdir, hooks && (t->cgroups_count || t->follows));
	bpf_program__set_autoload(skel->progs.chaos_attach, hooks && has_v1(t));
	bpf_program__set_autoload(skel->progs.chaos_tc_out, t->device_needs & CHAOS_DEVICE_EGRESS);
	bpf_program__set_autoload(skel->progs.chaos_tc_in, t->device_needs & CHAOS_DEVICE_INGRESS);
	bpf_program__set_autoload(skel->progs.chaos_answer, t->device_needs & CHAOS_DEVICE_ANSWER);
	bpf_program__set_autoload(skel->progs.chaos_tc_ifb, t->device_needs & CHAOS_DEVICE_IFB);
	bpf_program__set_autoload(skel->progs.chaos_tc_pick, t->device_needs & CHAOS_DEVICE_IFB && !f->ifb_redirect);
}

static void set_size(struct bpf_map *map, size_t entries)
{
	bpf_map__set_max_entries(map, entries ? entries : 1);
}

/*
 * Each CPU takes this many free entries of an LRU map at once, and keeps them: of 4096 nothing is left for the rest when there
 * are 32 CPUs, and entries are thrown out that are in use (128 in kernel/bpf/bpf_lru_list.c; twice that, for good measure).
 */
#define LRU_KEPT 256U

static void size_probe_maps(struct chaos *skel, const struct tables *t)
{
	struct bpf_map *of_probes[] = { skel->maps.chaos_points, skel->maps.chaos_pointstats, skel->maps.chaos_places };
	struct bpf_map *of_calls[] = { skel->maps.chaos_frames, skel->maps.chaos_last_error, skel->maps.chaos_returns,
				       skel->maps.chaos_traced };
	struct bpf_map *of_tls[] = { skel->maps.chaos_tls, skel->maps.chaos_prints, skel->maps.chaos_tls_frames };
	const bool calls = t->knobs.faults & FAULTS_BY_PROBE;
	const uint32_t tls = t->knobs.tls ? CHAOS_MAX_TLS + LRU_KEPT * (uint32_t)libbpf_num_possible_cpus() : 1;

	for (size_t i = 0; i < sizeof(of_probes) / sizeof(of_probes[0]) && !calls && !t->knobs.tls; i++)
		set_size(of_probes[i], 1);
	for (size_t i = 0; i < sizeof(of_calls) / sizeof(of_calls[0]) && !calls; i++)
		set_size(of_calls[i], 1);
	for (size_t i = 0; i < sizeof(of_tls) / sizeof(of_tls[0]); i++)
		set_size(of_tls[i], tls);
	if (!t->knobs.ceiling) {
		set_size(skel->maps.chaos_held, 1);
		set_size(skel->maps.chaos_blocks, 1);
	}
	set_size(skel->maps.chaos_assist_failed, t->rules_count);
}

/* Room for every claim of a window of max-rate, and for those that are late. */
static size_t claims_needed(const struct tables *t)
{
	size_t count = 0;

	for (size_t i = 0; i < t->rules_count; i++) {
		if (t->rules[i].faults & CHAOS_CALLS && (t->rules[i].max_hits || t->rules[i].rate_window_ns))
			count += t->rules[i].rate_count + 2 * CHAOS_CLAIMS_KEPT;
	}
	return count;
}

/* Those that there are and those that may come; behind them are those that programs fill in, see bpf/http.bpf.c. */
static uint32_t sets_at_most(const struct tables *t)
{
	return t->sets_count + (t->follows || t->knobs.tls || t->knobs.faults & FAULTS_BY_PROBE ? SPARE_SETS : 0);
}

static void size_maps(struct chaos *skel, const struct tables *t, const struct schedule *s)
{
	set_size(skel->maps.chaos_rules, t->rules_count);
	set_size(skel->maps.chaos_budgets, t->rules_count);
	set_size(skel->maps.chaos_stats, t->rules_count);
	set_size(skel->maps.chaos_call_used, t->rules_count);
	set_size(skel->maps.chaos_threads, t->rules_count);
	set_size(skel->maps.chaos_schedule, s->count + SPARE_INTERVALS);
	set_size(skel->maps.chaos_sets,
		 sets_at_most(t) + (t->knobs.http ? libbpf_num_possible_cpus() * SETS_OF_CPU : 0));
	set_size(skel->maps.chaos_forms, t->forms_count);
	set_size(skel->maps.chaos_users, t->users_count);
	set_size(skel->maps.chaos_comms, t->comms_count);
	set_size(skel->maps.chaos_hosts, t->hosts_count);
	set_size(skel->maps.chaos_names, t->names_count);
	set_size(skel->maps.chaos_name_sets, t->name_sets_count);
	set_size(skel->maps.chaos_resolved, t->resolved_count);
	if (!t->names_count) {
		set_size(skel->maps.chaos_learned, 1);
		set_size(skel->maps.chaos_hellos, 1);
	}
	if (!(t->knobs.faults & 1 << CHAOS_DNS))
		set_size(skel->maps.chaos_questions, 1);
	if (!(t->knobs.faults & CHAOS_CALLS))
		set_size(skel->maps.chaos_callers, 1);
	size_probe_maps(skel, t);
	set_size(skel->maps.chaos_claims, claims_needed(t));
	set_size(skel->maps.chaos_paths, t->parts_count);
	if (!t->knobs.paths)
		set_size(skel->maps.chaos_walks, 1);
	if (!t->knobs.inside)
		set_size(skel->maps.chaos_inside, 1);
	if (!t->names_count && !(t->knobs.faults & 1 << CHAOS_DNS) && !t->knobs.chunks)
		set_size(skel->maps.chaos_benches, 1);
	if (!t->pids_count && !has_v1(t))
		set_size(skel->maps.chaos_pids, 1);
	if (!t->cgroups_count && !t->follows)
		set_size(skel->maps.chaos_cgroups, 1);
	if (!t->patterns_count) {
		set_size(skel->maps.chaos_comm_seen, 1);
		set_size(skel->maps.chaos_pat_sets, 1);
	}
	if (!has_udp(t) && !has_server(t))
		set_size(skel->maps.chaos_flows, 1);
}

/* ---- filling maps ---------------------------------------------------------------------------------------------- */

static int put(const struct bpf_map *map, const void *key, const void *value)
{
	return bpf_map_update_elem(bpf_map__fd(map), key, value, BPF_ANY) ? -errno : 0;
}

/* An array at once where the kernel can (5.6 on), else one by one. */
static int put_array(const struct bpf_map *map, const void *values, size_t size, uint32_t count)
{
	uint32_t *keys = malloc(count * sizeof(*keys)), done = count;
	int err = 0;

	if (!keys)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		keys[i] = i;
	if (bpf_map_update_batch(bpf_map__fd(map), keys, values, &done, NULL)) {
		for (uint32_t i = 0; i < count && !err; i++)
			err = put(map, &i, (const char *)values + i * size);
	}
	free(keys);
	return err;
}

#define PUT_PAIRS(map, pairs, count)                                         \
	({                                                                   \
		int err_ = 0;                                                \
		for (size_t i_ = 0; !err_ && i_ < (count); i_++)             \
			err_ = put(map, &(pairs)[i_].key, &(pairs)[i_].set); \
		err_;                                                        \
	})

static int put_resolvers(const struct bpf_map *map, const char *const *names)
{
	int err = 0;

	for (; names && *names && !err; names++) {
		char comm[CHAOS_COMM_LEN] = { 0 };
		const uint32_t yes = 1;

		memcpy(comm, *names, strnlen(*names, sizeof(comm) - 1));
		err = put(map, comm, &yes);
	}
	return err;
}

/* Ramps begin when the schedule has their rule in force for the first time. */
static int fill_rules(struct chaos *skel, const struct tables *t, const struct schedule *s)
{
	struct chaos_rule *rules = malloc(t->rules_count * sizeof(*rules));
	int err;

	if (!rules)
		return -ENOMEM;
	memcpy(rules, t->rules, t->rules_count * sizeof(*rules));
	for (size_t i = 0; i < t->rules_count; i++)
		rules[i].begins_ns = s->begins_ns[i];
	err = put_array(skel->maps.chaos_rules, rules, sizeof(*rules), t->rules_count);
	free(rules);
	return err;
}

static int fill_schedule(struct chaos *skel, const struct schedule *s)
{
	uint32_t zero = 0, count = s->count;
	int err;

	if (count > bpf_map__max_entries(skel->maps.chaos_schedule))
		return -E2BIG;
	err = put_array(skel->maps.chaos_schedule, s->intervals, sizeof(*s->intervals), count);
	return err ?: put(skel->maps.chaos_intervals, &zero, &count);
}

static int fill_maps(struct chaos *skel, const struct tables *t, const struct schedule *s)
{
	uint32_t zero = 0;
	int err;

	err = fill_rules(skel, t, s);
	err = err ?: put_array(skel->maps.chaos_budgets, t->budgets, sizeof(*t->budgets), t->rules_count);
	err = err ?: put_array(skel->maps.chaos_sets, t->sets, sizeof(*t->sets), t->sets_count);
	err = err ?: fill_schedule(skel, s);
	err = err ?: put_array(skel->maps.chaos_ports, t->ports, sizeof(*t->ports), 65536);
	err = err ?: put_array(skel->maps.chaos_spread, t->spread, sizeof(*t->spread), CHAOS_DISTRIBUTION_COUNT);
	err = err ?: PUT_PAIRS(skel->maps.chaos_pids, t->pids, t->pids_count);
	err = err ?: PUT_PAIRS(skel->maps.chaos_cgroups, t->cgroups, t->cgroups_count);
	err = err ?: PUT_PAIRS(skel->maps.chaos_users, t->users, t->users_count);
	err = err ?: PUT_PAIRS(skel->maps.chaos_comms, t->comms, t->comms_count);
	err = err ?: put_resolvers(skel->maps.chaos_resolvers, t->resolvers);
	err = err ?: PUT_PAIRS(skel->maps.chaos_hosts, t->hosts, t->hosts_count);
	err = err ?: put_array(skel->maps.chaos_name_sets, t->name_sets, sizeof(*t->name_sets), t->name_sets_count);
	for (size_t i = 0; i < t->parts_count && !err; i++)
		err = put(skel->maps.chaos_paths, &t->parts[i].key, &t->parts[i].part);
	for (size_t i = 0; i < t->names_count && !err; i++)
		err = put(skel->maps.chaos_names, &t->names[i].key, &t->names[i].number);
	for (size_t i = 0; i < t->resolved_count && !err; i++)
		err = put(skel->maps.chaos_resolved, &t->resolved[i].key, &t->resolved[i].number);
	if (!err && t->http)
		err = put(skel->maps.chaos_http_table, &zero, t->http);
	err = err ?: put_array(skel->maps.chaos_forms, t->forms, sizeof(*t->forms), t->forms_count);
	if (!err && t->patterns_count) {
		err = put(skel->maps.chaos_patterns, &zero, &t->patterns);
		err = err
			      ?: put_array(skel->maps.chaos_pat_sets, t->pattern_sets, sizeof(uint32_t),
					   CHAOS_MAX_PATTERNS);
	}
	return err;
}

/* ---- life ------------------------------------------------------------------------------------------------------- */

static int reuse(struct bpf_map *map, int fd)
{
	return fd >= 0 ? bpf_map__reuse_fd(map, fd) : 0;
}

/* Halvings until one of `count` + 1 places is left. */
static uint32_t search_steps(size_t count)
{
	uint32_t steps = 0;

	while (1UL << steps < count + 1)
		steps++;
	return steps;
}

/* -1 for one that is not needed. */
static int fd_of(const struct bpf_program *prog)
{
	return bpf_program__autoload(prog) ? bpf_program__fd(prog) : -1;
}

int engine_open(const struct tables *tables, const struct schedule *schedule, const struct features *features,
		uint32_t generation, int control_fd, int sock_fd, struct engine *engine, struct error *err)
{
	struct chaos_knobs knobs = tables->knobs;
	struct chaos *skel = chaos__open();
	int ret;

	memset(engine, 0, sizeof(*engine));
	engine->egress_fd = engine->ingress_fd = engine->answer_fd = engine->ifb_fd = engine->pick_fd = -1;
	if (!skel)
		return attach_explain_load(-errno, err);
	engine->skel = skel;
	engine->generation = generation;
	knobs.generation = generation;
	knobs.http_sets = sets_at_most(tables);
	knobs.search_steps = search_steps(schedule->count + SPARE_INTERVALS);
	knobs.set_retval = features->has[FEATURE_SET_RETVAL];
	knobs.ifb_redirect = features->ifb_redirect;
	knobs.splits_arriving = knobs.splits_arriving && features->ifb_redirect;
	knobs.set_tstamp = knobs.paces_arriving &&
			   libbpf_probe_bpf_helper(BPF_PROG_TYPE_SCHED_CLS, BPF_FUNC_skb_set_tstamp, NULL) == 1;
	knobs.leader_comm = feature_leader_comm();
	knobs.registers = features->has[FEATURE_PROBE_REGISTERS];
	if (!knobs.registers) {
		knobs.assist = 1;
		knobs.assisted = tables->probed;
	}
	knobs.write_user = features->has[FEATURE_WRITE_USER];
	knobs.tls = knobs.tls && features->has[FEATURE_PROBE];
	knobs.cookies = features->has[FEATURE_PROBE_COOKIE];
	knobs.flows = has_udp(tables) || has_server(tables);
	memcpy((void *)&skel->rodata->knobs, &knobs, sizeof(knobs));
	choose_programs(skel, tables, features);
	size_maps(skel, tables, schedule);
	ret = reuse(skel->maps.chaos_control, control_fd);
	ret = ret ?: reuse(skel->maps.chaos_sock, sock_fd);
	ret = ret ?: chaos__load(skel);
	if (ret) {
		attach_explain_load(ret, err);
		goto out;
	}
	ret = fill_maps(skel, tables, schedule);
	if (ret) {
		error_set(err, ret, EXIT_FAILED, "cannot fill the BPF maps: %s", strerror(-ret));
		goto out;
	}
	engine->control_fd = bpf_map__fd(skel->maps.chaos_control);
	engine->sock_fd = bpf_map__fd(skel->maps.chaos_sock);
	engine->egress_fd = fd_of(skel->progs.chaos_tc_out);
	engine->ingress_fd = fd_of(skel->progs.chaos_tc_in);
	engine->answer_fd = fd_of(skel->progs.chaos_answer);
	engine->ifb_fd = fd_of(skel->progs.chaos_tc_ifb);
	engine->pick_fd = fd_of(skel->progs.chaos_tc_pick);
out:
	if (ret)
		engine_free(engine);
	return ret;
}

/* Devices and functions: user/engine/device.c and user/inside/probe.c know them. */
static bool has_place_of_its_own(const struct bpf_program *prog)
{
	return bpf_program__type(prog) == BPF_PROG_TYPE_SCHED_CLS || bpf_program__type(prog) == BPF_PROG_TYPE_KPROBE;
}

static int attach(struct engine *engine, const struct bpf_program *prog, int cgroup, struct error *err)
{
	struct bpf_link *link;

	if (!bpf_program__autoload(prog))
		return 0;
	link = attach_program(prog, cgroup, err);
	if (!link)
		return -errno;
	engine->programs[engine->links_count] = prog;
	engine->links[engine->links_count++] = link;
	return 0;
}

int engine_attach(struct engine *engine, const char *cgroup2_mount, struct error *err)
{
	/* Programs of one hook run in the order in which they came: requests are read before chaos_egress asks for them. */
	const struct bpf_program *first = engine->skel->progs.chaos_request;
	struct bpf_program *prog;
	int cgroup = open(cgroup2_mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC), ret;

	if (cgroup < 0)
		return error_set(err, -errno, EXIT_FAILED, "cannot open %s: %s", cgroup2_mount, strerror(errno));
	ret = attach(engine, first, cgroup, err);
	bpf_object__for_each_program (prog, engine->skel->obj) {
		if (ret)
			break;
		if (prog != first && !has_place_of_its_own(prog))
			ret = attach(engine, prog, cgroup, err);
	}
	close(cgroup);
	return ret;
}

int engine_pin(struct engine *engine, const char *dir, bool maps_only, struct error *err)
{
	char path[160];
	struct bpf_map *map;
	int ret = 0;

	snprintf(engine->pin_dir, sizeof(engine->pin_dir), "%s", dir);
	bpf_object__for_each_map (map, engine->skel->obj) {
		if (map == engine->skel->maps.chaos_control || map == engine->skel->maps.chaos_sock)
			continue;
		if (bpf_map__is_internal(map))
			snprintf(path, sizeof(path), "%s/chaos_%s", dir, strrchr(bpf_map__name(map), '.') + 1);
		else
			snprintf(path, sizeof(path), "%s/%s", dir, bpf_map__name(map));
		ret = bpf_map__pin(map, path);
		if (ret)
			goto out;
	}
	for (int i = 0; i < engine->links_count && !maps_only && !ret; i++) {
		snprintf(path, sizeof(path), "%s/link_%d", dir, i);
		ret = bpf_link__pin(engine->links[i], path);
	}
out:
	if (ret)
		error_set(err, ret, EXIT_FAILED, "cannot pin %s: %s", path, strerror(-ret));
	return ret;
}

int engine_fill_pids(struct engine *engine, const struct tables *tables, struct error *err)
{
	int ret = PUT_PAIRS(engine->skel->maps.chaos_pids, tables->pids, tables->pids_count);

	return ret ? error_set(err, ret, EXIT_FAILED, "cannot write the processes of the rules: %s", strerror(-ret))
		   : 0;
}

int engine_reschedule(struct engine *engine, const struct tables *tables, const struct schedule *schedule,
		      struct error *err)
{
	int ret = fill_schedule(engine->skel, schedule);

	if (!ret && tables->knobs.ramps)
		ret = fill_rules(engine->skel, tables, schedule);

	return ret ? error_set(err, ret, EXIT_FAILED, "cannot write the schedule: %s", strerror(-ret)) : 0;
}

/* Dumps a hash map into an array of pairs; entries that come and go meanwhile may be missed. */
#define GET_PAIRS(map, pairs, count)                                                         \
	({                                                                                   \
		int fd_ = bpf_map__fd(map), err_ = 0;                                        \
		size_t found_ = 0, room_ = (count) + 64;                                     \
		typeof(pairs) list_ = calloc(room_, sizeof(*list_)), more_;                  \
		void *last_ = NULL;                                                          \
		while (list_ && bpf_map_get_next_key(fd_, last_, &list_[found_].key) == 0) { \
			last_ = &list_[found_].key;                                          \
			if (bpf_map_lookup_elem(fd_, last_, &list_[found_].set))             \
				list_[found_].set = 0;                                       \
			if (++found_ < room_)                                                \
				continue;                                                    \
			room_ *= 2;                                                          \
			more_ = realloc(list_, room_ * sizeof(*list_));                      \
			if (!more_)                                                          \
				break;                                                       \
			list_ = more_;                                                       \
			memset(list_ + found_, 0, (room_ - found_) * sizeof(*list_));        \
			last_ = &list_[found_ - 1].key;                                      \
		}                                                                            \
		if (list_) {                                                                 \
			free(pairs);                                                         \
			(pairs) = list_;                                                     \
			(count) = found_;                                                    \
		} else {                                                                     \
			err_ = -ENOMEM;                                                      \
		}                                                                            \
		err_;                                                                        \
	})

int engine_follow(const struct engine *engine, struct tables *t)
{
	int err = 0;

	if (t->pids_count || has_v1(t))
		err = GET_PAIRS(engine->skel->maps.chaos_pids, t->pids, t->pids_count);
	if (!err && (t->cgroups_count || t->follows))
		err = GET_PAIRS(engine->skel->maps.chaos_cgroups, t->cgroups, t->cgroups_count);
	return err;
}

/* New sets first: nothing leads to them until the pairs are written. */
static int put_new_sets(struct engine *engine, const struct tables *t, size_t first)
{
	const struct bpf_map *map = engine->skel->maps.chaos_sets;
	int err = 0;

	if (t->sets_count > bpf_map__max_entries(map))
		return -E2BIG;
	for (uint32_t i = first; i < t->sets_count && !err; i++)
		err = put(map, &i, &t->sets[i]);
	return err;
}

/* A process that has ended since it was seen was not taken out of the map by its exit. */
static int put_pids(struct engine *engine, const struct tables *t)
{
	int fd = bpf_map__fd(engine->skel->maps.chaos_pids), err = 0;

	for (size_t i = 0; i < t->pids_count && !err; i++) {
		err = put(engine->skel->maps.chaos_pids, &t->pids[i].key, &t->pids[i].set);
		if (!err && kill((pid_t)t->pids[i].key, 0) && errno == ESRCH)
			bpf_map_delete_elem(fd, &t->pids[i].key);
	}
	return err;
}

static bool is_new(const struct cgroup_pair *pair, const struct cgroup_pair *list, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (memcmp(&list[i].key, &pair->key, sizeof(pair->key)) == 0)
			return list[i].set != pair->set;
	}
	return true;
}

int engine_update_cgroups(struct engine *engine, struct tables *t, const struct target *targets, bool *changed,
			  struct error *err)
{
	struct cgroup_pair *before = NULL;
	size_t count = t->cgroups_count, sets = t->sets_count;
	const struct bpf_map *map = engine->skel->maps.chaos_cgroups;
	int ret;

	*changed = false;
	before = malloc((count + 1) * sizeof(*before));
	if (!before)
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	memcpy(before, t->cgroups, count * sizeof(*before));
	ret = tables_update_cgroups(t, targets, err);
	if (!ret)
		ret = put_new_sets(engine, t, sets);
	for (size_t i = 0; i < t->cgroups_count && !ret; i++) {
		if (!is_new(&t->cgroups[i], before, count))
			continue;
		*changed = true;
		ret = put(map, &t->cgroups[i].key, &t->cgroups[i].set);
	}
	if (!ret && t->follows_v1)
		ret = put_pids(engine, t);
	/* What is gone never comes back under the same id. */
	for (size_t i = 0; i < count && !ret; i++) {
		bool here = false;

		for (size_t k = 0; k < t->cgroups_count && !here; k++)
			here = memcmp(&before[i].key, &t->cgroups[k].key, sizeof(before[i].key)) == 0;
		if (!here)
			bpf_map_delete_elem(bpf_map__fd(map), &before[i].key);
	}
	free(before);
	if (!ret && *changed)
		ret = engine_choose_again(bpf_map__fd(engine->skel->maps.bss));
	return ret ? error_set(err, ret, EXIT_FAILED, "cannot write the cgroups of the rules: %s", strerror(-ret)) : 0;
}

int engine_choose_again(int bss_fd)
{
	uint32_t zero = 0, epoch = 0;

	if (bpf_map_lookup_elem(bss_fd, &zero, &epoch))
		return -errno;
	epoch++;
	return bpf_map_update_elem(bss_fd, &zero, &epoch, BPF_ANY) ? -errno : 0;
}

static struct finished_maps finished_maps(const struct engine *engine)
{
	return (struct finished_maps){
		.finished_fd = bpf_map__fd(engine->skel->maps.chaos_finished),
		.call_over_fd = bpf_map__fd(engine->skel->maps.chaos_call_over),
	};
}

int engine_unloaded(const struct engine *engine, struct chaos_vector *rules)
{
	const struct finished_maps maps = finished_maps(engine);

	return finished_unloaded(&maps, rules);
}

bool engine_all_finished(const struct engine *engine, size_t rules)
{
	const struct finished_maps maps = finished_maps(engine);
	struct chaos_vector finished;

	return !finished_read(&maps, &finished) && has_all(&finished, rules);
}

bool engine_owes_answers(const struct engine *engine)
{
	int64_t orders = 0;
	uint32_t zero = 0;

	/* Below zero: two programs closed the same one at the same moment. */
	return !bpf_map_lookup_elem(bpf_map__fd(engine->skel->maps.chaos_orders), &zero, &orders) && orders > 0;
}

int engine_arm(int control_fd, uint32_t generation)
{
	struct chaos_control control = { .generation = generation };
	uint32_t zero = 0;

	return bpf_map_update_elem(control_fd, &zero, &control, BPF_ANY) ? -errno : 0;
}

int engine_disarm(int control_fd, uint32_t generation)
{
	struct chaos_control control;
	uint32_t zero = 0;

	if (bpf_map_lookup_elem(control_fd, &zero, &control))
		return -errno;
	return control.generation == generation ? engine_arm(control_fd, 0) : 0;
}

int engine_meet_comm(struct engine *engine, const struct tables *tables, const char *comm)
{
	struct process process = { 0 };
	struct chaos_comm_rules met = { .ready = 1 };

	if (!tables->patterns_count)
		return 0;
	memcpy(process.comm, comm, strnlen(comm, sizeof(process.comm) - 1));
	tables_comm_rules(tables, process.comm, &met.rules);
	return put(engine->skel->maps.chaos_comm_seen, process.comm, &met);
}

int engine_map(const struct engine *engine, const char *name)
{
	return bpf_object__find_map_fd_by_name(engine->skel->obj, name);
}

void engine_free(struct engine *engine)
{
	for (int i = 0; i < engine->links_count; i++)
		bpf_link__destroy(engine->links[i]); /* a pinned link stays attached */
	engine->links_count = 0;
	chaos__destroy(engine->skel);
	engine->skel = NULL;
}
