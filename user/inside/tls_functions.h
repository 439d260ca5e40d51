/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The functions by which programs write to and read from connections inside TLS: those of OpenSSL (1.1 and 3), which
 * BoringSSL and AWS-LC have under the same names.
 */
#ifndef USER_TLS_FUNCTIONS_H
#define USER_TLS_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "bpf/chaos.h"
#include "user/inside/elf_file.h"

struct tls_function {
	const char *name;
	enum chaos_role role;
	bool returns; /* what it returns is waited for */
};

#define TLS_FUNCTIONS 6
extern const struct tls_function tls_functions[TLS_FUNCTIONS];

/* What the dynamic linker, or the path, would take for the libraries, and for programs with one of their own. NULL ends it. */
extern const char *const tls_libraries[];

/*
 * Finds those that a file defines: found[i] is where tls_functions[i] is, or has a problem other than ELF_FOUND. Returns how
 * many there are, or a negative errno. found has TLS_FUNCTIONS entries.
 */
int tls_file_functions(struct elf_file *elf, bool is_program, struct elf_function *found, struct error *err);

#endif
