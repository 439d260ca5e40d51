// SPDX-License-Identifier: GPL-2.0-only
/* `chaosbpf history`: the runs of experiments, what they amount to, and closing what was found. */
#include <math.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "user/base/clock.h"
#include "user/base/log.h"
#include "user/cli/cmd.h"
#include "user/cli/options.h"
#include "user/findings/findings.h"
#include "user/findings/history.h"
#include "user/rules/rules.h"

static const char help[] = "Usage: chaosbpf history [OPTIONS]\n"
			   "       chaosbpf history resolve RUN --note TEXT\n"
			   "       chaosbpf history prune --keep N\n"
			   "\n"
			   "Lists the runs of experiments, the newest first. A weakness stays open until a\n"
			   "person resolves it, and says how. prune removes all runs but the newest N and\n"
			   "those with an open weakness.\n"
			   "\n"
			   "  --since T            only those that began within T (90d, 12h)\n"
			   "  --experiment NAME    only that experiment\n"
			   "  --summary            sums for each experiment: runs by verdict, pass rate\n"
			   "  --min-pass-rate P%   fail when less of them held; skipped runs, errors and\n"
			   "                       interrupted ones do not count\n"
			   "  --fail-on-weakness   fail when one of them has an open weakness\n"
			   "  --note TEXT          how it was resolved\n"
			   "  --keep N             how many runs prune leaves\n"
			   "  --database F         the findings in F; else in $CHAOSBPF_DATABASE, else in\n"
			   "                       /var/lib/chaosbpf/findings.db\n"
			   "  --json               for programs\n"
			   "\n"
			   "Exit code: 0 done, 4 --min-pass-rate or --fail-on-weakness says so.\n";

struct request {
	uint64_t since_ns;
	const char *experiment, *min_pass_rate, *note, *keep, *database;
	bool summary, fail_on_weakness;
};

/* ---- the list ---- */

/* What CI asked for, and whether it is so. */
struct gate {
	double pass_rate; /* NAN: no run counts */
	struct history_sums sums;
	uint32_t least_ppm;
	char why[160]; /* not so, or empty */
	const char *hint;
};

static void judge(const struct request *request, const struct findings_run *runs, size_t count, struct gate *gate)
{
	gate->sums = history_sum(runs, count, NULL);
	gate->pass_rate = history_pass_rate(&gate->sums);
	if (request->fail_on_weakness && gate->sums.open) {
		snprintf(gate->why, sizeof(gate->why), "%zu run%s an open weakness, the newest is run %lld",
			 gate->sums.open, gate->sums.open == 1 ? " has" : "s have", (long long)gate->sums.newest_open);
		gate->hint = "'chaosbpf report RUN' says what; 'chaosbpf history resolve' closes it";
	} else if (request->min_pass_rate && isnan(gate->pass_rate)) {
		snprintf(gate->why, sizeof(gate->why), "no run has a verdict that counts, so no pass rate is reached");
	} else if (request->min_pass_rate && gate->pass_rate * 1e4 < gate->least_ppm - 1e-6) {
		snprintf(gate->why, sizeof(gate->why), "pass rate is %.4g %%, and %.4g %% is asked", gate->pass_rate,
			 gate->least_ppm / 1e4);
	}
}

static void print_json(const struct request *request, const struct table *table, const struct gate *gate)
{
	struct json json;

	json_begin(&json, stdout, false);
	json_open_object(&json, NULL);
	table_json(table, &json, request->summary ? "experiments" : "runs");
	json_number(&json, "pass_rate", gate->pass_rate);
	json_count(&json, "open", gate->sums.open);
	if (gate->why[0])
		json_text(&json, "failed", gate->why);
	else
		json_null(&json, "failed");
	json_close_object(&json);
	json_end(&json);
}

/* Returns the exit code. With --json the one document says all. */
static int print_history(const struct request *request, const struct findings_run *runs, size_t count,
			 const struct gate *gate)
{
	struct table *table = request->summary ? history_summary(runs, count) : history_table(runs, count);

	if (options_json)
		print_json(request, table, gate);
	else if (count)
		table_print(table, stdout);
	else
		puts("no runs");
	table_free(table);
	if (!gate->why[0])
		return EXIT_DONE;
	return options_json ? EXIT_WEAKNESS : log_fail(EXIT_WEAKNESS, gate->hint, "%s", gate->why);
}

