// SPDX-License-Identifier: GPL-2.0-only
/* `chaosbpf doctor`: what this kernel can do, and by which mechanism each fault works on it. */
#include <stdio.h>

#include "user/base/log.h"
#include "user/base/names.h"
#include "user/cli/cmd.h"
#include "user/cli/options.h"

static const char help[] = "Usage: chaosbpf doctor\n"
			   "\n"
			   "Says what this kernel can do, found by trying, and how each fault works on it.\n"
			   "\n"
			   "  --json         for programs\n"
			   "\n"
			   "Exit code: 0 every fault can be had, 3 some cannot.\n";

static const struct column feature_columns[] = {
	{ "FEATURE", "name", CELL_TEXT, false }, { "HERE", "here", CELL_BOOL, false },
	{ "USED FOR", "use", CELL_TEXT, true },  { "WITHOUT IT", NULL, CELL_TEXT, true },
	{ NULL, "fallback", CELL_TEXT, false },  { NULL, "why_not", CELL_TEXT, false },
};

static const struct column fault_columns[] = {
	{ "FAULT", "name", CELL_TEXT, false },
	{ "HERE", "here", CELL_BOOL, false },
	{ "HOW", "mechanism", CELL_TEXT, true },
};

static struct table *feature_table(const struct features *features)
{
	struct table *table = table_new(feature_columns, sizeof(feature_columns) / sizeof(feature_columns[0]));

	for (int i = 0; i < FEATURE_COUNT; i++) {
		table_row(table);
		table_text(table, 0, feature_names[i]);
		table_bool(table, 1, features->has[i]);
		table_color(table, 1, features->has[i] ? "green" : "red");
		table_text(table, 2, feature_uses[i]);
		table_text(table, 3, feature_fallbacks[i] ? feature_fallbacks[i] : "nothing works");
		if (feature_fallbacks[i])
			table_text(table, 4, feature_fallbacks[i]);
		if (!features->has[i])
			table_text(table, 5, features->why_not[i]);
	}
	return table;
}

/* What every fault stands on. */
static bool base_is_there(const struct features *features)
{
	return features->has[FEATURE_BPF] && features->has[FEATURE_BTF] && features->has[FEATURE_CGROUP2];
}

/* The mechanism of a fault on this kernel; NULL when it cannot be had. */
static const char *mechanism(const struct features *features, enum chaos_fault fault)
{
	if (!base_is_there(features))
		return NULL;
	switch (fault) {
	case CHAOS_DROP:
	case CHAOS_ACCEPT_SILENCE:
	case CHAOS_TLS_STALL:
	case CHAOS_HALF_OPEN:
		return features->has[FEATURE_TCX] ? "arriving packets at the socket, leaving ones by tc (tcx)"
						  : "arriving packets at the socket, leaving ones by tc (clsact)";
	case CHAOS_BREAK_AFTER:
		return features->has[FEATURE_TCX] ? "a tc program (tcx) cuts the packet that goes beyond"
						  : "a tc program (clsact) cuts the packet that goes beyond";
	case CHAOS_STATUS:
	case CHAOS_BODY:
	case CHAOS_HANG:
	case CHAOS_ERROR_EVENT:
	case CHAOS_DROP_DONE:
	case CHAOS_GARBLE:
		return features->has[FEATURE_TCX] ? "a tc program (tcx) changes the answer where it arrives"
						  : "a tc program (clsact) changes the answer where it arrives";
	case CHAOS_GRPC:
		return features->has[FEATURE_TCX]
			       ? "a tc program (tcx) puts a reset of the stream before its first message"
			       : "a tc program (clsact) puts a reset of the stream before its first message";
	case CHAOS_DELAY:
		return features->has[FEATURE_FQ] ? "the first packet of a request is stamped, fq holds it" : NULL;
	case CHAOS_REFUSE:
		return features->has[FEATURE_SET_RETVAL] ? "the connect hook sets the errno"
							 : "the connect hook rewrites the destination";
	case CHAOS_RESET:
		return features->has[FEATURE_TCX] ? "a tc program (tcx) turns a packet into a reset"
						  : "a tc program (clsact) turns a packet into a reset";
	case CHAOS_DNS:
		return features->has[FEATURE_TCX] ? "a tc program (tcx) makes a question its own answer"
						  : "a tc program (clsact) makes a question its own answer";
	case CHAOS_DUPLICATE:
		return features->has[FEATURE_TCX] ? "a tc program (tcx) sends a copy"
						  : "a tc program (clsact) sends a copy";
	case CHAOS_CORRUPT:
		return features->has[FEATURE_TCX] ? "a tc program (tcx) changes a byte of the payload"
						  : "a tc program (clsact) changes a byte of the payload";
	case CHAOS_RATE:
	case CHAOS_TOKENS:
		return !features->has[FEATURE_FQ] ? NULL
		       : !features->has[FEATURE_IFB]
			       ? "packets that leave are stamped one behind the other, fq holds them"
		       : features->ifb_redirect ? "packets are stamped one behind the other, fq holds them; those that "
						  "arrive in an ifb"
						: "packets are stamped one behind the other, fq holds them; those that "
						  "arrive in an ifb (by act_mirred)";
	case CHAOS_ERRNO:
		return features->has[FEATURE_FMOD_RET] ? "programs in the security hooks (fmod_ret) return the error"
						       : NULL;
	case CHAOS_REORDER:
		return features->has[FEATURE_FQ] ? "a copy of the packet waits in fq" : NULL;
	case CHAOS_GPU_OOM:
	case CHAOS_CALL:
		if (!features->has[FEATURE_PROBE])
			return NULL;
		if (features->has[FEATURE_PROBE_REGISTERS])
			return "a probe on the function sends it back at once";
		return features->has[FEATURE_SIGNAL] ? "a probe on the function stops it, a tracing process sends it "
						       "back"
						     : NULL;
	default:
		return NULL;
	}
}

