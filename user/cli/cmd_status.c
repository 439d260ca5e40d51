// SPDX-License-Identifier: GPL-2.0-only
/* `chaosbpf status`: what is loaded and what it has done, read from the kernel; needs no daemon. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "user/base/log.h"
#include "user/base/names.h"
#include "user/cli/cmd.h"
#include "user/cli/options.h"
#include "user/rules/explain.h"

static const char help[] = "Usage: chaosbpf status [OPTIONS]\n"
			   "\n"
			   "Shows the rules that are loaded and what they have done. SEEN counts packets and\n"
			   "calls of the connections that a rule names, MATCHED the times a fault of it came\n"
			   "up for decision, INJECTED the times it was done, SKIPPED the rest and why.\n"
			   "These counters are exact.\n"
			   "\n"
			   "  --watch [S]    again every S seconds, default 1; Ctrl-C ends it\n"
			   "  --json         for programs; with --watch one object a line\n";

enum {
	RULE,
	STATE,
	STARTS,
	ENDS,
	SEEN,
	MATCHED,
	INJECTED,
	SKIPPED,
	FAULTS,
	PACKETS,
	MAX_HITS,
	UNLOADED,
	AWAITS,
	COLUMNS,
};

static const struct column columns[COLUMNS] = {
	[RULE] = { "RULE", "name", CELL_TEXT, false },
	[STATE] = { "STATE", "state", CELL_TEXT, false },
	[STARTS] = { NULL, "starts_in_s", CELL_SECONDS, false },
	[ENDS] = { "ENDS", "ends_in_s", CELL_SECONDS, false },
	[SEEN] = { "SEEN", "seen", CELL_COUNT, false },
	[MATCHED] = { "MATCHED", "matched", CELL_COUNT, false },
	[INJECTED] = { "INJECTED", "injected", CELL_COUNT, false },
	[SKIPPED] = { "SKIPPED", "skipped", CELL_COUNTS, true },
	[FAULTS] = { NULL, "faults", CELL_COUNTS, false },
	[PACKETS] = { NULL, "packets", CELL_COUNT, false },
	[MAX_HITS] = { NULL, "max_hits", CELL_COUNT, false },
	[UNLOADED] = { NULL, "unloaded", CELL_BOOL, false },
	[AWAITS] = { NULL, "awaits", CELL_TEXT, false },
};

static const char *const state_colors[RULE_STATE_COUNT] = {
	[RULE_WAITING] = "yellow",
	[RULE_ACTIVE] = "red",
	[RULE_OBSERVING] = "cyan",
	[RULE_FINISHED] = "darkgray",
};

static void add_rule(struct table *table, const struct rule_status *rule)
{
	table_row(table);
	table_text(table, RULE, rule->name);
	table_text(table, STATE, rule_state_names[rule->state]);
	table_color(table, STATE, state_colors[rule->state]);
	table_seconds(table, STARTS, rule->starts_in_s);
	table_seconds(table, ENDS, rule->ends_in_s);
	table_count(table, SEEN, rule->stats.seen);
	table_count(table, MATCHED, rule->stats.matched);
	table_count(table, INJECTED, rule->stats.injected);
	/* Fixed-width types of the contract and of the C library differ in name only. */
	table_counts(table, SKIPPED, skip_names, (const uint64_t *)rule->stats.skipped);
	table_counts(table, FAULTS, fault_names, (const uint64_t *)rule->stats.faults);
	table_count(table, PACKETS, rule->stats.packets);
	if (rule->max_hits)
		table_count(table, MAX_HITS, rule->max_hits);
	table_bool(table, UNLOADED, rule->unloaded);
	if (rule->awaits[0])
		table_text(table, AWAITS, rule->awaits);
}

struct table *status_table(const struct status *status)
{
	struct table *table = table_new(columns, COLUMNS);

	for (size_t i = 0; i < status->rules_count; i++)
		add_rule(table, &status->rules[i]);
	return table;
}

static void text_or_null(struct json *json, const char *key, const char *text)
{
	if (text[0])
		json_text(json, key, text);
	else
		json_null(json, key);
}

