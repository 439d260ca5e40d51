// SPDX-License-Identifier: GPL-2.0-only
/*
 * Any bytes as what a connection sends, in any segments, and as the head of an answer to it: the reader of bpf/http.h stays
 * within its bounds, and finds the same whatever the segments are. The first byte says where they are cut.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/require.h"
#include "tests/http_reader.h"
#include "user/rules/rules.h"

static const char rules_text[] =
	"version: 1\ndefaults: { duration: 1m }\nrules:\n"
	"- { name: a, fault: { drop: true }, match: { ports: 1, http: { path: \"/v1/*\", method: POST } } }\n"
	"- { name: b, fault: { drop: true }, match: { ports: 1, http: { model: \"qwen-*\", header: { x-a: \"1*\" } } } }\n"
	"- { name: c, fault: { drop: true }, match: { ports: 1, http: { body-contains: aab, min-size: 5KB } } }\n";

static struct tables *tables_of_rules(void)
{
	static struct tables *tables;
	static struct target targets[3];
	struct error err = { 0 };
	struct rules *rules;

	if (tables)
		return tables;
	REQUIRE(rules_parse("r", rules_text, strlen(rules_text), NULL, &rules, &err) == 0);
	REQUIRE(tables_make(rules, targets, false, &tables, &err) == 0);
	rules_free(rules);
	return tables;
}

static void require_reader(const struct chaos_http_reader *r)
{
	REQUIRE(r->phase <= HTTP_FOREIGN || (r->phase == HTTP_ANSWERED && r->answer));
	REQUIRE(r->body_read <= CHAOS_HTTP_BODY_READ);
	REQUIRE(r->left <= 16 * HTTP_MAX_LENGTH);
	REQUIRE(!r->ready || r->decided);
}

/* Nothing behind the head is read. */
static void read_answer(const struct tables *t, const uint8_t *data, size_t size, size_t step)
{
	struct chaos_http_reader whole = { 0 }, cut = { 0 };

	http_read_answer(&whole);
	http_read_answer(&cut);
	http_segment(&whole, t, data + 1, size - 1);
	require_reader(&whole);
	REQUIRE(whole.phase != HTTP_ANSWERED || memmem(data + 1, size - 1, "\n", 1));
	for (size_t at = 1; at < size; at += step)
		http_segment(&cut, t, data + at, size - at < step ? size - at : step);
	REQUIRE(whole.phase == cut.phase && whole.has_length == cut.has_length && whole.chunked == cut.chunked);
	REQUIRE(whole.phase == HTTP_FOREIGN || whole.left == cut.left);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct tables *t = tables_of_rules();
	struct chaos_http_reader whole = { 0 }, cut = { 0 };
	size_t step, at = 1;

	if (!size)
		return 0;
	step = 1 + data[0] % 64;
	http_segment(&whole, t, data + 1, size - 1);
	require_reader(&whole);
	for (; at < size; at += step) {
		http_segment(&cut, t, data + at, size - at < step ? size - at : step);
		require_reader(&cut);
	}
	REQUIRE(whole.phase == cut.phase && whole.begun == cut.begun && whole.pipelined == cut.pipelined);
	REQUIRE(whole.phase == HTTP_FOREIGN || (whole.left == cut.left && whole.ready == cut.ready));
	REQUIRE(http_conditions(&whole, t->http) == http_conditions(&cut, t->http));
	read_answer(t, data, size, step);
	return 0;
}
