// SPDX-License-Identifier: GPL-2.0-only
/* user/webhook*.c: what is told, how often it is tried, and that no secret gets out. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/findings_file.h"
#include "user/base/curl_library.h"
#include "user/experiment/webhook_internal.h"

TestSuite(webhook, .init = findings_enter, .fini = findings_leave);

#define SECRET "s3cr3t-t0ken"

static struct hypothesis hypotheses[] = {
	{ WHEN_DURING, "ask.success", ">=", 90, "%", 60, OUTCOME_FAILED, NULL },
};

static struct findings_run run = {
	.id = 7,
	.experiment = "vector-db <!channel>",
	.title = "A & B",
	.environment = "staging",
	.host = "rag-3",
	/* clang-format off */
	.operator = "alice",
	/* clang-format on */
	.reason = "",
	.verdict = VERDICT_WEAKNESS,
	.hypotheses = hypotheses,
	.hypotheses_count = 1,
};

/* ---- the file ---- */

Test(webhook, files_that_are_wrong)
{
	static const struct {
		const char *text, *words;
	} cases[] = {
		{ "webhooks: []", "version" },
		{ "version: 1", "the webhooks are missing" },
		{ "version: 1\nwebhooks:\n  - shape: slack\n", "w:3:5: a webhook needs a url" },
		{ "version: 1\nwebhooks:\n  - { shape: teams, url: { variable: X } }\n", "teams" },
		{ "version: 1\nwebhooks:\n  - { shape: json, url: \"https://example.com\" }\n", "'url' is a secret" },
		{ "version: 1\nwebhooks:\n  - { shape: json, url: { variable: X }, token: abc }\n",
		  "'token' is a secret" },
		{ "version: 1\nwebhooks:\n  - { shape: json, url: {} }\n", "one of file and variable" },
		{ "version: 1\nwebhooks:\n  - { shape: json, url: { file: a, variable: b } }\n",
		  "one of file and variable" },
		{ "version: 1\nwebhooks:\n  - { shape: jira, url: { variable: X } }\n", "needs a project" },
		{ "version: 1\nwebhooks:\n  - { shape: json, url: { variable: MISSING_ONE } }\n", "holds no secret" },
		{ "version: 1\nwebhooks:\n  - { shape: json, url: { variable: TWO_LINES } }\n", "more than one word" },
		{ "version: 1\nwebhooks:\n  - { shape: json, url: { variable: NO_URL } }\n", "neither with https" },
		{ "version: 1\nwebhooks:\n  - { shape: json, url: { file: open.txt } }\n", "chmod 600" },
		{ "version: 1\nwebhooks:\n  - { shape: json, url: { file: none.txt } }\n", "cannot open" },
		{ "version: 1\nwebhooks:\n  - { shape: json, urll: { file: none.txt } }\n", "did you mean 'url'" },
	};
	struct webhooks *webhooks;
	struct error err;
	FILE *file = fopen("open.txt", "w");

	fputs("https://example.com/" SECRET "\n", file);
	fclose(file);
	chmod("open.txt", 0644);
	setenv("TWO_LINES", "https://example.com/" SECRET "\nX: y", 1);
	setenv("NO_URL", "ftp://example.com/" SECRET, 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_expect_lt(webhook_file_parse("w", cases[i].text, strlen(cases[i].text), &webhooks, &err), 0, "%s",
			     cases[i].text);
		cr_expect(strstr(err.text, cases[i].words), "%s", err.text);
		cr_expect_eq(err.exit, EXIT_USAGE);
		cr_expect_null(strstr(err.text, SECRET), "%s", err.text);
		cr_expect_null(webhooks);
	}
}

/* The example is right up to the first secret, which is not there. */
Test(webhook, the_example_is_right)
{
	char path[4200], *text;
	struct webhooks *webhooks;
	struct error err;

	snprintf(path, sizeof(path), "%s/tools/ci/webhooks.yaml", findings_source());
	text = file_text(path);
	cr_expect_lt(webhook_file_parse("w", text, strlen(text), &webhooks, &err), 0);
	cr_expect(strstr(err.text, "cannot open '/etc/chaosbpf/slack.url'"), "%s", err.text);
	free(text);
}

/* A file with one webhook whose url and token are secrets. */
static struct webhooks *load(const char *shape, const char *url)
{
	char text[512];
	struct webhooks *webhooks;
	struct error err;

