/* SPDX-License-Identifier: GPL-2.0-only */
/* Many small pieces of memory that are freed together. Memory that runs out is NULL, and everything is as before. */
#ifndef USER_MEMORY_H
#define USER_MEMORY_H

#include <stddef.h>

struct memory;

/* Zeroed, aligned for anything. *memory begins as NULL. */
void *memory_take(struct memory **memory, size_t size);
char *memory_text(struct memory **memory, const char *text);

/* Frees all of it; *memory is NULL then. */
void memory_free(struct memory **memory);

#endif
