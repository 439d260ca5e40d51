// SPDX-License-Identifier: GPL-2.0-only
/* user/rules/units.c and user/base/nearest.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "user/base/names.h"
#include "user/rules/rules.h"

#define SECOND       1000000000ULL
#define UNTOUCHED    0x5555
#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

Test(units, duration)
{
	static const struct {
		const char *text;
		int err;
		uint64_t ns;
	} cases[] = {
		{ "8s", 0, 8 * SECOND },
		{ "500ms", 0, SECOND / 2 },
		{ "1m30s", 0, 90 * SECOND },
		{ "2h", 0, 7200 * SECOND },
		{ "7d", 0, 7 * 86400 * SECOND },
		{ "365d", 0, 365 * 86400 * SECOND },
		{ "1d2h3m4s5ms6us7ns", 0, 93784 * SECOND + 5006007 },
		{ "0s", 0, 0 },
		{ "1h05m", 0, 3900 * SECOND },
		{ "90m", 0, 5400 * SECOND },
		{ "1.5s", 0, 3 * SECOND / 2 },
		{ "0.25h", 0, 900 * SECOND },
		{ "1m1.5s", 0, 61 * SECOND + SECOND / 2 },
		{ "1.000000001s", 0, SECOND + 1 },
		{ "1.50000000000000000s", 0, 3 * SECOND / 2 },
		{ "", -EINVAL, 0 },
		{ "8", -EINVAL, 0 },
		{ "s", -EINVAL, 0 },
		{ "8 s", -EINVAL, 0 },
		{ " 8s", -EINVAL, 0 },
		{ "8s ", -EINVAL, 0 },
		{ "8S", -EINVAL, 0 },
		{ "8sec", -EINVAL, 0 },
		{ "8x", -EINVAL, 0 },
		{ "-8s", -EINVAL, 0 },
		{ "+8s", -EINVAL, 0 },
		{ "30s1m", -EINVAL, 0 },
		{ "1s1s", -EINVAL, 0 },
		{ "1.5m30s", -EINVAL, 0 },
		{ ".5s", -EINVAL, 0 },
		{ "5.s", -EINVAL, 0 },
		{ "1.2.3s", -EINVAL, 0 },
		{ "1e3s", -EINVAL, 0 },
		{ "1.0000000001s", -EINVAL, 0 },
		{ "1.00000000000001s", -EINVAL, 0 },
		{ "0.5ns", -EINVAL, 0 },
		{ "366d", -ERANGE, 0 },
		{ "365d1ns", -ERANGE, 0 },
		{ "99999999999999999999s", -ERANGE, 0 },
		{ "18446744073709551615ns", -ERANGE, 0 },
		{ "18446744073709551616ns", -ERANGE, 0 },
		{ "213504d", -ERANGE, 0 }, /* wraps round 64 bits */
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		uint64_t ns = UNTOUCHED;
		int err = parse_duration(cases[i].text, &ns);

		cr_expect_eq(err, cases[i].err, "'%s': %d", cases[i].text, err);
		cr_expect_eq(ns, cases[i].err ? UNTOUCHED : cases[i].ns, "'%s': %llu", cases[i].text,
			     (unsigned long long)ns);
	}
}

Test(units, percent)
{
	static const struct {
		const char *text;
		int err;
		uint32_t ppm;
	} cases[] = {
		{ "30", 0, 300000 },
		{ "30%", 0, 300000 },
		{ "30 %", 0, 300000 },
		{ "0", 0, 0 },
		{ "100", 0, 1000000 },
		{ "0.5%", 0, 5000 },
		{ "0.0001", 0, 1 },
		{ "99.9999%", 0, 999999 },
		{ "100.0", 0, 1000000 },
		{ "", -EINVAL, 0 },
		{ "%", -EINVAL, 0 },
		{ "30 ", -EINVAL, 0 },
		{ "30%%", -EINVAL, 0 },
		{ "030", -EINVAL, 0 },
		{ ".5", -EINVAL, 0 },
		{ "5.", -EINVAL, 0 },
		{ "0.00001", -EINVAL, 0 },
		{ "1e1", -EINVAL, 0 },
		{ "0x10", -EINVAL, 0 },
		{ "ten", -EINVAL, 0 },
		{ "101", -ERANGE, 0 },
		{ "100.0001", -ERANGE, 0 },
		{ "-1", -ERANGE, 0 },
		{ "-", -EINVAL, 0 },
		{ "99999999999999999999999", -ERANGE, 0 },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		uint32_t ppm = UNTOUCHED;
		int err = parse_percent(cases[i].text, &ppm);

		cr_expect_eq(err, cases[i].err, "'%s': %d", cases[i].text, err);
		cr_expect_eq(ppm, cases[i].err ? UNTOUCHED : cases[i].ppm, "'%s': %u", cases[i].text, ppm);
	}
}

Test(units, size)
{
	static const struct {
		const char *text;
		int err;
		uint64_t bytes;
	} cases[] = {
		{ "4096", 0, 4096 },
		{ "0", 0, 0 },
		{ "12B", 0, 12 },
		{ "4KiB", 0, 4096 },
		{ "1MB", 0, 1000000 },
		{ "1kB", 0, 1000 },
		{ "1KB", 0, 1000 },
		{ "2MiB", 0, 2097152 },
		{ "3GB", 0, 3000000000ULL },
		{ "1GiB", 0, 1073741824 },
		{ "1TB", 0, 1000000000000ULL },
		{ "1TiB", 0, 1099511627776ULL },
		{ "18446744073709551615", 0, UINT64_MAX },
		{ "", -EINVAL, 0 },
		{ "B", -EINVAL, 0 },
		{ "4k", -EINVAL, 0 },
		{ "4 KiB", -EINVAL, 0 },
		{ "4KiB ", -EINVAL, 0 },
		{ "1.5MB", -EINVAL, 0 },
		{ "-1", -EINVAL, 0 },
		{ "18446744073709551616", -ERANGE, 0 },
		{ "16777216TiB", -ERANGE, 0 },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		uint64_t bytes = UNTOUCHED;
		int err = parse_size(cases[i].text, &bytes);

		cr_expect_eq(err, cases[i].err, "'%s': %d", cases[i].text, err);
		cr_expect_eq(bytes, cases[i].err ? UNTOUCHED : cases[i].bytes, "'%s': %llu", cases[i].text,
			     (unsigned long long)bytes);
	}
}

