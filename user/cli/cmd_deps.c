// SPDX-License-Identifier: GPL-2.0-only
/* `chaosbpf deps`: what a service depends on. Breaking that is in user/cli/cmd_deps_test.c. */
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "user/base/clock.h"
#include "user/base/log.h"
#include "user/base/names.h"
#include "user/base/signals.h"
#include "user/cli/cmd.h"
#include "user/cli/options.h"
#include "user/experiment/dependencies.h"
#include "user/experiment/experiment.h"
#include "user/observe/histogram.h"
#include "user/rules/inject.h"
#include "user/target/resolve.h"

#define FOR_NS    (60 * NS_PER_S)
#define FOLLOW_NS (2 * NS_PER_S)

static const char help[] =
	"Usage: chaosbpf deps discover [WHOM...] [--for T]\n"
	"       chaosbpf deps test WHOM... [OPTIONS]\n"
	"\n"
	"discover lists what a service really talks to over TCP, the busiest first: hosts by the names\n"
	"that DNS answers and TLS ClientHellos tell meanwhile, else by their address. Listens\n"
	"only, touches nothing. RATE is requests a second, P50 and P99 response times, FAILED\n"
	"requests that were never answered or with a status of 500 or more, NOT-MADE\n"
	"connections that could not be had; NAMED says where the name is from.\n"
	"\n"
	"WHOM, all that are given must hold; nobody: everybody on this machine\n"
	"  --pid N, --process NAME, --cgroup C, --container C, --pod P, --unit U, --user U\n"
	"                    as in chaosbpf inject\n"
	"\n"
	"  --for T           how long to listen, default 60s; Ctrl-C ends it earlier. Names of\n"
	"                    connections that are older are not known\n"
	"\n"
	"test breaks each of these in turn: silent (down), then, while it does not matter, its\n"
	"requests take longer (slow), then some of them are reset (random). A dependency is\n"
	"strong when the service fails more or is slower than its own normal variation, and\n"
	"that comes and goes with the faults; else it is weak. Only what the service serves\n"
	"over TCP is seen, and somebody must use it meanwhile. What was found is kept, for\n"
	"chaosbpf history, report and compare.\n"
	"\n"
	"  --baseline T      how long to learn what is normal, default 3m\n"
	"  --each T          how long each is broken, default 60s\n"
	"  --gap T           pause after each, default 30s\n"
	"  --delay T         how slow, default 2s\n"
	"  --compare F       fail when a weak one has become strong, or a strong one is new,\n"
	"                    since F was saved\n"
	"  --save F          what was found, for --compare\n"
	"  --operator N, --environment E, --policy F, --database F, --webhooks F\n"
	"                    as in chaosbpf run\n"
	"  --json            for programs\n"
	"\n"
	"  sudo chaosbpf deps discover --unit rag.service --for 5m\n"
	"  sudo chaosbpf deps test --unit rag.service --save known.json\n"
	"\n"
	"Exit code of test: 4 --compare says so, 5 aborted, else as everywhere.\n";

struct discovery {
	struct inject words;
	uint64_t for_ns;
	struct rules *filter;
	struct observe *observe;
	struct observe_table first;
	struct seen *seen;
	int signals;
};

static void add_word(void *arg, const char *name, const char *argument)
{
	inject_add(arg, name, argument);
}

static const char *namer(const void *arg, const struct in6_addr *address, uint16_t port, enum seen_how *how)
{
	return seen_name(arg, address, port, how);
}

/* ---- showing ---- */

enum {
	NAME,
	PORT,
	NAMED,
	ADDRESSES,
	RATE,
	P50,
	P99,
	REQUESTS,
	FAILED,
	CONNECTIONS,
	NOT_MADE,
	COLUMNS,
};

