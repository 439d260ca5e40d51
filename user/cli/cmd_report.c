// SPDX-License-Identifier: GPL-2.0-only
/* `chaosbpf report` and `chaosbpf compare`: what runs of experiments found. */
#include <errno.h>
#include <string.h>

#include "user/base/log.h"
#include "user/cli/cmd.h"
#include "user/cli/options.h"
#include "user/findings/findings.h"
#include "user/findings/report.h"

static const char report_help[] = "Usage: chaosbpf report [OPTIONS] RUN\n"
				  "\n"
				  "Says what a run of an experiment found: the verdict, what was expected and what\n"
				  "came, how long degrading and recovering took, what was injected, what to improve.\n"
				  "RUN is its number, or 'last'. FILE may be \"-\": standard output.\n"
				  "\n"
				  "  --html FILE        as one page that needs no other file\n"
				  "  --markdown[=FILE]  for a pull request\n"
				  "  --junit[=FILE]     JUnit's XML: a test of each hypothesis\n"
				  "  --database F       the findings in F; else in $CHAOSBPF_DATABASE, else in\n"
				  "                     /var/lib/chaosbpf/findings.db\n"
				  "  --json             everything that was kept, for programs\n";

struct output {
	enum report_form form;
	const char *file; /* NULL: not wanted; "" and "-": standard output */
};

static bool to_stdout(const struct output *output)
{
	return output->file && (!output->file[0] || strcmp(output->file, "-") == 0);
}

static int write_file(const struct findings_run *run, const struct output *output)
{
	FILE *out = fopen(output->file, "we");
	bool failed;

	if (!out)
		return log_fail(EXIT_FAILED, NULL, "cannot write '%s': %s", output->file, strerror(errno));
	report_print(run, output->form, out);
	failed = ferror(out);
	if (fclose(out) || failed)
		return log_fail(EXIT_FAILED, NULL, "cannot write '%s': %s", output->file, strerror(errno));
	return EXIT_DONE;
}

/* What goes to standard output, if anything does: the text when nothing else was asked for. */
static int choose(const struct output *outputs, size_t count, enum report_form *form, bool *wanted)
{
	size_t asked = 0;

	*form = REPORT_TEXT;
	*wanted = true;
	for (size_t i = 0; i < count; i++) {
		if (outputs[i].file && !to_stdout(&outputs[i]))
			*wanted = false;
	}
	for (size_t i = 0; i < count; i++) {
		if (!to_stdout(&outputs[i]))
			continue;
		*form = outputs[i].form;
		*wanted = true;
		asked++;
	}
	if (options_json)
		*form = REPORT_JSON, *wanted = true, asked++;
	if (asked > 1)
		return log_fail(EXIT_USAGE, "give all but one a file, as in --junit=FILE",
				"standard output can have only one form of the report");
	return 0;
}

static int print_report(const struct findings_run *run, const struct output *outputs, size_t count)
{
	enum report_form form;
	bool wanted;
	int rc = choose(outputs, count, &form, &wanted);

	for (size_t i = 0; i < count && !rc; i++) {
		if (outputs[i].file && !to_stdout(&outputs[i]))
			rc = write_file(run, &outputs[i]);
	}
	if (!rc && wanted)
		report_print(run, form, stdout);
	return rc;
}

static int run_report(int argc, char **argv)
{
	const char *database = NULL;
	struct output outputs[] = { { REPORT_HTML, NULL }, { REPORT_MARKDOWN, NULL }, { REPORT_JUNIT, NULL } };
	const struct option_spec specs[] = {
		{ "html", OPTION_TEXT, &outputs[0].file, NULL },
		{ "markdown", OPTION_OPTIONAL, &outputs[1].file, NULL },
		{ "junit", OPTION_OPTIONAL, &outputs[2].file, NULL },
		{ "database", OPTION_TEXT, &database, NULL },
		{ 0 },
	};
	struct findings *findings;
	struct findings_run *run = NULL;
	struct error err;
	int rc = options_parse("report", &argc, &argv, specs);

	if (!rc)
		rc = options_operands("report", argc, argv, 1, 1, "the number of a run, or 'last'");
	if (rc)
		return rc;
	if (findings_open(&findings, findings_file(database), FINDINGS_READ, &err) < 0)
		return log_error(&err);
	if (findings_read(findings, argv[0], &run, &err) < 0)
		rc = log_error(&err);
	else
		rc = print_report(run, outputs, sizeof(outputs) / sizeof(outputs[0]));
	findings_run_free(run);
	findings_close(findings);
	return rc;
}

const struct command cmd_report = {
	.name = "report",
	.summary = "say what a run of an experiment found",
	.help = report_help,
	.run = run_report,
};

static const char compare_help[] = "Usage: chaosbpf compare [OPTIONS] RUN RUN\n"
				   "\n"
				   "Shows two runs of experiments side by side: verdicts, what was promised and what\n"
				   "came, success and latency of each probe, times to degrade and to recover.\n"
				   "RUN is its number, or 'last'.\n"
				   "\n"
				   "  --database F   as for chaosbpf report\n"
				   "  --json         for programs\n";

static int run_compare(int argc, char **argv)
{
	const char *database = NULL;
	const struct option_spec specs[] = {
		{ "database", OPTION_TEXT, &database, NULL },
		{ 0 },
	};
	struct findings_run *a = NULL, *b = NULL;
	struct findings *findings;
	struct error err;
	int rc = options_parse("compare", &argc, &argv, specs);

	if (!rc)
		rc = options_operands("compare", argc, argv, 2, 2, "the numbers of two runs");
	if (rc)
		return rc;
	if (findings_open(&findings, findings_file(database), FINDINGS_READ, &err) < 0)
		return log_error(&err);
	if (findings_read(findings, argv[0], &a, &err) < 0 || findings_read(findings, argv[1], &b, &err) < 0)
		rc = log_error(&err);
	else
		report_compare(a, b, options_json, stdout);
	findings_run_free(a);
	findings_run_free(b);
	findings_close(findings);
	return rc;
}

const struct command cmd_compare = {
	.name = "compare",
	.summary = "show two runs of experiments side by side",
	.help = compare_help,
	.run = run_compare,
};
