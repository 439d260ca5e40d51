// SPDX-License-Identifier: GPL-2.0-only
/*
 * `chaosbpf exec`: faults that hit one command and its children and are gone when it exits.
 *
 *   fork the command, waiting -> its cgroup -> load for that cgroup only -> start it -> serve until it ends
 *   -> read the counters -> take the faults down -> remove the cgroup -> say what was done (on standard error)
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "user/base/log.h"
#include "user/base/signals.h"
#include "user/cli/cmd.h"
#include "user/cli/options.h"
#include "user/target/exec_cgroup.h"
#include "user/target/exec_child.h"

static const char help[] = "Usage: chaosbpf exec [OPTIONS] FILE -- COMMAND [ARGUMENT...]\n"
			   "\n"
			   "Runs COMMAND under the rules in FILE. They hit COMMAND and its children and\n"
			   "nothing else, are armed before it starts and gone when it exits. Under sudo the\n"
			   "command runs as the user who called sudo.\n"
			   "\n"
			   "  --observe      count what would be hit, inject nothing\n"
			   "  --duration T   every rule lasts T (30s, 5m, 1h30m), whatever the file says\n"
			   "  --endpoints F  your own presets, see chaosbpf endpoints\n"
			   "  --json         the summary, on standard error, for programs\n"
			   "\n"
			   "  sudo chaosbpf exec rules/slow-embeddings.yaml -- pytest tests/fallback\n"
			   "\n"
			   "Exit code: the command's own, 128 + N when signal N killed it, 127 when it was\n"
			   "not found, 126 when it could not be run.\n";

struct run {
	struct exec_child child;
	struct exec_cgroup cgroup;
	struct load *load;
	struct load_result result;
	struct status *status; /* the counters when the command ended */
	int signals;
	int wake; /* epoll: the command has ended, or a signal came */
	double seconds;
	size_t moved;
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int watch(struct run *run, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(run->wake, EPOLL_CTL_ADD, fd, &event);
}

static int open_wake(struct run *run, struct error *err)
{
	run->wake = epoll_create1(EPOLL_CLOEXEC);
	if (run->wake < 0 || watch(run, run->child.pidfd) || watch(run, run->signals))
		return error_set(err, -errno, EXIT_FAILED, "cannot wait for the command: %s", strerror(errno));
	return 0;
}

static void forward_signals(struct run *run)
{
	int from_terminal, number;

	while ((number = signals_read(run->signals, &from_terminal))) {
		/* The terminal sent it to the whole foreground group: the command has it already. */
		if (!from_terminal)
			syscall(SYS_pidfd_send_signal, run->child.pidfd, number, NULL, 0);
	}
}

static bool has_ended(const struct run *run)
{
	struct pollfd fd = { .fd = run->child.pidfd, .events = POLLIN };

	return poll(&fd, 1, 0) == 1;
}

/* Until the command ends. When the rules end earlier, or cannot be served, the command still has its time. */
static void serve(struct run *run)
{
	bool serving = true;
	struct error err;

	while (!has_ended(run)) {
		struct pollfd fd = { .fd = run->wake, .events = POLLIN };

		if (serving) {
			int rc = load_serve(run->load, -1, run->wake, &err);

			if (rc < 0)
				log_error(&err);
			serving = rc == 0;
		} else {
			poll(&fd, 1, -1);
		}
		forward_signals(run);
	}
}

static int prepare(struct run *run, char **argv, struct error *err)
{
	struct features features;
	struct exec_user user;
	int rc;

	rc = exec_user_find(&user, err);
	if (rc < 0)
		return rc;
	rc = run->signals = signals_open(err);
	if (rc < 0)
		return rc;
	/* First of all, so that the command inherits nothing of what loading does to this process. */
	rc = exec_child_prepare(&run->child, &user, argv, err);
	if (rc < 0)
		return rc;
	features_probe(&features);
	if (!features.has[FEATURE_CGROUP2]) {
		error_set(err, -ENOSYS, EXIT_CANNOT, "exec needs a cgroup v2 hierarchy: %s",
			  features.why_not[FEATURE_CGROUP2]);
		error_hint(err, "mount one: mount -t cgroup2 none /sys/fs/cgroup/unified");
		rc = -ENOSYS;
	}
	if (!rc)
		rc = exec_cgroup_make(features.cgroup2_mount, &run->cgroup, err);
	if (!rc)
		rc = exec_cgroup_add(&run->cgroup, run->child.pid, err);
	if (!rc)
		rc = open_wake(run, err);
	return rc;
}

/* Whatever of it exists. The first error is the one that is told; later ones are printed here. */
static void take_down(struct run *run)
{
	struct error err;

	if (run->child.pid > 0 && run->child.go_fd >= 0)
		exec_child_cancel(&run->child);
	if (run->load && load_end(run->load, &err) < 0)
		log_error(&err);
	if (run->cgroup.path[0] && exec_cgroup_remove(&run->cgroup, &run->moved, &err) < 0)
		log_error(&err);
	if (run->wake >= 0)
		close(run->wake);
	if (run->signals >= 0)
		close(run->signals);
}

