/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Functions in ELF files: where a probe has to be put on them, and whether it can.
 *
 * Files may come from a container that is not trusted: nothing in them is believed, tables are read in bounded pieces,
 * and a file that shrinks meanwhile is a short read. That is why this reads the file itself: libelf believes the
 * sizes that a (sparse) file says of itself, and mapped files end in SIGBUS.
 */
#ifndef USER_ELF_FILE_H
#define USER_ELF_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "user/base/error.h"

struct elf_file;

/*
 * Reads the headers. The descriptor stays the caller's and must stay open; `name` is what errors call the file. Only
 * 64-bit files for this machine. -ENOEXEC: it is no such file, -EBADMSG: it is one, but broken.
 */
int elf_file_open(int fd, const char *name, struct elf_file **file, struct error *err);
void elf_file_close(struct elf_file *file);

enum elf_problem {
	ELF_FOUND,     /* none */
	ELF_UNKNOWN,   /* no such symbol */
	ELF_UNDEFINED, /* used here, defined in another library */
	ELF_IFUNC,     /* the symbol is that of a resolver, which runs once and chooses the function */
	ELF_NOT_CODE,  /* data, or outside of what is mapped executable */
	ELF_AMBIGUOUS, /* several, and nothing tells which */
	ELF_NO_PROBE,  /* the kernel takes no probe on its first instruction (LOCK and some segment prefixes) */
};

#define ELF_CODE_LEN 16
struct elf_function {
	enum elf_problem problem;   /* the others are 0 when there is one */
	bool is_local;              /* not exported: from .symtab */
	uint8_t code_len;           /* bytes of `code` that are there */
	uint8_t code[ELF_CODE_LEN]; /* its beginning */
	uint64_t offset;            /* of its first byte in the file: where a uprobe goes */
	uint64_t address;           /* as the file has it, before it is loaded */
	uint64_t size;              /* in bytes; 0: unknown */
	/*
	 * From its first byte to that of some `ret`: 0xc3 on x86-64, anywhere, a jump there returns; d65f03c0 on aarch64.
	 * In the function if there is one, else the nearest in the same segment; 0: none, or the first byte itself.
	 */
	int64_t ret;
};

/*
 * Finds functions by their symbols, all with one pass over the symbol tables: exported ones go before local ones,
 * default versions before others; a version in a symbol's name ("@GLIBC_2.2.5") does not count. 0, or a negative errno
 * when the file could not be read; each has its own `problem`.
 */
int elf_file_find(struct elf_file *file, const char *const *names, size_t count, struct elf_function *found,
		  struct error *err);

/*
 * Finds one function, by its symbol or by its C++ name as c++filt writes it, with or without the parameters if one
 * alone is called so; blanks do not count. On failure the error says why, and what may have been meant: -ENOENT unknown
 * or stripped, -EOPNOTSUPP it exists but cannot be probed, -EINVAL several could be meant.
 */
int elf_file_function(struct elf_file *file, const char *name, struct elf_function *found, struct error *err);

/* Does it export a definition of this symbol? By its hash table: a few small reads. */
bool elf_file_exports(struct elf_file *file, const char *name);

/*
 * Does the text of the names in its .symtab hold one of these (NULL ends them)? Quick, and false when there is no
 * .symtab or its names are more than max_bytes.
 */
bool elf_file_mentions(struct elf_file *file, const char *const *words, uint64_t max_bytes);

/* DT_SONAME, or "" when it has none. Belongs to the file. */
const char *elf_file_soname(struct elf_file *file);

/* Compiled by Go: results go where Go's own convention puts them, and stacks move. elf_file_function() refuses it. */
bool elf_file_is_go(const struct elf_file *file);

#endif
