// SPDX-License-Identifier: GPL-2.0-only
/*
 * bpf/core.bpf.h in the running kernel: that the matcher there chooses what user/tables/tables.c chooses here, that budgets are
 * exact with many CPUs at them, that the dice are fair and repeat themselves, that the schedule is obeyed.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <time.h>

#include "tests/bpf/loaded.h"

#define SECOND ((uint64_t)1000000000)
#define MS ((uint64_t)1000000)
#define THREADS 4
#define THROWS 100000

TestSuite(decide, .init = need_bpf, .timeout = 300);

/* ---- which rule ---- */

static struct asking question_of(const struct probe *p)
{
	struct asking a = { 0 };
	struct question *q = &a.question;
	struct in6_addr other = address(addresses[below(COUNT(addresses))]);
	bool server = p->side == CHAOS_SIDE_SERVER;

	memcpy(server ? q->local : q->peer, &p->address, 16);
	memcpy(server ? q->peer : q->local, &other, 16);
	q->peer_port = server ? 40000 + below(1000) : p->port;
	q->local_port = server ? p->port : 40000 + below(1000);
	q->protocol = p->protocol;
	q->side = p->side;
	q->owner.pid = p->process.pid;
	q->owner.uid = p->process.uid;
	q->owner.cgroup_id = p->process.cgroup_id;
	memcpy(q->owner.comm, p->process.comm, sizeof(q->owner.comm));
	return a;
}

static int chosen(const struct loaded *l, struct asking *a)
{
	ask(l->test->progs.test_choose, a, 1);
	return a->answer.rule == CHAOS_NO_RULE ? NONE : (int)a->answer.rule;
}

static int choose(const struct loaded *l, const struct probe *p)
{
	struct asking a = question_of(p);

	return chosen(l, &a);
}

static void compare_probe(const struct loaded *l, const struct probe *p)
{
	uint32_t here = tables_match(l->made.tables, p);
	struct asking a = question_of(p);
	int wanted = here == CHAOS_NO_RULE ? NONE : (int)here, got = chosen(l, &a);
	char text[INET6_ADDRSTRLEN];

	if (p->protocol == CHAOS_TCP && p->port == 22)
		wanted = NONE; /* SSH */
	cr_assert_eq(got, wanted, "CHAOSBPF_SEED=%lu: pid %u uid %u cgroup %lu comm '%s' %s port %u protocol %d side %d: the "
		     "kernel says rule %d, tables_match() %d", seed, p->process.pid, p->process.uid, p->process.cgroup_id,
		     p->process.comm, inet_ntop(AF_INET6, &p->address, text, sizeof(text)), p->port, p->protocol, p->side,
		     got, wanted);
	cr_assert_eq(a.answer.valid_until_ns, here == CHAOS_NO_RULE ? ~0ULL : l->schedule.end_ns);
	cr_assert(a.answer.holds);
}

static void compare_matchers(int rules, int probes)
{
	struct loaded l;
	struct file f;

	begin(&f);
	while (f.count < rules)
		random_match(&f);
	compile(&l, end(&f));
	open_load(&l);
	for (int i = 0; i < probes; i++) {
		struct probe p = random_probe();

		compare_probe(&l, &p);
	}
	unload(&l);
}

Test(decide, the_kernel_matches_as_the_host_does)
{
	begin_random();
	for (int i = 0; i < 6; i++)
		compare_matchers(1 + below(i < 4 ? 12 : 130), 800);
}

Test(decide, the_kernel_matches_a_thousand_rules)
{
	begin_random();
	compare_matchers(1000, 3000);
}

static const struct probe client = {
	.process = { .pid = 1000, .uid = 1000, .comm = "client" }, .port = 443, .protocol = CHAOS_TCP, .side = CHAOS_SIDE_CLIENT,
};

#define RULE(name, match, more) "- name: " name "\n  match: " match "\n  fault: { drop: true }\n  duration: 1h\n" more
#define RULES "version: 1\nrules:\n"

Test(decide, ssh_is_spared_and_this_is_counted)
{
	struct probe ssh = client;
	struct loaded l;
	struct chaos_stats s;

	load(&l, RULES RULE("a", "{ user: 1000 }", "") RULE("b", "{ user: 1001, include-ssh: true }", ""));
	ssh.port = 22;
	cr_expect_eq(choose(&l, &ssh), NONE);
	cr_expect_eq(choose(&l, &client), 0);
	s = stats_of_rule(&l, 0);
	cr_expect(s.matched == 1 && s.skipped[CHAOS_SKIP_SSH] == 1 && s.injected == 0);
	ssh.process.uid = 1001;
	cr_expect_eq(choose(&l, &ssh), 1);
	ssh.process.uid = 1000;
	ssh.protocol = CHAOS_UDP;
	cr_expect_eq(choose(&l, &ssh), 0);
	unload(&l);
}

