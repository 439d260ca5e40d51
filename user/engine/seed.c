// SPDX-License-Identifier: GPL-2.0-only
#include "user/engine/seed.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "user/base/clock.h"
#include "user/engine/prepare.h"

/* A socket and the process that is to be its owner. */
struct candidate {
	uint64_t inode;
	const struct process *process;
	int fd;             /* in that process */
	unsigned int named; /* how much it is asked for */
	bool stream, listening, connected;
	uint16_t port;
	uint64_t netns;
};

struct seeder {
	int netns_fd; /* a map of sockets' storage, for the cookies of namespaces; -1: nobody wants them */
	const struct seed *seed;
	const struct process_list *processes;
	struct candidate *list;
	size_t count, room;
	struct listener {
		uint64_t netns;
		uint16_t port;
	} * listeners; /* sorted */
	size_t listeners_count;
	struct {
		uint64_t inode, cookie;
	} spaces[256];
	size_t spaces_count;
};

static int add(struct seeder *s, const struct candidate *c)
{
	if (s->count == s->room) {
		size_t room = s->room ? 2 * s->room : 256;
		struct candidate *more = realloc(s->list, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		s->list = more;
		s->room = room;
	}
	s->list[s->count++] = *c;
	return 0;
}

/* All sockets that a process holds, as /proc shows them: "socket:[12345]". */
static int scan_process(struct seeder *s, const struct process *p)
{
	struct candidate c = { .process = p, .named = s->seed->named(p, s->seed->arg) };
	struct dirent *entry;
	char path[64], link[64];
	int ret = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%u/fd", p->pid);
	dir = opendir(path);
	if (!dir)
		return 0;
	while (!ret && (entry = readdir(dir))) {
		ssize_t len = readlinkat(dirfd(dir), entry->d_name, link, sizeof(link) - 1);

		if (len <= 8)
			continue;
		link[len] = '\0';
		if (strncmp(link, "socket:[", 8) != 0)
			continue;
		c.inode = strtoull(link + 8, NULL, 10);
		c.fd = atoi(entry->d_name);
		ret = add(s, &c);
	}
	closedir(dir);
	return ret;
}

/* One entry a socket: the process that is asked for most, among equals the one with the lowest pid. */
static int by_socket(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->inode != y->inode)
		return x->inode < y->inode ? -1 : 1;
	if (x->named != y->named)
		return x->named > y->named ? -1 : 1;
	return x->process->pid < y->process->pid ? -1 : x->process->pid > y->process->pid;
}

static void keep_one_owner(struct seeder *s)
{
	size_t kept = 0;

	if (!s->count)
		return;
	qsort(s->list, s->count, sizeof(*s->list), by_socket);
	for (size_t i = 0; i < s->count; i++) {
		if (!i || s->list[i].inode != s->list[kept - 1].inode)
			s->list[kept++] = s->list[i];
	}
	s->count = kept;
}

static int borrow(const struct candidate *c)
{
	int pidfd = syscall(SYS_pidfd_open, c->process->pid, 0), fd;

	if (pidfd < 0)
		return -errno;
	fd = syscall(SYS_pidfd_getfd, pidfd, c->fd, 0);
	if (fd < 0)
		fd = -errno;
	close(pidfd);
	return fd;
}

static bool is_inet(int fd)
{
	int domain = 0, type = 0;
	socklen_t len = sizeof(domain);

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) || (domain != AF_INET && domain != AF_INET6))
		return false;
	len = sizeof(type);
	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && (type == SOCK_STREAM || type == SOCK_DGRAM);
}

static uint16_t local_port(int fd)
{
	struct sockaddr_storage address = { 0 };
	socklen_t len = sizeof(address);

	if (getsockname(fd, (struct sockaddr *)&address, &len))
		return 0;
	return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
						   : ((struct sockaddr_in *)&address)->sin_port);
}

static bool is_listening(int fd)
{
	int listening = 0;
	socklen_t len = sizeof(listening);

	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) == 0 && listening;
}

static bool is_stream(int fd)
{
	int type = 0;
	socklen_t len = sizeof(type);

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM;
}

static bool is_connected(int fd)
{
	struct sockaddr_storage address;
	socklen_t len = sizeof(address);

	return getpeername(fd, (struct sockaddr *)&address, &len) == 0;
}

