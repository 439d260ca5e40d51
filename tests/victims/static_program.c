/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A program with the runtime linked in, which is what nvcc does unless told otherwise: its functions are local symbols.
 *
 *	static-gpu COUNT [THREADS]    each thread allocates so often; prints "ok N failed N bodies N"
 *
 * Waits for a byte on its standard input before it begins, so that a test can load its rules meanwhile.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static unsigned long bodies, succeeded, failed;
static long count;

/* As in a library: not inlined, and not made anew for the one size that it is called with. */
__attribute__((noipa)) static int cudaMalloc(void **out, size_t size)
{
	__atomic_fetch_add(&bodies, 1, __ATOMIC_RELAXED);
	*out = malloc(1);
	asm volatile("" ::"r"(size) : "memory");
	return *out ? 0 : 2;
}

static void *run(void *arg)
{
	(void)arg;
	for (long i = 0; i < count; i++) {
		void *memory = NULL;
		int error = cudaMalloc(&memory, 1 << 20);

		if (error == 0)
			__atomic_fetch_add(&succeeded, 1, __ATOMIC_RELAXED);
		else if (error == 2 && !memory)
			__atomic_fetch_add(&failed, 1, __ATOMIC_RELAXED);
		free(memory);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = argc > 2 ? atoi(argv[2]) : 1;
	pthread_t ids[64];
	char byte;

	count = argc > 1 ? atol(argv[1]) : 1;
	puts("ready");
	fflush(stdout);
	if (read(0, &byte, 1) != 1)
		return 1;
	for (int i = 0; i < threads && i < 64; i++)
		pthread_create(&ids[i], NULL, run, NULL);
	for (int i = 0; i < threads && i < 64; i++)
		pthread_join(ids[i], NULL);
	printf("ok %lu failed %lu bodies %lu\n", succeeded, failed, bodies);
	return 0;
}