Test(decide, the_session_that_runs_chaosbpf_is_spared)
{
	struct asking a = question_of(&client);
	struct loaded l;

	load(&l, RULES RULE("a", "{ user: 1000 }", ""));
	a.question.spared = 1;
	cr_expect_eq(chosen(&l, &a), NONE);
	unload(&l);
}

Test(decide, connections_of_a_rule_are_numbered)
{
	struct probe other = client;
	struct loaded l;

	load(&l, RULES RULE("a", "{ user: 1000 }", "") RULE("b", "{ user: 1001 }", ""));
	other.process.uid = 1001;
	for (uint64_t i = 1; i <= 3; i++) {
		struct asking a = question_of(&client), b = question_of(&other);

		chosen(&l, &a);
		cr_expect_eq(a.answer.connection, i);
		chosen(&l, &b);
		cr_expect_eq(b.answer.connection, i);
	}
	unload(&l);
}

/* ---- when ---- */

/* As if the load had been made `ago` before the present moment: the schedule is moved, not the clock. */
static void move_schedule(const struct loaded *l, uint64_t ago)
{
	uint32_t count = l->schedule.count, *keys = calloc(count, sizeof(*keys));
	struct chaos_interval *moved = calloc(count, sizeof(*moved));
	int64_t base = boot_now() - ago;

	for (uint32_t i = 0; i < count; i++) {
		int64_t until = base + (l->schedule.intervals[i].until_ns - l->moment.boot_ns);

		keys[i] = i;
		moved[i] = l->schedule.intervals[i];
		moved[i].until_ns = until > 0 ? until : 1; /* before the machine was up */
	}
	cr_assert_eq(bpf_map_update_batch(engine_map(&l->engine, "chaos_schedule"), keys, moved, &count, NULL), 0);
	free(moved);
	free(keys);
}

static void set_intervals(const struct loaded *l, uint32_t count)
{
	uint32_t zero = 0;

	cr_assert_eq(bpf_map_update_elem(engine_map(&l->engine, "chaos_intervals"), &zero, &count, BPF_ANY), 0);
}

static void expect_rule_after(const struct loaded *l, double seconds, int rule)
{
	int got;

	move_schedule(l, seconds * SECOND);
	got = choose(l, &client);
	cr_expect_eq(got, rule, "after %g s: rule %d, expected %d", seconds, got, rule);
}

Test(decide, a_rule_waits_is_active_and_is_over)
{
	struct asking a = question_of(&client);
	struct loaded l;

	load(&l, RULES "- { name: a, match: { user: 1000 }, fault: { drop: true }, start-after: 100s, duration: 100s }\n"
		       "- { name: b, match: { user: 1000 }, fault: { drop: true }, duration: 300s }\n"
		       "- { name: c, match: { user: 1001 }, fault: { drop: true }, duration: 400s }\n");
	expect_rule_after(&l, 10, 1);
	expect_rule_after(&l, 90, 1);
	expect_rule_after(&l, 110, 0);
	expect_rule_after(&l, 190, 0);
	expect_rule_after(&l, 210, 1);
	expect_rule_after(&l, 290, 1);
	expect_rule_after(&l, 310, NONE);
	expect_rule_after(&l, 390, NONE);
	expect_rule_after(&l, 410, NONE);

	move_schedule(&l, 310 * SECOND);
	chosen(&l, &a);
	cr_expect_neq(a.answer.valid_until_ns, ~0ULL, "its rules are over, but one of another is not");
	move_schedule(&l, 410 * SECOND);
	a = question_of(&client);
	chosen(&l, &a);
	cr_expect_eq(a.answer.valid_until_ns, ~0ULL, "nothing can ever come again: %llx", a.answer.valid_until_ns);
	unload(&l);
}

Test(decide, a_choice_is_valid_until_the_schedule_moves_on)
{
	struct asking a = question_of(&client);
	struct loaded l;

	load(&l, RULES "- { name: a, match: { user: 1000 }, fault: { drop: true }, start-after: 100s, duration: 100s }\n");
	chosen(&l, &a);
	cr_expect_eq(a.answer.rule, CHAOS_NO_RULE);
	cr_expect_eq(a.answer.valid_until_ns, l.moment.boot_ns + 100 * SECOND);
	unload(&l);
}

/* The binary search: every number of intervals, every place in them. */
Test(decide, every_interval_is_found)
{
	enum { MOST = 40 };
	struct loaded l;
	FILE *out;
	char *source;
	size_t size;

	out = open_memstream(&source, &size);
	fputs(RULES, out);
	for (int i = 0; i < MOST; i++)
		fprintf(out, "- { name: r%d, match: { user: 1000 }, fault: { drop: true }, start-after: %ds, duration: 100s }\n", i, 100 * (i + 1));
	fclose(out);
	load(&l, source);
	free(source);
	cr_assert_eq(l.schedule.count, MOST + 1);
	for (int at = 0; at <= MOST; at++) {
		move_schedule(&l, (100 * at + 50) * SECOND);
		for (int count = 1; count <= MOST + 1; count++) {
			int wanted = at >= 1 && at < count ? at - 1 : NONE, got;

			set_intervals(&l, count);
			got = choose(&l, &client);
			cr_assert_eq(got, wanted, "interval %d of %d: rule %d, expected %d", at, count, got, wanted);
		}
	}
	unload(&l);
}

