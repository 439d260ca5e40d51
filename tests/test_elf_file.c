// SPDX-License-Identifier: GPL-2.0-only
/* user/elf_*.c: functions of small libraries that are compiled here, and of files that are broken on purpose. */
#include <dlfcn.h>
#include <errno.h>
#include <sys/mman.h>

#include "tests/compile.h"
#include "user/inside/elf_file.h"
#include "user/inside/elf_internal.h"

#define SHARED "-shared -fPIC -nostdlib"

TestSuite(elf_file, .init = compile_begins, .fini = compile_ends);

static struct elf_file *open_elf(const char *path)
{
	struct elf_file *elf;
	struct error err = { 0 };
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	cr_assert_geq(fd, 0, "%s", path);
	cr_assert_eq(elf_file_open(fd, "x.so", &elf, &err), 0, "%s", err.text);
	return elf;
}

static void expect_found(struct elf_file *elf, const char *name, struct elf_function *found)
{
	struct error err = { 0 };

	cr_expect_eq(elf_file_function(elf, name, found, &err), 0, "%s: %s", name, err.text);
}

static void expect_offset(struct elf_file *elf, const char *name, uint64_t offset)
{
	struct elf_function found;

	expect_found(elf, name, &found);
	cr_expect_eq(found.offset, offset, "%s: %#lx, expected %#lx", name, found.offset, offset);
}

static void expect_not(struct elf_file *elf, const char *name, int code, const char *text, const char *hint)
{
	struct elf_function found;
	struct error err = { 0 };

	cr_expect_eq(elf_file_function(elf, name, &found, &err), code, "%s: %s", name, err.text);
	cr_expect_str_eq(err.text, text);
	cr_expect_str_eq(err.hint, hint);
	cr_expect_neq(err.exit, 0);
}

static uint64_t offset_of(struct elf_file *elf, const char *name)
{
	struct elf_function found;

	expect_found(elf, name, &found);
	return found.offset;
}

/* ---- where functions are ---- */

static const char plain[] = "int answer(int a) { return a * 42; }\n"
			    "static __attribute__((noinline, used)) int hidden(int a) { return a + 1; }\n"
			    "int numbers[3] = { 1, 2, 3 };\n"
			    "int elsewhere(void);\n"
			    "int use(void) { return elsewhere() + hidden(1); }\n";

Test(elf_file, finds_the_bytes_that_are_called)
{
	const char *path = compile("lib.so", "int answer(int a) { return a * 42; }", "-shared -fPIC");
	struct elf_file *elf = open_elf(path);
	struct elf_function found;
	uint8_t code[ELF_CODE_LEN], byte;
	void *library = dlopen(path, RTLD_NOW), *loaded;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	cr_assert_not_null(library);
	loaded = dlsym(library, "answer");
	expect_found(elf, "answer", &found);
	cr_expect_not(found.is_local);
	cr_expect_eq(memcmp(loaded, found.code, found.code_len), 0);
	cr_expect_eq(pread(fd, code, found.code_len, (off_t)found.offset), found.code_len);
	cr_expect_eq(memcmp(code, found.code, found.code_len), 0);
	cr_expect_gt(found.size, 0);
	cr_expect_neq(found.ret, 0);
	cr_expect_lt(found.ret, (int64_t)found.size);
#ifdef __x86_64__
	cr_expect_eq(pread(fd, &byte, 1, (off_t)found.offset + found.ret), 1);
	cr_expect_eq(byte, 0xc3);
#endif
	(void)byte;
	close(fd);
	dlclose(library);
	elf_file_close(elf);
}

