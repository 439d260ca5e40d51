// SPDX-License-Identifier: GPL-2.0-only
/* The method at work: what each step does, and taking all of it back. */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "user/experiment/run_internal.h"
#include "user/state/store.h"

static const struct step *step_of(const struct action *action)
{
	return &action->run->experiment->steps[action->step];
}

static void fail(struct run *run, size_t step, const struct error *err)
{
	struct error told = *err;

	experiment_error_at(run->experiment, run->experiment->steps[step].mark, &told, "%s", err->text);
	told.exit = err->exit;
	phases_fail(&run->phases, &told);
}

/* What a step did, in words; `how` may be empty. */
static void note_action(struct run *run, size_t step, const char *how)
{
	record_note(run, MOMENT_ACTION, "%s%s%s", run->experiment->steps[step].title, how[0] ? ": " : "", how);
}

static void mark_broken(struct run *run, size_t step, uint64_t now)
{
	if (step_injects(run->experiment, &run->experiment->steps[step]))
		phases_broken(&run->phases, now);
}

/* The present step of the method, as far as it is that one. */
static void done(struct action *action)
{
	action->busy = false;
	if (action->run->phases.phase == PHASE_INJECT && action->run->phases.step == action->step)
		phases_step_done(&action->run->phases);
}

/* ---- rules ---- */

static void order_load(struct run *run)
{
	struct error err;

	run->loading = true;
	if (holder_load(&run->holder, run->load_step, &err) < 0)
		fail(run, run->load_step, &err);
}

static void order_end(struct run *run)
{
	struct error err;

	run->loading = true;
	if (holder_end(&run->holder, &err) < 0)
		run->loading = false; /* it is gone, and its faults with it: its news say so */
}

static void begin_rules(struct run *run, size_t step)
{
	run->load_step = step;
	run->load_next = run->loaded;
	if (run->loaded)
		order_end(run);
	else
		order_load(run);
}

static void forget_load(struct run *run)
{
	run->loaded = false;
	if (run->control_fd >= 0)
		close(run->control_fd);
	run->control_fd = -1;
}

static void on_loaded(struct run *run, const struct holder_news *news, uint64_t now)
{
	struct action *action = &run->actions[run->load_step];
	const struct step *step = step_of(action);
	char how[80];

	run->loading = run->phases.phase == PHASE_ROLLBACK; /* then the order to end it is on its way */
	if (news->ret) {
		fail(run, run->load_step, &news->err);
		return;
	}
	run->loaded = true;
	run->generation = news->result.generation;
	run->control_fd = store_open_pin(0, "chaos_control");
	run->look_ns = now;
	mark_broken(run, run->load_step, now);
	snprintf(how, sizeof(how), "armed after %.0f ms", news->result.took_ms);
	note_action(run, run->load_step, how);
	if (step->for_ns)
		action->until_ns = now + step->for_ns;
	else
		done(action);
}

/* What was measured from some moment on was measured without the faults, or without some of them. */
static void tell_lost(struct run *run, uint64_t now, const char *what)
{
	char text[400];

	snprintf(text, sizeof(text), "%.300s (noticed %.3g s after the faults began)", what,
		 run->phases.broken_ns ? (double)(now - run->phases.broken_ns) / 1e9 : 0);
	record_note(run, MOMENT_NOTE, "%s", text);
	show_note(run, text);
	phases_lost(&run->phases, text);
}

/* Of the faults that were in force until now. After another verdict, as that of `stop`, it says nothing new. */
static void on_missing(struct run *run, const struct holder_news *news, uint64_t now)
{
	if (run->phases.verdict != VERDICT_RUNNING)
		return;
	if (news->whole == -ECANCELED)
		phases_abort(&run->phases, true, ENDED_ELSEWHERE);
	else
		tell_lost(run, now, news->missing.text);
}

static void on_ended(struct run *run, const struct holder_news *news, uint64_t now)
{
	record_rules(run);
	record_events(run);
	forget_load(run);
	if (news->whole)
		on_missing(run, news, now);
	if (run->over) {
		run->over = false;
		return; /* that is no answer to an order */
	}
	run->loading = false;
	if (run->phases.phase == PHASE_ROLLBACK) {
		phases_rolled_back(&run->phases, now);
	} else if (run->load_next) {
		run->load_next = false;
		order_load(run);
	} else {
		done(&run->actions[run->load_step]);
	}
}

/* Nothing is in force any more, and nobody here has asked for that: by hand, or it was lost. */
static void on_gone(struct run *run, uint64_t now, bool by_hand, const char *what)
{
	forget_load(run);
	run->loading = false;
	if (run->phases.phase == PHASE_ROLLBACK)
		phases_rolled_back(&run->phases, now);
	else if (by_hand)
		phases_abort(&run->phases, true, "%s", what);
	else
		tell_lost(run, now, what);
}

