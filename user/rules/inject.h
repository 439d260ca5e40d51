/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One rule from the words of a command line.
 *
 *   delay=5s --to 127.0.0.1:6333 --pid 42 --for 2m   ->   the YAML of such a rule   ->   rules_parse()
 *
 * So there is one language and one parser. Every word ends up inside one scalar of that text, whatever bytes it is made
 * of; what the parser finds wrong is said of the word it came from, not of a line that nobody wrote.
 */
#ifndef USER_INJECT_H
#define USER_INJECT_H

#include <stdbool.h>
#include <stddef.h>

#include "user/base/error.h"
#include "user/rules/rules.h"

#define INJECT_FILE "command line" /* the rules' file name in messages and `status` */

struct inject_word {
	const char *option; /* without dashes; NULL: a fault word such as delay=5s */
	const char *value;  /* NULL for an option without value */
};

struct inject {
	struct inject_word *words; /* in the order of the command line */
	size_t count;
	bool filter; /* only a match is written: who is measured. No fault and no end are needed, nor a name */
	const char *endpoints; /* --endpoints: where the user's presets are, or NULL */
	char *yaml;
	size_t yaml_len;
	const char **origin; /* of each line of yaml: the option or fault word, or NULL */
	size_t lines;
};

/* Keeps the pointers. */
void inject_add(struct inject *inject, const char *option, const char *value);

/* Fills yaml. Complains about what cannot be written down: an unknown fault, --to with different ports. */
int inject_yaml(struct inject *inject, struct error *err);

/* inject_yaml() must have succeeded. */
int inject_parse(const struct inject *inject, struct rules **rules, struct error *err);

void inject_free(struct inject *inject);

#endif
