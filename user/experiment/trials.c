// SPDX-License-Identifier: GPL-2.0-only
#include "user/experiment/trials.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "user/base/clock.h"
#include "user/base/log.h"
#include "user/base/signals.h"
#include "user/experiment/dependencies.h"
#include "user/experiment/holder.h"
#include "user/experiment/trials_record.h"
#include "user/observe/histogram.h"
#include "user/state/button.h"
#include "user/state/state.h"
#include "user/target/resolve.h"

#define TICKS_EACH     12 /* so often is looked while something is broken; a window is one or more of these */
#define TICK_MIN_NS    (NS_PER_S / 2)
#define ENOUGH         1  /* requests that a window has, more often than not */
#define MOST_ADDRESSES 64 /* of one name */
#define RANDOM         "30"
#define RECOVER_GAPS   4               /* so long, and */
#define RECOVER_NS     (60 * NS_PER_S) /* so much more is waited for a service to come back */
#define SPARE_NS       (60 * NS_PER_S) /* a rule's own end is so much later than the order to end it */

/* What the service did in one stretch of time. */
struct tick {
	int64_t pending; /* requests that were open when it began */
	uint64_t requests, ended, failed;
	struct histogram response;
	bool broken;
	int phase; /* windows do not reach from one into the next */
};

struct tick_list {
	struct tick *list;
	size_t count, room;
};

struct trials {
	const struct trials_options *options;
	struct trials_result *result;
	struct rules *filter;
	struct observe *observe;
	struct observe_table first, last;
	struct seen *seen;
	struct dependencies found;
	struct experiment plan; /* its steps are what the holder loads: dependency by dependency, way by way */
	struct holder holder;
	struct tick_list ticks; /* the baseline first, and after it those of the present trial */
	size_t baseline, merge; /* how many ticks that is; how many make a window */
	uint64_t tick_ns, injected;
	int64_t pending;
	bool loaded;
	int signals;
	int button; /* `chaosbpf stop`, also while nothing is loaded */
};

/* ---- reading ---- */

static int out_of_memory(struct error *err)
{
	return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
}

static int copy_table(const struct observe_table *from, struct observe_table *to)
{
	*to = *from;
	to->rows = malloc(from->count * sizeof(*to->rows));
	if (!to->rows)
		return -ENOMEM;
	memcpy(to->rows, from->rows, from->count * sizeof(*to->rows));
	return 0;
}

/* What was counted since `earlier`, by endpoint. */
static int lines_since(const struct observe_table *now, const struct observe_table *earlier,
		       struct observe_lines *lines)
{
	struct observe_table since;
	int ret = copy_table(now, &since);

	if (!ret) {
		observe_table_since(&since, earlier);
		ret = observe_group(&since, OBSERVE_BY_ENDPOINT, lines);
	}
	observe_table_free(&since);
	return ret;
}

static void add_service(struct tick *tick, const struct observe_row *row)
{
	tick->requests += row->requests;
	tick->ended += row->responses + row->unanswered;
	tick->failed += observe_failed_requests(row);
	histogram_add(&tick->response, &row->times[OBSERVE_RESPONSE]);
}

static uint64_t injected_now(void)
{
	struct status *status;
	struct error ignored;
	uint64_t sum = 0;

	if (status_read(&status, &ignored))
		return 0;
	for (size_t i = 0; i < status->rules_count; i++)
		sum += status->rules[i].stats.injected;
	status_free(status);
	return sum;
}

static struct tick *new_tick(struct trials *t)
{
	if (t->ticks.count == t->ticks.room) {
		size_t room = t->ticks.room ? 2 * t->ticks.room : 64;
		struct tick *list = reallocarray(t->ticks.list, room, sizeof(*list));

		if (!list)
			return NULL;
		t->ticks.list = list;
		t->ticks.room = room;
	}
	t->ticks.list[t->ticks.count] = (struct tick){ 0 };
	return &t->ticks.list[t->ticks.count++];
}

