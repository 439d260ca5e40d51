// SPDX-License-Identifier: GPL-2.0-only
/*
 * Traffic whose cost is measured: both ends of every loopback connection are in this one thread, so no scheduler stands
 * between them.
 *
 *   traffic                 reads commands, one a line, and answers each with one line:
 *     known MS              one byte there and back on one old connection    nanoseconds a round trip
 *     new MS                connect, accept, close                           nanoseconds a connection
 *     rate MS               200 bytes there, 1 KiB back, on one connection   nanoseconds a request
 *     bulk MS               64 KiB at a time, one way                        nanoseconds a write
 *     hello MS              connect, accept, a TLS ClientHello, close        nanoseconds a connection
 *     ask MS                a DNS question and its answer                    nanoseconds a question
 *     learn N               DNS answers with N different addresses           how many
 *     refused PORT N        N connects to a port of 127.0.0.1                how many failed
 *     lost PORT N           N datagrams to itself at that port               how many did not arrive
 *     until-through PORT    datagrams to itself until 20000 in a row came    CLOCK_MONOTONIC ns of the last lost one
 *
 * The connections of `known`, `rate` and `bulk` are opened once, at the start; the name server of `ask` and `learn`, on
 * 127.0.0.153, when it is first needed. Names are below bench.test.
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

#include "measure.h"

static int listener;
static int near_end, far_end;
static struct sockaddr_in server;
static char buffer[1 << 16];

static void open_connection(void)
{
	socklen_t size = sizeof(server);
	int one = 1;

	server = loopback(0);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&server, sizeof(server)) || listen(listener, 64))
		die("listen");
	getsockname(listener, (struct sockaddr *)&server, &size);
	near_end = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(near_end, (struct sockaddr *)&server, sizeof(server)))
		die("connect");
	far_end = accept(listener, NULL, NULL);
	setsockopt(near_end, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(far_end, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static void pass(int from, int to, size_t size)
{
	if (send(from, buffer, size, 0) != (ssize_t)size)
		die("send");
	for (size_t got = 0; got < size;) {
		ssize_t n = recv(to, buffer, size - got, 0);

		if (n <= 0)
			die("recv");
		got += n;
	}
}

static void do_known(void)
{
	pass(near_end, far_end, 1);
	pass(far_end, near_end, 1);
}

static void do_rate(void)
{
	pass(near_end, far_end, 200);
	pass(far_end, near_end, 1024);
}

static void do_bulk(void)
{
	pass(near_end, far_end, sizeof(buffer));
}

/* The near end closes first with a reset, so that no port stays in TIME_WAIT. */
static void do_new(void)
{
	const struct linger linger = { .l_onoff = 1 };
	int client = socket(AF_INET, SOCK_STREAM, 0), accepted;

	if (client < 0 || connect(client, (struct sockaddr *)&server, sizeof(server)))
		die("connect");
	accepted = accept(listener, NULL, NULL);
	setsockopt(client, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	close(client);
	close(accepted);
}

/* ---- names ---- */

/* A ClientHello that asks for x.bench.test, with as much behind the name as a key share takes. */
static const unsigned char hello_head[] = {
	0x16, 3, 1, 0, 0, 1, 0, 0, 0, 3, 3,
};
static const unsigned char hello_name[] = {
	0, 0, 0, 17, 0, 15, 0, 0, 12, 'x', '.', 'b', 'e', 'n', 'c', 'h', '.', 't', 'e', 's', 't',
};

static size_t make_hello(unsigned char *out)
{
	const size_t padding = 400, extensions = sizeof(hello_name) + 4 + padding;
	unsigned char *at = out + sizeof(hello_head) + 32;
	size_t size;

	memset(out, 0, 1024);
	memcpy(out, hello_head, sizeof(hello_head));
	*at++ = 0; /* session */
	memcpy(at, "\0\2\x13\1\1\0", 6);
	at[6] = extensions >> 8;
	at[7] = extensions & 0xff;
	memcpy(at + 8, hello_name, sizeof(hello_name));
	at += 8 + sizeof(hello_name);
	memcpy(at, "\0\x15", 2);
	at[2] = padding >> 8;
	at[3] = padding & 0xff;
	size = at + 4 + padding - out;
	out[3] = (size - 5) >> 8;
	out[4] = (size - 5) & 0xff;
	out[7] = (size - 9) >> 8;
	out[8] = (size - 9) & 0xff;
	return size;
}

static void do_hello(void)
{
	const struct linger linger = { .l_onoff = 1 };
	static unsigned char hello[1024];
	static size_t size;
	int client = socket(AF_INET, SOCK_STREAM, 0), accepted;

	size = size ? size : make_hello(hello);
	if (client < 0 || connect(client, (struct sockaddr *)&server, sizeof(server)))
		die("connect");
	accepted = accept(listener, NULL, NULL);
	if (send(client, hello, size, 0) != (ssize_t)size || recv(accepted, buffer, sizeof(buffer), 0) <= 0)
		die("hello");
	setsockopt(client, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	close(client);
	close(accepted);
}

static int name_server = -1, asker;

static void open_name_server(void)
{
	struct sockaddr_in address = loopback(53);

	if (name_server >= 0)
		return;
	address.sin_addr.s_addr = htonl(0x7f000099);
	name_server = socket(AF_INET, SOCK_DGRAM, 0);
	asker = socket(AF_INET, SOCK_DGRAM, 0);
	if (bind(name_server, (struct sockaddr *)&address, sizeof(address)) ||
	    connect(asker, (struct sockaddr *)&address, sizeof(address)))
		die("name server");
}

/* A question for x.bench.test, and room behind it for answers. */
static const unsigned char question[] = {
	0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 'x', 5, 'b', 'e', 'n', 'c', 'h', 4, 't', 'e', 's', 't', 0, 0, 1, 0, 1,
};
#define RECORD 16

/* One question, answered with `count` addresses from 10.0.0.0 + first on. */
static void ask(unsigned int first, int count)
{
	unsigned char message[sizeof(question) + 64 * RECORD];
	struct sockaddr_in who;
	socklen_t len = sizeof(who);

	if (send(asker, question, sizeof(question), 0) != sizeof(question) ||
	    recvfrom(name_server, message, sizeof(message), 0, (struct sockaddr *)&who, &len) != sizeof(question))
		die("question");
	message[2] = 0x81;
	message[3] = 0x80;
	message[7] = count;
	for (int i = 0; i < count; i++) {
		const unsigned int address = htonl(0x0a000000 + first + i);
		unsigned char *record = message + sizeof(question) + i * RECORD;

		memcpy(record, "\xc0\x0c\0\1\0\1\0\0\x0e\x10\0\4", 12);
		memcpy(record + 12, &address, 4);
	}
	if (sendto(name_server, message, sizeof(question) + count * RECORD, 0, (struct sockaddr *)&who, len) < 0 ||
	    recv(asker, buffer, sizeof(buffer), 0) <= 0)
		die("answer");
}

static void do_ask(void)
{
	ask(0, 4);
}

static int learn(int count)
{
	open_name_server();
	for (int i = 0; i < count; i += 16)
		ask(i, 16);
	return count;
}

static int count_refused(int port, int n)
{
	struct sockaddr_in address = loopback(port);
	int own = socket(AF_INET, SOCK_STREAM, 0), failed = 0, one = 1;
	const struct linger linger = { .l_onoff = 1 };

	setsockopt(own, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(own, (struct sockaddr *)&address, sizeof(address)) || listen(own, 64))
		die("listen");
	for (int i = 0; i < n; i++) {
		int client = socket(AF_INET, SOCK_STREAM, 0);

		if (connect(client, (struct sockaddr *)&address, sizeof(address)))
			failed++;
		else
			close(accept(own, NULL, NULL));
		setsockopt(client, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
		close(client);
	}
	close(own);
	return failed;
}

static int open_datagrams(int port)
{
	struct sockaddr_in address = loopback(port);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) ||
	    connect(fd, (struct sockaddr *)&address, sizeof(address)))
		die("bind");
	return fd;
}

/* Loopback delivers before send() returns: what is not there now was lost. */
static int is_lost(int fd)
{
	char byte = 0;

	if (send(fd, &byte, 1, 0) != 1)
		return 1;
	return recv(fd, &byte, 1, MSG_DONTWAIT) != 1;
}

static int count_lost(int port, int n)
{
	int fd = open_datagrams(port), lost = 0;

	for (int i = 0; i < n; i++)
		lost += is_lost(fd);
	close(fd);
	return lost;
}

static long long until_through(int port)
{
	int fd = open_datagrams(port);
	long long last = 0;

	for (int row = 0; row < 20000; row++) {
		if (!is_lost(fd))
			continue;
		last = now_ns();
		row = 0;
	}
	close(fd);
	return last;
}

static void answer(const char *command, int a, int b)
{
	if (strcmp(command, "known") == 0)
		printf("%.1f\n", cost(do_known, a));
	else if (strcmp(command, "new") == 0)
		printf("%.1f\n", cost(do_new, a));
	else if (strcmp(command, "rate") == 0)
		printf("%.1f\n", cost(do_rate, a));
	else if (strcmp(command, "bulk") == 0)
		printf("%.1f\n", cost(do_bulk, a));
	else if (strcmp(command, "hello") == 0)
		printf("%.1f\n", cost(do_hello, a));
	else if (strcmp(command, "ask") == 0) {
		open_name_server();
		printf("%.1f\n", cost(do_ask, a));
	} else if (strcmp(command, "learn") == 0)
		printf("%d\n", learn(a));
	else if (strcmp(command, "refused") == 0)
		printf("%d\n", count_refused(a, b));
	else if (strcmp(command, "lost") == 0)
		printf("%d\n", count_lost(a, b));
	else if (strcmp(command, "until-through") == 0)
		printf("%lld\n", until_through(a));
	else
		printf("unknown\n");
}

int main(void)
{
	char line[128], command[32];

	open_connection();
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin)) {
		int a = 0, b = 0;

		if (sscanf(line, "%31s %d %d", command, &a, &b) >= 1)
			answer(command, a, b);
	}
	return 0;
}
