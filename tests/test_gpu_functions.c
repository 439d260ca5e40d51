// SPDX-License-Identifier: GPL-2.0-only
/* user/inside/gpu_functions.c: the table agrees with itself, and is found in stand-ins for the real libraries. */
#include "tests/compile.h"
#include "user/inside/gpu_functions.h"

Test(gpu_functions, agree_with_themselves)
{
	cr_assert_leq(gpu_function_count, GPU_MAX_FUNCTIONS);
	for (size_t i = 0; i < gpu_function_count; i++) {
		const struct gpu_function *f = &gpu_functions[i];
		static const char *const prefixes[] = { "cuda", "cu", "hip" };

		cr_expect_eq(gpu_function_find(f->name), f, "%s is there twice", f->name);
		cr_expect_eq(strncmp(f->name, prefixes[f->api], strlen(prefixes[f->api])), 0, "%s", f->name);
		cr_expect_eq(f->role == GPU_ALLOCATE, f->memory != GPU_NO_MEMORY, "%s", f->name);
		cr_expect_eq(f->size == GPU_SIZE_UNKNOWN, f->size_arg == GPU_NO_ARG, "%s", f->name);
		cr_expect(f->role == GPU_ALLOCATE || f->size == GPU_SIZE_UNKNOWN, "%s", f->name);
		cr_expect(f->role != GPU_FREE || f->pointer_arg == 0, "%s", f->name);
		/* What counts has a size and a pointer to take it off again. */
		cr_expect(f->memory != GPU_DEVICE || (f->size != GPU_SIZE_UNKNOWN && f->pointer_arg == 0), "%s",
			  f->name);
	}
	cr_expect_null(gpu_function_find("cudaMemcpy"));
	cr_expect_null(gpu_function_find(""));
	cr_expect_str_eq(gpu_api_name(GPU_DRIVER), "CUDA driver");
}

TestSuite(gpu_file, .init = compile_begins, .fini = compile_ends);

static struct elf_file *open_elf(const char *path)
{
	struct elf_file *elf;
	struct error err = { 0 };

	cr_assert_eq(elf_file_open(open(path, O_RDONLY | O_CLOEXEC), "x.so", &elf, &err), 0, "%s", err.text);
	return elf;
}

static void expect_apis(const char *path, const char *base, bool is_program, unsigned int apis)
{
	struct elf_file *elf = open_elf(path);

	cr_expect_eq(gpu_file_apis(elf, base, is_program), apis);
	elf_file_close(elf);
}

static const char runtime[] = "int cudaMalloc(void **p, long size) { return 1; }\n"
			      "int cudaHostAlloc(void **p, long size, int flags) { return 2; }\n"
			      "int cudaFree(void *p) { return 3; }\n"
			      "int cudaMemGetInfo(long *free, long *total) { return 4; }\n"
			      "void _start(void) { cudaMalloc(0, 0); }\n";

Test(gpu_file, apis)
{
	const char *path = compile("lib.so", runtime, "-shared -fPIC -nostdlib -s");

	expect_apis(path, "libcudart.so.13", false, 1 << GPU_RUNTIME);
	expect_apis(path, "anything", false, 1 << GPU_RUNTIME);
	path = compile("lib.so", "int cuMemAlloc_v2(void) { return 1; } int cuMemAlloc(void) { return 2; }",
		       "-shared -fPIC -nostdlib");
	expect_apis(path, "libcuda.so.1", false, 1 << GPU_DRIVER);
	path = compile("lib.so", "int hipMallocAsync(void) { return 1; }", "-shared -fPIC -nostdlib");
	expect_apis(path, "libamdhip64.so.6", false, 1 << GPU_HIP);
	/* Calls it, or frees alone: nothing that allocates. */
	path = compile("lib.so", "int cudaMalloc(void **, long); int f(void) { return cudaMalloc(0, 0); }",
		       "-shared -fPIC -nostdlib");
	expect_apis(path, "libtorch_cuda.so", false, 0);
	path = compile("lib.so", "int cudaFree(void *p) { return 0; }", "-shared -fPIC -nostdlib");
	expect_apis(path, "libx.so", false, 0);
}

Test(gpu_file, linked_in)
{
	const char *path = compile("program", runtime, "-static -nostdlib");

	expect_apis(path, "program", true, 1 << GPU_RUNTIME);
	expect_apis(path, "program", false, 1 << GPU_RUNTIME);
	path = compile("lib.so", runtime, "-shared -fPIC -nostdlib -fvisibility=hidden");
	expect_apis(path, "libtorch_cuda.so", false, 1 << GPU_RUNTIME);
	path = compile("program", runtime, "-static -nostdlib -s");
	expect_apis(path, "program", true, 0);
}

Test(gpu_file, functions)
{
	/* Two names of one function, as ROCm has some. */
	struct elf_file *elf = open_elf(compile("lib.so",
						"int hipHostMalloc(void) { return 1; }\n"
						"int hipHostAlloc(void) __attribute__((alias(\"hipHostMalloc\")));\n"
						"int hipMalloc(void) { return 2; }\n"
						"int hipGetLastError(void) { return 3; }\n"
						"int hipFree = 4;\n",
						"-shared -fPIC -nostdlib"));
	struct elf_function found[GPU_MAX_FUNCTIONS];
	struct error err;
	static const struct {
		const char *name;
		enum elf_problem problem;
	} cases[] = {
		{ "hipMalloc", ELF_FOUND },       { "hipHostMalloc", ELF_FOUND }, { "hipHostAlloc", ELF_UNKNOWN },
		{ "hipGetLastError", ELF_FOUND }, { "hipFree", ELF_NOT_CODE },    { "cudaMalloc", ELF_UNKNOWN },
	};

	cr_expect_eq(gpu_file_functions(elf, found, &err), 3);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t index = (size_t)(gpu_function_find(cases[i].name) - gpu_functions);

		cr_expect_eq(found[index].problem, cases[i].problem, "%s: %d", cases[i].name, found[index].problem);
		cr_expect_eq(found[index].offset != 0, cases[i].problem == ELF_FOUND);
	}
	elf_file_close(elf);
}

/* Those that are installed here, if any: each function that the library has is in the table. */
Test(gpu_file, of_the_real_libraries)
{
	static const struct {
		const char *path;
		unsigned int api;
		int least;
	} cases[] = {
		{ "/usr/local/cuda/lib64/libcudart.so", 1 << GPU_RUNTIME, 26 },
		{ "/usr/local/cuda/lib64/stubs/libcuda.so", 1 << GPU_DRIVER, 30 },
		{ "/usr/lib/x86_64-linux-gnu/libamdhip64.so", 1 << GPU_HIP, 33 },
	};
	struct elf_function found[GPU_MAX_FUNCTIONS];
	struct error err;
	int seen = 0;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct elf_file *elf;

		if (access(cases[i].path, R_OK))
			continue;
		elf = open_elf(cases[i].path);
		cr_expect_eq(gpu_file_apis(elf, "", false), cases[i].api, "%s", cases[i].path);
		cr_expect_geq(gpu_file_functions(elf, found, &err), cases[i].least, "%s", cases[i].path);
		elf_file_close(elf);
		seen++;
	}
	if (!seen) {
		compile_ends();
		cr_skip_test("needs libcudart, the stub libcuda or libamdhip64");
	}
}
