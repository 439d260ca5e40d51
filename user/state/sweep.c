// SPDX-License-Identifier: GPL-2.0-only
#include "user/state/sweep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "bpf/chaos.h"
#include "user/engine/device.h"
#include "user/engine/engine.h"

static bool is_control(int fd)
{
	struct bpf_map_info info = { 0 };
	__u32 len = sizeof(info);

	return bpf_map_get_info_by_fd(fd, &info, &len) == 0 && strcmp(info.name, "chaos_control") == 0 &&
	       info.type == BPF_MAP_TYPE_ARRAY && info.value_size == sizeof(struct chaos_control);
}

int sweep_disarm(void)
{
	__u32 id = 0;
	int ret = 0;

	while (bpf_map_get_next_id(id, &id) == 0) {
		int fd = bpf_map_get_fd_by_id(id), one;

		if (fd < 0)
			continue;
		if (is_control(fd)) {
			one = engine_arm(fd, 0);
			if (!ret)
				ret = one;
		}
		close(fd);
	}
	return ret;
}

static bool is_ours(int link)
{
	struct bpf_link_info info = { 0 };
	struct bpf_prog_info prog_info = { 0 };
	__u32 len = sizeof(info);
	bool ours;
	int prog;

	if (bpf_link_get_info_by_fd(link, &info, &len))
		return false;
	prog = bpf_prog_get_fd_by_id(info.prog_id);
	if (prog < 0)
		return false;
	len = sizeof(prog_info);
	/* Observers touch no traffic, may be somebody else's, and go with their process. */
	ours = bpf_prog_get_info_by_fd(prog, &prog_info, &len) == 0 && strncmp(prog_info.name, "chaos_", 6) == 0 &&
	       strncmp(prog_info.name, "chaos_obs", 9) != 0;
	close(prog);
	return ours;
}

static size_t each_link(bool detach)
{
	size_t count = 0;
	__u32 id = 0;

	while (bpf_link_get_next_id(id, &id) == 0) {
		int link = bpf_link_get_fd_by_id(id);

		if (link < 0)
			continue;
		if (is_ours(link)) {
			count++;
			if (detach) /* raw tracepoints cannot be: they go with whoever holds them */
				bpf_link_detach(link);
		}
		close(link);
	}
	return count;
}

size_t sweep_count_links(void)
{
	return each_link(false);
}

size_t sweep_links(void)
{
	return each_link(true);
}

uint32_t sweep_backlog(void)
{
	struct netns_list spaces;
	struct error ignored;
	uint32_t sum = 0;

	if (netns_list(&spaces, &ignored))
		return 0;
	for (size_t i = 0; i < spaces.count; i++) {
		struct device *devices;
		size_t count;

		if (device_list(&spaces.entries[i], &devices, &count, &ignored))
			continue;
		for (size_t d = 0; d < count; d++) {
			uint32_t packets = 0;

			if (device_backlog(&spaces.entries[i], devices[d].ifindex, &packets, &ignored) == 0)
				sum += packets;
		}
		free(devices);
	}
	netns_list_free(&spaces);
	return sum;
}