static int first_active(const struct schedule *s, uint64_t boot_ns)
{
	for (size_t i = 0; i < s->count; i++) {
		if (s->intervals[i].until_ns <= boot_ns)
			continue;
		for (int rule = 0; rule < CHAOS_MAX_RULES; rule++)
			if (s->intervals[i].active.word[rule / 64] >> rule % 64 & 1)
				return rule;
		break;
	}
	return NONE;
}

Test(decide, many_rules_at_random_times)
{
	struct loaded l;
	FILE *out;
	char *source;
	size_t size;

	begin_random();
	out = open_memstream(&source, &size);
	fputs(RULES, out);
	for (int i = 0; i < CHAOS_MAX_RULES; i++)
		fprintf(out, "- { name: r%d, match: { user: 1000 }, fault: { drop: true }, start-after: %us, duration: %us }\n",
			i, below(100000), 1 + below(100));
	fclose(out);
	load(&l, source);
	free(source);
	for (int i = 0; i < 300; i++) {
		uint64_t ago = below(110000) * SECOND + SECOND / 2; /* half a second away from any change */
		int wanted = first_active(&l.schedule, l.moment.boot_ns + ago), got;
		uint64_t began = boot_now();

		move_schedule(&l, ago);
		got = choose(&l, &client);
		if (boot_now() - began < SECOND / 4)
			cr_assert_eq(got, wanted, "CHAOSBPF_SEED=%lu: after %lu s: rule %d, expected %d", seed, ago / SECOND, got, wanted);
	}
	unload(&l);
}

/* ---- many CPUs at one budget ---- */

struct taker {
	const struct loaded *l;
	uint32_t rule;
	int repeat;
	double seconds; /* again and again until then; 0: once */
};

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

static void *take_many(void *arg)
{
	const struct taker *t = arg;
	double until = now_s() + t->seconds;

	do {
		struct asking a = { .question = { .rule = t->rule } };

		ask(t->l->test->progs.test_take, &a, t->repeat);
	} while (now_s() < until);
	return NULL;
}

static void take_at_once(const struct taker *taker)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, take_many, (void *)taker), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static struct chaos_budget budget_of(const struct loaded *l, uint32_t rule)
{
	struct chaos_budget b;

	cr_assert_eq(bpf_map_lookup_elem(engine_map(&l->engine, "chaos_budgets"), &rule, &b), 0);
	return b;
}

static void put_budget(const struct loaded *l, uint32_t rule, const struct chaos_budget *b)
{
	cr_assert_eq(bpf_map_update_elem(engine_map(&l->engine, "chaos_budgets"), &rule, b, BPF_ANY), 0);
}

static bool is_finished(const struct loaded *l, uint32_t rule)
{
	struct chaos_finished finished;
	uint32_t zero = 0;

	cr_assert_eq(bpf_map_lookup_elem(engine_map(&l->engine, "chaos_finished"), &zero, &finished), 0);
	return finished.rules.word[rule / 64] >> rule % 64 & 1;
}

Test(decide, max_hits_is_exact_with_all_cpus_at_it)
{
	struct taker taker = { .repeat = 5000 };
	struct loaded l;

	load(&l, RULES RULE("a", "{ user: 1000 }", "  max-hits: 1000\n") RULE("b", "{ user: 1000 }", "  max-hits: 7\n"));
	taker.l = &l;
	take_at_once(&taker);
	cr_expect_eq(l.test->bss->answers[CHAOS_SKIP_COUNT], 1000, "%llu", l.test->bss->answers[CHAOS_SKIP_COUNT]);
	cr_expect_eq(l.test->bss->answers[CHAOS_SKIP_MAX_HITS], THREADS * 5000 - 1000);
	cr_expect_eq(budget_of(&l, 0).used, 1000);
	cr_expect(is_finished(&l, 0) && !is_finished(&l, 1));
	cr_expect_eq(l.test->bss->epoch, 1, "finished once");

	/* Small budgets are spent in the same instant by all: again and again. */
	taker.rule = 1;
	taker.repeat = 20;
	for (int i = 0; i < 100; i++) {
		struct chaos_budget fresh = l.made.tables->budgets[1];

		put_budget(&l, 1, &fresh);
		l.test->bss->answers[CHAOS_SKIP_COUNT] = 0;
		take_at_once(&taker);
		cr_assert_eq(l.test->bss->answers[CHAOS_SKIP_COUNT], 7, "round %d: %llu", i, l.test->bss->answers[CHAOS_SKIP_COUNT]);
	}
	cr_expect_eq(l.test->bss->epoch, 101);
	unload(&l);
}

