// SPDX-License-Identifier: GPL-2.0-only
/*
 * Requests of HTTP: the reader of bpf/http.h, the very code that runs in the kernel, with the tables of
 * user/tables/tables_http.c; and `match.http`, how it is written and what is said of it.
 */
#include <criterion/criterion.h>
#include <errno.h>

#include "tests/http_reader.h"
#include "tests/random_rules.h"
#include "tests/rule_words.h"

/* ---- reading ------------------------------------------------------------------------------------------------------ */

static struct made make_http(const char *const *http, size_t count)
{
	struct file f;

	begin(&f);
	for (size_t i = 0; i < count; i++)
		rule(&f, "ports: 1, http: %s", http[i]);
	return end(&f);
}

#define MAKE(...) make_http((const char *const[]){ __VA_ARGS__ }, COUNT(((const char *const[]){ __VA_ARGS__ })))

static struct chaos_http_reader reader;

static void feed(const struct made *made, const char *text)
{
	http_segment(&reader, made->tables, (const unsigned char *)text, strlen(text));
}

/* The rules whose conditions the request fulfils, a set, as the kernel works it out; all must be known. */
static uint64_t decided(const struct made *made)
{
	const struct chaos_http_table *t = made->tables->http;
	uint64_t rules = t->rules[0];
	uint32_t conditions = http_conditions(&reader, t);

	cr_assert(reader.ready, "not all is known, phase %d", reader.phase);
	reader.ready = 0;
	for (int i = 0; i < CHAOS_HTTP_CONDITIONS; i++)
		rules &= t->indifferent[0][i] | -(uint64_t)(conditions >> i & 1);
	return rules;
}

/* The same whatever segments it comes in: cut at each place, and byte by byte; and nothing of it is left over. */
static void expect(const struct made *made, const char *request, uint64_t rules)
{
	const size_t length = strlen(request);
	const unsigned char *bytes = (const unsigned char *)request;
	uint64_t got;

	for (size_t cut = 0; cut <= length; cut++) {
		memset(&reader, 0, sizeof(reader));
		http_segment(&reader, made->tables, bytes, cut);
		http_segment(&reader, made->tables, bytes + cut, length - cut);
		got = decided(made);
		cr_assert_eq(got, rules, "cut at %zu: got %#lx, wanted %#lx\n%s", cut, got, rules, request);
		cr_assert_eq(reader.phase, HTTP_START, "cut at %zu: phase %d\n%s", cut, reader.phase, request);
		cr_assert_eq(reader.begun, 1);
	}
	memset(&reader, 0, sizeof(reader));
	for (size_t i = 0; i < length; i++)
		http_segment(&reader, made->tables, bytes + i, 1);
	got = decided(made);
	cr_assert_eq(got, rules, "byte by byte: got %#lx, wanted %#lx\n%s", got, rules, request);
}

static void expect_foreign(const struct made *made, const char *text)
{
	memset(&reader, 0, sizeof(reader));
	feed(made, text);
	cr_expect_eq(reader.phase, HTTP_FOREIGN, "phase %d: %s", reader.phase, text);
}

#define GET(path)      "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"
#define POST(more, body) "POST /p HTTP/1.1\r\nHost: a\r\n" more "\r\n" body

Test(http, paths)
{
	struct made m = MAKE("{ path: /v1/chat/completions }", "{ path: \"/v1/*\" }", "{ path: \"*/embeddings\" }",
			     "{ path: \"/a*b*c\" }");

	expect(&m, GET("/v1/chat/completions"), 3);
	expect(&m, GET("/v1/chat/completions?x=/v1/embeddings"), 3);
	expect(&m, GET("/v1/chat/completion"), 2);
	expect(&m, GET("/v1/chat/completionss"), 2);
	expect(&m, GET("/v1/"), 2);
	expect(&m, GET("/v1"), 0);
	expect(&m, GET("/V1/"), 0);
	expect(&m, GET("/x/v1/embeddings"), 4);
	expect(&m, GET("http://host/v1/embeddings"), 4);
	expect(&m, GET("/abc"), 8);
	expect(&m, GET("/axbxbxcxc"), 8);
	expect(&m, GET("/ac"), 0);
	expect(&m, GET("/x?/v1/chat/completions"), 0);
	unmake(&m);
}

