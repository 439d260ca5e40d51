// SPDX-License-Identifier: GPL-2.0-only
/*
 * Owns the syntax of the command line; what an option means is its command's.
 */
#include "user/cli/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/error.h"
#include "user/base/log.h"
#include "user/rules/rules.h"

#define MAX_OPTIONS 40
#define FIRST_CODE  256 /* above every character */

bool options_json;
static int verbose;

void options_verbose(void)
{
	log_set_verbose(++verbose);
}

bool options_given(int argc, char **argv, const char *word)
{
	for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], word) == 0)
			return true;
	}
	return false;
}

static int unknown_option(const char *command, const struct option *known, const char *argument)
{
	const char *names[MAX_OPTIONS + 4], *near;
	char word[64], hint[160];
	size_t n = 0;

	snprintf(word, sizeof(word), "%.*s", (int)strcspn(argument, "="), argument);
	for (; known[n].name; n++)
		names[n] = known[n].name;
	names[n] = NULL;
	near = strncmp(word, "--", 2) == 0 ? nearest_word(word + 2, names) : NULL;
	if (near)
		snprintf(hint, sizeof(hint), "did you mean '--%s'?", near);
	else
		snprintf(hint, sizeof(hint), "'chaosbpf %s --help' lists the options", command);
	return log_fail(EXIT_USAGE, hint, "%s has no option '%s'", command, word);
}

static int take_text(const struct option_spec *spec, const char *argument)
{
	const char **text = spec->value;

	if (*text)
		return log_fail(EXIT_USAGE, NULL, "--%s is given twice", spec->name);
	*text = argument ? argument : "";
	return 0;
}

static int take(const struct option_spec *spec, const char *argument)
{
	switch (spec->kind) {
	case OPTION_FLAG:
		*(bool *)spec->value = true;
		return 0;
	case OPTION_TEXT:
	case OPTION_OPTIONAL:
		return take_text(spec, argument);
	case OPTION_DURATION:
		if (parse_duration(argument, spec->value) || !*(uint64_t *)spec->value)
			return log_fail(EXIT_USAGE, "write it as 30s, 5m or 1h30m", "--%s: '%s' is not a duration",
					spec->name, argument);
		return 0;
	case OPTION_CALL:
	case OPTION_CALL_FLAG:
		spec->call(spec->value, spec->name, argument);
		return 0;
	}
	return 0;
}

static void to_getopt(const struct option_spec *specs, struct option *known)
{
	static const int arguments[] = {
		[OPTION_FLAG] = no_argument,           [OPTION_TEXT] = required_argument,
		[OPTION_DURATION] = required_argument, [OPTION_OPTIONAL] = optional_argument,
		[OPTION_CALL] = required_argument,     [OPTION_CALL_FLAG] = no_argument,
	};
	size_t n = 0;

	for (; specs && specs[n].name; n++)
		known[n] = (struct option){ specs[n].name, arguments[specs[n].kind], NULL, FIRST_CODE + (int)n };
	known[n] = (struct option){ "json", no_argument, NULL, 'j' };
	known[n + 1] = (struct option){ "verbose", no_argument, NULL, 'v' };
	known[n + 2] = (struct option){ "help", no_argument, NULL, 'h' };
	known[n + 3] = (struct option){ 0 };
}

/* getopt says '?' for an unknown option and for a value that is not wanted; this tells them apart. */
static int unwanted_value(const struct option *known, const char *argument)
{
	for (; known->name; known++) {
		size_t len = strlen(known->name);

		if (strncmp(argument, "--", 2) == 0 && strncmp(argument + 2, known->name, len) == 0 &&
		    argument[2 + len] == '=')
			return log_fail(EXIT_USAGE, NULL, "--%s takes no value", known->name);
	}
	return 0;
}

int options_parse(const char *command, int *argc, char ***argv, const struct option_spec *specs)
{
	struct option known[MAX_OPTIONS + 4];
	char letter[3] = "-?";
	int c, rc;

	to_getopt(specs, known);
	opterr = 0;
	optind = 0; /* begin anew: main.c has read the options before the command */
	while ((c = getopt_long(*argc, *argv, ":vh", known, NULL)) != -1) {
		const char *argument = (*argv)[optind - 1];

		if (c == 'j') {
			options_json = true;
		} else if (c == 'v') {
			options_verbose();
		} else if (c == ':') {
			return log_fail(EXIT_USAGE, NULL, "%s needs a value", argument);
		} else if (c == '?') {
			rc = unwanted_value(known, argument);
			if (rc)
				return rc;
			/* In a bundle of letters optind does not tell which word it was. */
			letter[1] = (char)optopt;
			return unknown_option(command, known, optopt ? letter : argument);
		} else if (c >= FIRST_CODE) {
			rc = take(&specs[c - FIRST_CODE], optarg);
			if (rc)
				return rc;
		}
	}
	*argc -= optind;
	*argv += optind;
	return 0;
}

int options_operands(const char *command, int argc, char **argv, int min, int max, const char *what)
{
	char hint[96];

	snprintf(hint, sizeof(hint), "'chaosbpf %s --help' shows how", command);
	if (argc < min)
		return log_fail(EXIT_USAGE, hint, "%s needs %s", command, what);
	if (argc > max)
		return log_fail(EXIT_USAGE, hint, "%s does not know what to do with '%s'", command, argv[max]);
	return 0;
}