Test(decide, a_finished_rule_makes_way_for_the_next)
{
	struct asking a = { 0 };
	struct loaded l;

	load(&l, RULES RULE("a", "{ user: 1000 }", "  max-hits: 3\n") RULE("b", "{ user: 1000 }", ""));
	for (int i = 0; i < 3; i++) {
		cr_expect_eq(choose(&l, &client), 0);
		a.question.rule = 0;
		ask(l.test->progs.test_take, &a, 1);
	}
	cr_expect_eq(choose(&l, &client), 1);
	unload(&l);
}

struct log {
	struct taken *list;
	size_t count, room;
};

static int keep_taken(void *arg, void *data, size_t size)
{
	struct log *log = arg;

	(void)size;
	if (log->count == log->room) {
		log->room = log->room ? 2 * log->room : 1024;
		log->list = realloc(log->list, log->room * sizeof(*log->list));
	}
	log->list[log->count++] = *(struct taken *)data;
	return 0;
}

static int by_before(const void *a, const void *b)
{
	uint64_t x = ((const struct taken *)a)->before_ns, y = ((const struct taken *)b)->before_ns;

	return x < y ? -1 : x > y;
}

static struct log read_taken(const struct loaded *l)
{
	struct log log = { 0 };
	struct ring_buffer *ring = ring_buffer__new(bpf_map__fd(l->test->maps.test_taken), keep_taken, &log, NULL);

	cr_assert_not_null(ring);
	ring_buffer__consume(ring);
	ring_buffer__free(ring);
	qsort(log.list, log.count, sizeof(*log.list), by_before);
	return log;
}

/* The most faults that were surely done within one window: those whose call lay within it whole. */
static size_t most_in_a_window(const struct log *log, uint64_t window)
{
	size_t most = 0;

	for (size_t i = 0; i < log->count; i++) {
		uint64_t end = log->list[i].before_ns + window;
		size_t within = 0;

		for (size_t k = i; k < log->count && log->list[k].before_ns < end; k++)
			within += log->list[k].after_ns < end;
		most = within > most ? within : most;
	}
	return most;
}

static void check_rate(const struct loaded *l, uint32_t rule, uint64_t window, double seconds)
{
	const struct chaos_budget *b = &l->made.tables->budgets[rule];
	struct taker taker = { .l = l, .rule = rule, .repeat = 200, .seconds = seconds };
	uint32_t limit = l->made.tables->rules[rule].rate_count;
	struct log log;
	double began = now_s(), took;
	size_t most;

	memset(l->test->bss->answers, 0, sizeof(l->test->bss->answers));
	take_at_once(&taker);
	took = now_s() - began;
	log = read_taken(l);
	cr_assert_eq(log.count, l->test->bss->answers[CHAOS_SKIP_COUNT]);
	cr_expect_eq(budget_of(l, rule).used, log.count);
	most = most_in_a_window(&log, window);
	cr_expect_leq(most, limit, "%u in a window: there were %zu", limit, most);
	cr_expect_geq(log.count, b->slots * b->slot_faults, "%u in a window: less than one window's worth", limit);
	cr_expect_leq(log.count, (took * SECOND / window + 1) * (limit + 1));
	free(log.list);
}

/* Windows of some milliseconds, so that there are many. */
Test(decide, max_rate_is_never_exceeded_in_any_window)
{
	static const uint32_t rates[] = { 1, 2, 64, 65, 128, 1000 };
	const uint64_t window = 3 * MS;
	struct loaded l;
	FILE *out;
	char *source;
	size_t size;

	out = open_memstream(&source, &size);
	fputs(RULES, out);
	for (size_t i = 0; i < COUNT(rates); i++)
		fprintf(out, "- { name: r%zu, match: { user: 1000 }, fault: { drop: true }, duration: 1h, max-rate: %u/s }\n", i, rates[i]);
	fclose(out);
	compile(&l, make(source));
	free(source);
	for (size_t i = 0; i < COUNT(rates); i++)
		l.made.tables->rules[i].rate_window_ns = l.made.tables->budgets[i].window_ns = window;
	open_load(&l);
	for (size_t i = 0; i < COUNT(rates); i++)
		check_rate(&l, i, window, rates[i] < 10 ? 1.5 : 0.15);
	unload(&l);
}

