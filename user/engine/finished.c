// SPDX-License-Identifier: GPL-2.0-only
#include "user/engine/finished.h"

#include <errno.h>

#include <bpf/bpf.h>

#include "user/base/vector.h"

#define BY_KERNEL 0U
#define BY_US     1U

int finished_read(const struct finished_maps *maps, struct chaos_vector *rules)
{
	struct chaos_finished locked = { 0 };
	uint32_t zero = 0;

	if (bpf_map_lookup_elem_flags(maps->finished_fd, &zero, &locked, BPF_F_LOCK))
		return -errno;
	*rules = locked.rules;
	for (uint32_t which = BY_KERNEL; which <= BY_US; which++) {
		struct chaos_vector over = { 0 };

		if (bpf_map_lookup_elem(maps->call_over_fd, &which, &over))
			return -errno;
		merge(rules, &over);
	}
	return 0;
}

int finished_unloaded(const struct finished_maps *maps, struct chaos_vector *rules)
{
	uint32_t by_us = BY_US;

	return bpf_map_lookup_elem(maps->call_over_fd, &by_us, rules) ? -errno : 0;
}

int finished_add(const struct finished_maps *maps, const struct chaos_vector *rules)
{
	struct chaos_finished locked = { 0 };
	struct chaos_vector over = { 0 };
	uint32_t zero = 0, by_us = BY_US;

	if (bpf_map_lookup_elem_flags(maps->finished_fd, &zero, &locked, BPF_F_LOCK) ||
	    bpf_map_lookup_elem(maps->call_over_fd, &by_us, &over))
		return -errno;
	merge(&locked.rules, rules);
	merge(&over, rules);
	if (bpf_map_update_elem(maps->finished_fd, &zero, &locked, BPF_F_LOCK) ||
	    bpf_map_update_elem(maps->call_over_fd, &by_us, &over, BPF_ANY))
		return -errno;
	return 0;
}
