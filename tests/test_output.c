// SPDX-License-Identifier: GPL-2.0-only
/* user/base/output.c: text that is safe to print, JSON that every parser takes, tables that say the same. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/output.h"

static char *text;
static size_t len;

static FILE *begin(void)
{
	return open_memstream(&text, &len);
}

static void expect(FILE *out, const char *expected)
{
	fclose(out);
	cr_assert_str_eq(text, expected);
	free(text);
	text = NULL;
}

Test(output, clean_text_is_printable)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "", "" },
		{ "gunicorn", "gunicorn" },
		{ "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x94\xa5", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x94\xa5" },
		{ "a\033[31mb\n", "a\\x1b[31mb\\x0a" },
		{ "\x7f\xc2\x9b", "\\x7f\\x9b" },
		{ "\xe2\x80\xae", "\\u202e" },
		{ "a\xff"
		  "b\xc3",
		  "a\xef\xbf\xbd"
		  "b\xef\xbf\xbd" },
		{ "\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd" },                 /* longer than needed */
		{ "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" }, /* half of a surrogate pair */
		{ "\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char out[64];

		text_clean(out, sizeof(out), cases[i].in);
		cr_expect_str_eq(out, cases[i].out, "case %zu: '%s'", i, out);
	}
}

Test(output, clean_text_is_cut_at_a_character)
{
	char out[4];

	text_clean(out, sizeof(out), "a\xe2\x82\xac");
	cr_expect_str_eq(out, "a");
	text_clean(out, sizeof(out), "abcdef");
	cr_expect_str_eq(out, "abc");
}

Test(output, seconds)
{
	static const struct {
		double seconds;
		const char *out;
	} cases[] = {
		{ 0, "-" },     { -1, "-" },        { NAN, "-" },          { 0.25, "0.25s" },
		{ 5, "5s" },    { 1.5, "1.5s" },    { 59.6, "1m" },        { 90, "1m30s" },
		{ 3600, "1h" }, { 7261, "2h1m1s" }, { 90061, "1d1h1m1s" }, { 1e300, "11574074d1h46m40s" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char out[64];

		seconds_text(out, sizeof(out), cases[i].seconds);
		cr_expect_str_eq(out, cases[i].out, "%g: '%s'", cases[i].seconds, out);
	}
}

Test(output, json_nests)
{
	FILE *out = begin();
	struct json json;

	json_begin(&json, out, false);
	json_open_object(&json, NULL);
	json_open_array(&json, "empty");
	json_close_array(&json);
	json_open_array(&json, "list");
	json_count(&json, NULL, UINT64_MAX);
	json_null(&json, NULL);
	json_close_array(&json);
	json_key(&json, "inner");
	json_open_object(&json, NULL);
	json_bool(&json, "yes", true);
	json_close_object(&json);
	json_number(&json, "n", 1.25);
	json_close_object(&json);
	json_end(&json);
	expect(out, "{\n  \"empty\": [],\n  \"list\": [\n    18446744073709551615,\n    null\n  ],\n"
		    "  \"inner\": {\n    \"yes\": true\n  },\n  \"n\": 1.25\n}\n");
}

Test(output, json_on_one_line)
{
	FILE *out = begin();
	struct json json;

	json_begin(&json, out, true);
	json_open_object(&json, NULL);
	json_text(&json, "a", "b");
	json_open_array(&json, "c");
	json_count(&json, NULL, 1);
	json_count(&json, NULL, 2);
	json_close_array(&json);
	json_close_object(&json);
	json_end(&json);
	expect(out, "{\"a\": \"b\", \"c\": [1, 2]}\n");
}

static void expect_text(const char *in, const char *expected)
{
	FILE *out = begin();
	struct json json;

	json_begin(&json, out, true);
	json_text(&json, NULL, in);
	expect(out, expected);
}

Test(output, json_text_is_escaped_and_valid_utf8)
{
	expect_text("a\"b\\c/", "\"a\\\"b\\\\c/\"");
	expect_text("a\nb\tc\001\x7f", "\"a\\nb\\u0009c\\u0001\\u007f\"");
	expect_text("\xe2\x82\xac\xf0\x9f\x94\xa5", "\"\xe2\x82\xac\xf0\x9f\x94\xa5\"");
	expect_text("\xe2\x80\xa8", "\"\\u2028\"");
	expect_text("\xff\xc3", "\"\xef\xbf\xbd\xef\xbf\xbd\"");
}

static void expect_number(double value, const char *expected)
{
	FILE *out = begin();
	struct json json;

	json_begin(&json, out, true);
	json_number(&json, NULL, value);
	expect(out, expected);
}

Test(output, json_numbers)
{
	expect_number(0, "0");
	expect_number(-0.0001, "0");
	expect_number(270, "270");
	expect_number(1000, "1000");
	expect_number(0.12345, "0.123");
	expect_number(NAN, "null");
	expect_number(INFINITY, "null");
}

static const char *const words[] = { "percent", "max-hits", NULL };

static const struct column columns[] = {
	{ "RULE", "name", CELL_TEXT, false },         { "HITS", "hits", CELL_COUNT, false },
	{ "ENDS", "ends_in_s", CELL_SECONDS, false }, { "SKIPPED", "skipped", CELL_COUNTS, false },
	{ NULL, "unloaded", CELL_BOOL, false },       { "ONLY HERE", NULL, CELL_TEXT, false },
};

static struct table *example(void)
{
	struct table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]));

	table_row(table);
	table_text(table, 0, "slow\033\xff");
	table_count(table, 1, 1234);
	table_seconds(table, 2, 270);
	table_counts(table, 3, words, (const uint64_t[]){ 7, 1 });
	table_bool(table, 4, true);
	table_text(table, 5, "x");
	table_row(table);
	table_text(table, 0, "b");
	table_count(table, 1, 0);
	table_counts(table, 3, words, (const uint64_t[]){ 0, 0 });
	return table;
}