/* An old slot that was begun long ago and is filled up late, then all the others: see make_slots() in user/tables/tables.c. */
Test(decide, a_slot_that_is_filled_late_does_not_exceed_the_rate)
{
	const uint64_t window = 50 * MS;
	struct asking a = { 0 };
	uint64_t begun;
	struct loaded l;
	struct log log;

	compile(&l, make(RULES RULE("a", "{ user: 1000 }", "  max-rate: 128/s\n")));
	l.made.tables->rules[0].rate_window_ns = l.made.tables->budgets[0].window_ns = window;
	open_load(&l);
	ask(l.test->progs.test_take, &a, 1);
	usleep(49000);
	begun = boot_now();
	/* For two windows at least, and on a machine that is too busy to ask often for as long as it takes. */
	while (boot_now() < begun + 2 * window ||
	       (l.test->bss->answers[CHAOS_SKIP_COUNT] <= 200 && boot_now() < begun + 10 * SECOND))
		ask(l.test->progs.test_take, &a, 50);
	log = read_taken(&l);
	cr_expect_leq(most_in_a_window(&log, window), 128, "%zu", most_in_a_window(&log, window));
	cr_expect_gt(log.count, 200);
	free(log.list);
	unload(&l);
}

/* Two CPUs read the clock in one order and come to the budget in the other: then the newest slot lies ahead of `now`. */
Test(decide, a_slot_that_lies_ahead_is_not_free)
{
	struct asking a = { 0 };
	struct chaos_budget b;
	struct loaded l;

	load(&l, RULES RULE("a", "{ user: 1000 }", "  max-rate: 1/h\n"));
	b = l.made.tables->budgets[0];
	b.recent[0] = boot_now() + 10 * SECOND;
	b.slot_used = 1;
	put_budget(&l, 0, &b);
	ask(l.test->progs.test_take, &a, 10);
	cr_expect_eq(l.test->bss->answers[CHAOS_SKIP_COUNT], 0);
	cr_expect_eq(l.test->bss->answers[CHAOS_SKIP_MAX_RATE], 10);
	unload(&l);
}

Test(decide, max_hits_and_max_rate_together)
{
	struct taker taker = { .repeat = 1000 };
	struct loaded l;

	load(&l, RULES RULE("a", "{ user: 1000 }", "  max-hits: 5\n  max-rate: 3/h\n"));
	taker.l = &l;
	take_at_once(&taker);
	cr_expect_eq(l.test->bss->answers[CHAOS_SKIP_COUNT], 3);
	cr_expect_eq(l.test->bss->answers[CHAOS_SKIP_MAX_RATE], THREADS * 1000 - 3);
	cr_expect_not(is_finished(&l, 0));
	unload(&l);
}

Test(decide, a_rule_without_limits_is_not_limited)
{
	struct taker taker = { .repeat = 1000 };
	struct loaded l;

	load(&l, RULES RULE("a", "{ user: 1000 }", ""));
	taker.l = &l;
	take_at_once(&taker);
	cr_expect_eq(l.test->bss->answers[CHAOS_SKIP_COUNT], THREADS * 1000);
	unload(&l);
}

/* ---- the dice ---- */

static size_t throw_all(const struct loaded *l, uint32_t rule, uint32_t request_or_packet, uint8_t *hits)
{
	struct asking a = { .question = { .rule = rule, .packet = request_or_packet } };
	size_t sum = 0;

	memset(l->test->bss->injected, 0, sizeof(l->test->bss->injected));
	ask(l->test->progs.test_decide, &a, THROWS);
	cr_assert_eq(a.question.connection, THROWS);
	for (int i = 0; i < THROWS; i++)
		sum += l->test->bss->injected[i];
	if (hits)
		memcpy(hits, l->test->bss->injected, THROWS);
	return sum;
}

static void expect_share(size_t hits, double share, const char *what)
{
	double deviation = sqrt(THROWS * share * (1 - share));

	cr_expect_lt(fabs(hits - THROWS * share), 5 * deviation + 1, "%s: %zu of %d, expected %g", what, hits, THROWS, THROWS * share);
}

Test(decide, percent_is_met)
{
	static const struct {
		const char *percent;
		double share;
	} cases[] = { { "30", .3 }, { "0.1", .001 }, { "50", .5 }, { "99.9", .999 }, { "1", .01 }, { "0", 0 }, { "100", 1 } };
	struct loaded l;
	FILE *out;
	char *source;
	size_t size;

	out = open_memstream(&source, &size);
	fputs(RULES, out);
	for (size_t i = 0; i < COUNT(cases); i++)
		fprintf(out, "- { name: r%zu, match: { user: 1000 }, fault: { drop: true }, duration: 1h, percent: %s, seed: %zu }\n",
			i, cases[i].percent, i);
	fclose(out);
	load(&l, source);
	free(source);
	for (size_t i = 0; i < COUNT(cases); i++) {
		size_t hits = throw_all(&l, i, 0, NULL);
		struct chaos_stats s = stats_of_rule(&l, i);

		expect_share(hits, cases[i].share, cases[i].percent);
		if (cases[i].share == 0 || cases[i].share == 1)
			cr_expect_eq(hits, THROWS * cases[i].share);
		cr_expect_eq(s.matched, THROWS);
		cr_expect_eq(s.injected, hits);
		cr_expect_eq(s.faults[CHAOS_DROP], hits);
		cr_expect_eq(s.skipped[CHAOS_SKIP_PERCENT], THROWS - hits);
		cr_expect_eq(s.matched, s.injected + skips(&s));
	}
	unload(&l);
}