Test(elf_file, local_functions_and_what_is_none)
{
	struct elf_file *elf = open_elf(compile("lib.so", plain, SHARED " -Wl,-soname,libx.so.7"));
	struct elf_function found;

	expect_found(elf, "hidden", &found);
	cr_expect(found.is_local);
	expect_found(elf, "use", &found);
	cr_expect_str_eq(elf_file_soname(elf), "libx.so.7");
	cr_expect(elf_file_exports(elf, "answer"));
	cr_expect_not(elf_file_exports(elf, "hidden"));
	cr_expect_not(elf_file_exports(elf, "elsewhere"));
	cr_expect_not(elf_file_is_go(elf));
	expect_not(elf, "numbers", -EOPNOTSUPP, "'numbers' of 'x.so' is no function", "");
	expect_not(elf, "elsewhere", -EOPNOTSUPP, "'x.so' calls function 'elsewhere', but another library has it", "");
	expect_not(elf, "answr", -ENOENT, "'x.so' has no function 'answr'", "did you mean 'answer'?");
	expect_not(elf, "hide", -ENOENT, "'x.so' has no function 'hide'", "did you mean 'hidden'?");
	expect_not(elf, "frobnicate", -ENOENT, "'x.so' has no function 'frobnicate'", "");
	expect_not(elf, "", -ENOENT, "'x.so' has no function ''", "");
	elf_file_close(elf);
}

Test(elf_file, stripped)
{
	struct elf_file *elf = open_elf(compile("lib.so", plain, SHARED " -s"));
	struct elf_function found;

	expect_found(elf, "answer", &found);
	expect_not(elf, "hidden", -ENOENT, "'x.so' has no function 'hidden'",
		   "the file is stripped: only what it exports can be found");
	elf_file_close(elf);
	elf = open_elf(compile("program", "void _start(void) { for (;;); }", "-static -nostdlib -s"));
	expect_not(elf, "main", -ENOENT, "'x.so' has no symbols, so function 'main' cannot be found",
		   "it is stripped; a build that is not, or a library that it uses, can be named instead");
	elf_file_close(elf);
}

/* Linked into a program: local, in .symtab alone; both old and new hash tables; no sections at all. */
Test(elf_file, however_it_is_linked)
{
	static const char *const options[] = { "-static -nostdlib",
					       "-static-pie -nostdlib",
					       SHARED " -Wl,--hash-style=sysv",
					       SHARED " -Wl,--hash-style=gnu",
					       SHARED " -Wl,--hash-style=both",
					       SHARED " -Wl,-z,separate-code",
					       SHARED " -Wl,-z,noseparate-code" };

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		struct elf_file *elf = open_elf(compile(
			"file", "int answer(int a) { return a * 42; }\nvoid _start(void) { answer(1); }", options[i]));
		struct elf_function found;

		expect_found(elf, "answer", &found);
		cr_expect_eq(elf_file_exports(elf, "answer"), strstr(options[i], "-shared") != NULL, "%s", options[i]);
		elf_file_close(elf);
	}
}

Test(elf_file, without_sections)
{
	static const char *const styles[] = { SHARED " -Wl,--hash-style=sysv", SHARED " -Wl,--hash-style=gnu" };

	for (size_t i = 0; i < 2; i++) {
		const char *path = compile("lib.so", plain, styles[i]);
		Elf64_Ehdr header;
		struct elf_file *elf;
		struct elf_function found;
		int fd = open(path, O_RDWR | O_CLOEXEC);

		cr_assert_eq(read(fd, &header, sizeof(header)), sizeof(header));
		header.e_shnum = 0;
		header.e_shoff = 0;
		cr_assert_eq(pwrite(fd, &header, sizeof(header), 0), sizeof(header));
		close(fd);
		elf = open_elf(path);
		expect_found(elf, "answer", &found);
		cr_expect(elf_file_exports(elf, "use"));
		expect_not(elf, "elsewhere", -EOPNOTSUPP,
			   "'x.so' calls function 'elsewhere', but another library has it", "");
		elf_file_close(elf);
	}
}

