// SPDX-License-Identifier: GPL-2.0-only
/* `chaosbpf observe`: measures what services serve and what they call, from the kernel, and touches nothing. */
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "user/base/clock.h"
#include "user/base/log.h"
#include "user/base/names.h"
#include "user/base/signals.h"
#include "user/cli/cmd.h"
#include "user/cli/options.h"
#include "user/observe/observe_show.h"
#include "user/observe/publish.h"
#include "user/rules/inject.h"
#include "user/target/resolve.h"

static const char help[] = "Usage: chaosbpf observe [WHOM...] [OPTIONS]\n"
			   "\n"
			   "Measures from the kernel, in any program and under TLS: what services serve (side\n"
			   "server) and what they call (side client). Touches nothing, and is gone when it ends.\n"
			   "RATE is requests a second; P50 to MAX are response times, from a request's last byte\n"
			   "to its response's first (percentiles are 3.1 % off at most); FAILED requests were\n"
			   "never answered, or with a status of 500 or more where that can be read; NOT-MADE\n"
			   "counts connections that could not be had.\n"
			   "\n"
			   "WHOM, all that are given must hold; nobody: everybody\n"
			   "  --to HOST[:PORTS] or --endpoint NAME, --port PORTS, --pid N, --process NAME,\n"
			   "  --cgroup C, --container C, --pod P, --unit U, --user U as in chaosbpf inject\n"
			   "  --side S          client or server; default both\n"
			   "\n"
			   "  --by WHAT         a line for each process, cgroup, endpoint or connection (all of\n"
			   "                    these together, the default)\n"
			   "  --for T           end after so long (30s, 5m); else Ctrl-C ends it\n"
			   "  --interval T      how often the table is drawn and what it covers, default 5s\n"
			   "  --follow          one table (or with --json one object) for each interval\n"
			   "  --prometheus FILE for the textfile collector: rewritten at each interval; for root\n"
			   "                    alone, unless the file is there or --readable is given\n"
			   "  --listen[=A:P]    serve http://A:P/metrics, default " PUBLISH_DEFAULT "\n"
			   "  --rows N          kinds of connections that are told apart, default 1024; what\n"
			   "                    finds no room is counted together as (rest)\n"
			   "  --wait            the cgroup or container may start later; else it is an error\n"
			   "  --endpoints F     your own presets, see chaosbpf endpoints\n"
			   "  --json            for programs: one document at the end\n"
			   "\n"
			   "  sudo chaosbpf observe --unit rag.service --for 30s\n";

struct observing {
	struct inject words;
	const char *by_text, *rows_text, *prometheus, *listen;
	uint64_t for_ns, interval_ns;
	bool follow, wait, readable;
	enum observe_by_what by;
	struct observe_options options;
	struct observe *observe;
	struct observe_table first, last; /* since when the whole, and the interval, count */
	struct publisher *publisher;
	int signals;
};

static void add_word(void *arg, const char *name, const char *argument)
{
	inject_add(arg, name, argument);
}

/* ---- showing ---------------------------------------------------------------------------------------------------------- */

static int out_of_memory(void)
{
	return log_fail(EXIT_FAILED, NULL, "out of memory");
}

static int print_view(const struct observe_view *view, bool one_line)
{
	struct table *table;
	struct json json;

	if (options_json) {
		json_begin(&json, stdout, one_line);
		observe_show_json(&json, view);
		json_end(&json);
		return 0;
	}
	table = observe_show_table(view);
	if (view->lines->count)
		table_print(table, stdout);
	else
		puts("no connections so far");
	table_free(table);
	return 0;
}

/* What was counted since `earlier`. */
static int print_since(struct observing *o, const struct observe_table *earlier, struct observe_table *now,
		       bool one_line)
{
	struct observe_lines lines;
	struct observe_view view = { .observe = o->observe, .by = o->by, .lines = &lines };
	int rc;

	view.seconds = (double)(now->at_ns - earlier->at_ns) / 1e9;
	observe_table_since(now, earlier);
	if (observe_group(now, o->by, &lines))
		return out_of_memory();
	rc = print_view(&view, one_line);
	observe_lines_free(&lines);
	return rc;
}

