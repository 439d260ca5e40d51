// SPDX-License-Identifier: GPL-2.0-only
/*
 * user/tables/schedule.c: which rules are in force when. Moments and time zones are fixed (the zones as rules of their own, so
 * that no zone file is needed); at random, the intervals are compared with the rules and the local clock.
 *
 * Random tests name their seed when they fail; CHAOSBPF_SEED=N repeats one.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "user/rules/rules.h"
#include "user/tables/schedule.h"

#define SECOND ((uint64_t)1000000000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

#define BERLIN "CET-1CEST,M3.5.0,M10.5.0/3"

/* ---- a schedule of a text at a moment ---- */

struct made {
	struct rules *rules;
	struct schedule schedule;
	struct instant now;
	uint64_t end; /* the last end of a rule */
};

static void set_zone(const char *zone)
{
	setenv("TZ", zone, 1);
	tzset();
}

/* "2024-06-12 14:00:00" of the zone that is set; the machine has been up for 1,000 s then. */
static struct instant moment(const char *local)
{
	struct instant now = { .boot_ns = 1000 * SECOND };
	struct tm tm = { .tm_isdst = -1 };

	cr_assert_not_null(strptime(local, "%Y-%m-%d %H:%M:%S", &tm), "%s", local);
	tm.tm_isdst = -1;
	now.wall.tv_sec = mktime(&tm);
	return now;
}

static struct rules *parse(const char *source)
{
	struct error err = { 0 };
	struct rules *rules;

	cr_assert_eq(rules_parse("t", source, strlen(source), NULL, &rules, &err), 0, "%s\n%s", err.text, source);
	return rules;
}

static struct made make(const struct instant *now, const char *source)
{
	struct made made = { .rules = parse(source), .now = *now };
	struct error err = { 0 };

	cr_assert_eq(schedule_make(made.rules, now, &made.schedule, &err), 0, "%s", err.text);
	return made;
}

static void unmake(struct made *made)
{
	schedule_free(&made->schedule);
	rules_free(made->rules);
}

/* The rules in force, as the kernel finds them: the first interval that ends later. */
static struct chaos_vector active_at(const struct schedule *s, uint64_t boot_ns)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->intervals[i].until_ns > boot_ns)
			return s->intervals[i].active;
	return (struct chaos_vector){ 0 };
}

static bool is_active(const struct made *made, size_t rule, uint64_t boot_ns)
{
	return active_at(&made->schedule, boot_ns).word[rule / 64] >> rule % 64 & 1;
}

static void expect_sound(const struct schedule *s)
{
	cr_assert(s->count >= 1 && s->count <= CHAOS_MAX_INTERVALS);
	for (size_t i = 1; i < s->count; i++)
		cr_assert_lt(s->intervals[i - 1].until_ns, s->intervals[i].until_ns, "interval %zu", i);
	cr_assert_eq(s->end_ns, s->intervals[s->count - 1].until_ns, "the last interval ends with the last rule");
}

/* One rule and the spans in which it is in force, in seconds from the moment; ends with { 0, 0 }. */
struct expected {
	double from, to;
};

static void expect_spans(const char *now, const char *times, const struct expected *spans)
{
	struct instant at = moment(now);
	struct made made;
	char source[512];

	snprintf(source, sizeof(source), "version: 1\nrules:\n- name: a\n  match: { ports: 1 }\n  fault: { drop: true }\n%s", times);
	made = make(&at, source);
	expect_sound(&made.schedule);
	for (; spans->to; spans++) {
		uint64_t from = at.boot_ns + spans->from * SECOND, to = at.boot_ns + spans->to * SECOND;

		if (from > at.boot_ns)
			cr_expect_not(is_active(&made, 0, from - 1), "%s, %s: 1 ns before %g s", now, times, spans->from);
		cr_expect(is_active(&made, 0, from), "%s, %s: at %g s", now, times, spans->from);
		cr_expect(is_active(&made, 0, (from + to) / 2), "%s, %s: within %g to %g s", now, times, spans->from, spans->to);
		cr_expect(is_active(&made, 0, to - 1), "%s, %s: 1 ns before %g s", now, times, spans->to);
		cr_expect_not(is_active(&made, 0, to), "%s, %s: at %g s", now, times, spans->to);
		if (!spans[1].to)
			cr_expect_eq(made.schedule.end_ns, to, "%s, %s: ends at %g s", now, times,
				     ((double)made.schedule.end_ns - at.boot_ns) / SECOND);
		else
			cr_expect_not(is_active(&made, 0, (to + at.boot_ns + (uint64_t)(spans[1].from * SECOND)) / 2));
	}
	unmake(&made);
}