Test(units, rate)
{
	static const struct {
		const char *text;
		int code;
		uint64_t bits;
	} cases[] = {
		{ "1mbit", 0, 1000000 },       { "500kbit", 0, 500000 },  { "1.5mbit", 0, 1500000 }, { "64kbps", 0, 512000 },
		{ "8bit", 0, 8 },	       { "1bps", 0, 8 },	  { "10gbit", 0, 10000000000 }, { "1kibit", 0, 1024 },
		{ "1mibps", 0, 8 << 20 },      { "0.5kbps", 0, 4000 },	  { "1", -EINVAL, 0 },	     { "mbit", -EINVAL, 0 },
		{ "1 mbit", -EINVAL, 0 },      { "1Mbit", -EINVAL, 0 },	  { "1mb", -EINVAL, 0 },     { "-1mbit", -EINVAL, 0 },
		{ "1.5.2mbit", -EINVAL, 0 },   { "1mbit5", -EINVAL, 0 },  { "", -EINVAL, 0 },	     { "1.0001kbit", -EINVAL, 0 },
		{ "99999999999999999999tbit", -ERANGE, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t bits = 0;

		cr_expect_eq(parse_rate(cases[i].text, &bits), cases[i].code, "%s", cases[i].text);
		cr_expect_eq(bits, cases[i].bits, "%s: %lu", cases[i].text, bits);
	}
}

Test(units, number)
{
	static const struct {
		const char *text;
		int err;
		uint64_t number;
	} cases[] = {
		{ "0", 0, 0 },
		{ "443", 0, 443 },
		{ "18446744073709551615", 0, UINT64_MAX },
		{ "", -EINVAL, 0 },
		{ "00", -EINVAL, 0 },
		{ "0443", -EINVAL, 0 },
		{ "0x1bb", -EINVAL, 0 },
		{ "0o7", -EINVAL, 0 },
		{ "+1", -EINVAL, 0 },
		{ "-1", -EINVAL, 0 },
		{ "1_000", -EINVAL, 0 },
		{ "1.0", -EINVAL, 0 },
		{ "1e3", -EINVAL, 0 },
		{ "1 ", -EINVAL, 0 },
		{ " 1", -EINVAL, 0 },
		{ "18446744073709551616", -ERANGE, 0 },
		{ "184467440737095516150", -ERANGE, 0 },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		uint64_t number = UNTOUCHED;
		int err = parse_number(cases[i].text, &number);

		cr_expect_eq(err, cases[i].err, "'%s': %d", cases[i].text, err);
		cr_expect_eq(number, cases[i].err ? UNTOUCHED : cases[i].number, "'%s': %llu", cases[i].text,
			     (unsigned long long)number);
	}
}

Test(nearest, word)
{
	static const char *const words[] = { "delay",    "drop",     "refuse",      "reset", "percent", "pid",
					     "max-hits", "max-rate", "start-after", "ports", NULL };
	static const struct {
		const char *word, *nearest;
	} cases[] = {
		{ "dealy", "delay" },
		{ "delya", "delay" },
		{ "dlay", "delay" },
		{ "delaay", "delay" },
		{ "selay", "delay" },
		{ "DELAY", "delay" },
		{ "Drop", "drop" },
		{ "dorp", "drop" },
		{ "refused", "refuse" },
		{ "resett", "reset" },
		{ "precent", "percent" },
		{ "pdi", "pid" },
		{ "pad", "pid" },
		{ "max_hits", "max-hits" },
		{ "maxrate", "max-rate" },
		{ "startafter", "start-after" },
		{ "port", "ports" },
		{ "cpu", NULL },
		{ "gpu", NULL },
		{ "", NULL },
		{ "p", NULL },
		{ "latency", NULL },
		{ "xyzzy", NULL },
		{ "start-after-the-load", NULL },
		{ "a-word-that-is-far-longer-than-any-key-of-the-language-and-does-not-fit", NULL },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		const char *nearest = nearest_word(cases[i].word, words);

		if (cases[i].nearest)
			cr_expect(nearest && strcmp(nearest, cases[i].nearest) == 0, "'%s': '%s'", cases[i].word,
				  nearest ? nearest : "nothing");
		else
			cr_expect_null(nearest, "'%s': '%s'", cases[i].word, nearest);
	}
}

Test(nearest, nothing_to_choose_from)
{
	static const char *const none[] = { NULL };

	cr_expect_null(nearest_word("delay", none));
}

/* Every word of the language is nearest to itself, so a suggestion never leads to another one. */
Test(nearest, itself)
{
	for (size_t i = 0; fault_names[i]; i++)
		cr_expect_str_eq(nearest_word(fault_names[i], fault_names), fault_names[i]);
	for (size_t i = 0; skip_names[i]; i++)
		cr_expect_str_eq(nearest_word(skip_names[i], skip_names), skip_names[i]);
}
