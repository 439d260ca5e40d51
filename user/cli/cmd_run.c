// SPDX-License-Identifier: GPL-2.0-only
/* `chaosbpf run`: an experiment from its file to a verdict. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "user/base/log.h"
#include "user/cli/cmd.h"
#include "user/cli/options.h"
#include "user/experiment/policy.h"
#include "user/experiment/run.h"
#include "user/experiment/webhook.h"

#define WEBHOOK_SECONDS 20

static const char help[] = "Usage: chaosbpf run [OPTIONS] FILE\n"
			   "\n"
			   "Runs the experiment in FILE: asks the service, breaks what the method says, looks\n"
			   "whether what is promised still holds, ends the faults, and looks whether all comes\n"
			   "back. The faults end on every way out, Ctrl-C and kill -9 among them.\n"
			   "\n"
			   "  --dry-run       print the plan with its times and what could not be had here\n"
			   "  --operator N    the person on call\n"
			   "  --environment E in place of the file's\n"
			   "  --policy F      what is allowed here, in place of /etc/chaosbpf/policy.yaml\n"
			   "  --database F    where findings are kept, in place of\n"
			   "                  /var/lib/chaosbpf/findings.db and CHAOSBPF_DATABASE\n"
			   "  --endpoints F   your own presets, see chaosbpf endpoints\n"
			   "  --webhooks F    who is told of a weakness, in place of\n"
			   "                  /etc/chaosbpf/webhooks.yaml\n"
			   "  --json          one document at the end, for programs\n"
			   "\n"
			   "  sudo chaosbpf run --operator ada rules/experiments/vector-db-timeout.yaml\n"
			   "\n"
			   "Exit code: 0 what is promised held, or the service was not healthy at the start and\n"
			   "nothing was broken (skipped), 4 a weakness was found, 5 aborted, 1 failed, 2 the\n"
			   "file is wrong or it is not allowed, 3 this kernel cannot.\n";

struct asked {
	bool dry_run;
	const char *who, *environment, *policy, *database, *endpoints, *webhooks;
};

/* ---- what `check` says of the rules, step by step ---- */

struct checked {
	struct rule_plan *plans[EXPERIMENT_MAX_STEPS]; /* NULL: no step of rules */
	size_t impossible;
};

static void checked_free(struct checked *checked)
{
	for (size_t i = 0; i < EXPERIMENT_MAX_STEPS; i++)
		free(checked->plans[i]);
}

static int check_rules(const struct experiment *e, struct checked *checked, struct error *err)
{
	const struct load_options options = { .command = "run" };
	struct features features;
	int ret = 0;

	*checked = (struct checked){ 0 };
	for (size_t i = 0; i < e->steps_count && !ret; i++) {
		if (!e->steps[i].rules)
			continue;
		ret = load_check(e->steps[i].rules, &options, &features, &checked->plans[i], err);
		for (size_t n = 0; !ret && n < e->steps[i].rules->count; n++)
			checked->impossible += checked->plans[i][n].cannot[0] != '\0';
	}
	if (ret)
		checked_free(checked);
	return ret;
}

/* ---- --dry-run ---- */

static void print_check(const char *rule, const struct rule_plan *plan)
{
	char clean[1024];

	if (plan->note[0]) {
		text_clean(clean, sizeof(clean), plan->note);
		printf("note: %s: %s\n", rule, clean);
	}
	if (plan->cannot[0]) {
		text_clean(clean, sizeof(clean), plan->cannot);
		printf("cannot be had here: %s: %s\n", rule, clean);
	}
}

static void check_json(struct json *json, const char *rule, const struct rule_plan *plan)
{
	json_open_object(json, NULL);
	json_text(json, "name", rule);
	json_bool(json, "possible", !plan->cannot[0]);
	json_text(json, "cannot", plan->cannot);
	json_text(json, "note", plan->note);
	json_close_object(json);
}

/* For each rule: to `json`, or printed when that is NULL. */
static void tell_checks(const struct experiment *e, const struct checked *checked, struct json *json)
{
	for (size_t i = 0; i < e->steps_count; i++) {
		const struct rules *rules = e->steps[i].rules;

		for (size_t n = 0; checked->plans[i] && n < rules->count; n++) {
			if (json)
				check_json(json, rules->rules[n].name, &checked->plans[i][n]);
			else
				print_check(rules->rules[n].name, &checked->plans[i][n]);
		}
	}
}

static void dry_run_json(const struct experiment *e, const struct checked *checked, int code)
{
	struct json json;

	json_begin(&json, stdout, false);
	json_open_object(&json, NULL);
	plan_json(e, &json);
	json_open_array(&json, "rules");
	tell_checks(e, checked, &json);
	json_close_array(&json);
	json_count(&json, "exit", (uint64_t)code);
	json_close_object(&json);
	json_end(&json);
}

static int dry_run(const struct experiment *e)
{
	struct checked checked = { 0 };
	struct error err;
	int code;

	if (!options_json)
		plan_print(e, stdout);
	/* Without root the kernel cannot be asked, but the plan can be read. */
	if (geteuid() == 0 && check_rules(e, &checked, &err) < 0)
		return log_error(&err);
	code = checked.impossible ? EXIT_CANNOT : EXIT_DONE;
	if (options_json) {
		dry_run_json(e, &checked, code);
	} else {
		tell_checks(e, &checked, NULL);
		if (geteuid() != 0)
			log_note("run as root to know whether this kernel can");
		if (code)
			log_fail(code, "'chaosbpf doctor' says what this kernel can do",
				 "some of its rules cannot be had here");
	}
	checked_free(&checked);
	return code;
}

