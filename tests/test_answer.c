// SPDX-License-Identifier: GPL-2.0-only
/*
 * Answers of HTTP that are made up: how `status`, `body`, `as`, `retry-after` and `hang` are written, what is said of them,
 * and that each form is HTTP and its body what it says it is.
 */
#include <criterion/criterion.h>
#include <ctype.h>
#include <errno.h>
#include <sqlite3.h>
#include <strings.h>

#include "tests/random_rules.h"
#include "tests/rule_words.h"

#define FAULT(fault) DOC("{ ports: 1 }", fault, "")

Test(answer, mistakes_are_told_with_their_place)
{
	expect_wrong(FAULT("{ status: 200 }"), "t:5:20: invalid status '200', expected a whole number from 400 to 599");
	expect_wrong(FAULT("{ status: 600 }"), "t:5:20: invalid status '600', expected a whole number from 400 to 599");
	expect_wrong(FAULT("{ status: to }"), "t:5:20: invalid status 'to', expected a whole number from 400 to 599");
	expect_wrong(FAULT("{ body: htlm }"), "t:5:18: unknown body 'htlm', did you mean 'html'?");
	expect_wrong(FAULT("{ body: none }"),
		     "t:5:18: unknown body 'none', expected empty, garbage, truncated or html");
	expect_wrong(FAULT("{ status: 429, as: opnai }"), "t:5:29: unknown as 'opnai', did you mean 'openai'?");
	expect_wrong(
		FAULT("{ status: 429, retry-after: 20 }"),
		"t:5:38: invalid retry-after '20', it has no unit; expected a duration such as 500ms, 8s or 1m30s");
	expect_wrong(FAULT("{ status: 429, retry-after: 1500ms }"),
		     "t:5:38: retry-after '1500ms' is sent in whole seconds");
	expect_wrong(FAULT("{ retry-after: 20s, drop: true }"),
		     "t:5:12: 'retry-after' needs 'status', as in { status: 429, retry-after: 20s }");
	expect_wrong(FAULT("{ body: html, as: openai }"), "t:5:24: 'as' needs 'status': it says whose error it is");
	expect_wrong(FAULT("{ status: 503, body: html, as: openai }"),
		     "t:5:37: 'as' and 'body' contradict each other: both say what the body is");
	expect_wrong(FAULT("{ hang: false }"), "t:5:18: 'hang: false' does nothing, leave it out");
	expect_wrong(FAULT("{ hang: true, status: 503 }"),
		     "t:5:12: 'hang' and 'status' contradict each other: there is no answer");
	expect_wrong(FAULT("{ hang: true, body: html }"),
		     "t:5:12: 'hang' and 'body' contradict each other: there is no answer");
	expect_wrong(FAULT("{ status: 503, reset: true }"), "t:5:10: 'status' goes with no other fault but 'delay'");
	expect_wrong(FAULT("{ body: html, drop: 5% }"), "t:5:10: 'body' goes with no other fault but 'delay'");
	expect_wrong(DOC("{ ports: 1, side: server }", "{ status: 503 }", ""),
		     "t:4:28: 'status' is for the client: its requests are read where they leave; leave 'side' out and "
		     "name the clients");
	expect_wrong(DOC("{ ports: 1, protocol: udp }", "{ hang: true }", ""),
		     "t:4:32: 'hang' is for tcp only, HTTP/3 (udp) is encrypted");
	expect_wrong(DOC("{ ports: 1, direction: request }", "{ status: 503 }", ""),
		     "t:4:33: 'status' is about the response; leave 'direction' out");
	expect_wrong(DOC("{ ports: 1 }", "{ body: html }", "  per: connection\n"),
		     "t:7:8: 'per: connection' makes no sense with 'body', decided for each request");
	expect_wrong(DOC("{ ports: 1, http: { method: GET } }", "{ status: 503 }", "  per: packet\n"),
		     "t:7:8: 'per: packet' makes no sense with 'http', decided for each request");
}

Test(answer, in_words)
{
	expect_sentence(DOC("{ ports: 1, http: { path: /v1/* } }", "{ status: 429, retry-after: 20s, as: openai }",
			    "  percent: 30\n"),
			"a: HTTP requests (/v1/*) from any process to port 1 anywhere are answered 429 as openai "
			"would, to be tried again after 20 s; on 30 % of the requests; ends after 1 min.");
	expect_sentence(FAULT("{ status: 503, body: html, delay: 2s }"),
			"a: HTTP requests from any process to port 1 anywhere take 2 s longer for each request and are "
			"answered 503 with a page of HTML; on all requests; ends after 1 min.");
	expect_sentence(FAULT("{ body: truncated }"),
			"a: HTTP requests from any process to port 1 anywhere are answered 200 with JSON that "
			"stops in the middle; on all requests; ends after 1 min.");
	expect_sentence(FAULT("{ hang: true }"),
			"a: HTTP requests from any process to port 1 anywhere are never answered; on all requests; "
			"ends after 1 min.");
}

