/* SPDX-License-Identifier: GPL-2.0-only */
/* Where the kernel asks before it does an operation of `errno`: its security hooks, and our programs in them. */
#ifndef USER_OPERATION_H
#define USER_OPERATION_H

#include <stdbool.h>

#include "bpf/chaos.h"

/* One program; several operations may come by the same hook. */
struct operation_hook {
	const char *program;
	const char *function;    /* of the kernel */
	unsigned int operations; /* set of 1 << enum chaos_operation */
};

extern const struct operation_hook operation_hooks[]; /* ends with program NULL */

/* What a connection cannot do that is reset inside its process. */
#define OPERATIONS_INSIDE (1U << CHAOS_SEND | 1U << CHAOS_RECEIVE)

/* The first hook of the operation that this kernel does not have; NULL: it has them all. */
const char *operation_missing(enum chaos_operation operation);

/* Has the operation a file, of which a rule may name the path? */
bool operation_has_path(enum chaos_operation operation);

/* What a user should know who makes it fail, a phrase. */
const char *operation_note(enum chaos_operation operation, int error);

#endif
