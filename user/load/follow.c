// SPDX-License-Identifier: GPL-2.0-only
#include "user/load/follow.h"

#include <errno.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "user/base/clock.h"
#include "user/load/load_internal.h"
#include "user/target/cgroup_tree.h"

#define SECOND_NS 1000000000ULL
#define SETTLE_NS (5 * SECOND_NS)  /* so long after a cgroup came its name may be written down */
#define PAUSE_NS  (SECOND_NS / 20) /* between two looks while cgroups come in crowds; */
#define SHARE     10               /* longer where a look takes long: at most a tenth of the time is spent looking */

static void watch_dir(const char *path, void *arg)
{
	struct follow *follow = arg;

	if (follow->fd >= 0 && inotify_add_watch(follow->fd, path, IN_CREATE | IN_ONLYDIR) < 0 && errno != ENOENT)
		follow->blind = true;
}

/* Each directory is watched before it is read, so nothing is made unseen. A watch goes with its directory. */
static void watch_all(struct follow *follow, const struct load *load)
{
	struct cgroup_mounts mounts;
	struct cgroup_tree tree;

	follow->blind = follow->fd < 0;
	find_mounts(load->features.cgroup2_mount, &mounts);
	if (cgroup_tree_read(&mounts, watch_dir, follow, &tree))
		follow->blind = true;
	else
		cgroup_tree_free(&tree);
}

void follow_open(struct follow *follow, const struct load *load)
{
	*follow = (struct follow){ .fd = -1, .needed = load->tables->follows };
	if (!follow->needed)
		return;
	follow->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	watch_all(follow, load);
	follow->came = true; /* what came between being looked up and being watched */
}

void follow_close(struct follow *follow)
{
	if (follow->fd >= 0)
		close(follow->fd);
	follow->fd = -1;
}

void follow_hint(struct follow *follow, uint64_t now_ns)
{
	follow->came = true;
	follow->until_ns = now_ns + SETTLE_NS;
}

void follow_hear(struct follow *follow, uint64_t now_ns)
{
	char buf[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t len;

	/* Files that come with a cgroup are not created one by one: each event is a directory, or an overflow. */
	while ((len = read(follow->fd, buf, sizeof(buf))) > 0) {
		for (char *at = buf; at < buf + len;
		     at += sizeof(struct inotify_event) + ((struct inotify_event *)at)->len) {
			if (((struct inotify_event *)at)->mask & (IN_ISDIR | IN_Q_OVERFLOW))
				follow_hint(follow, now_ns);
		}
	}
}

static void look(struct follow *follow, struct load *load)
{
	const struct target_options names = {
		.cgroup2_mount = load->features.cgroup2_mount,
		.root = "/",
		.wait = true,
		.before = load->targets,
	};
	struct process_list processes;
	struct target *targets;
	struct error ignored;
	bool changed;

	watch_all(follow, load);
	if (engine_follow(&load->engine, load->tables))
		return;
	if (process_list(load->features.cgroup2_mount, &processes, &ignored))
		return;
	/* A name that has become that of several is no reason to end what goes on: it is looked again. */
	if (targets_resolve(load->rules, &names, &processes, &targets, &ignored) == 0) {
		if (engine_update_cgroups(&load->engine, load->tables, targets, &changed, &ignored) == 0 && changed)
			load->appeared = true;
		targets_free(load->targets, load->rules->count);
		load->targets = targets;
	}
	process_list_free(&processes);
}

void follow_look(struct follow *follow, struct load *load, uint64_t now_ns)
{
	bool each_second = follow->blind || now_ns < follow->until_ns;

	if (!follow->needed || now_ns < follow->looked_ns + PAUSE_NS + follow->pause_ns)
		return;
	if (!follow->came && !(each_second && now_ns >= follow->looked_ns + SECOND_NS))
		return;
	follow->came = false;
	follow->looked_ns = now_ns;
	look(follow, load);
	follow->pause_ns = (boot_ns() - now_ns) * SHARE;
}