/* As if the rules had been in force for so long. */
static void begin_ago(const struct loaded *l, double seconds)
{
	for (uint32_t i = 0; i < l->made.tables->rules_count; i++) {
		struct chaos_rule r = l->made.tables->rules[i];

		r.begins_ns = boot_now() - (uint64_t)(seconds * SECOND);
		cr_assert_eq(bpf_map_update_elem(engine_map(&l->engine, "chaos_rules"), &i, &r, BPF_ANY), 0);
	}
}

/* The share that is hit follows the ramp. The throws take less time than the bounds leave. */
Test(decide, a_percentage_that_moves)
{
	static const struct {
		double after, up;
	} cases[] = { { -50, 0 }, { 10, .1 }, { 50, .5 }, { 100, 1 }, { 200, 1 } };
	static uint8_t early[THROWS], late[THROWS];
	struct loaded l;

	load(&l, RULES RULE("a", "{ user: 1000 }", "  percent: 0..100 over 100s\n  seed: 1\n")
			 RULE("b", "{ user: 1000 }", "  percent: 80..0 over 80s\n"));
	for (size_t i = 0; i < COUNT(cases); i++) {
		begin_ago(&l, cases[i].after);
		expect_share(throw_all(&l, 0, 0, NULL), cases[i].up, "rising");
		expect_share(throw_all(&l, 1, 0, NULL), fmax(0, .8 - fmax(0, cases[i].after) / 100), "falling");
	}
	begin_ago(&l, 20);
	throw_all(&l, 0, 0, early);
	begin_ago(&l, 60);
	throw_all(&l, 0, 0, late);
	for (int i = 0; i < THROWS; i++)
		cr_assert(late[i] >= early[i], "who is hit stays so while the percentage rises");
	unload(&l);
}

static size_t common(const uint8_t *a, const uint8_t *b)
{
	size_t sum = 0;

	for (int i = 0; i < THROWS; i++)
		sum += a[i] && b[i];
	return sum;
}

/* The same seed picks the same again; another seed, request or packet picks independently of it. */
Test(decide, the_seed_decides)
{
	static uint8_t first[THROWS], again[THROWS], other[THROWS];
	struct loaded l;

	load(&l, RULES RULE("a", "{ user: 1000 }", "  percent: 30\n  seed: 42\n")
			 RULE("b", "{ user: 1000 }", "  percent: 30\n  seed: 42\n")
			 RULE("c", "{ user: 1000 }", "  percent: 30\n  seed: 43\n")
			 RULE("d", "{ user: 1000 }", "  percent: 30\n  seed: 42\n  per: request\n")
			 RULE("e", "{ user: 1000 }", "  percent: 30\n  seed: 42\n  per: packet\n"));
	expect_share(throw_all(&l, 0, 0, first), .3, "seed 42");
	throw_all(&l, 0, 99, again);
	cr_expect_eq(memcmp(first, again, THROWS), 0, "a connection is decided once, whatever the packet");
	throw_all(&l, 1, 0, again);
	cr_expect_eq(memcmp(first, again, THROWS), 0, "another rule with the same seed");
	expect_share(throw_all(&l, 2, 0, other), .3, "seed 43");
	expect_share(common(first, other), .09, "seeds 42 and 43");
	for (uint32_t rule = 3; rule <= 4; rule++) {
		expect_share(throw_all(&l, rule, 1, first), .3, "the first");
		throw_all(&l, rule, 1, again);
		cr_expect_eq(memcmp(first, again, THROWS), 0);
		expect_share(throw_all(&l, rule, 2, other), .3, "the second");
		expect_share(common(first, other), .09, "the first and the second");
	}
	unload(&l);
}

Test(decide, no_seed_is_another_one_each_time)
{
	static uint8_t first[THROWS], other[THROWS];

	for (int i = 0; i < 2; i++) {
		struct loaded l;

		load(&l, RULES RULE("a", "{ user: 1000 }", "  percent: 30\n"));
		expect_share(throw_all(&l, 0, 0, i ? other : first), .3, "a random seed");
		unload(&l);
	}
	expect_share(common(first, other), .09, "two random seeds");
}

/* The dice come before the budget: what they deny spends nothing. */
Test(decide, percent_and_max_hits)
{
	struct chaos_stats s;
	struct loaded l;
	size_t hits;

	load(&l, RULES RULE("a", "{ user: 1000 }", "  percent: 30\n  max-hits: 5000\n  seed: 1\n"));
	hits = throw_all(&l, 0, 0, NULL);
	s = stats_of_rule(&l, 0);
	cr_expect_eq(hits, 5000);
	cr_expect_eq(s.injected, 5000);
	expect_share(s.skipped[CHAOS_SKIP_PERCENT], .7, "denied by the dice");
	cr_expect_eq(s.matched, s.injected + skips(&s));
	unload(&l);
}

