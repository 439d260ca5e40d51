// SPDX-License-Identifier: GPL-2.0-only
/*
 * Names that the kernel reads by itself, between real sockets: what answers of DNS teach (bpf/dns.bpf.c), for whom and for
 * how long; and the one in a ClientHello (bpf/hello.bpf.c), however it is cut up.
 */
#include <criterion/criterion.h>

#include "tests/bpf/live.h"

TestSuite(names, .init = live_world, .fini = live_world_ends, .timeout = 300);

#define RULE(fault) \
	"version: 1\nrules:\n- { name: a, match: { hosts: [\"*.a.test\"] }, fault: { " fault " }, duration: 1h }\n"
#define DNS_PORT 53
#define PATIENT 5000 /* ms */

/* ---- a name server and who asks it --------------------------------------------------------------------------------- */

static struct sockaddr_in place(uint32_t address, uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = { htonl(address) } };
}

static int listen_everywhere(uint16_t *port)
{
	struct sockaddr_in at = place(INADDR_ANY, *port);
	socklen_t size = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_eq(bind(fd, (void *)&at, size), 0, "%s", strerror(errno));
	cr_assert_eq(listen(fd, 64), 0);
	cr_assert_eq(getsockname(fd, (void *)&at, &size), 0);
	*port = ntohs(at.sin_port);
	return fd;
}

static uint8_t *put16(uint8_t *to, uint16_t value)
{
	to[0] = value >> 8;
	to[1] = value;
	return to + 2;
}

static uint8_t *put_labels(uint8_t *to, const char *name)
{
	for (size_t length; *name; name += length + (name[length] == '.')) {
		length = strcspn(name, ".");
		*to++ = length;
		memcpy(to, name, length);
		to += length;
	}
	*to = 0;
	return to + 1;
}

/* The answer to a question for the address of a name; its size. */
static size_t put_answer(uint8_t *message, const char *name, uint32_t address, uint32_t ttl)
{
	static const uint8_t header[] = { 0x12, 0x34, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0 };
	uint8_t *to = message;

	memcpy(to, header, sizeof(header));
	to = put_labels(to + sizeof(header), name);
	to = put16(put16(to, 1), 1);                /* A, IN */
	to = put16(put16(put16(to, 0xc00c), 1), 1); /* the same name, A, IN */
	to = put16(put16(to, ttl >> 16), ttl);
	to = put16(put16(put16(to, 4), address >> 16), address);
	return to - message;
}

/* This process asks, and is told. */
static void learn(const char *name, uint32_t address, uint32_t ttl)
{
	struct sockaddr_in at = place(INADDR_LOOPBACK, DNS_PORT), from = { 0 };
	socklen_t size = sizeof(from);
	int server = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), client = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint8_t message[512];

	cr_assert_eq(bind(server, (void *)&at, sizeof(at)), 0, "%s", strerror(errno));
	cr_assert_eq(connect(client, (void *)&at, sizeof(at)), 0);
	say(client, "?", 1);
	cr_assert_eq(recvfrom(server, message, sizeof(message), 0, (void *)&from, &size), 1);
	cr_assert_gt(sendto(server, message, put_answer(message, name, address, ttl), 0, (void *)&from, size), 0);
	cr_assert_gt(hears(client, PATIENT), 0, "no answer about %s", name);
	close(client);
	close(server);
}

/* 0, or the errno that connecting ended with. */
static int meets(uint32_t address, uint16_t port)
{
	struct sockaddr_in at = place(address, port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int error = connect(fd, (void *)&at, sizeof(at)) ? errno : 0;

	close(fd);
	return error;
}

Test(names, whole_labels_in_any_case)
{
	static const struct {
		const char *name;
		bool meant;
	} cases[] = {
		{ "x.a.test", true },  { "X.A.tEsT", true },   { "y.x.a.test", true }, { "xa.test", false },
		{ "a.test", false },   { "x.a.test.b", false }, { "x.b.test", false },	{ "x.a.tes", false },
		{ "x-a.test", false },
	};
	struct live live;
	uint16_t port = 0;
	int listener;

	go_live(&live, RULE("refuse: denied"));
	listener = listen_everywhere(&port);
	for (size_t i = 0; i < COUNT(cases); i++) {
		const uint32_t address = 0x7f010001 + i;
		int met;

		cr_expect_eq(meets(address, port), 0, "%s: nobody has asked", cases[i].name);
		learn(cases[i].name, address, 60);
		met = meets(address, port);
		cr_expect_eq(met, cases[i].meant ? EPERM : 0, "%s: %s", cases[i].name, strerror(met));
	}
	close(listener);
	live_ends(&live);
}

static struct chaos_learned_key learned_key(uint32_t address, uint32_t pid)
{
	struct chaos_learned_key key = { .address = { [10] = 0xff, [11] = 0xff }, .pid = pid };

	address = htonl(address);
	memcpy(key.address + 12, &address, sizeof(address));
	return key;
}

/* The kernel's number of this process, which in a namespace of processes is not getpid()'s. */
static uint32_t own_pid(const struct live *live)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct chaos_sock kept;

	cr_assert_eq(bpf_map_lookup_elem(live->l.engine.sock_fd, &fd, &kept), 0);
	close(fd);
	return kept.owner.pid;
}

