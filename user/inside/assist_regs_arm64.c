// SPDX-License-Identifier: GPL-2.0-only
/*
 * Inside the assist, arm64: a thread that stands behind the first instruction of a function returns from it. Compiled, and
 * not tested on hardware.
 */
#ifdef __aarch64__

#include <asm/ptrace.h>
#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#include "user/inside/assist_internal.h"

#define INSTRUCTION 4
#define LINK        30  /* x30: the return address */
#define FRAME       504 /* `stp x29, x30, [sp, #-504]!` reaches that far */

/* The place where a `b` or `bl` at `entry` leads to; the probe hides it, so it is asked of nobody: such functions fail. */
static bool is_at_entry(const struct chaos_return *call, const struct user_pt_regs *regs, int syscall)
{
	bool here = regs->pc == call->entry || regs->pc == call->entry + INSTRUCTION;

	return here && syscall == -1 && call->sp - regs->sp <= FRAME;
}

/* The first instruction may have signed the return address. */
static uint64_t without_signature(pid_t tid, uint64_t address)
{
	struct user_pac_mask mask;
	struct iovec iov = { &mask, sizeof(mask) };

	if (ptrace(PTRACE_GETREGSET, tid, NT_ARM_PAC_MASK, &iov))
		return address;
	return address & ~mask.insn_mask;
}

bool assist_could_return(pid_t tid, const struct chaos_return *call, bool *again)
{
	struct user_pt_regs regs;
	struct iovec iov = { &regs, sizeof(regs) };
	int syscall = -1;
	struct iovec number = { &syscall, sizeof(syscall) };

	*again = false;
	if (ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &iov) || iov.iov_len != sizeof(regs) ||
	    ptrace(PTRACE_GETREGSET, tid, NT_ARM_SYSTEM_CALL, &number))
		return false;
	*again = regs.pc == call->entry;
	return is_at_entry(call, &regs, syscall);
}

/* Where errno lies is not known on this architecture, see user/inside/errno_place.c. */
uint64_t assist_thread_pointer(pid_t tid)
{
	(void)tid;
	return 0;
}

enum assist_verdict assist_return(pid_t tid, const struct chaos_return *call)
{
	struct user_pt_regs regs;
	struct iovec iov = { &regs, sizeof(regs) };
	int syscall = -1;
	struct iovec number = { &syscall, sizeof(syscall) };

	/* Fewer registers: a program of 32 bits. */
	if (ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &iov) || iov.iov_len != sizeof(regs) ||
	    ptrace(PTRACE_GETREGSET, tid, NT_ARM_SYSTEM_CALL, &number) || !is_at_entry(call, &regs, syscall))
		return ASSIST_ELSEWHERE;
	regs.pc = call->ret ? call->ret : without_signature(tid, regs.regs[LINK]);
	regs.sp = call->sp;
	regs.regs[0] = call->value;
	return ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &iov) ? ASSIST_ELSEWHERE : ASSIST_RETURNED;
}

#endif