	setenv("HOOK_URL", url, 1);
	setenv("HOOK_TOKEN", SECRET, 1);
	snprintf(text, sizeof(text),
		 "version: 1\nwebhooks:\n  - shape: %s\n    url: { variable: HOOK_URL }\n"
		 "    token: { variable: HOOK_TOKEN }\n    project: OPS\n    environments: [staging]\n",
		 shape);
	cr_assert_eq(webhook_file_parse("w", text, strlen(text), &webhooks, &err), 0, "%s", err.text);
	return webhooks;
}

/* ---- bodies ---- */

static json_t *body_of(const char *shape)
{
	struct webhooks *webhooks = load(shape, "https://example.com/" SECRET);
	char *body = webhook_body(&webhooks->list[0], &run);
	json_t *root = json_loads(body, 0, NULL);

	cr_assert(root, "%s", body);
	cr_expect_null(strstr(body, SECRET));
	free(body);
	webhooks_free(webhooks);
	return root;
}

Test(webhook, bodies)
{
	json_t *root = body_of("slack"), *fields;
	const char *text = json_string_value(json_object_get(root, "text"));

	cr_expect(strstr(text, "Weakness found: while it was broken only 60 % of ask succeeded"), "%s", text);
	cr_expect(strstr(text, "vector-db &lt;!channel&gt;: A &amp; B"), "%s", text);
	json_decref(root);
	root = body_of("jira");
	fields = json_object_get(root, "fields");
	cr_expect_str_eq(json_string_value(json_object_get(json_object_get(fields, "project"), "key")), "OPS");
	cr_expect_str_eq(json_string_value(json_object_get(json_object_get(fields, "issuetype"), "name")), "Bug");
	cr_expect(strstr(json_string_value(json_object_get(fields, "description")), "A & B"));
	json_decref(root);
	root = body_of("json");
	cr_expect_eq(json_integer_value(json_object_get(root, "run")), 7);
	cr_expect_str_eq(json_string_value(json_object_get(root, "verdict")), "weakness");
	json_decref(root);
}

Test(webhook, only_the_environments_that_are_named)
{
	struct webhooks *webhooks = load("json", "https://example.com/x");
	struct findings_run other = run;

	cr_expect(webhook_wants(&webhooks->list[0], &run));
	other.environment = "production";
	cr_expect_not(webhook_wants(&webhooks->list[0], &other));
	webhooks->list[0].environments_count = 0;
	cr_expect(webhook_wants(&webhooks->list[0], &other));
	webhooks->list[0].environments_count = 1;
	webhooks_free(webhooks);
}

/* ---- attempts, against a server of our own ---- */

struct server {
	int listener;
	char url[64];
	pid_t child;
};

/* Reads a request up to the end of its body. */
static void read_request(int fd, char *buf, size_t size)
{
	size_t used = 0, need = 0;

	for (;;) {
		ssize_t n = read(fd, buf + used, size - 1 - used);
		char *end, *length;

		if (n <= 0)
			return;
		used += (size_t)n;
		buf[used] = '\0';
		end = strstr(buf, "\r\n\r\n");
		length = strstr(buf, "Content-Length: ");
		if (end && length)
			need = (size_t)(end + 4 - buf) + strtoul(length + 16, NULL, 10);
		if (need && used >= need)
			return;
	}
}

/* Answers with these statuses, one a connection, and keeps the last request in a file. */
static struct server serve(const char *const *statuses)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct server server = { .listener = socket(AF_INET, SOCK_STREAM, 0) };
	socklen_t len = sizeof(address);

	cr_assert(bind(server.listener, (struct sockaddr *)&address, sizeof(address)) == 0 &&
		  listen(server.listener, 8) == 0);
	getsockname(server.listener, (struct sockaddr *)&address, &len);
	snprintf(server.url, sizeof(server.url), "http://127.0.0.1:%d/" SECRET, ntohs(address.sin_port));
	server.child = fork();
	for (; server.child == 0 && *statuses; statuses++) {
		int fd = accept(server.listener, NULL, NULL);
		char request[8192] = "", answer[128];
		FILE *out;

		read_request(fd, request, sizeof(request));
		out = fopen("request", "w");
		fputs(request, out);
		fclose(out);
		snprintf(answer, sizeof(answer), "HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
			 *statuses);
		if (write(fd, answer, strlen(answer)) < 0)
			_exit(1);
		close(fd);
	}
	if (server.child == 0)
		_exit(0);
	close(server.listener);
	return server;
}

static void need_curl(void)
{
	struct error err;

	if (curl_library_load(&err) < 0)
		cr_skip("needs libcurl");
	curl_global_init(CURL_GLOBAL_DEFAULT);
	setenv("no_proxy", "127.0.0.1", 1);
	for (size_t i = 0; i < WEBHOOK_ATTEMPTS - 1; i++)
		webhook_pauses_s[i] = 0.01;
}

