// SPDX-License-Identifier: GPL-2.0-only
/*
 * What is seen of a run: on a terminal a bar and the numbers of the last moments in one line that is drawn again and again,
 * elsewhere a line for each phase and one every ten seconds. At the end the verdict, with what was promised and what was.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "user/experiment/run_internal.h"

#define BAR         20
#define TERMINAL_NS 500000000ULL
#define PLAIN_NS    10000000000ULL
#define RECENT_NS   10000000000ULL /* what the live line measures */

static const char *const phase_words[] = {
	[PHASE_BASELINE] = "baseline",  [PHASE_INJECT] = "inject",   [PHASE_OBSERVE] = "observe",
	[PHASE_ROLLBACK] = "roll back", [PHASE_RECOVER] = "recover", [PHASE_COOLDOWN] = "cooldown",
	[PHASE_VERDICT] = "verdict",
};

static void wipe(struct run *run)
{
	if (run->view.drawn)
		printf("\r%*s\r", (int)run->view.drawn, "");
	run->view.drawn = 0;
}

static void print_at(struct run *run, uint64_t now, const char *text)
{
	char clean[1024], time[32];
	double seconds = (double)(now - run->began_ns) / 1e9;

	if (run->view.quiet)
		return;
	wipe(run);
	text_clean(clean, sizeof(clean), text);
	snprintf(time, sizeof(time), "%02d:%02d", (int)seconds / 60, (int)seconds % 60);
	printf("%s  %s\n", time, clean);
	fflush(stdout);
}

void show_begin(struct run *run)
{
	const struct experiment *e = run->experiment;
	char clean[1024];

	run->view.quiet = run->options->json;
	run->view.terminal = isatty(STDOUT_FILENO);
	if (run->view.quiet)
		return;
	text_clean(clean, sizeof(clean), e->title ?: "");
	printf("%s%s%s\n", e->name, e->title ? ": " : "", clean);
	fflush(stdout);
}

void show_phase(struct run *run, uint64_t now)
{
	const struct experiment *e = run->experiment;
	char line[256], time[64];
	uint64_t end = phases_expected_end(&run->phases);

	if (run->phases.phase == PHASE_VERDICT || (run->phases.phase == PHASE_COOLDOWN && !e->cooldown_ns))
		return;
	seconds_text(time, sizeof(time), end > now ? (double)(end - now) / 1e9 : 0);
	snprintf(line, sizeof(line), end > now ? "%-9s  %s%s" : "%-9s", phase_words[run->phases.phase],
		 run->phases.phase == PHASE_RECOVER ? "at most " : "", time);
	print_at(run, now, line);
	run->view.next_ns = now + (run->view.terminal ? 0 : PLAIN_NS);
}

void show_note(struct run *run, const char *text)
{
	char line[600];

	snprintf(line, sizeof(line), "           %s", text);
	print_at(run, run_now(), line);
}

/* "ask 98 % p99 412 ms" */
static size_t probe_words(const struct run *run, size_t probe, uint64_t now, char *buf, size_t size)
{
	uint64_t from = now > RECENT_NS ? now - RECENT_NS : 0;
	double success = samples_measure(&run->samples, probe, MEASURE_SUCCESS, from, now);
	double p99 = samples_measure(&run->samples, probe, MEASURE_P99, from, now);
	char good[48], slow[48];

	value_words(good, sizeof(good), success, "%");
	value_words(slow, sizeof(slow), p99, "ms");
	return (size_t)snprintf(buf, size, "  %s %s p99 %s", run->experiment->probes[probe].name, good, slow);
}

static void live_words(const struct run *run, uint64_t now, char *buf, size_t size)
{
	size_t used = 0;

	for (size_t i = 0; i < run->experiment->probes_count && used < size; i++) {
		if (run->attempts[i])
			used += probe_words(run, i, now, buf + used, size - used);
	}
	if (run->rules_count && used < size)
		snprintf(buf + used, size - used, "  injected %llu", (unsigned long long)run->injected);
}

/* One column less than there are: a line that is full would wrap, and could not be drawn over. */
static int columns_of_terminal(void)
{
	struct winsize size;

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || size.ws_col < 20 ? 79 : size.ws_col - 1;
}