Test(elf_file, versions)
{
	const char *path;
	struct elf_file *elf;
	struct elf_function found;

	compile_text("map", "V1 { global: old; answer; local: *; }; V2 { global: answer; } V1;");
	path = compile("lib.so",
		       "int one(void) { return 1; }\nint two(void) { return 2; }\nint old1(void) { return 3; }\n"
		       "__asm__(\".symver one, answer@V1\");\n__asm__(\".symver two, answer@@V2\");\n"
		       "__asm__(\".symver old1, old@V1\");\n",
		       SHARED " -Wl,--version-script,map");
	elf = open_elf(path);
	expect_offset(elf, "answer", offset_of(elf, "two"));
	expect_offset(elf, "answer@V1", offset_of(elf, "two"));
	expect_offset(elf, "answer@@V2", offset_of(elf, "two"));
	expect_found(elf, "old", &found);
	elf_file_close(elf);
}

Test(elf_file, several_local_functions_of_one_name)
{
	struct elf_file *elf;

	compile_text("b.c", "static __attribute__((noinline)) int same(int a) { return a + 2; }\n"
			    "int b(int a) { return same(a); }\n");
	elf = open_elf(compile("lib.so",
			       "static __attribute__((noinline)) int same(int a) { return a + 1; }\n"
			       "int a(int a) { return same(a); }\n",
			       SHARED " -fno-optimize-sibling-calls b.c"));
	expect_not(elf, "same", -EINVAL, "'x.so' has several local functions 'same'", "");
	elf_file_close(elf);
}

/* ---- where no probe may go ---- */

Test(elf_file, refused)
{
	struct elf_file *elf = open_elf(compile("lib.so",
						"static int one(void) { return 1; }\n"
						"static void *choose(void) { return one; }\n"
						"int chosen(void) __attribute__((ifunc(\"choose\")));\n"
						"int plain(void) { return chosen(); }\n",
						SHARED));

	expect_not(elf, "chosen", -EOPNOTSUPP,
		   "'chosen' is chosen when 'x.so' is loaded (IFUNC): its symbol is that of the chooser",
		   "name one of the functions that it chooses from, or a function that calls it");
	elf_file_close(elf);
	elf = open_elf(compile("lib.so",
			       "__attribute__((section(\".go.buildinfo\"), used)) static char info[16];\n"
			       "int plain(void) { return 1; }",
			       SHARED));
	cr_expect(elf_file_is_go(elf));
	expect_not(elf, "plain", -EOPNOTSUPP, "'x.so' is compiled by Go, whose functions cannot be made to return",
		   "its connections and system calls can be made to fail instead");
	elf_file_close(elf);
}

#ifdef __x86_64__
Test(elf_file, first_instructions)
{
	static const char source[] = "__asm__(\".text\\n\"\n"
				     "\".globl locked, notrack, lockless, plain\\n\"\n"
				     "\"locked: lock incl (%rdi)\\n ret\\n\"\n"
				     "\"notrack: .byte 0x3e, 0xff, 0xe7\\n\"\n"
				     "\"lockless: movq %fs:0, %rax\\n ret\\n\"\n"
				     "\"plain: endbr64\\n ret\\n\"\n"
				     "\".type locked, @function\\n.type notrack, @function\\n\"\n"
				     "\".type lockless, @function\\n\");\n";
	struct elf_file *elf = open_elf(compile("lib.so", source, SHARED));
	struct elf_function found;

	expect_not(elf, "locked", -EOPNOTSUPP,
		   "the kernel takes no probe on the first instruction of 'locked' in 'x.so'", "");
	expect_not(elf, "notrack", -EOPNOTSUPP,
		   "the kernel takes no probe on the first instruction of 'notrack' in 'x.so'", "");
	/* Of no size, as assembler has it: the nearest `ret` is that of the function before. */
	expect_found(elf, "plain", &found);
	cr_expect_eq(found.size, 0);
	cr_expect_eq(found.ret, -1);
	expect_found(elf, "lockless", &found);
	elf_file_close(elf);
}