Test(http, methods)
{
	struct made m = MAKE("{ method: GET }", "{ method: POST, path: \"/p\" }", "{ method: PATCH }");

	expect(&m, GET("/p"), 1);
	expect(&m, POST("", ""), 2);
	expect(&m, "PO /p HTTP/1.1\r\n\r\n", 0);
	expect(&m, "POSTS /p HTTP/1.1\r\n\r\n", 0);
	expect(&m, "M-SEARCH /p HTTP/1.0\r\n\r\n", 0);
	expect(&m, "GET /p HTTP/1.1\n\n", 1);
	expect(&m, "\r\nGET /p HTTP/1.1\r\n\r\n", 1);
	unmake(&m);
}

Test(http, headers)
{
	struct made m = MAKE("{ header: { X-Chaos: 1 } }", "{ header: { authorization: \"Bearer sk-*\" } }",
			     "{ header: { x-chaos: 1, x-other: \"*\" } }");

	expect(&m, POST("x-chaos: 1\r\n", ""), 1);
	expect(&m, POST("X-CHAOS:1\r\n", ""), 1);
	expect(&m, POST("X-Chaos: \t 1 \t\r\n", ""), 1);
	expect(&m, POST("x-chaos: 11\r\n", ""), 0);
	expect(&m, POST("x-chaos: 2\r\n", ""), 0);
	expect(&m, POST("x-chaosx: 1\r\n", ""), 0);
	expect(&m, POST("y: x-chaos: 1\r\n", ""), 0);
	expect(&m, POST("x-chaos: 2\r\nx-chaos: 1\r\n", ""), 1);
	expect(&m, POST("Authorization: Bearer sk-123\r\n", ""), 2);
	expect(&m, POST("Authorization: bearer sk-123\r\n", ""), 0);
	expect(&m, POST("X-Other: y\r\nauthorization: Bearer sk-\r\nX-Chaos: 1\r\n", ""), 7);
	expect(&m, POST("X-Other:\r\nX-Chaos: 1\r\n", ""), 5);
	unmake(&m);
}

static void expect_json(const struct made *made, const char *body, uint64_t rules)
{
	char request[512];

	snprintf(request, sizeof(request), POST("Content-Length: %zu\r\n", "%s"), strlen(body), body);
	expect(made, request, rules);
}

Test(http, models)
{
	struct made m = MAKE("{ model: gpt-4o }", "{ model: \"qwen-*\" }", "{ path: /p }");

	expect_json(&m, "{\"model\":\"gpt-4o\"}", 5);
	expect_json(&m, "{ \"model\" : \"gpt-4o\"  }\n", 5);
	expect_json(&m, "{\"model\":\"qwen-7b\"}", 6);
	expect_json(&m, "{\"model\":\"gpt-4o-mini\"}", 4);
	expect_json(&m, "{\"messages\":[{\"a\":1},{}],\"model\":\"gpt-4o\"}", 5);
	expect_json(&m, "{\"a\":{\"model\":\"gpt-4o\"},\"model\":\"qwen-1\"}", 6);
	expect_json(&m, "{\"prompt\":\"\\\"model\\\": \\\"gpt-4o\\\" {\\\\\",\"model\":\"qwen-\"}", 6);
	expect_json(&m, "{\"b\":\"model\",\"c\":\"gpt-4o\"}", 4);
	expect_json(&m, "[\"model\",\"gpt-4o\",\"qwen-1\"]", 4);
	expect_json(&m, "\"model\": \"gpt-4o\",         ", 4);
	expect_json(&m, "{\"models\":\"gpt-4o\",\"mode\":1", 4);
	expect_json(&m, "{\"model\":5}", 4);
	expect_json(&m, "{\"model\":\"qwen-\\/7b\"}", 6);
	expect(&m, GET("/p"), 4);
	unmake(&m);
}

