// SPDX-License-Identifier: GPL-2.0-only
#include "tests/bpf/assist_shapes.h"

#include <link.h>

#include "tests/checked_call.h"

#ifdef __x86_64__

/* Each begins with `first`, goes on with `rest` and ends at its own `ret`. */
#define FUNCTION(name, first, rest)                                                                                    \
	asm(".pushsection .text\n.balign 16\n.globl shape_" #name "\n.type shape_" #name ", @function\n"               \
	    "shape_" #name ":\n" first "\n" rest "\n.globl ret_" #name "\nret_" #name ":\nret\n"                       \
	    ".size shape_" #name ", . - shape_" #name "\n.popsection");                                                \
	long shape_##name(void);                                                                                       \
	extern const char ret_##name[];

#define RESULT "mov $7, %eax"

FUNCTION(endbr64, "endbr64", RESULT)
FUNCTION(push, "push %rbp", "mov %rsp, %rbp\n" RESULT "\npop %rbp")
FUNCTION(push_r15, "push %r15", "mov $1, %r15\n" RESULT "\npop %r15")
FUNCTION(sub, "sub $24, %rsp", RESULT "\nadd $24, %rsp")
FUNCTION(sub_large, "sub $0x1008, %rsp", RESULT "\nadd $0x1008, %rsp")
FUNCTION(nop, "nop", RESULT)
FUNCTION(nop5, ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00", RESULT)
FUNCTION(body, RESULT, "")
FUNCTION(jmp, ".byte 0xe9\n.long shape_body - . - 4", "")
FUNCTION(jmp_short, ".byte 0xeb, 1f - . - 1\n.skip 40, 0xcc", "1: " RESULT)
FUNCTION(jmp_memory, "jmp *1f(%rip)\n.pushsection .data\n1: .quad shape_body\n.popsection", "")
FUNCTION(call, ".byte 0xe8\n.long shape_body - . - 4", "")
FUNCTION(call_memory, "call *1f(%rip)\n.pushsection .data\n1: .quad shape_body\n.popsection", "")
FUNCTION(load, "mov 1f(%rip), %rax\n.pushsection .data\n1: .quad 7\n.popsection", "")
FUNCTION(test, "test %rsp, %rsp", "jnz 1f\nint3\n1: " RESULT)
FUNCTION(jcc, ".byte 0x74, 1f - . - 1\n.skip 40, 0xcc", "1: " RESULT)
FUNCTION(jcc_near, ".byte 0x0f, 0x84\n.long 1f - . - 4\n.skip 200, 0xcc", "1: " RESULT)
FUNCTION(red_zone, "mov %rdi, -8(%rsp)", RESULT)
FUNCTION(ret, "", "")
FUNCTION(sse, "movdqa 1f(%rip), %xmm0\n.pushsection .data\n.balign 16\n1: .quad 1, 2\n.popsection", RESULT)

#define SHAPE(name)                                                                                                    \
	{                                                                                                              \
		#name, shape_##name, ret_##name                                                                        \
	}

const struct shape shapes[] = {
	SHAPE(endbr64),
	SHAPE(push),
	SHAPE(push_r15),
	SHAPE(sub),
	SHAPE(sub_large),
	SHAPE(nop),
	SHAPE(nop5),
	SHAPE(jmp),
	SHAPE(jmp_short),
	SHAPE(jmp_memory),
	SHAPE(call),
	SHAPE(call_memory),
	SHAPE(load),
	SHAPE(test),
	SHAPE(jcc),
	SHAPE(jcc_near),
	SHAPE(red_zone),
	SHAPE(ret),
	SHAPE(sse),
};
const size_t shape_count = sizeof(shapes) / sizeof(shapes[0]);

/* The zero flag is set when the function is called (for the conditional jumps), and eax holds 7 (for the bare `ret`). */
CHECKED_CALL("%rdi", "%rsi", "mov $7, %eax\ncmp %rax, %rax\n");

#else

const struct shape shapes[1];
const size_t shape_count = 0;

long checked_call(long (*function)(void), uint64_t *bad)
{
	(void)bad;
	return function();
}

#endif

struct search {
	uintptr_t address;
	size_t offset;
};

static int look(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct search *search = arg;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t begin = info->dlpi_addr + p->p_vaddr;

		if (p->p_type == PT_LOAD && search->address >= begin && search->address < begin + p->p_filesz)
			search->offset = search->address - begin + p->p_offset;
	}
	return 1; /* the program itself comes first */
}

size_t file_offset(const void *address)
{
	struct search search = { .address = (uintptr_t)address };

	dl_iterate_phdr(look, &search);
	return search.offset;
}