/* ---- forms -------------------------------------------------------------------------------------------------------- */

static bool is_json(sqlite3 *db, const char *text, size_t length)
{
	sqlite3_stmt *query;
	bool valid;

	cr_assert_eq(sqlite3_prepare_v2(db, "select json_valid(?)", -1, &query, NULL), SQLITE_OK);
	sqlite3_bind_text(query, 1, text, (int)length, SQLITE_STATIC);
	cr_assert_eq(sqlite3_step(query), SQLITE_ROW);
	valid = sqlite3_column_int(query, 0);
	sqlite3_finalize(query);
	return valid;
}

/* The value of a header, up to the end of the line; NULL: there is none. */
static const char *header(const char *head, const char *name)
{
	static char value[200];

	for (const char *line = strstr(head, "\r\n"); line && line[2]; line = strstr(line + 2, "\r\n")) {
		if (strncasecmp(line + 2, name, strlen(name)) || line[2 + strlen(name)] != ':')
			continue;
		line += 3 + strlen(name);
		line += strspn(line, " ");
		snprintf(value, sizeof(value), "%.*s", (int)strcspn(line, "\r"), line);
		return value;
	}
	return NULL;
}

/* Status line, then lines with names and values, then an empty one. */
static void expect_head(const char *head, unsigned int status)
{
	char line[32];

	snprintf(line, sizeof(line), "HTTP/1.1 %u ", status);
	cr_expect_eq(strncmp(head, line, strlen(line)), 0, "%s", head);
	cr_expect_eq(strstr(head, "\r\n\r\n"), head + strlen(head) - 4, "%s", head);
	for (const char *at = strstr(head, "\r\n") + 2; *at != '\r'; at = strstr(at, "\r\n") + 2) {
		const size_t name = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-");

		cr_expect(name > 0 && at[name] == ':', "%s", at);
	}
	for (const char *c = head; *c; c++)
		cr_expect(isprint((unsigned char)*c) || *c == '\r' || *c == '\n');
}

/* How long it is: said, or to be filled in. */
static void expect_length(const struct chaos_form *form, const char *head, size_t length)
{
	const char *value = header(head, "content-length");
	char expected[16];

	cr_assert_eq(!value, form->kind == CHAOS_FORM_CLOSE && form->brief == 2, "%s", head);
	snprintf(expected, sizeof(expected), "%zu", length);
	if (form->length_at) {
		cr_expect_str_eq(value, "", "it is filled in later: '%s'", value);
		cr_expect_eq(strspn(head + form->length_at, " "), CHAOS_FORM_DIGITS_LENGTH);
		cr_expect_eq(head[form->length_at + CHAOS_FORM_DIGITS_LENGTH], '\r');
	} else if (value) {
		cr_expect_str_eq(value, expected);
	}
	cr_expect_eq(form->length_at != 0, form->kind != CHAOS_FORM_CLOSE && length);
	value = header(head, "connection");
	if (form->kind == CHAOS_FORM_KEEP)
		cr_expect_null(value);
	else
		cr_expect_str_eq(value, "close");
}

static void expect_form(sqlite3 *db, const struct chaos_form *form, const struct fault *f)
{
	const char *body = (const char *)form->text + form->head, *empty_line = form->open_head ? "\r\n\r\n" : "";
	const size_t length = form->length - form->head - strlen(empty_line);
	char head[CHAOS_FORM_TEXT + 8], expected[16];
	const char *value;

	snprintf(head, sizeof(head), "%.*s%s", form->head, (const char *)form->text, empty_line);
	expect_head(head, f->status ? f->status : 200);
	expect_length(form, head, length);
	snprintf(expected, sizeof(expected), "%u", (unsigned int)(f->retry_after_ns / 1000000000));
	value = header(head, "retry-after");
	cr_expect_eq(!!value, f->retry_after);
	if (value)
		cr_expect_str_eq(value, expected);
	if (f->body == BODY_JSON)
		cr_expect(is_json(db, body, length), "%.*s", (int)length, body);
	if (f->body == BODY_GARBAGE || f->body == BODY_TRUNCATED)
		cr_expect(!is_json(db, body, length));
	if (f->body == BODY_EMPTY)
		cr_expect_eq(length, 0);
}