/* As long as it says, but for some minutes at least, and for a day at most; then it is forgotten. */
Test(names, an_answer_holds_for_its_time)
{
	static const struct {
		uint32_t ttl, held_s;
	} cases[] = { { 0, 300 }, { 5, 300 }, { 300, 300 }, { 1800, 1800 }, { 86400, 86400 }, { 864000, 86400 }, { UINT32_MAX, 86400 } };
	struct live live;
	uint16_t port = 0;
	int listener, learned_fd;

	go_live(&live, RULE("refuse: denied"));
	learned_fd = engine_map(&live.l.engine, "chaos_learned");
	listener = listen_everywhere(&port);
	for (size_t i = 0; i < COUNT(cases); i++) {
		const uint32_t address = 0x7f020001 + i, pids[] = { 0, own_pid(&live) };
		const uint64_t before = boot_now(), held_ns = cases[i].held_s * 1000000000ULL;
		struct chaos_learned learned;

		learn("x.a.test", address, cases[i].ttl);
		cr_expect_eq(meets(address, port), EPERM);
		for (size_t k = 0; k < COUNT(pids); k++) {
			struct chaos_learned_key key = learned_key(address, pids[k]);

			cr_assert_eq(bpf_map_lookup_elem(learned_fd, &key, &learned), 0, "pid %u", pids[k]);
			cr_expect(learned.until_ns >= before + held_ns && learned.until_ns <= boot_now() + held_ns,
				  "TTL %u, pid %u: held for %g s", cases[i].ttl, pids[k], (learned.until_ns - before) / 1e9);
			learned.until_ns = boot_now();
			cr_assert_eq(bpf_map_update_elem(learned_fd, &key, &learned, BPF_ANY), 0);
		}
		cr_expect_eq(meets(address, port), 0, "its time is over");
	}
	close(listener);
	live_ends(&live);
}

/* What a process of its own meets that asks for a name, or for none. */
static int another_meets(const char *name, uint32_t address, uint16_t port)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (name)
			learn(name, address, 60);
		_exit(meets(address, port));
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* Behind one address there may be several names: each process means the one that it asked for. */
Test(names, who_asked_means_what_it_asked_for)
{
	const uint32_t address = 0x7f030001;
	struct live live;
	uint16_t port = 0;
	int listener;

	go_live(&live, RULE("refuse: denied"));
	listener = listen_everywhere(&port);
	cr_expect_eq(another_meets(NULL, address, port), 0);
	learn("x.a.test", address, 60);
	cr_expect_eq(another_meets(NULL, address, port), EPERM, "who never asked means what anyone was told");
	cr_expect_eq(another_meets("x.b.test", address, port), 0, "who asked for another name means that one");
	cr_expect_eq(meets(address, port), EPERM, "and nobody else does");
	close(listener);
	live_ends(&live);
}

/* ---- DNS over TCP ---------------------------------------------------------------------------------------------------- */

