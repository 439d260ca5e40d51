/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A stand-in for libcudart: what PyTorch and others call, on top of the driver's stand-in, as the real one is. Each thread has
 * a last error of its own. cudaMallocManaged calls cudaMalloc, as functions of the real library do: one request is one
 * request, however many functions it passes.
 */
#include <stddef.h>

int cuMemAlloc_v2(void **out, size_t size);
int cuMemFree_v2(void *address);
int cuMemGetInfo_v2(size_t *free_bytes, size_t *total);

struct extent {
	size_t width, height, depth;
};

struct pitched {
	void *address;
	size_t pitch, xsize, ysize;
};

static _Thread_local int last_error;

static int remember(int error)
{
	if (error)
		last_error = error;
	return error;
}

int cudaMalloc(void **out, size_t size)
{
	return remember(cuMemAlloc_v2(out, size));
}

int cudaMallocManaged(void **out, size_t size, unsigned int flags)
{
	(void)flags;
	return cudaMalloc(out, size);
}

int cudaMallocAsync(void **out, size_t size, void *stream)
{
	(void)stream;
	return remember(cuMemAlloc_v2(out, size));
}

int cudaMallocPitch(void **out, size_t *pitch, size_t width, size_t height)
{
	*pitch = width;
	return remember(cuMemAlloc_v2(out, width * height));
}

int cudaMalloc3D(struct pitched *out, struct extent extent)
{
	return remember(cuMemAlloc_v2(&out->address, extent.width * extent.height * extent.depth));
}

int cudaFree(void *address)
{
	return remember(cuMemFree_v2(address));
}

int cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
	return remember(cuMemGetInfo_v2(free_bytes, total));
}

int cudaGetLastError(void)
{
	int error = last_error;

	last_error = 0;
	return error;
}

int cudaPeekAtLastError(void)
{
	return last_error;
}
