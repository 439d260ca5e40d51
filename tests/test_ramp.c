// SPDX-License-Identifier: GPL-2.0-only
/* Values that move: bpf/ramp.h, how they are written (user/rules/rules_ramp.c), and what is said of them. */
#include <criterion/criterion.h>
#include <math.h>

#include "bpf/ramp.h"
#include "tests/random_rules.h"
#include "user/rules/explain.h"
#include "user/tables/schedule.h"

#define SECOND ((uint64_t)1000000000)
#define MINUTE (60 * SECOND)
#define LONGEST_NS (7 * 24 * 3600 * SECOND)

static uint64_t at(uint64_t from, uint64_t to, uint64_t over_ns, uint64_t since_ns)
{
	struct chaos_ramp ramp = { .to = to, .over_ns = over_ns };

	return ramp_value(from, &ramp, since_ns);
}

Test(ramp, exact_at_its_ends_and_in_the_middle)
{
	cr_expect_eq(at(200, 8000, 60 * SECOND, 0), 200);
	cr_expect_eq(at(200, 8000, 60 * SECOND, 30 * SECOND), 4100);
	cr_expect_eq(at(200, 8000, 60 * SECOND, 60 * SECOND), 8000);
	cr_expect_eq(at(200, 8000, 60 * SECOND, UINT64_MAX), 8000);
	cr_expect_eq(at(8000, 200, 60 * SECOND, 0), 8000);
	cr_expect_eq(at(8000, 200, 60 * SECOND, 15 * SECOND), 6050);
	cr_expect_eq(at(8000, 200, 60 * SECOND, 60 * SECOND), 200);
	cr_expect_eq(at(0, 1000000, 1, 0), 0);
	cr_expect_eq(at(0, 1000000, 1, 1), 1000000);
}

/* Whatever the values and times: no overflow, never backwards, and within a millionth of the straight line. */
Test(ramp, a_straight_line)
{
	begin_random();
	for (int i = 0; i < 2000; i++) {
		uint64_t from = below(2) ? CHAOS_MAX_DELAY_NS / 1000 * below(1000) : below(1000000);
		uint64_t to = below(4) ? CHAOS_MAX_DELAY_NS : below(1000000), over = 1 + LONGEST_NS / (1 + below(1000000000));
		uint64_t last = from;

		for (int step = 0; step <= 50; step++) {
			uint64_t since = over / 50 * step, got = at(from, to, over, since);
			long double line = from + ((long double)to - from) * since / over;
			long double way = fabsl((long double)to - from);

			cr_assert(to >= from ? got >= last : got <= last, "CHAOSBPF_SEED=%lu", seed);
			cr_assert_leq(fabsl(got - line), way / 1000000 + 1, "CHAOSBPF_SEED=%lu %lu..%lu over %lu at %lu: %lu", seed,
				      from, to, over, since, got);
			last = got;
		}
	}
}

/* ---- the language ---- */

#define DOC(fault, more) "version: 1\nrules:\n- name: a\n  match: { ports: 1 }\n  fault: " fault "\n  duration: 5m\n" more

Test(ramp, as_it_is_written)
{
	struct made made = make(DOC("{ delay: 200ms..8s over 60s, jitter: 5s, drop: \"1% .. 30% over 2m\" }", "  percent: 100..0 over 1h\n"));
	const struct rule *rule = &made.rules->rules[0];
	const struct chaos_rule *r = &made.tables->rules[0];

	cr_expect(rule->fault.delay_ns == SECOND / 5 && rule->fault.delay_ramp.to == 8 * SECOND && rule->fault.delay_ramp.over_ns == MINUTE);
	cr_expect(rule->fault.drop_ppm == 10000 && rule->fault.drop_ramp.to == 300000 && rule->fault.drop_ramp.over_ns == 2 * MINUTE);
	cr_expect(rule->percent_ppm == 1000000 && rule->percent_ramp.to == 0 && rule->percent_ramp.over_ns == 60 * MINUTE);
	cr_expect_not(rule->fault.drop_all);
	cr_expect_eq(fault_longest_delay(&rule->fault), 13 * SECOND);
	cr_expect(r->delay_ns == SECOND / 5 && r->delay_ramp.to == 8 * SECOND && r->delay_ramp.over_ns == MINUTE);
	cr_expect(r->drop_ppm == 10000 && r->drop_ramp.to == 300000 && r->percent_ramp.to == 0 && r->percent_ramp.over_ns == 60 * MINUTE);
	cr_expect_eq(made.tables->knobs.ramps, 1);
	unmake(&made);
	made = make(DOC("{ delay: 0s..1s over 500ms, drop: 100%..0% over 1s }", ""));
	cr_expect_not(made.rules->rules[0].fault.drop_all);
	cr_expect_eq(made.tables->rules[0].delay_ns, 0);
	unmake(&made);
	made = make(DOC("{ delay: 1s }", "  percent: 50\n"));
	cr_expect_eq(made.tables->knobs.ramps, 0);
	unmake(&made);
}

