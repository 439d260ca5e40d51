// SPDX-License-Identifier: GPL-2.0-only
/* The loop of a run: the time goes on, answers come, the phases say what is next. */
#include "user/experiment/run.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "user/base/log.h"
#include "user/base/signals.h"
#include "user/state/button.h"
#include "user/experiment/run_internal.h"

#define TICK_NS    50000000ULL   /* at least so often it is asked whether the faults are still there */
#define COUNTER_NS 2000000000ULL /* how often counters are read */
#define MAX_FDS    64

uint64_t run_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

static void on_told(const struct probe_answer *answer, void *arg)
{
	record_sample(arg, answer);
}

/* Everything that has to be there before the first probe; what is there is taken away by take_down(). */
static int set_up(struct run *run, struct error *err)
{
	const struct experiment *e = run->experiment;
	int ret;

	run->actions = calloc(e->steps_count, sizeof(*run->actions));
	run->attempts = calloc(e->probes_count, sizeof(*run->attempts));
	run->good = calloc(e->probes_count, sizeof(*run->good));
	if (!run->actions || !run->attempts || !run->good)
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	ret = run->signals = signals_open(err);
	if (ret < 0)
		return ret;
	/* A run that is suspended would leave its faults to the deadlines alone. */
	signal(SIGTSTP, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	/* First of all, so that it has none of what follows. */
	ret = holder_start(&run->holder, e, err);
	if (!ret)
		run->button = ret = button_listen(err);
	ret = ret < 0 ? ret : samples_open(&run->samples, e->probes_count, err);
	ret = ret ?: web_open(&run->web, err);
	ret = ret ?: watch_open(run, err);
	return ret ?: prober_open(e, run->web, on_told, run, run_now(), &run->prober, err);
}

static void take_down(struct run *run)
{
	holder_stop(&run->holder);
	web_close(run->web);
	prober_close(run->prober);
	watch_close(&run->watch);
	steps_free(run);
	samples_close(&run->samples);
	if (run->signals >= 0)
		close(run->signals);
	if (run->button >= 0)
		close(run->button);
	free(run->attempts);
	free(run->good);
	free(run->rules);
}

static void on_phase(struct run *run, uint64_t now)
{
	watch_read(run, now);
	record_phase(run);
	show_phase(run, now);
}

/* Of what was begun before this everything is known. */
static uint64_t settled(const struct run *run, uint64_t now)
{
	uint64_t asked = prober_settled(run->prober, now), seen = watch_settled(&run->watch, now);

	return asked < seen ? asked : seen;
}

/* What the phases say, until they wait. */
static bool follow_orders(struct run *run, uint64_t now)
{
	for (;;) {
		enum phase before = run->phases.phase;
		enum order order = phases_tick(&run->phases, now, settled(run, now));

		if (order == ORDER_ROLL_BACK)
			steps_roll_back(run, now); /* before anything is written or drawn */
		if (run->phases.phase != before)
			on_phase(run, now);
		if (order == ORDER_STEP)
			step_begin(run, now);
		if (order == ORDER_END)
			return false;
		if (order == ORDER_WAIT && run->phases.phase == before)
			return true;
	}
}

static void read_wishes(struct run *run)
{
	int number;

	while ((number = signals_read(run->signals, NULL)))
		phases_abort(&run->phases, true, "ended by %s", number == SIGINT ? "Ctrl-C" : strsignal(number));
	if (button_pressed(run->button))
		phases_abort(&run->phases, true, "ended by 'chaosbpf stop'");
}

static void read_counters(struct run *run, uint64_t now)
{
	if (!run->loaded || run->loading || run->over || now < run->look_ns)
		return;
	record_rules(run);
	run->look_ns = now + COUNTER_NS;
}

static void wait_for_news(struct run *run, uint64_t now, uint64_t next)
{
	struct pollfd fds[MAX_FDS];
	size_t count = 0;
	uint64_t most = now + TICK_NS;

	next = next < most ? next : most;
	fds[count++] = (struct pollfd){ .fd = run->signals, .events = POLLIN };
	fds[count++] = (struct pollfd){ .fd = run->button, .events = POLLIN };
	if (run->holder.fd >= 0)
		fds[count++] = (struct pollfd){ .fd = run->holder.fd, .events = POLLIN };
	count += steps_fds(run, fds + count, MAX_FDS - count);
	count += prober_fds(run->prober, fds + count, MAX_FDS - count);
	web_poll(run->web, fds, count, next > now ? (int)((next - now + 999999) / 1000000) : 0);
}

static uint64_t earliest(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void loop(struct run *run)
{
	uint64_t now = run_now(), next;

	run->began_ns = now;
	phases_begin(&run->phases, run->experiment, &run->samples, now);
	on_phase(run, now);
	for (;;) {
		now = run_now();
		read_wishes(run);
		steps_news(run, now);
		steps_watch(run, now);
		next = prober_tick(run->prober, now);
		next = earliest(next, watch_tick(run, now));
		next = earliest(next, steps_tick(run, now));
		if (!follow_orders(run, now))
			return;
		read_counters(run, now);
		next = earliest(next, show_tick(run, now));
		wait_for_news(run, now, next);
	}
}

void run_experiment(const struct experiment *experiment, const struct run_options *options, struct run_outcome *outcome)
{
	struct run run = {
		.experiment = experiment,
		.options = options,
		.holder = { .fd = -1 },
		.control_fd = -1,
		.signals = -1,
		.button = -1,
		.rollback_ms = NAN,
	};
	struct error err;

	*outcome = (struct run_outcome){ .verdict = VERDICT_ERROR };
	if (set_up(&run, &err) < 0) {
		outcome->exit = log_error(&err);
		take_down(&run);
		return;
	}
	record_begin(&run);
	show_begin(&run);
	loop(&run);
	if (run.phases.rolled_back_ns)
		run.rollback_ms = (double)(run.phases.rolled_back_ns - run.phases.roll_back_ns) / 1e6;
	record_end(&run);
	(options->json ? show_json : show_result)(&run);
	outcome->exit = run.phases.exit;
	outcome->verdict = run.phases.verdict;
	outcome->id = run.writer_failed ? 0 : run.id;
	take_down(&run);
}
