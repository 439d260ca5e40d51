// SPDX-License-Identifier: GPL-2.0-only
#include "user/engine/tcprog.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/tc_act/tc_mirred.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "user/base/linux_compat.h"

#define NAME_PREFIX   "chaos_"
#define MAX_TCX_PROGS 64 /* BPF_MPROG_MAX of the kernel */

static const char *const place_name[] = {
	[TCPROG_EGRESS] = "egress",
	[TCPROG_INGRESS] = "ingress",
	[TCPROG_ANSWER] = "answer",
};
_Static_assert(sizeof(place_name) / sizeof(*place_name) == TCPROG_PLACE_COUNT, "a name for each place");

/* Of a device. */
enum side {
	SIDE_EGRESS,
	SIDE_INGRESS,
	SIDE_COUNT,
};

static enum side side_of(enum tcprog_place place)
{
	return place == TCPROG_EGRESS ? SIDE_EGRESS : SIDE_INGRESS;
}

static uint32_t handle_of(enum tcprog_place place, uint32_t generation)
{
	return place == TCPROG_ANSWER ? TCPROG_ANSWER_HANDLE(generation) : TCPROG_HANDLE(generation);
}

bool tcprog_no_tcx;

static enum bpf_attach_type tcx_type(enum side side)
{
	return side == SIDE_EGRESS ? BPF_TCX_EGRESS : BPF_TCX_INGRESS;
}

static uint32_t clsact_parent(enum side side)
{
	return TC_H_MAKE(TC_H_CLSACT, side == SIDE_EGRESS ? TC_H_MIN_EGRESS : TC_H_MIN_INGRESS);
}

static bool is_our_name(const char *name)
{
	return !strncmp(name, NAME_PREFIX, strlen(NAME_PREFIX));
}

/* TCX */

static bool pin_path(char *path, size_t size, const struct netns *netns, unsigned int ifindex, enum tcprog_place place,
		     const char *dir)
{
	return (size_t)snprintf(path, size, "%s/tcx_%" PRIu64 "_%u_%s", dir, netns->inode, ifindex, place_name[place]) <
	       size;
}

struct link_request {
	unsigned int ifindex;
	enum side side;
	int prog_fd;
};

static int link_here(void *arg)
{
	const struct link_request *request = arg;
	LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = BPF_F_BEFORE);
	int fd;

	fd = bpf_link_create(request->prog_fd, request->ifindex, tcx_type(request->side), &opts);
	/* Before 6.6: EINVAL, as the attach type is unknown. E2BIG: the whole attribute is. */
	return fd == -EINVAL || fd == -E2BIG ? -EOPNOTSUPP : fd;
}

int tcprog_link(const struct netns *netns, unsigned int ifindex, enum tcprog_place place, int prog_fd,
		const char *pin_dir)
{
	struct link_request request = { ifindex, side_of(place), prog_fd };
	char path[PATH_MAX];
	int fd, ret;

	if (pin_dir && !pin_path(path, sizeof(path), netns, ifindex, place, pin_dir))
		return -ENAMETOOLONG;
	fd = tcprog_no_tcx ? -EOPNOTSUPP : netns_run(netns, link_here, &request);
	if (fd == -EEXIST && pin_dir) /* this very program is there: the same load has been here before */
		return bpf_obj_get(path);
	if (fd < 0 || !pin_dir)
		return fd;
	ret = bpf_obj_pin(fd, path);
	if (ret == -EEXIST) {
		unlink(path);
		ret = bpf_obj_pin(fd, path);
	}
	if (ret) {
		close(fd);
		return ret;
	}
	return fd;
}

void tcprog_unlink(const struct netns *netns, unsigned int ifindex, enum tcprog_place place, int link_fd,
		   const char *pin_dir)
{
	char path[PATH_MAX];

	if (link_fd < 0)
		return;
	if (pin_dir && pin_path(path, sizeof(path), netns, ifindex, place, pin_dir))
		unlink(path);
	close(link_fd);
}

