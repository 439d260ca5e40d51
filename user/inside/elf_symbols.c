// SPDX-License-Identifier: GPL-2.0-only
/* Symbol tables read from one end to the other, and finding functions by their exact names. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "user/inside/elf_internal.h"

#define MAX_SYMBOLS (4u << 20)
#define MAX_TEXT    (256u << 20)
#define MAX_NAME    4096 /* or a text without an end would be read once for each symbol */
#define AT_ONCE     2048

/* ---- all symbols of a table ---- */

static bool has_version(const struct elf_file *file, const struct elf_symbols *table, uint64_t index)
{
	uint16_t version;

	return table->versions && !elf_read(file, table->versions + 2 * index, &version, sizeof(version)) &&
	       version & 0x8000;
}

static int visit_one(const struct elf_file *file, const struct elf_symbols *table, uint64_t index, const char *text,
		     const Elf64_Sym *sym, elf_visit *visit, void *arg)
{
	struct elf_symbol symbol = { .sym = *sym, .is_local = table == &file->all };
	unsigned int type = ELF64_ST_TYPE(sym->st_info);
	const char *version;

	if (!sym->st_name || sym->st_name >= table->text_size || type == STT_FILE || type == STT_SECTION)
		return 0;
	symbol.name = text + sym->st_name;
	symbol.name_len = strnlen(symbol.name, MAX_NAME);
	if (symbol.name_len == MAX_NAME)
		return 0;
	version = memchr(symbol.name, '@', symbol.name_len);
	symbol.is_default = !version || version[1] == '@';
	if (version)
		symbol.name_len = (size_t)(version - symbol.name);
	if (has_version(file, table, index))
		symbol.is_default = false;
	return visit(&symbol, arg);
}

static int visit_all(const struct elf_file *file, const struct elf_symbols *table, const char *text, elf_visit *visit,
		     void *arg)
{
	uint64_t count = table->count < MAX_SYMBOLS ? table->count : MAX_SYMBOLS;
	Elf64_Sym *syms = malloc(AT_ONCE * sizeof(*syms));
	int code = syms ? 0 : -ENOMEM;

	for (uint64_t at = 0; at < count && !code; at += AT_ONCE) {
		size_t len = count - at < AT_ONCE ? count - at : AT_ONCE;

		code = elf_read(file, table->offset + at * sizeof(*syms), syms, len * sizeof(*syms));
		for (size_t i = 0; i < len && !code; i++)
			code = visit_one(file, table, at + i, text, &syms[i], visit, arg);
	}
	free(syms);
	return code;
}

int elf_each_symbol(const struct elf_file *file, const struct elf_symbols *table, elf_visit *visit, void *arg)
{
	char *text;
	int code;

	if (!table->count)
		return 0;
	if (table->text_size > MAX_TEXT || table->text > file->size || table->text_size > file->size - table->text)
		return -EBADMSG;
	text = malloc(table->text_size + 1);
	if (!text)
		return -ENOMEM;
	text[table->text_size] = '\0';
	code = elf_read(file, table->text, text, table->text_size);
	if (!code)
		code = visit_all(file, table, text, visit, arg);
	free(text);
	return code;
}

/* ---- by exact names ---- */

/* What a symbol is worth as the answer to its name. */
enum rank {
	RANK_NONE,
	RANK_UNDEFINED,
	RANK_LOCAL,
	RANK_OLD, /* version */
	RANK_GLOBAL,
	RANK_EXPORTED,
};

struct wanted {
	const char *name;
	size_t index; /* in what the caller gave */
	enum rank rank;
	bool is_ambiguous;
	struct elf_symbol best; /* its name is not valid */
};

struct search {
	struct wanted *wanted; /* by name */
	size_t count;
};

static enum rank rank_of(const struct elf_symbol *symbol)
{
	if (symbol->sym.st_shndx == SHN_UNDEF)
		return RANK_UNDEFINED;
	if (ELF64_ST_BIND(symbol->sym.st_info) == STB_LOCAL)
		return RANK_LOCAL;
	if (!symbol->is_default)
		return RANK_OLD;
	return symbol->is_local ? RANK_GLOBAL : RANK_EXPORTED;
}

static void consider(struct wanted *wanted, const struct elf_symbol *symbol)
{
	enum rank rank = rank_of(symbol);

	if (rank == wanted->rank && rank != RANK_UNDEFINED && symbol->sym.st_value != wanted->best.sym.st_value)
		wanted->is_ambiguous = true;
	if (rank <= wanted->rank)
		return;
	wanted->rank = rank;
	wanted->best = *symbol;
	wanted->is_ambiguous = false;
}

static int compare_symbol(const void *key, const void *entry)
{
	const struct elf_symbol *symbol = key;
	const struct wanted *wanted = entry;
	int order = strncmp(symbol->name, wanted->name, symbol->name_len);

	return order ? order : wanted->name[symbol->name_len] ? -1 : 0;
}

static int visit_wanted(const struct elf_symbol *symbol, void *arg)
{
	struct search *search = arg;
	struct wanted *wanted = bsearch(symbol, search->wanted, search->count, sizeof(*search->wanted), compare_symbol);

	if (wanted)
		consider(wanted, symbol);
	return 0;
}

static int visit_this(const struct elf_symbol *symbol, void *arg)
{
	consider(arg, symbol);
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const struct wanted *x = a, *y = b;

	return strcmp(x->name, y->name);
}

/* Exported ones by the hash table if there is one. */
static int search_exported(const struct elf_file *file, struct search *search)
{
	int code = 0;

	for (size_t i = 0; i < search->count && !code; i++)
		code = elf_look_up(file, search->wanted[i].name, visit_this, &search->wanted[i]);
	if (code == -ENOENT)
		code = elf_each_symbol(file, &file->exported, visit_wanted, search);
	return code;
}

static bool has_all(const struct search *search)
{
	for (size_t i = 0; i < search->count; i++) {
		if (search->wanted[i].rank < RANK_EXPORTED)
			return false;
	}
	return true;
}

static int fill(const struct elf_file *file, const struct search *search, struct elf_function *found)
{
	int code = 0;

	for (size_t i = 0; i < search->count && !code; i++) {
		const struct wanted *wanted = &search->wanted[i];
		struct elf_function *f = &found[wanted->index];

		memset(f, 0, sizeof(*f));
		if (wanted->rank == RANK_NONE)
			f->problem = ELF_UNKNOWN;
		else if (wanted->is_ambiguous)
			f->problem = ELF_AMBIGUOUS;
		else
			code = elf_resolve(file, &wanted->best, f);
	}
	return code;
}

int elf_file_find(struct elf_file *file, const char *const *names, size_t count, struct elf_function *found,
		  struct error *err)
{
	struct search search = { .wanted = calloc(count, sizeof(*search.wanted)), .count = count };
	int code = search.wanted ? 0 : -ENOMEM;

	for (size_t i = 0; i < count && !code; i++)
		search.wanted[i] = (struct wanted){ .name = names[i], .index = i };
	if (!code) {
		qsort(search.wanted, count, sizeof(*search.wanted), by_name);
		code = search_exported(file, &search);
	}
	if (!code && !has_all(&search))
		code = elf_each_symbol(file, &file->all, visit_wanted, &search);
	if (!code)
		code = fill(file, &search, found);
	free(search.wanted);
	if (code == -EBADMSG)
		return error_set(err, code, EXIT_CANNOT, "'%s' is a broken ELF file", file->name);
	if (code)
		return error_set(err, code, EXIT_FAILED, "cannot read '%s': %s", file->name, strerror(-code));
	return 0;
}