static const struct column columns[COLUMNS] = {
	[NAME] = { "DEPENDENCY", "name", CELL_TEXT, false },
	[PORT] = { "PORT", "port", CELL_COUNT, false },
	[NAMED] = { "NAMED", "named", CELL_TEXT, false },
	[ADDRESSES] = { "ADDRESSES", NULL, CELL_COUNT, false },
	[RATE] = { "RATE", NULL, CELL_TEXT, false },
	[P50] = { "P50", NULL, CELL_TEXT, false },
	[P99] = { "P99", NULL, CELL_TEXT, false },
	[REQUESTS] = { "REQUESTS", NULL, CELL_COUNT, false },
	[FAILED] = { "FAILED", NULL, CELL_COUNT, false },
	[CONNECTIONS] = { "CONNECTIONS", NULL, CELL_COUNT, false },
	[NOT_MADE] = { "NOT-MADE", NULL, CELL_COUNT, false },
};

static double percentile_ms(const struct dependency *one, double share)
{
	return histogram_percentile(&one->sum.times[OBSERVE_RESPONSE], share) / 1000;
}

static void put_value(struct table *table, size_t column, double value, const char *unit)
{
	char text[64];

	value_words(text, sizeof(text), value, unit);
	table_text(table, column, text);
}

static void print_table(const struct dependencies *d, double seconds)
{
	struct table *table = table_new(columns, COLUMNS);

	for (size_t i = 0; i < d->count; i++) {
		const struct dependency *one = &d->list[i];

		table_row(table);
		table_text(table, NAME, one->name);
		table_count(table, PORT, one->port);
		table_text(table, NAMED, seen_how_names[one->how]);
		table_count(table, ADDRESSES, one->addresses_count);
		put_value(table, RATE, (double)one->sum.requests / seconds, "/s");
		put_value(table, P50, percentile_ms(one, 0.5), "ms");
		put_value(table, P99, percentile_ms(one, 0.99), "ms");
		table_count(table, REQUESTS, one->sum.requests);
		table_count(table, FAILED, observe_failed_requests(&one->sum));
		table_count(table, CONNECTIONS, one->sum.connections);
		table_count(table, NOT_MADE, observe_failures(&one->sum));
	}
	if (d->count)
		table_print(table, stdout);
	else
		puts("it has talked to nobody");
	table_free(table);
}

static void dependency_json(struct json *json, const struct dependency *one, double seconds)
{
	json_open_object(json, NULL);
	json_text(json, "name", one->name);
	json_count(json, "port", one->port);
	json_text(json, "named", seen_how_names[one->how]);
	json_open_array(json, "addresses");
	for (size_t i = 0; i < one->addresses_count; i++)
		json_text(json, NULL, one->addresses[i]);
	json_close_array(json);
	json_count(json, "requests", one->sum.requests);
	json_number(json, "requests_per_s", (double)one->sum.requests / seconds);
	json_number(json, "p50_ms", percentile_ms(one, 0.5));
	json_number(json, "p99_ms", percentile_ms(one, 0.99));
	json_count(json, "failed", observe_failed_requests(&one->sum));
	json_count(json, "connections", one->sum.connections);
	json_count(json, "not_made", observe_failures(&one->sum));
	json_close_object(json);
}

static void print_json(const struct dependencies *d, double seconds)
{
	struct json json;

	json_begin(&json, stdout, false);
	json_open_object(&json, NULL);
	json_number(&json, "seconds", seconds);
	json_open_array(&json, "dependencies");
	for (size_t i = 0; i < d->count; i++)
		dependency_json(&json, &d->list[i], seconds);
	json_close_array(&json);
	json_close_object(&json);
	json_end(&json);
}

static int out_of_memory(void)
{
	return log_fail(EXIT_FAILED, NULL, "out of memory");
}

static int show(struct discovery *d)
{
	struct dependencies dependencies;
	struct observe_lines lines;
	struct observe_table now;
	double seconds;
	int ret;

	seen_read(d->seen);
	if (observe_read(d->observe, &now))
		return out_of_memory();
	seconds = (double)(now.at_ns - d->first.at_ns) / 1e9;
	observe_table_since(&now, &d->first);
	ret = observe_group(&now, OBSERVE_BY_ENDPOINT, &lines);
	observe_table_free(&now);
	if (ret)
		return out_of_memory();
	ret = dependencies_make(&lines, namer, d->seen, &dependencies);
	observe_lines_free(&lines);
	if (ret)
		return out_of_memory();
	(options_json ? print_json : print_table)(&dependencies, seconds);
	dependencies_free(&dependencies);
	return EXIT_DONE;
}

/* ---- listening ---- */

