// SPDX-License-Identifier: GPL-2.0-only
/* What counts as a good answer: user/base/web_expect.c; and commands without a shell: user/base/spawn.c. */
#include <criterion/criterion.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "user/base/spawn.h"
#include "user/base/web.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

#define CHAT "{\"choices\": [{\"message\": {\"role\": \"assistant\", \"n\": 5}}], \"ok\": true, \"x\": null}"

struct expected {
	const char *expect; /* in the language */
	int status;
	const char *body, *reason; /* NULL: as expected */
};

static const struct expected expected[] = {
	{ "{}", 204, "", NULL },
	{ "{}", 302, "", "status 302" },
	{ "{ status: [200, 4xx] }", 404, "", NULL },
	{ "{ status: [200, 4xx] }", 201, "", "status 201" },
	{ "{ headers: { content-type: JSON } }", 200, "", NULL },
	{ "{ headers: { Content-Type: xml } }", 200, "", "no header 'Content-Type: xml'" },
	{ "{ body-contains: answer }", 200, "the answer", NULL },
	{ "{ body-contains: answer }", 200, "nothing", "body does not contain 'answer'" },
	{ "{ body-matches: \"^[0-9]+$\" }", 200, "42", NULL },
	{ "{ body-matches: \"^[0-9]+$\" }", 200, "4x", "body does not match '^[0-9]+$'" },
	{ "{ json: { choices.0.message.role: assistant, ok: true, x: null, choices.0.message.n: 5.0 } }", 200, CHAT,
	  NULL },
	{ "{ json: { choices.0.message.role: user } }", 200, CHAT, "json choices.0.message.role is 'assistant'" },
	{ "{ json: { choices.1 : x } }", 200, CHAT, "json choices.1 is missing" },
	{ "{ json: { ok: \"true\" } }", 200, CHAT, "json ok is 'true'" },
	{ "{ json: { ok: true } }", 200, "<html>", "the answer is not JSON" },
};

Test(web, answers_as_expected)
{
	static const char form[] = "version: 1\nexperiment: e\nprobes: [{ name: a, http: \"http://h/\", expect: %s }]\n"
				   "steady: { a.success: \"> 1%%\" }\nmethod: [{ exec: [ls] }]\n";
	char source[1024], reason[256];

	for (size_t i = 0; i < COUNT(expected); i++) {
		struct web_answer answer = {
			.status = expected[i].status,
			.headers = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n",
			.body = expected[i].body,
			.body_len = strlen(expected[i].body),
		};
		struct experiment *e;
		struct error err;
		bool good;

		snprintf(source, sizeof(source), form, expected[i].expect);
		cr_assert_eq(experiment_parse("t", source, strlen(source), NULL, &e, &err), 0, "%s", err.text);
		good = web_expected(&e->probes[0].expect, &answer, reason, sizeof(reason));
		cr_expect_eq(good, expected[i].reason == NULL, "%s: %s", expected[i].expect, reason);
		cr_expect_str_eq(reason, expected[i].reason ?: "");
		answer.error = "cannot connect: ECONNREFUSED";
		cr_expect(!web_expected(&e->probes[0].expect, &answer, reason, sizeof(reason)));
		cr_expect_str_eq(reason, answer.error);
		experiment_free(e);
	}
}

Test(web, prometheus)
{
	static const struct {
		const char *body;
		double value;
	} table[] = {
		{ "{\"data\": {\"result\": [{\"value\": [1.5, \"2.5\"]}, {\"value\": [1, \"9\"]}]}}", 2.5 },
		{ "{\"data\": {\"resultType\": \"scalar\", \"result\": [1.5, \"7\"]}}", 7 },
		{ "{\"data\": {\"result\": []}}", NAN },
		{ "{\"data\": {\"result\": [{\"value\": 3}]}}", NAN },
		{ "not json", NAN },
	};
	char reason[128];

	for (size_t i = 0; i < COUNT(table); i++) {
		const struct web_answer answer = {
			.status = 200, .headers = "", .body = table[i].body, .body_len = strlen(table[i].body)
		};
		double value = web_prometheus_value(&answer, reason, sizeof(reason));

		cr_expect(isnan(table[i].value) ? isnan(value) : value == table[i].value, "%s", table[i].body);
		cr_expect_str_eq(reason, isnan(table[i].value) ? "the query has no result" : "");
	}
}

static int run_command(char *const *command)
{
	struct spawned spawned;
	struct pollfd fd = { .events = POLLIN };
	struct error err;
	int code;

	cr_assert_eq(spawn(&spawned, command, &err), 0, "%s", err.text);
	fd.fd = spawned.pidfd;
	while (!spawn_ended(&spawned, &code))
		poll(&fd, 1, 1000);
	cr_expect_eq(spawned.pid, 0);
	return code;
}

Test(spawn, exit_codes)
{
	char *good[] = { "true", NULL }, *bad[] = { "false", NULL }, *nowhere[] = { "/no/such/program", NULL };
	char *killed[] = { "sh", "-c", "kill -9 $$", NULL };

	cr_expect_eq(run_command(good), 0);
	cr_expect_eq(run_command(bad), 1);
	cr_expect_eq(run_command(nowhere), 127);
	cr_expect_eq(run_command(killed), 137);
}

Test(spawn, kills_the_group)
{
	char *command[] = { "sh", "-c", "sleep 600 & sleep 600", NULL };
	struct spawned spawned;
	struct error err;
	int code;

	cr_assert_eq(spawn(&spawned, command, &err), 0, "%s", err.text);
	cr_expect(!spawn_ended(&spawned, &code));
	spawn_kill(&spawned);
	cr_expect_eq(spawned.pid, 0);
	cr_expect_eq(spawned.pidfd, -1);
}