/* A socket stays in the namespace it was made in, wherever its process has gone since. */
static void look_up_netns(struct seeder *s, struct candidate *c, int fd)
{
	struct netns netns = { .fd = ioctl(fd, SIOCGSKNS) };
	struct stat st;
	uint64_t cookie;

	c->netns = c->process->netns;
	if (netns.fd < 0)
		return;
	if (fstat(netns.fd, &st) == 0)
		c->netns = st.st_ino;
	for (size_t i = 0; i < s->spaces_count; i++) {
		if (s->spaces[i].inode == c->netns) {
			close(netns.fd);
			return;
		}
	}
	netns.inode = c->netns;
	cookie = s->netns_fd < 0 ? 0 : netns_cookie(&netns, s->netns_fd);
	close(netns.fd);
	if (s->spaces_count < sizeof(s->spaces) / sizeof(s->spaces[0])) {
		s->spaces[s->spaces_count].inode = c->netns;
		s->spaces[s->spaces_count++].cookie = cookie;
	}
}

static uint64_t cookie_of(const struct seeder *s, uint64_t netns)
{
	for (size_t i = 0; i < s->spaces_count; i++) {
		if (s->spaces[i].inode == netns)
			return s->spaces[i].cookie;
	}
	return 0;
}

static void look_at_each(struct seeder *s)
{
	for (size_t i = 0; i < s->count; i++) {
		struct candidate *c = &s->list[i];
		int fd = borrow(c);

		if (fd < 0)
			continue;
		if (is_inet(fd)) {
			c->port = local_port(fd);
			c->stream = is_stream(fd);
			c->listening = is_listening(fd);
			c->connected = is_connected(fd);
			look_up_netns(s, c, fd);
		}
		close(fd);
	}
}

static int by_listener(const void *a, const void *b)
{
	const struct listener *x = a, *y = b;

	if (x->netns != y->netns)
		return x->netns < y->netns ? -1 : 1;
	return (x->port > y->port) - (x->port < y->port);
}

/* Servers are known by their listeners: what has a listener's port was accepted there. */
static int find_listeners(struct seeder *s)
{
	s->listeners = calloc(s->count + 1, sizeof(*s->listeners));
	if (!s->listeners)
		return -ENOMEM;
	for (size_t i = 0; i < s->count; i++) {
		const struct candidate *c = &s->list[i];

		if (c->listening)
			s->listeners[s->listeners_count++] = (struct listener){ c->netns, c->port };
	}
	qsort(s->listeners, s->listeners_count, sizeof(*s->listeners), by_listener);
	return 0;
}

static bool has_listener(const struct seeder *s, const struct candidate *c)
{
	struct listener wanted = { c->netns, c->port };

	return bsearch(&wanted, s->listeners, s->listeners_count, sizeof(wanted), by_listener);
}

/* Ports that the kernel gives to those who ask for none. */
static bool is_ephemeral(uint16_t port)
{
	static unsigned int first, last;
	FILE *file;

	if (!last) {
		first = 32768;
		last = 60999;
		file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
		if (file && fscanf(file, "%u %u", &first, &last) != 2)
			last = 60999;
		if (file)
			fclose(file);
	}
	return port >= first && port <= last;
}

/* UDP has no listeners: a fixed port and no peer is a server's; else the kernel sees who speaks first. */
static enum chaos_side side_of(const struct seeder *s, const struct candidate *c)
{
	if (c->stream)
		return c->listening || has_listener(s, c) ? CHAOS_SIDE_SERVER : CHAOS_SIDE_CLIENT;
	if (c->connected)
		return CHAOS_SIDE_CLIENT;
	return c->port && !is_ephemeral(c->port) ? CHAOS_SIDE_SERVER : CHAOS_SIDE_UNKNOWN;
}

static bool is_ssh_server(const struct process *p)
{
	return strncmp(p->comm, "sshd", 4) == 0 || strncmp(p->comm, "dropbear", 8) == 0;
}

/* Is this the process by which the person who runs us is logged in? */
static bool is_own_session(const struct seeder *s, const struct process *p)
{
	return is_ssh_server(p) && process_descends(s->processes, getpid(), p->pid);
}

/* "client port server port" of the environment of `pid`; sudo drops it from ours, but not from the shell's. */
static bool session_address(pid_t pid, char *client, unsigned int *port)
{
	char path[64], text[65536];
	ssize_t len, at;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	if (len <= 0)
		return false;
	text[len] = '\0';
	for (at = 0; at < len; at += strlen(text + at) + 1) {
		if (sscanf(text + at, "SSH_CONNECTION=%63s %u", client, port) == 2)
			return true;
	}
	return false;
}