Test(decide, observing_injects_nothing_and_counts_all)
{
	struct chaos_stats s;
	struct loaded l;

	compile(&l, make(RULES RULE("a", "{ user: 1000 }", "  percent: 30\n  seed: 42\n  max-hits: 100\n")));
	l.made.tables->rules[0].flags |= CHAOS_RULE_OBSERVE;
	open_load(&l);
	cr_expect_eq(throw_all(&l, 0, 0, NULL), 0);
	s = stats_of_rule(&l, 0);
	cr_expect_eq(s.injected, 0);
	cr_expect_eq(s.skipped[CHAOS_SKIP_OBSERVE], 100);
	cr_expect_eq(s.matched, skips(&s));
	unload(&l);
}

/* ---- models of loss ---- */

/* Which of THROWS packets of a connection are lost; how many. */
static size_t lose(const struct loaded *l, uint32_t rule, uint64_t connection, uint8_t *lost)
{
	struct asking a = { .question = { .rule = rule, .connection = connection } };
	struct chaos_sock fresh = { 0 };
	uint32_t zero = 0;
	size_t sum = 0;

	cr_assert_eq(bpf_map_update_elem(bpf_map__fd(l->test->maps.test_sock), &zero, &fresh, BPF_ANY), 0, "%s", strerror(errno));
	ask(l->test->progs.test_loss, &a, THROWS);
	cr_assert_eq(a.question.packet, THROWS);
	memcpy(lost, l->test->bss->injected, THROWS);
	for (int i = 0; i < THROWS; i++)
		sum += lost[i];
	return sum;
}

#define LOSS(name, drop) "- { name: " name ", match: { user: 1000 }, fault: { drop: " drop " }, duration: 1h, seed: 42 }\n"

Test(decide, every_tenth_packet_exactly)
{
	static uint8_t lost[THROWS];
	struct loaded l;

	load(&l, RULES LOSS("a", "{ every: 10 }") LOSS("b", "{ every: 2 }") LOSS("c", "{ every: 99999 }"));
	cr_expect_eq(lose(&l, 0, 1, lost), THROWS / 10);
	for (int i = 0; i < THROWS; i++)
		cr_assert_eq(lost[i], (i + 1) % 10 == 0, "packet %d", i + 1);
	cr_expect_eq(lose(&l, 1, 1, lost), THROWS / 2);
	cr_expect(lose(&l, 2, 1, lost) == 1 && lost[99998]);
	unload(&l);
}

/* The whole loss and the mean length of a burst, both within five standard deviations. */
static void expect_bursts(const uint8_t *lost, double loss, double length, const char *what)
{
	double leave = 1 / length, enter = leave * loss / (1 - loss), memory = 1 - enter - leave;
	double share_room = 5 * sqrt(THROWS * loss * (1 - loss) * (1 + memory) / (1 - memory)) + 1;
	size_t sum = 0, bursts = 0;

	for (int i = 0; i < THROWS; i++) {
		sum += lost[i];
		bursts += lost[i] && (i == 0 || !lost[i - 1]);
	}
	cr_expect_lt(fabs(sum - THROWS * loss), share_room, "%s: %zu of %d lost, expected %g within %g", what, sum, THROWS,
		     THROWS * loss, share_room);
	cr_assert_gt(bursts, 0);
	cr_expect_lt(fabs((double)sum / bursts - length), 5 * sqrt(length * (length - 1) / bursts) + .01, "%s: %g in a row", what,
		     (double)sum / bursts);
}

Test(decide, bursts_are_as_long_and_as_many_as_asked)
{
	static const struct {
		const char *drop;
		double loss, length;
	} cases[] = { { "{ burst: { loss: 2%, length: 5 } }", .02, 5 },   { "{ burst: { loss: 50%, length: 1 } }", .5, 1 },
		      { "{ burst: { loss: 10%, length: 1 } }", .1, 1 },   { "{ burst: { loss: 30%, length: 100 } }", .3, 100 },
		      { "{ burst: { loss: 90%, length: 9 } }", .9, 9 },   { "{ burst: { loss: 0.1%, length: 3 } }", .001, 3 },
		      { "{ burst: { loss: 5%, length: 20 } }", .05, 20 } };
	static uint8_t lost[THROWS], other[THROWS];
	struct loaded l;
	FILE *out;
	char *source;
	size_t size;

	out = open_memstream(&source, &size);
	fputs(RULES, out);
	for (size_t i = 0; i < COUNT(cases); i++)
		fprintf(out, "- { name: r%zu, match: { user: 1000 }, fault: { drop: %s }, duration: 1h, seed: 42 }\n", i, cases[i].drop);
	fclose(out);
	load(&l, source);
	free(source);
	for (size_t i = 0; i < COUNT(cases); i++) {
		for (int connection = 1; connection <= 3; connection++) {
			lose(&l, i, connection, lost);
			expect_bursts(lost, cases[i].loss, cases[i].length, cases[i].drop);
		}
		lose(&l, i, 3, other);
		cr_expect_eq(memcmp(lost, other, THROWS), 0, "the same seed, the same bursts");
		lose(&l, i, 4, other);
		cr_expect(cases[i].length == 1 || memcmp(lost, other, THROWS) != 0, "another connection, other bursts");
	}
	unload(&l);
}

