/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sockets older than the load: their owners are looked up in /proc and written to the state that the kernel keeps with
 * each, so that a connection pool which was there first is as well known as what is opened later.
 */
#ifndef USER_SEED_H
#define USER_SEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "user/base/error.h"
#include "user/base/process.h"
#include "user/tables/tables.h"

/* A TCP or UDP socket that somebody holds. */
struct seed_socket {
	int fd; /* ours for the time being */
	const struct process *process;
	enum chaos_side side;
	bool stream;
	bool spared;    /* of the session that runs us */
	uint64_t netns; /* cookie of its namespace; 0: not known */
};

/* What is done with them. */
struct seed {
	/* Of several processes that hold a socket, the one for which this is largest is its owner. */
	unsigned int (*named)(const struct process *process, void *arg);
	/* True: it counts. */
	bool (*write)(const struct seed_socket *socket, void *arg);
	void *arg;
};

/* Calls write() for every socket of every process. `netns_fd`: as sock_map_fd below, or -1: namespaces stay 0. */
int seed_each(const struct seed *seed, const struct process_list *processes, int netns_fd, size_t *count,
	      struct error *err);

/*
 * Writes owners into the map `sock_map_fd` for every TCP and UDP socket of every process that has none yet. A socket
 * that several processes hold (fork) goes to one that a rule names, if any does. *count: how many were written.
 * Needs pidfd_getfd (5.6); a process that ends meanwhile is passed over.
 */
int seed_sockets(int sock_map_fd, const struct tables *tables, const struct process_list *processes, size_t *count,
		 struct error *err);

#endif