/* The name of a loaded program. */
static int prog_name(int fd, char *name, size_t size)
{
	struct bpf_prog_info info = { 0 };
	__u32 len = sizeof(info);
	int ret;

	ret = bpf_prog_get_info_by_fd(fd, &info, &len);
	if (!ret)
		snprintf(name, size, "%s", info.name);
	return ret;
}

static bool is_our_prog(uint32_t id)
{
	char name[BPF_OBJ_NAME_LEN] = "";
	int fd;

	fd = bpf_prog_get_fd_by_id(id);
	if (fd < 0)
		return false;
	prog_name(fd, name, sizeof(name));
	close(fd);
	return is_our_name(name);
}

/*
 * A link without an owner is taken off by the kernel in its own time, one grace period for each, holding the lock that
 * all of networking needs. Such a link cannot be had by its number any more: it counts as gone.
 */
static int live_link(uint32_t id)
{
	return id ? bpf_link_get_fd_by_id(id) : -ENOENT;
}

struct search {
	const struct device *devices;
	size_t count;
	size_t *links;
};

/* A program without a link was attached by something else than us, whatever its name. */
static int count_side(unsigned int ifindex, enum side side, size_t *links)
{
	__u32 progs[MAX_TCX_PROGS], ids[MAX_TCX_PROGS] = { 0 };
	LIBBPF_OPTS(bpf_prog_query_opts, opts, .prog_ids = progs, .link_ids = ids, .count = MAX_TCX_PROGS);
	int fd, ret;
	__u32 i;

	ret = bpf_prog_query_opts(ifindex, tcx_type(side), &opts);
	for (i = 0; !ret && i < opts.count; i++) {
		fd = is_our_prog(progs[i]) ? live_link(ids[i]) : -ENOENT;
		if (fd < 0)
			continue;
		close(fd);
		++*links;
	}
	return ret;
}

static int count_here(void *arg)
{
	const struct search *search = arg;
	size_t i, side;
	int ret;

	for (i = 0; i < search->count; i++) {
		for (side = 0; side < SIDE_COUNT; side++) {
			ret = count_side(search->devices[i].ifindex, side, search->links);
			if (ret == -EINVAL)
				return 0; /* before 6.6: no TCX, so none of ours */
			if (ret && ret != -ENODEV && ret != -ENOENT)
				return ret;
		}
	}
	return 0;
}

int tcprog_links_count(const struct netns *netns, const struct device *devices, size_t count, size_t *links)
{
	struct search search = { devices, count, links };

	return netns_run(netns, count_here, &search);
}

/* clsact */

/* One filter, or (handle 0) the head of a priority. */
struct filter {
	uint32_t handle, info;
	char kind[16], name[64];
};

static void read_bpf_options(const struct nlattr *options, struct filter *filter)
{
	const struct nlattr *attr;

	mnl_attr_for_each_nested(attr, options) if (mnl_attr_get_type(attr) == TCA_BPF_NAME)
		snprintf(filter->name, sizeof(filter->name), "%.*s", (int)mnl_attr_get_payload_len(attr),
			 mnl_attr_get_str(attr));
}

static struct filter read_filter(const struct nlmsghdr *message)
{
	const struct tcmsg *tc = mnl_nlmsg_get_payload(message);
	struct filter filter = { .handle = tc->tcm_handle, .info = tc->tcm_info };
	const struct nlattr *attr, *options = NULL;

	mnl_attr_for_each(attr, message, sizeof(*tc))
	{
		if (mnl_attr_get_type(attr) == TCA_KIND)
			snprintf(filter.kind, sizeof(filter.kind), "%.*s", (int)mnl_attr_get_payload_len(attr),
				 mnl_attr_get_str(attr));
		if (mnl_attr_get_type(attr) == TCA_OPTIONS)
			options = attr;
	}
	if (options && !strcmp(filter.kind, "bpf"))
		read_bpf_options(options, &filter);
	return filter;
}

static bool is_of_generation(const struct filter *filter, uint32_t generation)
{
	return filter->handle == TCPROG_HANDLE(generation) || filter->handle == TCPROG_PICK_HANDLE(generation) ||
	       filter->handle == TCPROG_ANSWER_HANDLE(generation);
}

