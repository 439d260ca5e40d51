// SPDX-License-Identifier: GPL-2.0-only
/* What a policy allows: user/policy*.c, at moments that are given. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "user/experiment/policy.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))
#define MONDAY       1768824000 /* 2026-01-19 12:00 UTC */
#define HOUR         3600
#define EXPERIMENT(environment, match, more)                                                                       \
	"version: 1\nexperiment: e\nenvironment: " environment "\n"                                                \
	"probes: [{ name: ask, tcp: \"h:1\" }]\nsteady: { ask.success: \">= 99%\" }\nbaseline: 30s\nobserve: 2m\n" \
	"method: [{ rules: [{ name: a, match: " match ", fault: { drop: true }" more " }] }]\n"
#define ANY EXPERIMENT("test", "{ ports: 6333 }", "")

struct asked {
	const char *policy, *experiment, *operator, * production;
	int hour;            /* of that Monday, UTC */
	const char *message; /* NULL: allowed */
};

static const struct asked asked[] = {
	{ "version: 1\n", ANY, NULL, NULL, 12, NULL },
	{ "version: 1\noperator: required\n", ANY, NULL, NULL, 12,
	  "p:2:11: somebody must be on call, and nobody is named" },
	{ "version: 1\noperator: required\n", ANY, "ada", NULL, 12, NULL },
	{ "version: 1\noperator: [ada, grace]\n", ANY, "ada", NULL, 12, NULL },
	{ "version: 1\noperator: [ada, grace]\n", ANY, "mallory", NULL, 12,
	  "p:2:11: 'mallory' is not one of those who may be on call" },
	{ "version: 1\nhours: [{ between: \"09:00-17:00\", days: [mon] }]\n", ANY, NULL, NULL, 12, NULL },
	{ "version: 1\nhours: [{ between: \"09:00-12:01\", days: [mon] }]\n", ANY, NULL, NULL, 12,
	  "p:2:9: Mon 12:01 is outside the hours that are allowed, and it could take until then" },
	{ "version: 1\nhours: [{ between: \"09:00-11:00\" }, { between: \"13:00-14:00\" }]\n", ANY, NULL, NULL, 12,
	  "p:2:9: Mon 12:00 is outside the hours that are allowed" },
	{ "version: 1\nhours: [{ between: \"22:00-14:00\", days: sun }]\n", ANY, NULL, NULL, 12, NULL },
	{ "version: 1\nhours: [{ between: \"22:00-14:00\", days: mon }]\n", ANY, NULL, NULL, 12,
	  "p:2:9: Mon 12:00 is outside the hours that are allowed" },
	{ "version: 1\npeak-hours: [{ between: \"11:00-13:00\" }]\n", ANY, NULL, NULL, 12,
	  "p:2:14: Mon 12:00 is within the peak hours" },
	{ "version: 1\npeak-hours: [{ between: \"12:02-13:00\" }]\n", ANY, NULL, NULL, 12,
	  "p:2:14: Mon 12:02 is within the peak hours, and it could take until then" },
	{ "version: 1\nblast: { max-percent: 50% }\n", ANY, NULL, NULL, 12,
	  "p:2:23: rule 'a' hits 100 %, at most 50 % are allowed" },
	{ "version: 1\nblast: { max-percent: 50% }\n", EXPERIMENT("test", "{ ports: 1 }", ", percent: 50"), NULL, NULL,
	  12, NULL },
	{ "version: 1\nblast: { max-duration: 1m }\n", ANY, NULL, NULL, 12,
	  "p:2:24: rule 'a' lasts 2 min, at most 1 min are allowed" },
	{ "version: 1\nblast: { max-duration: 1m }\n", EXPERIMENT("test", "{ ports: 1 }", ", duration: 50s"), NULL,
	  NULL, 12, NULL },
	{ "version: 1\nblast: { max-hits: 100 }\n", ANY, NULL, NULL, 12,
	  "p:2:20: rule 'a' has no 'max-hits', at most 100 are allowed" },
	{ "version: 1\nblast: { max-hits: 100 }\n", EXPERIMENT("test", "{ ports: 1 }", ", max-hits: 101"), NULL, NULL,
	  12, "p:2:20: rule 'a' hits 101 times, at most 100 are allowed" },
	{ "version: 1\nblast: { forbidden-ports: [22, 6000-7000] }\n", ANY, NULL, NULL, 12,
	  "p:2:32: rule 'a' hits the forbidden port 6000" },
	{ "version: 1\nblast: { forbidden-ports: 22 }\n", EXPERIMENT("test", "{ hosts: 10.0.0.7 }", ""), NULL, NULL, 12,
	  "p:2:27: rule 'a' names no port, so that it could hit the forbidden port 22" },
	{ "version: 1\nblast: { forbidden-names: \"*.bank.com\" }\n",
	  EXPERIMENT("test", "{ hosts: api.bank.com, ports: 1 }", ""), NULL, NULL, 12,
	  "p:2:27: rule 'a' hits the forbidden name '*.bank.com'" },
	{ "version: 1\nblast: { forbidden-names: api.bank.com }\n", EXPERIMENT("test", "{ hosts: \"*.bank.com\" }", ""),
	  NULL, NULL, 12, "p:2:27: rule 'a' hits the forbidden name 'api.bank.com'" },
	{ "version: 1\nblast: { forbidden-names: api.bank.com }\n", EXPERIMENT("test", "{ hosts: other.com }", ""),
	  NULL, NULL, 12, NULL },
	{ "version: 1\nblast: { forbidden-cgroups: system.slice/pay.service }\n",
	  EXPERIMENT("test", "{ cgroup: system.slice }", ""), NULL, NULL, 12,
	  "p:2:29: rule 'a' hits the forbidden cgroup 'system.slice/pay.service'" },
	{ "version: 1\nblast: { forbidden-cgroups: system.slice/pay.service }\n",
	  EXPERIMENT("test", "{ unit: pay }", ""), NULL, NULL, 12,
	  "p:2:29: rule 'a' hits the forbidden cgroup 'system.slice/pay.service'" },
	{ "version: 1\nblast: { forbidden-cgroups: system.slice/pay.service }\n",
	  EXPERIMENT("test", "{ cgroup: system.slice/payments.service }", ""), NULL, NULL, 12, NULL },
	{ "version: 1\nblast: { forbidden-cgroups: pay }\n", ANY, NULL, NULL, 12,
	  "p:2:29: rule 'a' names no cgroup, unit, container, pod or pid, so that it could hit the forbidden cgroup "
	  "'pay'" },
	{ "version: 1\n", EXPERIMENT("production", "{ ports: 1 }", ""), NULL, "yes", 12,
	  "t:3:14: 'production' is forbidden, 'p' does not say 'production: allowed'" },
	{ "version: 1\nproduction: allowed\n", EXPERIMENT("production", "{ ports: 1 }", ""), NULL, "yes", 12,
	  "p:2:13: 'production' needs 'hours' in which it is allowed" },
	{ "version: 1\nproduction: allowed\nhours: [{ between: \"09:00-17:00\" }]\n",
	  EXPERIMENT("production", "{ ports: 1 }", ""), NULL, NULL, 12,
	  "t:3:14: 'production' needs the environment variable CHAOSBPF_PRODUCTION=yes" },
	{ "version: 1\nproduction: allowed\nhours: [{ between: \"09:00-17:00\" }]\n",
	  EXPERIMENT("production", "{ ports: 1 }", ""), NULL, "yes", 12, NULL },
	{ "version: 1\nproduction: allowed\nhours: [{ between: \"09:00-17:00\" }]\n",
	  EXPERIMENT("production", "{ ports: 1 }", ""), NULL, "yes", 18,
	  "p:3:9: Mon 18:00 is outside the hours that are allowed" },
};