Test(http, text_in_bodies)
{
	struct made m = MAKE("{ body-contains: \"ab*ab\" }", "{ body-contains: \"aab\" }");

	expect_json(&m, "xxab*abx", 1);
	expect_json(&m, "ab*ab", 1);
	expect_json(&m, "aaaab*a", 2);
	expect_json(&m, "abxxabb", 0);
	expect(&m, POST("ab*ab: aab\r\n", ""), 0);
	unmake(&m);
}

Test(http, size_of_bodies)
{
	struct made m = MAKE("{ min-size: 10 }", "{ min-size: 5, path: /p }", "{ path: \"/*\" }");

	expect_json(&m, "1234", 4);
	expect_json(&m, "123456789", 6);
	expect_json(&m, "1234567890", 7);
	expect(&m, GET("/p"), 4);
	expect(&m, POST("Transfer-Encoding: chunked\r\n", "A\r\n1234567890\r\n0\r\n\r\n"), 4);
	expect(&m, POST("Transfer-Encoding: chunked\r\nContent-Length: 20\r\n", "0\r\n\r\n"), 4);
	unmake(&m);
}

Test(http, chunked_bodies)
{
	struct made m = MAKE("{ body-contains: needle }", "{ model: m }", "{ path: \"/n*\" }");

	expect(&m, POST("Transfer-Encoding: chunked\r\n", "3\r\nnee\r\n4;x=\"y\"\r\ndle!\r\n0\r\n\r\n"), 1);
	expect(&m, POST("transfer-encoding:  gzip, Chunked \r\n", "A\r\n{\"model\":\"\r\n3\r\nm\"}\r\n0\r\n\r\n"), 2);
	expect(&m, POST("Transfer-Encoding: chunked\r\n", "6\r\nneedl3\r\n00\r\nTrailer: needle\r\n\r\n"), 0);
	expect(&m, POST("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", "0\r\n\r\n"), 0);
	unmake(&m);
}

Test(http, one_after_another)
{
	/* A body that looks like requests is none, and nothing of one request is left in the next. */
	struct made m = MAKE("{ path: /one }", "{ path: /two }", "{ header: { x: y } }");
	const char *text = "POST /one HTTP/1.1\r\nx: y\r\nContent-Length: 36\r\n\r\nGET /two HTTP/1.1\r\nHost: a\r\n\r\nGET /t"
			   "GET /two HTTP/1.1\r\n\r\n"
			   "POST /none HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n13\r\nGET /two HTTP/1.1\r\n\r\n0\r\n\r\n"
			   "GET /one HTTP/1.1\r\n\r\n";
	uint64_t want[] = { 5, 2, 0, 1 };
	size_t next = 0;

	memset(&reader, 0, sizeof(reader));
	for (size_t i = 0; text[i]; i++) {
		http_segment(&reader, m.tables, (const unsigned char *)text + i, 1);
		if (reader.ready) {
			cr_assert_lt(next, COUNT(want));
			cr_expect_eq(decided(&m), want[next], "request %zu", next);
			next++;
		}
	}
	cr_expect_eq(next, COUNT(want));
	cr_expect_not(reader.pipelined);
	memset(&reader, 0, sizeof(reader));
	feed(&m, text);
	cr_expect(reader.pipelined, "four requests at once");
	unmake(&m);
}