static bool is_our_filter(const struct filter *filter)
{
	return is_of_generation(filter, filter->handle) && is_our_name(filter->name);
}

static uint32_t filter_prio(const struct filter *filter)
{
	return TC_H_MAJ(filter->info) >> 16;
}

/* Filters of one side; free the array with free(). */
static int list_filters(struct netlink *nl, unsigned int ifindex, enum side side, struct filter **filters,
			size_t *count)
{
	const struct nlmsghdr *message = NULL;
	struct tcmsg *tc;
	size_t size = 1;
	int ret;

	*filters = NULL;
	*count = 0;
	netlink_begin(nl, RTM_GETTFILTER, NLM_F_DUMP, sizeof(*tc), (void **)&tc);
	tc->tcm_ifindex = ifindex;
	tc->tcm_parent = clsact_parent(side);
	ret = netlink_talk(nl);
	if (ret)
		return ret;
	while ((message = netlink_next(nl, message)))
		size++;
	*filters = calloc(size, sizeof(**filters));
	if (!*filters)
		return -ENOMEM;
	while ((message = netlink_next(nl, message)))
		if (message->nlmsg_type == RTM_NEWTFILTER)
			(*filters)[(*count)++] = read_filter(message);
	return 0;
}

/* clsact and ingress share the handle ffff:, so a device has one of them at most. */
static int clsact_kind(struct netlink *nl, unsigned int ifindex, char *kind, size_t size)
{
	const struct nlmsghdr *message = NULL;
	const struct nlattr *attr;
	const struct tcmsg *tc;
	void *header;
	int ret;

	kind[0] = '\0';
	netlink_begin(nl, RTM_GETQDISC, NLM_F_DUMP, sizeof(*tc), &header);
	ret = netlink_talk(nl);
	while (!ret && (message = netlink_next(nl, message))) {
		tc = mnl_nlmsg_get_payload(message);
		if ((unsigned int)tc->tcm_ifindex != ifindex || tc->tcm_parent != TC_H_INGRESS)
			continue;
		mnl_attr_for_each(attr, message, sizeof(*tc)) if (mnl_attr_get_type(attr) == TCA_KIND)
			snprintf(kind, size, "%.*s", (int)mnl_attr_get_payload_len(attr), mnl_attr_get_str(attr));
	}
	return ret;
}

int tcprog_clsact_get(struct netlink *nl, unsigned int ifindex, struct tcprog_clsact *clsact)
{
	struct filter *filters;
	size_t i, count;
	int side, ret;

	memset(clsact, 0, sizeof(*clsact));
	ret = clsact_kind(nl, ifindex, clsact->kind, sizeof(clsact->kind));
	if (ret || !clsact->kind[0])
		return ret;
	for (side = 0; !ret && side < SIDE_COUNT; side++) {
		/* An ingress queue takes any parent for its one side. */
		if (side == SIDE_EGRESS && strcmp(clsact->kind, "clsact"))
			continue;
		ret = list_filters(nl, ifindex, side, &filters, &count);
		for (i = 0; !ret && i < count; i++) {
			if (is_our_filter(&filters[i]))
				clsact->ours++;
			else if (filters[i].handle || strcmp(filters[i].kind, "bpf")) /* 0: head of a priority */
				clsact->others++;
		}
		free(filters);
	}
	return ret;
}

static struct nlmsghdr *begin_clsact(struct netlink *nl, uint16_t type, uint16_t flags, unsigned int ifindex)
{
	struct nlmsghdr *request;
	struct tcmsg *tc;

	request = netlink_begin(nl, type, flags, sizeof(*tc), (void **)&tc);
	tc->tcm_ifindex = ifindex;
	tc->tcm_parent = TC_H_CLSACT;
	tc->tcm_handle = TC_H_MAKE(TC_H_CLSACT, 0);
	mnl_attr_put_strz(request, TCA_KIND, "clsact");
	return request;
}

int tcprog_clsact_make(struct netlink *nl, unsigned int ifindex)
{
	begin_clsact(nl, RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, ifindex);
	return netlink_talk(nl);
}

