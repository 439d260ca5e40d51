// SPDX-License-Identifier: GPL-2.0-only
#include "user/engine/device.h"

#include <errno.h>
#include <linux/if_arp.h>
#include <linux/if_link.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bpf/chaos.h"
#include "user/engine/ifb.h"
#include "user/engine/netlink.h"
#include "user/engine/qdisc.h"
#include "user/engine/tcprog.h"
#include "user/state/journal.h"

/* Devices and routes */

static bool is_ifb(const struct nlattr *info)
{
	const struct nlattr *attr;
	bool ifb = false;

	mnl_attr_for_each_nested(attr, info) if (mnl_attr_get_type(attr) == IFLA_INFO_KIND) ifb =
		!strcmp(mnl_attr_get_str(attr), "ifb");
	return ifb;
}

static void read_link(const struct nlmsghdr *message, struct device *device, unsigned int *tx_queue_len)
{
	const struct ifinfomsg *link = mnl_nlmsg_get_payload(message);
	const struct nlattr *attr;
	uint32_t group = 0;
	bool ifb = false;

	memset(device, 0, sizeof(*device));
	device->ifindex = link->ifi_index;
	device->flags = link->ifi_flags;
	device->type = link->ifi_type;
	mnl_attr_for_each(attr, message, sizeof(*link))
	{
		switch (mnl_attr_get_type(attr)) {
		case IFLA_IFNAME:
			snprintf(device->name, sizeof(device->name), "%s", mnl_attr_get_str(attr));
			break;
		case IFLA_NUM_TX_QUEUES:
			device->tx_queues = mnl_attr_get_u32(attr);
			break;
		case IFLA_TXQLEN:
			*tx_queue_len = mnl_attr_get_u32(attr);
			break;
		case IFLA_GROUP:
			group = mnl_attr_get_u32(attr);
			break;
		case IFLA_LINKINFO:
			ifb = is_ifb(attr);
			break;
		}
	}
	device->is_our_ifb = ifb && group == IFB_GROUP && !strcmp(device->name, IFB_NAME);
}

/* One device. -ENODEV when it is not there. */
static int get_link(struct netlink *nl, unsigned int ifindex, struct device *device, unsigned int *tx_queue_len)
{
	const struct nlmsghdr *message;
	struct ifinfomsg *link;
	int ret;

	netlink_begin(nl, RTM_GETLINK, 0, sizeof(*link), (void **)&link);
	link->ifi_index = ifindex;
	ret = netlink_talk(nl);
	message = netlink_next(nl, NULL);
	if (!ret && message)
		read_link(message, device, tx_queue_len);
	return ret ?: message ? 0 : -ENODEV;
}

