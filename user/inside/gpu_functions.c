// SPDX-License-Identifier: GPL-2.0-only
/*
 * What is not in the table, and why:
 * - cudaGraphAddMemAllocNode and its like: the memory is taken when the graph is launched, with no result of its own.
 * - cudaMemPoolTrimTo, cuMemAddressReserve, cuMemMap: they give back, or arrange, what was allocated elsewhere.
 * - the C++ overloads of cudaMalloc and others: templates in a header that call the C function.
 */
#include "user/inside/gpu_functions.h"

#include <stdlib.h>
#include <string.h>

/* clang-format off */
#define ONE(api, name, memory, size_arg) \
	{ name, api, GPU_ALLOCATE, memory, GPU_SIZE_ONE, size_arg, 0, false, false }
#define RECT(api, name) { name, api, GPU_ALLOCATE, GPU_DEVICE, GPU_SIZE_RECT, 2, 0, false, false }
/* cudaPitchedPtr begins with the pointer, so where it lies is where the pointer is written. */
#define EXTENT(api, name) { name, api, GPU_ALLOCATE, GPU_DEVICE, GPU_SIZE_EXTENT, 1, 0, false, false }
#define UNSIZED(api, name, memory) \
	{ name, api, GPU_ALLOCATE, memory, GPU_SIZE_UNKNOWN, GPU_NO_ARG, 0, false, false }
/* Page-locks what the caller has: no pointer comes back. */
#define REGISTER(api, name) { name, api, GPU_ALLOCATE, GPU_HOST, GPU_SIZE_ONE, 1, GPU_NO_ARG, false, false }
#define FREE(api, name) { name, api, GPU_FREE, GPU_NO_MEMORY, GPU_SIZE_UNKNOWN, GPU_NO_ARG, 0, false, false }
#define INFO(api, name, is_32bit) \
	{ name, api, GPU_INFO, GPU_NO_MEMORY, GPU_SIZE_UNKNOWN, GPU_NO_ARG, GPU_NO_ARG, is_32bit, false }
#define ERROR(api, name, role) \
	{ name, api, role, GPU_NO_MEMORY, GPU_SIZE_UNKNOWN, GPU_NO_ARG, GPU_NO_ARG, false, false }

