/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files behind user/inside/elf_file.h share. */
#ifndef USER_ELF_INTERNAL_H
#define USER_ELF_INTERNAL_H

#include <elf.h>

#include "user/inside/elf_file.h"

/* A table of symbols and the text of their names, as offsets in the file. Nothing is in an empty one (count 0). */
struct elf_symbols {
	uint64_t offset, count;
	uint64_t text, text_size;
	uint64_t versions; /* a 16-bit number for each symbol; 0: none */
};

struct elf_file {
	int fd;
	char name[256];
	uint64_t size;
	Elf64_Ehdr header;
	Elf64_Phdr *segments;
	size_t segment_count;
	struct elf_symbols exported, all; /* .dynsym, .symtab */
	uint64_t gnu_hash, hash;          /* 0: none */
	uint64_t soname;                  /* in the text of the exported ones; 0: none */
	char soname_text[256];
	bool is_go;
};

/* What is known of a symbol. `name` lasts for the call alone, and is followed by anything: "@VERSION" is left out. */
struct elf_symbol {
	Elf64_Sym sym;
	const char *name;
	size_t name_len;
	bool is_local;   /* of .symtab */
	bool is_default; /* not an old version */
};
typedef int elf_visit(const struct elf_symbol *symbol, void *arg);

/* ---- elf_file.c ---- */

/* Reads exactly so much; -EBADMSG when the file has less. */
int elf_read(const struct elf_file *file, uint64_t offset, void *buf, size_t size);

/*
 * Calls for each version of an exported, defined symbol until one call does not return 0; returns that, or what went
 * wrong. -ENOENT when the file has no hash table to look into, or the name is too long for that.
 */
int elf_look_up(const struct elf_file *file, const char *name, elf_visit *visit, void *arg);

/* ---- elf_symbols.c ---- */

/* The same for all symbols of a table that have a name, one after the other. */
int elf_each_symbol(const struct elf_file *file, const struct elf_symbols *table, elf_visit *visit, void *arg);

/* ---- elf_code.c ---- */

/* Fills in what a symbol says of a function, its problem included. */
int elf_resolve(const struct elf_file *file, const struct elf_symbol *symbol, struct elf_function *found);

/* Does the kernel refuse a probe on an instruction that begins so? */
bool elf_code_is_refused(unsigned int machine, const uint8_t *code, size_t len);

/* Offset of the first (last) `ret` in these bytes of code, or -1. */
int64_t elf_code_ret(unsigned int machine, const uint8_t *code, size_t len, bool last);

/* ---- elf_cplusplus.c ---- */

/* Can be the C++ name of a symbol: `wanted` has its words in it, and demangling it is safe. */
bool elf_may_be_called(const char *symbol, const char *wanted);

/*
 * 2: the symbol's C++ name is `wanted`; 1: it is that, and has parameters that are not written; 0: it is not;
 * -ENOSYS: no demangler is installed.
 */
int elf_is_called(const char *symbol, const char *wanted);

#endif
