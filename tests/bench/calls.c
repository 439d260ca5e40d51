// SPDX-License-Identifier: GPL-2.0-only
/*
 * The cost of calls of one library function: `calls LIBRARY FUNCTION MS` prints the nanoseconds of a call, the lower tenth
 * of batches of a thousand, and how many calls in a thousand failed. Begins when a line comes in, so that a rule can be
 * loaded meanwhile; answers each line until there is none.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BATCH   1000
#define BATCHES 20000

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void measure(int (*call)(void **, size_t), double ms)
{
	static double times[BATCHES];
	double end = now_ns() + ms * 1e6;
	unsigned long failed = 0;
	int count = 0;

	do {
		double begun = now_ns();

		for (int i = 0; i < BATCH; i++) {
			void *out = NULL;

			failed += call(&out, 4096) != 0;
		}
		times[count++] = (now_ns() - begun) / BATCH;
	} while (count < BATCHES && now_ns() < end);
	qsort(times, count, sizeof(times[0]), by_value);
	printf("%.1f %lu\n", times[count / 10], failed / count);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	void *library = argc == 4 ? dlopen(argv[1], RTLD_NOW) : NULL;
	/* As a linked program would find it: what is preloaded comes first. */
	int (*call)(void **, size_t) = library ? dlsym(RTLD_DEFAULT, argv[2]) : NULL;
	char line[16];

	if (library && !call)
		call = dlsym(library, argv[2]);
	if (!call) {
		fprintf(stderr, "calls: %s\n", argc == 4 ? dlerror() : "LIBRARY FUNCTION MS");
		return 2;
	}
	while (fgets(line, sizeof(line), stdin))
		measure(call, atof(argv[3]));
	return 0;
}
