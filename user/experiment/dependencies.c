// SPDX-License-Identifier: GPL-2.0-only
#include "user/experiment/dependencies.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* IPv4 in its own form. */
static void address_words(const struct in6_addr *address, char text[INET6_ADDRSTRLEN])
{
	if (IN6_IS_ADDR_V4MAPPED(address))
		inet_ntop(AF_INET, address->s6_addr + 12, text, INET6_ADDRSTRLEN);
	else
		inet_ntop(AF_INET6, address, text, INET6_ADDRSTRLEN);
}

static struct dependency *find(struct dependencies *d, const char *name, uint16_t port)
{
	for (size_t i = 0; i < d->count; i++) {
		if (d->list[i].port == port && strcmp(d->list[i].name, name) == 0)
			return &d->list[i];
	}
	return NULL;
}

/* There is room for one more: as many as there are lines. */
static struct dependency *add(struct dependencies *d, const char *name, uint16_t port, enum seen_how how)
{
	struct dependency *one = &d->list[d->count++];

	snprintf(one->name, sizeof(one->name), "%s", name);
	one->port = port;
	one->how = how;
	return one;
}

static int add_address(struct dependency *one, const char *address)
{
	char(*addresses)[INET6_ADDRSTRLEN];

	for (size_t i = 0; i < one->addresses_count; i++) {
		if (strcmp(one->addresses[i], address) == 0)
			return 0;
	}
	addresses = reallocarray(one->addresses, one->addresses_count + 1, sizeof(*addresses));
	if (!addresses)
		return -ENOMEM;
	one->addresses = addresses;
	snprintf(addresses[one->addresses_count++], sizeof(*addresses), "%s", address);
	return 0;
}

static int add_row(struct dependencies *d, const struct observe_row *row, dependency_namer namer, const void *arg)
{
	char text[INET6_ADDRSTRLEN];
	struct dependency *one;
	struct in6_addr address;
	enum seen_how how;
	const char *name;

	memcpy(&address, row->key.address, sizeof(address));
	address_words(&address, text);
	name = namer(arg, &address, row->key.port, &how);
	one = find(d, name ?: text, row->key.port) ?: add(d, name ?: text, row->key.port, how);
	if (how > one->how)
		one->how = how;
	observe_row_add(&one->sum, row);
	return add_address(one, text);
}

static int by_use(const void *a, const void *b)
{
	const struct dependency *x = a, *y = b;

	if (x->sum.requests != y->sum.requests)
		return x->sum.requests > y->sum.requests ? -1 : 1;
	if (x->sum.connections != y->sum.connections)
		return x->sum.connections > y->sum.connections ? -1 : 1;
	return strcmp(x->name, y->name) ?: (int)x->port - (int)y->port;
}

int dependencies_make(const struct observe_lines *lines, dependency_namer name, const void *arg,
		      struct dependencies *dependencies)
{
	int ret = 0;

	*dependencies = (struct dependencies){ .list = calloc(lines->count ?: 1, sizeof(*dependencies->list)) };
	if (!dependencies->list)
		return -ENOMEM;
	for (size_t i = 0; i < lines->count && !ret; i++) {
		if (lines->rows[i].key.side == CHAOS_SIDE_CLIENT)
			ret = add_row(dependencies, &lines->rows[i], name, arg);
	}
	if (ret)
		dependencies_free(dependencies);
	else
		qsort(dependencies->list, dependencies->count, sizeof(*dependencies->list), by_use);
	return ret;
}

void dependencies_free(struct dependencies *dependencies)
{
	for (size_t i = 0; i < dependencies->count; i++)
		free(dependencies->list[i].addresses);
	free(dependencies->list);
	*dependencies = (struct dependencies){ 0 };
}