static struct policy *policy_of(const char *source)
{
	struct policy *policy;
	struct error err;

	cr_assert_eq(policy_parse("p", source, strlen(source), &policy, &err), 0, "%s", err.text);
	return policy;
}

static struct experiment *experiment_of(const char *source)
{
	struct experiment *e;
	struct error err;

	cr_assert_eq(experiment_parse("t", source, strlen(source), NULL, &e, &err), 0, "%s", err.text);
	return e;
}

Test(policy, allows_and_refuses)
{
	setenv("TZ", "UTC", 1);
	tzset();
	for (size_t i = 0; i < COUNT(asked); i++) {
		const struct policy_asked who = {
			.operator= asked[i].operator,
			.now = MONDAY +(asked[i].hour - 12) * HOUR,
			.production = asked[i].production,
		};
		struct policy *policy = policy_of(asked[i].policy);
		struct experiment *e = experiment_of(asked[i].experiment);
		struct error err = { 0 };
		int code = policy_check(policy, e, &who, &err);

		if (asked[i].message) {
			cr_expect_eq(code, -EINVAL, "%s%s", asked[i].policy, asked[i].experiment);
			cr_expect_str_eq(err.text, asked[i].message);
			cr_expect_eq(err.exit, EXIT_USAGE);
		} else {
			cr_expect_eq(code, 0, "%s%s%s", asked[i].policy, asked[i].experiment, err.text);
		}
		policy_free(policy);
		experiment_free(e);
	}
}