static void pid_or_null(struct json *json, const char *key, pid_t pid)
{
	if (pid > 0)
		json_count(json, key, pid);
	else
		json_null(json, key);
}

static const char *address_text(const struct in6_addr *address, char *buf, size_t size)
{
	const struct host host = { .address = *address, .prefix_len = 128 };

	return format_host(buf, size, &host);
}

static void names_json(struct json *json, const struct name_list *names)
{
	char text[HOST_TEXT_LEN];

	json_open_array(json, "names");
	for (size_t i = 0; i < names->count; i++) {
		const struct name_status *name = &names->entries[i];

		json_open_object(json, NULL);
		text_or_null(json, "name", name->text);
		json_open_array(json, "addresses");
		for (size_t k = 0; k < name->addresses_count; k++)
			json_text(json, NULL, address_text(&name->addresses[k], text, sizeof(text)));
		json_close_array(json);
		json_close_object(json);
	}
	json_close_array(json);
}

/* A few addresses of each name; --json has them all. */
static void print_names(const struct name_list *names)
{
	const size_t shown = 4;
	char text[HOST_TEXT_LEN];

	for (size_t i = 0; i < names->count; i++) {
		const struct name_status *name = &names->entries[i];

		printf("%s: ", name->text[0] ? name->text : "several names");
		for (size_t k = 0; k < name->addresses_count && k < shown; k++)
			printf("%s%s", k ? ", " : "", address_text(&name->addresses[k], text, sizeof(text)));
		if (name->addresses_count > shown)
			printf(" and %zu more", name->addresses_count - shown);
		puts(name->addresses_count ? "" : "no address yet");
	}
}

/* Rules that hit nobody, since nothing runs that they name. */
static void print_awaited(const struct status *status)
{
	for (size_t i = 0; i < status->rules_count; i++) {
		if (status->rules[i].awaits[0])
			printf("%s: waits for %s, of which nothing runs now\n", status->rules[i].name,
			       status->rules[i].awaits);
	}
}

/* Files with probes, and who came by; nobody is worth a word, since a fault that nobody meets looks like one that does no harm. */
static void print_probes(const struct status *status)
{
	for (size_t i = 0; i < status->rules_count && !status->probes_count; i++) {
		if (status->rules[i].faults & FAULTS_BY_PROBE && status->rules[i].ends_in_s > 0)
			printf("%s: no file with such functions is open so far\n", status->rules[i].name);
	}
	for (size_t i = 0; i < status->probes_count; i++) {
		const struct probe_status *probe = &status->probes[i];
		char file[4 * CHAOS_PATH_LEN + 1];

		text_clean(file, sizeof(file), probe->file);
		printf("%s: probes on %llu function%s, ", file, (unsigned long long)probe->functions,
		       probe->functions == 1 ? "" : "s");
		if (probe->calls)
			printf("%llu calls, %llu of them changed by us\n", (unsigned long long)probe->calls,
			       (unsigned long long)probe->injected);
		else
			puts("no calls so far");
	}
}

static void probes_json(struct json *json, const struct status *status)
{
	json_open_array(json, "probes");
	for (size_t i = 0; i < status->probes_count; i++) {
		json_open_object(json, NULL);
		json_text(json, "file", status->probes[i].file);
		json_count(json, "functions", status->probes[i].functions);
		json_count(json, "calls", status->probes[i].calls);
		json_count(json, "injected", status->probes[i].injected);
		json_close_object(json);
	}
	json_close_array(json);
}

void status_json(struct json *json, const struct status *status)
{
	struct table *table = status_table(status);

	json_open_object(json, NULL);
	json_bool(json, "loaded", status->loaded);
	json_bool(json, "observe", status->observe);
	json_count(json, "generation", status->generation);
	text_or_null(json, "file", status->file);
	text_or_null(json, "command", status->command);
	if (status->loaded_at_s)
		json_count(json, "loaded_at", status->loaded_at_s);
	else
		json_null(json, "loaded_at");
	json_number(json, "ends_in_s", status->ends_in_s);
	pid_or_null(json, "owner", status->owner);
	pid_or_null(json, "reaper", status->reaper);
	json_count(json, "devices", status->devices);
	json_count(json, "decisions", status->totals.decisions);
	json_count(json, "unowned", status->totals.unowned);
	json_count(json, "events", status->events);
	json_count(json, "events_dropped", status->totals.events_dropped);
	table_json(table, json, "rules");
	names_json(json, &status->names);
	probes_json(json, status);
	json_close_object(json);
	table_free(table);
}

