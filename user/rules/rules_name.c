// SPDX-License-Identifier: GPL-2.0-only
/* Hosts by name: `api.openai.com`, and `*.openai.com` for everything below. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "user/rules/rules_parse.h"

#define MAX_LABEL 63

bool is_host_name(const char *text)
{
	bool letter = false;

	for (; *text; text++) {
		if (!isalnum((unsigned char)*text) && !strchr(".-_*", *text) && !((unsigned char)*text & 0x80))
			return false;
		letter = letter || isalpha((unsigned char)*text) || *text == '*' || (unsigned char)*text & 0x80;
	}
	return letter;
}

/* Every label has 1 to 63 characters, none begins or ends with a hyphen. NULL, or what is wrong. */
static const char *label_fault(const char *name)
{
	while (*name) {
		size_t len = strcspn(name, ".");

		if (len == 0)
			return "a name has something between its dots";
		if (len > MAX_LABEL)
			return "a part of a name has at most 63 characters";
		if (name[0] == '-' || name[len - 1] == '-')
			return "no part of a name begins or ends with '-'";
		name += len;
		if (*name == '.' && *++name == '\0')
			return "a name has something behind its last dot";
	}
	return NULL;
}

static const char *name_fault(const char *name, bool suffix)
{
	for (const char *c = name; *c; c++) {
		if ((unsigned char)*c & 0x80)
			return "write it as DNS has it (xn--...)";
	}
	if (strchr(name, '*'))
		return "a '*' stands in front of a dot and nowhere else: '*.example.com'";
	if (strlen(name) > RULES_MAX_HOST_NAME)
		return "a name has at most 253 characters";
	if (suffix && !*name)
		return "a '*' stands in front of a name: '*.example.com'";
	return label_fault(name);
}

int host_name_parse(struct parser *p, const struct node *node, struct host_name *name)
{
	const char *text = node->text, *fault;
	size_t len;

	name->suffix = strncmp(text, "*.", 2) == 0;
	name->mark = node->mark;
	name->name = strdup(text + (name->suffix ? 2 : 0));
	if (!name->name)
		return out_of_memory(p);
	len = strlen(name->name);
	if (len > 1 && name->name[len - 1] == '.' && name->name[len - 2] != '.')
		name->name[len - 1] = '\0';
	for (char *c = name->name; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	fault = name_fault(name->name, name->suffix);
	return fault ? fail(p, node->mark, "invalid host name '%s': %s", show(p, text), fault) : 0;
}

/* Does `wide` stand for every name that `name` stands for? */
static bool name_covers(const struct host_name *wide, const struct host_name *name)
{
	size_t wide_len = strlen(wide->name), len = strlen(name->name);

	if (strcmp(wide->name, name->name) == 0)
		return wide->suffix == name->suffix;
	return wide->suffix && len > wide_len + 1 && name->name[len - wide_len - 1] == '.' &&
	       strcmp(name->name + len - wide_len, wide->name) == 0;
}

static bool some_covers(const struct endpoint *wide, const struct host_name *name)
{
	for (size_t i = 0; i < wide->names_count; i++) {
		if (name_covers(&wide->names[i], name))
			return true;
	}
	return false;
}

static bool holds(const struct host_name *names, size_t count, const struct host_name *name)
{
	for (size_t i = 0; i < count; i++) {
		if (names[i].suffix == name->suffix && strcmp(names[i].name, name->name) == 0)
			return true;
	}
	return false;
}

/* A copy without addresses. */
static int name_copy(struct host_name *to, const struct host_name *from)
{
	*to = *from;
	to->addresses = NULL;
	to->addresses_count = 0;
	to->name = strdup(from->name);
	return to->name ? 0 : -ENOMEM;
}

int names_copy(struct endpoint *to, const struct endpoint *from)
{
	to->names = calloc(from->names_count + 1, sizeof(*to->names));
	for (size_t i = 0; to->names && i < from->names_count; i++) {
		if (name_copy(&to->names[to->names_count++], &from->names[i]))
			return -ENOMEM;
	}
	return to->names ? 0 : -ENOMEM;
}

void names_free(struct host_name *names, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(names[i].name);
		free(names[i].addresses);
	}
	free(names);
}

int names_narrow(struct endpoint *endpoint, const struct endpoint *named)
{
	struct host_name *both = calloc(endpoint->names_count + named->names_count + 1, sizeof(*both));
	const struct endpoint *lists[] = { endpoint, named };
	size_t count = 0;

	for (int l = 0; both && l < 2; l++) {
		for (size_t i = 0; i < lists[l]->names_count; i++) {
			const struct host_name *name = &lists[l]->names[i];

			if (!some_covers(lists[!l], name) || holds(both, count, name))
				continue;
			if (name_copy(&both[count++], name)) {
				names_free(both, count);
				return -ENOMEM;
			}
		}
	}
	if (!both)
		return -ENOMEM;
	names_free(endpoint->names, endpoint->names_count);
	endpoint->names = both;
	endpoint->names_count = count;
	return 0;
}
