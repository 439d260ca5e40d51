// SPDX-License-Identifier: GPL-2.0-only
/*
 * Any bytes as an ELF file: what is found in it lies in it, and is what a probe can be put on. Build: clang
 * -fsanitize=fuzzer,address,undefined.
 */
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/require.h"
#include "user/inside/gpu_functions.h"

static void require_function(const struct elf_function *f, size_t size)
{
	if (f->problem != ELF_FOUND) {
		REQUIRE(!f->offset && !f->ret && !f->code_len);
		return;
	}
	REQUIRE(f->offset < size && f->code_len <= ELF_CODE_LEN && f->code_len <= size - f->offset);
	REQUIRE(f->code_len > 0);
	if (f->ret)
		REQUIRE((int64_t)f->offset + f->ret >= 0 && f->offset + (uint64_t)f->ret < size);
}

static void ask(struct elf_file *elf, size_t size)
{
	static const char *const names[] = { "answer", "ns::C::f", "ns::C::f(int)", "hiden", "cudaMalloc", "" };
	struct elf_function found[GPU_MAX_FUNCTIONS], one;
	struct error err;

	REQUIRE(strlen(elf_file_soname(elf)) < 256);
	gpu_file_apis(elf, "libcuda.so", true);
	if (gpu_file_functions(elf, found, &err) >= 0) {
		for (size_t i = 0; i < gpu_function_count; i++)
			require_function(&found[i], size);
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		int code = elf_file_function(elf, names[i], &one, &err);

		REQUIRE(code <= 0 && (code < 0 || one.problem == ELF_FOUND));
		if (!code)
			require_function(&one, size);
		else
			REQUIRE(err.text[0] && strlen(err.text) < sizeof(err.text));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_file *elf;
	struct error err;
	int fd = memfd_create("elf", MFD_CLOEXEC);

	REQUIRE(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	if (elf_file_open(fd, "x.so", &elf, &err) == 0) {
		ask(elf, size);
		elf_file_close(elf);
	}
	close(fd);
	return 0;
}
