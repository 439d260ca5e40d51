/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A call that looks afterwards at what a function must not change: the stack pointer, the registers that belong to its caller,
 * and of the flags AC, DF and TF, which have to be clear.
 */
#ifndef TESTS_CHECKED_CALL_H
#define TESTS_CHECKED_CALL_H

#ifdef __x86_64__

/*
 * Defines checked_call(), which returns the function's result. In which registers it gets `function`, and `bad`, to which the
 * number of what was changed is added; those that it does not name are the function's arguments. `prepare` comes before the call.
 */
#define CHECKED_CALL(function, bad, prepare)                                                                           \
	asm(".pushsection .text\n.globl checked_call\n.type checked_call, @function\n"                                 \
	    "checked_call:\n"                                                                                          \
	    "push %rbx\npush %rbp\npush %r12\npush %r13\npush %r14\npush %r15\npush " bad "\n"                         \
	    "mov %rsp, %rbx\n"                                                                                         \
	    "movabs $0x1112131415161718, %rbp\n"                                                                       \
	    "movabs $0x2122232425262728, %r12\n"                                                                       \
	    "movabs $0x3132333435363738, %r13\n"                                                                       \
	    "movabs $0x4142434445464748, %r14\n"                                                                       \
	    "movabs $0x5152535455565758, %r15\n" prepare "call *" function "\n"                                        \
	    "xor %ecx, %ecx\n"                                                                                         \
	    "cmp %rsp, %rbx\nje 1f\ninc %rcx\nmov %rbx, %rsp\n1:\n"                                                    \
	    "movabs $0x1112131415161718, %rdx\ncmp %rdx, %rbp\nje 1f\ninc %rcx\n1:\n"                                  \
	    "movabs $0x2122232425262728, %rdx\ncmp %rdx, %r12\nje 1f\ninc %rcx\n1:\n"                                  \
	    "movabs $0x3132333435363738, %rdx\ncmp %rdx, %r13\nje 1f\ninc %rcx\n1:\n"                                  \
	    "movabs $0x4142434445464748, %rdx\ncmp %rdx, %r14\nje 1f\ninc %rcx\n1:\n"                                  \
	    "movabs $0x5152535455565758, %rdx\ncmp %rdx, %r15\nje 1f\ninc %rcx\n1:\n"                                  \
	    "pushf\npop %rdx\ntest $0x40500, %edx\njz 1f\ninc %rcx\n1:\n"                                              \
	    "pop %rdx\nadd %rcx, (%rdx)\n"                                                                             \
	    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbp\npop %rbx\n"                                             \
	    "ret\n.size checked_call, . - checked_call\n.popsection")

#endif

#endif