int tcprog_clsact_delete(struct netlink *nl, unsigned int ifindex)
{
	begin_clsact(nl, RTM_DELQDISC, 0, ifindex);
	return netlink_talk(nl);
}

static struct nlmsghdr *begin_filter(struct netlink *nl, uint16_t type, uint16_t flags, unsigned int ifindex,
				     enum side side, uint32_t prio, uint32_t handle)
{
	struct nlmsghdr *request;
	struct tcmsg *tc;

	request = netlink_begin(nl, type, flags, sizeof(*tc), (void **)&tc);
	tc->tcm_ifindex = ifindex;
	tc->tcm_parent = clsact_parent(side);
	tc->tcm_handle = handle;
	tc->tcm_info = TC_H_MAKE(prio << 16, htons(ETH_P_ALL));
	mnl_attr_put_strz(request, TCA_KIND, "bpf");
	return request;
}

/*
 * The lowest priority that we can have. All filters of one priority are of one kind and one protocol; among bpf filters
 * the newest runs first, so sharing the priority of another's bpf filter puts ours in front.
 */
static int choose_prio(struct netlink *nl, unsigned int ifindex, enum side side, uint32_t handle, uint32_t *prio)
{
	struct filter *filters;
	size_t i, count;
	int ret;

	ret = list_filters(nl, ifindex, side, &filters, &count);
	if (ret)
		return ret;
	*prio = 1;
	for (i = 0; i < count; i++) {
		if (is_our_filter(&filters[i]) && filters[i].handle == handle) {
			*prio = filter_prio(&filters[i]); /* to be replaced where it is */
			break;
		}
		if (filter_prio(&filters[i]) != *prio ||
		    (!strcmp(filters[i].kind, "bpf") && TC_H_MIN(filters[i].info) == htons(ETH_P_ALL)))
			continue;
		(*prio)++;
		i = -1; /* from the beginning: the list is not promised to be in order */
	}
	free(filters);
	return 0;
}

/* Begins a filter that runs the program; its options are left open. */
static int begin_program(struct netlink *nl, unsigned int ifindex, enum side side, int prog_fd, uint32_t handle,
			 struct nlmsghdr **request, struct nlattr **options)
{
	char own[BPF_OBJ_NAME_LEN] = "", name[sizeof(NAME_PREFIX) + BPF_OBJ_NAME_LEN];
	uint32_t prio;
	int ret;

	ret = choose_prio(nl, ifindex, side, handle, &prio);
	if (ret)
		return ret;
	prog_name(prog_fd, own, sizeof(own));
	snprintf(name, sizeof(name), "%s%s", is_our_name(own) ? "" : NAME_PREFIX, own);
	/* Without NLM_F_EXCL: the same load once more on this device replaces its own filter. */
	*request = begin_filter(nl, RTM_NEWTFILTER, NLM_F_CREATE, ifindex, side, prio, handle);
	*options = mnl_attr_nest_start(*request, TCA_OPTIONS);
	mnl_attr_put_u32(*request, TCA_BPF_FD, prog_fd);
	mnl_attr_put_strz(*request, TCA_BPF_NAME, name);
	return 0;
}

int tcprog_filter(struct netlink *nl, unsigned int ifindex, enum tcprog_place place, int prog_fd, uint32_t generation)
{
	struct nlmsghdr *request;
	struct nlattr *options;
	int ret;

	ret = begin_program(nl, ifindex, side_of(place), prog_fd, handle_of(place, generation), &request, &options);
	if (ret)
		return ret;
	mnl_attr_put_u32(request, TCA_BPF_FLAGS, TCA_BPF_FLAG_ACT_DIRECT);
	mnl_attr_nest_end(request, options);
	return netlink_talk(nl);
}

int tcprog_filter_there(struct netlink *nl, unsigned int ifindex, enum tcprog_place place, uint32_t generation,
			bool *there)
{
	struct filter *filters;
	size_t count;
	int ret = list_filters(nl, ifindex, side_of(place), &filters, &count);

	*there = false;
	for (size_t i = 0; i < count; i++)
		*there = *there || (is_our_filter(&filters[i]) && filters[i].handle == handle_of(place, generation));
	free(filters);
	return ret;
}

