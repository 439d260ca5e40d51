// SPDX-License-Identifier: GPL-2.0-only
/* The code of a function: where it is in the file, its first instruction, and the nearest `ret`. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "user/inside/elf_internal.h"

#define PIECE      65536
#define MAX_BODY   (4u << 20) /* that is looked through, of a function */
#define MAX_AROUND (1u << 20) /* and on each side of it */
#define ARM_RET    0xd65f03c0u

/* ---- the first instruction ---- */

bool elf_code_is_refused(unsigned int machine, const uint8_t *code, size_t len)
{
	if (machine != EM_X86_64)
		return false;
	/*
	 * Prefixes as is_prefix_bad() of the kernel's arch/x86/kernel/uprobes.c has them: LOCK, and the segments ES, CS,
	 * SS, DS; before them may stand others. Then what good_insns_64 leaves out and a function may begin with.
	 */
	for (size_t i = 0; i < len; i++) {
		switch (code[i]) {
		case 0xf0:
		case 0x26:
		case 0x2e:
		case 0x36:
		case 0x3e:
		case 0xcc: /* int3: somebody's breakpoint, in the file itself */
		case 0xf4: /* hlt */
			return true;
		case 0x64:
		case 0x65:
		case 0x66:
		case 0x67:
		case 0xf2:
		case 0xf3:
			continue;
		default:
			return false;
		}
	}
	return false;
}

/* ---- ret ---- */

static uint32_t word_at(const uint8_t *code)
{
	return code[0] | code[1] << 8 | code[2] << 16 | (uint32_t)code[3] << 24;
}

int64_t elf_code_ret(unsigned int machine, const uint8_t *code, size_t len, bool last)
{
	const uint8_t *at;

	if (machine == EM_X86_64) {
		at = last ? memrchr(code, 0xc3, len) : memchr(code, 0xc3, len);
		return at ? at - code : -1;
	}
	for (size_t i = 0; i + 4 <= len; i += 4) {
		size_t where = last ? (len / 4) * 4 - 4 - i : i;

		if (word_at(code + where) == ARM_RET)
			return (int64_t)where;
	}
	return -1;
}

/* In [from, to) of the file, from its beginning or its end; -1: none, -2: cannot be read. */
static int64_t search_ret(const struct elf_file *file, uint64_t from, uint64_t to, bool last)
{
	uint8_t *piece = malloc(PIECE);
	int64_t found = -1;

	if (!piece)
		return -2;
	while (from < to && found == -1) {
		size_t len = to - from < PIECE ? to - from : PIECE;
		uint64_t at = last ? to - len : from;

		if (elf_read(file, at, piece, len))
			found = -2;
		else
			found = elf_code_ret(file->header.e_machine, piece, len, last);
		if (found >= 0)
			found += (int64_t)at;
		else if (last)
			to -= len;
		else
			from += len;
	}
	free(piece);
	return found;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The probe itself overwrites the first byte (or word), so that one cannot be it. */
static int64_t distance_to_ret(const struct elf_file *file, const Elf64_Phdr *segment, uint64_t offset, uint64_t size)
{
	unsigned int step = file->header.e_machine == EM_X86_64 ? 1 : 4;
	uint64_t begin = segment->p_offset, end = segment->p_offset + segment->p_filesz;
	uint64_t body = offset + least(least(size, MAX_BODY), end - offset);
	uint64_t next = offset + least(step, end - offset);
	int64_t after, before;

	after = search_ret(file, next, body, false);
	if (after >= 0)
		return after - (int64_t)offset;
	/* Words of four bytes count from the function, so both sides are cut to whole ones. */
	if (body < next)
		body = next;
	body -= (body - offset) % step;
	after = search_ret(file, body, body + least(MAX_AROUND, end - body), false);
	before = search_ret(file, offset - least(MAX_AROUND, (offset - begin) / step * step), offset, true);
	if (after < 0 && before < 0)
		return 0;
	if (before < 0 || (after >= 0 && after - (int64_t)offset <= (int64_t)offset - before))
		return after - (int64_t)offset;
	return before - (int64_t)offset;
}

/* ---- the whole ---- */

static const Elf64_Phdr *code_segment(const struct elf_file *file, uint64_t address)
{
	for (size_t i = 0; i < file->segment_count; i++) {
		const Elf64_Phdr *p = &file->segments[i];

		if (p->p_type == PT_LOAD && p->p_flags & PF_X && address >= p->p_vaddr &&
		    address - p->p_vaddr < p->p_filesz && p->p_offset <= file->size &&
		    p->p_filesz <= file->size - p->p_offset)
			return p;
	}
	return NULL;
}

static enum elf_problem problem_of(const struct elf_symbol *symbol)
{
	if (symbol->sym.st_shndx == SHN_UNDEF)
		return ELF_UNDEFINED;
	switch (ELF64_ST_TYPE(symbol->sym.st_info)) {
	case STT_FUNC:
	case STT_NOTYPE: /* written in assembler */
		return ELF_FOUND;
	case STT_GNU_IFUNC:
		return ELF_IFUNC;
	default:
		return ELF_NOT_CODE;
	}
}

int elf_resolve(const struct elf_file *file, const struct elf_symbol *symbol, struct elf_function *found)
{
	const Elf64_Phdr *segment = code_segment(file, symbol->sym.st_value);
	uint64_t left;
	int code;

	*found = (struct elf_function){ .problem = problem_of(symbol) };
	if (found->problem == ELF_FOUND && !segment)
		found->problem = ELF_NOT_CODE;
	if (found->problem != ELF_FOUND)
		return 0;
	found->address = symbol->sym.st_value;
	found->offset = found->address - segment->p_vaddr + segment->p_offset;
	found->size = symbol->sym.st_size;
	found->is_local = symbol->is_local;
	left = segment->p_offset + segment->p_filesz - found->offset;
	found->code_len = (uint8_t)least(left, ELF_CODE_LEN);
	code = elf_read(file, found->offset, found->code, found->code_len);
	if (code)
		return code;
	if (elf_code_is_refused(file->header.e_machine, found->code, found->code_len))
		*found = (struct elf_function){ .problem = ELF_NO_PROBE };
	else
		found->ret = distance_to_ret(file, segment, found->offset, found->size);
	return 0;
}
