/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A program that allocates in a loop and looks after each call at what a function must not change: the registers that belong
 * to its caller, the stack pointer, and the flags.
 *
 *	registers [THREADS]    until its standard input ends, where 'g' lets it go, 's' stops it, and a line has it print
 *	                       "calls N failed N other N registers N"
 *
 * `other` is another result than that of an allocation or of out of memory, or a pointer that was touched by a failure.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../checked_call.h"

int cudaMalloc(void **out, size_t size);
int cudaFree(void *pointer);

static uint64_t calls, failed, other, registers;
static volatile int going, end;

#ifdef __x86_64__

int checked_call(void **out, size_t size, uint64_t *bad, int (*function)(void **, size_t));
CHECKED_CALL("%rcx", "%rdx", "");

#else

static int checked_call(void **out, size_t size, uint64_t *bad, int (*function)(void **, size_t))
{
	(void)bad;
	return function(out, size);
}

#endif

static void add(uint64_t *to, uint64_t value)
{
	__atomic_fetch_add(to, value, __ATOMIC_RELAXED);
}

static void *run(void *arg)
{
	void *const untouched = (void *)0x5a5aUL;

	(void)arg;
	while (!end) {
		void *out = untouched;
		uint64_t bad = 0;
		int error;

		if (!going) {
			usleep(1000);
			continue;
		}
		error = checked_call(&out, 4096, &bad, cudaMalloc);
		add(&calls, 1);
		add(&registers, bad);
		if (error == 2 && out == untouched)
			add(&failed, 1);
		else if (error || out == untouched)
			add(&other, 1);
		else
			cudaFree(out);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 1;
	pthread_t ids[16];
	char byte;

	for (int i = 0; i < threads && i < 16; i++)
		pthread_create(&ids[i], NULL, run, NULL);
	while (read(0, &byte, 1) == 1) {
		if (byte == 'g' || byte == 's')
			going = byte == 'g';
		if (byte != '\n')
			continue;
		printf("calls %lu failed %lu other %lu registers %lu\n", __atomic_load_n(&calls, __ATOMIC_RELAXED),
		       __atomic_load_n(&failed, __ATOMIC_RELAXED), __atomic_load_n(&other, __ATOMIC_RELAXED),
		       __atomic_load_n(&registers, __ATOMIC_RELAXED));
		fflush(stdout);
	}
	end = 1;
	for (int i = 0; i < threads && i < 16; i++)
		pthread_join(ids[i], NULL);
	return 0;
}