#define SPANS(...) ((const struct expected[]){ __VA_ARGS__, { 0, 0 } })
#define H 3600.0

/* ---- one rule ---- */

Test(schedule, duration_and_start_after)
{
	set_zone("UTC0");
	expect_spans("2024-06-12 14:00:00", "  duration: 5m\n", SPANS({ 0, 300 }));
	expect_spans("2024-06-12 14:00:00", "  start-after: 10s\n  duration: 5m\n", SPANS({ 10, 310 }));
	expect_spans("2024-06-12 14:00:00", "  start-after: 1500ms\n  duration: 500ms\n", SPANS({ 1.5, 2 }));
	expect_spans("2024-06-12 23:59:59", "  duration: 7d\n", SPANS({ 0, 7 * 24 * H }));
}

Test(schedule, a_window_today_tomorrow_and_now)
{
	set_zone("UTC0");
	expect_spans("2024-06-12 14:00:00", "  duration: 12h\n  between: \"15:30-16:00\"\n", SPANS({ 1.5 * H, 2 * H }));
	expect_spans("2024-06-12 14:00:00", "  duration: 24h\n  between: \"02:00-04:00\"\n", SPANS({ 12 * H, 14 * H }));
	expect_spans("2024-06-12 03:00:00", "  duration: 12h\n  between: \"02:00-04:00\"\n", SPANS({ 0, 1 * H }));
	expect_spans("2024-06-12 02:00:00", "  duration: 12h\n  between: \"02:00-04:00\"\n", SPANS({ 0, 2 * H }));
	expect_spans("2024-06-12 04:00:00", "  duration: 24h\n  between: \"02:00-04:00\"\n", SPANS({ 22 * H, 24 * H }));
	expect_spans("2024-06-12 03:00:00", "  duration: 48h\n  between: \"02:00-04:00\"\n",
		     SPANS({ 0, 1 * H }, { 23 * H, 25 * H }, { 47 * H, 48 * H }));
	expect_spans("2024-06-12 14:00:00", "  duration: 90m\n  between: \"15:00-23:00\"\n", SPANS({ 1 * H, 1.5 * H }));
	expect_spans("2024-06-12 14:00:00", "  start-after: 90m\n  duration: 1h\n  between: \"15:00-16:00\"\n",
		     SPANS({ 1.5 * H, 2 * H }));
	expect_spans("2024-06-12 14:00:00", "  duration: 10h\n  between: \"20:00-24:00\"\n", SPANS({ 6 * H, 10 * H }));
}

Test(schedule, a_window_over_midnight)
{
	set_zone("UTC0");
	expect_spans("2024-06-12 14:00:00", "  duration: 24h\n  between: \"22:00-04:00\"\n", SPANS({ 8 * H, 14 * H }));
	expect_spans("2024-06-12 01:00:00", "  duration: 24h\n  between: \"22:00-04:00\"\n",
		     SPANS({ 0, 3 * H }, { 21 * H, 24 * H }));
	expect_spans("2024-06-12 23:00:00", "  duration: 12h\n  between: \"22:00-04:00\"\n", SPANS({ 0, 5 * H }));
	expect_spans("2024-06-12 21:00:00", "  duration: 12h\n  between: \"22:00-00:00\"\n", SPANS({ 1 * H, 3 * H }));
	expect_spans("2024-02-28 23:00:00", "  duration: 24h\n  between: \"23:30-23:00\"\n", SPANS({ 0.5 * H, 24 * H }));
	expect_spans("2024-12-31 23:00:00", "  duration: 6h\n  between: \"23:30-00:30\"\n", SPANS({ 0.5 * H, 1.5 * H }));
}

