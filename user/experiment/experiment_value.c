// SPDX-License-Identifier: GPL-2.0-only
/* Values that several sections of an experiment share; see experiment_internal.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/experiment/experiment_internal.h"

int key_string(struct parser *p, const struct node *node, void *target)
{
	char **string = target;
	const char *text;
	int err;

	err = value_text(p, node, "a single value", &text);
	if (err)
		return err;
	*string = strdup(text);
	return *string ? 0 : out_of_memory(p);
}

int key_phase(struct parser *p, const struct node *node, void *target)
{
	return value_duration(p, node, EXPERIMENT_MAX_PHASE_NS, target);
}

int key_timeout(struct parser *p, const struct node *node, void *target)
{
	uint64_t *ns = target;
	int err = key_phase(p, node, target);

	if (!err && *ns < 1000000)
		err = fail(p, node->mark, "%s '%s' is too short, at least 1 ms", node->label, show(p, node->text));
	return err;
}

int key_word(struct parser *p, const struct node *node, void *target)
{
	const char *text;
	int err;

	err = value_text(p, node, "a name such as vector-db-timeout", &text);
	return err ? err : name_parse(p, node->mark, text, target);
}

void strings_free(char **strings, size_t count)
{
	for (size_t i = 0; strings && i < count; i++)
		free(strings[i]);
	free(strings);
}

void command_free(char **command)
{
	for (char **word = command; word && *word; word++)
		free(*word);
	free(command);
}

/* A word that only a shell would understand, in a command that none sees. */
static bool needs_shell(const char *word)
{
	static const char *const words[] = { "|", "||", "&&", ";", ">", ">>", "<", "&", NULL };

	for (size_t i = 0; words[i]; i++) {
		if (strcmp(words[i], word) == 0)
			return true;
	}
	return false;
}

int key_command(struct parser *p, const struct node *node, void *target)
{
	static const char expected[] = "a list such as [redis-cli, PING]; there is no shell";
	char ***command = target;
	const char *word;
	int err;

	err = value_kind(p, node, NODE_LIST, expected);
	if (err)
		return err;
	if (node->count == 0)
		return fail(p, node->mark, "'%s' is an empty list, expected %s", node->label, expected);
	if (node->count > EXPERIMENT_MAX_ARGUMENTS)
		return fail(p, node->mark, "'%s' has %zu words, at most %d are allowed", node->label, node->count,
			    EXPERIMENT_MAX_ARGUMENTS);
	*command = calloc(node->count + 1, sizeof(**command));
	if (!*command)
		return out_of_memory(p);
	for (size_t i = 0; i < node->count; i++) {
		err = value_kind(p, &node->children[i], NODE_TEXT, "a word of the command");
		if (err)
			return err;
		word = node->children[i].text;
		if (node->children[i].plain && needs_shell(word))
			return fail(p, node->children[i].mark,
				    "'%s' would need a shell; if the command itself shall see it, put it in quotes",
				    word);
		(*command)[i] = strdup(word);
		if (!(*command)[i])
			return out_of_memory(p);
	}
	if (!(*command)[0][0])
		return fail(p, node->children[0].mark, "the command is empty");
	return 0;
}

char *experiment_path(const struct reading *r, const char *path)
{
	char *whole;

	if (asprintf(&whole, "%s%s", path[0] == '/' ? "" : r->folder, path) < 0)
		return NULL;
	return whole;
}
