/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A run as people and programs read it. Every form says the same, from the same words and numbers: the verdict in one
 * sentence, what was expected and what came, how long degrading and recovering took, what was injected, and what to
 * improve. What was kept is shown as it is; nothing is judged again.
 */
#ifndef USER_REPORT_H
#define USER_REPORT_H

#include <stdio.h>

#include "user/findings/findings.h"

enum report_form {
	REPORT_TEXT,
	REPORT_JSON,
	REPORT_MARKDOWN, /* for a pull request */
	REPORT_JUNIT,    /* a testsuite of the run, a testcase of each hypothesis */
	REPORT_HTML,     /* one page that needs nothing else */
};

/* Errors of the stream stay in the stream: ferror(). */
void report_print(const struct findings_run *run, enum report_form form, FILE *out);

/* The verdict in one sentence; also what webhooks say. */
void report_sentence(const struct findings_run *run, char *buf, size_t size);

/* "99.2 %", "812 ms", "41 s"; "-" for NAN. */
void report_value(char *buf, size_t size, double value, const char *unit);

/* Two runs side by side, as text or JSON. */
void report_compare(const struct findings_run *a, const struct findings_run *b, bool json, FILE *out);

#endif
