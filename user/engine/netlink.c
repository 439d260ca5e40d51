// SPDX-License-Identifier: GPL-2.0-only
#include "user/engine/netlink.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "user/base/linux_compat.h"

#define RECEIVE_SIZE  (256 * 1024)
#define DUMP_ATTEMPTS 10

static int open_here(void *arg)
{
	struct netlink *nl = arg;
	socklen_t len = sizeof(nl->cookie);
	struct timeval patience = { .tv_sec = 10 };
	int fd, on = 1;

	nl->socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	if (!nl->socket || mnl_socket_bind(nl->socket, 0, MNL_SOCKET_AUTOPID) < 0)
		return -errno;
	fd = mnl_socket_get_fd(nl->socket);
	mnl_socket_setsockopt(nl->socket, NETLINK_EXT_ACK, &on, sizeof(on));
	mnl_socket_setsockopt(nl->socket, NETLINK_CAP_ACK, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &nl->cookie, &len))
		nl->cookie = 0;
	return 0;
}

int netlink_open(struct netlink *nl, const struct netns *netns, struct error *err)
{
	int ret;

	memset(nl, 0, sizeof(*nl));
	nl->inode = netns->inode;
	nl->received = malloc(RECEIVE_SIZE);
	ret = nl->received ? netns_run(netns, open_here, nl) : -ENOMEM;
	if (ret)
		error_set(err, ret, EXIT_FAILED, "cannot talk to network namespace %s: %s", netns->name,
			  strerror(-ret));
	return ret;
}

void netlink_close(struct netlink *nl)
{
	if (nl->socket)
		mnl_socket_close(nl->socket);
	nl->socket = NULL;
	free(nl->replies);
	free(nl->received);
	nl->replies = nl->received = NULL;
}

struct nlmsghdr *netlink_begin(struct netlink *nl, uint16_t type, uint16_t flags, size_t extra, void **header)
{
	struct nlmsghdr *request = mnl_nlmsg_put_header(nl->request);

	request->nlmsg_type = type;
	/* A dump ends by itself; to everything else the kernel is asked to answer. */
	request->nlmsg_flags = NLM_F_REQUEST | flags | ((flags & NLM_F_DUMP) == NLM_F_DUMP ? 0 : NLM_F_ACK);
	*header = mnl_nlmsg_put_extra_header(request, extra);
	return request;
}

static int keep_reply(struct netlink *nl, const struct nlmsghdr *message)
{
	size_t len = MNL_ALIGN(message->nlmsg_len), size = nl->replies_size;
	char *grown;

	while (nl->replies_len + len > size)
		size = size ? size * 2 : 16384;
	if (size > nl->replies_size) {
		grown = realloc(nl->replies, size);
		if (!grown)
			return -ENOMEM;
		nl->replies = grown;
		nl->replies_size = size;
	}
	memset(nl->replies + nl->replies_len, 0, len);
	memcpy(nl->replies + nl->replies_len, message, message->nlmsg_len);
	nl->replies_len += len;
	return 0;
}

/* The kernel's own words, after the fixed part that holds the error code. Some are sentences: the stop goes. */
static void keep_reason(struct netlink *nl, const struct nlmsghdr *message, size_t fixed)
{
	const char *at = mnl_nlmsg_get_payload_offset(message, fixed);
	const char *end = mnl_nlmsg_get_payload_tail(message);
	const struct nlattr *attr;
	size_t len;

	if (!(message->nlmsg_flags & NLM_F_ACK_TLVS))
		return;
	for (attr = (const struct nlattr *)at; mnl_attr_ok(attr, end - (const char *)attr); attr = mnl_attr_next(attr))
		if (mnl_attr_get_type(attr) == NLMSGERR_ATTR_MSG && !mnl_attr_validate(attr, MNL_TYPE_STRING))
			snprintf(nl->reason, sizeof(nl->reason), "%.*s", (int)mnl_attr_get_payload_len(attr),
				 (const char *)mnl_attr_get_payload(attr));
	len = strlen(nl->reason);
	if (len && nl->reason[len - 1] == '.')
		nl->reason[len - 1] = '\0';
}

/* 1: more is to come, 0: the end, negative: the end, and it failed. */
static int take_message(struct netlink *nl, const struct nlmsghdr *message)
{
	const struct nlmsgerr *ack = mnl_nlmsg_get_payload(message);
	int code = 0;

	if (message->nlmsg_seq != nl->sequence)
		return 1;
	/* Read on to the end all the same: until then the kernel refuses another dump on this socket. */
	if (message->nlmsg_flags & NLM_F_DUMP_INTR)
		nl->disturbed = true;
	switch (message->nlmsg_type) {
	case NLMSG_ERROR:
		keep_reason(nl, message, sizeof(*ack));
		return ack->error;
	case NLMSG_DONE:
		if (mnl_nlmsg_get_payload_len(message) >= sizeof(code))
			memcpy(&code, mnl_nlmsg_get_payload(message), sizeof(code));
		if (code < 0)
			keep_reason(nl, message, sizeof(code));
		return code < 0 ? code : 0;
	case NLMSG_NOOP:
		return 1;
	default:
		return keep_reply(nl, message) ?: 1;
	}
}

static int receive(struct netlink *nl)
{
	const struct nlmsghdr *message;
	ssize_t len;
	int left, ret;

	for (;;) {
		len = mnl_socket_recvfrom(nl->socket, nl->received, RECEIVE_SIZE);
		if (len < 0 && errno == EINTR)
			continue;
		if (len < 0)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		left = len;
		for (message = (void *)nl->received; mnl_nlmsg_ok(message, left);
		     message = mnl_nlmsg_next(message, &left)) {
			ret = take_message(nl, message);
			if (ret <= 0)
				return ret;
		}
	}
}

int netlink_talk(struct netlink *nl)
{
	struct nlmsghdr *request = (void *)nl->request;
	int ret = -EINTR, attempt;

	/* A dump is disturbed when the list changed under it: what came may be incomplete. */
	for (attempt = 0; attempt < DUMP_ATTEMPTS && ret == -EINTR; attempt++) {
		nl->replies_len = 0;
		nl->reason[0] = '\0';
		nl->disturbed = false;
		request->nlmsg_seq = ++nl->sequence;
		if (mnl_socket_sendto(nl->socket, request, request->nlmsg_len) < 0)
			ret = -errno;
		else
			ret = receive(nl) ?: (nl->disturbed ? -EINTR : 0);
	}
	return ret;
}

const char *netlink_reason(struct netlink *nl, int code)
{
	if (!nl->reason[0])
		return strerror(-code);
	return nl->reason;
}

const struct nlmsghdr *netlink_next(const struct netlink *nl, const struct nlmsghdr *message)
{
	const char *end = nl->replies + nl->replies_len, *at = nl->replies;

	if (message)
		at = (const char *)message + MNL_ALIGN(message->nlmsg_len);
	return at < end ? (const struct nlmsghdr *)at : NULL;
}
