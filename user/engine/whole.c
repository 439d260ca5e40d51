// SPDX-License-Identifier: GPL-2.0-only
#include "user/engine/whole.h"

#include <errno.h>
#include <stdlib.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "user/base/vector.h"
#include "user/engine/ifb.h"
#include "user/engine/qdisc.h"
#include "user/engine/tcprog.h"

/* ---- programs ---- */

/* Links of other kinds cannot be detached: they live as long as somebody holds them. */
static bool is_detached(int link_fd)
{
	struct bpf_link_info info = { 0 };
	__u32 len = sizeof(info);

	return bpf_obj_get_info_by_fd(link_fd, &info, &len) == 0 && info.type == BPF_LINK_TYPE_CGROUP &&
	       !info.cgroup.cgroup_id;
}

int programs_whole(const struct engine *engine, struct error *err)
{
	for (int i = 0; i < engine->links_count; i++) {
		if (is_detached(bpf_link__fd(engine->links[i])))
			return error_set(err, -ENOLINK, EXIT_FAILED,
					 "somebody has detached program %s from the cgroups",
					 bpf_program__name(engine->programs[i]));
	}
	return 0;
}

/* ---- devices ---- */

/* The headers of Debian 12 have no name for the member, which lies where that of XDP does. */
static bool is_off_device(int link_fd)
{
	struct bpf_link_info info = { 0 };
	__u32 len = sizeof(info);

	return bpf_obj_get_info_by_fd(link_fd, &info, &len) == 0 && !info.xdp.ifindex;
}

static bool has_program(struct netlink *nl, const struct prepared_device *prepared, enum tcprog_place place,
			uint32_t generation)
{
	bool there;

	if (prepared->links[place] >= 0)
		return !is_off_device(prepared->links[place]);
	return tcprog_filter_there(nl, prepared->ifindex, place, generation, &there) || there;
}

static bool has_queue(const struct qdisc_list *queues, unsigned int ifindex)
{
	const struct qdisc *root = qdisc_root(queues, ifindex);

	return root && qdisc_is_ours(root);
}

/* What a device lacks, in words; NULL: nothing. */
static const char *missing(struct netlink *nl, const struct qdisc_list *queues, const struct prepared_device *prepared,
			   uint32_t generation)
{
	if (prepared->flags & CHAOS_DEVICE_EGRESS && !has_program(nl, prepared, TCPROG_EGRESS, generation))
		return "detached the program at what leaves by";
	if (prepared->flags & CHAOS_DEVICE_INGRESS && !has_program(nl, prepared, TCPROG_INGRESS, generation))
		return "detached the program at what arrives at";
	if (prepared->flags & CHAOS_DEVICE_ANSWER && !has_program(nl, prepared, TCPROG_ANSWER, generation))
		return "detached the program at the answers that arrive at";
	if (prepared->flags & CHAOS_DEVICE_FQ && !has_queue(queues, prepared->ifindex))
		return "replaced the queue of";
	return NULL;
}

static const struct prepared_device *prepared_of(const struct prepared_netns *space, unsigned int ifindex)
{
	for (size_t i = 0; i < space->count; i++) {
		if (space->devices[i].ifindex == ifindex)
			return &space->devices[i];
	}
	return NULL;
}

static int look_at_devices(struct netlink *nl, const struct prepared_netns *space, const struct device *devices,
			   size_t count, uint32_t generation, struct error *err)
{
	struct qdisc_list queues;
	const char *what = NULL;
	size_t i;
	bool ifb = !space->ifb;

	if (qdisc_list_get(nl, &queues))
		return 0;
	for (i = 0; i < count && !what; i++) {
		const struct prepared_device *prepared = prepared_of(space, devices[i].ifindex);

		ifb = ifb || devices[i].ifindex == space->ifb;
		if (prepared)
			what = missing(nl, &queues, prepared, generation);
		else if (devices[i].ifindex == space->ifb && !has_queue(&queues, space->ifb))
			what = "replaced the queue of";
	}
	qdisc_list_free(&queues);
	if (what)
		return error_set(err, -ENOLINK, EXIT_FAILED, "somebody has %s device %s in namespace %s", what,
				 devices[i - 1].name, space->netns.name);
	if (!ifb)
		return error_set(err, -ENOLINK, EXIT_FAILED, "somebody has deleted device " IFB_NAME " in namespace %s",
				 space->netns.name);
	return 0;
}

static int space_whole(const struct prepared_netns *space, uint32_t generation, struct error *err)
{
	struct device *devices = NULL;
	struct error ignored;
	struct netlink nl;
	size_t count = 0;
	int ret = 0;

	if (netlink_open(&nl, &space->netns, &ignored) == 0 &&
	    device_list(&space->netns, &devices, &count, &ignored) == 0)
		ret = look_at_devices(&nl, space, devices, count, generation, err);
	netlink_close(&nl);
	free(devices);
	return ret;
}

int devices_whole(const struct prepare *prepare, struct error *err)
{
	int ret = 0;

	for (size_t i = 0; i < prepare->count && !ret; i++)
		ret = space_whole(&prepare->spaces[i], prepare->engine->generation, err);
	return ret;
}

/* ---- rules ---- */

int rules_whole(const struct engine *engine, const struct rules *rules, struct error *err)
{
	struct chaos_vector unloaded;
	size_t first = rules->count, count = 0;

	if (engine_unloaded(engine, &unloaded))
		return 0;
	for (size_t i = 0; i < rules->count; i++) {
		if (!has_rule(&unloaded, i))
			continue;
		first = count++ ? first : i;
	}
	if (!count)
		return 0;
	return error_set(err, count == rules->count ? -ECANCELED : -ENOLINK, EXIT_FAILED,
			 "somebody has unloaded rule '%s'", rules->rules[first].name);
}
