/* SPDX-License-Identifier: GPL-2.0-only */
/* Names of hosts in payload: what a DNS answer tells, and whom a TLS ClientHello asks for. Pure; trusts no byte. */
#ifndef USER_WIRE_NAMES_H
#define USER_WIRE_NAMES_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_NAME_LEN 254 /* with its end; without the dot of the root */

/* One address that an answer gives for a name; IPv4 in mapped form. */
typedef void (*wire_told)(const char *name, const struct in6_addr *address, void *arg);

/*
 * Tells each A and AAAA record of a DNS answer (the payload of one UDP packet), under the name that was asked for,
 * whatever aliases lead to it. How many; none of what is no good answer.
 */
size_t wire_dns_answer(const uint8_t *data, size_t len, wire_told told, void *arg);

/*
 * The server's name in a ClientHello, as far as it is in this first segment. Names are in lower case, and of characters that
 * names of hosts have.
 */
bool wire_client_hello(const uint8_t *data, size_t len, char name[WIRE_NAME_LEN]);

#endif