static void put_redirect(struct nlmsghdr *request, unsigned int to)
{
	const struct tc_mirred mirred = { .action = TC_ACT_STOLEN, .eaction = TCA_EGRESS_REDIR, .ifindex = to };
	struct nlattr *actions, *action, *options;

	actions = mnl_attr_nest_start(request, TCA_BPF_ACT);
	action = mnl_attr_nest_start(request, 1); /* the first, and only one */
	mnl_attr_put_strz(request, TCA_ACT_KIND, "mirred");
	options = mnl_attr_nest_start(request, TCA_ACT_OPTIONS);
	mnl_attr_put(request, TCA_MIRRED_PARMS, sizeof(mirred), &mirred);
	mnl_attr_nest_end(request, options);
	mnl_attr_nest_end(request, action);
	mnl_attr_nest_end(request, actions);
}

int tcprog_pick(struct netlink *nl, unsigned int ifindex, int prog_fd, uint32_t generation, unsigned int to)
{
	struct nlmsghdr *request;
	struct nlattr *options;
	int ret;

	ret = begin_program(nl, ifindex, SIDE_INGRESS, prog_fd, TCPROG_PICK_HANDLE(generation), &request, &options);
	if (ret)
		return ret;
	put_redirect(request, to);
	mnl_attr_nest_end(request, options);
	return netlink_talk(nl);
}

/* Programs of TCX that are not ours, whoever attached them. */
static int count_others_here(void *arg)
{
	__u32 progs[MAX_TCX_PROGS];
	LIBBPF_OPTS(bpf_prog_query_opts, opts, .prog_ids = progs, .count = MAX_TCX_PROGS);
	const struct search *search = arg;
	int ret = bpf_prog_query_opts(search->devices->ifindex, tcx_type(SIDE_INGRESS), &opts);

	for (__u32 i = 0; !ret && i < opts.count; i++)
		*search->links += !is_our_prog(progs[i]);
	return ret == -EINVAL || ret == -ENOENT ? 0 : ret; /* before 6.6 there is no TCX */
}

int tcprog_others_arriving(struct netlink *nl, const struct netns *netns, unsigned int ifindex, size_t *others)
{
	const struct device device = { .ifindex = ifindex };
	struct search search = { &device, 1, others };
	struct filter *filters;
	size_t i, count;
	char kind[16];
	int ret;

	*others = 0;
	ret = netns_run(netns, count_others_here, &search);
	ret = ret ?: clsact_kind(nl, ifindex, kind, sizeof(kind));
	if (ret || !kind[0])
		return ret;
	ret = list_filters(nl, ifindex, SIDE_INGRESS, &filters, &count);
	for (i = 0; !ret && i < count; i++) /* handle 0: the head of a priority */
		*others += !is_our_filter(&filters[i]) && (filters[i].handle || strcmp(filters[i].kind, "bpf"));
	free(filters);
	return ret;
}

static int delete_filters(struct netlink *nl, unsigned int ifindex, enum side side, uint32_t generation, uint32_t keep)
{
	struct filter *filters;
	size_t i, count;
	int ret, deleted = 0, first = 0;

	ret = list_filters(nl, ifindex, side, &filters, &count);
	for (i = 0; !ret && i < count; i++) {
		if (!is_our_filter(&filters[i]) || (generation && !is_of_generation(&filters[i], generation)) ||
		    (keep && is_of_generation(&filters[i], keep)))
			continue;
		begin_filter(nl, RTM_DELTFILTER, 0, ifindex, side, filter_prio(&filters[i]), filters[i].handle);
		first = first ?: netlink_talk(nl);
		deleted++;
	}
	free(filters);
	return ret ?: first ?: deleted;
}

int tcprog_filters_delete(struct netlink *nl, unsigned int ifindex, uint32_t generation, uint32_t keep)
{
	int egress, ingress;

	egress = delete_filters(nl, ifindex, SIDE_EGRESS, generation, keep);
	ingress = delete_filters(nl, ifindex, SIDE_INGRESS, generation, keep);
	if (egress < 0 || ingress < 0)
		return egress < 0 ? egress : ingress;
	return egress + ingress;
}