Test(elf_file, the_first_byte_is_no_way_out)
{
	struct elf_file *elf = open_elf(compile("lib.so",
						"__asm__(\".text\\n.globl bare, other\\n.balign 16\\n\"\n"
						"\"bare: ret\\n nop\\n nop\\n\"\n"
						"\"other: nop\\n ret\\n\");\n",
						SHARED));
	struct elf_function found;

	expect_found(elf, "bare", &found);
	cr_expect_eq(found.ret, 4);
	elf_file_close(elf);
}
#endif

Test(elf_code, ret)
{
	static const uint8_t x86[] = { 0xc3, 0x90, 0xc3, 0x90 };
	static const uint8_t arm[] = { 0xc0, 0x03, 0x5f, 0xd6, 0x1f, 0x20, 0x03, 0xd5, 0xc0, 0x03, 0x5f, 0xd6, 0, 0 };

	cr_expect_eq(elf_code_ret(EM_X86_64, x86, sizeof(x86), false), 0);
	cr_expect_eq(elf_code_ret(EM_X86_64, x86, sizeof(x86), true), 2);
	cr_expect_eq(elf_code_ret(EM_X86_64, x86 + 3, 1, true), -1);
	cr_expect_eq(elf_code_ret(EM_X86_64, x86, 0, true), -1);
	cr_expect_eq(elf_code_ret(EM_AARCH64, arm, sizeof(arm), false), 0);
	cr_expect_eq(elf_code_ret(EM_AARCH64, arm, sizeof(arm), true), 8);
	cr_expect_eq(elf_code_ret(EM_AARCH64, arm + 4, 7, false), -1);
	cr_expect_eq(elf_code_ret(EM_AARCH64, arm, 3, true), -1);
	cr_expect_not(elf_code_is_refused(EM_AARCH64, x86, sizeof(x86)));
	cr_expect_not(elf_code_is_refused(EM_X86_64, x86, 0));
}

/* ---- C++ names ---- */

/* Functions with the symbols that g++ gives them, so that no g++ is needed here. */
#define AS(name, symbol, value) "int " name "(void) __asm__(\"" symbol "\"); int " name "(void) { return " value "; }\n"
static const char cplusplus[] =
	AS("a", "_ZN2ns5Class6methodEi", "1") AS("b", "_ZN2ns5Class4twinEi", "2") AS("c", "_ZN2ns5Class4twinEd", "3")
		AS("d", "_ZNK2ns5Class3getEv", "4") AS("e", "_Z4freePKcPFviE", "5") AS("f", "_ZN2ns5ClassC1Ei", "6")
			AS("g", "_Z3maxIiET_S0_S0_", "7") AS("h", "_ZN2nsplERKNS_5ClassES2_", "8")
				AS("i", "_ZN12_GLOBAL__N_16secretEv", "9") AS("k", "_ZN2ns5Class3getEv.cold", "10");

Test(elf_cplusplus, names)
{
	static const char *const pairs[][2] = {
		{ "ns::Class::method(int)", "_ZN2ns5Class6methodEi" },
		{ "ns::Class::method", "_ZN2ns5Class6methodEi" },
		{ "  ns::Class::method( int ) ", "_ZN2ns5Class6methodEi" },
		{ "ns::Class::twin(double)", "_ZN2ns5Class4twinEd" },
		{ "ns::Class::get() const", "_ZNK2ns5Class3getEv" },
		{ "ns::Class::get", "_ZNK2ns5Class3getEv" },
		{ "free(char const*, void (*)(int))", "_Z4freePKcPFviE" },
		{ "free", "_Z4freePKcPFviE" },
		{ "ns::Class::Class", "_ZN2ns5ClassC1Ei" },
		{ "int max<int>(int, int)", "_Z3maxIiET_S0_S0_" },
		{ "max<int>(int, int)", "_Z3maxIiET_S0_S0_" },
		{ "max<int>", "_Z3maxIiET_S0_S0_" },
		{ "ns::operator+(ns::Class const&, ns::Class const&)", "_ZN2nsplERKNS_5ClassES2_" },
		{ "ns::operator+", "_ZN2nsplERKNS_5ClassES2_" },
		{ "(anonymous namespace)::secret()", "_ZN12_GLOBAL__N_16secretEv" },
		{ "(anonymous namespace)::secret", "_ZN12_GLOBAL__N_16secretEv" },
	};
	struct elf_file *elf;

	compile_begins();
	if (elf_is_called("_Z1fv", "f") == -ENOSYS) {
		compile_ends();
		cr_skip_test("needs libstdc++.so.6, which has the demangler");
	}
	elf = open_elf(compile("lib.so", cplusplus, SHARED));
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		expect_offset(elf, pairs[i][0], offset_of(elf, pairs[i][1]));
	expect_not(elf, "ns::Class::twin", -EINVAL, "'ns::Class::twin' could be 2 functions of 'x.so'",
		   "write the symbol: _ZN2ns5Class4twinEi, _ZN2ns5Class4twinEd");
	expect_not(elf, "Class::method", -ENOENT, "'x.so' has no function 'Class::method'", "");
	expect_not(elf, "ns::Class::method(long)", -ENOENT, "'x.so' has no function 'ns::Class::method(long)'", "");
	expect_not(elf, "method", -ENOENT, "'x.so' has no function 'method'", "it has '_ZN2ns5Class6methodEi'");
	elf_file_close(elf);
	compile_ends();
}

