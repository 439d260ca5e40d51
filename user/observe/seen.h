/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Names by which this machine's programs know the hosts that they talk to, learned by listening: answers of DNS over UDP, and
 * the server's name in TLS ClientHellos. A packet socket with a filter, so traffic is looked at and not touched, and
 * nothing is left. It hears the network namespace that it is opened in, loopback included, and with it the host's ends
 * of containers' devices.
 */
#ifndef USER_SEEN_H
#define USER_SEEN_H

#include <netinet/in.h>
#include <stdint.h>

#include "user/base/error.h"

enum seen_how {
	SEEN_NOT,
	SEEN_DNS,
	SEEN_TLS,
	SEEN_HOW_COUNT,
};
extern const char *const seen_how_names[]; /* address, dns, tls */

struct seen;

int seen_open(struct seen **seen, struct error *err);
void seen_close(struct seen *seen);

/* To be waited for. */
int seen_fd(const struct seen *seen);

/* Takes in what has come. */
void seen_read(struct seen *seen);

/* The newest name of that host, one from TLS at that port before one from DNS; NULL, and SEEN_NOT, when there is none. */
const char *seen_name(const struct seen *seen, const struct in6_addr *address, uint16_t port, enum seen_how *how);

#endif