/* The generation that is armed; 0: none is, as after `chaosbpf stop`. */
static uint32_t armed(const struct run *run)
{
	struct chaos_control control = { 0 };
	uint32_t zero = 0;

	return run->control_fd >= 0 && bpf_map_lookup_elem(run->control_fd, &zero, &control) == 0 ? control.generation
												  : 0;
}

static void on_taken(struct run *run, uint64_t now)
{
	const uint32_t present = armed(run);

	if (present && present != run->generation)
		on_gone(run, now, false, "another load took the place of the faults");
	else
		on_gone(run, now, true, ENDED_ELSEWHERE);
}

/* The rest is still there until the roll back; `stop` takes things away one after the other. */
static void on_part_lost(struct run *run, uint64_t now, const char *what)
{
	if (!run->loaded || run->loading || run->phases.phase == PHASE_ROLLBACK)
		return;
	if (armed(run) == run->generation)
		tell_lost(run, now, what);
	else
		on_taken(run, now);
}

/* After a holder that was killed. As long as we live others take its load for ours, and leave it alone. */
static void clean_up(struct run *run)
{
	struct store_record record;
	struct stop_result result;
	struct error ignored;

	if (run->loaded && store_read_record(&record, &ignored) == 0 && record.generation == run->generation)
		load_stop(&result, &ignored);
	else
		state_tidy(&ignored);
}

static void on_over(struct run *run)
{
	run->over = true;
	record_note(run, MOMENT_NOTE, "the rules have ended by themselves");
	show_note(run, "the rules have ended by themselves, before the roll back");
}

static void on_news(struct run *run, const struct holder_news *news, uint64_t now)
{
	switch (news->news) {
	case NEWS_LOADED:
		on_loaded(run, news, now);
		break;
	case NEWS_ENDED:
		if (news->ret)
			show_note(run, news->err.text);
		on_ended(run, news, now);
		break;
	case NEWS_OVER:
		if (run->loaded)
			on_over(run);
		break;
	case NEWS_STOPPED:
		if (run->loaded)
			on_taken(run, now);
		break;
	case NEWS_LOST:
		on_part_lost(run, now, news->err.text);
		break;
	case NEWS_GONE:
		clean_up(run);
		on_gone(run, now, run->loading, news->err.text); /* `stop` kills who is about to load */
		break;
	}
}

void steps_news(struct run *run, uint64_t now)
{
	struct holder_news news;

	while (holder_read(&run->holder, &news))
		on_news(run, &news, now);
}

void steps_watch(struct run *run, uint64_t now)
{
	if (!run->loaded || run->loading || run->over || run->control_fd < 0 || armed(run) == run->generation)
		return;
	steps_news(run, now); /* when the rules have ended by themselves, that is known by now */
	if (run->loaded && !run->loading && !run->over)
		on_taken(run, now);
}

/* ---- requests, commands, loads ---- */

static void on_answer(const struct web_answer *answer, void *arg)
{
	struct action *action = arg;
	struct run *run = action->run;
	const struct step *step = step_of(action);
	struct error err;
	char reason[256], how[320];

	if (!action->busy)
		return; /* rolled back meanwhile */
	if (!web_expected(&step->expect, answer, reason, sizeof(reason)) && step->must) {
		error_set(&err, -EPROTO, EXIT_FAILED, "%s: %s", step->title, reason);
		fail(run, action->step, &err);
		return;
	}
	if (answer->error)
		snprintf(how, sizeof(how), "%s", answer->error);
	else
		snprintf(how, sizeof(how), "status %d after %.0f ms", answer->status, answer->latency_ms);
	note_action(run, action->step, how);
	done(action);
}

static void begin_http(struct action *action)
{
	const struct step *step = step_of(action);
	struct error err;

	if (web_start(action->run->web, &step->request, step->timeout_ns, on_answer, action) == 0)
		return;
	error_set(&err, -ENOMEM, EXIT_FAILED, "out of memory");
	fail(action->run, action->step, &err);
}

static void begin_exec(struct action *action, uint64_t now)
{
	const struct step *step = step_of(action);
	struct error err;

	if (spawn(&action->spawned, step->command, &err) < 0) {
		fail(action->run, action->step, &err);
		return;
	}
	action->until_ns = step->background ? 0 : now + step->timeout_ns;
	if (step->background)
		note_action(action->run, action->step, "started");
}

static void command_ended(struct action *action, int code)
{
	const struct step *step = step_of(action);
	struct error err;
	char how[80];

	snprintf(how, sizeof(how), code == 127 ? "command not found" : "exit code %d", code);
	note_action(action->run, action->step, how);
	if ((unsigned int)code == step->expect.exit) {
		if (step->background)
			action->busy = false;
		else
			done(action);
		return;
	}
	action->busy = false;
	error_set(&err, -ECHILD, EXIT_FAILED, "%s: %s", step->title, how);
	fail(action->run, action->step, &err);
}