static bool peer_is(int fd, const char *client, unsigned int port)
{
	struct sockaddr_storage address = { 0 };
	socklen_t len = sizeof(address);
	char text[INET6_ADDRSTRLEN] = "";

	if (getpeername(fd, (struct sockaddr *)&address, &len))
		return false;
	if (address.ss_family == AF_INET6) {
		struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&address;

		if (ntohs(v6->sin6_port) != port)
			return false;
		if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
			inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], text, sizeof(text));
		else
			inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
	} else {
		struct sockaddr_in *v4 = (struct sockaddr_in *)&address;

		if (ntohs(v4->sin_port) != port)
			return false;
		inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
	}
	return strcmp(text, client) == 0;
}

static bool find_session(const struct seeder *s, char *client, unsigned int *port)
{
	const struct process *p = process_find(s->processes, getpid());

	for (int i = 0; p && i < 64; i++) {
		if (session_address(p->pid, client, port))
			return true;
		p = process_find(s->processes, p->parent);
	}
	return false;
}

int seed_each(const struct seed *seed, const struct process_list *processes, int netns_fd, size_t *count,
	      struct error *err)
{
	struct seeder *s = calloc(1, sizeof(*s));
	unsigned int session_port = 0;
	char session_client[64] = "";
	bool session;
	int ret = 0;

	*count = 0;
	if (!s)
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	*s = (struct seeder){ .netns_fd = netns_fd, .seed = seed, .processes = processes };
	for (size_t i = 0; i < processes->count && !ret; i++)
		ret = scan_process(s, &processes->entries[i]);
	if (!ret) {
		keep_one_owner(s);
		look_at_each(s);
		ret = find_listeners(s);
	}
	if (ret) {
		error_set(err, ret, EXIT_FAILED, "out of memory");
		goto out;
	}
	session = find_session(s, session_client, &session_port);
	for (size_t i = 0; i < s->count; i++) {
		struct candidate *c = &s->list[i];
		struct seed_socket found = { .process = c->process };
		int fd = borrow(c);

		if (fd < 0)
			continue;
		if (is_inet(fd)) {
			found.fd = fd;
			found.stream = c->stream;
			found.side = side_of(s, c);
			found.netns = cookie_of(s, c->netns);
			found.spared =
				is_own_session(s, c->process) || (session && peer_is(fd, session_client, session_port));
			*count += seed->write(&found, seed->arg);
		}
		close(fd);
	}
out:
	free(s->listeners);
	free(s->list);
	free(s);
	return ret;
}

/* ---- for the rules of a load ------------------------------------------------------------------------------------ */

struct load_seed {
	int map_fd;
	const struct tables *tables;
};

/* How many rules could hit a socket of this process. */
static unsigned int rules_naming(const struct process *p, void *arg)
{
	const struct load_seed *load = arg;
	struct chaos_vector rules;
	unsigned int count = 0;

	tables_process_rules(load->tables, p, &rules);
	for (int w = 0; w < CHAOS_WORDS; w++)
		count += __builtin_popcountll(rules.word[w]);
	return count;
}

static bool write_owner(const struct seed_socket *found, void *arg)
{
	const struct load_seed *load = arg;
	struct chaos_sock state = { 0 };

	if (bpf_map_lookup_elem(load->map_fd, &found->fd, &state) == 0 && state.known) {
		if (!found->spared || state.spared)
			return false;
	} else {
		memset(&state, 0, sizeof(state));
		state.known = 1;
		state.side = found->side;
		state.verdict.last_packet_ns = boot_ns(); /* for half-open: before that is unknown */
		state.owner.pid = found->process->pid;
		state.owner.uid = found->process->uid;
		state.owner.cgroup_id = found->process->cgroup_id;
		state.owner.netns = found->netns;
		memcpy(state.owner.comm, found->process->comm, sizeof(state.owner.comm));
		/* A UDP socket's own; of a TCP listener it is noted again with each packet. */
		getsockopt(found->fd, SOL_SOCKET, SO_COOKIE, &state.cookie, &(socklen_t){ sizeof(state.cookie) });
	}
	state.spared = found->spared;
	return bpf_map_update_elem(load->map_fd, &found->fd, &state, BPF_ANY) == 0;
}

int seed_sockets(int sock_map_fd, const struct tables *tables, const struct process_list *processes, size_t *count,
		 struct error *err)
{
	struct load_seed load = { .map_fd = sock_map_fd, .tables = tables };
	const struct seed seed = { .named = rules_naming, .write = write_owner, .arg = &load };

	return seed_each(&seed, processes, sock_map_fd, count, err);
}
