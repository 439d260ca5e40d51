// SPDX-License-Identifier: GPL-2.0-only
#include "user/base/error.h"

#include <stdio.h>
#include <string.h>

int error_set(struct error *err, int code, enum exit_code exit, const char *fmt, ...)
{
	va_list ap;

	err->exit = exit;
	err->hint[0] = '\0';
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	return code;
}

int error_prefix(struct error *err, int code, const char *fmt, ...)
{
	char prefix[256];
	size_t len, room;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(prefix, sizeof(prefix) - 2, fmt, ap);
	va_end(ap);
	strcat(prefix, ": ");
	len = strlen(prefix);
	room = sizeof(err->text) - 1 - len;
	memmove(err->text + len, err->text, strnlen(err->text, room) + 1);
	memcpy(err->text, prefix, len);
	err->text[sizeof(err->text) - 1] = '\0';
	return code;
}

void error_hint(struct error *err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err->hint, sizeof(err->hint), fmt, ap);
	va_end(ap);
}
