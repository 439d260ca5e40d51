// SPDX-License-Identifier: GPL-2.0-only
/* user/experiment/dependencies.c: rows under names. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <string.h>

#include "user/experiment/dependencies.h"

static struct observe_row row(uint8_t side, const char *address, uint16_t port, uint64_t requests)
{
	struct observe_row one = { .key = { .side = side, .port = port }, .requests = requests, .connections = 1 };

	inet_pton(AF_INET6, address, one.key.address);
	return one;
}

/* 10.0.0.7 and 10.0.0.8 are one host by DNS; at port 443 the first is another one by TLS. */
static const char *namer(const void *arg, const struct in6_addr *address, uint16_t port, enum seen_how *how)
{
	(void)arg;
	*how = SEEN_NOT;
	if (address->s6_addr[12] != 10)
		return NULL;
	*how = port == 443 ? SEEN_TLS : SEEN_DNS;
	return port == 443 ? "api.example.com" : "vectors.test";
}

Test(dependencies, under_names)
{
	struct observe_row rows[] = {
		row(CHAOS_SIDE_SERVER, "::", 8080, 100),
		row(CHAOS_SIDE_CLIENT, "::ffff:10.0.0.7", 6333, 5),
		row(CHAOS_SIDE_CLIENT, "::ffff:10.0.0.8", 6333, 4),
		row(CHAOS_SIDE_CLIENT, "::ffff:10.0.0.7", 443, 7),
		row(CHAOS_SIDE_CLIENT, "fd00::1", 6379, 0),
	};
	const struct observe_lines lines = { rows, sizeof(rows) / sizeof(rows[0]) };
	struct dependencies d;

	cr_assert_eq(dependencies_make(&lines, namer, NULL, &d), 0);
	cr_assert_eq(d.count, 3);
	cr_assert_str_eq(d.list[0].name, "vectors.test");
	cr_assert_eq(d.list[0].port, 6333);
	cr_assert_eq(d.list[0].how, SEEN_DNS);
	cr_assert_eq(d.list[0].sum.requests, 9);
	cr_assert_eq(d.list[0].sum.connections, 2);
	cr_assert_eq(d.list[0].addresses_count, 2);
	cr_assert_str_eq(d.list[0].addresses[1], "10.0.0.8");
	cr_assert_str_eq(d.list[1].name, "api.example.com");
	cr_assert_eq(d.list[1].how, SEEN_TLS);
	cr_assert_str_eq(d.list[2].name, "fd00::1");
	cr_assert_eq(d.list[2].how, SEEN_NOT);
	dependencies_free(&d);
	cr_assert_eq(dependencies_make(&(struct observe_lines){ 0 }, namer, NULL, &d), 0);
	cr_assert_eq(d.count, 0);
	dependencies_free(&d);
}
