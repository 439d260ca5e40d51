/* SPDX-License-Identifier: GPL-2.0-only */
/* The assist with a program that decides, and processes of the test's own that call what it decides about. */
#ifndef TESTS_BPF_ASSIST_H
#define TESTS_BPF_ASSIST_H

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bpf/chaos.h"
#include "tests/bpf/assist_shapes.h"
#include "tests/bpf/assist_test.h"
#include "tests/bpf/assist_test.skel.h"
#include "user/base/clock.h"
#include "user/inside/assist.h"

#define INJECTED 0x123456789abcdef0L /* eight bytes, to see that all are set */
#define PATIENCE_MS 200000.0	     /* for what must happen: an emulated processor is slow */

static struct error err;

#define ok(call)                                                                                                       \
	do {                                                                                                           \
		int ok_ = (call);                                                                                      \
		cr_assert_geq(ok_, 0, "%s: %d %s", #call, ok_, err.text);                                              \
	} while (0)

/* Waits until a condition holds. */
#define until(condition)                                                                                               \
	do {                                                                                                           \
		double begun_ = now_ms();                                                                              \
		while (!(condition)) {                                                                                 \
			cr_assert_lt(now_ms() - begun_, PATIENCE_MS, "waited in vain: %s", #condition);                \
			usleep(500);                                                                                   \
		}                                                                                                      \
	} while (0)

/* What victims have seen, in memory shared with them. */
struct tally {
	uint64_t calls;
	uint64_t injected;
	uint64_t wrong; /* another result than the function's or ours */
	uint64_t bad;	/* registers, stack, flags */
};

struct common {
	struct tally tally;
	_Atomic int go, end, ready;
	_Atomic uint64_t signals; /* that handlers of victims' own have seen, */
	_Atomic uint64_t ours;	  /* and those among them that were meant for the assist */
	_Atomic int number;	  /* whatever a test likes to tell */
};

static struct common *common;
static int common_fd; /* for programs that victims execute */
static struct assist_test *skel;
static struct bpf_link *links[64];
static struct assist assist;

/* ---- the program ---- */

static inline void set_knobs(unsigned int percent, unsigned int flags)
{
	struct assist_test_knobs knobs = { .value = INJECTED, .percent = percent, .flags = flags };
	uint32_t zero = 0;

	cr_assert_eq(bpf_map_update_elem(bpf_map__fd(skel->maps.test_knobs), &zero, &knobs, BPF_ANY), 0);
}

/* Calls wait, set errno, and run after all if `runs`. */
static inline void set_effects(unsigned int percent, uint64_t delay_ms, bool runs, int error)
{
	struct assist_test_knobs knobs = {
		.value = INJECTED,
		.percent = percent,
		.delay_ns = delay_ms * 1000000,
		.runs = runs ? CHAOS_RUNS_LATER : CHAOS_RUNS_NEVER,
		.error = error,
	};
	uint32_t zero = 0;

	cr_assert_eq(bpf_map_update_elem(bpf_map__fd(skel->maps.test_knobs), &zero, &knobs, BPF_ANY), 0);
}

static inline struct assist_test_counts counts(void)
{
	struct assist_test_counts now = { 0 };
	uint32_t zero = 0;

	cr_assert_eq(bpf_map_lookup_elem(bpf_map__fd(skel->maps.test_counts), &zero, &now), 0);
	return now;
}

/* Its last sign of life; 0: it traces nobody. */
static inline uint64_t heartbeat(void)
{
	uint64_t value = 1;
	uint32_t zero = 0;

	cr_assert_eq(bpf_map_lookup_elem(bpf_map__fd(skel->maps.chaos_assist), &zero, &value), 0);
	return value;
}

static inline uint64_t failed(void)
{
	uint64_t value = 0;
	uint32_t zero = 0;

	cr_assert_eq(bpf_map_lookup_elem(bpf_map__fd(skel->maps.chaos_assist_failed), &zero, &value), 0);
	return value;
}

static inline unsigned int entries(const struct bpf_map *map)
{
	unsigned int count = 0;
	uint32_t key;

	for (void *at = NULL; bpf_map_get_next_key(bpf_map__fd(map), at, &key) == 0; at = &key)
		count++;
	return count;
}

static inline bool is_traced(pid_t pid)
{
	uint32_t key = pid, value;

	return bpf_map_lookup_elem(bpf_map__fd(skel->maps.chaos_traced), &key, &value) == 0;
}

/* Probes at all shapes; `by_ret`: those with a `ret` of their own say where it is. */
static inline void probe_shapes(bool by_ret)
{
	for (size_t i = 0; i < shape_count; i++) {
		uint64_t entry = (uintptr_t)shapes[i].function, ret = by_ret ? (uintptr_t)shapes[i].ret : 0;

		cr_assert_eq(bpf_map_update_elem(bpf_map__fd(skel->maps.test_rets), &entry, &ret, BPF_ANY), 0);
		if (links[i])
			continue;
		links[i] = bpf_program__attach_uprobe(skel->progs.test_entry, false, -1, "/proc/self/exe",
						      file_offset((void *)entry));
		cr_assert(links[i], "no probe at %s: %s", shapes[i].name, strerror(errno));
	}
}

static inline void start_assist(void)
{
	struct assist_maps maps = {
		.returns = bpf_map__fd(skel->maps.chaos_returns),
		.traced = bpf_map__fd(skel->maps.chaos_traced),
		.heartbeat = bpf_map__fd(skel->maps.chaos_assist),
		.failed = bpf_map__fd(skel->maps.chaos_assist_failed),
		.begun = -1,
		.control = -1,
		.schedule = -1,
		.intervals = -1,
		.over = -1,
	};

	ok(assist_start(&maps, &assist, &err));
}

static inline void map_common(int fd)
{
	common = mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

/* For a suite's .init and .fini. */
static inline void assist_world(void)
{
	if (geteuid() != 0)
		cr_skip_test("needs root");
	if (!shape_count)
		cr_skip_test("not written for this architecture");
	if (assist_possible(&err))
		cr_skip_test("%s", err.text);
	skel = assist_test__open_and_load();
	if (!skel)
		cr_skip_test("the program cannot be loaded here: %s", strerror(errno));
	common_fd = memfd_create("assist-test", 0);
	cr_assert_eq(ftruncate(common_fd, sizeof(*common)), 0);
	map_common(common_fd);
	cr_assert_neq(common, MAP_FAILED);
	set_knobs(50, 0);
	probe_shapes(false);
	start_assist();
}

static inline void assist_world_ends(void)
{
	if (!skel)
		return;
	assist_stop(&assist);
	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++)
		bpf_link__destroy(links[i]);
	assist_test__destroy(skel);
}

/* ---- victims ---- */

static inline void add(uint64_t *to, uint64_t value)
{
	__atomic_fetch_add(to, value, __ATOMIC_RELAXED);
}

static inline void call_shape(const struct shape *shape)
{
	uint64_t bad = 0;
	long result = checked_call(shape->function, &bad);

	add(&common->tally.calls, 1);
	if (result == INJECTED)
		add(&common->tally.injected, 1);
	else if (result != SHAPE_RESULT)
		add(&common->tally.wrong, 1);
	if (bad)
		add(&common->tally.bad, bad);
}

static inline void call_all(unsigned int rounds)
{
	for (unsigned int i = 0; i < rounds; i++) {
		for (size_t s = 0; s < shape_count; s++)
			call_shape(&shapes[s]);
	}
}

/* Runs `work` in a process of its own, which ends with the test's. */
static inline pid_t victim(void (*work)(void))
{
	pid_t parent = getpid(), pid = fork();

	cr_assert_geq(pid, 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	common->ready++;
	while (!common->go)
		usleep(200);
	work();
	_exit(0);
}

/* It ends, and well. */
static inline void join(pid_t pid)
{
	double begun = now_ms();
	int status = 0;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (now_ms() - begun >= PATIENCE_MS) {
			kill(pid, SIGKILL);
			cr_assert_fail("process %d hangs", pid);
		}
		usleep(500);
	}
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "process %d ended with status %#x", pid, status);
}

/* Adds it, lets it work, waits for its end. */
static inline void run_victim(void (*work)(void), bool with_children)
{
	pid_t pid = victim(work);

	ok(assist_add(&assist, pid, with_children, &err));
	common->go = 1;
	join(pid);
	common->go = 0;
}

/* What was decided is what was seen, and nothing else happened. */
static inline void exact(void)
{
	struct assist_test_counts c = counts();
	const struct tally *t = &common->tally;

	cr_expect_eq(t->wrong, 0, "%lu wrong results", t->wrong);
	cr_expect_eq(t->bad, 0, "%lu registers wrong", t->bad);
	cr_expect_eq(c.refused, 0, "%llu signals refused", c.refused);
	cr_expect_eq(t->injected, c.sent - c.again - failed(), "%lu seen, %llu decided, %llu of them again, %lu failed",
		     t->injected, c.sent, c.again, failed());
	cr_expect_eq(entries(skel->maps.chaos_returns), 0, "records are left");
}

#endif