Test(output, table_for_people)
{
	struct table *table = example();
	char *out = table_string(table, NULL);

	cr_expect(strstr(out, "RULE"));
	cr_expect(strstr(out, "slow\\x1b\\xff "), "%s", out);
	cr_expect(strstr(out, " 1234 4m30s percent 7, max-hits 1 x\n"), "%s", out);
	cr_expect(strstr(out, "    0 -     -                     -\n"), "%s", out);
	cr_expect_null(strstr(out, " \n"), "a line ends in blanks");
	cr_expect_eq(out[strlen(out) - 1], '\n');
	free(out);
	table_free(table);
}

Test(output, table_as_json)
{
	struct table *table = example();
	FILE *out = begin();
	struct json json;

	json_begin(&json, out, true);
	table_json(table, &json, NULL);
	expect(out, "[{\"name\": \"slow\\u001b\xef\xbf\xbd\", \"hits\": 1234, \"ends_in_s\": 270, "
		    "\"skipped\": {\"percent\": 7, \"max-hits\": 1}, \"unloaded\": true}, "
		    "{\"name\": \"b\", \"hits\": 0, \"ends_in_s\": null, "
		    "\"skipped\": {\"percent\": 0, \"max-hits\": 0}, \"unloaded\": null}]");
	table_free(table);
}

Test(output, table_without_rows)
{
	struct table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]));
	char *out = table_string(table, NULL);

	cr_expect_str_eq(out, "");
	free(out);
	table_free(table);
}

Test(output, every_byte_string_gives_valid_utf8)
{
	unsigned int seed = 42;

	for (int round = 0; round < 20000; round++) {
		char in[13], out[128];
		uint32_t c;
		size_t step;

		for (size_t i = 0; i < sizeof(in) - 1; i++)
			in[i] = (char)(rand_r(&seed) >> 8);
		in[sizeof(in) - 1] = '\0';
		text_clean(out, sizeof(out), in);
		for (size_t i = 0; out[i]; i += step) {
			step = utf8_read(out + i, &c);
			cr_assert(step > 0, "round %d: byte %zu", round, i);
			cr_assert(c >= 0x20 && c != 0x7f, "round %d: control character %x", round, c);
		}
	}
}
