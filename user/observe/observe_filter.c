// SPDX-License-Identifier: GPL-2.0-only
/* The match of a rule as sets that the kernel looks into: each that is not asked for is left out by a knob. */
#include "user/observe/observe_filter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bpf/match.h"
#include "observe.skel.h"
#include "user/tables/tables.h"

#define SPARE_CGROUPS 4096 /* that may come */

static const struct match *match_of(const struct observe_filter *filter)
{
	return filter->rules ? &filter->rules->rules[0].match : NULL;
}

static int resolve(const struct observe_filter *filter, bool wait, const struct target *before, struct target **target,
		   struct error *err)
{
	const struct target_options options = {
		.cgroup2_mount = filter->cgroup2_mount, .root = "/", .wait = wait, .before = before
	};
	struct process_list processes;
	int ret = process_list(filter->cgroup2_mount, &processes, err);

	if (ret)
		return ret;
	ret = targets_resolve(filter->rules, &options, &processes, target, err);
	process_list_free(&processes);
	return ret;
}

int filter_resolve(struct observe_filter *filter, const struct observe_options *options, const struct features *f,
		   struct error *err)
{
	const struct match *m;

	*filter = (struct observe_filter){ .rules = options->filter };
	snprintf(filter->cgroup2_mount, sizeof(filter->cgroup2_mount), "%s", f->cgroup2_mount);
	m = match_of(filter);
	if (!m)
		return 0;
	if (m->process.text)
		tables_add_pattern(&filter->pattern, 0, m->process.text);
	return resolve(filter, options->wait, NULL, &filter->target, err);
}

void filter_free(struct observe_filter *filter)
{
	targets_free(filter->target, filter->target ? filter->rules->count : 0);
	filter->target = NULL;
}

void filter_set_knobs(const struct observe_filter *filter, const struct observe_options *options,
		      struct observe_knobs *knobs)
{
	const unsigned int both = 1 << CHAOS_SIDE_CLIENT | 1 << CHAOS_SIDE_SERVER;
	const struct match *m = match_of(filter);
	const struct target *t = filter->target;

	knobs->sides = both;
	if (!m)
		return;
	if (!options->both_sides)
		knobs->sides = 1U << m->side;
	knobs->by = (t->by_cgroup ? OBSERVE_BY_CGROUP : 0) | (t->by_pid ? OBSERVE_BY_PID : 0) |
		    (m->process.text ? OBSERVE_BY_COMM : 0) | (t->by_user ? OBSERVE_BY_USER : 0);
	knobs->uid = t->uid;
	knobs->ports = m->endpoint.ports_count > 0;
	knobs->hosts = m->endpoint.hosts_count + m->endpoint.names_count > 0;
}

static size_t addresses_count(const struct match *m)
{
	size_t count = m->endpoint.hosts_count;

	for (size_t i = 0; i < m->endpoint.names_count; i++)
		count += m->endpoint.names[i].addresses_count;
	return count;
}

void filter_size_maps(const struct observe_filter *filter, struct observe_bpf *skel)
{
	const struct match *m = match_of(filter);
	size_t hosts = m ? addresses_count(m) : 0;

	bpf_map__set_max_entries(skel->maps.chaos_obs_hosts, hosts ? hosts : 1);
	bpf_map__set_max_entries(skel->maps.chaos_obs_cgrps,
				 m && filter->target->by_cgroup ? filter->target->cgroups_count + SPARE_CGROUPS : 1);
	if (!m || !filter->target->by_pid)
		bpf_map__set_max_entries(skel->maps.chaos_obs_pids, 1);
}

static int put(const struct bpf_map *map, const void *key, const void *value)
{
	return bpf_map_update_elem(bpf_map__fd(map), key, value, BPF_ANY) ? -errno : 0;
}

static int put_host(struct observe_bpf *skel, const struct in6_addr *address, unsigned int prefix_len)
{
	struct chaos_address_key key = { .prefix_len = prefix_len };
	const uint32_t yes = 1;

	memcpy(key.address, address, sizeof(key.address));
	return put(skel->maps.chaos_obs_hosts, &key, &yes);
}

static int fill_hosts(struct observe_bpf *skel, const struct endpoint *e)
{
	int ret = 0;

	for (size_t i = 0; i < e->hosts_count && !ret; i++)
		ret = put_host(skel, &e->hosts[i].address, e->hosts[i].prefix_len);
	for (size_t i = 0; i < e->names_count && !ret; i++) {
		for (size_t k = 0; k < e->names[i].addresses_count && !ret; k++)
			ret = put_host(skel, &e->names[i].addresses[k], 128);
	}
	return ret;
}

