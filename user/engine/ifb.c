// SPDX-License-Identifier: GPL-2.0-only
#include "user/engine/ifb.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "user/engine/tcprog.h"

#define LO             1   /* the first device everywhere */
#define NO_ADDRESS     1   /* IN6_ADDR_GEN_MODE_NONE */
#define PROBE_PATIENCE 100 /* times PROBE_STEP_MS */
#define PROBE_STEP_MS  10

/* ---- the device ---------------------------------------------------------------------------------------------------- */

/* Left to load by itself, the kernel's module makes two devices that nobody asked for; with an option it makes none. */
static void load_module(void)
{
	char path[256] = "", *args[] = { path, "-q", "ifb", "numifbs=0", NULL };
	char *environment[] = { "HOME=/", "PATH=/sbin:/usr/sbin:/bin:/usr/bin", NULL };
	int fd = open("/proc/sys/kernel/modprobe", O_RDONLY | O_CLOEXEC);
	ssize_t len = fd >= 0 ? read(fd, path, sizeof(path) - 1) : 0;
	pid_t child;

	if (fd >= 0)
		close(fd);
	if (len <= 0 || access("/sys/module/ifb", F_OK) == 0)
		return;
	path[strcspn(path, "\n")] = '\0';
	if (path[0] == '/' && posix_spawn(&child, path, NULL, NULL, args, environment) == 0)
		waitpid(child, NULL, 0);
}

static struct nlmsghdr *begin_link(struct netlink *nl, uint16_t type, uint16_t flags, unsigned int ifindex)
{
	struct nlmsghdr *request;
	struct ifinfomsg *link;

	request = netlink_begin(nl, type, flags, sizeof(*link), (void **)&link);
	link->ifi_index = ifindex;
	return request;
}

/* Else it would get an IPv6 address as it comes up, and announce it. There may be no IPv6: that is as good. */
static void refuse_address(struct netlink *nl, unsigned int ifindex)
{
	struct nlmsghdr *request = begin_link(nl, RTM_NEWLINK, 0, ifindex);
	struct nlattr *families, *family;

	families = mnl_attr_nest_start(request, IFLA_AF_SPEC);
	family = mnl_attr_nest_start(request, AF_INET6);
	mnl_attr_put_u8(request, IFLA_INET6_ADDR_GEN_MODE, NO_ADDRESS);
	mnl_attr_nest_end(request, family);
	mnl_attr_nest_end(request, families);
	netlink_talk(nl);
}

static int find_index(struct netlink *nl, unsigned int *ifindex)
{
	struct nlmsghdr *request = begin_link(nl, RTM_GETLINK, 0, 0);
	const struct nlmsghdr *message;
	int ret;

	mnl_attr_put_strz(request, IFLA_IFNAME, IFB_NAME);
	ret = netlink_talk(nl);
	message = ret ? NULL : netlink_next(nl, NULL);
	if (message)
		*ifindex = ((const struct ifinfomsg *)mnl_nlmsg_get_payload(message))->ifi_index;
	return ret ?: message ? 0 : -ENODEV;
}

int ifb_make(struct netlink *nl, unsigned int *ifindex)
{
	struct nlmsghdr *request;
	struct nlattr *info;
	int ret;

	load_module();
	request = begin_link(nl, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, 0);
	mnl_attr_put_strz(request, IFLA_IFNAME, IFB_NAME);
	mnl_attr_put_u32(request, IFLA_GROUP, IFB_GROUP);
	info = mnl_attr_nest_start(request, IFLA_LINKINFO);
	mnl_attr_put_strz(request, IFLA_INFO_KIND, "ifb");
	mnl_attr_nest_end(request, info);
	ret = netlink_talk(nl);
	if (ret == -EOPNOTSUPP)
		return -ENOENT;
	ret = ret ?: find_index(nl, ifindex);
	if (!ret)
		refuse_address(nl, *ifindex);
	return ret;
}

int ifb_up(struct netlink *nl, unsigned int ifindex)
{
	struct ifinfomsg *link;

	netlink_begin(nl, RTM_NEWLINK, 0, sizeof(*link), (void **)&link);
	link->ifi_index = ifindex;
	link->ifi_flags = link->ifi_change = IFF_UP;
	return netlink_talk(nl);
}

int ifb_delete(struct netlink *nl, unsigned int ifindex)
{
	begin_link(nl, RTM_DELLINK, 0, ifindex);
	return netlink_talk(nl);
}

/* ---- probing ------------------------------------------------------------------------------------------------------- */