/* 2024-06-12 is a Wednesday. A window over midnight belongs to the day on which it begins. */
Test(schedule, days)
{
	set_zone("UTC0");
	expect_spans("2024-06-12 14:00:00", "  duration: 7d\n  days: wed\n", SPANS({ 0, 10 * H }, { 154 * H, 168 * H }));
	expect_spans("2024-06-12 14:00:00", "  duration: 6d\n  days: [thu, sat]\n",
		     SPANS({ 10 * H, 34 * H }, { 58 * H, 82 * H }));
	expect_spans("2024-06-12 14:00:00", "  duration: 6d\n  days: [thu, fri]\n", SPANS({ 10 * H, 58 * H }));
	expect_spans("2024-06-13 01:00:00", "  duration: 24h\n  between: \"22:00-04:00\"\n  days: wed\n", SPANS({ 0, 3 * H }));
	expect_spans("2024-06-12 01:00:00", "  duration: 30h\n  between: \"22:00-04:00\"\n  days: wed\n",
		     SPANS({ 21 * H, 27 * H }));
	expect_spans("2024-06-12 14:00:00", "  duration: 7d\n  between: \"09:00-17:00\"\n  days: [mon, tue]\n",
		     SPANS({ 115 * H, 123 * H }, { 139 * H, 147 * H }));
}

/* Local days, not UTC's. */
Test(schedule, days_are_local)
{
	set_zone("IST-5:30");
	expect_spans("2024-06-12 23:00:00", "  duration: 24h\n  days: thu\n", SPANS({ 1 * H, 24 * H }));
	set_zone("NZST-12");
	expect_spans("2024-06-12 05:00:00", "  duration: 24h\n  days: wed\n", SPANS({ 0, 19 * H }));
	set_zone("HST10");
	expect_spans("2024-06-12 20:00:00", "  duration: 24h\n  between: \"02:00-03:00\"\n", SPANS({ 6 * H, 7 * H }));
}

/* On 2024-03-31 the clocks of Berlin go from 02:00 to 03:00, on 2024-10-27 from 03:00 back to 02:00. */
static void days_of_other_lengths(void)
{
	expect_spans("2024-03-30 20:00:00", "  duration: 24h\n  between: \"01:00-04:00\"\n", SPANS({ 5 * H, 7 * H }));
	expect_spans("2024-03-30 20:00:00", "  duration: 24h\n  between: \"22:00-05:00\"\n", SPANS({ 2 * H, 8 * H }));
	expect_spans("2024-03-30 20:00:00", "  duration: 48h\n  days: sun\n", SPANS({ 4 * H, 27 * H }));
	expect_spans("2024-03-30 20:00:00", "  duration: 24h\n  between: \"12:00-13:00\"\n", SPANS({ 15 * H, 16 * H }));
	expect_spans("2024-10-26 20:00:00", "  duration: 24h\n  between: \"01:00-04:00\"\n", SPANS({ 5 * H, 9 * H }));
	expect_spans("2024-10-26 20:00:00", "  duration: 24h\n  between: \"22:00-05:00\"\n", SPANS({ 2 * H, 10 * H }));
	expect_spans("2024-10-26 20:00:00", "  duration: 48h\n  days: sun\n", SPANS({ 4 * H, 29 * H }));
	expect_spans("2024-10-26 20:00:00", "  duration: 24h\n  between: \"12:00-13:00\"\n", SPANS({ 17 * H, 18 * H }));
	/* Within the night itself. */
	expect_spans("2024-03-31 03:30:00", "  duration: 24h\n  between: \"01:00-04:00\"\n", SPANS({ 0, 0.5 * H }, { 21.5 * H, 24 * H }));
	expect_spans("2024-10-27 04:30:00", "  duration: 24h\n  between: \"01:00-05:00\"\n", SPANS({ 0, 0.5 * H }, { 20.5 * H, 24 * H }));
}

Test(schedule, the_days_on_which_clocks_are_changed)
{
	set_zone(BERLIN);
	days_of_other_lengths();
}

Test(schedule, the_same_with_the_zone_file)
{
	if (access("/usr/share/zoneinfo/Europe/Berlin", R_OK) != 0)
		cr_skip_test("needs the zone file of Europe/Berlin (tzdata)");
	set_zone("Europe/Berlin");
	days_of_other_lengths();
}