Test(http, long_bodies_are_skipped)
{
	struct made m = MAKE("{ path: /p }"), wants = MAKE("{ path: /p }", "{ model: m }");
	static unsigned char body[40000];

	memset(&reader, 0, sizeof(reader));
	feed(&m, "POST /p HTTP/1.1\r\nContent-Length: 80001\r\n\r\n");
	cr_expect_eq(decided(&m), 1);
	http_segment(&reader, m.tables, body, sizeof(body));
	http_segment(&reader, m.tables, body, sizeof(body));
	cr_expect_eq(reader.phase, HTTP_BODY);
	http_segment(&reader, m.tables, body, 1);
	cr_expect_eq(reader.phase, HTTP_START);
	cr_expect_not(reader.ready);

	memset(body, ' ', sizeof(body));
	memset(&reader, 0, sizeof(reader));
	feed(&wants, "POST /p HTTP/1.1\r\nContent-Length: 80001\r\n\r\n");
	cr_expect_not(reader.ready);
	http_segment(&reader, wants.tables, body, CHAOS_HTTP_BODY_READ - 1);
	cr_expect_not(reader.ready);
	http_segment(&reader, wants.tables, body, 1);
	cr_expect_eq(decided(&wants), 1);
	http_segment(&reader, wants.tables, body, 40000);
	http_segment(&reader, wants.tables, body, 40001 - CHAOS_HTTP_BODY_READ);
	cr_expect_eq(reader.phase, HTTP_START);
	unmake(&m);
	unmake(&wants);
}

Test(http, what_is_not_http)
{
	struct made m = MAKE("{ path: /p }");
	static const char *const texts[] = {
		"\x16\x03\x01", "*1\r\n$4\r\nPING\r\n", "get / HTTP/1.1\r\n", "PING\r\n", "PRI * HTTP/2.0\r\n\r\nSM",
		"GET / HTTQ/1.1\r\n", "GET / HTTP/1.1 \r\n", "GET / HTTP/1.10\r\n", "GET /\r\n",
		"GET / HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\n", "GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
		"GET / HTTP/1.1\r\n\rx", "GET / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
		"P / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nx", "P / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc",
	};

	for (size_t i = 0; i < COUNT(texts); i++)
		expect_foreign(&m, texts[i]);
	unmake(&m);
}

/* ---- the language --------------------------------------------------------------------------------------------------- */

#define HTTP(http) DOC("{ ports: 1, http: " http " }", "{ drop: true }", "")

Test(http, mistakes_are_told_with_their_place)
{
	expect_wrong(HTTP("{}"), "t:4:28: 'http' names nothing of a request; write a path, method, model, header, "
				 "body-contains or min-size");
	expect_wrong(HTTP("{ min-size: 0 }"), "t:4:40: min-size '0' fits every request; leave 'min-size' out");
	expect_wrong(HTTP("{ min-size: large }"), "t:4:40: invalid min-size 'large', expected a size such as 200KB or 1MiB");
	expect_wrong(HTTP("{ paht: /x }"), "t:4:30: unknown key 'paht', did you mean 'path'?");
	expect_wrong(HTTP("{ path: x }"), "t:4:36: invalid path 'x', it begins with '/'");
	expect_wrong(HTTP("{ path: \"*\" }"), "t:4:36: path '*' fits every request; leave 'path' out");
	expect_wrong(HTTP("{ path: \"/a b\" }"),
		     "t:4:36: invalid path '/a b', expected a path such as /v1/chat/completions or \"/v1/*\"");
	expect_wrong(HTTP("{ path: \"/a?b\" }"),
		     "t:4:36: path '/a?b' holds a '?': what follows it is no part of the path, leave it out");
	expect_wrong(HTTP("{ method: post }"),
		     "t:4:38: invalid method 'post', methods are written in capitals, such as POST");
	expect_wrong(HTTP("{ method: PSOT }"), "t:4:38: unknown method 'PSOT', did you mean 'POST'?");
	expect_wrong(HTTP("{ model: 'a\"b' }"),
		     "t:4:37: invalid model 'a\"b', expected a model's name such as gpt-4o or \"qwen-*\"");
	expect_wrong(HTTP("{ header: 1 }"), "t:4:38: 'header' is a single value, expected a map such as { x-chaos: 1 }");
	expect_wrong(HTTP("{ header: { \"x y\": 1 } }"),
		     "t:4:40: invalid header 'x y', expected a name such as x-chaos");
	expect_wrong(HTTP("{ header: { x: \" 1\" } }"),
		     "t:4:43: value ' 1' of header 'x': spaces at its ends are not sent");
	expect_wrong(DOC("{ ports: 1, side: server, http: { path: /x } }", "{ drop: true }", ""),
		     "t:4:28: 'http' is for the client: its requests are read where they leave; leave 'side' out and name "
		     "the clients");
	expect_wrong(DOC("{ ports: 1, protocol: udp, http: { path: /x } }", "{ drop: true }", ""),
		     "t:4:32: 'http' is for tcp only, HTTP/3 (udp) is encrypted");
	expect_wrong(DOC("{ ports: 1, http: { path: /x } }", "{ drop: 5% }", ""),
		     "t:5:18: with 'http', 'drop' is for requests, not for single packets: write 'drop: true'");
	expect_wrong(DOC("{ ports: 1, http: { path: /x } }", "{ refuse: refused }", ""),
		     "t:4:28: 'http' does not go with 'refuse', which is not about requests; it goes with delay, drop, "
		     "reset, break-after, status, body, hang, error-event, drop-done and garble");
	expect_wrong(DOC("{ ports: 1, http: { path: /x } }", "{ drop: true }", "  per: connection\n"),
		     "t:7:8: 'per: connection' makes no sense with 'http', decided for each request");
	expect_wrong(DOC("{ http: { path: /x } }", "{ drop: true }", ""),
		     "t:4:10: this names no address, port, cgroup, pid, process or user and would hit everything; name "
		     "something, or say 'everything: true'");
	expect_wrong(DOC("{ process: a, http: { path: /x } }", "{ gpu-oom: true }", ""),
		     "t:4:24: 'http' is about connections, and 'gpu-oom' has callers: name processes by cgroup, "
		     "container, pod, unit, pid, process or user");
}

