/* SPDX-License-Identifier: GPL-2.0-only */
/* What the programs that make traffic for the bench share. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#define BATCHES_MAX 4096

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static struct sockaddr_in loopback(int port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return address;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/*
 * ns an operation, of the lower tenth of batches that take about a millisecond each: what the machine does when nobody
 * disturbs it.
 */
static double cost(void (*operation)(void), int ms)
{
	static double batch[BATCHES_MAX];
	long long end = now_ns() + ms * 1000000LL, start = now_ns();
	int size, count = 0;

	for (int i = 0; i < 20; i++)
		operation();
	size = (int)(1000000LL * 20 / (now_ns() - start + 1)) + 1;
	while (count < BATCHES_MAX && (count < 5 || now_ns() < end)) {
		start = now_ns();
		for (int i = 0; i < size; i++)
			operation();
		batch[count++] = (double)(now_ns() - start) / size;
	}
	qsort(batch, count, sizeof(batch[0]), compare);
	return batch[count / 10];
}

#endif
