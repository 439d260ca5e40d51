/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Command lines: getopt_long with messages of our own. Options may stand anywhere before "--", as --name=value or
 * --name value. Every command also takes --json and -v (--help is answered before, by main.c).
 */
#ifndef USER_OPTIONS_H
#define USER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum option_kind {
	OPTION_FLAG,     /* value: bool * */
	OPTION_TEXT,     /* value: const char **, given at most once */
	OPTION_DURATION, /* value: uint64_t *, nanoseconds */
	OPTION_OPTIONAL, /* value: const char **; "" when written without a value */
	OPTION_CALL,     /* value: anything; call(value, name, argument or NULL), a repeated option calls again */
	OPTION_CALL_FLAG,
};

struct option_spec {
	const char *name; /* NULL ends the array */
	enum option_kind kind;
	void *value;
	void (*call)(void *value, const char *name, const char *argument);
};

/* --json was given. */
extern bool options_json;

/* Once more -v. */
void options_verbose(void);

/* Is `word` (an option, "--json") written before the "--"? */
bool options_given(int argc, char **argv, const char *word);

/*
 * Takes the options out: afterwards argv[0..argc-1] are the operands (argv[0] on entry is the command's name and is
 * taken out too). Returns 0, or the exit code after an error was printed.
 */
int options_parse(const char *command, int *argc, char ***argv, const struct option_spec *specs);

/* Are there `min` to `max` operands? `what` says what they are: "a rules file". Prints the error. */
int options_operands(const char *command, int argc, char **argv, int min, int max, const char *what);

#endif
