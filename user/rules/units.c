// SPDX-License-Identifier: GPL-2.0-only
/*
 * Durations, percentages, sizes and whole numbers as people write them. Everything is decimal, nothing overflows, and
 * what is not understood is refused rather than guessed.
 */
#include <errno.h>
#include <string.h>

#include "user/rules/rules.h"

#define MAX_PARSED_DURATION_NS (365ULL * 24 * 3600 * 1000000000ULL)

struct unit {
	const char *name;
	uint64_t factor;
};

/* From long to short: a duration names its units in this order. */
static const struct unit duration_units[] = {
	{ "d", 24 * 3600 * 1000000000ULL },
	{ "h", 3600 * 1000000000ULL },
	{ "m", 60 * 1000000000ULL },
	{ "s", 1000000000ULL },
	{ "ms", 1000000 },
	{ "us", 1000 },
	{ "ns", 1 },
};

static const struct unit size_units[] = {
	{ "", 1 },
	{ "B", 1 },
	{ "kB", 1000 },
	{ "KB", 1000 },
	{ "MB", 1000 * 1000 },
	{ "GB", 1000 * 1000 * 1000 },
	{ "TB", 1000ULL * 1000 * 1000 * 1000 },
	{ "KiB", 1ULL << 10 },
	{ "MiB", 1ULL << 20 },
	{ "GiB", 1ULL << 30 },
	{ "TiB", 1ULL << 40 },
};

/* As tc(8) writes them: "bit" is bits, "bps" is bytes a second. */
static const struct unit rate_units[] = {
	{ "bit", 1 },
	{ "kbit", 1000 },
	{ "mbit", 1000 * 1000 },
	{ "gbit", 1000 * 1000 * 1000 },
	{ "tbit", 1000ULL * 1000 * 1000 * 1000 },
	{ "kibit", 1ULL << 10 },
	{ "mibit", 1ULL << 20 },
	{ "gibit", 1ULL << 30 },
	{ "bps", 8 },
	{ "kbps", 8 * 1000 },
	{ "mbps", 8 * 1000 * 1000 },
	{ "gbps", 8ULL * 1000 * 1000 * 1000 },
	{ "kibps", 8ULL << 10 },
	{ "mibps", 8ULL << 20 },
	{ "gibps", 8ULL << 30 },
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Reads digits, moves *text behind them. A number too large sticks at UINT64_MAX and returns -ERANGE. */
static int read_digits(const char **text, uint64_t *number)
{
	const char *at = *text;
	int err = 0;

	if (!is_digit(*at))
		return -EINVAL;
	*number = 0;
	for (; is_digit(*at); at++) {
		if (__builtin_mul_overflow(*number, 10, number) || __builtin_add_overflow(*number, *at - '0', number))
			err = -ERANGE;
		if (err)
			*number = UINT64_MAX;
	}
	*text = at;
	return err;
}

/* Reads ".5" as a part of `factor`; nothing there is fine. Digits that `factor` cannot hold are -EINVAL. */
static int read_fraction(const char **text, uint64_t factor, uint64_t *value)
{
	const char *at = *text;

	*value = 0;
	if (*at != '.')
		return 0;
	if (!is_digit(*++at))
		return -EINVAL;
	for (; is_digit(*at); at++) {
		if (*at != '0' && (factor == 0 || factor % 10))
			return -EINVAL;
		factor /= 10;
		*value += factor * (uint64_t)(*at - '0');
	}
	*text = at;
	return 0;
}

int parse_number(const char *text, uint64_t *number)
{
	uint64_t value;
	int err;

	if (text[0] == '0' && text[1] != '\0')
		return -EINVAL; /* 010 is eight to some programs */
	err = read_digits(&text, &value);
	if (err == -EINVAL || *text != '\0')
		return -EINVAL;
	if (err)
		return err;
	*number = value;
	return 0;
}

/* Index of the unit that stands at *text, or -1; moves *text behind it. */
static int read_unit(const char **text, const struct unit *units, size_t count)
{
	size_t len = 0;

	while (is_letter((*text)[len]))
		len++;
	for (size_t i = 0; i < count; i++) {
		if (strlen(units[i].name) == len && memcmp(*text, units[i].name, len) == 0) {
			*text += len;
			return (int)i;
		}
	}
	return -1;
}

/* Where the unit of a number such as "1.5" stands, to know its factor before the digits are weighed. */
static const char *behind_number(const char *text)
{
	while (is_digit(*text) || *text == '.')
		text++;
	return text;
}

int parse_duration(const char *text, uint64_t *ns)
{
	uint64_t total = 0, whole, fraction = 0;
	int last = -1, unit, err, range = 0;
	const char *at;

	do {
		at = behind_number(text);
		unit = read_unit(&at, duration_units, COUNT(duration_units));
		if (unit <= last)
			return -EINVAL;
		last = unit;
		err = read_digits(&text, &whole);
		if (err == -EINVAL || read_fraction(&text, duration_units[unit].factor, &fraction))
			return -EINVAL;
		if (__builtin_mul_overflow(whole, duration_units[unit].factor, &whole) ||
		    __builtin_add_overflow(total, whole, &total) || __builtin_add_overflow(total, fraction, &total) ||
		    total > MAX_PARSED_DURATION_NS)
			range = -ERANGE;
		if (behind_number(text) != text || (fraction && *at != '\0'))
			return -EINVAL; /* two points, or a fraction that is not the last part */
		text = at;
	} while (*text != '\0');
	if (!range)
		*ns = total;
	return range;
}

int parse_percent(const char *text, uint32_t *ppm)
{
	const uint64_t one_percent = 10000;
	bool negative = *text == '-';
	uint64_t whole, fraction;
	int err;

	if (negative)
		text++;
	if (text[0] == '0' && is_digit(text[1]))
		return -EINVAL;
	err = read_digits(&text, &whole);
	if (err == -EINVAL || read_fraction(&text, one_percent, &fraction))
		return -EINVAL;
	if (*text == ' ' && text[1] == '%')
		text++;
	if (*text == '%')
		text++;
	if (*text != '\0')
		return -EINVAL;
	if (negative || err || whole > 100 || (whole == 100 && fraction))
		return -ERANGE;
	*ppm = (uint32_t)(whole * one_percent + fraction);
	return 0;
}

int parse_size(const char *text, uint64_t *bytes)
{
	uint64_t value;
	int unit, err;

	err = read_digits(&text, &value);
	if (err == -EINVAL)
		return err;
	unit = read_unit(&text, size_units, COUNT(size_units));
	if (unit < 0 || *text != '\0')
		return -EINVAL;
	if (err || __builtin_mul_overflow(value, size_units[unit].factor, &value))
		return -ERANGE;
	*bytes = value;
	return 0;
}

int parse_rate(const char *text, uint64_t *bits)
{
	const char *at = behind_number(text);
	uint64_t value, fraction;
	int unit, err;

	unit = read_unit(&at, rate_units, COUNT(rate_units));
	if (unit < 0 || *at != '\0')
		return -EINVAL;
	err = read_digits(&text, &value);
	if (err == -EINVAL || read_fraction(&text, rate_units[unit].factor, &fraction) || behind_number(text) != text)
		return -EINVAL;
	if (err || __builtin_mul_overflow(value, rate_units[unit].factor, &value) ||
	    __builtin_add_overflow(value, fraction, &value))
		return -ERANGE;
	*bits = value;
	return 0;
}
