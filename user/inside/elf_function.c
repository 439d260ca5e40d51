// SPDX-License-Identifier: GPL-2.0-only
/* One function, by the name that somebody wrote: which symbol is meant, and what to say when there is none. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/inside/elf_internal.h"
#include "user/rules/rules.h"

#define MAX_MATCHES 8
#define MAX_SIMILAR 4096 /* that the nearest one is chosen from */
#define MAX_SHOWN   3

/* What one look through all symbols finds out about a name that no symbol has. */
struct look {
	const struct elf_file *file;
	const char *wanted;
	bool no_demangler, is_undefined, has_functions;
	struct {
		char *symbol;
		int how; /* of elf_is_called() */
		struct elf_symbol best;
	} matches[MAX_MATCHES];
	size_t match_count; /* of different functions; may be more than there is room for */
	char *similar[MAX_SIMILAR + 1];
	size_t similar_count;
	char *containing[MAX_SHOWN];
	size_t containing_count;
};

static void look_free(struct look *look)
{
	for (size_t i = 0; i < look->match_count && i < MAX_MATCHES; i++)
		free(look->matches[i].symbol);
	for (size_t i = 0; i < look->similar_count; i++)
		free(look->similar[i]);
	for (size_t i = 0; i < look->containing_count; i++)
		free(look->containing[i]);
	free(look);
}

/* Only what may be shown on a terminal is suggested. */
static bool is_printable(const char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text <= ' ' || (unsigned char)*text >= 0x7f)
			return false;
	}
	return true;
}

static bool has_text(char *const *list, size_t count, const char *text)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(list[i], text) == 0)
			return true;
	}
	return false;
}

static int add_text(char **list, size_t *count, const char *text)
{
	list[*count] = strdup(text);
	if (!list[*count])
		return -ENOMEM;
	++*count;
	return 0;
}

static int note_similar(struct look *look, const char *name)
{
	size_t len = strlen(name), wanted = strlen(look->wanted);
	const char *const words[] = { name, NULL };
	int code = 0;

	if (look->similar_count < MAX_SIMILAR && nearest_word(look->wanted, words))
		code = add_text(look->similar, &look->similar_count, name);
	if (!code && wanted >= 4 && len > wanted && len < 64 && look->containing_count < MAX_SHOWN &&
	    strcasestr(name, look->wanted) && !has_text(look->containing, look->containing_count, name))
		code = add_text(look->containing, &look->containing_count, name);
	return code;
}

/* Several symbols of one function, such as the two of a constructor, are one match. */
static int note_match(struct look *look, const struct elf_symbol *symbol, const char *name, int how)
{
	for (size_t i = 0; i < look->match_count && i < MAX_MATCHES; i++) {
		if (look->matches[i].best.sym.st_value != symbol->sym.st_value)
			continue;
		if (how > look->matches[i].how)
			look->matches[i].how = how;
		return 0;
	}
	if (look->match_count < MAX_MATCHES) {
		look->matches[look->match_count].symbol = strdup(name);
		look->matches[look->match_count].how = how;
		look->matches[look->match_count].best = *symbol;
		if (!look->matches[look->match_count].symbol)
			return -ENOMEM;
	}
	look->match_count++;
	return 0;
}

static int visit(const struct elf_symbol *symbol, void *arg)
{
	struct look *look = arg;
	unsigned int type = ELF64_ST_TYPE(symbol->sym.st_info);
	char *name;
	int how, code = 0;

	if (type != STT_FUNC && type != STT_NOTYPE && type != STT_GNU_IFUNC)
		return 0;
	name = strndup(symbol->name, symbol->name_len);
	if (!name)
		return -ENOMEM;
	if (symbol->sym.st_shndx == SHN_UNDEF) {
		look->is_undefined = look->is_undefined || strcmp(name, look->wanted) == 0;
	} else {
		look->has_functions = true;
		how = elf_may_be_called(name, look->wanted) ? elf_is_called(name, look->wanted) : 0;
		look->no_demangler = look->no_demangler || how == -ENOSYS;
		if (how > 0)
			code = note_match(look, symbol, name, how);
		else if (is_printable(name))
			code = note_similar(look, name);
	}
	free(name);
	return code;
}

/* ---- what to say ---- */

static int broken(const struct elf_file *file, int code, struct error *err)
{
	if (code == -EBADMSG)
		return error_set(err, code, EXIT_CANNOT, "'%s' is a broken ELF file", file->name);
	return error_set(err, code, EXIT_FAILED, "cannot read '%s': %s", file->name, strerror(-code));
}

static void hint_similar(const struct look *look, struct error *err)
{
	const char *nearest = nearest_word(look->wanted, (const char *const *)look->similar);
	char list[256] = "";

	if (nearest) {
		error_hint(err, "did you mean '%s'?", nearest);
		return;
	}
	for (size_t i = 0; i < look->containing_count; i++)
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s'%s'", i ? ", " : "",
			 look->containing[i]);
	if (look->containing_count)
		error_hint(err, "it has %s", list);
	else if (look->no_demangler)
		error_hint(err, "C++ names need libstdc++.so.6, which is not installed; write the symbol as nm has it");
	else if (!look->file->all.count)
		error_hint(err, "the file is stripped: only what it exports can be found");
}

