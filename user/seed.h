/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sockets older than the load: their owners are looked up in /proc and written to the state that the kernel keeps with
 * each, so that a connection pool which was there first is as well known as what is opened later.
 */
#ifndef USER_SEED_H
#define USER_SEED_H

#include <stddef.h>

#include "user/error.h"
#include "user/process.h"
#include "user/tables.h"

/*
 * Writes owners into the map `sock_map_fd` for every TCP and UDP socket of every process that has none yet. A socket
 * that several processes hold (fork) goes to one that a rule names, if any does. *count: how many were written.
 * Needs pidfd_getfd (5.6); a process that ends meanwhile is passed over.
 */
int seed_sockets(int sock_map_fd, const struct tables *tables, const struct process_list *processes, size_t *count,
		 struct error *err);

#endif
