// SPDX-License-Identifier: GPL-2.0-only
#include "user/inside/engine_probe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "chaos.skel.h"
#include "user/tables/tables_internal.h"

static int put(struct engine *engine, const char *map, const void *key, const void *value)
{
	return bpf_map_update_elem(engine_map(engine, map), key, value, BPF_ANY) ? -errno : 0;
}

struct bpf_program *engine_probe(const struct engine *engine, struct chaos *copy, enum probe_family family, bool leave)
{
	struct chaos *skel = copy ? copy : engine->skel;

	if (family == PROBE_TLS)
		return leave ? skel->progs.chaos_tls_leave : skel->progs.chaos_tls_enter;
	return leave ? skel->progs.chaos_leave : skel->progs.chaos_enter;
}

/* Is it one that a copy has, if the engine itself does? */
static bool is_probe(const struct engine *engine, const struct bpf_program *prog)
{
	for (int leave = 0; leave < 2; leave++) {
		for (enum probe_family family = 0; family < PROBE_FAMILY_COUNT; family++) {
			const struct bpf_program *own = engine_probe(engine, NULL, family, leave);

			if (strcmp(bpf_program__name(own), bpf_program__name(prog)) == 0)
				return bpf_program__autoload(own);
		}
	}
	return false;
}

/* Programs and maps by themselves, every map that of the engine. */
static struct chaos *make_copy(const struct engine *engine, uint32_t number)
{
	struct chaos *copy = chaos__open();
	struct bpf_program *prog;
	struct bpf_map *map;

	if (!copy)
		return NULL;
	memcpy((void *)&copy->rodata->knobs, &engine->skel->rodata->knobs, sizeof(copy->rodata->knobs));
	((struct chaos_knobs *)&copy->rodata->knobs)->copy = number;
	bpf_object__for_each_program (prog, copy->obj)
		bpf_program__set_autoload(prog, is_probe(engine, prog));
	bpf_object__for_each_map (map, copy->obj) {
		struct bpf_map *own = bpf_object__find_map_by_name(engine->skel->obj, bpf_map__name(map));

		if (bpf_map__is_internal(map))
			continue;
		if (!own || bpf_map__reuse_fd(map, bpf_map__fd(own)))
			goto fail;
	}
	if (chaos__load(copy) == 0)
		return copy;
fail:
	chaos__destroy(copy);
	return NULL;
}

int engine_copy_for(struct engine *engine, struct engine_copies *copies, uint64_t offset, uint32_t number,
		    struct chaos **copy, struct error *err)
{
	struct chaos_place_key key = { .offset = offset % PAGE_PLACES };

	key.copy = copies->used[key.offset]++;
	*copy = NULL; /* the first is the engine's own */
	if (key.copy > copies->count) {
		struct chaos **skels = realloc(copies->skels, key.copy * sizeof(*skels));

		if (!skels)
			return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
		copies->skels = skels;
		copies->skels[copies->count] = make_copy(engine, key.copy);
		if (!copies->skels[copies->count])
			return error_set(err, -errno, EXIT_FAILED, "cannot load the BPF programs again: %s",
					 strerror(errno));
		copies->count++;
	}
	if (key.copy)
		*copy = copies->skels[key.copy - 1];
	return put(engine, "chaos_places", &key, &number);
}

void engine_copies_free(struct engine_copies *copies)
{
	for (size_t i = 0; i < copies->count; i++)
		chaos__destroy(copies->skels[i]);
	free(copies->skels);
	copies->skels = NULL;
	copies->count = 0;
}

int engine_put_set(struct engine *engine, struct tables *tables, const struct chaos_vector *rules, uint32_t *set)
{
	int ret = tables_set_number(tables, rules, set);

	return ret ?: put(engine, "chaos_sets", set, rules);
}

int engine_put_point(struct engine *engine, uint32_t number, const struct chaos_point *point)
{
	return put(engine, "chaos_points", &number, point);
}

int engine_put_file(struct engine *engine, uint32_t number, const struct chaos_file *file)
{
	return put(engine, "chaos_files", &number, file);
}
