/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A thin layer over libmnl: a route netlink socket that belongs to one network namespace, one request at a time.
 *
 * A socket keeps talking to the namespace that it was opened in, wherever the thread goes afterwards. A request is
 * built in place (netlink_begin() and libmnl's mnl_attr_put*() on it), sent by netlink_talk(), and everything that the
 * kernel answers lies then in `replies` until the next request. Nothing here writes messages: callers say what failed,
 * netlink_reason() says why.
 */
#ifndef USER_NETLINK_H
#define USER_NETLINK_H

#include <libmnl/libmnl.h>
#include <stdint.h>

#include "user/base/error.h"
#include "user/engine/device.h"

#define NETLINK_REQUEST_SIZE 8192

struct netlink {
	struct mnl_socket *socket;
	uint64_t inode;  /* of the namespace */
	uint64_t cookie; /* of the namespace; 0 where the kernel does not tell (before 5.14) */
	unsigned int sequence;
	char *replies; /* messages that answer the last request, one after the other */
	size_t replies_len, replies_size;
	bool disturbed; /* the list changed during the dump */
	char *received; /* for one datagram */
	char reason[256];
	_Alignas(struct nlmsghdr) char request[NETLINK_REQUEST_SIZE];
};

/* Opens a socket inside the namespace. Free with netlink_close(), also after a failure. */
int netlink_open(struct netlink *nl, const struct netns *netns, struct error *err);
void netlink_close(struct netlink *nl);

/* Begins a request: `flags` such as NLM_F_DUMP or NLM_F_CREATE. An extra header of `extra` zeroed bytes follows. */
struct nlmsghdr *netlink_begin(struct netlink *nl, uint16_t type, uint16_t flags, size_t extra, void **header);

/* Sends the request and waits for its end. 0 or the kernel's negative errno; a dump that was disturbed is repeated. */
int netlink_talk(struct netlink *nl);

/* Why the last request failed: the kernel's own words where it had some, else those for `code` (negative errno). */
const char *netlink_reason(struct netlink *nl, int code);

/* Walks over the replies: `message` is NULL to begin; NULL at the end. */
const struct nlmsghdr *netlink_next(const struct netlink *nl, const struct nlmsghdr *message);

#endif