const struct gpu_function gpu_functions[] = {
	ONE(GPU_RUNTIME, "cudaMalloc", GPU_DEVICE, 1),
	ONE(GPU_RUNTIME, "cudaMallocAsync", GPU_DEVICE, 1),
	ONE(GPU_RUNTIME, "cudaMallocAsync_ptsz", GPU_DEVICE, 1), /* compiled with -default-stream per-thread */
	ONE(GPU_RUNTIME, "cudaMallocFromPoolAsync", GPU_DEVICE, 1),
	ONE(GPU_RUNTIME, "cudaMallocFromPoolAsync_ptsz", GPU_DEVICE, 1),
	RECT(GPU_RUNTIME, "cudaMallocPitch"),
	EXTENT(GPU_RUNTIME, "cudaMalloc3D"),
	ONE(GPU_RUNTIME, "cudaMallocManaged", GPU_MANAGED, 1),
	ONE(GPU_RUNTIME, "cudaMallocHost", GPU_HOST, 1),
	ONE(GPU_RUNTIME, "cudaHostAlloc", GPU_HOST, 1),
	REGISTER(GPU_RUNTIME, "cudaHostRegister"),
	UNSIZED(GPU_RUNTIME, "cudaMallocArray", GPU_ARRAY),
	UNSIZED(GPU_RUNTIME, "cudaMalloc3DArray", GPU_ARRAY),
	UNSIZED(GPU_RUNTIME, "cudaMallocMipmappedArray", GPU_ARRAY),
	UNSIZED(GPU_RUNTIME, "cudaMemPoolCreate", GPU_POOL),
	FREE(GPU_RUNTIME, "cudaFree"),
	FREE(GPU_RUNTIME, "cudaFreeAsync"),
	FREE(GPU_RUNTIME, "cudaFreeAsync_ptsz"),
	FREE(GPU_RUNTIME, "cudaFreeHost"),
	FREE(GPU_RUNTIME, "cudaHostUnregister"),
	FREE(GPU_RUNTIME, "cudaFreeArray"),
	FREE(GPU_RUNTIME, "cudaFreeMipmappedArray"),
	FREE(GPU_RUNTIME, "cudaMemPoolDestroy"),
	INFO(GPU_RUNTIME, "cudaMemGetInfo", false),
	ERROR(GPU_RUNTIME, "cudaGetLastError", GPU_LAST_ERROR),
	ERROR(GPU_RUNTIME, "cudaPeekAtLastError", GPU_PEEK_ERROR),

	ONE(GPU_DRIVER, "cuMemAlloc_v2", GPU_DEVICE, 1),
	ONE(GPU_DRIVER, "cuMemAllocAsync", GPU_DEVICE, 1),
	ONE(GPU_DRIVER, "cuMemAllocAsync_ptsz", GPU_DEVICE, 1),
	ONE(GPU_DRIVER, "cuMemAllocFromPoolAsync", GPU_DEVICE, 1),
	ONE(GPU_DRIVER, "cuMemAllocFromPoolAsync_ptsz", GPU_DEVICE, 1),
	/* Its result is a handle, and what it takes lives until the handle is released and no mapping is left. */
	ONE(GPU_DRIVER, "cuMemCreate", GPU_DEVICE, 1),
	RECT(GPU_DRIVER, "cuMemAllocPitch_v2"),
	ONE(GPU_DRIVER, "cuMemAllocManaged", GPU_MANAGED, 1),
	ONE(GPU_DRIVER, "cuMemAllocHost_v2", GPU_HOST, 1),
	ONE(GPU_DRIVER, "cuMemHostAlloc", GPU_HOST, 1),
	REGISTER(GPU_DRIVER, "cuMemHostRegister_v2"),
	REGISTER(GPU_DRIVER, "cuMemHostRegister"), /* the same arguments as its successor */
	UNSIZED(GPU_DRIVER, "cuArrayCreate_v2", GPU_ARRAY),
	UNSIZED(GPU_DRIVER, "cuArray3DCreate_v2", GPU_ARRAY),
	UNSIZED(GPU_DRIVER, "cuMipmappedArrayCreate", GPU_ARRAY),
	UNSIZED(GPU_DRIVER, "cuArrayCreate", GPU_ARRAY),
	UNSIZED(GPU_DRIVER, "cuArray3DCreate", GPU_ARRAY),
	UNSIZED(GPU_DRIVER, "cuMemPoolCreate", GPU_POOL),
	FREE(GPU_DRIVER, "cuMemFree_v2"),
	FREE(GPU_DRIVER, "cuMemFreeAsync"),
	FREE(GPU_DRIVER, "cuMemFreeAsync_ptsz"),
	FREE(GPU_DRIVER, "cuMemRelease"),
	FREE(GPU_DRIVER, "cuMemFreeHost"),
	FREE(GPU_DRIVER, "cuMemHostUnregister"),
	FREE(GPU_DRIVER, "cuArrayDestroy"),
	FREE(GPU_DRIVER, "cuMipmappedArrayDestroy"),
	FREE(GPU_DRIVER, "cuMemPoolDestroy"),
	INFO(GPU_DRIVER, "cuMemGetInfo_v2", false),
	/* Before CUDA 3.2 sizes and device pointers were unsigned int; such programs still run. */
	{ "cuMemAlloc", GPU_DRIVER, GPU_ALLOCATE, GPU_DEVICE, GPU_SIZE_ONE, 1, 0, true, true },
	{ "cuMemAllocPitch", GPU_DRIVER, GPU_ALLOCATE, GPU_DEVICE, GPU_SIZE_RECT, 2, 0, true, true },
	{ "cuMemAllocHost", GPU_DRIVER, GPU_ALLOCATE, GPU_HOST, GPU_SIZE_ONE, 1, 0, true, false },
	{ "cuMemFree", GPU_DRIVER, GPU_FREE, GPU_NO_MEMORY, GPU_SIZE_UNKNOWN, GPU_NO_ARG, 0, false, true },
	INFO(GPU_DRIVER, "cuMemGetInfo", true),

	ONE(GPU_HIP, "hipMalloc", GPU_DEVICE, 1),
	ONE(GPU_HIP, "hipExtMallocWithFlags", GPU_DEVICE, 1),
	ONE(GPU_HIP, "hipMallocAsync", GPU_DEVICE, 1),
	ONE(GPU_HIP, "hipMallocFromPoolAsync", GPU_DEVICE, 1),
	ONE(GPU_HIP, "hipMemCreate", GPU_DEVICE, 1),
	RECT(GPU_HIP, "hipMallocPitch"),
	RECT(GPU_HIP, "hipMemAllocPitch"),
	EXTENT(GPU_HIP, "hipMalloc3D"),
	ONE(GPU_HIP, "hipMallocManaged", GPU_MANAGED, 1),
	ONE(GPU_HIP, "hipHostMalloc", GPU_HOST, 1),
	ONE(GPU_HIP, "hipHostAlloc", GPU_HOST, 1),
	ONE(GPU_HIP, "hipMallocHost", GPU_HOST, 1),
	ONE(GPU_HIP, "hipMemAllocHost", GPU_HOST, 1),
	REGISTER(GPU_HIP, "hipHostRegister"),
	UNSIZED(GPU_HIP, "hipMallocArray", GPU_ARRAY),
	UNSIZED(GPU_HIP, "hipMalloc3DArray", GPU_ARRAY),
	UNSIZED(GPU_HIP, "hipMallocMipmappedArray", GPU_ARRAY),
	UNSIZED(GPU_HIP, "hipArrayCreate", GPU_ARRAY),
	UNSIZED(GPU_HIP, "hipArray3DCreate", GPU_ARRAY),
	UNSIZED(GPU_HIP, "hipMipmappedArrayCreate", GPU_ARRAY),
	UNSIZED(GPU_HIP, "hipMemPoolCreate", GPU_POOL),
	FREE(GPU_HIP, "hipFree"),
	FREE(GPU_HIP, "hipFreeAsync"),
	FREE(GPU_HIP, "hipMemRelease"),
	FREE(GPU_HIP, "hipHostFree"),
	FREE(GPU_HIP, "hipFreeHost"),
	FREE(GPU_HIP, "hipHostUnregister"),
	FREE(GPU_HIP, "hipFreeArray"),
	FREE(GPU_HIP, "hipFreeMipmappedArray"),
	FREE(GPU_HIP, "hipArrayDestroy"),
	FREE(GPU_HIP, "hipMipmappedArrayDestroy"),
	FREE(GPU_HIP, "hipMemPoolDestroy"),
	INFO(GPU_HIP, "hipMemGetInfo", false),
	ERROR(GPU_HIP, "hipGetLastError", GPU_LAST_ERROR),
	ERROR(GPU_HIP, "hipExtGetLastError", GPU_LAST_ERROR), /* since ROCm 6.0 */
	ERROR(GPU_HIP, "hipPeekAtLastError", GPU_PEEK_ERROR),
};
/* clang-format on */
const size_t gpu_function_count = sizeof(gpu_functions) / sizeof(gpu_functions[0]);
_Static_assert(sizeof(gpu_functions) / sizeof(gpu_functions[0]) <= GPU_MAX_FUNCTIONS, "the table outgrew its limit");

