/* SPDX-License-Identifier: GPL-2.0-only */
/* Host names of rules to addresses, by the machine's own resolver (getaddrinfo: /etc/hosts and DNS). */
#ifndef USER_RESOLVE_H
#define USER_RESOLVE_H

#include "user/base/error.h"
#include "user/rules/rules.h"

/*
 * Fills in the addresses, IPv4 and IPv6, of every exact name of every rule; `*.suffix` has none before somebody asks for
 * such a name, and rules about questions (`dns`) need none. All are asked for at once, and for RESOLVE_TIMEOUT_S at most.
 * EXIT_FAILED with the name's place in the file when one has no address; with `wait` it stays without, until the kernel
 * learns one.
 */
#define RESOLVE_TIMEOUT_S 10
int names_resolve(struct rules *rules, bool wait, struct error *err);

#endif