/* A window that begins or ends in the hour that does not exist, or exists twice, still opens once and closes. */
Test(schedule, windows_within_the_hour_that_is_left_out_or_doubled)
{
	static const struct {
		const char *now, *between;
		double least, most; /* hours in force */
	} cases[] = {
		{ "2024-03-30 20:00:00", "01:30-02:30", 0.5, 1 }, { "2024-03-30 20:00:00", "02:15-02:45", 0.5, 0.5 },
		{ "2024-03-30 20:00:00", "02:30-04:00", 0.5, 1.5 }, { "2024-10-26 20:00:00", "01:30-02:30", 1, 2 },
		{ "2024-10-26 20:00:00", "02:15-02:45", 0.5, 1.5 }, { "2024-10-26 20:00:00", "02:30-04:00", 1.5, 2.5 },
	};

	set_zone(BERLIN);
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct instant now = moment(cases[i].now);
		struct made made;
		char source[256];
		uint64_t sum = 0;

		snprintf(source, sizeof(source), "version: 1\nrules:\n- { name: a, match: { ports: 1 }, fault: { drop: true }, "
						 "duration: 20h, between: \"%s\" }\n", cases[i].between);
		made = make(&now, source);
		expect_sound(&made.schedule);
		for (uint64_t t = now.boot_ns; t < now.boot_ns + 20 * HOUR; t += MINUTE)
			sum += is_active(&made, 0, t);
		cr_expect(sum >= cases[i].least * 60 && sum <= cases[i].most * 60, "%s %s: %lu minutes", cases[i].now,
			  cases[i].between, sum);
		unmake(&made);
	}
}

/* The wall clock stands between two seconds: windows open with the clock, not with the load. */
Test(schedule, parts_of_a_second)
{
	struct instant now;
	struct made made;

	set_zone("UTC0");
	now = moment("2024-06-12 14:59:59");
	now.wall.tv_nsec = 250000000;
	made = make(&now, "version: 1\nrules:\n- { name: a, match: { ports: 1 }, fault: { drop: true }, duration: 1h, "
			  "between: \"15:00-15:01\" }\n");
	cr_expect_eq(made.schedule.intervals[0].until_ns, now.boot_ns + 750000000);
	cr_expect_eq(made.schedule.end_ns, now.boot_ns + 750000000 + MINUTE);
	unmake(&made);
}

/* ---- several rules ---- */

Test(schedule, phases_of_several_rules)
{
	struct instant now;
	struct made made;
	static const struct {
		double at;
		uint64_t active;
	} cases[] = {
		{ 0, 1 }, { 4.9, 1 }, { 5, 3 }, { 9.9, 3 }, { 10, 2 }, { 14.9, 2 }, { 15, 4 }, { 19.9, 4 }, { 20, 0 }, { 1e6, 0 },
	};

	set_zone("UTC0");
	now = moment("2024-06-12 14:00:00");
	made = make(&now, "version: 1\nrules:\n"
			  "- { name: a, match: { ports: 1 }, fault: { drop: true }, duration: 10s }\n"
			  "- { name: b, match: { ports: 2 }, fault: { drop: true }, start-after: 5s, duration: 10s }\n"
			  "- { name: c, match: { ports: 3 }, fault: { drop: true }, start-after: 15s, duration: 5s }\n");
	expect_sound(&made.schedule);
	for (size_t i = 0; i < COUNT(cases); i++)
		cr_expect_eq(active_at(&made.schedule, now.boot_ns + cases[i].at * SECOND).word[0], cases[i].active, "at %g s",
			     cases[i].at);
	unmake(&made);
}

Test(schedule, rules_that_begin_and_end_together_share_their_times)
{
	struct instant now;
	FILE *out;
	char *source;
	size_t size;
	struct made made;

	set_zone("UTC0");
	now = moment("2024-06-12 14:00:00");
	out = open_memstream(&source, &size);
	fputs("version: 1\nrules:\n", out);
	for (int i = 0; i < CHAOS_MAX_RULES; i++)
		fprintf(out, "- { name: r%d, match: { ports: 1 }, fault: { drop: true }, start-after: 1s, duration: 1m }\n", i);
	fclose(out);
	made = make(&now, source);
	cr_expect_eq(made.schedule.count, 2);
	for (int w = 0; w < CHAOS_WORDS; w++)
		cr_expect(made.schedule.intervals[0].active.word[w] == 0 && made.schedule.intervals[1].active.word[w] == ~0ULL);
	unmake(&made);
	free(source);
}

/* ---- what is refused ---- */

static int refuse(const char *now, const char *source, struct error *err)
{
	struct instant at = moment(now);
	struct rules *rules = parse(source);
	struct schedule schedule;
	int ret;

	memset(err, 0, sizeof(*err));
	ret = schedule_make(rules, &at, &schedule, err);
	schedule_free(&schedule);
	rules_free(rules);
	return ret;
}