/* How many packets the ifb would not take. */
static uint32_t dropped(struct netlink *nl, unsigned int ifindex)
{
	const struct nlmsghdr *message;
	const struct nlattr *attr;
	struct rtnl_link_stats stats;

	begin_link(nl, RTM_GETLINK, 0, ifindex);
	message = netlink_talk(nl) ? NULL : netlink_next(nl, NULL);
	if (!message)
		return 0;
	mnl_attr_for_each(attr, message, sizeof(struct ifinfomsg))
	{
		if (mnl_attr_get_type(attr) != IFLA_STATS || mnl_attr_get_payload_len(attr) < sizeof(stats))
			continue;
		memcpy(&stats, mnl_attr_get_payload(attr), sizeof(stats));
		return stats.rx_dropped;
	}
	return 0;
}

/* Does a datagram to oneself over lo come, by way of the ifb? */
static int packet_comes(struct netlink *nl, unsigned int ifb)
{
	struct sockaddr_in self = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), ret = -EOPNOTSUPP;
	struct pollfd wait = { .fd = sock, .events = POLLIN };
	const uint32_t before = dropped(nl, ifb); /* the way that was tried first may have had one dropped */
	socklen_t len = sizeof(self);

	if (sock < 0)
		return -errno;
	if (bind(sock, (struct sockaddr *)&self, len) || getsockname(sock, (struct sockaddr *)&self, &len) ||
	    connect(sock, (struct sockaddr *)&self, len) || send(sock, "", 1, 0) != 1) {
		ret = -errno;
		goto out;
	}
	for (int i = 0; i < PROBE_PATIENCE && ret; i++) {
		if (poll(&wait, 1, PROBE_STEP_MS) > 0)
			ret = 0;
		else if (dropped(nl, ifb) != before)
			break;
	}
out:
	close(sock);
	return ret;
}

static int load_probe(const struct bpf_insn *insns, size_t count)
{
	return bpf_prog_load(BPF_PROG_TYPE_SCHED_CLS, "chaos_probe", "GPL", insns, count, NULL);
}

static int try_redirect(struct netlink *nl, const struct netns *here, unsigned int ifb)
{
	const struct bpf_insn insns[] = {
		{ .code = 0xb7, .dst_reg = 1, .imm = ifb },
		{ .code = 0xb7, .dst_reg = 2, .imm = 0 },
		{ .code = 0x85, .imm = BPF_FUNC_redirect },
		{ .code = 0x95 },
	};
	int prog = load_probe(insns, 4), link, ret;

	if (prog < 0)
		return prog;
	ret = link = tcprog_link(here, LO, TCPROG_INGRESS, prog, NULL);
	if (ret == -EOPNOTSUPP)
		ret = tcprog_clsact_make(nl, LO) ?: tcprog_filter(nl, LO, TCPROG_INGRESS, prog, 0);
	if (ret >= 0)
		ret = packet_comes(nl, ifb);
	if (link >= 0)
		close(link);
	else
		tcprog_filters_delete(nl, LO, 0, 0);
	close(prog);
	return ret;
}

static int try_pick(struct netlink *nl, unsigned int ifb)
{
	const struct bpf_insn insns[] = {
		{ .code = 0xb7, .dst_reg = 0, .imm = -1 }, /* every packet */
		{ .code = 0x95 },
	};
	int prog = load_probe(insns, 2), ret;

	if (prog < 0)
		return prog;
	ret = tcprog_clsact_make(nl, LO);
	if (!ret || ret == -EEXIST)
		ret = tcprog_pick(nl, LO, prog, 0, ifb);
	ret = ret ?: packet_comes(nl, ifb);
	close(prog);
	return ret;
}

/* In a namespace of its own, which takes everything along when it goes. */
static int probe_here(bool *redirect)
{
	struct netns here = { .fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC) };
	struct netlink nl = { 0 };
	unsigned int ifb = 0;
	struct error ignored;
	struct stat st;
	int ret;

	if (here.fd < 0 || fstat(here.fd, &st))
		return -errno;
	here.inode = st.st_ino;
	ret = netlink_open(&nl, &here, &ignored);
	ret = ret ?: ifb_up(&nl, LO);
	ret = ret ?: ifb_make(&nl, &ifb);
	ret = ret ?: ifb_up(&nl, ifb);
	if (!ret) {
		*redirect = try_redirect(&nl, &here, ifb) == 0;
		if (!*redirect)
			ret = try_pick(&nl, ifb);
	}
	netlink_close(&nl);
	close(here.fd);
	return ret;
}

int ifb_probe(bool *redirect)
{
	int home, ret;

	*redirect = false;
	load_module(); /* where its files are */
	home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	if (home < 0)
		return -errno;
	if (unshare(CLONE_NEWNET)) {
		ret = -errno;
	} else {
		ret = probe_here(redirect);
		if (setns(home, CLONE_NEWNET))
			abort();
	}
	close(home);
	return ret;
}
