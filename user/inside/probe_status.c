// SPDX-License-Identifier: GPL-2.0-only
/* What the probes of a load have seen, read from its pins. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "user/inside/probe.h"
#include "user/state/store.h"

/* Adds what one function has seen to its file. */
static void add_point(struct probe_status *file, int stats, uint32_t point, struct chaos_point_stats *per_cpu, int cpus)
{
	if (bpf_map_lookup_elem(stats, &point, per_cpu))
		return;
	for (int cpu = 0; cpu < cpus; cpu++) {
		file->calls += per_cpu[cpu].calls;
		file->injected += per_cpu[cpu].injected;
	}
}

static size_t read_files(int files, struct probe_status *list)
{
	struct chaos_file file;
	uint32_t i;

	for (i = 0; i < CHAOS_MAX_FILES; i++) {
		if (bpf_map_lookup_elem(files, &i, &file) || !file.functions)
			break;
		list[i].functions = file.functions;
		snprintf(list[i].file, sizeof(list[i].file), "%s", file.path);
	}
	return i;
}

int probes_read(uint32_t generation, struct probe_status **list, size_t *count)
{
	int files = store_open_pin(generation, "chaos_files"), points = store_open_pin(generation, "chaos_points"),
	    stats = store_open_pin(generation, "chaos_pointstats");
	int cpus = libbpf_num_possible_cpus(), ret = files < 0 ? files : points < 0 ? points : stats < 0 ? stats : 0;
	struct chaos_point_stats *per_cpu = calloc(cpus > 0 ? cpus : 1, sizeof(*per_cpu));
	uint64_t functions = 0;

	*count = 0;
	*list = calloc(CHAOS_MAX_FILES, sizeof(**list));
	if (!*list || !per_cpu)
		ret = -ENOMEM;
	if (!ret)
		*count = read_files(files, *list);
	for (size_t i = 0; i < *count; i++)
		functions += (*list)[i].functions;
	for (uint32_t i = 0; i < functions; i++) {
		struct chaos_point point;

		if (bpf_map_lookup_elem(points, &i, &point) == 0 && point.file < *count)
			add_point(&(*list)[point.file], stats, i, per_cpu, cpus);
	}
	if (files >= 0)
		close(files);
	if (points >= 0)
		close(points);
	if (stats >= 0)
		close(stats);
	free(per_cpu);
	return ret;
}
