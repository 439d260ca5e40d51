/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A load that is opened, filled and armed but never attached nor pinned, and the programs of decide_test.bpf.c beside it
 * with the same maps and knobs. BPF_PROG_TEST_RUN calls them; everything goes with the test's process.
 */
#ifndef TESTS_BPF_LOADED_H
#define TESTS_BPF_LOADED_H

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_ether.h>
#include <unistd.h>

#include "bpf/chaos.h" /* the skeletons hold its types */
#include "chaos.skel.h"
#include "tests/bpf/decide_test.h"
#include "tests/bpf/decide_test.skel.h"
#include "tests/random_rules.h"
#include "user/engine/engine.h"
#include "user/engine/feature.h"
#include "user/tables/schedule.h"

#define GENERATION 7

struct loaded {
	struct made made;
	struct instant moment;
	struct schedule schedule;
	struct engine engine;
	struct decide_test *test;
};

static struct features features;

/* For a suite's .init: skips its tests where BPF cannot be had. */
static inline void need_bpf(void)
{
	if (geteuid() != 0)
		cr_skip_test("needs root");
	features_probe(&features);
	if (!features.has[FEATURE_BPF])
		cr_skip_test("BPF programs cannot be loaded here: %s", features.why_not[FEATURE_BPF]);
	if (!features.has[FEATURE_BTF] || !features.has[FEATURE_RINGBUF])
		cr_skip_test("this kernel has no BTF or no ring buffers");
}

/* Rules to tables; what a test wants to be otherwise is changed there, before open_load(). */
static inline void compile(struct loaded *l, struct made made)
{
	struct error err = { 0 };

	memset(l, 0, sizeof(*l));
	l->made = made;
	moment_now(&l->moment);
	cr_assert_eq(schedule_make(made.rules, &l->moment, &l->schedule, &err), 0, "%s", err.text);
}

static inline void share_maps(struct loaded *l)
{
	struct bpf_map *map;

	bpf_object__for_each_map(map, l->test->obj) {
		int fd = bpf_map__is_internal(map) ? -1 : engine_map(&l->engine, bpf_map__name(map));

		if (fd >= 0)
			cr_assert_eq(bpf_map__reuse_fd(map, fd), 0, "%s", bpf_map__name(map));
	}
}

static inline void open_load(struct loaded *l)
{
	struct error err = { 0 };

	cr_assert_eq(engine_open(l->made.tables, &l->schedule, &features, GENERATION, -1, -1, &l->engine, &err), 0, "%s", err.text);
	cr_assert_eq(engine_arm(l->engine.control_fd, GENERATION), 0);
	l->test = decide_test__open();
	cr_assert_not_null(l->test);
	memcpy((void *)&l->test->rodata->knobs, &l->engine.skel->rodata->knobs, sizeof(l->test->rodata->knobs));
	share_maps(l);
	cr_assert_eq(decide_test__load(l->test), 0);
}

static inline void load(struct loaded *l, const char *source)
{
	compile(l, make(source));
	open_load(l);
}

static inline void unload(struct loaded *l)
{
	decide_test__destroy(l->test);
	engine_free(&l->engine);
	schedule_free(&l->schedule);
	unmake(&l->made);
}

/* Runs a program on a packet, which is replaced by what it has become. Returns what the program returned. */
static inline int run_on(int prog, void *packet, size_t size, struct __sk_buff *skb, int repeat)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = packet, .data_size_in = size, .data_out = packet, .data_size_out = size,
		    .ctx_in = skb, .ctx_size_in = skb ? sizeof(*skb) : 0, .ctx_out = skb, .ctx_size_out = skb ? sizeof(*skb) : 0,
		    .repeat = repeat);
	int ret = bpf_prog_test_run_opts(prog, &opts);

	cr_assert_eq(ret, 0, "BPF_PROG_TEST_RUN: %s", strerror(-ret));
	return opts.retval;
}

/* A question, and then the answer to it. */
struct asking {
	union {
		struct question question;
		struct answer answer;
	};
};

static inline void ask(const struct bpf_program *prog, struct asking *asking, int repeat)
{
	char packet[ETH_HLEN + sizeof(*asking)] = { 0 };

	packet[12] = ETH_P_IP >> 8;
	memcpy(packet + ETH_HLEN, asking, sizeof(*asking));
	cr_assert_eq(run_on(bpf_program__fd(prog), packet, sizeof(packet), NULL, repeat), 0, "%s", bpf_program__name(prog));
	memcpy(asking, packet + ETH_HLEN, sizeof(*asking));
}

/* Counters of a rule, summed over CPUs. */
static inline struct chaos_stats stats_of_rule(const struct loaded *l, uint32_t rule)
{
	int cpus = libbpf_num_possible_cpus(), fields = sizeof(struct chaos_stats) / sizeof(__u64);
	struct chaos_stats *each = calloc(cpus, sizeof(*each)), sum = { 0 };

	cr_assert_eq(bpf_map_lookup_elem(engine_map(&l->engine, "chaos_stats"), &rule, each), 0);
	for (int i = 0; i < cpus * fields; i++)
		((__u64 *)&sum)[i % fields] += ((__u64 *)each)[i]; /* not uint64_t: that is another type than the fields' */
	free(each);
	return sum;
}

static inline uint64_t skips(const struct chaos_stats *s)
{
	uint64_t sum = 0;

	for (int i = 0; i < CHAOS_SKIP_COUNT; i++)
		sum += s->skipped[i];
	return sum;
}

static inline uint64_t boot_now(void)
{
	struct instant now;

	moment_now(&now);
	return now.boot_ns;
}

#endif