Test(ramp, one_of_the_defaults_is_replaced_by_a_value)
{
	struct made made = make("version: 1\ndefaults: { percent: 0..50 over 1m }\nrules:\n"
				"- { name: a, match: { ports: 1 }, fault: { reset: true }, duration: 1m }\n"
				"- { name: b, match: { ports: 1 }, fault: { reset: true }, duration: 1m, percent: 7 }\n");

	cr_expect(made.tables->rules[0].percent_ramp.to == 500000 && made.tables->rules[0].percent_ramp.over_ns == MINUTE);
	cr_expect(made.tables->rules[1].percent_ppm == 70000 && made.tables->rules[1].percent_ramp.over_ns == 0);
	unmake(&made);
}

Test(ramp, what_is_wrong)
{
	static const char *const cases[][2] = {
		{ DOC("{ delay: 8s..9s }", ""), "t:5:19: delay '8s..9s' lacks the time it takes, as in '8s..9s over 60s'" },
		{ DOC("{ delay: 8s..8s over 1m }", ""), "t:5:19: delay '8s..8s over 1m' does not move, write '8s'" },
		{ DOC("{ delay: 8..9s over 1m }", ""),
		  "t:5:19: invalid delay '8', it has no unit; expected a duration such as 500ms, 8s or 1m30s" },
		{ DOC("{ delay: 8s..9x over 1m }", ""), "t:5:23: invalid delay '9x', expected a duration such as 500ms, 8s or 1m30s" },
		{ DOC("{ delay: \"8s..9x over 1m\" }", ""), "t:5:24: invalid delay '9x', expected a duration such as 500ms, 8s or 1m30s" },
		{ DOC("{ delay: 8s..9s over 0s }", ""),
		  "t:5:31: delay '8s..9s over 0s' jumps at once, the time after 'over' must be more than 0" },
		{ DOC("{ delay: 8s..9s over 8d }", ""), "t:5:31: delay '8d' is too long, at most 7 d" },
		{ DOC("{ delay: 8s..11m over 1m }", ""), "t:5:23: delay '11m' is too long, at most 10 min" },
		{ DOC("{ delay: 8s..9s over 1m, jitter: 10s }", ""),
		  "t:5:43: jitter '10s' is longer than the delay, '8s..9s over 1m'" },
		{ DOC("{ delay: 8m..9m over 1m, jitter: 2m }", ""), "t:5:43: delay and jitter '2m' together are longer than 10 min" },
		{ DOC("{ drop: 1%..101% over 1m }", ""), "t:5:22: invalid drop '101%', expected a percentage from 0 to 100, such as 30 or 0.5%" },
		{ DOC("{ drop: true }", "  percent: 0..5s over 1m\n"),
		  "t:7:15: invalid percent '5s', expected a percentage from 0 to 100, such as 30 or 0.5%" },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct error err = { 0 };
		struct rules *rules;

		cr_expect_lt(rules_parse("t", cases[i][0], strlen(cases[i][0]), NULL, &rules, &err), 0, "%s", cases[i][0]);
		cr_expect_str_eq(err.text, cases[i][1]);
		cr_expect_eq(err.exit, EXIT_USAGE);
	}
}

Test(ramp, what_is_said)
{
	static const char *const cases[][2] = {
		{ DOC("{ delay: 200ms..8s over 60s, jitter: 100ms }", "  percent: 0..100 over 90s\n  seed: 1\n"),
		  "a: requests from any process to port 1 anywhere take 200 ms to 8 s (rising over 1 min) ± 100 ms longer, once each; "
		  "on 0 % to 100 % (rising over 1 min 30 s) of the connections, the same ones each time (seed 1); ends after 5 min." },
		{ DOC("{ drop: 30%..1% over 1h }", ""), "a: connections from any process to port 1 anywhere lose 30 % to 1 % (falling over "
							"1 h) of their packets; ends after 5 min." },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct rules *rules = parse(cases[i][0]);
		char buf[1024];

		cr_expect_eq(explain_rule(rules, 0, buf, sizeof(buf)), 0);
		cr_expect_str_eq(buf, cases[i][1]);
		rules_free(rules);
	}
}

/* A ramp begins with its rule: after `start-after`, or when a window opens. */
Test(ramp, begins_with_its_rule)
{
	struct rules *rules = parse("version: 1\nrules:\n"
				    "- { name: a, match: { ports: 1 }, fault: { drop: 1%..2% over 1m }, duration: 1h }\n"
				    "- { name: b, match: { ports: 1 }, fault: { drop: 1%..2% over 1m }, duration: 1h, start-after: 10s }\n"
				    "- { name: c, match: { ports: 1 }, fault: { drop: 1%..2% over 1m }, duration: 2d, between: \"02:00-04:00\" }\n");
	struct instant now = { .boot_ns = 1000 * SECOND, .wall = { .tv_sec = 1700000000 } }; /* 22:13:20 UTC */
	struct schedule schedule;
	struct error err = { 0 };

	setenv("TZ", "UTC0", 1);
	tzset();
	cr_assert_eq(schedule_make(rules, &now, &schedule, &err), 0, "%s", err.text);
	cr_expect_eq(schedule.begins_ns[0], 1000 * SECOND);
	cr_expect_eq(schedule.begins_ns[1], 1010 * SECOND);
	cr_expect_eq(schedule.begins_ns[2], (1000 + 3 * 3600 + 46 * 60 + 40) * SECOND);
	schedule_free(&schedule);
	rules_free(rules);
}
