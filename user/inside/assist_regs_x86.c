// SPDX-License-Identifier: GPL-2.0-only
/* Inside the assist, x86-64: a thread that stands behind the first instruction of a function returns from it. */
#ifdef __x86_64__

#include <elf.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

#include "user/inside/assist_internal.h"

/* Behind an instruction: they are at most 15 bytes long. */
#define NEAR 16
/* So much of the stack is taken by the first instruction at most, unless it is a `sub` that says how much. */
#define FRAME 256
/* The system call by which later kernels run the programs of a function that begins with a long nop. */
#define NR_UPROBE 336
#define RET       0xc3

/* The first bytes of a function. The very first is the probe's, unless the kernel has put a call of its own there. */
struct code {
	uint8_t byte[16];
};

static bool read_code(pid_t tid, uint64_t entry, struct code *code)
{
	uint64_t word[2];

	if (!assist_peek(tid, entry, &word[0]) || !assist_peek(tid, entry + sizeof(word[0]), &word[1]))
		return false;
	memcpy(code->byte, word, sizeof(code->byte));
	return true;
}

static int64_t displacement(const struct code *code, int at)
{
	int32_t value;

	memcpy(&value, &code->byte[at], sizeof(value));
	return value;
}

static bool is_near(uint64_t ip, uint64_t from)
{
	return ip - from < NEAR;
}

/*
 * Is `ip` where a function goes whose first instruction is a jump or a call? What instruction it is cannot be seen below the
 * probe, so each that the bytes behind it allow will do. Near the target, as the kernel's own call leads to code that makes
 * a system call (of 13 bytes).
 */
static bool has_jumped(pid_t tid, const struct code *code, uint64_t entry, uint64_t ip)
{
	uint64_t target;

	if (ip == entry + 2 + (int8_t)code->byte[1] || is_near(ip, entry + 5 + displacement(code, 1)))
		return true;
	if ((code->byte[1] & 0xf0) == 0x80 && ip == entry + 6 + displacement(code, 2)) /* 0f 8x: jcc */
		return true;
	if (code->byte[1] != 0x25 && code->byte[1] != 0x15) /* ff 25, ff 15: jmp and call *x(%rip) */
		return false;
	return assist_peek(tid, entry + 6 + displacement(code, 2), &target) && ip == target;
}

static bool in_frame(const struct code *code, uint64_t entry_sp, uint64_t sp)
{
	if (entry_sp - sp <= FRAME)
		return true;
	return code->byte[1] == 0x81 && code->byte[2] == 0xec && /* 48 81 ec: sub $x,%rsp */
	       sp == entry_sp - displacement(code, 3);
}

/* Has the thread done the first instruction of the call and nothing else? */
static bool is_at_entry(pid_t tid, const struct chaos_return *call, const struct user_regs_struct *regs)
{
	bool in_syscall = (int64_t)regs->orig_rax >= 0 && regs->orig_rax != NR_UPROBE;
	bool near_entry = is_near(regs->rip, call->entry);
	struct code code;

	if (near_entry && call->sp - regs->rsp <= FRAME)
		return true;
	if (!read_code(tid, call->entry, &code) || !in_frame(&code, call->sp, regs->rsp))
		return false;
	return near_entry || (!in_syscall && has_jumped(tid, &code, call->entry, regs->rip));
}

/* A function that is nothing but a `ret` has returned already: only the result is to be set. */
static bool has_returned(pid_t tid, const struct chaos_return *call, const struct user_regs_struct *regs)
{
	uint64_t back;

	return regs->rsp == call->sp + sizeof(back) && (int64_t)regs->orig_rax < 0 &&
	       assist_peek(tid, call->sp, &back) && regs->rip == back;
}

/*
 * Where to go on: at a `ret`, which keeps a shadow stack right. Where there is none, at the return address, that by now may be
 * the kernel's, for probes at the return.
 */
static bool leave(pid_t tid, const struct chaos_return *call, struct user_regs_struct *regs)
{
	uint64_t word;

	if (call->ret && assist_peek(tid, call->ret, &word) && (uint8_t)word == RET) {
		regs->rip = call->ret;
		regs->rsp = call->sp;
		return true;
	}
	if (!assist_peek(tid, call->sp, &word))
		return false;
	regs->rip = word;
	regs->rsp = call->sp + sizeof(word);
	return true;
}

static bool get_registers(pid_t tid, struct user_regs_struct *regs)
{
	struct iovec iov = { regs, sizeof(*regs) };

	/* Fewer registers: a program of 32 bits. */
	return ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &iov) == 0 && iov.iov_len == sizeof(*regs);
}

bool assist_could_return(pid_t tid, const struct chaos_return *call, bool *again)
{
	struct user_regs_struct regs;

	*again = false;
	if (!get_registers(tid, &regs))
		return false;
	*again = regs.rip == call->entry;
	return is_at_entry(tid, call, &regs) || has_returned(tid, call, &regs);
}

/* The first word there is its own address, by the ABI. */
uint64_t assist_thread_pointer(pid_t tid)
{
	struct user_regs_struct regs;
	uint64_t word;

	if (!get_registers(tid, &regs) || !assist_peek(tid, regs.fs_base, &word) || word != regs.fs_base)
		return 0;
	return word;
}

enum assist_verdict assist_return(pid_t tid, const struct chaos_return *call)
{
	struct user_regs_struct regs;
	struct iovec iov = { &regs, sizeof(regs) };

	if (!get_registers(tid, &regs))
		return ASSIST_ELSEWHERE;
	if (is_at_entry(tid, call, &regs)) {
		if (!leave(tid, call, &regs))
			return ASSIST_ELSEWHERE;
	} else if (!has_returned(tid, call, &regs)) {
		return ASSIST_ELSEWHERE;
	}
	regs.rax = call->value;
	regs.orig_rax = -1; /* no system call is to be made again */
	return ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &iov) ? ASSIST_ELSEWHERE : ASSIST_RETURNED;
}

#endif
