// SPDX-License-Identifier: GPL-2.0-only
/*
 * C++ names of symbols. The demangler is libstdc++'s, loaded when a name needs it: nothing else of chaosbpf is C++, and
 * every system with something to demangle has it.
 */
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "user/inside/elf_internal.h"

/*
 * A symbol may refer to parts of itself, which then are written out: in 8 bytes each it can double its length. The
 * demangler goes along until memory ends, so symbols that could grow beyond some megabytes are left alone.
 */
#define MAX_SYMBOL     2048
#define MAX_REFERENCES 32

static size_t count_references(const char *symbol)
{
	size_t count = 0;

	for (const char *c = symbol; *c; c++) {
		const char *end = c + 1;

		if (*c != 'S' && *c != 'T')
			continue;
		while (isdigit((unsigned char)*end) || isupper((unsigned char)*end))
			end++;
		count += *end == '_';
	}
	return count;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/*
 * The function's own name stands in the symbol as it is: the last word before the parameters and template arguments.
 * Operators have no such word.
 */
static size_t own_word(const char *wanted, const char **word)
{
	size_t len = strcspn(wanted, "(<"), begin;

	while (len && !is_word(wanted[len - 1]))
		len--;
	for (begin = len; begin && is_word(wanted[begin - 1]);)
		begin--;
	*word = wanted + begin;
	return strstr(wanted, "operator") ? 0 : len - begin;
}

bool elf_may_be_called(const char *symbol, const char *wanted)
{
	const char *word;
	size_t len = own_word(wanted, &word);

	if (strncmp(symbol, "_Z", 2) != 0 || (len && !memmem(symbol, strlen(symbol), word, len)))
		return false;
	return strlen(symbol) <= MAX_SYMBOL && count_references(symbol) <= MAX_REFERENCES;
}

typedef char *demangle_fn(const char *symbol, char *buf, size_t *size, int *status);

static demangle_fn *demangler(void)
{
	static const char *const libraries[] = { "libstdc++.so.6", "libc++abi.so.1", NULL };
	static demangle_fn *found;

	for (size_t i = 0; libraries[i] && !found; i++) {
		void *library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);

		if (library)
			found = (demangle_fn *)dlsym(library, "__cxa_demangle");
	}
	return found;
}

/* Takes out what does not count: blanks, but not those that part two words. */
static void squeeze(char *text)
{
	char *to = text;

	for (const char *c = text; *c; c++) {
		const char *next = c + strspn(c, " ");

		if (*c != ' ')
			*to++ = *c;
		else if (to > text && is_word(to[-1]) && is_word(*next))
			*to++ = ' ';
		if (*c == ' ')
			c = next - 1;
	}
	*to = '\0';
}

/* Where the parameters begin that end the text, perhaps with "const" or the like behind them; NULL: it has none. */
static char *parameters(char *text)
{
	char *end = strrchr(text, ')');
	int depth = 0;

	for (char *c = end; c && c >= text; c--) {
		depth += *c == ')';
		depth -= *c == '(';
		if (!depth)
			return c > text && strncmp(c, "(anonymous namespace)", 21) != 0 ? c : NULL;
	}
	return NULL;
}

/* Is that the end of `text`, with nothing before it but the type of a result, as templates have it? */
static bool ends_with(const char *text, const char *wanted)
{
	size_t len = strlen(text), end = strlen(wanted);

	if (len < end || strcmp(text + len - end, wanted) != 0)
		return false;
	return len == end || text[len - end - 1] == ' ' || text[len - end - 1] == '*' || text[len - end - 1] == '&' ||
	       text[len - end - 1] == '>';
}

int elf_is_called(const char *symbol, const char *wanted)
{
	demangle_fn *demangle = demangler();
	char *text, *name, *from;
	int status, match = 0;

	if (!demangle)
		return -ENOSYS;
	text = demangle(symbol, NULL, NULL, &status);
	name = strdup(wanted);
	if (text && name && !strstr(text, " [clone ")) { /* parts of a function, with other parameters */
		squeeze(text);
		squeeze(name);
		from = parameters(text);
		if (ends_with(text, name)) {
			match = 2;
		} else if (from) {
			*from = '\0';
			match = ends_with(text, name);
		}
	}
	free(text);
	free(name);
	return match;
}