Test(http, too_many_conditions)
{
	struct error err = { 0 };
	struct target *targets;
	struct tables *tables;
	struct rules *rules;
	struct file f;

	begin(&f);
	for (int i = 0; i < 34; i++)
		rule(&f, "ports: 1, http: { path: /%d, method: POST }", i / 2);
	for (int i = 0; i < 15; i++)
		rule(&f, "ports: 1, http: { path: /more%d }", i);
	fclose(f.out);
	rules = parse(f.text);
	targets = targets_of(rules);
	cr_expect_eq(tables_make(rules, targets, false, &tables, &err), -EINVAL);
	cr_expect_str_eq(err.text, "t:196:36: more than 32 different conditions under 'http' in one file");
	targets_free(targets, rules->count);
	rules_free(rules);
	free(f.text);
}

Test(http, long_conditions)
{
	struct error err = { 0 };
	struct target *targets;
	struct tables *tables;
	struct rules *rules;
	struct file f;
	char text[240];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	begin(&f);
	for (int i = 0; i < 5; i++)
		rule(&f, "ports: 1, http: { body-contains: %d%s }", i, text);
	fclose(f.out);
	rules = parse(f.text);
	targets = targets_of(rules);
	cr_expect_eq(tables_make(rules, targets, false, &tables, &err), -EINVAL);
	cr_expect_str_eq(err.text, "t:20:45: the conditions under 'http' of one file are too long, at most some 945 "
				   "characters together");
	targets_free(targets, rules->count);
	rules_free(rules);
	free(f.text);
}

Test(http, in_plain_english)
{
	expect_sentence(DOC("{ ports: 8080, http: { path: \"/v1/*\", method: POST, model: m, header: { X-A: 1 } } }",
			    "{ delay: 8s }", "  percent: 30\n"),
			"a: HTTP requests (POST /v1/*, model m, x-a: 1) from any process to port 8080 anywhere take 8 s "
			"longer, once each; on 30 % of the requests; ends after 1 min.");
	expect_sentence(DOC("{ ports: 8080, http: { body-contains: abc } }", "{ reset: true }", ""),
			"a: connections of HTTP requests (with 'abc' in their body) from any process to port 8080 "
			"anywhere are reset; on all requests; ends after 1 min.");
	expect_sentence(DOC("{ ports: 8080, http: { path: /v1, min-size: 200KiB } }", "{ delay: 20s }", ""),
			"a: HTTP requests (/v1, with a body of 200 KiB or more) from any process to port 8080 anywhere take "
			"20 s longer, once each; on all requests; ends after 1 min.");
}