static int list_links(struct netlink *nl, struct device **devices, size_t *count)
{
	const struct nlmsghdr *message = NULL;
	struct nlmsghdr *request;
	unsigned int ignored;
	size_t size = 1;
	void *link;
	int ret;

	*devices = NULL;
	*count = 0;
	request = netlink_begin(nl, RTM_GETLINK, NLM_F_DUMP, sizeof(struct ifinfomsg), &link);
	mnl_attr_put_u32(request, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
	ret = netlink_talk(nl);
	if (ret)
		return ret;
	while ((message = netlink_next(nl, message)))
		size++;
	*devices = calloc(size, sizeof(**devices));
	if (!*devices)
		return -ENOMEM;
	while ((message = netlink_next(nl, message)))
		if (message->nlmsg_type == RTM_NEWLINK)
			read_link(message, &(*devices)[(*count)++], &ignored);
	return 0;
}

static int mark_addresses(struct netlink *nl, struct device *devices, size_t count)
{
	const struct nlmsghdr *message = NULL;
	const struct ifaddrmsg *address;
	void *header;
	size_t i;
	int ret;

	netlink_begin(nl, RTM_GETADDR, NLM_F_DUMP, sizeof(*address), &header);
	ret = netlink_talk(nl);
	while (!ret && (message = netlink_next(nl, message))) {
		address = mnl_nlmsg_get_payload(message);
		for (i = 0; i < count; i++)
			if (devices[i].ifindex == address->ifa_index)
				devices[i].has_address = true;
	}
	return ret;
}

int device_list(const struct netns *netns, struct device **devices, size_t *count, struct error *err)
{
	struct netlink nl;
	int ret;

	*devices = NULL;
	*count = 0;
	ret = netlink_open(&nl, netns, err);
	if (ret)
		goto out;
	ret = list_links(&nl, devices, count);
	if (!ret)
		ret = mark_addresses(&nl, *devices, *count);
	if (ret) {
		free(*devices);
		*devices = NULL;
		*count = 0;
		error_set(err, ret, EXIT_FAILED, "cannot list the devices of namespace %s: %s", netns->name,
			  netlink_reason(&nl, ret));
	}
out:
	netlink_close(&nl);
	return ret;
}

static bool is_unspecified(const struct in6_addr *address)
{
	static const struct in6_addr mapped_any = { .s6_addr = { [10] = 0xff, [11] = 0xff } };

	return IN6_IS_ADDR_UNSPECIFIED(address) || !memcmp(address, &mapped_any, sizeof(mapped_any));
}

static void begin_route(struct netlink *nl, const struct in6_addr *address)
{
	bool v4 = IN6_IS_ADDR_V4MAPPED(address);
	struct nlmsghdr *request;
	struct rtmsg *route;

	request = netlink_begin(nl, RTM_GETROUTE, 0, sizeof(*route), (void **)&route);
	route->rtm_family = v4 ? AF_INET : AF_INET6;
	route->rtm_dst_len = v4 ? 32 : 128;
	mnl_attr_put(request, RTA_DST, v4 ? 4 : 16, address->s6_addr + (v4 ? 12 : 0));
}

static unsigned int route_device(const struct nlmsghdr *message)
{
	const struct rtmsg *route = mnl_nlmsg_get_payload(message);
	const struct nlattr *attr;

	if (route->rtm_type == RTN_UNREACHABLE || route->rtm_type == RTN_BLACKHOLE || route->rtm_type == RTN_PROHIBIT)
		return 0;
	mnl_attr_for_each(attr, message,
			  sizeof(*route)) if (mnl_attr_get_type(attr) == RTA_OIF) return mnl_attr_get_u32(attr);
	return 0;
}

int device_for_address(const struct netns *netns, const struct in6_addr *address, unsigned int *ifindex,
		       struct error *err)
{
	const struct in6_addr *wanted = is_unspecified(address) ? &in6addr_loopback : address;
	const struct nlmsghdr *message = NULL;
	struct netlink nl;
	int ret;

	*ifindex = 0;
	ret = netlink_open(&nl, netns, err);
	if (ret)
		goto out;
	begin_route(&nl, wanted);
	ret = netlink_talk(&nl);
	while (!ret && (message = netlink_next(&nl, message)))
		if (message->nlmsg_type == RTM_NEWROUTE)
			*ifindex = route_device(message);
	switch (ret) {
	case -ENETUNREACH: /* no route; the others are what routes of type unreachable, prohibit, blackhole answer */
	case -EHOSTUNREACH:
	case -EACCES:
	case -EINVAL:
	case -ENODEV:
	case -EAFNOSUPPORT: /* no IPv6 here */
	case -EOPNOTSUPP:
		ret = 0;
	}
	if (ret)
		error_set(err, ret, EXIT_FAILED, "cannot look up a route in namespace %s: %s", netns->name,
			  netlink_reason(&nl, ret));
out:
	netlink_close(&nl);
	return ret;
}

/* Preparing */

struct preparation {
	struct netlink nl;
	const struct netns *netns;
	const struct device *device;
	const struct device_wish *wish;
	struct device_result *result;
	struct error *err;
	struct qdisc_tree before; /* without fq only the length of the queue */
	bool replaced;            /* the root queue: `before` is to come back if something else fails */
	bool clsact_made;
	bool filtered;
};

static int cannot_fq(const struct netns *netns, const struct device *device, int code, const char *reason,
		     struct error *err)
{
	if (code == -ENOENT) {
		error_set(err, code, EXIT_CANNOT, "this kernel has no fq queue, which delays need");
		error_hint(err, "install the package with the kernel's network modules (sch_fq), or a kernel built "
				"with CONFIG_NET_SCH_FQ");
		return code;
	}
	return error_set(err, code, EXIT_FAILED, "cannot put an fq queue on device %s in namespace %s: %s",
			 device->name, netns->name, reason);
}

static int cannot_replace(const struct netns *netns, const struct device *device, int code, const char *why,
			  struct error *err)
{
	error_set(err, code, code == -EOPNOTSUPP ? EXIT_CANNOT : EXIT_FAILED,
		  "device %s in namespace %s has %s; chaosbpf would not be able to bring it back exactly", device->name,
		  netns->name, why);
	error_hint(err,
		   "take it away yourself (tc qdisc del dev %s root) and configure it again afterwards, or leave "
		   "out delays on this device",
		   device->name);
	return code;
}

/* `made` is for JOURNAL_CLSACT. */
static int append(const struct netlink *nl, const struct device *device, enum journal_kind kind, bool made,
		  const struct qdisc_tree *tree, struct error *err)
{
	struct journal_record record = {
		.kind = kind,
		.netns = nl->inode,
		.cookie = nl->cookie,
		.ifindex = device->ifindex,
		.made = made,
		.tree = *tree,
	};
	int ret;

	memcpy(record.name, device->name, sizeof(record.name));
	ret = journal_append(&record);
	if (ret)
		error_set(err, ret, EXIT_FAILED, "cannot write the journal: %s", strerror(-ret));
	return ret;
}

/* Never below the kernel's own 10 s: others may stamp packets, too. */
static uint32_t horizon_us(const struct device_wish *wish)
{
	uint64_t us = (wish->fq_horizon_ns + 999) / 1000;

	if (us < 10000000)
		us = 10000000;
	return us > UINT32_MAX ? UINT32_MAX : us;
}

static int replace_root(struct preparation *prep, const struct qdisc_list *list)
{
	char why[256];
	int ret;

	ret = qdisc_can_replace(&prep->nl, list, &prep->before, why, sizeof(why));
	if (ret)
		return cannot_replace(prep->netns, prep->device, ret, why, prep->err);
	ret = append(&prep->nl, prep->device, JOURNAL_QDISC, false, &prep->before, prep->err);
	if (ret)
		return ret;
	prep->replaced = true;
	ret = qdisc_replace(&prep->nl, prep->device->ifindex, &prep->before, horizon_us(prep->wish));
	if (ret)
		return cannot_fq(prep->netns, prep->device, ret, netlink_reason(&prep->nl, ret), prep->err);
	return 0;
}

static int prepare_fq(struct preparation *prep, unsigned int tx_queue_len)
{
	unsigned int ifindex = prep->device->ifindex;
	struct qdisc_list list;
	int ret;

	ret = qdisc_list_get(&prep->nl, &list);
	if (!ret)
		ret = qdisc_tree_get(&list, ifindex, tx_queue_len, &prep->before);
	if (ret) {
		error_set(prep->err, ret, EXIT_FAILED, "cannot list the queues of namespace %s: %s", prep->netns->name,
			  netlink_reason(&prep->nl, ret));
	} else if (qdisc_is_ours(&prep->before.root)) {
		ret = qdisc_renew(&prep->nl, &list, ifindex, horizon_us(prep->wish));
		if (ret)
			cannot_fq(prep->netns, prep->device, ret, netlink_reason(&prep->nl, ret), prep->err);
	} else {
		ret = replace_root(prep, &list);
	}
	qdisc_list_free(&list);
	if (!ret)
		prep->result->flags |= CHAOS_DEVICE_FQ;
	return ret;
}

static int cannot_attach(struct preparation *prep, int code, const char *reason)
{
	error_set(prep->err, code, code == -ENOENT ? EXIT_CANNOT : EXIT_FAILED,
		  "cannot attach to device %s in namespace %s: %s", prep->device->name, prep->netns->name, reason);
	if (code == -ENOENT)
		error_hint(prep->err, "this kernel has neither TCX (Linux 6.6) nor clsact filters (sch_ingress, "
				      "cls_bpf): install the package with its network modules");
	return code;
}

static int need_clsact(struct preparation *prep, enum tcprog_place place)
{
	unsigned int ifindex = prep->device->ifindex;
	struct tcprog_clsact clsact;
	int ret;

	ret = tcprog_clsact_get(&prep->nl, ifindex, &clsact);
	if (ret)
		return cannot_attach(prep, ret, netlink_reason(&prep->nl, ret));
	if (!strcmp(clsact.kind, "clsact") || (clsact.kind[0] && place != TCPROG_EGRESS)) {
		/* A record says that it is somebody else's: a device of ours without one means that the journal was lost. */
		if (clsact.ours || prep->clsact_made)
			return 0;
		return append(&prep->nl, prep->device, JOURNAL_CLSACT, false, &prep->before, prep->err);
	}
	if (clsact.kind[0]) {
		error_set(
			prep->err, -EOPNOTSUPP, EXIT_CANNOT,
			"device %s in namespace %s has a queue of kind '%s', which leaves no way to see packets leave",
			prep->device->name, prep->netns->name, clsact.kind);
		error_hint(prep->err, "replace it by clsact, or use a kernel with TCX (Linux 6.6)");
		return -EOPNOTSUPP;
	}
	ret = append(&prep->nl, prep->device, JOURNAL_CLSACT, true, &prep->before, prep->err);
	if (ret)
		return ret;
	ret = tcprog_clsact_make(&prep->nl, ifindex);
	prep->clsact_made = !ret;
	if (!ret)
		return 0;
	append(&prep->nl, prep->device, JOURNAL_CLSACT, false, &prep->before, prep->err);
	return ret == -EEXIST ? 0 : cannot_attach(prep, ret, netlink_reason(&prep->nl, ret));
}

/* Filters of one priority: the one that is made later runs first, so our program has spoken when it is picked. */
static int attach_filter(struct preparation *prep, enum tcprog_place place, int prog_fd, bool pick)
{
	const struct device_wish *wish = prep->wish;
	unsigned int ifindex = prep->device->ifindex;
	int ret;

	ret = need_clsact(prep, place);
	if (ret)
		return ret;
	prep->filtered = true;
	if (pick)
		ret = tcprog_pick(&prep->nl, ifindex, wish->pick_prog_fd, wish->generation, wish->ifb);
	ret = ret ?: tcprog_filter(&prep->nl, ifindex, place, prog_fd, wish->generation);
	return ret ? cannot_attach(prep, ret, netlink_reason(&prep->nl, ret)) : 0;
}

static int attach(struct preparation *prep, enum tcprog_place place, int prog_fd, int *link_fd)
{
	static const unsigned int flags[] = {
		[TCPROG_EGRESS] = CHAOS_DEVICE_EGRESS,
		[TCPROG_INGRESS] = CHAOS_DEVICE_INGRESS,
		[TCPROG_ANSWER] = CHAOS_DEVICE_ANSWER,
	};
	const bool pick = place == TCPROG_INGRESS && prep->wish->ifb && prep->wish->pick_prog_fd >= 0;
	unsigned int ifindex = prep->device->ifindex;
	int ret;

	ret = pick ? -EOPNOTSUPP : tcprog_link(prep->netns, ifindex, place, prog_fd, prep->wish->pin_dir);
	if (ret >= 0)
		*link_fd = ret;
	else if (ret != -EOPNOTSUPP)
		return cannot_attach(prep, ret, strerror(-ret));
	if (ret < 0)
		ret = attach_filter(prep, place, prog_fd, pick);
	if (ret < 0)
		return ret;
	prep->result->flags |= flags[place];
	return 0;
}

/* Packets that wait go on behind tc: whatever else looks at them there must have no reason to. */
static int can_ifb(struct netlink *nl, const struct netns *netns, const struct device *device, struct error *err)
{
	size_t others = 0;
	int ret;

	if (device->type != ARPHRD_ETHER && device->type != ARPHRD_LOOPBACK) {
		error_set(err, -EOPNOTSUPP, EXIT_CANNOT,
			  "device %s in namespace %s has no Ethernet header, and what arrives there cannot be held",
			  device->name, netns->name);
		error_hint(err, "name the hosts by address: then only devices that lead there are needed");
		return -EOPNOTSUPP;
	}
	ret = tcprog_others_arriving(nl, netns, device->ifindex, &others);
	if (ret)
		return error_set(err, ret, EXIT_FAILED, "cannot list the filters of device %s in namespace %s: %s",
				 device->name, netns->name, netlink_reason(nl, ret));
	if (!others)
		return 0;
	error_set(err, -EOPNOTSUPP, EXIT_CANNOT,
		  "device %s in namespace %s has %zu other tc program%s on the way in, which would not see what "
		  "is held",
		  device->name, netns->name, others, others == 1 ? "" : "s");
	error_hint(err, "slow them at the end that sends them, or in a namespace without such programs");
	return -EOPNOTSUPP;
}

/* Takes back what prepare() did; errors do not matter any more, the reason for the failure does. */
static void undo(struct preparation *prep)
{
	struct device_result *result = prep->result;
	const struct device_wish *wish = prep->wish;
	unsigned int ifindex = prep->device->ifindex;
	struct tcprog_clsact clsact;

	tcprog_unlink(prep->netns, ifindex, TCPROG_EGRESS, result->egress_link_fd, wish->pin_dir);
	tcprog_unlink(prep->netns, ifindex, TCPROG_INGRESS, result->ingress_link_fd, wish->pin_dir);
	tcprog_unlink(prep->netns, ifindex, TCPROG_ANSWER, result->answer_link_fd, wish->pin_dir);
	if (prep->filtered)
		tcprog_filters_delete(&prep->nl, ifindex, wish->generation, 0);
	if (prep->clsact_made && !tcprog_clsact_get(&prep->nl, ifindex, &clsact) && !clsact.ours && !clsact.others)
		tcprog_clsact_delete(&prep->nl, ifindex);
	if (prep->replaced)
		qdisc_restore(&prep->nl, ifindex, &prep->before);
	qdisc_restore_length(&prep->nl, ifindex, &prep->before);
	*result = (struct device_result){ .egress_link_fd = -1, .ingress_link_fd = -1, .answer_link_fd = -1 };
}

static int prepare(struct preparation *prep)
{
	const struct device_wish *wish = prep->wish;
	unsigned int tx_queue_len = 0;
	struct device now;
	int ret;

	ret = get_link(&prep->nl, prep->device->ifindex, &now, &tx_queue_len);
	prep->before.tx_queue_len = tx_queue_len;
	if (ret)
		return error_set(prep->err, ret, EXIT_FAILED, "device %s in namespace %s: %s", prep->device->name,
				 prep->netns->name, netlink_reason(&prep->nl, ret));
	if (wish->ifb)
		ret = can_ifb(&prep->nl, prep->netns, &now, prep->err);
	if (!ret && wish->fq)
		ret = prepare_fq(prep, tx_queue_len);
	if (!ret && wish->egress_prog_fd >= 0)
		ret = attach(prep, TCPROG_EGRESS, wish->egress_prog_fd, &prep->result->egress_link_fd);
	if (!ret && wish->ingress_prog_fd >= 0)
		ret = attach(prep, TCPROG_INGRESS, wish->ingress_prog_fd, &prep->result->ingress_link_fd);
	if (!ret && wish->answer_prog_fd >= 0)
		ret = attach(prep, TCPROG_ANSWER, wish->answer_prog_fd, &prep->result->answer_link_fd);
	if (!ret && wish->ifb)
		prep->result->flags |= CHAOS_DEVICE_IFB;
	if (!ret)
		return 0;
	undo(prep);
	/* The kernel has many words for a device that went away in the middle. */
	if (get_link(&prep->nl, prep->device->ifindex, &now, &tx_queue_len) == -ENODEV)
		ret = error_set(prep->err, -ENODEV, EXIT_FAILED, "device %s in namespace %s is gone",
				prep->device->name, prep->netns->name);
	return ret;
}

int device_prepare(const struct netns *netns, const struct device *device, const struct device_wish *wish,
		   struct device_result *result, struct error *err)
{
	struct preparation prep = {
		.netns = netns,
		.device = device,
		.wish = wish,
		.result = result,
		.err = err,
	};
	int ret;

	*result = (struct device_result){ .egress_link_fd = -1, .ingress_link_fd = -1, .answer_link_fd = -1 };
	ret = netlink_open(&prep.nl, netns, err);
	if (!ret)
		ret = prepare(&prep);
	qdisc_tree_free(&prep.before);
	netlink_close(&prep.nl);
	return ret;
}

static int cannot_ifb(const struct netns *netns, int code, const char *reason, struct error *err)
{
	if (code == -EEXIST) {
		error_set(err, code, EXIT_CANNOT, "namespace %s has a device " IFB_NAME " that is not chaosbpf's",
			  netns->name);
		error_hint(err, "give it another name: ip link set dev " IFB_NAME " name ...");
		return code;
	}
	return error_set(err, code, code == -ENOENT ? EXIT_CANNOT : EXIT_FAILED,
			 "cannot make an ifb in namespace %s: %s", netns->name,
			 code == -ENOENT ? "this kernel has none" : reason);
}

static int find_ifb(struct netlink *nl, struct device *ifb)
{
	struct device *devices;
	size_t count;
	int ret;

	ret = list_links(nl, &devices, &count);
	if (ret)
		return ret;
	ret = -ENODEV;
	for (size_t i = 0; i < count && ret; i++) {
		if (!devices[i].is_our_ifb)
			continue;
		*ifb = devices[i];
		ret = 0;
	}
	free(devices);
	return ret;
}

static int make_ifb(struct netlink *nl, struct device *ifb, bool *made)
{
	unsigned int ifindex;
	int ret;

	*made = false;
	ret = find_ifb(nl, ifb);
	if (ret != -ENODEV)
		return ret;
	ret = ifb_make(nl, &ifindex);
	*made = !ret;
	return ret ?: find_ifb(nl, ifb);
}

int device_prepare_ifb(const struct netns *netns, const struct device_wish *wish, unsigned int *ifindex, int *link_fd,
		       struct error *err)
{
	struct device_result result = { .egress_link_fd = -1 };
	struct device ifb = { 0 };
	struct netlink nl;
	bool made = false;
	int ret;

	ret = netlink_open(&nl, netns, err);
	if (ret)
		goto out;
	ret = make_ifb(&nl, &ifb, &made);
	if (ret) {
		cannot_ifb(netns, ret, netlink_reason(&nl, ret), err);
		goto out;
	}
	ret = device_prepare(netns, &ifb, wish, &result, err);
	if (ret)
		goto out;
	ret = ifb_up(&nl, ifb.ifindex);
	if (ret)
		cannot_ifb(netns, ret, netlink_reason(&nl, ret), err);
out:
	if (ret && made)
		ifb_delete(&nl, ifb.ifindex);
	if (ret && result.egress_link_fd >= 0)
		close(result.egress_link_fd);
	*ifindex = ifb.ifindex;
	*link_fd = ret ? -1 : result.egress_link_fd;
	netlink_close(&nl);
	return ret;
}

int device_can_ifb(const struct netns *netns, const struct device *device, struct error *err)
{
	struct netlink nl;
	int ret;

	ret = netlink_open(&nl, netns, err);
	ret = ret ?: can_ifb(&nl, netns, device, err);
	netlink_close(&nl);
	return ret;
}

int device_can_fq(const struct netns *netns, const struct device *device, struct error *err)
{
	struct qdisc_list list = { 0 };
	struct qdisc_tree tree = { 0 };
	unsigned int tx_queue_len = 0;
	struct device now;
	struct netlink nl;
	char why[256];
	int ret;

	ret = netlink_open(&nl, netns, err);
	if (ret)
		goto out;
	ret = qdisc_probe_fq();
	if (ret) {
		cannot_fq(netns, device, ret, strerror(-ret), err);
		goto out;
	}
	ret = get_link(&nl, device->ifindex, &now, &tx_queue_len);
	if (!ret)
		ret = qdisc_list_get(&nl, &list);
	if (!ret)
		ret = qdisc_tree_get(&list, device->ifindex, tx_queue_len, &tree);
	if (ret) {
		error_set(err, ret, EXIT_FAILED, "cannot list the queues of namespace %s: %s", netns->name,
			  netlink_reason(&nl, ret));
		goto out;
	}
	ret = qdisc_can_replace(&nl, &list, &tree, why, sizeof(why));
	if (ret)
		cannot_replace(netns, device, ret, why, err);
out:
	qdisc_tree_free(&tree);
	qdisc_list_free(&list);
	netlink_close(&nl);
	return ret;
}

int device_backlog(const struct netns *netns, unsigned int ifindex, uint32_t *packets, struct error *err)
{
	struct qdisc_list list = { 0 };
	struct netlink nl;
	size_t i;
	int ret;

	*packets = 0;
	ret = netlink_open(&nl, netns, err);
	if (ret)
		goto out;
	ret = qdisc_list_get(&nl, &list);
	if (ret)
		error_set(err, ret, EXIT_FAILED, "cannot list the queues of namespace %s: %s", netns->name,
			  netlink_reason(&nl, ret));
	for (i = 0; i < list.count; i++)
		if (list.entries[i].ifindex == ifindex && qdisc_is_ours(&list.entries[i]) &&
		    !strcmp(list.entries[i].kind, "fq"))
			*packets += list.entries[i].packets;
out:
	qdisc_list_free(&list);
	netlink_close(&nl);
	return ret;
}

/* The journal */

int device_journal_open(const char *path, struct error *err)
{
	return journal_open(path, err);
}

void device_journal_close(void)
{
	journal_close();
}

/* Restoring */

/* One sweep over namespaces. */
struct sweep {
	struct journal journal;
	uint32_t generation, keep; /* of filters: those to delete (0: any), those to spare (0: none) */
	bool queues;               /* bring the root queues back, too */
	bool append;               /* the journal is not written anew at the end: append what changed */
	struct error *err;         /* of the first failure */
	int first;
};

/* Keeps the first failure and goes on. A device or namespace that went away took everything along. */
static void failed(struct sweep *sweep, int code, const char *what, const char *device, const struct netns *netns,
		   const char *reason)
{
	if (code == -ENODEV || sweep->first)
		return;
	sweep->first = error_set(sweep->err, code, EXIT_FAILED, "cannot %s device %s in namespace %s: %s", what, device,
				 netns->name, reason);
}

static struct journal_record *find(struct sweep *sweep, enum journal_kind kind, const struct netlink *nl,
				   unsigned int ifindex)
{
	return journal_find(&sweep->journal, kind, nl->inode, nl->cookie, ifindex);
}

static void keep_record(struct journal_record *record)
{
	if (record)
		record->settled = false;
}

static bool has_clsact(const struct qdisc_list *list, unsigned int ifindex)
{
	size_t i;

	for (i = 0; i < list->count; i++)
		if (list->entries[i].ifindex == ifindex && list->entries[i].parent == TC_H_INGRESS)
			return true;
	return false;
}

/* Deletes the clsact that we made, if nothing is left on it. */
static int sweep_clsact(struct sweep *sweep, struct netlink *nl, const struct device *device,
			struct journal_record *record)
{
	unsigned int ifindex = device->ifindex;
	struct tcprog_clsact clsact;
	struct error ignored;
	int ret;

	ret = tcprog_clsact_get(nl, ifindex, &clsact);
	if (ret)
		return ret;
	if (clsact.ours) {
		keep_record(record);
		return 0;
	}
	if (!strcmp(clsact.kind, "clsact") && !clsact.others)
		ret = tcprog_clsact_delete(nl, ifindex);
	if (!ret)
		ret = qdisc_restore_length(nl, ifindex, &record->tree);
	if (!ret && sweep->append)
		ret = append(nl, device, JOURNAL_CLSACT, false, &record->tree, &ignored);
	return ret;
}

/* The journal is lost, but our filters were here: a clsact with nothing else on it was made for them. */
static int sweep_unknown_clsact(struct netlink *nl, unsigned int ifindex)
{
	struct tcprog_clsact clsact;
	int ret = tcprog_clsact_get(nl, ifindex, &clsact);

	if (ret || strcmp(clsact.kind, "clsact") || clsact.ours || clsact.others)
		return ret;
	return tcprog_clsact_delete(nl, ifindex);
}

static int sweep_filters(struct sweep *sweep, struct netlink *nl, const struct device *device, bool clsact)
{
	struct journal_record *record = find(sweep, JOURNAL_CLSACT, nl, device->ifindex);
	int ret = 0;

	if (clsact)
		ret = tcprog_filters_delete(nl, device->ifindex, sweep->generation, sweep->keep);
	if (ret >= 0 && record && record->made)
		ret = sweep_clsact(sweep, nl, device, record);
	else if (ret > 0 && !record && sweep->queues)
		ret = sweep_unknown_clsact(nl, device->ifindex);
	if (ret < 0)
		keep_record(record);
	return ret < 0 ? ret : 0;
}

static int sweep_queue(struct sweep *sweep, struct netlink *nl, const struct qdisc *root, unsigned int ifindex)
{
	struct journal_record *record = find(sweep, JOURNAL_QDISC, nl, ifindex);
	bool ours = root && qdisc_is_ours(root);
	int ret = 0;

	if (!sweep->queues) {
		if (ours)
			keep_record(record);
	} else if (ours) {
		ret = qdisc_restore(nl, ifindex, record ? &record->tree : NULL);
	} else if (record) {
		/* Not replaced yet, or brought back already, but perhaps not to its end. */
		ret = qdisc_restore_length(nl, ifindex, &record->tree);
	}
	if (ret && ret != -EILSEQ)
		keep_record(record);
	return ret;
}

static void sweep_device(struct sweep *sweep, struct netlink *nl, const struct netns *netns,
			 const struct device *device, const struct qdisc_list *list)
{
	unsigned int ifindex = device->ifindex;
	int ret;

	if (device->is_our_ifb && sweep->queues) {
		ret = ifb_delete(nl, ifindex);
		if (ret)
			failed(sweep, ret, "delete", device->name, netns, netlink_reason(nl, ret));
		return;
	}
	ret = sweep_queue(sweep, nl, qdisc_root(list, ifindex), ifindex);
	if (ret)
		failed(sweep, ret, "bring back the queue of", device->name, netns,
		       ret == -EILSEQ ? "some of its parameters are not what they were" : netlink_reason(nl, ret));
	ret = sweep_filters(sweep, nl, device, has_clsact(list, ifindex));
	if (ret)
		failed(sweep, ret, "take the filters off", device->name, netns, netlink_reason(nl, ret));
}

static void keep_records_of(struct sweep *sweep, const struct netns *netns)
{
	size_t i;

	for (i = 0; i < sweep->journal.count; i++)
		if (sweep->journal.records[i].netns == netns->inode)
			sweep->journal.records[i].settled = false;
}

static int sweep_listed(struct sweep *sweep, struct netlink *nl, const struct netns *netns)
{
	struct device *devices = NULL;
	struct qdisc_list list = { 0 };
	size_t i, count;
	int ret;

	ret = list_links(nl, &devices, &count);
	if (!ret)
		ret = qdisc_list_get(nl, &list);
	for (i = 0; !ret && i < count; i++)
		sweep_device(sweep, nl, netns, &devices[i], &list);
	qdisc_list_free(&list);
	free(devices);
	return ret;
}

static void sweep_netns(struct sweep *sweep, const struct netns *netns)
{
	struct error err;
	struct netlink nl;
	int ret;

	ret = netlink_open(&nl, netns, &err);
	if (!ret) {
		ret = sweep_listed(sweep, &nl, netns);
		if (ret)
			error_set(&err, ret, EXIT_FAILED, "cannot look at namespace %s: %s", netns->name,
				  netlink_reason(&nl, ret));
	}
	netlink_close(&nl);
	if (!ret)
		return;
	keep_records_of(sweep, netns);
	if (!sweep->first)
		*sweep->err = err;
	sweep->first = sweep->first ?: ret;
}

int device_detach(const struct netns *netns, uint32_t generation, struct error *err)
{
	struct sweep sweep = { .generation = generation, .append = true, .err = err };
	int ret;

	ret = journal_read_open(&sweep.journal);
	if (ret)
		return error_set(err, ret, EXIT_FAILED, "cannot read the journal: %s", strerror(-ret));
	sweep_netns(&sweep, netns);
	journal_free(&sweep.journal);
	return sweep.first;
}

int device_restore_all(const char *journal, uint32_t keep_generation, struct error *err)
{
	struct sweep sweep = { .keep = keep_generation, .queues = !keep_generation, .err = err };
	struct netns_list list;
	struct error later;
	size_t i;
	int ret;

	ret = netns_list(&list, err);
	if (ret)
		return ret;
	if (journal)
		sweep.first = journal_read(journal, &sweep.journal, err);
	/* Every record is settled unless something stands against it: devices that are gone have none to restore. */
	for (i = 0; i < sweep.journal.count; i++)
		sweep.journal.records[i].settled = true;
	for (i = 0; i < list.count; i++)
		sweep_netns(&sweep, &list.entries[i]);
	if (journal && !sweep.first)
		sweep.first = journal_forget(journal, &sweep.journal, err);
	else if (journal)
		journal_forget(journal, &sweep.journal, &later);
	journal_free(&sweep.journal);
	netns_list_free(&list);
	return sweep.first;
}

/* Counting */

static int count_filters(struct netlink *nl, const struct qdisc_list *list, size_t *filters)
{
	struct tcprog_clsact clsact;
	size_t i;
	int ret = 0;

	for (i = 0; !ret && i < list->count; i++) {
		if (list->entries[i].parent != TC_H_INGRESS)
			continue;
		ret = tcprog_clsact_get(nl, list->entries[i].ifindex, &clsact);
		if (!ret)
			*filters += clsact.ours;
	}
	return ret == -ENODEV ? 0 : ret;
}

static int count_netns(struct netlink *nl, const struct netns *netns, size_t *qdiscs, size_t *filters)
{
	struct qdisc_list list = { 0 };
	struct device *devices;
	size_t i, count;
	int ret;

	ret = list_links(nl, &devices, &count);
	if (!ret)
		ret = tcprog_links_count(netns, devices, count, filters);
	if (!ret)
		ret = qdisc_list_get(nl, &list);
	for (i = 0; i < list.count; i++)
		*qdiscs += qdisc_is_ours(&list.entries[i]);
	if (!ret)
		ret = count_filters(nl, &list, filters);
	qdisc_list_free(&list);
	free(devices);
	return ret;
}

int device_count_ours(size_t *qdiscs, size_t *filters, struct error *err)
{
	struct netns_list list;
	struct netlink nl;
	size_t i;
	int ret;

	*qdiscs = *filters = 0;
	ret = netns_list(&list, err);
	if (ret)
		return ret;
	for (i = 0; !ret && i < list.count; i++) {
		ret = netlink_open(&nl, &list.entries[i], err);
		if (!ret) {
			ret = count_netns(&nl, &list.entries[i], qdiscs, filters);
			if (ret)
				error_set(err, ret, EXIT_FAILED, "cannot look at namespace %s: %s",
					  list.entries[i].name, netlink_reason(&nl, ret));
		}
		netlink_close(&nl);
	}
	netns_list_free(&list);
	return ret;
}
