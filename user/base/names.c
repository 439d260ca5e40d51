// SPDX-License-Identifier: GPL-2.0-only
#include "user/base/names.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bpf/chaos.h"

#define MAX_ERRNO 4095

#define TABLE(name, count, ...)                           \
	const char *const name[] = { __VA_ARGS__, NULL }; \
	_Static_assert(sizeof(name) / sizeof(name[0]) == (count) + 1, #name " must name every value")

TABLE(fault_names, CHAOS_FAULT_COUNT, "drop", "delay", "refuse", "reset", "accept-silence", "tls-stall", "duplicate",
      "corrupt", "reorder", "half-open", "rate", "tokens", "dns", "break-after", "status", "body", "hang",
      "error-event", "drop-done", "garble", "grpc", "gpu-oom", "call", "errno");
TABLE(dns_names, CHAOS_DNS_COUNT, "nxdomain", "servfail", "timeout", "empty");
TABLE(per_names, CHAOS_PER_COUNT, "connection", "packet", "request", "call");
TABLE(break_how_names, CHAOS_BREAK_HOW_COUNT, "reset", "close", "stall", "clean");
TABLE(distribution_names, CHAOS_DISTRIBUTION_COUNT, "uniform", "normal", "pareto");
TABLE(loss_names, CHAOS_LOSS_COUNT, "chance", "every", "burst");
TABLE(grpc_names, GRPC_STATUSES, "unavailable", "resource-exhausted", "cancelled", "internal", "permission-denied");
const unsigned char grpc_codes[GRPC_STATUSES] = { 7, 11, 8, 2, 12 }; /* RFC 9113, section 7 */

TABLE(form_names, CHAOS_FORM_KIND_COUNT, "keep", "close", "digits", "none", "shut");
TABLE(side_names, CHAOS_SIDE_COUNT, "unknown", "client", "server");
TABLE(skip_names, CHAOS_SKIP_COUNT, "percent", "max-hits", "max-rate", "observe", "ssh", "device", "encrypted",
      "assist", "no-room", "unread");
TABLE(operation_names, CHAOS_OPERATION_COUNT, "open", "create", "read", "write", "mmap", "memory", "connect", "send",
      "receive", "socket", "ioctl", "fork", "thread", "exec");
TABLE(protocol_names, CHAOS_PROTOCOL_COUNT, "tcp", "udp");

/* One errno for each word on every kernel: 5.10 can only give those that a rewritten destination leads to. */
const int refuse_errnos[] = { ECONNREFUSED, ETIMEDOUT, ENETUNREACH, EPERM };
TABLE(refuse_names, sizeof(refuse_errnos) / sizeof(refuse_errnos[0]), "refused", "timeout", "unreachable", "denied");

const char *grpc_name(unsigned int code)
{
	for (unsigned int i = 0; i < GRPC_STATUSES; i++) {
		if (grpc_codes[i] == code)
			return grpc_names[i];
	}
	return "unknown";
}

const char *fault_word(unsigned int fault)
{
	return fault_names[fault == CHAOS_BREAK_CLEAN ? CHAOS_BREAK_AFTER : fault];
}

int name_index(const char *const *names, const char *word)
{
	for (int i = 0; names[i]; i++) {
		if (strcmp(names[i], word) == 0)
			return i;
	}
	return -1;
}

int errno_of_name(const char *name)
{
	for (int error = 1; error < MAX_ERRNO; error++) {
		const char *known = strerrorname_np(error);

		if (known && strcmp(known, name) == 0)
			return error;
	}
	return 0;
}

const char *const *errno_names(void)
{
	static const char *names[256];
	size_t count = 0;

	for (int error = 1; error < MAX_ERRNO && count + 1 < sizeof(names) / sizeof(names[0]); error++) {
		names[count] = strerrorname_np(error);
		count += names[count] != NULL;
	}
	names[count] = NULL;
	return names;
}

const char *errno_name(int error)
{
	static char unknown[32];
	const char *name = strerrorname_np(error);

	if (name)
		return name;
	snprintf(unknown, sizeof(unknown), "errno %d", error);
	return unknown;
}