static int fill_ports(struct observe_bpf *skel, const struct endpoint *e)
{
	struct observe_ports *ports = calloc(1, sizeof(*ports));
	const uint32_t zero = 0;
	int ret;

	if (!ports)
		return -ENOMEM;
	for (size_t i = 0; i < e->ports_count; i++) {
		for (unsigned int port = e->ports[i].first; port <= e->ports[i].last; port++)
			ports->word[port / 64] |= 1ULL << port % 64;
	}
	ret = put(skel->maps.chaos_obs_ports, &zero, ports);
	free(ports);
	return ret;
}

static int fill_target(struct observe_bpf *skel, const struct target *t)
{
	const uint8_t yes = 1;
	int ret = 0;

	for (size_t i = 0; i < t->pids_count && !ret; i++)
		ret = put(skel->maps.chaos_obs_pids, &t->pids[i], &yes);
	for (size_t i = 0; i < t->cgroups_count && t->by_cgroup && !ret; i++)
		ret = put(skel->maps.chaos_obs_cgrps, &t->cgroups[i].id, &yes);
	return ret;
}

static int cannot_fill(int ret, struct error *err)
{
	return ret ? error_set(err, ret, EXIT_FAILED, "cannot fill the BPF maps: %s", strerror(-ret)) : 0;
}

int filter_fill_maps(const struct observe_filter *filter, struct observe_bpf *skel, struct error *err)
{
	const struct match *m = match_of(filter);
	const uint32_t zero = 0;
	int ret;

	if (!m)
		return 0;
	ret = fill_target(skel, filter->target);
	ret = ret ?: fill_hosts(skel, &m->endpoint);
	ret = ret ?: fill_ports(skel, &m->endpoint);
	ret = ret ?: put(skel->maps.chaos_obs_comms, &zero, &filter->pattern);
	return cannot_fill(ret, err);
}

static bool has_pid(const struct target *t, uint32_t pid)
{
	for (size_t i = 0; i < t->pids_count; i++) {
		if (t->pids[i] == pid)
			return true;
	}
	return false;
}

static bool has_cgroup(const struct target *t, uint64_t id)
{
	for (size_t i = 0; i < t->cgroups_count; i++) {
		if (t->cgroups[i].id == id)
			return true;
	}
	return false;
}

bool filter_wants(const struct observe_filter *filter, const struct process *process)
{
	const struct match *m = match_of(filter);
	const struct target *t = filter->target;

	if (!m)
		return true;
	if (t->by_pid && !has_pid(t, process->pid))
		return false;
	if (t->by_cgroup && !has_cgroup(t, process->cgroup_id))
		return false;
	if (t->by_user && process->uid != t->uid)
		return false;
	return !m->process.text || pattern_word(&filter->pattern, process->comm, 0);
}

int filter_add_children(const struct observe_filter *filter, struct observe_bpf *skel,
			const struct process_list *processes, struct error *err)
{
	const struct match *m = match_of(filter);
	const uint8_t yes = 1;
	int ret = 0;

	for (size_t i = 0; m && m->pid && i < processes->count && !ret; i++) {
		if (process_descends(processes, processes->entries[i].pid, m->pid))
			ret = put(skel->maps.chaos_obs_pids, &processes->entries[i].pid, &yes);
	}
	return cannot_fill(ret, err);
}

/* What is gone is taken out first: there may be no room for both. Children that the kernel added stay until they end. */
static void take_out(struct observe_bpf *skel, const struct target *old, const struct target *now)
{
	for (size_t i = 0; i < old->cgroups_count && old->by_cgroup; i++) {
		if (!has_cgroup(now, old->cgroups[i].id))
			bpf_map_delete_elem(bpf_map__fd(skel->maps.chaos_obs_cgrps), &old->cgroups[i].id);
	}
}

int filter_follow(struct observe_filter *filter, struct observe_bpf *skel, struct error *err)
{
	struct target *now;
	int ret;

	if (!filter->rules || !target_may_come(&filter->rules->rules[0]))
		return 0;
	ret = resolve(filter, true, filter->target, &now, err);
	if (ret)
		return ret;
	take_out(skel, filter->target, now);
	ret = fill_target(skel, now);
	filter_free(filter);
	filter->target = now;
	return cannot_fill(ret, err);
}
