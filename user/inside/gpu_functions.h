/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The functions of the CUDA runtime, the CUDA driver and HIP that give and take GPU memory, and those that tell of it:
 * what they are called and where in their arguments the size and the pointer are. Prototypes: cuda_runtime_api.h and
 * cuda.h of CUDA 13.0, hip_runtime_api.h of ROCm 5.2.
 */
#ifndef USER_GPU_FUNCTIONS_H
#define USER_GPU_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "user/inside/elf_file.h"

/* Out of memory has the same number in all three: 2. */
enum gpu_api {
	GPU_RUNTIME, /* libcudart, shared or linked into a program */
	GPU_DRIVER,  /* libcuda.so.1 */
	GPU_HIP,     /* libamdhip64 */
};

enum gpu_role {
	GPU_ALLOCATE,
	GPU_FREE,
	GPU_INFO,       /* two pointers: where free and then total bytes are written */
	GPU_LAST_ERROR, /* tells of the thread's last error and forgets it; no arguments */
	GPU_PEEK_ERROR, /* tells of it and keeps it */
};

/*
 * Where an allocation's size is. Arguments count from 0, in registers: on x86-64 rdi, rsi, rdx, rcx, r8; on aarch64
 * x0 to x4.
 */
enum gpu_size {
	GPU_SIZE_UNKNOWN, /* behind structures: an allocation of no known size */
	GPU_SIZE_ONE,     /* bytes in argument size_arg */
	GPU_SIZE_RECT,    /* width in bytes in size_arg, height in the next; the rows are padded beyond that */
	/*
	 * struct { size_t width, height, depth; } by value, as the second argument. 24 bytes are more than System V puts
	 * into registers: at the first instruction they lie on the stack right above the return address, at sp + 8,
	 * sp + 16 and sp + 24. AAPCS64 copies them to memory and passes the address in size_arg.
	 */
	GPU_SIZE_EXTENT,
};

/* What an allocation takes. Only GPU_DEVICE counts as memory that a process holds of the GPU. */
enum gpu_memory {
	GPU_NO_MEMORY, /* not an allocation */
	GPU_DEVICE,    /* plain device memory, taken at once: free bytes shrink by about this much */
	GPU_MANAGED, /* moves between host and device, and may be larger than the device: free bytes say nothing of it */
	GPU_HOST,    /* page-locked memory of the host */
	GPU_ARRAY,   /* device memory of no known size: texture arrays */
	GPU_POOL,    /* a pool: takes memory only when something is allocated from it */
};

#define GPU_NO_ARG (-1)

struct gpu_function {
	const char *name;
	enum gpu_api api;
	enum gpu_role role;
	enum gpu_memory memory; /* allocations */
	enum gpu_size size;     /* allocations */
	int size_arg;           /* or GPU_NO_ARG */
	int pointer_arg;        /* allocations: where the result is written; frees: the pointer itself; or GPU_NO_ARG */
	bool size_is_32bit;     /* driver functions older than CUDA 3.2: only the lower half of the register counts */
	bool pointer_is_32bit;  /* and so for pointers: 4 bytes are written, or the lower half counts */
};

/* Newer functions before the old ones that they replace. */
extern const struct gpu_function gpu_functions[];
extern const size_t gpu_function_count;
#define GPU_MAX_FUNCTIONS 128 /* gpu_function_count is not more */

/* NULL when it is none of them. */
const struct gpu_function *gpu_function_find(const char *name);

/* "CUDA runtime", "CUDA driver", "HIP" */
const char *gpu_api_name(enum gpu_api api);

/*
 * Which APIs does this file define allocation functions of? A set of 1 << enum gpu_api, 0 for nearly every file, after
 * a few reads. Functions that are linked in and not exported are found if the file has its .symtab; a larger one is
 * read when it is a program or its name (`base`, without directories) says that it has to do with GPUs.
 */
unsigned int gpu_file_apis(struct elf_file *elf, const char *base, bool is_program);

/*
 * Finds all of them: found[i] is where gpu_functions[i] is, or has a problem other than ELF_FOUND. Two names of one
 * address are found once, under the name that is first in the table. Returns how many were found, or a negative errno.
 * found has gpu_function_count entries.
 */
int gpu_file_functions(struct elf_file *elf, struct elf_function *found, struct error *err);

#endif