/* Each 8 bytes double what is written out: 2^500 bytes if the demangler were asked. */
Test(elf_cplusplus, names_that_explode)
{
	char symbol[1024] = "_Z1f1AIiiE";
	size_t len = strlen(symbol);

	cr_expect(elf_may_be_called("_Z1f1AIiiE", "f"));
	for (int i = 0; i < 60; i++)
		len += (size_t)snprintf(symbol + len, sizeof(symbol) - len, "1AIS%c_S%c_E", '0' + i % 10, '0' + i % 10);
	cr_expect_not(elf_may_be_called(symbol, "f"));
	memset(symbol, 'f', sizeof(symbol) - 1);
	cr_expect_not(elf_may_be_called(symbol, "f"));
}

/* ---- files that are not trusted ---- */

static int memory_file(const void *bytes, size_t size)
{
	int fd = memfd_create("elf", MFD_CLOEXEC);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, bytes, size), (ssize_t)size);
	return fd;
}

/* Asks everything that can be asked: the sanitizers say what is wrong. */
static void ask(int fd)
{
	static const char *const words[] = { "answer", "cuda", NULL };
	struct elf_function found[2];
	struct elf_file *elf;
	struct error err;

	if (elf_file_open(fd, "x.so", &elf, &err) == 0) {
		elf_file_soname(elf);
		elf_file_exports(elf, "answer");
		elf_file_mentions(elf, words, UINT64_MAX);
		elf_file_find(elf, words, 2, found, &err);
		elf_file_function(elf, "answer", found, &err);
		elf_file_function(elf, "ns::Class::metod", found, &err);
		elf_file_close(elf);
	}
	close(fd);
}

static uint8_t *read_file(const char *path, size_t *size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint8_t *bytes;
	struct stat st;

	cr_assert_eq(fstat(fd, &st), 0);
	*size = (size_t)st.st_size;
	bytes = malloc(*size);
	cr_assert_eq(read(fd, bytes, *size), st.st_size);
	close(fd);
	return bytes;
}

Test(elf_file, cut_off)
{
	size_t size;
	uint8_t *bytes = read_file(compile("lib.so", plain, SHARED), &size);

	for (size_t len = 0; len < size; len += len < 512 ? 7 : 61)
		ask(memory_file(bytes, len));
	free(bytes);
}

Test(elf_file, with_wrong_bytes)
{
	size_t size;
	uint8_t *bytes = read_file(compile("lib.so", cplusplus, SHARED " -Wl,--hash-style=both"), &size), *wrong;
	unsigned int seed = 1;

	wrong = malloc(size);
	for (int i = 0; i < 2000; i++) {
		memcpy(wrong, bytes, size);
		for (int k = 0; k < 8; k++)
			wrong[(size_t)rand_r(&seed) % (i % 2 ? size : 1024)] = (uint8_t)rand_r(&seed);
		ask(memory_file(wrong, size));
	}
	free(wrong);
	free(bytes);
}

