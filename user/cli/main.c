// SPDX-License-Identifier: GPL-2.0-only
/*
 * From the command line to the command: options before it, --help, and what holds for the whole process.
 */
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "user/base/log.h"
#include "user/cli/cmd.h"
#include "user/cli/options.h"

static int print_libbpf(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	return log_libbpf(level, fmt, ap);
}

static int run_command(const struct command *command, int argc, char **argv)
{
	if (options_given(argc, argv, "--help") || options_given(argc, argv, "-h")) {
		fputs(command->help, stdout);
		return EXIT_DONE;
	}
	/* Known before any option is looked at, so that errors about options are JSON too. */
	if (options_json || options_given(argc, argv, "--json"))
		log_set_json(command->runs_another ? stderr : stdout);
	return command->run(argc, argv);
}

static int run(int argc, char **argv)
{
	const struct command *command;
	int first;

	/* Only those that make sense before a command. */
	for (first = 1; first < argc && argv[first][0] == '-'; first++) {
		if (strcmp(argv[first], "--help") == 0 || strcmp(argv[first], "-h") == 0)
			return cmd_help.run(1, argv);
		if (strcmp(argv[first], "--version") == 0 || strcmp(argv[first], "-V") == 0)
			return cmd_version.run(1, argv);
		if (strcmp(argv[first], "--json") == 0)
			options_json = true;
		else if (strcmp(argv[first], "-v") == 0 || strcmp(argv[first], "--verbose") == 0)
			options_verbose();
		else
			return log_fail(EXIT_USAGE, "options stand after the command: 'chaosbpf --help' lists them",
					"unknown option '%s'", argv[first]);
	}
	if (options_json || options_given(argc - first, argv + first, "--json"))
		log_set_json(stdout);
	if (first == argc)
		return log_fail(EXIT_USAGE, "'chaosbpf --help' lists them", "a command is missing");
	command = command_find(argv[first]);
	if (!command)
		return command_unknown(argv[first]);
	return run_command(command, argc - first, argv + first);
}

/*
 * A closed standard stream would become the number of the next file that is opened, and what is printed would go there.
 * Opened the wrong way round, so that using it is still an error.
 */
static void hold_standard_streams(void)
{
	for (int fd = 0; fd <= 2; fd++) {
		if (fcntl(fd, F_GETFD) < 0)
			open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
	}
}

int main(int argc, char **argv)
{
	hold_standard_streams();
	setlocale(LC_CTYPE, "");  /* only this: numbers keep their point in every language */
	signal(SIGPIPE, SIG_IGN); /* a reader that went away is an error to report, not a death half-way */
	libbpf_set_print(print_libbpf);
	return output_finish(run(argc, argv));
}