static void expect_outcome(const char *const *statuses, const char *expected)
{
	struct server server = serve(statuses);
	struct webhooks *webhooks = load("json", server.url);
	char outcome[400];
	int status;

	webhook_tell(&webhooks->list[0], "{\"a\": 1}", outcome, sizeof(outcome));
	cr_expect_str_eq(outcome, expected);
	cr_expect_eq(waitpid(server.child, &status, 0), server.child);
	webhooks_free(webhooks);
}

#define STATUSES(...) ((const char *const[]){ __VA_ARGS__, NULL })

Test(webhook, tried_until_it_is_taken, .timeout = 60)
{
	char *request;

	need_curl();
	expect_outcome(STATUSES("200 OK"), "told after 1 attempt: status 200");
	request = file_text("request");
	cr_expect(strstr(request, "POST /" SECRET " HTTP"));
	cr_expect(strstr(request, "Authorization: Bearer " SECRET "\r\n"));
	cr_expect(strstr(request, "Content-Type: application/json\r\n"));
	cr_expect(strstr(request, "\r\n\r\n{\"a\": 1}"));
	free(request);
	expect_outcome(STATUSES("500 No", "503 No", "201 Created"), "told after 3 attempts: status 201");
	expect_outcome(STATUSES("500 No", "429 Slow", "502 No", "500 No"), "gave up after 4 attempts: status 500");
	expect_outcome(STATUSES("403 Never"), "gave up after 1 attempt: status 403");
	expect_outcome(STATUSES("302 Elsewhere\r\nLocation: http://127.0.0.1:1/"),
		       "gave up after 1 attempt: status 302");
}

Test(webhook, nobody_answers, .timeout = 60)
{
	struct webhooks *webhooks;
	char outcome[400];

	need_curl();
	webhooks = load("json", "http://127.0.0.1:1/" SECRET);
	webhook_tell(&webhooks->list[0], "{}", outcome, sizeof(outcome));
	cr_expect(strncmp(outcome, "gave up after 4 attempts: ", 26) == 0, "%s", outcome);
	cr_expect_null(strstr(outcome, SECRET), "%s", outcome);
	webhooks_free(webhooks);
}

/* The whole way: the file, the child, the note in the timeline; and no secret in the database. */
Test(webhook, the_outcome_is_kept, .timeout = 60)
{
	static const struct findings_plan plan = { .experiment = "x", .environment = "staging" };
	struct server server;
	struct findings *findings = findings_get("f.db", FINDINGS_WRITE);
	struct findings_writer *writer;
	struct findings_run *kept;
	struct error err;
	char *whole;
	pid_t child;
	FILE *file;

	need_curl();
	server = serve(STATUSES("200 OK"));
	cr_assert_eq(findings_begin(findings, &plan, &writer, &err), 0);
	cr_assert_eq(findings_finish(writer, VERDICT_WEAKNESS, "it broke", &err), 0);
	file = fopen("url", "w");
	fprintf(file, "%s\n", server.url);
	fclose(file);
	chmod("url", 0600);
	file = fopen("hooks.yaml", "w");
	fputs("version: 1\nwebhooks: [{ shape: slack, url: { file: url } }]\n", file);
	fclose(file);
	kept = findings_run_get(findings, "last");
	findings_close(findings);
	cr_assert_eq(webhook_begin("hooks.yaml", kept, "f.db", &child, &err), 0, "%s", err.text);
	cr_assert_gt(child, 0);
	findings_run_free(kept);
	webhook_wait(child, 30);
	waitpid(server.child, NULL, 0);
	findings = findings_get("f.db", FINDINGS_READ);
	kept = findings_run_get(findings, "last");
	cr_assert_eq(kept->moments_count, 1);
	cr_expect_str_eq(kept->moments[0].text, "webhook 1 (slack): told after 1 attempt: status 200");
	findings_run_free(kept);
	findings_close(findings);
	cr_assert_eq(system("grep -q '" SECRET "' f.db"), 1 << 8);
	whole = file_text("request");
	cr_expect(strstr(whole, "Weakness found: it broke."), "%s", whole);
	free(whole);
}

Test(webhook, no_file_is_no_error_unless_it_was_named)
{
	struct error err = { 0 };
	pid_t child = 1;

	cr_expect_eq(webhook_begin("none.yaml", &run, "f.db", &child, &err), -ENOENT);
	cr_expect(strstr(err.text, "cannot open 'none.yaml'"));
	cr_expect_eq(child, 0);
}