/* Beside others in one load, a chance is still a chance of each packet alone. */
Test(decide, a_chance_beside_other_models)
{
	static uint8_t lost[THROWS];
	struct loaded l;

	load(&l, RULES LOSS("a", "20%") LOSS("b", "{ every: 3 }") LOSS("c", "{ burst: { loss: 1%, length: 2 } }"));
	expect_share(lose(&l, 0, 1, lost), .2, "drop: 20%");
	expect_bursts(lost, .2, 1.25, "no memory");
	unload(&l);
}

/* ---- pacing ---- */

static int events_in(const struct loaded *l, const char *text, size_t size)
{
	char packet[ETH_HLEN + 4096] = { [12] = ETH_P_IP >> 8 };

	memcpy(packet + ETH_HLEN, text, size);
	/* Not shorter than an IP header: such packets are refused. */
	return run_on(bpf_program__fd(l->test->progs.test_events), packet, ETH_HLEN + (size < 20 ? 20 : size), NULL, 1);
}

Test(decide, events_of_a_stream_are_counted)
{
	static const struct {
		const char *text;
		int events;
	} cases[] = {
		{ "data: {}\n\n", 1 }, { "nothing of the kind", 1 }, { "data:", 1 }, { "data:data:data:", 3 }, { "ddata:atadata: dat", 2 },
		{ "1a\r\ndata: {\"a\":1}\n\n\r\n1a\r\ndata: {\"a\":2}\n\n\r\n", 2 }, { "data data dat: dada:", 1 },
	};
	char text[1024];
	struct loaded l;

	begin_random();
	load(&l, RULES "- { name: a, match: { user: 1000, side: server }, fault: { tokens: 5/s }, duration: 1h }\n");
	for (size_t i = 0; i < COUNT(cases); i++)
		cr_expect_eq(events_in(&l, cases[i].text, strlen(cases[i].text)), cases[i].events, "%s", cases[i].text);
	/* Wherever they stand, over the edges of what is read at once as well. */
	for (int i = 0; i < 300; i++) {
		size_t size = 20 + below(sizeof(text) - 20);
		int events = 0;

		memset(text, 'x', sizeof(text));
		for (size_t at = below(20); at + 5 <= size; at += 5 + below(60), events++)
			memcpy(text + at, "data:", 5);
		cr_assert_eq(events_in(&l, text, size), events ? events : 1, "CHAOSBPF_SEED=%lu", seed);
	}
	unload(&l);
}

static uint64_t mono_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * SECOND + now.tv_nsec;
}

/* Sends `count` packets; when the last one leaves, counted from now. */
static uint64_t send_on(const struct loaded *l, int count, uint32_t cost_us, uint32_t rest_us)
{
	struct asking a = { .question = { .packet = cost_us, .connection = rest_us } };
	struct chaos_sock fresh = { 0 };
	uint64_t began = mono_now();
	uint32_t zero = 0;

	cr_assert_eq(bpf_map_update_elem(bpf_map__fd(l->test->maps.test_sock), &zero, &fresh, BPF_ANY), 0);
	ask(l->test->progs.test_line, &a, count);
	return l->test->bss->paced_until - began;
}

Test(decide, packets_leave_a_slow_line_one_behind_the_other)
{
	const uint64_t slack = 2 * SECOND; /* of this machine */
	struct loaded l;
	uint64_t at;

	load(&l, RULES RULE("a", "{ user: 1000 }", ""));
	at = send_on(&l, 1, 0, 500000);
	cr_expect_lt(at, slack, "the first leaves at once");
	at = send_on(&l, 100, 0, 500000);
	cr_expect(at >= 99 * SECOND / 2 && at < 99 * SECOND / 2 + slack, "the hundredth: %lu", at);
	at = send_on(&l, 100, 1000000, 0);
	cr_expect(at >= 100 * SECOND && at < 100 * SECOND + slack, "each when it is through: %lu", at);
	at = send_on(&l, 1000, 1000000, 1000000);
	cr_expect(at >= CHAOS_MAX_DELAY_NS && at < CHAOS_MAX_DELAY_NS + slack, "never beyond what the queue keeps: %lu", at);
	unload(&l);
}
