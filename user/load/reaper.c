// SPDX-License-Identifier: GPL-2.0-only
/*
 * Serving a load until it is over, in the foreground or by the reaper in the background: events are moved to the log,
 * devices and namespaces that appear are prepared, and at the end everything is taken down. No fault depends on it: the
 * kernel ends them by itself, and whatever command comes next cleans up if the reaper was killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "user/base/clock.h"
#include "user/base/vector.h"
#include "user/engine/whole.h"
#include "user/load/load_internal.h"
#include "user/state/lock.h"

#define TICK_MS         250           /* how often it is asked whether the load is over; events come at once */
#define LOOK_NS         1000000000ULL /* how often devices are looked through without being told to */
#define DRAIN_MARGIN_NS 2000000000ULL

static void on_notice(const struct chaos_event *event, void *arg)
{
	struct load *load = arg;

	(void)event;
	load->appeared = true;
	follow_hint(&load->follow, boot_ns());
}

/* Looks for what is not prepared yet. What cannot be is left: its packets are counted as skipped. */
static void prepare_new(struct load *load)
{
	struct process_list processes;
	struct error ignored;

	load->appeared = false;
	if (!prepare_needed(load->rules))
		return;
	if (process_list(load->features.cgroup2_mount, &processes, &ignored))
		return;
	if (engine_follow(&load->engine, load->tables) == 0)
		prepare_devices(&load->prepare, &processes, false, &ignored);
	process_list_free(&processes);
}

/* Files that have been opened since, for faults by probes; with `all` processes, too. */
static void look_at_probes(struct load *load, bool all)
{
	struct process_list processes;
	struct error ignored;

	if (!probes_needed(load->rules))
		return;
	if (all && process_list(load->features.cgroup2_mount, &processes, &ignored) == 0) {
		if (engine_follow(&load->engine, load->tables) == 0)
			probes_look(&load->probes, &processes, false, &ignored);
		process_list_free(&processes);
	} else {
		probes_look(&load->probes, NULL, false, &ignored);
	}
	probes_follow(&load->probes);
}

/* Is the load of the record no longer ours: stopped, or replaced? */
static bool is_replaced(const struct load *load)
{
	struct store_record now;
	struct error ignored;

	return store_read_record(&now, &ignored) != 0 || now.generation != load->record.generation;
}

/* Somebody has taken a part of it away. Rules are asked for each time, as they cost little. */
static int check_whole(const struct load *load, bool all, struct error *err)
{
	int ret = 0;

	if (!load->options.whole)
		return 0;
	if (all)
		ret = programs_whole(&load->engine, err);
	if (all && !ret)
		ret = devices_whole(&load->prepare, err);
	return ret ?: rules_whole(&load->engine, load->rules, err);
}

int load_whole(const struct load *load, struct error *err)
{
	if (is_replaced(load))
		return error_set(err, -ECANCELED, EXIT_FAILED, "somebody has taken the load away");
	return check_whole(load, true, err);
}

/* An answer inside TLS is counted when its request leaves: the last one of max-hits is made all the same, and what is begun ends. */
static bool owes_answers(const struct load *load, uint64_t now)
{
	struct chaos_vector unloaded;

	if (now >= load->schedule.end_ns + DRAIN_MARGIN_NS || !engine_owes_answers(&load->engine))
		return false;
	return engine_unloaded(&load->engine, &unloaded) || !has_all(&unloaded, load->rules->count);
}

/* Over: the last rule has ended, and nothing is held any more (or its time has passed by far). */
static bool is_over(const struct load *load)
{
	uint64_t now = boot_ns(), longest = rules_longest_delay(load->rules);

	if (now < load->schedule.end_ns &&
	    (!engine_all_finished(&load->engine, load->rules->count) || probes_hold(&load->probes)))
		return false;
	if (owes_answers(load, now))
		return false;
	if (!longest || now > load->schedule.end_ns + longest + DRAIN_MARGIN_NS)
		return true;
	return prepare_backlog(&load->prepare) == 0;
}