static int list(const struct request *request)
{
	struct findings_filter filter = { .experiment = request->experiment };
	struct findings_run *runs;
	struct findings *findings;
	struct gate gate = { 0 };
	struct error err;
	size_t count;
	int rc;

	if (request->min_pass_rate && parse_percent(request->min_pass_rate, &gate.least_ppm))
		return log_fail(EXIT_USAGE, "write it as 80%", "--min-pass-rate: '%s' is not a percentage",
				request->min_pass_rate);
	if (request->since_ns)
		filter.since_s = (double)time(NULL) - (double)request->since_ns / NS_PER_S;
	if (findings_open(&findings, findings_file(request->database), FINDINGS_READ, &err) < 0)
		return log_error(&err);
	rc = findings_list(findings, &filter, &runs, &count, &err);
	findings_close(findings);
	if (rc < 0)
		return log_error(&err);
	judge(request, runs, count, &gate);
	rc = print_history(request, runs, count, &gate);
	findings_runs_free(runs, count);
	return rc;
}

/* ---- resolve, prune ---- */

/* Who does it: the person behind sudo, if that is known. */
static const char *person(void)
{
	const char *name = getenv("SUDO_USER");
	const struct passwd *user;

	if (name && name[0])
		return name;
	user = getpwuid(getuid());
	return user ? user->pw_name : "unknown";
}

static void say_number(const char *key, uint64_t number, const char *text)
{
	struct json json;

	if (!options_json) {
		puts(text);
		return;
	}
	json_begin(&json, stdout, false);
	json_open_object(&json, NULL);
	json_count(&json, key, number);
	json_close_object(&json);
	json_end(&json);
}

static int resolve(const struct request *request, const char *word)
{
	struct findings *findings;
	struct error err;
	char text[64];
	int64_t id;
	int code;

	if (!request->note || !request->note[strspn(request->note, " \t\n")])
		return log_fail(EXIT_USAGE, "--note \"retries are capped since release 1.8\"",
				"history resolve needs --note: how was it resolved?");
	if (findings_open(&findings, findings_file(request->database), FINDINGS_READ, &err) < 0)
		return log_error(&err);
	code = findings_find(findings, word, &id, &err);
	if (!code)
		code = findings_resolve(findings, id, person(), request->note, &err);
	findings_close(findings);
	if (code < 0)
		return log_error(&err);
	snprintf(text, sizeof(text), "the weakness of run %lld is resolved", (long long)id);
	say_number("resolved", (uint64_t)id, text);
	return EXIT_DONE;
}

static int prune(const struct request *request)
{
	struct findings *findings;
	uint64_t keep, removed;
	struct error err;
	char text[64];
	int code;

	if (!request->keep || parse_number(request->keep, &keep))
		return log_fail(EXIT_USAGE, "as in --keep 100", "history prune needs --keep and a number");
	if (findings_open(&findings, findings_file(request->database), FINDINGS_READ, &err) < 0)
		return log_error(&err);
	code = findings_prune(findings, keep, &removed, &err);
	findings_close(findings);
	if (code < 0)
		return log_error(&err);
	snprintf(text, sizeof(text), "%llu run%s removed", (unsigned long long)removed, removed == 1 ? "" : "s");
	say_number("removed", removed, text);
	return EXIT_DONE;
}

static int run(int argc, char **argv)
{
	struct request request = { 0 };
	const struct option_spec specs[] = {
		{ "since", OPTION_DURATION, &request.since_ns, NULL },
		{ "experiment", OPTION_TEXT, &request.experiment, NULL },
		{ "summary", OPTION_FLAG, &request.summary, NULL },
		{ "min-pass-rate", OPTION_TEXT, &request.min_pass_rate, NULL },
		{ "fail-on-weakness", OPTION_FLAG, &request.fail_on_weakness, NULL },
		{ "note", OPTION_TEXT, &request.note, NULL },
		{ "keep", OPTION_TEXT, &request.keep, NULL },
		{ "database", OPTION_TEXT, &request.database, NULL },
		{ 0 },
	};
	int rc = options_parse("history", &argc, &argv, specs);

	if (rc)
		return rc;
	if (argc && strcmp(argv[0], "resolve") == 0) {
		rc = options_operands("history resolve", argc - 1, argv + 1, 1, 1, "the number of a run, or 'last'");
		return rc ? rc : resolve(&request, argv[1]);
	}
	if (argc && strcmp(argv[0], "prune") == 0) {
		rc = options_operands("history prune", argc - 1, argv + 1, 0, 0, "nothing");
		return rc ? rc : prune(&request);
	}
	rc = options_operands("history", argc, argv, 0, 0, "nothing");
	return rc ? rc : list(&request);
}

const struct command cmd_history = {
	.name = "history",
	.summary = "list the runs of experiments; close what was found",
	.help = help,
	.run = run,
};
