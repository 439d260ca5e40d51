/* SPDX-License-Identifier: GPL-2.0-only */
/* A parsed rule in plain English, and the pieces of such sentences that other output needs as well. */
#ifndef USER_EXPLAIN_H
#define USER_EXPLAIN_H

#include "user/rules/rules.h"

#define HOST_TEXT_LEN (INET6_ADDRSTRLEN + 4) /* an address and its /prefix */

/*
 * Writes what rule `index` will hit and do, as one sentence that begins with its name. Returns 0, or -ENOSPC when it
 * was cut short to fit (2048 bytes are enough for every rule but those with texts of hundreds of characters).
 */
int explain_rule(const struct rules *rules, size_t index, char *buf, size_t size);

/* "8 s", "500 ms", "2 min 30 s", "1.5 s"; exact. Returns buf. */
const char *format_duration(char *buf, size_t size, uint64_t ns);

/* "10.0.0.7", "10.1.0.0/16", "2001:db8::/32"; IPv4 without its mapping. Returns buf. */
const char *format_host(char *buf, size_t size, const struct host *host);

/* "30 %", "0.5 %". Returns buf. */
const char *format_percent(char *buf, size_t size, uint32_t ppm);

#endif
