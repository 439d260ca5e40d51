// SPDX-License-Identifier: GPL-2.0-only
#include "user/base/memory.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 16384

struct memory {
	struct memory *next;
	size_t used, size;
	alignas(max_align_t) char bytes[];
};

void *memory_take(struct memory **memory, size_t size)
{
	struct memory *block = *memory;
	void *piece;

	size = (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
	if (!block || block->size - block->used < size) {
		size_t room = size > BLOCK ? size : BLOCK;

		block = malloc(sizeof(*block) + room);
		if (!block)
			return NULL;
		*block = (struct memory){ .next = *memory, .size = room };
		*memory = block;
	}
	piece = block->bytes + block->used;
	block->used += size;
	return memset(piece, 0, size);
}

char *memory_text(struct memory **memory, const char *text)
{
	size_t size = strlen(text) + 1;
	char *copy = memory_take(memory, size);

	return copy ? memcpy(copy, text, size) : NULL;
}

void memory_free(struct memory **memory)
{
	while (*memory) {
		struct memory *next = (*memory)->next;

		free(*memory);
		*memory = next;
	}
}
