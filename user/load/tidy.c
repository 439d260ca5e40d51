// SPDX-License-Identifier: GPL-2.0-only
/* What a command that was killed has left, or a load whose end has passed unattended: found and cleared by the next. */
#include <errno.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "user/base/clock.h"
#include "user/load/load_internal.h"
#include "user/state/lock.h"
#include "user/state/state.h"
#include "user/target/exec_cgroup.h"
#include "user/target/target.h"

static uint64_t armed_generation(void)
{
	int fd = store_open_pin(0, "chaos_control");
	struct chaos_control control = { 0 };
	uint32_t zero = 0;

	if (fd < 0)
		return 0;
	bpf_map_lookup_elem(fd, &zero, &control);
	close(fd);
	return control.generation;
}

/* 1: what is there makes no sense, or is half of a load that died while it was made. */
static int tidy(struct error *err)
{
	struct store_record record;
	int ret = store_read_record(&record, err);

	/* What is pinned or on devices belongs to no record, or to an older one whose load has taken down all that it had. */
	if (ret || record.over)
		return access(STORE_PINS, F_OK) == 0 || access(STORE_JOURNAL, F_OK) == 0;
	if (armed_generation() != record.generation)
		return !process_id_alive(&record.owner);
	if (process_id_alive(&record.reaper) || process_id_alive(&record.owner)) {
		store_remove_generations(record.generation);
		return 0;
	}
	if (record.owner.pid || boot_ns() >= record.end_ns)
		return load_finish(&record, err);
	return 0;
}

int state_tidy(struct error *err)
{
	struct stop_result result;
	struct error ignored;
	char cgroup2[256];
	int lock, ret;

	find_cgroup2(cgroup2, sizeof(cgroup2));
	if (cgroup2[0])
		exec_cgroup_tidy(cgroup2);
	if (access(STORE_RUN, F_OK) != 0 && access(STORE_PINS, F_OK) != 0)
		return 0;
	lock = lock_take(0, &ignored);
	if (lock < 0)
		return 0; /* somebody is at work: theirs is not to be tidied */
	ret = tidy(err);
	lock_release(lock);
	return ret == 1 ? load_stop(&result, err) : ret;
}