static int accept_on(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC), one = 1;

	cr_assert_geq(fd, 0);
	be_patient(fd, 10000);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static int reach(uint32_t address, uint16_t port)
{
	struct sockaddr_in at = place(address, port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	be_patient(fd, 10000);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	cr_assert_eq(connect(fd, (void *)&at, sizeof(at)), 0, "%s", strerror(errno));
	return fd;
}

/* The length of a message and the message, in one segment or in two; several on one connection. */
Test(names, answers_over_tcp)
{
	static const bool alone[] = { false, true, true, false, true };
	struct live live;
	uint16_t port = 0, dns = DNS_PORT;
	int listener, server, name_server, client;

	go_live(&live, RULE("refuse: denied"));
	listener = listen_everywhere(&port);
	name_server = listen_everywhere(&dns);
	client = reach(INADDR_LOOPBACK, DNS_PORT);
	server = accept_on(name_server);
	for (size_t i = 0; i < COUNT(alone); i++) {
		const uint32_t address = 0x7f040001 + i;
		uint8_t message[512];
		size_t size = put_answer(message + 2, "x.a.test", address, 60);

		put16(message, size);
		say(server, message, alone[i] ? 2 : size + 2);
		cr_assert_gt(hears(client, PATIENT), 0);
		if (alone[i]) {
			say(server, message + 2, size);
			cr_assert_gt(hears(client, PATIENT), 0);
		}
		cr_expect_eq(meets(address, port), EPERM, "answer %zu, the length %s", i, alone[i] ? "alone" : "in front");
	}
	close(client);
	close(server);
	close(name_server);
	close(listener);
	live_ends(&live);
}

/* ---- a ClientHello --------------------------------------------------------------------------------------------------- */

/* One that is as long as those of today, the name at its end: handshake header, version, random, ... Its size. */
static size_t put_hello(uint8_t *message, const char *name)
{
	const size_t length = strlen(name);
	uint8_t *to = message + 4, *extensions;

	to = put16(to, 0x0303);
	memset(to, 7, 32);
	to += 32;
	*to++ = 0;                          /* session id */
	to = put16(put16(to, 2), 0x1301);   /* cipher suites */
	to = put16(put16(to, 0x0100), 0);   /* compression methods; the extensions' length */
	extensions = to;
	to = put16(put16(to, 51), 1200);    /* a key share */
	memset(to, 9, 1200);
	to += 1200;
	to = put16(put16(put16(to, 0), length + 5), length + 3); /* server_name */
	*to++ = 0;
	to = put16(to, length);
	memcpy(to, name, length);
	to += length;
	put16(extensions - 2, to - extensions);
	message[0] = 1;
	message[1] = 0;
	put16(message + 2, to - message - 4);
	return to - message;
}

/* The message in TLS records of `record` bytes each. */
static size_t put_records(uint8_t *to, const uint8_t *message, size_t size, size_t record)
{
	uint8_t *begin = to;

	for (size_t at = 0; at < size; at += record) {
		size_t part = size - at < record ? size - at : record;

		to[0] = 22;
		to = put16(put16(to + 1, 0x0301), part);
		memcpy(to, message + at, part);
		to += part;
	}
	return to - begin;
}

/* What becomes of a connection whose client says this, in segments of `segment` bytes. */
static bool is_reset(int listener, uint16_t port, const uint8_t *data, size_t size, size_t segment)
{
	int client = reach(INADDR_LOOPBACK, port), server = accept_on(listener);
	bool reset = false;
	size_t came = 0;

	for (size_t at = 0; at < size && !reset; at += segment) {
		size_t part = size - at < segment ? size - at : segment;

		if (send(client, data + at, part, MSG_NOSIGNAL) < 0) {
			reset = true;
			break;
		}
		/* The next segment leaves when this one has come, so that none are merged. */
		while (came < at + part && !reset) {
			char buffer[8192];
			int got = hear_within(server, buffer, sizeof(buffer), 20);

			came += got > 0 ? got : 0;
			reset = hear_within(client, buffer, sizeof(buffer), 0) == -ECONNRESET;
		}
	}
	if (!reset)
		cr_expect_eq(came, size, "%zu of %zu bytes came", came, size);
	close(client);
	close(server);
	return reset;
}

Test(names, a_hello_in_any_pieces)
{
	static const struct {
		const char *name;
		bool meant;
	} cases[] = { { "x.a.test", true }, { "X.A.TEST", true }, { "xa.test", false }, { "a.test", false } };
	static const size_t records[] = { 16000, 700, 100, 60 }, segments[] = { 16000, 1000, 333 };
	struct chaos_stats s;
	struct live live;
	uint64_t resets = 0;
	uint16_t port = 0;
	int listener;

	go_live(&live, RULE("reset: true"));
	listener = listen_everywhere(&port);
	for (size_t i = 0; i < COUNT(cases) * COUNT(records) * COUNT(segments); i++) {
		const size_t record = records[i / COUNT(cases) % COUNT(records)], segment = segments[i / COUNT(cases) / COUNT(records)];
		const bool meant = cases[i % COUNT(cases)].meant;
		uint8_t message[2048], data[4096];
		size_t size = put_hello(message, cases[i % COUNT(cases)].name);

		size = put_records(data, message, size, record);
		resets += meant;
		cr_expect_eq(is_reset(listener, port, data, size, segment), meant, "%s, records of %zu, segments of %zu bytes",
			     cases[i % COUNT(cases)].name, record, segment);
	}
	s = stats_of_rule(&live.l, 0);
	cr_expect_eq(s.injected, resets, "%llu injected, %lu were reset", s.injected, resets);
	cr_expect_eq(s.matched, s.injected + skips(&s));
	close(listener);
	live_ends(&live);
}

/* More records in a segment than are read, and what is no handshake between them: it goes by its address, which is nobody's. */
Test(names, a_hello_that_cannot_be_read)
{
	uint8_t message[2048], data[8192];
	struct live live;
	size_t size = put_hello(message, "x.a.test"), first;
	uint16_t port = 0;
	int listener;

	go_live(&live, RULE("reset: true"));
	listener = listen_everywhere(&port);
	first = put_records(data, message, size, 5);
	cr_expect_not(is_reset(listener, port, data, first, sizeof(data)), "in records of five bytes");
	first = put_records(data, message, 60, 60);
	size = first + put_records(data + first, message, size, size);
	data[first] = 23; /* application data */
	cr_expect_not(is_reset(listener, port, data, size, sizeof(data)), "with something else in between");
	close(listener);
	live_ends(&live);
}
