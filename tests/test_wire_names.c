// SPDX-License-Identifier: GPL-2.0-only
/* user/observe/wire_names.c: answers and hellos as they are on the wire, cut at each byte, and with each byte changed. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <string.h>

#include "user/observe/wire_names.h"

/* api.example.com is an alias of x.net, which has two addresses. */
static const uint8_t answer[] = "\x12\x34\x81\x80\0\1\0\3\0\0\0\0"
				"\3API\7example\3com\0\0\1\0\1"
				"\xc0\x0c\0\5\0\1\0\0\0\x3c\0\7\1x\3net\0"
				"\xc0\x2d\0\1\0\1\0\0\0\x3c\0\4\x0a\0\0\7"
				"\xc0\x2d\0\x1c\0\1\0\0\0\x3c\0\x10\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1";
#define ANSWER_LEN (sizeof(answer) - 1)

static const uint8_t hello[] = "\x16\3\1\0\x5a\1\0\0\x56\3\3"
			       "0123456789abcdef0123456789abcdef"
			       "\4abcd\0\4\x13\1\x13\2\1\0\0\x25"
			       "\0\x0b\0\2\1\0"
			       "\0\0\0\x13\0\x11\0\0\x0evec.Example.io"
			       "\0\x17\0\0\0\x23\0\0";
#define HELLO_LEN (sizeof(hello) - 1)

struct told {
	size_t count;
	char name[WIRE_NAME_LEN];
	char addresses[8][INET6_ADDRSTRLEN];
};

static void on_told(const char *name, const struct in6_addr *address, void *arg)
{
	struct told *told = arg;

	cr_assert_lt(strlen(name), WIRE_NAME_LEN);
	strcpy(told->name, name);
	inet_ntop(AF_INET6, address, told->addresses[told->count++ % 8], INET6_ADDRSTRLEN);
}

Test(wire_names, dns)
{
	struct told told = { 0 };

	cr_assert_eq(wire_dns_answer(answer, ANSWER_LEN, on_told, &told), 2);
	cr_assert_str_eq(told.name, "api.example.com");
	cr_assert_str_eq(told.addresses[0], "::ffff:10.0.0.7");
	cr_assert_str_eq(told.addresses[1], "fd00::1");
}

Test(wire_names, dns_that_tells_nothing)
{
	uint8_t data[ANSWER_LEN];
	struct told told = { 0 };

	memcpy(data, answer, sizeof(data));
	data[2] = 0x01; /* a question */
	cr_assert_eq(wire_dns_answer(data, sizeof(data), on_told, &told), 0);
	data[2] = 0x81;
	data[3] = 0x83; /* no such name */
	cr_assert_eq(wire_dns_answer(data, sizeof(data), on_told, &told), 0);
	data[3] = 0x80;
	data[13] = ' '; /* no name of a host */
	cr_assert_eq(wire_dns_answer(data, sizeof(data), on_told, &told), 0);
	data[12] = 0xc0;
	data[13] = 0x0c; /* a name that is itself */
	cr_assert_eq(wire_dns_answer(data, sizeof(data), on_told, &told), 0);
	cr_assert_eq(wire_dns_answer(NULL, 0, on_told, &told), 0);
}

Test(wire_names, tls)
{
	char name[WIRE_NAME_LEN];

	cr_assert(wire_client_hello(hello, HELLO_LEN, name));
	cr_assert_str_eq(name, "vec.example.io");
	/* The rest may be in another segment. */
	cr_assert(wire_client_hello(hello, HELLO_LEN - 8, name));
	cr_assert_not(wire_client_hello(hello, HELLO_LEN - 9, name));
	cr_assert_not(wire_client_hello(answer, ANSWER_LEN, name));
}

/* Copies that end where the memory does, so that a byte too far is seen. */
Test(wire_names, cut)
{
	struct told told = { 0 };
	char name[WIRE_NAME_LEN];

	for (size_t len = 0; len < ANSWER_LEN; len++) {
		uint8_t *data = malloc(len ?: 1);

		memcpy(data, answer, len);
		cr_assert_lt(wire_dns_answer(data, len, on_told, &told), 2);
		free(data);
	}
	for (size_t len = 0; len < HELLO_LEN; len++) {
		uint8_t *data = malloc(len ?: 1);

		memcpy(data, hello, len);
		wire_client_hello(data, len, name);
		free(data);
	}
}

Test(wire_names, changed)
{
	uint8_t data[ANSWER_LEN], greeting[HELLO_LEN];
	struct told told = { 0 };
	char name[WIRE_NAME_LEN];

	for (size_t at = 0; at < ANSWER_LEN; at++) {
		for (unsigned int value = 0; value < 256; value++) {
			memcpy(data, answer, sizeof(data));
			data[at] = (uint8_t)value;
			wire_dns_answer(data, sizeof(data), on_told, &told);
		}
	}
	for (size_t at = 0; at < HELLO_LEN; at++) {
		for (unsigned int value = 0; value < 256; value++) {
			memcpy(greeting, hello, sizeof(greeting));
			greeting[at] = (uint8_t)value;
			if (wire_client_hello(greeting, sizeof(greeting), name))
				cr_assert_lt(strlen(name), WIRE_NAME_LEN);
		}
	}
}