static void expect_forms(sqlite3 *db, const char *fault)
{
	static const enum chaos_form_kind any[] = { CHAOS_FORM_KEEP, CHAOS_FORM_CLOSE, CHAOS_FORM_SHUT,
						    CHAOS_FORM_KEEP, CHAOS_FORM_CLOSE, CHAOS_FORM_SHUT,
						    CHAOS_FORM_CLOSE };
	static const enum chaos_form_kind empty[] = { CHAOS_FORM_CLOSE, CHAOS_FORM_SHUT, CHAOS_FORM_CLOSE,
						      CHAOS_FORM_SHUT, CHAOS_FORM_CLOSE };
	const enum chaos_form_kind *order = any;
	char source[300];
	struct made made;
	size_t whole = COUNT(any);

	snprintf(source, sizeof(source), FAULT("{ %s }"), fault);
	made = make(source);
	const struct fault *f = &made.rules->rules[0].fault;
	const struct chaos_rule *r = &made.tables->rules[0];

	if (f->body == BODY_EMPTY) { /* no answer that has a body is as long as one that has none */
		whole = COUNT(empty);
		order = empty;
	}
	cr_assert_eq(r->forms, whole + (f->status && f->body == BODY_JSON), "%s: %u forms", fault, r->forms);
	cr_assert(r->forms <= CHAOS_MAX_FORMS);
	for (size_t i = 0; i < whole; i++) {
		const struct chaos_form *form = &made.tables->forms[r->form + i];

		cr_expect_eq(form->kind, order[i]);
		cr_expect_eq(form->open_head, form->kind == CHAOS_FORM_SHUT && f->body == BODY_EMPTY);
		expect_form(db, form, f);
		if (form->brief)
			cr_expect(form->length <= made.tables->forms[r->form].length, "%s: brief is shorter", fault);
	}
	unmake(&made);
}

Test(answer, every_form)
{
	static const unsigned int statuses[] = { 400, 401, 403, 404, 408, 413, 422, 429,
						 499, 500, 501, 502, 503, 504, 529 };
	static const char *const bodies[] = { "empty", "garbage", "truncated", "html" };
	char fault[100];
	sqlite3 *db;

	cr_assert_eq(sqlite3_open(":memory:", &db), SQLITE_OK);
	for (size_t i = 0; i < COUNT(statuses); i++) {
		for (size_t as = 0; provider_names[as]; as++) {
			snprintf(fault, sizeof(fault), "status: %u, as: %s%s", statuses[i], provider_names[as],
				 (i + as) % 2 ? ", retry-after: 24h" : "");
			expect_forms(db, fault);
		}
		for (size_t body = 0; body < COUNT(bodies); body++) {
			snprintf(fault, sizeof(fault), "status: %u, body: %s%s", statuses[i], bodies[body],
				 (i + body) % 2 ? ", retry-after: 1s" : "");
			expect_forms(db, fault);
		}
	}
	for (size_t body = 0; body < COUNT(bodies); body++) {
		snprintf(fault, sizeof(fault), "body: %s", bodies[body]);
		expect_forms(db, fault);
	}
	sqlite3_close(db);
}

/* What clients look at, word by word. */
Test(answer, as_the_providers_say_it)
{
	static const struct {
		const char *fault, *says;
	} cases[] = {
		{ "status: 429, as: openai, retry-after: 20s", "Please try again in 20s" },
		{ "status: 429, as: openai", "\"code\":\"rate_limit_exceeded\"" },
		{ "status: 503, as: openai", "\"type\":\"server_error\"" },
		{ "status: 401, as: openai", "\"code\":\"invalid_api_key\"" },
		{ "status: 429, as: openai-quota", "\"code\":\"insufficient_quota\"" },
		{ "status: 429, as: azure, retry-after: 6s", "Please retry after 6 seconds." },
		{ "status: 429, as: anthropic", "\"type\":\"rate_limit_error\"" },
		{ "status: 529, as: anthropic", "\"type\":\"overloaded_error\"" },
		{ "status: 500, as: anthropic", "\"type\":\"api_error\"" },
		{ "status: 429, as: gemini", "\"status\":\"RESOURCE_EXHAUSTED\"" },
		{ "status: 503, as: gemini", "\"status\":\"UNAVAILABLE\"" },
		{ "status: 429, as: bedrock", "x-amzn-ErrorType: ThrottlingException\r\n" },
		{ "status: 503, as: llama-server", "\"type\":\"unavailable_error\"" },
		{ "status: 500, as: vllm", "\"type\":\"InternalServerError\"" },
		{ "status: 429, as: tgi", "\"error_type\":\"overloaded\"" },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		char source[300], text[CHAOS_FORM_TEXT + 1];
		const struct chaos_form *form;
		struct made made;

		snprintf(source, sizeof(source), FAULT("{ %s }"), cases[i].fault);
		made = make(source);
		form = &made.tables->forms[made.tables->rules[0].form];
		snprintf(text, sizeof(text), "%.*s", form->length, (const char *)form->text);
		cr_expect(strstr(text, cases[i].says), "%s: %s", cases[i].fault, text);
		unmake(&made);
	}
}

Test(answer, none_at_all)
{
	struct made made = make(FAULT("{ hang: true }"));

	cr_expect_eq(made.tables->rules[0].forms, 1);
	cr_expect_eq(made.tables->forms[made.tables->rules[0].form].kind, CHAOS_FORM_NONE);
	cr_expect(made.tables->rules[0].flags & CHAOS_RULE_LASTS, "max-hits ends no silence");
	unmake(&made);
}
