/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One error, on its way from where it happened to the one place that prints it (a command).
 *
 * Functions that can fail return 0 or a negative errno and fill in *err. The text is a whole sentence without a final
 * stop, lower case, problem first, the offending value in single quotes; what would help comes after it.
 */
#ifndef USER_ERROR_H
#define USER_ERROR_H

#include <stdarg.h>

/* Exit codes of every command; `chaosbpf exec` returns the command's own instead. */
enum exit_code {
	EXIT_DONE = 0,
	EXIT_FAILED = 1,   /* something went wrong while doing it */
	EXIT_USAGE = 2,    /* bad usage or bad rules */
	EXIT_CANNOT = 3,   /* this kernel or machine cannot */
	EXIT_WEAKNESS = 4, /* a hypothesis did not hold */
	EXIT_ABORTED = 5,
};

struct error {
	int exit; /* enum exit_code that the command should end with */
	char text[1024];
	char hint[512]; /* what would make it work, or empty */
};

/* Sets text (printf style) and the exit code, clears the hint, returns `code` (a negative errno). */
int error_set(struct error *err, int code, enum exit_code exit, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Adds "what: " in front of the text; returns `code`. */
int error_prefix(struct error *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Sets the hint. */
void error_hint(struct error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
