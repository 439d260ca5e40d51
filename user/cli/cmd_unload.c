// SPDX-License-Identifier: GPL-2.0-only
/* `chaosbpf unload`: ends one rule, or all, in good order. */
#include <stdio.h>

#include "user/base/log.h"
#include "user/cli/cmd.h"
#include "user/cli/options.h"

static const char help[] = "Usage: chaosbpf unload [RULE]\n"
			   "\n"
			   "Ends one rule by its name, or all of them. When all end, requests that are being\n"
			   "held go on at their time, and this command waits for them; 'chaosbpf stop' does\n"
			   "not wait.\n"
			   "\n"
			   "  --json         for programs\n";

#define LOCK_TIMEOUT_MS 10000

/* Nothing loaded is no error when everything is to end, but it should be said. */
static bool anything_loaded(void)
{
	struct status *status;
	struct error err;
	bool loaded;

	if (status_read(&status, &err) < 0)
		return true;
	loaded = status->loaded;
	status_free(status);
	return loaded;
}

static int unload(const char *name)
{
	struct error err;
	bool loaded = anything_loaded();
	int lock = lock_take(LOCK_TIMEOUT_MS, &err);
	int rc;

	if (lock < 0)
		return log_error(&err);
	rc = load_unload(name, &err);
	lock_release(lock);
	if (rc < 0)
		return log_error(&err);
	if (options_json) {
		struct json json;

		json_begin(&json, stdout, false);
		json_open_object(&json, NULL);
		if (name)
			json_text(&json, "unloaded", name);
		else
			json_null(&json, "unloaded"); /* all */
		json_close_object(&json);
		json_end(&json);
	} else if (name) {
		printf("rule %s is over\n", name);
	} else {
		puts(loaded ? "all rules are over" : "nothing was loaded");
	}
	return EXIT_DONE;
}

static int run(int argc, char **argv)
{
	int rc = options_parse("unload", &argc, &argv, NULL);

	if (!rc)
		rc = options_operands("unload", argc, argv, 0, 1, "at most the name of a rule");
	if (!rc)
		rc = command_begin("unload");
	return rc ? rc : unload(argc ? argv[0] : NULL);
}

const struct command cmd_unload = {
	.name = "unload",
	.summary = "end one rule, or all, in good order",
	.help = help,
	.run = run,
};