static int unknown(const struct look *look, struct error *err)
{
	const char *file = look->file->name;

	if (look->is_undefined) {
		error_set(err, -EOPNOTSUPP, EXIT_USAGE, "'%s' calls function '%s', but another library has it", file,
			  look->wanted);
		return -EOPNOTSUPP;
	}
	if (!look->has_functions) {
		error_set(err, -ENOENT, EXIT_USAGE, "'%s' has no symbols, so function '%s' cannot be found", file,
			  look->wanted);
		error_hint(err, "it is stripped; a build that is not, or a library that it uses, can be named instead");
		return -ENOENT;
	}
	error_set(err, -ENOENT, EXIT_USAGE, "'%s' has no function '%s'", file, look->wanted);
	hint_similar(look, err);
	return -ENOENT;
}

static int several(const struct look *look, struct error *err)
{
	char list[512] = "";
	size_t shown = 0;

	for (size_t i = 0; i < look->match_count && i < MAX_MATCHES && shown < MAX_SHOWN; i++) {
		if (is_printable(look->matches[i].symbol) && strlen(look->matches[i].symbol) < 120)
			snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s", shown++ ? ", " : "",
				 look->matches[i].symbol);
	}
	error_set(err, -EINVAL, EXIT_USAGE, "'%s' could be %zu functions of '%s'", look->wanted, look->match_count,
		  look->file->name);
	if (shown)
		error_hint(err, "write the symbol: %s%s", list, look->match_count > shown ? " or another" : "");
	return -EINVAL;
}

static int refuse(const struct elf_file *file, const char *name, enum elf_problem problem, struct error *err)
{
	switch (problem) {
	case ELF_IFUNC:
		error_set(err, 0, EXIT_CANNOT,
			  "'%s' is chosen when '%s' is loaded (IFUNC): its symbol is that of the chooser", name,
			  file->name);
		error_hint(err, "name one of the functions that it chooses from, or a function that calls it");
		break;
	case ELF_UNDEFINED:
		error_set(err, 0, EXIT_USAGE, "'%s' calls function '%s', but another library has it", file->name, name);
		break;
	case ELF_NO_PROBE:
		error_set(err, 0, EXIT_CANNOT, "the kernel takes no probe on the first instruction of '%s' in '%s'",
			  name, file->name);
		break;
	case ELF_AMBIGUOUS:
		error_set(err, 0, EXIT_USAGE, "'%s' has several local functions '%s'", file->name, name);
		return -EINVAL;
	default:
		error_set(err, 0, EXIT_USAGE, "'%s' of '%s' is no function", name, file->name);
		break;
	}
	return -EOPNOTSUPP;
}

/* ---- the search ---- */

/* The symbol that is meant by a C++ name: one that is the whole name goes before those with parameters. */
static const struct elf_symbol *choose(struct look *look)
{
	const struct elf_symbol *whole = NULL;
	size_t count = 0;

	if (look->match_count == 1)
		return &look->matches[0].best;
	if (look->match_count > MAX_MATCHES)
		return NULL;
	for (size_t i = 0; i < look->match_count; i++) {
		if (look->matches[i].how == 2) {
			whole = &look->matches[i].best;
			count++;
		}
	}
	return count == 1 ? whole : NULL;
}

static int find_cplusplus(struct elf_file *file, const char *name, struct elf_function *found, struct error *err)
{
	struct look *look = calloc(1, sizeof(*look));
	const struct elf_symbol *symbol;
	int code = look ? 0 : -ENOMEM;

	if (!code) {
		look->file = file;
		look->wanted = name;
		code = elf_each_symbol(file, &file->exported, visit, look);
	}
	if (!code)
		code = elf_each_symbol(file, &file->all, visit, look);
	if (code) {
		code = broken(file, code, err);
	} else if (!look->match_count) {
		code = unknown(look, err);
	} else {
		symbol = choose(look);
		code = symbol ? elf_resolve(file, symbol, found) : several(look, err);
		if (code && symbol)
			code = broken(file, code, err);
	}
	if (look)
		look_free(look);
	return code;
}

int elf_file_function(struct elf_file *file, const char *name, struct elf_function *found, struct error *err)
{
	char *plain;
	int code;

	memset(found, 0, sizeof(*found));
	if (file->is_go) {
		error_set(err, 0, EXIT_CANNOT, "'%s' is compiled by Go, whose functions cannot be made to return",
			  file->name);
		error_hint(err, "its connections and system calls can be made to fail instead");
		return -EOPNOTSUPP;
	}
	plain = strndup(name, strcspn(name, "@"));
	if (!plain)
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	code = elf_file_find(file, (const char *const *)&plain, 1, found, err);
	if (!code && found->problem == ELF_UNKNOWN)
		code = find_cplusplus(file, plain, found, err);
	if (!code && found->problem != ELF_FOUND)
		code = refuse(file, plain, found->problem, err);
	free(plain);
	return code;
}
