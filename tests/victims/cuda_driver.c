/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A stand-in for libcuda.so.1: the functions of the driver that allocate, with the true signatures and results, and memory
 * of a device that does not exist. It counts how often their bodies ran, which is what a fault must prevent.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#define MEMORY (80ULL << 30)

enum { SUCCESS, INVALID_VALUE, OUT_OF_MEMORY };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t held;
static unsigned long bodies;

struct block {
	size_t size;
};

/* The address is that of a record of its size: nothing ever reads the memory itself. */
static int take(void **out, size_t size)
{
	struct block *block = malloc(sizeof(*block));
	int result = OUT_OF_MEMORY;

	pthread_mutex_lock(&lock);
	bodies++;
	if (block && held + size <= MEMORY) {
		held += size;
		block->size = size;
		*out = block;
		result = SUCCESS;
	}
	pthread_mutex_unlock(&lock);
	if (result)
		free(block);
	return result;
}

int cuMemAlloc_v2(void **out, size_t size)
{
	return take(out, size);
}

int cuMemCreate(void **out, size_t size, const void *properties, unsigned long long flags)
{
	(void)properties;
	(void)flags;
	return take(out, size);
}

int cuMemFree_v2(void *address)
{
	struct block *block = address;

	if (!block)
		return SUCCESS;
	pthread_mutex_lock(&lock);
	held -= block->size;
	pthread_mutex_unlock(&lock);
	free(block);
	return SUCCESS;
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	pthread_mutex_lock(&lock);
	*free_bytes = MEMORY - held;
	*total = MEMORY;
	pthread_mutex_unlock(&lock);
	return SUCCESS;
}

/* Of the stand-in alone: allocations whose bodies ran. */
unsigned long standin_bodies(void)
{
	return __atomic_load_n(&bodies, __ATOMIC_RELAXED);
}
