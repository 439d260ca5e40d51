// SPDX-License-Identifier: GPL-2.0-only
/* `chaosbpf stop`: the red button. Nothing comes before it, not even cleaning up. */
#include <stdio.h>
#include <unistd.h>

#include "user/base/log.h"
#include "user/cli/cmd.h"
#include "user/cli/options.h"
#include "user/state/button.h"

static const char help[] = "Usage: chaosbpf stop\n"
			   "\n"
			   "Ends every fault at once, then removes everything chaosbpf has put into the\n"
			   "kernel. Needs no file, waits for nothing, and may always be called. An\n"
			   "experiment that is under way ends, too.\n"
			   "\n"
			   "  --json         for programs\n";

static void print(const struct stop_result *result, bool told)
{
	struct json json;

	if (!options_json && !result->was_loaded) {
		puts(told ? "nothing was loaded; the experiment that is under way ends" : "nothing was loaded");
	} else if (!options_json) {
		printf("stopped: faults ended after %.1f ms, everything is as before after %.1f ms\n",
		       result->disarmed_ms, result->took_ms);
	} else {
		json_begin(&json, stdout, false);
		json_open_object(&json, NULL);
		json_bool(&json, "was_loaded", result->was_loaded);
		json_bool(&json, "experiment_told", told);
		json_number(&json, "disarmed_ms", result->disarmed_ms);
		json_number(&json, "took_ms", result->took_ms);
		json_close_object(&json);
		json_end(&json);
	}
}

static int run(int argc, char **argv)
{
	struct stop_result result = { 0 };
	struct error err;
	bool told;
	int rc = options_parse("stop", &argc, &argv, NULL);

	if (!rc)
		rc = options_operands("stop", argc, argv, 0, 0, "nothing");
	if (rc)
		return rc;
	if (geteuid() != 0)
		return log_fail(EXIT_FAILED, NULL, "stop needs root: run it with sudo");
	told = button_press(); /* waits for nobody; before the rest, so that nothing is loaded behind our back */
	if (load_stop(&result, &err) < 0)
		return log_error(&err);
	print(&result, told);
	return command_begin("stop");
}

const struct command cmd_stop = {
	.name = "stop",
	.summary = "the red button: end every fault at once",
	.help = help,
	.run = run,
};
