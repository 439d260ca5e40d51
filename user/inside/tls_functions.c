// SPDX-License-Identifier: GPL-2.0-only
#include "user/inside/tls_functions.h"

const struct tls_function tls_functions[TLS_FUNCTIONS] = {
	{ "SSL_write", CHAOS_ROLE_TLS_WRITE, true }, { "SSL_write_ex", CHAOS_ROLE_TLS_WRITE_EX, true },
	{ "SSL_read", CHAOS_ROLE_TLS_READ, true },   { "SSL_read_ex", CHAOS_ROLE_TLS_READ_EX, true },
	{ "SSL_free", CHAOS_ROLE_TLS_FREE, false },  { "BIO_write", CHAOS_ROLE_TLS_RECORD, false },
};

const char *const tls_libraries[] = {
	"libssl.so.3", "libcrypto.so.3", "libssl.so.1.1", "libcrypto.so.1.1", "node", NULL
};

/* How much text of local names is read of a program that has the library linked in. */
#define MAX_NAMES (64u << 20)
static const char *const mentions[] = { "SSL_write", NULL };

/* libssl writes by the functions of libcrypto, and a library of one's own may have them all. */
int tls_file_functions(struct elf_file *elf, bool is_program, struct elf_function *found, struct error *err)
{
	const char *names[TLS_FUNCTIONS];
	int count = 0, ret;

	if (!elf_file_exports(elf, "SSL_write") && !elf_file_exports(elf, "BIO_write") &&
	    !(is_program && elf_file_mentions(elf, mentions, MAX_NAMES)))
		return 0;
	for (size_t i = 0; i < TLS_FUNCTIONS; i++)
		names[i] = tls_functions[i].name;
	ret = elf_file_find(elf, names, TLS_FUNCTIONS, found, err);
	if (ret)
		return ret;
	for (size_t i = 0; i < TLS_FUNCTIONS; i++)
		count += found[i].problem == ELF_FOUND;
	return count;
}