static int show_interval(struct observing *o)
{
	const char *clear = isatty(STDOUT_FILENO) && !options_json && !o->follow ? "\033[H\033[J" : "";
	struct observe_table now, shown;
	int rc;

	if (observe_read(o->observe, &now) || observe_read(o->observe, &shown))
		return out_of_memory();
	fputs(clear, stdout);
	shown.at_ns = now.at_ns;
	rc = print_since(o, &o->last, &shown, true);
	observe_table_free(&shown);
	observe_table_free(&o->last);
	o->last = now;
	return fflush(stdout) ? EXIT_FAILED : rc;
}

static int show_all(struct observing *o)
{
	struct observe_table now;
	int rc;

	if (observe_read(o->observe, &now))
		return out_of_memory();
	rc = print_since(o, &o->first, &now, false);
	observe_table_free(&now);
	return rc;
}

/* Everything since the start, as text; NULL: out of memory. */
static char *prometheus_text(struct observing *o, size_t *len)
{
	struct observe_table now;
	struct observe_lines lines;
	struct observe_view view = { .observe = o->observe, .by = o->by, .lines = &lines };
	char *text = NULL;
	FILE *out;

	if (observe_read(o->observe, &now))
		return NULL;
	if (observe_group(&now, o->by, &lines) == 0) {
		out = open_memstream(&text, len);
		if (out) {
			observe_show_prometheus(out, &view);
			if (fclose(out)) {
				free(text);
				text = NULL;
			}
		}
		observe_lines_free(&lines);
	}
	observe_table_free(&now);
	return text;
}

static int publish(struct observing *o)
{
	struct error err;
	size_t len;
	char *text;
	int rc = 0;

	if (!o->prometheus && !o->publisher)
		return 0;
	text = prometheus_text(o, &len);
	if (!text)
		return out_of_memory();
	if (o->prometheus && publish_file(o->prometheus, text, len, o->readable, &err) < 0)
		rc = log_error(&err);
	if (o->publisher)
		publish_text(o->publisher, text, len);
	else
		free(text);
	return rc;
}

/* ---- the loop ---------------------------------------------------------------------------------------------------------- */

static void look_again(struct observing *o)
{
	struct error err;

	if (observe_follow(o->observe, &err) < 0)
		log_note("could not look for what has come since: %s", err.text);
}

/* Until the time is over or somebody asks for the end. */
static int watch(struct observing *o)
{
	const bool live = o->follow || (isatty(STDOUT_FILENO) && !options_json);
	const uint64_t end = o->for_ns ? boot_ns() + o->for_ns : UINT64_MAX;
	uint64_t next = boot_ns() + o->interval_ns, now;
	struct pollfd fd = { .fd = o->signals, .events = POLLIN };
	int rc = 0;

	while (!rc) {
		uint64_t until = next < end ? next : end;

		now = boot_ns();
		if (poll(&fd, 1, until > now ? (int)((until - now + 999999) / 1000000) : 0) > 0 &&
		    signals_read(o->signals, NULL))
			break;
		now = boot_ns();
		if (now >= end)
			break;
		if (now < next)
			continue;
		next = now + o->interval_ns;
		look_again(o);
		rc = publish(o);
		if (!rc && live)
			rc = show_interval(o);
	}
	rc = rc ?: publish(o);
	if (!rc && (o->prometheus || o->publisher) && !options_json && !isatty(STDOUT_FILENO))
		return 0;
	if (!rc && o->follow)
		return show_interval(o);
	return rc ?: show_all(o);
}

static int begin(struct observing *o)
{
	struct features features;
	struct error err;
	struct rules *rules;
	int rc;

	o->words.filter = true;
	if (inject_yaml(&o->words, &err) < 0 || inject_parse(&o->words, &rules, &err) < 0)
		return log_error(&err);
	o->options.filter = rules;
	rc = command_begin("observe");
	if (rc)
		return rc;
	features_probe(&features);
	if (names_resolve(rules, o->wait, &err) < 0)
		return log_error(&err);
	o->signals = signals_open(&err);
	if (o->signals < 0)
		return log_error(&err);
	if (o->listen && publish_open(o->listen[0] ? o->listen : PUBLISH_DEFAULT, &o->publisher, &err) < 0)
		return log_error(&err);
	if (observe_open(&features, &o->options, &o->observe, &err) < 0)
		return log_error(&err);
	if (observe_read(o->observe, &o->first) || observe_read(o->observe, &o->last))
		return out_of_memory();
	log_note("measuring");
	return publish(o);
}