Test(schedule, a_window_that_never_opens_is_an_error)
{
	static const char *const times[] = {
		"  duration: 1h\n  between: \"16:00-17:00\"\n",		    "  duration: 1h\n  between: \"13:00-14:00\"\n",
		"  start-after: 3h\n  duration: 1h\n  between: \"16:00-17:00\"\n", "  duration: 2d\n  days: tue\n",
		"  duration: 2d\n  between: \"23:00-13:00\"\n  days: mon\n",
	};
	char source[512];
	struct error err;

	set_zone("UTC0");
	for (size_t i = 0; i < COUNT(times); i++) {
		snprintf(source, sizeof(source),
			 "version: 1\nrules:\n- name: late\n  match: { ports: 1 }\n  fault: { drop: true }\n%s", times[i]);
		cr_expect_eq(refuse("2024-06-12 14:00:00", source, &err), -EINVAL, "%s", times[i]);
		cr_expect_eq(err.exit, EXIT_USAGE);
		cr_expect_not_null(strstr(err.text, ": rule 'late' ends before its window opens"), "%s", err.text);
	}
	cr_expect_eq(strncmp(err.text, "t:7:12: ", 8), 0, "%s", err.text);
}

static char *windows(int rules, int days)
{
	char *source;
	size_t size;
	FILE *out = open_memstream(&source, &size);

	fputs("version: 1\nrules:\n", out);
	for (int i = 0; i < rules; i++)
		fprintf(out, "- { name: r%d, match: { ports: 1 }, fault: { drop: true }, duration: %dd, between: \"%02d:%02d-%02d:%02d\" }\n",
			i, days, i / 60, i % 60, (i + 700) / 60, (i + 700) % 60);
	fclose(out);
	return source;
}

Test(schedule, more_times_than_the_kernel_keeps)
{
	char *source = windows(700, 6);
	struct error err;
	struct instant now;
	struct made made;

	set_zone("UTC0");
	cr_expect_eq(refuse("2024-06-12 00:00:00", source, &err), -E2BIG);
	cr_expect_eq(err.exit, EXIT_USAGE);
	cr_expect_eq(strncmp(err.text, "t: the rules begin and end at ", 30), 0, "%s", err.text);
	free(source);

	source = windows(400, 5); /* 4,000 of 4,096 */
	now = moment("2024-06-12 00:00:00");
	made = make(&now, source);
	expect_sound(&made.schedule);
	cr_expect(made.schedule.count > 3900 && made.schedule.count <= CHAOS_MAX_INTERVALS, "%zu", made.schedule.count);
	unmake(&made);
	free(source);
}

/* ---- at random, against the local clock ---- */

static uint64_t seed, state;

static void begin_random(void)
{
	const char *given = getenv("CHAOSBPF_SEED");

	if (given)
		seed = strtoull(given, NULL, 0);
	else
		cr_assert_eq(getrandom(&seed, sizeof(seed), 0), sizeof(seed));
	state = seed;
}

static uint32_t below(uint32_t limit)
{
	uint64_t z = state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return (uint32_t)((z ^ z >> 31) >> 32) % limit;
}

/* Not from one to three at night, where clocks are changed: such a time may not exist, or twice. */
static unsigned int random_minute(void)
{
	unsigned int minute = below(24 * 60);

	return minute >= 60 && minute <= 180 ? minute + 180 : minute;
}

static char *random_rules(int rules)
{
	static const char *const days[] = { "sun", "mon", "tue", "wed", "thu", "fri", "sat" };
	char *source;
	size_t size;
	FILE *out = open_memstream(&source, &size);

	fputs("version: 1\nrules:\n", out);
	for (int i = 0; i < rules; i++) {
		unsigned int first = random_minute(), last = random_minute();

		fprintf(out, "- name: r%d\n  match: { ports: 1 }\n  fault: { drop: true }\n", i);
		fprintf(out, "  start-after: %us\n  duration: %us\n", below(3) ? 0 : below(86400), 1 + below(below(4) ? 600000 : 9000));
		if (first != last && below(2))
			fprintf(out, "  between: \"%02u:%02u-%02u:%02u\"\n", first / 60, first % 60, last / 60, last % 60);
		if (!below(3))
			fprintf(out, "  days: [%s, %s]\n", days[below(7)], days[below(7)]);
	}
	fclose(out);
	return source;
}

