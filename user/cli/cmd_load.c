// SPDX-License-Identifier: GPL-2.0-only
/* `chaosbpf load`, and what it shares with `inject` and `exec`. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "user/base/log.h"
#include "user/base/names.h"
#include "user/base/signals.h"
#include "user/cli/cmd.h"
#include "user/cli/options.h"

static const char help[] = "Usage: chaosbpf load [OPTIONS] FILE\n"
			   "\n"
			   "Loads the rules in FILE (\"-\": standard input), all of them or none, in place of\n"
			   "those that were loaded before. They end by themselves.\n"
			   "\n"
			   "  --observe      count what would be hit, inject nothing\n"
			   "  --duration T   every rule lasts T (30s, 5m, 1h30m), whatever the file says\n"
			   "  --endpoints F  your own presets, see chaosbpf endpoints\n"
			   "  --wait         a cgroup, container, pod or unit may start later, and a host name\n"
			   "                 may have no address yet; else it is an error\n"
			   "  --foreground   stay here; the faults end with this process, Ctrl-C ends it\n"
			   "  --json         for programs\n"
			   "\n"
			   "Then: 'chaosbpf status' shows what they do, 'chaosbpf stop' ends them at once.\n"
			   "'chaosbpf check FILE' says beforehand what would be hit.\n";

static const struct column columns[] = {
	{ "RULE", NULL, CELL_TEXT, false },
	{ "FAULT", NULL, CELL_TEXT, false },
	{ "STARTS", NULL, CELL_TEXT, false },
	{ "ENDS", NULL, CELL_SECONDS, false },
};

static void fault_words(char *out, size_t size, unsigned int faults)
{
	size_t used = 0;

	out[0] = '\0';
	for (int i = 0; i <= CHAOS_BREAK_CLEAN; i++) {
		if ((faults & 1U << i) && used < size)
			used += snprintf(out + used, size - used, "%s%s", used ? ", " : "", fault_word(i));
	}
}

static struct table *rules_table(const struct status *status)
{
	struct table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]));

	for (size_t i = 0; i < status->rules_count; i++) {
		char words[64], starts[64] = "now";

		fault_words(words, sizeof(words), status->rules[i].faults);
		table_row(table);
		table_text(table, 0, status->rules[i].name);
		table_text(table, 1, words);
		if (status->rules[i].starts_in_s > 0)
			seconds_text(starts, sizeof(starts), status->rules[i].starts_in_s);
		table_text(table, 2, starts);
		table_seconds(table, 3, status->rules[i].ends_in_s);
	}
	return table;
}

static void print_json(struct rules *rules, const struct load_options *options, const struct load_result *result)
{
	struct json json;

	json_begin(&json, stdout, false);
	json_open_object(&json, NULL);
	json_bool(&json, "loaded", true);
	json_text(&json, "file", rules->file);
	json_text(&json, "command", options->command);
	json_bool(&json, "observe", options->observe);
	json_count(&json, "generation", result->generation);
	json_count(&json, "rules", result->rules);
	json_number(&json, "ends_in_s", result->ends_in_s);
	json_count(&json, "devices", result->devices);
	json_count(&json, "sockets", result->sockets);
	json_number(&json, "took_ms", result->took_ms);
	json_close_object(&json);
	json_end(&json);
	fflush(stdout);
}

/* "1 rule", "2 rules" */
#define PLURAL(n, word) (n), (n) == 1 ? word : word "s"

static void print_text(struct rules *rules, const struct load_options *options, const struct load_result *result)
{
	char ends[64], file[512];
	struct status *status;
	struct error err;

	seconds_text(ends, sizeof(ends), result->ends_in_s);
	text_clean(file, sizeof(file), rules->file);
	printf("loaded %zu %s from %s%s, the last ends in %s\n", PLURAL(result->rules, "rule"), file,
	       options->observe ? " to observe" : "", ends);
	if (status_read(&status, &err) == 0) {
		struct table *table = rules_table(status);

		table_print(table, stdout);
		table_free(table);
		status_free(status);
	}
	if (options->observe)
		printf("nothing is injected: 'chaosbpf status' counts what would be hit\n");
	if (options->foreground)
		printf("Ctrl-C ends them\n");
	else
		printf("chaosbpf stop ends them at once, chaosbpf status --watch shows what they do\n");
	fflush(stdout);
}

static void print_loaded(struct rules *rules, const struct load_options *options, const struct load_result *result)
{
	(options_json ? print_json : print_text)(rules, options, result);
}

/* A load takes the place of the one before: that should not be a surprise. */
static void note_replaced(void)
{
	struct status *status;
	struct error err;

	if (status_read(&status, &err))
		return;
	if (status->loaded && status->ends_in_s > 0)
		log_note("replaces %zu %s from %s", PLURAL(status->rules_count, "rule"), status->file);
	status_free(status);
}

int load_and_print(struct rules *rules, const struct load_options *options)
{
	struct load_result result = { 0 };
	struct load *load = NULL;
	struct error err;

	note_replaced();
	if (load_locked(rules, options, &load, &result, &err) < 0)
		return log_error(&err);
	print_loaded(rules, options, &result);
	return EXIT_DONE;
}

static void print_summary(void)
{
	struct status *status;
	struct error err;

	if (status_read(&status, &err)) {
		log_error(&err);
		return;
	}
	if (options_json) {
		struct json json;

		json_begin(&json, stdout, false);
		status_json(&json, status);
		json_end(&json);
	} else {
		struct table *table = status_table(status);

		table_print(table, stdout);
		table_free(table);
	}
	status_free(status);
}

static int foreground(struct rules *rules, const struct load_options *options)
{
	struct load_result result = { 0 };
	struct load *load = NULL;
	struct error err;
	int signals, code = EXIT_DONE;

	/* Before the load, so that a Ctrl-C during it is not lost and does not leave it half done. */
	signals = signals_open(&err);
	if (signals < 0)
		return log_error(&err);
	note_replaced();
	if (load_locked(rules, options, &load, &result, &err) < 0) {
		close(signals);
		return log_error(&err);
	}
	print_loaded(rules, options, &result);
	if (load_serve(load, -1, signals, &err) < 0)
		code = log_error(&err);
	print_summary();
	if (load_end(load, &err) < 0)
		code = log_error(&err);
	close(signals);
	return code;
}

static int run(int argc, char **argv)
{
	struct rules_options rules_options = { 0 };
	struct load_options options = { .command = "load" };
	const struct option_spec specs[] = {
		{ "observe", OPTION_FLAG, &options.observe, NULL },
		{ "wait", OPTION_FLAG, &options.wait, NULL },
		{ "foreground", OPTION_FLAG, &options.foreground, NULL },
		{ "duration", OPTION_DURATION, &rules_options.duration_ns, NULL },
		{ "endpoints", OPTION_TEXT, &rules_options.endpoints, NULL },
		{ 0 },
	};
	struct rules *rules;
	struct error err;
	int rc = options_parse("load", &argc, &argv, specs);

	if (!rc)
		rc = options_operands("load", argc, argv, 1, 1, "a rules file");
	if (!rc)
		rc = command_begin("load");
	if (rc)
		return rc;
	if (rules_load(argv[0], &rules_options, &rules, &err) < 0)
		return log_error(&err);
	rc = options.foreground ? foreground(rules, &options) : load_and_print(rules, &options);
	rules_free(rules);
	return rc;
}

const struct command cmd_load = {
	.name = "load",
	.summary = "load a rules file: the faults begin",
	.help = help,
	.run = run,
};
