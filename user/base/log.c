// SPDX-License-Identifier: GPL-2.0-only
/*
 * Owns standard error and the form of messages. How a JSON object or a printable text looks is output.c's.
 */
#include "user/base/log.h"

#include <stdlib.h>
#include <string.h>

#include "user/base/output.h"

static FILE *json_stream;
static int verbose;

void log_set_json(FILE *stream)
{
	json_stream = stream;
}

void log_set_verbose(int level)
{
	verbose = level;
}

static void print_line(const char *what, const char *text)
{
	char clean[4 * sizeof(((struct error *)0)->text)];

	text_clean(clean, sizeof(clean), text);
	fprintf(stderr, "chaosbpf: %s%s\n", what, clean);
}

static void print_json(const struct error *err)
{
	struct json json;

	json_begin(&json, json_stream, false);
	json_open_object(&json, NULL);
	json_text(&json, "error", err->text);
	if (err->hint[0])
		json_text(&json, "hint", err->hint);
	else
		json_null(&json, "hint");
	json_count(&json, "exit", err->exit);
	json_close_object(&json);
	json_end(&json);
	fflush(json_stream);
}

int log_error(const struct error *err)
{
	/* Results that were printed before come first, also when both streams are one file. */
	fflush(stdout);
	if (json_stream) {
		print_json(err);
		return err->exit;
	}
	print_line("", err->text);
	if (err->hint[0])
		print_line("hint: ", err->hint);
	return err->exit;
}

int log_fail(enum exit_code exit, const char *hint, const char *fmt, ...)
{
	struct error err = { .exit = exit };
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err.text, sizeof(err.text), fmt, ap);
	va_end(ap);
	if (hint)
		error_hint(&err, "%s", hint);
	return log_error(&err);
}

void log_note(const char *fmt, ...)
{
	char text[sizeof(((struct error *)0)->text)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fflush(stdout);
	print_line("note: ", text);
}

void log_block(const char *text)
{
	fflush(stdout);
	fputs(text, stderr);
}

int log_libbpf(int level, const char *fmt, va_list ap)
{
	char *text, *line, *rest;

	/* What the verifier says may be long, and what was wrong stands at its end. */
	if (level >= verbose || vasprintf(&text, fmt, ap) < 0)
		return 0;
	fflush(stdout);
	for (rest = text; (line = strsep(&rest, "\n"));) {
		if (line[0])
			print_line("", line);
	}
	free(text);
	return 0;
}
