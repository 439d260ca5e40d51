// SPDX-License-Identifier: GPL-2.0-only
/* A tree back to YAML: rules that were written into another file, or come from several, need a text of their own. */
#include <stdio.h>
#include <stdlib.h>

#include "user/rules/rules_yaml.h"

/* Double quotes suit every text without control characters. */
static void write_quoted(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++)
		fprintf(out, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
	fputc('"', out);
}

/* What was written without quotes means the same to the rule language with them, but for nothing at all. */
static void write_node(FILE *out, const struct node *node)
{
	const bool map = node->kind == NODE_MAP;

	if (node->kind == NODE_TEXT) {
		if (node->plain && !node->text[0])
			fputs("null", out);
		else
			write_quoted(out, node->text);
		return;
	}
	fputc(map ? '{' : '[', out);
	for (size_t i = 0; i < node->count; i++) {
		fputs(i ? ", " : " ", out);
		if (map) {
			write_quoted(out, node->children[i].key);
			fputs(": ", out);
		}
		write_node(out, &node->children[i]);
	}
	fputs(map ? " }" : " ]", out);
}

/* The outermost levels have a line for each entry: people read this, too. */
char *yaml_write(const struct node *root)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return NULL;
	for (size_t i = 0; root->kind == NODE_MAP && i < root->count; i++) {
		const struct node *child = &root->children[i];

		fprintf(out, "%s:", child->key);
		if (child->kind != NODE_LIST) {
			fputc(' ', out);
			write_node(out, child);
		}
		fputc('\n', out);
		for (size_t n = 0; child->kind == NODE_LIST && n < child->count; n++) {
			fputs("- ", out);
			write_node(out, &child->children[n]);
			fputc('\n', out);
		}
	}
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}