static bool in_window(const struct window *w, time_t wall)
{
	unsigned int minute, yesterday;
	struct tm tm;

	localtime_r(&wall, &tm);
	minute = tm.tm_hour * 60 + tm.tm_min;
	yesterday = (tm.tm_wday + 6) % 7;
	if (w->first_minute < w->last_minute)
		return minute >= w->first_minute && minute < w->last_minute && w->days & 1u << tm.tm_wday;
	return (minute >= w->first_minute && w->days & 1u << tm.tm_wday) ||
	       (minute < w->last_minute && w->days & 1u << yesterday);
}

static bool should_be_active(const struct rule *rule, const struct instant *now, uint64_t t)
{
	uint64_t from = now->boot_ns + rule->start_after_ns, wall_ns = now->wall.tv_nsec + (t - now->boot_ns);

	if (t < from || t >= from + rule->duration_ns)
		return false;
	return !rule->window.limited || in_window(&rule->window, now->wall.tv_sec + wall_ns / SECOND);
}

/* Windows that never open are an error, which is right if the rule is never in force at any minute. */
static void check_error(const struct rules *rules, const struct instant *now, const char *text, const char *zone)
{
	const char *name = strchr(text, '\'');
	const struct rule *rule;

	cr_assert(name && sscanf(name, "'r%*[0-9]' ends before its window opens") == 0, "%s", text);
	rule = &rules->rules[strtoul(name + 2, NULL, 10)];
	for (uint64_t t = 0; t < rule->start_after_ns + rule->duration_ns; t += 30 * SECOND)
		cr_assert_not(should_be_active(rule, now, now->boot_ns + t), "CHAOSBPF_SEED=%lu %s: %s, but after %lu s", seed,
			      zone, text, t / SECOND);
}

static int compare(const char *zone)
{
	struct made made = { .now = { .boot_ns = below(1000000) * SECOND + below(SECOND) } };
	char *source = random_rules(1 + below(6));
	struct error err = { 0 };
	int active = 0, ret;

	set_zone(zone);
	made.now.wall = (struct timespec){ .tv_sec = 1700000000 + (time_t)below(100000000), .tv_nsec = below(SECOND) };
	made.rules = parse(source);
	ret = schedule_make(made.rules, &made.now, &made.schedule, &err);
	if (ret) {
		check_error(made.rules, &made.now, err.text, zone);
	} else {
		expect_sound(&made.schedule);
		for (int i = 0; i < 400; i++) {
			uint64_t t = made.now.boot_ns + below(below(2) ? 800000 : 50000) * SECOND + below(SECOND);

			for (size_t r = 0; r < made.rules->count; r++) {
				bool wanted = should_be_active(&made.rules->rules[r], &made.now, t);

				active += wanted;
				cr_assert_eq(is_active(&made, r, t), wanted, "CHAOSBPF_SEED=%lu TZ=%s at %ld, after %lu ms: rule %zu is%s in force\n%s",
					     seed, zone, made.now.wall.tv_sec, (t - made.now.boot_ns) / 1000000, r,
					     wanted ? " not" : "", source);
			}
		}
	}
	unmake(&made);
	free(source);
	return active;
}

Test(schedule, random_rules_at_random_times, .timeout = 120)
{
	static const char *const zones[] = { "UTC0", BERLIN, "EST5EDT,M3.2.0,M11.1.0", "IST-5:30", "NZST-12NZDT,M9.5.0,M4.1.0/3" };
	int active = 0;

	begin_random();
	for (int i = 0; i < 300; i++)
		active += compare(zones[i % COUNT(zones)]);
	cr_expect_gt(active, 10000, "only %d", active);
}

/* ---- the clocks themselves ---- */

Test(schedule, a_moment_is_now_on_both_clocks)
{
	struct timespec boot, wall;
	struct instant now;

	moment_now(&now);
	clock_gettime(CLOCK_BOOTTIME, &boot);
	clock_gettime(CLOCK_REALTIME, &wall);
	cr_expect_leq(now.boot_ns, boot.tv_sec * SECOND + boot.tv_nsec);
	cr_expect_gt(now.boot_ns + 60 * SECOND, boot.tv_sec * SECOND);
	cr_expect(now.wall.tv_sec <= wall.tv_sec + 1 && now.wall.tv_sec + 60 > wall.tv_sec);
}