static int look(struct trials *t, int phase, struct error *err)
{
	struct tick *tick = new_tick(t);
	struct observe_lines lines;
	struct observe_table now;

	if (!tick || observe_read(t->observe, &now))
		return out_of_memory(err);
	if (lines_since(&now, &t->last, &lines)) {
		observe_table_free(&now);
		return out_of_memory(err);
	}
	for (size_t i = 0; i < lines.count; i++) {
		if (lines.rows[i].key.side == CHAOS_SIDE_SERVER)
			add_service(tick, &lines.rows[i]);
	}
	observe_lines_free(&lines);
	observe_table_free(&t->last);
	t->last = now;
	if (t->loaded)
		t->injected = injected_now();
	/* From the dependency's first error to the end of the faults: a breaker that has opened makes no more of them. */
	tick->broken = t->loaded && t->injected;
	tick->phase = phase;
	tick->pending = t->pending;
	trials_record_tick(t->options->record, tick->ended, tick->failed,
			   histogram_percentile(&tick->response, 0.5) / 1000);
	t->pending += (int64_t)tick->requests - (int64_t)tick->ended;
	if (t->pending < 0)
		t->pending = 0; /* answers to what was asked before anybody looked */
	return observe_follow(t->observe, err);
}

/* ---- waiting ---- */

static int abort_trials(struct trials *t, struct error *err, const char *why)
{
	t->result->aborted = true;
	snprintf(t->result->why, sizeof(t->result->why), "%.255s", why);
	return error_set(err, -ECANCELED, EXIT_ABORTED, "%s", why);
}

/* What was waited for. */
static int hear(struct trials *t, const struct holder_news *news, struct error *err)
{
	if (news->whole == -ECANCELED)
		return abort_trials(t, err, ENDED_ELSEWHERE);
	*err = news->ret ? news->err : news->missing;
	return news->ret ?: news->whole;
}

/* *wanted becomes NEWS_GONE when it has come. */
static int read_news(struct trials *t, enum news *wanted, struct error *err)
{
	struct holder_news news;

	while (t->holder.fd >= 0 && holder_read(&t->holder, &news)) {
		if (news.news == NEWS_GONE)
			return abort_trials(t, err, news.err.text);
		if (wanted && news.news == *wanted) {
			*wanted = NEWS_GONE;
			return hear(t, &news, err);
		}
		if (t->loaded && news.news == NEWS_LOST) {
			*err = news.err;
			return -ENOLINK;
		}
		if (t->loaded)
			return abort_trials(t, err, ENDED_ELSEWHERE);
	}
	return 0;
}

/* Until then; or, when `wanted` is given, until that news has come. */
static int wait_until(struct trials *t, uint64_t until, enum news *wanted, struct error *err)
{
	struct pollfd fds[] = {
		{ .fd = t->signals, .events = POLLIN },
		{ .fd = seen_fd(t->seen), .events = POLLIN },
		{ .fd = t->holder.fd, .events = POLLIN },
		{ .fd = t->button, .events = POLLIN },
	};
	int ret = 0;

	for (uint64_t now = boot_ns(); !ret && (wanted ? *wanted != NEWS_GONE : now < until); now = boot_ns()) {
		uint64_t left = wanted || until - now > NS_PER_S ? NS_PER_S : until - now;

		poll(fds, 4, (int)((left + 999999) / 1000000));
		seen_read(t->seen);
		if (signals_read(t->signals, NULL))
			return abort_trials(t, err, "ended by a signal");
		if (button_pressed(t->button))
			return abort_trials(t, err, "ended by 'chaosbpf stop'");
		ret = read_news(t, wanted, err);
	}
	return ret;
}

static int watch(struct trials *t, uint64_t for_ns, int phase, struct error *err)
{
	uint64_t begun = boot_ns(), ticks = for_ns / t->tick_ns;
	int ret = 0;

	for (uint64_t i = 1; i <= ticks && !ret; i++) {
		ret = wait_until(t, begun + i * t->tick_ns, NULL, err);
		ret = ret ?: look(t, phase, err);
	}
	return ret;
}

