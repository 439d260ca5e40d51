/* SPDX-License-Identifier: GPL-2.0-only */
/* The part of the engine that probes on user functions need: their programs, and what is written about each function. */
#ifndef USER_ENGINE_PROBE_H
#define USER_ENGINE_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/chaos.h"
#include "user/base/error.h"
#include "user/engine/engine.h"
#include "user/tables/tables.h"

struct bpf_program;

/*
 * Kernels without cookies (before 5.15) do not tell a probe which function it is on, but where in its page it is. Functions
 * that share a place need programs of their own: copies, which share all maps.
 */
#define PAGE_PLACES 4096
struct engine_copies {
	struct chaos **skels;
	size_t count;
	uint16_t used[PAGE_PLACES]; /* functions at that place so far */
};

enum probe_family {
	PROBE_CALL, /* gpu-oom, call */
	PROBE_TLS,
	PROBE_FAMILY_COUNT,
};

/* The program for entries, or for returns (`leave`); of a copy, or with NULL of the engine's own. */
struct bpf_program *engine_probe(const struct engine *engine, struct chaos *copy, enum probe_family family, bool leave);

/* The copy for a function at `offset` of its file, and notes there that it is point `number`. Freed with the rest. */
int engine_copy_for(struct engine *engine, struct engine_copies *copies, uint64_t offset, uint32_t number,
		    struct chaos **copy, struct error *err);
void engine_copies_free(struct engine_copies *copies);

/* Number of the set of these rules, written into the kernel when it is new. */
int engine_put_set(struct engine *engine, struct tables *tables, const struct chaos_vector *rules, uint32_t *set);

int engine_put_point(struct engine *engine, uint32_t number, const struct chaos_point *point);
int engine_put_file(struct engine *engine, uint32_t number, const struct chaos_file *file);

#endif