static void look_at_command(struct action *action, uint64_t now)
{
	const struct step *step = step_of(action);
	struct error err;
	int code;

	if (spawn_ended(&action->spawned, &code)) {
		command_ended(action, code);
	} else if (action->until_ns && now >= action->until_ns) {
		spawn_kill(&action->spawned);
		action->busy = false;
		error_set(&err, -ETIMEDOUT, EXIT_FAILED, "%s: took longer than %.3g s, and was killed", step->title,
			  (double)step->timeout_ns / 1e9);
		fail(action->run, action->step, &err);
	}
}

static void tell_load(const struct probe_answer *answer, void *arg);

static void begin_load(struct action *action, uint64_t now)
{
	struct error err;

	if (generator_open(step_of(action), action->run->web, tell_load, action, now, &action->generator, &err) < 0)
		fail(action->run, action->step, &err);
}

static void tell_load(const struct probe_answer *answer, void *arg)
{
	struct action *action = arg;

	record_sample(action->run, answer);
}

static void load_ended(struct action *action)
{
	struct generator_sum sum = generator_sum(action->generator);
	char how[160];

	snprintf(how, sizeof(how), "%llu sent, %llu answered as expected, %llu not, %llu found no room",
		 (unsigned long long)sum.sent, (unsigned long long)sum.good, (unsigned long long)sum.bad,
		 (unsigned long long)sum.held_back);
	note_action(action->run, action->step, how);
	if (step_of(action)->background)
		action->busy = false;
	else
		done(action);
}

/* ---- any step ---- */

void step_begin(struct run *run, uint64_t now)
{
	struct action *action = &run->actions[run->phases.step];
	const struct step *step = &run->experiment->steps[run->phases.step];

	*action = (struct action){ .run = run, .step = run->phases.step, .busy = true, .began_ns = now };
	action->spawned.pidfd = -1;
	show_note(run, step->title);
	if (step->kind != STEP_RULES)
		mark_broken(run, action->step, now);
	switch (step->kind) {
	case STEP_RULES:
		begin_rules(run, action->step);
		break;
	case STEP_HTTP:
		begin_http(action);
		break;
	case STEP_EXEC:
		begin_exec(action, now);
		break;
	case STEP_LOAD:
		begin_load(action, now);
		break;
	case STEP_WAIT:
		action->until_ns = now + step->for_ns;
		break;
	case STEP_COUNT:
		break;
	}
	/* It goes on beside those that follow. */
	if (step->background && run->phases.verdict == VERDICT_RUNNING)
		phases_step_done(&run->phases);
}

static uint64_t tick_one(struct action *action, uint64_t now)
{
	const struct step *step = step_of(action);
	uint64_t next = UINT64_MAX;

	if (step->kind == STEP_EXEC) {
		look_at_command(action, now);
	} else if (step->kind == STEP_LOAD && action->generator) {
		next = generator_tick(action->generator, now);
		if (generator_done(action->generator))
			load_ended(action);
	} else if (action->until_ns && now >= action->until_ns) {
		action->until_ns = 0;
		if (step->kind == STEP_RULES && action->run->loaded)
			order_end(action->run);
		else if (step->kind == STEP_WAIT || step->kind == STEP_RULES)
			done(action);
	}
	return action->busy && action->until_ns && action->until_ns < next ? action->until_ns : next;
}

uint64_t steps_tick(struct run *run, uint64_t now)
{
	uint64_t next = UINT64_MAX, one;

	for (size_t i = 0; i < run->experiment->steps_count; i++) {
		if (!run->actions[i].busy || run->phases.phase > PHASE_OBSERVE)
			continue;
		one = tick_one(&run->actions[i], now);
		next = one < next ? one : next;
	}
	return next;
}

/* The faults first, and whatever takes time after the order is given. */
void steps_roll_back(struct run *run, uint64_t now)
{
	const bool holds = run->holder.fd >= 0 && (run->loaded || run->loading);

	run->load_next = false;
	if (holds)
		order_end(run);
	for (size_t i = 0; i < run->experiment->steps_count; i++) {
		struct action *action = &run->actions[i];

		if (action->busy && action->spawned.pid)
			spawn_kill(&action->spawned);
		if (action->busy && action->generator)
			generator_stop(action->generator);
		action->busy = false;
	}
	if (!holds)
		phases_rolled_back(&run->phases, now);
}

size_t steps_fds(const struct run *run, struct pollfd *fds, size_t room)
{
	size_t count = 0;

	for (size_t i = 0; i < run->experiment->steps_count && count < room; i++) {
		if (run->actions[i].busy && run->actions[i].spawned.pid && run->actions[i].spawned.pidfd >= 0)
			fds[count++] = (struct pollfd){ .fd = run->actions[i].spawned.pidfd, .events = POLLIN };
	}
	return count;
}

void steps_free(struct run *run)
{
	for (size_t i = 0; run->actions && i < run->experiment->steps_count; i++) {
		if (run->actions[i].spawned.pid)
			spawn_kill(&run->actions[i].spawned);
		generator_close(run->actions[i].generator);
	}
	free(run->actions);
	if (run->control_fd >= 0)
		close(run->control_fd);
}
