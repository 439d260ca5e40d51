// SPDX-License-Identifier: GPL-2.0-only
/* `chaosbpf check`: says what a file would do here, and changes nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "user/base/log.h"
#include "user/cli/cmd.h"
#include "user/cli/options.h"

static const char help[] = "Usage: chaosbpf check [OPTIONS] FILE\n"
			   "\n"
			   "Says in plain sentences what the rules in FILE (\"-\": standard input) would hit,\n"
			   "how this kernel would do it, and what cannot be had here. Changes nothing.\n"
			   "Without root the sentences are printed, but the kernel cannot be asked.\n"
			   "\n"
			   "  --duration T   as if loaded with --duration T (30s, 5m, 1h30m)\n"
			   "  --endpoints F  your own presets, see chaosbpf endpoints\n"
			   "  --json         for programs\n"
			   "\n"
			   "Exit code: 0 all rules can be loaded, 1 the kernel could not be asked,\n"
			   "2 the file is wrong, 3 some rule cannot be had here.\n";

static const char ask_as_root[] = "run as root to check this kernel";

static void print_rule(const struct rule_plan *plan, bool asked)
{
	char text[4096];

	text_clean(text, sizeof(text), plan->sentence);
	printf("%s\n", text);
	if (asked && plan->mechanism[0])
		printf("    how: %s\n", plan->mechanism);
	if (plan->note[0]) {
		text_clean(text, sizeof(text), plan->note);
		printf("    note: %s\n", text);
	}
	if (asked && plan->cannot[0]) {
		text_clean(text, sizeof(text), plan->cannot);
		printf("    cannot be had here: %s\n", text);
		if (plan->hint[0]) {
			text_clean(text, sizeof(text), plan->hint);
			printf("    hint: %s\n", text);
		}
	}
}

static void text_or_null(struct json *json, const char *key, const char *text)
{
	if (text[0])
		json_text(json, key, text);
	else
		json_null(json, key);
}

static void print_rule_json(struct json *json, const struct rule *rule, const struct rule_plan *plan, bool asked)
{
	json_open_object(json, NULL);
	json_text(json, "name", rule->name);
	json_text(json, "sentence", plan->sentence);
	text_or_null(json, "mechanism", asked ? plan->mechanism : "");
	text_or_null(json, "note", plan->note);
	if (asked)
		json_bool(json, "possible", !plan->cannot[0]);
	else
		json_null(json, "possible");
	text_or_null(json, "cannot", asked ? plan->cannot : "");
	text_or_null(json, "hint", asked ? plan->hint : "");
	json_close_object(json);
}

static int print_json(const struct rules *rules, const struct rule_plan *plans, size_t impossible, bool asked)
{
	int code = !asked ? EXIT_FAILED : impossible ? EXIT_CANNOT : EXIT_DONE;
	struct json json;

	json_begin(&json, stdout, false);
	json_open_object(&json, NULL);
	json_text(&json, "file", rules->file);
	json_open_array(&json, "rules");
	for (size_t i = 0; i < rules->count; i++)
		print_rule_json(&json, &rules->rules[i], &plans[i], asked);
	json_close_array(&json);
	if (asked) {
		json_bool(&json, "possible", impossible == 0);
	} else {
		/* An error, but in the one document that a reader expects. */
		json_null(&json, "possible");
		json_text(&json, "error", ask_as_root);
	}
	json_count(&json, "exit", code);
	json_close_object(&json);
	json_end(&json);
	return code;
}

static int print_text(const struct rules *rules, const struct rule_plan *plans, size_t impossible, bool asked)
{
	for (size_t i = 0; i < rules->count; i++)
		print_rule(&plans[i], asked);
	if (!asked)
		return log_fail(EXIT_FAILED, NULL, "%s", ask_as_root);
	if (impossible && rules->count == 1)
		return log_fail(EXIT_CANNOT, "'chaosbpf doctor' says what this kernel can do",
				"the rule cannot be had here");
	if (impossible)
		return log_fail(EXIT_CANNOT, "a load is all or nothing: 'chaosbpf doctor' says what this kernel can do",
				"%zu of the %zu rules cannot be had here", impossible, rules->count);
	if (rules->count == 1)
		puts("the rule can be loaded here");
	else
		printf("all %zu rules can be loaded here\n", rules->count);
	return EXIT_DONE;
}

static int check(const char *file, const struct rules_options *rules_options)
{
	struct load_options options = { .command = "check" };
	bool asked = geteuid() == 0;
	struct rule_plan *plans = NULL;
	struct features features;
	struct rules *rules;
	size_t impossible = 0;
	struct error err;
	int code;

	if (rules_load(file, rules_options, &rules, &err) < 0)
		return log_error(&err);
	if (load_check(rules, &options, &features, &plans, &err) < 0) {
		rules_free(rules);
		return log_error(&err);
	}
	for (size_t i = 0; i < rules->count; i++)
		impossible += plans[i].cannot[0] != '\0';
	code = (options_json ? print_json : print_text)(rules, plans, impossible, asked);
	free(plans);
	rules_free(rules);
	return code;
}

static int run(int argc, char **argv)
{
	struct rules_options rules_options = { 0 };
	const struct option_spec specs[] = {
		{ "duration", OPTION_DURATION, &rules_options.duration_ns, NULL },
		{ "endpoints", OPTION_TEXT, &rules_options.endpoints, NULL },
		{ 0 },
	};
	int rc = options_parse("check", &argc, &argv, specs);

	if (!rc)
		rc = options_operands("check", argc, argv, 1, 1, "a rules file");
	if (!rc && geteuid() == 0)
		rc = command_begin("check");
	return rc ? rc : check(argv[0], &rules_options);
}

const struct command cmd_check = {
	.name = "check",
	.summary = "say what a rules file would hit, and whether this kernel can",
	.help = help,
	.run = run,
};
