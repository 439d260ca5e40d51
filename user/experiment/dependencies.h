/* SPDX-License-Identifier: GPL-2.0-only */
/* What a service talks to: the rows of an observer, put together under the names by which the hosts are known. */
#ifndef USER_DEPENDENCIES_H
#define USER_DEPENDENCIES_H

#include <stddef.h>

#include "user/observe/observe.h"
#include "user/observe/seen.h"
#include "user/observe/wire_names.h"

/* One host at one port; a name that has several addresses is one. */
struct dependency {
	char name[WIRE_NAME_LEN]; /* or its address */
	uint16_t port;
	enum seen_how how; /* where the name is from */
	char (*addresses)[INET6_ADDRSTRLEN];
	size_t addresses_count;
	struct observe_row sum; /* its key says nothing */
};

struct dependencies {
	struct dependency *list; /* most requests first, then most connections */
	size_t count;
};

/* The name of that host, or NULL; `arg` is what the caller gave. */
typedef const char *(*dependency_namer)(const void *arg, const struct in6_addr *address, uint16_t port,
					enum seen_how *how);

/* Of what is called, by lines that are told apart by endpoint. -ENOMEM; to be freed with dependencies_free(). */
int dependencies_make(const struct observe_lines *lines, dependency_namer name, const void *arg,
		      struct dependencies *dependencies);
void dependencies_free(struct dependencies *dependencies);

#endif
