// SPDX-License-Identifier: GPL-2.0-only
#include "user/tables/schedule.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NS        1000000000ULL
#define MAX_SPANS 65536

/* A rule is in force from `from` to `to`. */
struct span {
	uint64_t from, to;
	size_t rule;
};

struct spans {
	struct span *entries;
	size_t count;
};

void moment_now(struct instant *now)
{
	struct timespec boot;

	clock_gettime(CLOCK_BOOTTIME, &boot);
	clock_gettime(CLOCK_REALTIME, &now->wall);
	now->boot_ns = boot.tv_sec * NS + boot.tv_nsec;
}

static int add_span(struct spans *spans, uint64_t from, uint64_t to, size_t rule)
{
	struct span *more;

	if (from >= to)
		return 0;
	if (spans->count >= MAX_SPANS)
		return -E2BIG;
	if ((spans->count & (spans->count - 1)) == 0) {
		more = realloc(spans->entries, (spans->count ? 2 * spans->count : 1) * sizeof(*more));
		if (!more)
			return -ENOMEM;
		spans->entries = more;
	}
	spans->entries[spans->count++] = (struct span){ from, to, rule };
	return 0;
}

/* A local time as CLOCK_BOOTTIME; times before the moment come out as that moment. */
static uint64_t boot_of(const struct instant *now, time_t wall)
{
	int64_t away = (int64_t)(wall - now->wall.tv_sec) * (int64_t)NS - now->wall.tv_nsec;

	return away <= 0 ? now->boot_ns : now->boot_ns + (uint64_t)away;
}

/* Minute `minute` of the local day `days_ahead` from now; mktime() knows when clocks are put forward and back. */
static time_t local_minute(const struct instant *now, int days_ahead, unsigned int minute, int *weekday)
{
	struct tm day;

	localtime_r(&now->wall.tv_sec, &day);
	day.tm_mday += days_ahead;
	day.tm_hour = 0;
	day.tm_min = minute;
	day.tm_sec = 0;
	day.tm_isdst = -1;
	if (weekday) {
		struct tm noon = day;

		noon.tm_min = 12 * 60;
		mktime(&noon);
		*weekday = noon.tm_wday;
	}
	return mktime(&day);
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The parts of [from, to) that lie in the rule's window; it may have begun yesterday and run over midnight. */
static int add_windows(struct spans *spans, const struct window *w, const struct instant *now, uint64_t from,
		       uint64_t to, size_t rule)
{
	unsigned int last = w->last_minute > w->first_minute ? w->last_minute : w->last_minute + 24 * 60;

	for (int day = -1;; day++) {
		int weekday, err;
		uint64_t open, close;
		time_t opens = local_minute(now, day, w->first_minute, &weekday);

		open = boot_of(now, opens);
		if (open >= to && day > 0)
			return 0;
		if (!(w->days & 1u << weekday))
			continue;
		close = boot_of(now, local_minute(now, day, last, NULL));
		err = add_span(spans, later(open, from), earlier(close, to), rule);
		if (err)
			return err;
	}
}

static int collect(const struct rules *rules, const struct instant *now, struct spans *spans, struct schedule *schedule,
		   struct error *err)
{
	for (size_t i = 0; i < rules->count; i++) {
		const struct rule *rule = &rules->rules[i];
		uint64_t from = now->boot_ns + rule->start_after_ns, to = from + rule->duration_ns;
		size_t before = spans->count;
		int ret;

		if (rule->window.limited)
			ret = add_windows(spans, &rule->window, now, from, to, i);
		else
			ret = add_span(spans, from, to, i);
		if (ret == -E2BIG)
			return error_set(err, ret, EXIT_USAGE, "%s: too many time windows", rules->file);
		if (ret)
			return error_set(err, ret, EXIT_FAILED, "out of memory");
		if (spans->count == before)
			return rules_error_at(rules, rule->window.mark, err, EXIT_USAGE,
					      "rule '%s' ends before its window opens", rule->name);
		schedule->begins_ns[i] = spans->entries[before].from; /* spans of a rule are in order */
		schedule->end_ns = later(schedule->end_ns, spans->entries[spans->count - 1].to);
	}
	return 0;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int by_start(const void *a, const void *b)
{
	return by_value(&((const struct span *)a)->from, &((const struct span *)b)->from);
}

/* All moments at which something changes, each once. */
static size_t boundaries(const struct spans *spans, uint64_t *times)
{
	size_t count = 0, kept = 0;

	for (size_t i = 0; i < spans->count; i++) {
		times[count++] = spans->entries[i].from;
		times[count++] = spans->entries[i].to;
	}
	qsort(times, count, sizeof(*times), by_value);
	for (size_t i = 0; i < count; i++) {
		if (!kept || times[kept - 1] != times[i])
			times[kept++] = times[i];
	}
	return kept;
}

/* Interval k ends at times[k]; it holds the spans that begin before that and end no earlier. */
static void fill(struct schedule *s, const struct spans *spans, const uint64_t *times)
{
	for (size_t k = 0; k < s->count; k++)
		s->intervals[k].until_ns = times[k];
	for (size_t i = 0; i < spans->count; i++) {
		const struct span *span = &spans->entries[i];
		const uint64_t *first = bsearch(&span->from, times, s->count, sizeof(*times), by_value);

		for (size_t k = first - times + 1; k < s->count && times[k] <= span->to; k++)
			s->intervals[k].active.word[span->rule / 64] |= 1ULL << (span->rule % 64);
	}
}

int schedule_make(const struct rules *rules, const struct instant *now, struct schedule *schedule, struct error *err)
{
	struct spans spans = { 0 };
	uint64_t *times = NULL;
	int ret;

	memset(schedule, 0, sizeof(*schedule));
	schedule->begins_ns = calloc(rules->count, sizeof(*schedule->begins_ns));
	if (!schedule->begins_ns)
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	ret = collect(rules, now, &spans, schedule, err);
	if (ret)
		goto out;
	qsort(spans.entries, spans.count, sizeof(*spans.entries), by_start);
	times = malloc(2 * spans.count * sizeof(*times));
	if (!times) {
		ret = error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
		goto out;
	}
	schedule->count = boundaries(&spans, times);
	if (schedule->count > CHAOS_MAX_INTERVALS) {
		ret = error_set(err, -E2BIG, EXIT_USAGE,
				"%s: the rules begin and end at %zu different times, at most %d are possible",
				rules->file, schedule->count, CHAOS_MAX_INTERVALS);
		goto out;
	}
	schedule->intervals = calloc(schedule->count, sizeof(*schedule->intervals));
	if (!schedule->intervals) {
		ret = error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
		goto out;
	}
	fill(schedule, &spans, times);
out:
	free(times);
	free(spans.entries);
	if (ret)
		schedule_free(schedule);
	return ret;
}

void schedule_free(struct schedule *schedule)
{
	free(schedule->intervals);
	free(schedule->begins_ns);
	memset(schedule, 0, sizeof(*schedule));
}