static void print_tail(const struct status *status)
{
	printf("%llu events, %llu dropped", (unsigned long long)status->events,
	       (unsigned long long)status->totals.events_dropped);
	if (status->totals.unowned)
		printf("; %llu connections without a known owner", (unsigned long long)status->totals.unowned);
	if (status->owner > 0)
		printf("; ends with process %d", (int)status->owner);
	else if (status->reaper > 0)
		printf("; process %d cleans up at the end", (int)status->reaper);
	else
		printf("; the next chaosbpf command cleans up after the end");
	putchar('\n');
}

static void print_text(const struct status *status)
{
	char file[512], ends[64];
	struct table *table;

	if (!status->loaded) {
		puts("nothing is loaded");
		return;
	}
	text_clean(file, sizeof(file), status->file);
	seconds_text(ends, sizeof(ends), status->ends_in_s);
	printf("%s, by chaosbpf %s%s, ", file, status->command, status->observe ? " to observe" : "");
	if (status->ends_in_s > 0)
		printf("the last rule ends in %s\n", ends);
	else
		puts("all rules are over");
	table = status_table(status);
	table_print(table, stdout);
	table_free(table);
	print_awaited(status);
	print_names(&status->names);
	print_probes(status);
	print_tail(status);
}

static int print_once(bool one_line)
{
	struct status *status;
	struct error err;

	if (status_read(&status, &err) < 0)
		return log_error(&err);
	if (options_json) {
		struct json json;

		json_begin(&json, stdout, one_line);
		status_json(&json, status);
		json_end(&json);
	} else {
		print_text(status);
	}
	status_free(status);
	return EXIT_DONE;
}

static int watch(double seconds)
{
	const char *clear = isatty(STDOUT_FILENO) && !options_json ? "\033[H\033[J" : "";
	struct timespec pause = { .tv_sec = (time_t)seconds };
	int rc = EXIT_DONE;

	pause.tv_nsec = (long)((seconds - (double)pause.tv_sec) * 1e9);
	while (rc == EXIT_DONE) {
		struct error err;

		/* What is over is cleaned up by whichever command sees it, and this one may run for days. */
		if (state_tidy(&err) < 0)
			log_note("could not clean up after an earlier load: %s", err.text);
		fputs(clear, stdout);
		rc = print_once(true);
		if (fflush(stdout))
			return rc; /* main.c says so */
		nanosleep(&pause, NULL);
	}
	return rc;
}

static int parse_seconds(const char *text, double *seconds)
{
	char *end;

	*seconds = text[0] ? strtod(text, &end) : 1;
	if (text[0] && (*end || !(*seconds >= 0.1 && *seconds <= 86400)))
		return log_fail(EXIT_USAGE, NULL, "--watch: '%s' is not a number of seconds from 0.1 to 86400", text);
	return 0;
}

static int run(int argc, char **argv)
{
	const char *watch_text = NULL;
	const struct option_spec specs[] = {
		{ "watch", OPTION_OPTIONAL, &watch_text, NULL },
		{ 0 },
	};
	double seconds = 0;
	int rc = options_parse("status", &argc, &argv, specs);

	/* getopt knows --watch=5 only; status has no operands, so "--watch 5" can mean nothing else. */
	if (!rc && watch_text && !watch_text[0] && argc == 1) {
		watch_text = argv[0];
		argc = 0;
	}
	if (!rc)
		rc = options_operands("status", argc, argv, 0, 0, "nothing");
	if (!rc && watch_text)
		rc = parse_seconds(watch_text, &seconds);
	if (!rc)
		rc = command_begin("status");
	if (rc)
		return rc;
	return watch_text ? watch(seconds) : print_once(false);
}

const struct command cmd_status = {
	.name = "status",
	.summary = "show the loaded rules and what they have done",
	.help = help,
	.run = run,
};