static void end(struct observing *o)
{
	publish_close(o->publisher);
	observe_close(o->observe);
	observe_table_free(&o->first);
	observe_table_free(&o->last);
	rules_free((struct rules *)o->options.filter);
	inject_free(&o->words);
	if (o->signals >= 0)
		close(o->signals);
}

/* ---- options ----------------------------------------------------------------------------------------------------------- */

static int take_by(struct observing *o)
{
	char hint[96] = "it is process, cgroup, endpoint or connection";
	const char *near;
	int index = o->by_text ? name_index(observe_by_names, o->by_text) : OBSERVE_EACH;

	if (index >= 0) {
		o->by = index;
		return 0;
	}
	near = nearest_word(o->by_text, observe_by_names);
	if (near)
		snprintf(hint, sizeof(hint), "did you mean '%s'?", near);
	return log_fail(EXIT_USAGE, hint, "--by: '%s' is nothing to tell lines apart by", o->by_text);
}

static int take_rows(struct observing *o)
{
	uint64_t rows = OBSERVE_ROWS;

	if (o->rows_text && (parse_number(o->rows_text, &rows) || rows < OBSERVE_MIN_ROWS || rows > OBSERVE_MAX_ROWS))
		return log_fail(EXIT_USAGE, NULL, "--rows: '%s' is not a number from %d to %d", o->rows_text,
				OBSERVE_MIN_ROWS, OBSERVE_MAX_ROWS);
	o->options.rows = (uint32_t)rows;
	return 0;
}

static int take_options(struct observing *o)
{
	int rc = take_by(o);

	if (!rc)
		rc = take_rows(o);
	if (!o->interval_ns)
		o->interval_ns = 5 * NS_PER_S;
	if (!rc && o->interval_ns < NS_PER_S / 10)
		rc = log_fail(EXIT_USAGE, NULL, "--interval: at least 100ms");
	if (!rc && o->readable && !o->prometheus)
		rc = log_fail(EXIT_USAGE, NULL,
			      "--readable says who may read the file of --prometheus, which is not there");
	o->options.both_sides = true;
	for (size_t i = 0; i < o->words.count; i++)
		o->options.both_sides &= strcmp(o->words.words[i].option, "side") != 0;
	o->options.wait = o->wait;
	return rc;
}

static int run(int argc, char **argv)
{
	struct observing o = { .signals = -1 };
	const struct option_spec specs[] = {
		{ "to", OPTION_CALL, &o.words, add_word },
		{ "endpoint", OPTION_CALL, &o.words, add_word },
		{ "port", OPTION_CALL, &o.words, add_word },
		{ "pid", OPTION_CALL, &o.words, add_word },
		{ "process", OPTION_CALL, &o.words, add_word },
		{ "cgroup", OPTION_CALL, &o.words, add_word },
		{ "container", OPTION_CALL, &o.words, add_word },
		{ "pod", OPTION_CALL, &o.words, add_word },
		{ "unit", OPTION_CALL, &o.words, add_word },
		{ "user", OPTION_CALL, &o.words, add_word },
		{ "side", OPTION_CALL, &o.words, add_word },
		{ "endpoints", OPTION_TEXT, &o.words.endpoints, NULL },
		{ "by", OPTION_TEXT, &o.by_text, NULL },
		{ "for", OPTION_DURATION, &o.for_ns, NULL },
		{ "interval", OPTION_DURATION, &o.interval_ns, NULL },
		{ "follow", OPTION_FLAG, &o.follow, NULL },
		{ "rows", OPTION_TEXT, &o.rows_text, NULL },
		{ "wait", OPTION_FLAG, &o.wait, NULL },
		{ "prometheus", OPTION_TEXT, &o.prometheus, NULL },
		{ "readable", OPTION_FLAG, &o.readable, NULL },
		{ "listen", OPTION_OPTIONAL, &o.listen, NULL },
		{ 0 },
	};
	int rc = options_parse("observe", &argc, &argv, specs);

	if (!rc)
		rc = options_operands("observe", argc, argv, 0, 0, "nothing but options");
	if (!rc)
		rc = take_options(&o);
	if (!rc)
		rc = begin(&o);
	if (!rc)
		rc = watch(&o);
	end(&o);
	return rc;
}

const struct command cmd_observe = {
	.name = "observe",
	.summary = "measure what services serve and what they call",
	.help = help,
	.run = run,
};