/* Returns as load_serve(). */
static int serve(struct load *load, double seconds, int wake_fd, struct error *err)
{
	uint64_t until = seconds < 0 ? UINT64_MAX : boot_ns() + (uint64_t)(seconds * 1e9);
	uint64_t next_tick = 0, next_look = 0;
	struct pollfd fds[3] = {
		{ .fd = load->log.ring_fd, .events = POLLIN },
		{ .fd = wake_fd, .events = POLLIN },
		{ .fd = load->follow.fd, .events = POLLIN },
	};

	for (;;) {
		uint64_t now;
		int ret = poll(fds, 3, TICK_MS);

		if (ret < 0 && errno != EINTR)
			return error_set(err, -errno, EXIT_FAILED, "cannot wait: %s", strerror(errno));
		if (ret > 0 && fds[0].revents)
			eventlog_move(&load->log);
		if (ret > 0 && fds[1].revents)
			return 0;
		now = boot_ns();
		if (ret > 0 && fds[2].revents)
			follow_hear(&load->follow, now);
		follow_look(&load->follow, load, now);
		if (now >= next_tick) {
			if (is_replaced(load))
				return 1;
			ret = check_whole(load, now >= next_look, err);
			if (ret || is_over(load))
				return ret ?: 1;
			next_tick = now + TICK_MS * 1000000ULL;
			look_at_probes(load, now >= next_look);
		}
		if (load->appeared || now >= next_look) {
			prepare_new(load);
			next_look = now + LOOK_NS;
		}
		if (now >= until)
			return 0;
	}
}

int load_serve(struct load *load, double seconds, int wake_fd, struct error *err)
{
	int ret;

	load->log.on_notice = on_notice;
	load->log.arg = load;
	follow_open(&load->follow, load);
	ret = serve(load, seconds, wake_fd, err);
	follow_close(&load->follow);
	return ret;
}

/* ---- the process ----------------------------------------------------------------------------------------------------- */

static void become_daemon(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	setsid();
	if (chdir("/") < 0)
		_exit(1);
	for (int fd = 0; null >= 0 && fd < 3; fd++)
		dup2(null, fd);
	prctl(PR_SET_NAME, "chaosbpf");
	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
}

static void reap(struct load *load)
{
	struct error ignored;
	int lock;

	load_serve(load, -1, -1, &ignored);
	assist_stop(&load->probes.assist);
	eventlog_move(&load->log);
	for (;;) {
		if (is_replaced(load))
			return;
		lock = lock_take(1000, &ignored);
		if (lock >= 0)
			break;
	}
	if (!is_replaced(load) && store_read_record(&load->record, &ignored) == 0) {
		eventlog_move(&load->log);
		load_finish(&load->record, &ignored);
	}
	lock_release(lock);
}

pid_t reaper_start(struct load *load, struct error *err)
{
	int ready[2];
	pid_t child;
	char byte;

	if (pipe2(ready, O_CLOEXEC) < 0)
		return error_set(err, -errno, EXIT_FAILED, "cannot make a pipe: %s", strerror(errno));
	child = fork();
	if (child == 0) {
		/* Twice, so that nobody waits for it; the lock of the command is not ours to hold. */
		if (fork() != 0)
			_exit(0);
		close(ready[0]);
		become_daemon();
		lock_forget();
		load->record.reaper = process_id_of(getpid());
		/* It was possible a moment ago; what is not any more is counted as skipped. */
		if (probes_need_assist(load->rules, &load->features) && !load->options.observe)
			probes_trace(&load->probes, err);
		store_write_record(&load->record, err);
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		close(ready[1]);
		reap(load);
		_exit(0);
	}
	close(ready[1]);
	if (child > 0)
		waitpid(child, NULL, 0);
	if (child < 0 || read(ready[0], &byte, 1) != 1) {
		close(ready[0]);
		return error_set(err, -EAGAIN, EXIT_FAILED, "cannot start the reaper");
	}
	close(ready[0]);
	load->probes.handed_over = true;
	return child;
}
