/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A load that is attached for good: to a cgroup and the loopback device of a network namespace, both the test's own, so
 * that nobody else is touched. The test is client and server at once.
 */
#ifndef TESTS_BPF_LIVE_H
#define TESTS_BPF_LIVE_H

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/bpf/loaded.h"
#include "user/engine/device.h"
#include "user/engine/tcprog.h"

#define LO 1

static char live_cgroup[320];

static inline void live_enter(const char *cgroup)
{
	char path[400], pid[16];
	int fd;

	snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	cr_assert_geq(fd, 0, "%s: %s", path, strerror(errno));
	cr_assert_eq(write(fd, pid, snprintf(pid, sizeof(pid), "%d", getpid())) > 0, true, "%s: %s", path, strerror(errno));
	close(fd);
}

/* For a suite's .init and .fini. */
static inline void live_world(void)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd;

	need_bpf();
	if (!features.has[FEATURE_CGROUP2])
		cr_skip_test("no cgroup v2 here: %s", features.why_not[FEATURE_CGROUP2]);
	if (!features.has[FEATURE_TCX])
		cr_skip_test("no TCX here: %s", features.why_not[FEATURE_TCX]);
	snprintf(live_cgroup, sizeof(live_cgroup), "%s/chaos-test-%d", features.cgroup2_mount, getpid());
	if (mkdir(live_cgroup, 0755))
		cr_skip_test("cannot make %s: %s", live_cgroup, strerror(errno));
	live_enter(live_cgroup);
	cr_assert_eq(unshare(CLONE_NEWNET), 0);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(ioctl(fd, SIOCSIFFLAGS, &request), 0, "lo: %s", strerror(errno));
	close(fd);
	begin_random();
}

static inline void live_world_ends(void)
{
	if (!live_cgroup[0])
		return;
	live_enter(features.cgroup2_mount);
	rmdir(live_cgroup);
}

struct live {
	struct loaded l;
	int links[TCPROG_PLACE_COUNT];
};

/* The socket hooks of the load see sockets made from now on. */
static inline void go_live(struct live *live, const char *source)
{
	struct chaos_device_key key = { .ifindex = LO };
	struct chaos_device device = { .flags = CHAOS_DEVICE_SEEN | CHAOS_DEVICE_EGRESS | CHAOS_DEVICE_INGRESS | CHAOS_DEVICE_ANSWER };
	struct error err = { 0 };
	struct chaos_sock kept;
	struct netns netns;
	int fd;

	load(&live->l, source);
	cr_assert_eq(engine_attach(&live->l.engine, live_cgroup, &err), 0, "%s", err.text);
	cr_assert_eq(netns_of_pid(getpid(), &netns, &err), 0, "%s", err.text);
	live->links[0] = live->links[1] = live->links[2] = -1;
	if (live->l.engine.egress_fd >= 0)
		live->links[0] = tcprog_link(&netns, LO, TCPROG_EGRESS, live->l.engine.egress_fd, NULL);
	if (live->l.engine.ingress_fd >= 0)
		live->links[1] = tcprog_link(&netns, LO, TCPROG_INGRESS, live->l.engine.ingress_fd, NULL);
	if (live->l.engine.answer_fd >= 0)
		live->links[2] = tcprog_link(&netns, LO, TCPROG_ANSWER, live->l.engine.answer_fd, NULL);
	netns_close(&netns);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bpf_map_lookup_elem(live->l.engine.sock_fd, &fd, &kept), 0);
	close(fd);
	key.netns = kept.owner.netns;
	cr_assert_eq(bpf_map_update_elem(engine_map(&live->l.engine, "chaos_devices"), &key, &device, BPF_ANY), 0);
}

static inline void live_ends(struct live *live)
{
	for (size_t i = 0; i < COUNT(live->links); i++)
		if (live->links[i] >= 0)
			close(live->links[i]);
	unload(&live->l);
}

/* ---- the two ends ---------------------------------------------------------------------------------------------- */

struct ends {
	int listener, client, server;
	int family;
};

static inline void be_patient(int fd, int ms)
{
	struct timeval time = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };

	cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)), 0);
	cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time)), 0);
}

static inline struct ends meet(int family)
{
	struct sockaddr_in6 address = { .sin6_family = family };
	socklen_t size = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(address);
	struct ends e = { .family = family };
	int one = 1;

	if (family == AF_INET)
		((struct sockaddr_in *)&address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		address.sin6_addr = in6addr_loopback;
	e.listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(e.listener, (void *)&address, size), 0, "%s", strerror(errno));
	cr_assert_eq(listen(e.listener, 5), 0);
	cr_assert_eq(getsockname(e.listener, (void *)&address, &size), 0);
	e.client = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	be_patient(e.client, 10000);
	cr_assert_eq(connect(e.client, (void *)&address, size), 0, "%s", strerror(errno));
	e.server = accept4(e.listener, NULL, NULL, SOCK_CLOEXEC);
	cr_assert_geq(e.server, 0);
	be_patient(e.server, 10000);
	setsockopt(e.client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(e.server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return e;
}

static inline void part_company(const struct ends *e)
{
	close(e->client);
	close(e->server);
	close(e->listener);
}

static inline void say(int fd, const void *text, size_t size)
{
	cr_assert_eq(send(fd, text, size, MSG_NOSIGNAL), (ssize_t)size, "%s", strerror(errno));
}

/* What has come within `ms`: its size, 0 at the end of the stream, or a negative errno. */
static inline int hear_within(int fd, void *buffer, size_t size, int ms)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	ssize_t got;

	if (poll(&wait, 1, ms) == 0)
		return -EAGAIN;
	got = recv(fd, buffer, size, MSG_DONTWAIT);
	return got < 0 ? -errno : got;
}

static inline int hears(int fd, int ms)
{
	char buffer[65536];

	return hear_within(fd, buffer, sizeof(buffer), ms);
}

#endif