Test(policy, no_file_allows_all_but_production)
{
	struct policy none = { 0 };
	struct experiment *e = experiment_of(EXPERIMENT("production", "{ ports: 1 }", ""));
	const struct policy_asked who = { .now = MONDAY, .production = "yes" };
	struct error err;

	cr_expect_eq(policy_check(&none, e, &who, &err), -EINVAL);
	cr_expect_str_eq(err.text,
			 "t:3:14: 'production' is forbidden, there is no /etc/chaosbpf/policy.yaml that allows it");
	experiment_free(e);
	e = experiment_of(ANY);
	cr_expect_eq(policy_check(&none, e, &who, &err), 0);
	experiment_free(e);
}

Test(policy, errors)
{
	static const char *const wrong[][2] = {
		{ "version: 1\nporduction: allowed\n", "p:2:1: unknown key 'porduction', did you mean 'production'?" },
		{ "version: 1\nproduction: yes\n", "p:2:13: unknown production 'yes', expected forbidden or allowed" },
		{ "version: 1\noperator: ada\n",
		  "p:2:11: invalid operator 'ada', expected required, or a list of names" },
		{ "version: 1\nhours: []\n", "p:2:8: 'hours' is an empty list" },
		{ "version: 1\nhours: [{ between: 9-17 }]\n",
		  "p:2:20: invalid between '9-17', expected local times such as \"02:00-04:00\"" },
		{ "version: 1\nblast: { max-percnt: 5 }\n",
		  "p:2:10: unknown key 'max-percnt', did you mean 'max-percent'?" },
		{ "hours: 3\n", "p:1:1: the version is missing, write 'version: 1'" },
	};
	struct policy *policy;
	struct error err;

	for (size_t i = 0; i < COUNT(wrong); i++) {
		cr_expect_eq(policy_parse("p", wrong[i][0], strlen(wrong[i][0]), &policy, &err), -EINVAL);
		cr_expect_null(policy);
		cr_expect_str_eq(err.text, wrong[i][1]);
	}
}

static void keep(struct findings *findings, const char *environment, enum verdict verdict)
{
	const struct findings_plan plan = { .experiment = "e", .environment = environment };
	struct findings_writer *writer;
	struct error err;

	cr_assert_eq(findings_begin(findings, &plan, &writer, &err), 0, "%s", err.text);
	cr_assert_eq(findings_finish(writer, verdict, "", &err), 0, "%s", err.text);
}

Test(policy, what_earlier_runs_say)
{
	char file[] = "/tmp/chaosbpf-policy-XXXXXX", name[64];
	struct policy *policy = policy_of("version: 1\nstaging-within: 30d\n");
	struct experiment *production = experiment_of(EXPERIMENT("production", "{ ports: 1 }", ""));
	struct experiment *test = experiment_of(ANY);
	time_t now = time(NULL);
	struct findings *findings;
	struct error err;

	cr_assert_not_null(mkdtemp(file));
	snprintf(name, sizeof(name), "%s/f.db", file);
	cr_assert_eq(findings_open(&findings, name, FINDINGS_WRITE, &err), 0, "%s", err.text);
	cr_expect_eq(policy_check_findings(policy, test, findings, now, &err), 0);
	cr_expect_eq(policy_check_findings(policy, production, findings, now, &err), -EINVAL);
	cr_expect_str_eq(err.text,
			 "t:2:13: 'production' needs a run of 'e' that has held in 'staging', and there is none");
	keep(findings, "staging", VERDICT_HELD);
	cr_expect_eq(policy_check_findings(policy, production, findings, now, &err), 0);
	cr_expect_eq(policy_check_findings(policy, production, findings, now + 31 * 24 * HOUR, &err), -EINVAL);
	keep(findings, "test", VERDICT_WEAKNESS);
	cr_expect_eq(policy_check_findings(policy, test, findings, now, &err), -EINVAL);
	cr_expect_str_eq(err.text, "t:2:13: the weakness that run 2 of 'e' found is still open");
	cr_expect_eq(findings_resolve(findings, 2, "ada", "mended", &err), 0);
	cr_expect_eq(policy_check_findings(policy, test, findings, now, &err), 0);
	findings_close(findings);
	policy_free(policy);
	experiment_free(production);
	experiment_free(test);
	unlink(name);
	rmdir(file);
}
