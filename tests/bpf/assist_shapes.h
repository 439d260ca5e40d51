/* SPDX-License-Identifier: GPL-2.0-only */
/* Functions whose first instructions are of every kind, and a caller that notices what they leave behind. */
#ifndef TESTS_BPF_ASSIST_SHAPES_H
#define TESTS_BPF_ASSIST_SHAPES_H

#include <stddef.h>
#include <stdint.h>

#define SHAPE_RESULT 7 /* what each of them returns by itself */

struct shape {
	const char *name;
	long (*function)(void);
	const char *ret; /* a `ret` of it; NULL: none of its own */
};
extern const struct shape shapes[];
extern const size_t shape_count;

/* Calls it, and adds to *bad what is wrong afterwards: stack pointer, callee-saved registers, flags. */
long checked_call(long (*function)(void), uint64_t *bad);

/* Where in the file of the running program an address is. */
size_t file_offset(const void *address);

#endif
