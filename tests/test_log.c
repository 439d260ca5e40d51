// SPDX-License-Identifier: GPL-2.0-only
/* user/base/log.c: where messages go and what they look like. */
#include <bpf/libbpf.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/log.h"

static char *said;
static size_t said_len;
static FILE *real_stderr;

/* glibc lets stderr be assigned: what is said ends up in `said`. */
static void listen(void)
{
	free(said);
	real_stderr = stderr;
	stderr = open_memstream(&said, &said_len);
}

static const char *heard(void)
{
	fclose(stderr);
	stderr = real_stderr;
	return said;
}

Test(log, error_and_hint)
{
	struct error err;

	error_set(&err, -1, EXIT_USAGE, "unknown fault '%s'", "dealy");
	error_hint(&err, "did you mean '%s'?", "delay");
	listen();
	cr_expect_eq(log_error(&err), EXIT_USAGE);
	cr_expect_str_eq(heard(), "chaosbpf: unknown fault 'dealy'\nchaosbpf: hint: did you mean 'delay'?\n");
}

Test(log, error_without_hint)
{
	listen();
	cr_expect_eq(log_fail(EXIT_FAILED, NULL, "no rule '%s'", "x"), EXIT_FAILED);
	cr_expect_str_eq(heard(), "chaosbpf: no rule 'x'\n");
}

Test(log, messages_cannot_drive_a_terminal)
{
	listen();
	log_fail(EXIT_FAILED, NULL, "a\033]0;b\a\nc\xff");
	log_note("d\re");
	cr_expect_str_eq(heard(), "chaosbpf: a\\x1b]0;b\\x07\\x0ac\xef\xbf\xbd\nchaosbpf: note: d\\x0de\n");
}

Test(log, longest_error_is_not_cut)
{
	struct error err = { .exit = EXIT_FAILED };

	memset(err.text, '\001', sizeof(err.text) - 1);
	listen();
	log_error(&err);
	cr_expect_eq(strlen(heard()), strlen("chaosbpf: \n") + 4 * (sizeof(err.text) - 1));
}

static char *document;
static size_t document_len;

static void log_as_json(enum exit_code exit, const char *hint, const char *message)
{
	FILE *out = open_memstream(&document, &document_len);

	log_set_json(out);
	listen();
	cr_expect_eq(log_fail(exit, hint, "%s", message), (int)exit);
	cr_expect_str_eq(heard(), "");
	log_set_json(NULL);
	fclose(out);
}

Test(log, json)
{
	log_as_json(EXIT_CANNOT, "modprobe sch_fq", "no \"fq\"\xff");
	cr_expect_str_eq(document, "{\n  \"error\": \"no \\\"fq\\\"\xef\xbf\xbd\",\n  \"hint\": \"modprobe sch_fq\",\n"
				   "  \"exit\": 3\n}\n");
}

Test(log, json_without_hint)
{
	log_as_json(EXIT_FAILED, NULL, "no");
	cr_expect_str_eq(document, "{\n  \"error\": \"no\",\n  \"hint\": null,\n  \"exit\": 1\n}\n");
}

static int libbpf_says(enum libbpf_print_level level, const char *fmt, ...)
{
	va_list ap;
	int rc;

	va_start(ap, fmt);
	rc = log_libbpf(level, fmt, ap);
	va_end(ap);
	return rc;
}

static void libbpf_says_all(void)
{
	libbpf_says(LIBBPF_WARN, "libbpf: %s\n", "warning");
	libbpf_says(LIBBPF_INFO, "libbpf: info\n");
	libbpf_says(LIBBPF_DEBUG, "libbpf: line 1\nline 2\n");
}

Test(log, libbpf_is_silent_unless_asked)
{
	listen();
	libbpf_says_all();
	cr_expect_str_eq(heard(), "");
}

Test(log, libbpf_one_level_lower)
{
	log_set_verbose(1);
	listen();
	libbpf_says_all();
	cr_expect_str_eq(heard(), "chaosbpf: libbpf: warning\n");

	log_set_verbose(3);
	listen();
	libbpf_says_all();
	cr_expect_str_eq(heard(), "chaosbpf: libbpf: warning\nchaosbpf: libbpf: info\n"
				  "chaosbpf: libbpf: line 1\nchaosbpf: line 2\n");
}

Test(log, block_is_left_alone)
{
	listen();
	log_block("RULE  HITS\nslow     1\n");
	cr_expect_str_eq(heard(), "RULE  HITS\nslow     1\n");
}