/* ---- for real ---- */

static int check_policy(const struct experiment *e, const struct asked *asked, struct findings *findings,
			struct error *err)
{
	const struct policy_asked who = {
		.operator= asked->who,
		.now = time(NULL),
		.production = getenv(POLICY_PRODUCTION),
	};
	struct policy *policy;
	int ret = policy_load(asked->policy, &policy, err);

	if (ret)
		return ret;
	ret = policy_check(policy, e, &who, err);
	if (!ret && findings)
		ret = policy_check_findings(policy, e, findings, who.now, err);
	policy_free(policy);
	return ret;
}

int check_not_running(struct findings *findings, struct error *err)
{
	int64_t id = 0;
	int ret = findings_running(findings, &id, err);

	if (!ret && id) {
		ret = error_set(err, -EBUSY, EXIT_FAILED, "run %lld is under way on this machine", (long long)id);
		error_hint(err, "wait for it, or end it with 'chaosbpf stop'");
	}
	return ret;
}

int check_nothing_loaded(struct error *err)
{
	struct status *status;
	int ret = status_read(&status, err);

	if (ret)
		return ret;
	if (status->loaded && status->ends_in_s > 0) {
		ret = error_set(err, -EBUSY, EXIT_FAILED, "rules from %s are loaded", status->file);
		error_hint(err, "wait for their end, or end them with 'chaosbpf stop'");
	}
	status_free(status);
	return ret;
}

/* What the kernel cannot do is known before the baseline is waited for. */
static int check_possible(const struct experiment *e, struct error *err)
{
	struct checked checked;
	int ret = check_rules(e, &checked, err);

	if (ret)
		return ret;
	for (size_t i = 0; i < e->steps_count && !ret; i++) {
		for (size_t n = 0; checked.plans[i] && n < e->steps[i].rules->count && !ret; n++) {
			const struct rule_plan *plan = &checked.plans[i][n];

			if (!plan->cannot[0])
				continue;
			ret = error_set(err, -EOPNOTSUPP, EXIT_CANNOT, "rule '%s': %s",
					e->steps[i].rules->rules[n].name, plan->cannot);
			error_hint(err, "%s", plan->hint);
		}
	}
	checked_free(&checked);
	return ret;
}

/* A weakness, or an abort because it was so bad, is told to whoever wants to know. */
void tell_weakness(const char *webhooks, const char *database, enum verdict verdict, int64_t id)
{
	struct findings_run *run = NULL;
	struct findings *findings;
	char word[24];
	pid_t child;
	struct error err;
	int ret;

	if (!id || (verdict != VERDICT_WEAKNESS && verdict != VERDICT_ABORTED))
		return;
	snprintf(word, sizeof(word), "%lld", (long long)id);
	ret = findings_open(&findings, database, FINDINGS_READ, &err);
	if (!ret) {
		ret = findings_read(findings, word, &run, &err);
		findings_close(findings);
	}
	if (!ret && run->open) {
		ret = webhook_begin(webhooks, run, database, &child, &err);
		if (!ret)
			webhook_wait(child, WEBHOOK_SECONDS);
	}
	if (ret)
		log_note("the weakness could not be told: %s", err.text);
	findings_run_free(run);
}

static int for_real(const struct experiment *e, const struct asked *asked)
{
	struct run_options options = { .operator= asked->who, .json = options_json };
	const char *database = findings_file(asked->database);
	struct run_outcome outcome = { 0 };
	struct error err;

	if (findings_open(&options.findings, database, FINDINGS_WRITE, &err) < 0)
		return log_error(&err);
	if (check_policy(e, asked, options.findings, &err) < 0 || check_not_running(options.findings, &err) < 0 ||
	    check_nothing_loaded(&err) < 0 || check_possible(e, &err) < 0)
		outcome.exit = log_error(&err);
	else
		run_experiment(e, &options, &outcome);
	findings_close(options.findings);
	tell_weakness(asked->webhooks, database, outcome.verdict, outcome.id);
	return outcome.exit;
}

static int run(int argc, char **argv)
{
	struct asked asked = { 0 };
	const struct option_spec specs[] = {
		{ "dry-run", OPTION_FLAG, &asked.dry_run, NULL },
		{ "operator", OPTION_TEXT, &asked.who, NULL },
		{ "environment", OPTION_TEXT, &asked.environment, NULL },
		{ "policy", OPTION_TEXT, &asked.policy, NULL },
		{ "database", OPTION_TEXT, &asked.database, NULL },
		{ "endpoints", OPTION_TEXT, &asked.endpoints, NULL },
		{ "webhooks", OPTION_TEXT, &asked.webhooks, NULL },
		{ 0 },
	};
	struct experiment_options options = { 0 };
	struct experiment *experiment;
	struct error err;
	int code = options_parse("run", &argc, &argv, specs);

	code = code ?: options_operands("run", argc, argv, 1, 1, "an experiment file");
	if (code)
		return code;
	options.environment = asked.environment;
	options.endpoints = asked.endpoints;
	/* What is wrong with the file is told without root. */
	if (experiment_load(argv[0], &options, &experiment, &err) < 0)
		return log_error(&err);
	if (asked.dry_run && check_policy(experiment, &asked, NULL, &err) < 0)
		code = log_error(&err);
	if (!code && (!asked.dry_run || geteuid() == 0))
		code = command_begin("run");
	if (!code)
		code = asked.dry_run ? dry_run(experiment) : for_real(experiment, &asked);
	experiment_free(experiment);
	return code;
}

const struct command cmd_run = {
	.name = "run",
	.summary = "run an experiment: does the service keep its promises?",
	.help = help,
	.run = run,
};