static struct table *fault_table(const struct features *features, bool *all)
{
	struct table *table = table_new(fault_columns, sizeof(fault_columns) / sizeof(fault_columns[0]));

	*all = true;
	for (int i = 0; i < CHAOS_FAULT_COUNT; i++) {
		const char *how = mechanism(features, i);

		table_row(table);
		table_text(table, 0, fault_names[i]);
		table_bool(table, 1, how != NULL);
		table_color(table, 1, how ? "green" : "red");
		if (how)
			table_text(table, 2, how);
		else
			*all = false;
	}
	return table;
}

static void print_json(const struct features *features, const struct table *feature, const struct table *fault,
		       bool all)
{
	struct json json;

	json_begin(&json, stdout, false);
	json_open_object(&json, NULL);
	json_text(&json, "kernel", features->kernel);
	if (features->cgroup2_mount[0])
		json_text(&json, "cgroup2_mount", features->cgroup2_mount);
	else
		json_null(&json, "cgroup2_mount");
	json_bool(&json, "all", all);
	table_json(feature, &json, "features");
	table_json(fault, &json, "faults");
	json_close_object(&json);
	json_end(&json);
}

static void print_text(const struct features *features, const struct table *feature, const struct table *fault)
{
	printf("kernel %s, cgroup v2 %s%s\n\n", features->kernel, features->cgroup2_mount[0] ? "at " : "not mounted",
	       features->cgroup2_mount);
	table_print(feature, stdout);
	for (int i = 0; i < FEATURE_COUNT; i++) {
		if (!features->has[i] && features->why_not[i][0])
			printf("%s: %s\n", feature_names[i], features->why_not[i]);
	}
	putchar('\n');
	table_print(fault, stdout);
}

static int run(int argc, char **argv)
{
	struct table *feature, *fault;
	struct features features;
	bool all;
	int rc = options_parse("doctor", &argc, &argv, NULL);

	if (!rc)
		rc = options_operands("doctor", argc, argv, 0, 0, "nothing");
	if (!rc)
		rc = command_begin("doctor");
	if (rc)
		return rc;
	features_probe(&features);
	features_probe_ifb(&features);
	feature = feature_table(&features);
	fault = fault_table(&features, &all);
	if (options_json)
		print_json(&features, feature, fault, all);
	else
		print_text(&features, feature, fault);
	table_free(feature);
	table_free(fault);
	return all ? EXIT_DONE : EXIT_CANNOT;
}

const struct command cmd_doctor = {
	.name = "doctor",
	.summary = "say what this kernel can do",
	.help = help,
	.run = run,
};
