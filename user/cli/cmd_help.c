// SPDX-License-Identifier: GPL-2.0-only
/* `chaosbpf help` and `chaosbpf version`. */
#include <stdio.h>

#include "user/cli/cmd.h"
#include "user/cli/options.h"

#ifndef CHAOSBPF_VERSION
#define CHAOSBPF_VERSION "unknown"
#endif

void help_print(void)
{
	fputs("chaosbpf breaks what an AI service depends on, on purpose, from inside the kernel:\n"
	      "a model API that is slow, a vector database that resets, an endpoint that refuses.\n"
	      "It hits only what you name, ends by itself, and counts what it did.\n"
	      "\n"
	      "Usage: chaosbpf COMMAND [OPTIONS]\n"
	      "\n",
	      stdout);
	for (const struct command *const *command = commands; *command; command++)
		printf("  %-9s %s\n", (*command)->name, (*command)->summary);
	fputs("\n"
	      "Start here: every request of one process to a vector database takes 5 s longer,\n"
	      "for two minutes.\n"
	      "\n"
	      "  sudo chaosbpf inject delay=5s --to 127.0.0.1:6333 --pid 42 --for 2m\n"
	      "  sudo chaosbpf status\n"
	      "  sudo chaosbpf stop\n"
	      "\n"
	      "'chaosbpf COMMAND --help' says more. Every command takes --json and -v (what libbpf\n"
	      "says). Exit codes: 0 done, 1 failed, 2 bad usage or rules, 3 this kernel cannot,\n"
	      "4 a weakness was found, 5 an experiment was aborted.\n",
	      stdout);
}

static int run_help(int argc, char **argv)
{
	const struct command *command;
	int rc;

	/* main.c calls it with nothing but the program's name for `chaosbpf --help`. */
	rc = options_parse("help", &argc, &argv, NULL);
	if (!rc)
		rc = options_operands("help", argc, argv, 0, 1, "at most a command");
	if (rc)
		return rc;
	if (argc == 0) {
		help_print();
		return EXIT_DONE;
	}
	command = command_find(argv[0]);
	if (!command)
		return command_unknown(argv[0]);
	fputs(command->help, stdout);
	return EXIT_DONE;
}

static const char help_help[] = "Usage: chaosbpf help [COMMAND]\n"
				"\n"
				"Says what chaosbpf does, or what COMMAND does.\n";

const struct command cmd_help = {
	.name = "help",
	.summary = "this text, or 'help COMMAND'",
	.help = help_help,
	.run = run_help,
};

static int run_version(int argc, char **argv)
{
	struct json json;
	int rc = options_parse("version", &argc, &argv, NULL);

	if (!rc)
		rc = options_operands("version", argc, argv, 0, 0, "nothing");
	if (rc)
		return rc;
	if (options_json) {
		json_begin(&json, stdout, false);
		json_open_object(&json, NULL);
		json_text(&json, "version", CHAOSBPF_VERSION);
		json_close_object(&json);
		json_end(&json);
	} else {
		puts("chaosbpf " CHAOSBPF_VERSION);
	}
	return EXIT_DONE;
}

static const char version_help[] = "Usage: chaosbpf version\n"
				   "\n"
				   "Prints the version.\n";

const struct command cmd_version = {
	.name = "version",
	.summary = "print the version",
	.help = version_help,
	.run = run_version,
};
