// SPDX-License-Identifier: GPL-2.0-only
/*
 * The library whose function is called, and, compiled with PRELOAD, one that takes its place as people do today with
 * LD_PRELOAD. An allocation that only counts: what is measured is the way there.
 */
#include <stddef.h>

#ifdef PRELOAD
int cudaMalloc(void **out, size_t size)
{
	(void)out;
	(void)size;
	return 2;
}
#else
static size_t held;

int cudaMalloc(void **out, size_t size)
{
	held += size;
	*out = &held;
	return 0;
}
#endif