/*
 * How much text of local names is read to find a copy that is linked in. Few libraries have any (they are stripped), so
 * that little is read of most; those that are likely to have a copy may have more.
 */
#define MAX_NAMES        (16u << 20)
#define MAX_LIKELY_NAMES (256u << 20)
static const char *const mentions[] = { "cudaMalloc", "cuMemAlloc", "cuMemCreate", "hipMalloc", NULL };
static const char *const likely_words[] = { "cuda", "hip", "torch", "nccl", "rocm", "gpu", NULL };

const struct gpu_function *gpu_function_find(const char *name)
{
	for (size_t i = 0; i < gpu_function_count; i++) {
		if (strcmp(gpu_functions[i].name, name) == 0)
			return &gpu_functions[i];
	}
	return NULL;
}

const char *gpu_api_name(enum gpu_api api)
{
	static const char *const names[] = {
		[GPU_RUNTIME] = "CUDA runtime",
		[GPU_DRIVER] = "CUDA driver",
		[GPU_HIP] = "HIP",
	};

	return names[api];
}

static unsigned int exported_apis(struct elf_file *elf)
{
	unsigned int apis = 0;

	for (size_t i = 0; i < gpu_function_count; i++) {
		const struct gpu_function *f = &gpu_functions[i];

		if (f->role == GPU_ALLOCATE && !(apis & 1U << f->api) && elf_file_exports(elf, f->name))
			apis |= 1U << f->api;
	}
	return apis;
}

static bool is_likely(const char *base)
{
	for (size_t i = 0; likely_words[i]; i++) {
		if (strcasestr(base, likely_words[i]))
			return true;
	}
	return false;
}

unsigned int gpu_file_apis(struct elf_file *elf, const char *base, bool is_program)
{
	struct elf_function found[GPU_MAX_FUNCTIONS];
	unsigned int apis = exported_apis(elf);
	uint64_t most = is_program || is_likely(base) ? MAX_LIKELY_NAMES : MAX_NAMES;
	struct error err;

	if (apis || !elf_file_mentions(elf, mentions, most))
		return apis;
	if (gpu_file_functions(elf, found, &err) <= 0)
		return 0;
	for (size_t i = 0; i < gpu_function_count; i++) {
		if (gpu_functions[i].role == GPU_ALLOCATE && found[i].problem == ELF_FOUND)
			apis |= 1U << gpu_functions[i].api;
	}
	return apis;
}

/* The same address under an earlier name: two probes there would see each call twice. */
static bool is_alias(const struct elf_function *found, size_t index)
{
	for (size_t i = 0; i < index; i++) {
		if (found[i].problem == ELF_FOUND && found[i].offset == found[index].offset)
			return true;
	}
	return false;
}

int gpu_file_functions(struct elf_file *elf, struct elf_function *found, struct error *err)
{
	const char *names[GPU_MAX_FUNCTIONS];
	int code, count = 0;

	for (size_t i = 0; i < gpu_function_count; i++)
		names[i] = gpu_functions[i].name;
	code = elf_file_find(elf, names, gpu_function_count, found, err);
	if (code)
		return code;
	for (size_t i = 0; i < gpu_function_count; i++) {
		if (found[i].problem != ELF_FOUND)
			continue;
		if (is_alias(found, i))
			found[i] = (struct elf_function){ .problem = ELF_UNKNOWN };
		else
			count++;
	}
	return count;
}