static void say(const struct trials *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(const struct trials *t, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	if (t->options->quiet)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_note("%s", text);
}

/* ---- judging ---- */

/* One window of at most `merge` ticks of one phase, from *at on. */
static struct robust_window make_window(const struct trials *t, size_t *at, size_t merge)
{
	const struct tick *first = &t->ticks.list[*at];
	struct robust_window w = { 0 };
	struct histogram response = { 0 };
	size_t ticks = 0;

	for (; ticks < merge && *at < t->ticks.count && t->ticks.list[*at].phase == first->phase; ticks++, (*at)++) {
		w.attempts += t->ticks.list[*at].ended;
		w.failed += t->ticks.list[*at].failed;
		w.broken |= t->ticks.list[*at].broken;
		histogram_add(&response, &t->ticks.list[*at].response);
	}
	w.latency_ms = histogram_percentile(&response, 0.5) / 1000;
	/* A service that hangs ends nothing: what is open for longer than an answer takes has failed. */
	if (!w.attempts && first->pending && (double)(ticks * t->tick_ns) / 1e6 > t->result->normal.latency_ms)
		w.attempts = w.failed = (uint64_t)first->pending;
	return w;
}

/* All from `first` on; how many. */
static size_t make_windows(const struct trials *t, size_t first, size_t merge, struct robust_window *windows)
{
	size_t count = 0;

	while (first < t->ticks.count)
		windows[count++] = make_window(t, &first, merge);
	return count;
}

/* The shortest windows that more often than not have a request in them. */
static int choose_windows(struct trials *t, struct error *err)
{
	struct robust_window *windows = calloc(t->baseline ?: 1, sizeof(*windows));
	size_t count, filled;

	if (!windows)
		return out_of_memory(err);
	for (t->merge = 1; t->merge <= TICKS_EACH / 2; t->merge++) {
		count = make_windows(t, 0, t->merge, windows);
		filled = 0;
		for (size_t i = 0; i < count; i++)
			filled += windows[i].attempts >= ENOUGH;
		if (filled * 4 >= count * 3)
			break;
	}
	if (t->merge > TICKS_EACH / 2)
		t->merge = TICKS_EACH / 2;
	count = make_windows(t, 0, t->merge, windows);
	t->result->normal = robust_baseline(windows, count);
	t->result->window_s = (double)(t->merge * t->tick_ns) / 1e9;
	free(windows);
	if (t->result->normal.attempts)
		return 0;
	error_set(err, -ENODATA, EXIT_FAILED,
		  "the service was asked nothing: whether it still answers could not be told");
	error_hint(err, "send it requests meanwhile; only what it serves over TCP is seen");
	return -ENODATA;
}

static int judge(struct trials *t, struct trial *trial, struct error *err)
{
	struct robust_window *windows = calloc(t->ticks.count, sizeof(*windows));

	if (!windows)
		return out_of_memory(err);
	trial->done = true;
	trial->injected = t->injected;
	trial->verdict = robust_judge(&t->result->normal, windows, make_windows(t, 0, t->merge, windows));
	free(windows);
	return 0;
}

/* ---- breaking ---- */

/* The next trial begins with a service that is as it was: else it would be blamed for what the last one has left. */
static int recover(struct trials *t, const struct tested *tested, struct error *err)
{
	uint64_t until = boot_ns() + RECOVER_GAPS * t->options->gap_ns + RECOVER_NS;
	struct robust_window windows[TICKS_EACH];
	int ret = 0;

	while (!ret && boot_ns() < until) {
		size_t first = t->ticks.count;

		ret = watch(t, t->merge * t->tick_ns, 3, err);
		if (!ret && make_windows(t, first, t->merge, windows) && windows[0].attempts &&
		    !robust_bad(&t->result->normal, &windows[0]))
			return 0;
	}
	if (ret)
		return ret;
	return error_set(err, -ETIMEDOUT, EXIT_FAILED, "the service did not come back after %s port %u was broken",
			 tested->name, tested->port);
}

static int order(struct trials *t, size_t step, struct error *err)
{
	enum news wanted = NEWS_LOADED;
	int ret = holder_load(&t->holder, step, err);

	ret = ret ?: wait_until(t, 0, &wanted, err);
	t->loaded = !ret;
	return ret;
}

static int order_end(struct trials *t, struct error *err)
{
	enum news wanted = NEWS_ENDED;
	int ret = holder_end(&t->holder, err);

	t->loaded = false;
	return ret ?: wait_until(t, 0, &wanted, err);
}

static int try_one(struct trials *t, size_t which, enum breakage how, struct error *err)
{
	struct tested *tested = &t->result->tested.list[which];
	struct trial *trial = &tested->trials[how];
	struct error cannot;
	int ret;

	t->ticks.count = t->baseline;
	t->injected = 0;
	say(t, "%s port %u: %s for %.3g s", tested->name, tested->port, breakage_names[how],
	    (double)t->options->each_ns / NS_PER_S);
	trials_record_trial(t->options->record, tested, how, t->options->each_ns);
	ret = order(t, which * BREAKAGE_COUNT + how, &cannot);
	if (ret && !t->result->aborted) {
		snprintf(trial->cannot, sizeof(trial->cannot), "%.*s", (int)sizeof(trial->cannot) - 1, cannot.text);
		return 0;
	}
	if (ret) {
		*err = cannot;
		return ret;
	}
	ret = watch(t, t->options->each_ns, 1, err);
	if (t->result->aborted)
		return ret;
	trials_record_rule(t->options->record, tested, how, t->plan.steps[which * BREAKAGE_COUNT + how].rules);
	ret = ret ?: order_end(t, err);
	ret = ret ?: watch(t, t->options->gap_ns, 2, err);
	ret = ret ?: judge(t, trial, err);
	return ret ?: recover(t, tested, err);
}

static int try_all(struct trials *t, struct error *err)
{
	int ret = 0;

	trials_record_phase(t->options->record, PHASE_INJECT);
	for (enum breakage how = 0; how < BREAKAGE_COUNT; how++) {
		for (size_t i = 0; i < t->result->tested.count && !ret; i++) {
			if (how == BREAK_DOWN || tested_strength(&t->result->tested.list[i]) == STRENGTH_WEAK)
				ret = try_one(t, i, how, err);
		}
	}
	return ret;
}

/* ---- what is broken ---- */

static int make_rules(const struct trials *t, const struct dependency *one, enum breakage how, struct rules **rules,
		      struct error *err)
{
	struct inject words = { .endpoints = t->options->words.endpoints };
	char delay[48], duration[48], to[MOST_ADDRESSES][INET6_ADDRSTRLEN + 16];
	const char *const faults[BREAKAGE_COUNT] = { "drop=true", delay, "reset=true" };
	int ret;

	snprintf(delay, sizeof(delay), "delay=%llums", (unsigned long long)(t->options->delay_ns / 1000000));
	snprintf(duration, sizeof(duration), "%llus",
		 (unsigned long long)((t->options->each_ns + SPARE_NS) / NS_PER_S));
	inject_add(&words, NULL, faults[how]);
	for (size_t i = 0; i < t->options->words.count; i++)
		inject_add(&words, t->options->words.words[i].option, t->options->words.words[i].value);
	for (size_t i = 0; i < one->addresses_count && i < MOST_ADDRESSES; i++) {
		snprintf(to[i], sizeof(to[i]), strchr(one->addresses[i], ':') ? "[%s]:%u" : "%s:%u", one->addresses[i],
			 one->port);
		inject_add(&words, "to", to[i]);
	}
	if (how == BREAK_RANDOM) {
		inject_add(&words, "percent", RANDOM);
		inject_add(&words, "per", "request");
	}
	inject_add(&words, "for", duration);
	ret = inject_yaml(&words, err);
	ret = ret ?: inject_parse(&words, rules, err);
	ret = ret ?: names_resolve(*rules, false, err);
	inject_free(&words);
	return ret;
}

/* A plan as an experiment has it: for the holder, and for the policy. */
static int make_plan(struct trials *t, struct error *err)
{
	struct experiment *plan = &t->plan;
	int ret = 0;

	snprintf(plan->name, sizeof(plan->name), "deps");
	snprintf(plan->environment, sizeof(plan->environment), "%s", t->options->environment);
	plan->file = strdup(INJECT_FILE);
	plan->steps = calloc(t->found.count * BREAKAGE_COUNT + 1, sizeof(*plan->steps));
	t->result->tested.list = calloc(t->found.count + 1, sizeof(*t->result->tested.list));
	if (!plan->file || !plan->steps || !t->result->tested.list)
		return out_of_memory(err);
	for (size_t i = 0; i < t->found.count && !ret; i++) {
		struct tested *tested = &t->result->tested.list[t->result->tested.count++];

		snprintf(tested->name, sizeof(tested->name), "%s", t->found.list[i].name);
		tested->port = t->found.list[i].port;
		for (enum breakage how = 0; how < BREAKAGE_COUNT && !ret; how++) {
			struct step *step = &plan->steps[plan->steps_count++];

			step->kind = STEP_RULES;
			step->for_ns = t->options->each_ns;
			ret = make_rules(t, &t->found.list[i], how, &step->rules, err);
		}
	}
	return ret ?: policy_check(t->options->policy, plan, &t->options->who, err);
}

static const char *namer(const void *arg, const struct in6_addr *address, uint16_t port, enum seen_how *how)
{
	return seen_name(arg, address, port, how);
}

static int find_dependencies(struct trials *t, struct error *err)
{
	struct observe_lines lines;

	if (lines_since(&t->last, &t->first, &lines))
		return out_of_memory(err);
	if (dependencies_make(&lines, namer, t->seen, &t->found)) {
		observe_lines_free(&lines);
		return out_of_memory(err);
	}
	observe_lines_free(&lines);
	if (t->found.count)
		return 0;
	return error_set(err, -ENODATA, EXIT_FAILED, "it has talked to nobody, so nothing can be broken");
}

/* ---- the whole ---- */

static int open_all(struct trials *t, struct error *err)
{
	struct observe_options options = { .both_sides = true };
	struct inject words = { .filter = true, .endpoints = t->options->words.endpoints };
	struct features features;
	int ret;

	for (size_t i = 0; i < t->options->words.count; i++)
		inject_add(&words, t->options->words.words[i].option, t->options->words.words[i].value);
	ret = inject_yaml(&words, err);
	ret = ret ?: inject_parse(&words, &t->filter, err);
	inject_free(&words);
	ret = ret ?: names_resolve(t->filter, false, err);
	if (ret)
		return ret;
	t->signals = ret = signals_open(err);
	if (ret < 0)
		return ret;
	t->button = ret = button_listen(err);
	if (ret < 0)
		return ret;
	signal(SIGTSTP, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	features_probe(&features);
	options.filter = t->filter;
	ret = seen_open(&t->seen, err);
	ret = ret ?: observe_open(&features, &options, &t->observe, err);
	if (!ret && (observe_read(t->observe, &t->first) || copy_table(&t->first, &t->last)))
		ret = out_of_memory(err);
	return ret;
}

static int learn(struct trials *t, struct error *err)
{
	int ret;

	trials_record_phase(t->options->record, PHASE_BASELINE);
	say(t, "learning what is normal for %.3g s", (double)t->options->baseline_ns / NS_PER_S);
	ret = watch(t, t->options->baseline_ns, 0, err);
	t->baseline = t->ticks.count;
	ret = ret ?: choose_windows(t, err);
	ret = ret ?: find_dependencies(t, err);
	ret = ret ?: make_plan(t, err);
	return ret ?: holder_start(&t->holder, &t->plan, err);
}

static void close_all(struct trials *t)
{
	holder_stop(&t->holder);
	if (t->observe)
		observe_close(t->observe);
	observe_table_free(&t->first);
	observe_table_free(&t->last);
	seen_close(t->seen);
	dependencies_free(&t->found);
	for (size_t i = 0; i < t->plan.steps_count; i++)
		rules_free(t->plan.steps[i].rules);
	free(t->plan.steps);
	free(t->plan.file);
	free(t->ticks.list);
	rules_free(t->filter);
	if (t->signals >= 0)
		close(t->signals);
	if (t->button >= 0)
		close(t->button);
}

int trials_run(const struct trials_options *options, struct trials_result *result, struct error *err)
{
	struct trials t = { .options = options, .result = result, .holder = { .fd = -1 }, .signals = -1, .button = -1 };
	int ret;

	*result = (struct trials_result){ 0 };
	result->normal.latency_ms = NAN; /* not known yet */
	t.tick_ns = options->each_ns / TICKS_EACH > TICK_MIN_NS ? options->each_ns / TICKS_EACH : TICK_MIN_NS;
	ret = open_all(&t, err);
	ret = ret ?: learn(&t, err);
	ret = ret ?: try_all(&t, err);
	close_all(&t);
	return ret;
}

void trials_free(struct trials_result *result)
{
	free(result->tested.list);
	*result = (struct trials_result){ 0 };
}