/* A sparse file that says it has 2^32 sections and a symbol table of a terabyte. */
Test(elf_file, enormous)
{
	size_t size;
	uint8_t *bytes = read_file(compile("lib.so", plain, SHARED), &size);
	Elf64_Ehdr *header = (Elf64_Ehdr *)bytes;
	Elf64_Shdr *sections = (Elf64_Shdr *)(bytes + header->e_shoff);
	int fd;

	for (size_t i = 0; i < header->e_shnum; i++) {
		if (sections[i].sh_type == SHT_SYMTAB || sections[i].sh_type == SHT_STRTAB)
			sections[i].sh_size = 1ULL << 40;
	}
	fd = memory_file(bytes, size);
	cr_assert_eq(ftruncate(fd, 1LL << 41), 0);
	ask(fd);
	header->e_shnum = 0;
	sections[0].sh_size = UINT32_MAX;
	fd = memory_file(bytes, size);
	cr_assert_eq(ftruncate(fd, 1LL << 41), 0);
	ask(fd);
	free(bytes);
}

/* A text without an end, and symbols whose names all lie in it. */
Test(elf_file, endless_names, .timeout = 60)
{
	enum { SYMBOLS = 100000, TEXT = 64 << 20 };
	size_t size;
	uint8_t *bytes = read_file(compile("lib.so", plain, SHARED), &size);
	Elf64_Ehdr *header = (Elf64_Ehdr *)bytes;
	Elf64_Shdr *sections = (Elf64_Shdr *)(bytes + header->e_shoff);
	Elf64_Sym *syms = calloc(SYMBOLS, sizeof(*syms));
	char *text = malloc(TEXT);
	int fd;

	memset(text, 'a', TEXT);
	for (size_t i = 0; i < SYMBOLS; i++)
		syms[i] = (Elf64_Sym){ .st_name = (uint32_t)i + 1, .st_info = STT_FUNC, .st_shndx = 1 };
	for (size_t i = 0; i < header->e_shnum; i++) {
		if (sections[i].sh_type != SHT_SYMTAB)
			continue;
		sections[i].sh_offset = size;
		sections[i].sh_size = SYMBOLS * sizeof(*syms);
		sections[sections[i].sh_link].sh_offset = size + SYMBOLS * sizeof(*syms);
		sections[sections[i].sh_link].sh_size = TEXT;
	}
	fd = memory_file(bytes, size);
	cr_assert_eq(write(fd, syms, SYMBOLS * sizeof(*syms)), SYMBOLS * sizeof(*syms));
	cr_assert_eq(write(fd, text, TEXT), TEXT);
	ask(fd);
	free(text);
	free(syms);
	free(bytes);
}

Test(elf_file, no_elf)
{
	static const struct {
		const char *bytes;
		size_t size;
		const char *text;
	} cases[] = {
		{ "", 0, "'x.so' is not an ELF file" },
		{ "\177ELF", 4, "'x.so' is not an ELF file" },
		{ "#!/bin/sh\n12345678901234567890123456789012345678901234567890123456", 64,
		  "'x.so' is not an ELF file" },
		{ "\177ELF\1\1\1\0\0\0\0\0\0\0\0\0\3\0\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
		  "\0\0"
		  "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
		  64, "'x.so' is not a 64-bit ELF file" },
		{ "\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\3\0\x28\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
		  "\0\0\0"
		  "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
		  64, "'x.so' is for another kind of machine" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int fd = memory_file(cases[i].bytes, cases[i].size);
		struct elf_file *elf;
		struct error err;

		cr_expect_eq(elf_file_open(fd, "x.so", &elf, &err), -ENOEXEC);
		cr_expect_null(elf);
		cr_expect_str_eq(err.text, cases[i].text);
		close(fd);
	}
}
