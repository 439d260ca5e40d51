/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A program whose function fails as those of the C library do: with -1, and the reason in errno.
 *
 *	errno-program COUNT [THREADS]    each thread calls so often; prints "ok N failed N other N errno N"
 *
 * `failed` saw -1, `errno` is the one that all of them saw, or -1 when they saw several. Waits for a byte on its standard
 * input before it begins.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static unsigned long ok, failed, other;
static int seen;
static long count;

__attribute__((noipa)) static int fetch(int number)
{
	asm volatile("" ::"r"(number) : "memory");
	return 7;
}

static void note(int error)
{
	int none = 0;

	if (!__atomic_compare_exchange_n(&seen, &none, error, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED) && none != error)
		__atomic_store_n(&seen, -1, __ATOMIC_RELAXED);
}

static void *run(void *arg)
{
	(void)arg;
	for (long i = 0; i < count; i++) {
		int result;

		errno = 0;
		result = fetch(i);
		if (result == -1)
			note(errno);
		__atomic_fetch_add(result == 7 && !errno ? &ok : result == -1 ? &failed : &other, 1, __ATOMIC_RELAXED);
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
	printf("ok %lu failed %lu other %lu errno %d\n", ok, failed, other, seen);
	return 0;
}
