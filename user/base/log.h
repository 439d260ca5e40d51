/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Messages: the only writer to standard error.
 *
 * Every line begins with "chaosbpf: ". Errors are printed once, by the command that knows what the user wanted; with
 * --json they are an object ({"error", "hint", "exit"}) on standard output instead. Text from outside (names,
 * arguments) is made printable here, so that no message can send control sequences to a terminal.
 */
#ifndef USER_LOG_H
#define USER_LOG_H

#include <stdarg.h>
#include <stdio.h>

#include "user/base/error.h"

/* Errors as JSON objects on `stream`; NULL: as text on standard error. */
void log_set_json(FILE *stream);

/* 0: quiet; 1: what libbpf warns of; 2: what it tells; 3: what it does. */
void log_set_verbose(int level);

/* Prints the error and its hint; returns the exit code that belongs to it. */
int log_error(const struct error *err);

/* The same for an error that was found in the command itself; `hint` may be NULL. */
int log_fail(enum exit_code exit, const char *hint, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Something to know, not a failure. */
void log_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Lines as they are: a table that must not go to standard output. */
void log_block(const char *text);

/* For libbpf_set_print(): its text, one level lower than it thinks. `level` is enum libbpf_print_level. */
int log_libbpf(int level, const char *fmt, va_list ap);

#endif