static void draw_bar(struct run *run, uint64_t now, const char *words)
{
	uint64_t began = run->phases.began_ns[run->phases.phase], end = phases_expected_end(&run->phases);
	double share = end > began ? (double)(now - began) / (double)(end - began) : 0;
	int full = share >= 1 ? BAR : (int)(share * BAR), len;
	char bar[BAR + 1], left[64] = "", line[700];

	memset(bar, '.', BAR);
	memset(bar, '#', (size_t)full);
	bar[BAR] = '\0';
	if (end > now)
		seconds_text(left, sizeof(left), (double)((end - now + 999999999) / 1000000000));
	wipe(run);
	snprintf(line, sizeof(line), "[%s] %s %s%s", bar, phase_words[run->phases.phase], left, words);
	len = printf("%.*s", columns_of_terminal(), line);
	run->view.drawn = len > 0 ? (size_t)len : 0;
	fflush(stdout);
}

uint64_t show_tick(struct run *run, uint64_t now)
{
	char words[512] = "";

	if (run->view.quiet)
		return UINT64_MAX;
	if (now < run->view.next_ns)
		return run->view.next_ns;
	live_words(run, now, words, sizeof(words));
	if (run->view.terminal)
		draw_bar(run, now, words);
	else
		print_at(run, now, words);
	run->view.next_ns = now + (run->view.terminal ? TERMINAL_NS : PLAIN_NS);
	return run->view.next_ns;
}

/* ---- the end ---- */

static const struct column columns[] = {
	{ "WHEN", "when", CELL_TEXT, false },
	{ "PROMISED", "promised", CELL_TEXT, false },
	{ "MEASURED", "measured", CELL_TEXT, false },
	{ "", "outcome", CELL_TEXT, false },
};

static const char *const outcome_words[] = { "not tested", "held", "FAILED" };

static void add_row(struct run *run, struct table *table, const struct finding *f)
{
	const struct experiment *e = run->experiment;
	char promised[200], measured[200], value[64];

	if (f->condition) {
		condition_text(e, f->condition, promised, sizeof(promised));
		value_words(value, sizeof(value), f->actual, measure_units[f->condition->measure]);
	} else {
		value_words(value, sizeof(value), (double)e->recovery_within_ns / 1e6, "ms");
		snprintf(promised, sizeof(promised), "recovery <= %s", value);
		value_words(value, sizeof(value), f->actual, "ms");
	}
	if (f->when == WHEN_ABORT)
		snprintf(promised + strlen(promised), sizeof(promised) - strlen(promised), " never");
	snprintf(measured, sizeof(measured), "%s%s%s", value, f->detail[0] ? ": " : "", f->detail);
	table_row(table);
	table_text(table, 0, when_names[f->when]);
	table_text(table, 1, promised);
	table_text(table, 2, measured);
	table_text(table, 3, outcome_words[f->outcome]);
	if (f->outcome == OUTCOME_FAILED)
		table_color(table, 3, "red");
}

static void print_times(const struct run *run)
{
	const struct phases *p = &run->phases;
	char degrade[64], recover[64];

	if (!p->broken_ns)
		return;
	value_words(degrade, sizeof(degrade), p->time_to_degrade_ms, "ms");
	value_words(recover, sizeof(recover), p->time_to_recover_ms, "ms");
	if (run->experiment->during.count)
		printf("time to degrade %s, ", isnan(p->time_to_degrade_ms) ? "never" : degrade);
	printf("time to recover %s, injected %llu\n", isnan(p->time_to_recover_ms) ? "not known" : recover,
	       (unsigned long long)run->injected);
}

void show_result(struct run *run)
{
	const struct phases *p = &run->phases;
	struct finding list[PHASES_MAX_FINDINGS];
	size_t count = phases_findings(p, list);
	struct table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]));
	char clean[1024];

	wipe(run);
	for (size_t i = 0; i < count; i++)
		add_row(run, table, &list[i]);
	table_print(table, stdout);
	table_free(table);
	print_times(run);
	text_clean(clean, sizeof(clean), p->reason);
	printf("%s: %s\n", p->verdict == VERDICT_WEAKNESS ? "weakness found" : verdict_names[p->verdict], clean);
	if (run->id)
		printf("run %lld: 'chaosbpf report %lld' shows it\n", (long long)run->id, (long long)run->id);
	fflush(stdout);
}