static void follow(struct discovery *d)
{
	struct error err;

	if (observe_follow(d->observe, &err) < 0)
		log_note("could not look for what has come since: %s", err.text);
}

static void listen_for_a_while(struct discovery *d)
{
	struct pollfd fds[] = { { .fd = d->signals, .events = POLLIN }, { .fd = seen_fd(d->seen), .events = POLLIN } };
	uint64_t now = boot_ns(), end = now + d->for_ns, next = now + FOLLOW_NS;

	while (now < end) {
		uint64_t until = next < end ? next : end;

		if (poll(fds, 2, (int)((until - now + 999999) / 1000000)) > 0 && signals_read(d->signals, NULL))
			return;
		seen_read(d->seen);
		now = boot_ns();
		if (now >= next) {
			follow(d);
			next = now + FOLLOW_NS;
		}
	}
}

static int begin(struct discovery *d)
{
	struct observe_options options = { 0 };
	struct features features;
	struct error err;
	int rc;

	d->words.filter = true;
	if (inject_yaml(&d->words, &err) < 0 || inject_parse(&d->words, &d->filter, &err) < 0)
		return log_error(&err);
	rc = command_begin("deps");
	if (rc)
		return rc;
	options.filter = d->filter;
	features_probe(&features);
	d->signals = signals_open(&err);
	if (d->signals < 0 || names_resolve(d->filter, false, &err) < 0 || seen_open(&d->seen, &err) < 0 ||
	    observe_open(&features, &options, &d->observe, &err) < 0)
		return log_error(&err);
	return observe_read(d->observe, &d->first) ? out_of_memory() : 0;
}

static void end(struct discovery *d)
{
	if (d->observe)
		observe_close(d->observe);
	observe_table_free(&d->first);
	seen_close(d->seen);
	rules_free(d->filter);
	inject_free(&d->words);
	if (d->signals >= 0)
		close(d->signals);
}

static int discover(struct discovery *d)
{
	int rc = begin(d);

	if (!rc) {
		if (!options_json && isatty(STDERR_FILENO))
			log_note("listening for %.3g s, Ctrl-C ends it", (double)d->for_ns / NS_PER_S);
		listen_for_a_while(d);
		rc = show(d);
	}
	return rc;
}

static int discover_main(int argc, char **argv)
{
	struct discovery d = { .for_ns = FOR_NS, .signals = -1 };
	const struct option_spec specs[] = {
		{ "pid", OPTION_CALL, &d.words, add_word },
		{ "process", OPTION_CALL, &d.words, add_word },
		{ "cgroup", OPTION_CALL, &d.words, add_word },
		{ "container", OPTION_CALL, &d.words, add_word },
		{ "pod", OPTION_CALL, &d.words, add_word },
		{ "unit", OPTION_CALL, &d.words, add_word },
		{ "user", OPTION_CALL, &d.words, add_word },
		{ "for", OPTION_DURATION, &d.for_ns, NULL },
		{ 0 },
	};
	int rc = options_parse("deps discover", &argc, &argv, specs);

	if (!rc)
		rc = options_operands("deps discover", argc, argv, 0, 0, "nothing but options");
	if (!rc)
		rc = discover(&d);
	end(&d);
	return rc;
}

static int run(int argc, char **argv)
{
	static const char *const words[] = { "discover", "test", NULL };
	char hint[64] = "'chaosbpf deps --help' shows how";
	const char *near;

	if (argc > 1 && strcmp(argv[1], "discover") == 0)
		return discover_main(argc - 1, argv + 1);
	if (argc > 1 && strcmp(argv[1], "test") == 0)
		return deps_test(argc - 1, argv + 1);
	if (argc < 2)
		return log_fail(EXIT_USAGE, "'chaosbpf deps --help' shows how", "deps needs 'discover' or 'test'");
	near = nearest_word(argv[1], words);
	if (near)
		snprintf(hint, sizeof(hint), "did you mean '%s'?", near);
	return log_fail(EXIT_USAGE, hint, "deps cannot '%s'", argv[1]);
}

const struct command cmd_deps = {
	.name = "deps",
	.summary = "find out what a service depends on, and how much",
	.help = help,
	.run = run,
};
