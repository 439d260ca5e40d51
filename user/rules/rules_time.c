// SPDX-License-Identifier: GPL-2.0-only
/* When, and how often: `between`, `days` and `max-rate`. */
#include <string.h>

#include "user/rules/rules_parse.h"

#define MINUTES_A_DAY  1440
#define MAX_RATE_COUNT 1000000

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Reads "02:00" or "2:00", moves *text behind it; -1 when it is no time of day. 24:00 is one, for an end. */
static int read_time(const char **text)
{
	const char *at = *text;
	int hour, minute;

	if (!is_digit(*at))
		return -1;
	hour = *at++ - '0';
	if (is_digit(*at))
		hour = hour * 10 + *at++ - '0';
	if (at[0] != ':' || !is_digit(at[1]) || !is_digit(at[2]) || is_digit(at[3]))
		return -1;
	minute = (at[1] - '0') * 10 + at[2] - '0';
	*text = at + 3;
	if (minute > 59 || hour > 24 || (hour == 24 && minute))
		return -1;
	return hour * 60 + minute;
}

static void skip_spaces(const char **text)
{
	while (**text == ' ')
		++*text;
}

int key_between(struct parser *p, const struct node *node, void *target)
{
	static const char expected[] = "local times such as \"02:00-04:00\"";
	struct window *window = target;
	int first, last, err;
	const char *text, *at;

	err = value_text(p, node, expected, &text);
	if (err)
		return err;
	at = text;
	first = read_time(&at);
	skip_spaces(&at);
	if (first < 0 || first == MINUTES_A_DAY || *at++ != '-')
		goto invalid;
	skip_spaces(&at);
	last = read_time(&at);
	if (last < 0 || *at != '\0')
		goto invalid;
	if (first == last)
		return fail(p, node->mark, "between '%s' is empty; leave it out for the whole day", show(p, text));
	if (last == 0)
		last = MINUTES_A_DAY; /* "22:00-00:00" ends with the day */
	window->first_minute = (unsigned int)first;
	window->last_minute = (unsigned int)last;
	window->limited = true;
	window->mark = node->mark;
	return 0;
invalid:
	return fail(p, node->mark, "invalid between '%s', expected %s", show(p, text), expected);
}

/* In the order of tm_wday. */
static const char *const day_names[] = { "sun", "mon", "tue", "wed", "thu", "fri", "sat", NULL };

static int add_day(struct parser *p, const struct node *node, void *target)
{
	unsigned int *days = target;
	const char *text;
	int err;

	err = value_text(p, node, "a day such as mon", &text);
	if (err)
		return err;
	for (unsigned int day = 0; day_names[day]; day++) {
		if (strcmp(day_names[day], text) == 0) {
			*days |= 1U << day;
			return 0;
		}
		if (strncasecmp(day_names[day], text, 3) == 0 && !strchr(text, '-'))
			return fail(p, node->mark, "unknown day '%s', did you mean '%s'?", show(p, text),
				    day_names[day]);
	}
	return fail(p, node->mark, "unknown day '%s', expected mon, tue, wed, thu, fri, sat or sun, or a list of them",
		    show(p, text));
}

int key_days(struct parser *p, const struct node *node, void *target)
{
	struct window *window = target;

	window->days = 0;
	window->limited = true;
	if (window->mark.line == 0)
		window->mark = node->mark;
	return value_each(p, node, add_day, &window->days);
}

int value_per_time(struct parser *p, const struct node *node, uint64_t *count, uint64_t *window_ns)
{
	static const char expected[] = "a number for each second, minute or hour, such as 5/s, 10/m or 100/h";
	const uint64_t second = 1000000000ULL;
	const char *text, *slash;
	char number[16] = "";
	size_t len;
	int err;

	err = value_text(p, node, expected, &text);
	if (err)
		return err;
	slash = strchr(text, '/');
	len = slash ? (size_t)(slash - text) : 0;
	if (len < sizeof(number))
		memcpy(number, text, len);
	if (parse_number(number, count) || strlen(slash) != 2)
		goto invalid;
	if (slash[1] == 's')
		*window_ns = second;
	else if (slash[1] == 'm')
		*window_ns = 60 * second;
	else if (slash[1] == 'h')
		*window_ns = 3600 * second;
	else
		goto invalid;
	if (*count < 1 || *count > MAX_RATE_COUNT)
		return fail(p, node->mark, "%s '%s' is out of range, expected 1 to %d", node->label, show(p, text),
			    MAX_RATE_COUNT);
	return 0;
invalid:
	return fail(p, node->mark, "invalid %s '%s', expected %s", node->label, show(p, text), expected);
}

int key_max_rate(struct parser *p, const struct node *node, void *target)
{
	struct rule *rule = target;
	uint64_t count = 0;
	int err;

	err = value_per_time(p, node, &count, &rule->rate_window_ns);
	rule->rate_count = (uint32_t)count;
	return err;
}