static void findings_json(struct run *run, struct json *json)
{
	struct finding list[PHASES_MAX_FINDINGS];
	size_t count = phases_findings(&run->phases, list);
	static const char *const outcomes[] = { "untested", "held", "failed" };
	char measure[RULES_MAX_NAME + 16];

	json_open_array(json, "hypotheses");
	for (size_t i = 0; i < count; i++) {
		const struct condition *c = list[i].condition;

		if (c)
			snprintf(measure, sizeof(measure), "%s.%s", run->experiment->probes[c->probe].name,
				 measure_names[c->measure]);
		json_open_object(json, NULL);
		json_text(json, "when", when_names[list[i].when]);
		json_text(json, "measure", c ? measure : "recovery");
		json_text(json, "operator", c ? comparison_names[c->comparison] : "<=");
		json_number(json, "threshold", c ? c->threshold : (double)run->experiment->recovery_within_ns / 1e6);
		json_text(json, "unit", c ? measure_units[c->measure] : "ms");
		json_number(json, "actual", list[i].actual);
		json_text(json, "outcome", outcomes[list[i].outcome]);
		if (list[i].detail[0])
			json_text(json, "detail", list[i].detail);
		else
			json_null(json, "detail");
		json_close_object(json);
	}
	json_close_array(json);
}

static void measured_json(struct run *run, struct json *json)
{
	const struct experiment *e = run->experiment;

	json_open_array(json, "probes");
	for (size_t i = 0; i < e->probes_count; i++) {
		json_open_object(json, NULL);
		json_text(json, "name", e->probes[i].name);
		json_count(json, "attempts", run->attempts[i]);
		json_count(json, "ok", run->good[i]);
		json_close_object(json);
	}
	json_close_array(json);
	json_open_array(json, "rules");
	for (size_t i = 0; i < run->rules_count; i++) {
		json_open_object(json, NULL);
		json_text(json, "name", run->rules[i].name);
		json_text(json, "sentence", run->rules[i].sentence);
		json_count(json, "seen", run->rules[i].stats.seen);
		json_count(json, "matched", run->rules[i].stats.matched);
		json_count(json, "injected", run->rules[i].stats.injected);
		json_close_object(json);
	}
	json_close_array(json);
}

static void phases_json(struct run *run, struct json *json)
{
	json_open_array(json, "phases");
	for (int i = 0; i < PHASE_COUNT; i++) {
		if (!run->phases.began_ns[i])
			continue;
		json_open_object(json, NULL);
		json_text(json, "phase", phase_names[i]);
		json_number(json, "at_s", (double)(run->phases.began_ns[i] - run->began_ns) / 1e9);
		json_close_object(json);
	}
	json_close_array(json);
}

static void id_json(const struct run *run, struct json *json)
{
	if (run->id)
		json_count(json, "id", (uint64_t)run->id);
	else
		json_null(json, "id");
}

void show_json(struct run *run)
{
	const struct phases *p = &run->phases;
	const struct experiment *e = run->experiment;
	struct json json;

	json_begin(&json, stdout, false);
	json_open_object(&json, NULL);
	json_text(&json, "experiment", e->name);
	json_text(&json, "environment", e->environment);
	id_json(run, &json);
	json_text(&json, "verdict", verdict_names[p->verdict]);
	json_text(&json, "reason", p->reason);
	findings_json(run, &json);
	json_number(&json, "time_to_degrade_ms", p->time_to_degrade_ms);
	json_number(&json, "time_to_recover_ms", p->time_to_recover_ms);
	json_number(&json, "rollback_ms", run->rollback_ms);
	json_count(&json, "injected", run->injected);
	measured_json(run, &json);
	phases_json(run, &json);
	json_count(&json, "exit", (uint64_t)p->exit);
	json_close_object(&json);
	json_end(&json);
}