static void print_json(const struct run *run, int code)
{
	struct json json;
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return;
	json_begin(&json, out, false);
	json_open_object(&json, NULL);
	json_count(&json, "exit", code);
	json_number(&json, "took_s", run->seconds);
	json_count(&json, "moved", run->moved);
	json_key(&json, "status");
	status_json(&json, run->status);
	json_close_object(&json);
	json_end(&json);
	fclose(out);
	log_block(text);
	free(text);
}

static uint64_t injected(const struct status *status)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < status->rules_count; i++)
		sum += status->rules[i].stats.injected;
	return sum;
}

static void print_text(const struct run *run, const char *command)
{
	struct table *table;
	char took[64], *text;

	seconds_text(took, sizeof(took), run->seconds);
	log_note("'%s' ran for %s under %zu %s", command, took, run->status->rules_count,
		 run->status->rules_count == 1 ? "rule" : "rules");
	table = status_table(run->status);
	text = table_string(table, stderr);
	log_block(text);
	free(text);
	table_free(table);
	if (run->status->observe)
		log_note("the rules were loaded to observe: nothing was injected");
	else if (injected(run->status) == 0)
		log_note("nothing was injected: a green test proves nothing yet");
	if (run->status->totals.events_dropped)
		log_note("%llu events found no room; the counters are exact",
			 (unsigned long long)run->status->totals.events_dropped);
}

static void summarize(const struct run *run, const char *command, int code)
{
	if (run->moved)
		log_note("%zu %s of '%s' still %s, moved back to the caller's cgroup, without faults", run->moved,
			 run->moved == 1 ? "process" : "processes", command, run->moved == 1 ? "lives" : "live");
	if (!run->status)
		return;
	if (run->status->generation != run->result.generation)
		log_note("the rules were over or replaced before '%s' ended", command);
	else if (options_json)
		print_json(run, code);
	else
		print_text(run, command);
}

static int exec_rules(struct rules *rules, struct load_options *options, char **argv)
{
	struct run run = { .child = { .go_fd = -1 }, .cgroup = { .fd = -1 }, .signals = -1, .wake = -1 };
	struct error err;
	double started;
	int code;

	if (prepare(&run, argv, &err) < 0)
		goto fail;
	options->only_cgroup = run.cgroup.name;
	if (load_locked(rules, options, &run.load, &run.result, &err) < 0)
		goto fail;
	started = now();
	if (exec_child_start(&run.child, argv[0], &err) < 0) {
		exec_child_wait(&run.child);
		goto fail;
	}
	serve(&run);
	code = exec_child_wait(&run.child);
	run.seconds = now() - started;
	/* Before the faults go: their counters go with them. */
	if (status_read(&run.status, &err) < 0)
		log_error(&err);
	take_down(&run);
	summarize(&run, argv[0], code);
	status_free(run.status);
	return code;

fail:
	code = log_error(&err);
	take_down(&run);
	return code;
}

/* The words behind "--", or NULL. */
static char **find_command(int *argc, char **argv)
{
	for (int i = 0; i < *argc; i++) {
		if (strcmp(argv[i], "--") == 0) {
			*argc = i;
			return argv[i + 1] ? &argv[i + 1] : NULL;
		}
	}
	return NULL;
}

static int run(int argc, char **argv)
{
	struct rules_options rules_options = { 0 };
	struct load_options options = { .command = "exec", .foreground = true };
	const struct option_spec specs[] = {
		{ "observe", OPTION_FLAG, &options.observe, NULL },
		{ "duration", OPTION_DURATION, &rules_options.duration_ns, NULL },
		{ "endpoints", OPTION_TEXT, &rules_options.endpoints, NULL },
		{ 0 },
	};
	char **command = find_command(&argc, argv);
	struct rules *rules;
	struct error err;
	int rc;

	/* First: without the "--" the command's options would be taken for ours. */
	if (!command)
		return log_fail(EXIT_USAGE, "write it as: chaosbpf exec FILE -- COMMAND",
				"exec needs '--' and a command after it");
	rc = options_parse("exec", &argc, &argv, specs);
	if (!rc)
		rc = options_operands("exec", argc, argv, 1, 1, "a rules file");
	if (!rc)
		rc = command_begin("exec");
	if (rc)
		return rc;
	if (rules_load(argv[0], &rules_options, &rules, &err) < 0)
		return log_error(&err);
	rc = exec_rules(rules, &options, command);
	rules_free(rules);
	return rc;
}

const struct command cmd_exec = {
	.name = "exec",
	.summary = "run a command under faults that hit it and nothing else",
	.help = help,
	.run = run,
	.runs_another = true,
};
