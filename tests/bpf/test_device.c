// SPDX-License-Identifier: GPL-2.0-only
/*
 * user/engine/device.h against the running kernel, in a world of the test's own: a new network namespace as "host", and a
 * /proc that shows no process but this one, so that device_restore_all() cannot reach anything outside.
 *
 * What the kernel lacks (fq above all) is skipped; vmtest/cases/qdisc_kinds.py does the queues with the whole program.
 * On a machine of its own, CHAOSBPF_TEST_ALONE=1 adds what changes a setting of the machine, and CHAOSBPF_TEST_KILLS
 * says how often to kill (200). Another load on this machine disturbs: it prepares the devices of these tests as well.
 */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bpf/chaos.h"
#include "user/engine/device.h"
#include "user/engine/qdisc.h"
#include "user/engine/tcprog.h"
#include "user/state/journal.h"

#define JOURNAL "/run/chaosbpf/journal"
#define BPFFS "/run/bpffs"

static struct error err;

#define ok(call)                                                                                                       \
	do {                                                                                                           \
		err.text[0] = '\0';                                                                                    \
		int ok_ = (call);                                                                                      \
		cr_assert_geq(ok_, 0, "%s: %d %s", #call, ok_, err.text);                                              \
	} while (0)

/* The world of a test */

/* Unmounts the bound namespaces of others from our copy of the mount table. */
static void forget_namespaces(void)
{
	char line[1024], path[512];
	FILE *mounts = fopen("/proc/self/mountinfo", "re");

	while (fgets(line, sizeof(line), mounts))
		if (strstr(line, " net:[") && sscanf(line, "%*s %*s %*s %*s %511s", path) == 1)
			umount2(path, MNT_DETACH);
	fclose(mounts);
}

/* Its namespaces, not its threads: Criterion keeps one in the machine's own namespace. */
static void show_process(pid_t pid)
{
	char path[64], target[64];

	snprintf(path, sizeof(path), "/proc/%d", pid);
	cr_assert_eq(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "/proc/%d/ns", pid);
	snprintf(target, sizeof(target), "/run/proc/%d/ns", pid);
	cr_assert_eq(symlink(target, path), 0);
}

static void hide_processes(void)
{
	cr_assert_eq(mkdir("/run/proc", 0755), 0);
	cr_assert_eq(mount("/proc", "/run/proc", NULL, MS_BIND | MS_REC, NULL), 0);
	cr_assert_eq(mount("none", "/proc", "tmpfs", 0, NULL), 0);
	cr_assert_eq(symlink("/run/proc/self", "/proc/self"), 0);
	cr_assert_eq(symlink("/run/proc/thread-self", "/proc/thread-self"), 0);
	cr_assert_eq(symlink("/run/proc/sys", "/proc/sys"), 0);
	show_process(getpid());
}

/* The leak sanitizer wants to see the real one. */
static void world_ends(void)
{
	umount2("/proc", MNT_DETACH);
}

#define skip(reason)                                                                                                   \
	do {                                                                                                           \
		world_ends();                                                                                          \
		cr_skip(reason);                                                                                       \
	} while (0)

__attribute__((format(printf, 1, 2))) static int try_run(const char *fmt, ...)
{
	char command[512];
	va_list ap;
	int status;

	va_start(ap, fmt);
	vsnprintf(command, sizeof(command), fmt, ap);
	va_end(ap);
	strcat(command, " >/dev/null 2>&1");
	status = system(command);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#define run(...) cr_assert_eq(try_run(__VA_ARGS__), 0, "command failed: " __VA_ARGS__)

static void world(void)
{
	if (geteuid())
		skip("needs root");
	cr_assert_eq(unshare(CLONE_NEWNS | CLONE_NEWNET), 0);
	cr_assert_eq(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	forget_namespaces();
	cr_assert_eq(mount("none", "/run", "tmpfs", 0, "mode=755"), 0);
	hide_processes();
	cr_assert_eq(mkdir(BPFFS, 0700), 0);
	cr_assert_eq(mount("none", BPFFS, "bpf", 0, NULL), 0);
	if (try_run("ip link set lo up") || try_run("tc qdisc"))
		skip("needs ip and tc, to set up what is then looked at");
}

/* What `tc` and `ip` show of everything in this namespace, without counters. */
static char *picture(void)
{
	static const char command[] = "exec 2>/dev/null; q=$(tc -d qdisc show); echo \"$q\";"
				      "ip -o link | sed 's/ state [A-Z]*//';"
				      "case $q in *clsact*|*ingress*) for d in lo d0 d1; do"
				      " tc filter show dev $d ingress; tc filter show dev $d egress; done; esac";
	FILE *out = popen(command, "re");
	size_t size = 0, len;
	char *text = NULL;
	FILE *copy = open_memstream(&text, &size);
	char buffer[4096];

	while ((len = fread(buffer, 1, sizeof(buffer), out)) > 0)
		fwrite(buffer, len, 1, copy);
	pclose(out);
	fclose(copy);
	return text;
}

/* The first line in which two pictures differ. */
static void same_picture(char *before, const char *what)
{
	char *after = picture(), *a = before, *b = after;
	size_t i = 0;

	while (a[i] && a[i] == b[i]) {
		if (a[i++] != '\n')
			continue;
		a += i;
		b += i;
		i = 0;
	}
	cr_expect(a[i] == b[i], "%s:\nbefore: %.*s\nafter:  %.*s", what, (int)strcspn(a, "\n"), a,
		  (int)strcspn(b, "\n"), b);
	free(after);
	free(before);
}

static struct netns own(void)
{
	struct netns netns;

	ok(netns_of_pid(getpid(), &netns, &err));
	return netns;
}

static struct device find_device(const struct netns *netns, const char *name)
{
	struct device *devices, found = { 0 };
	size_t i, count;

	ok(device_list(netns, &devices, &count, &err));
	for (i = 0; i < count; i++)
		if (!strcmp(devices[i].name, name))
			found = devices[i];
	free(devices);
	cr_assert_neq(found.ifindex, 0, "no device %s", name);
	return found;
}

static size_t ours(void)
{
	size_t qdiscs, filters;

	ok(device_count_ours(&qdiscs, &filters, &err));
	return qdiscs + filters;
}

static int open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

/* Programs */

#define INSN(op, d, s, o, i) { .code = (op), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i) }

/* A tc program that counts in map[0] and then returns `verdict`. */
static int counting_prog(const char *name, int map, int verdict)
{
	struct bpf_insn insns[] = {
		INSN(BPF_ST | BPF_MEM | BPF_W, 10, 0, -4, 0),
		INSN(BPF_ALU64 | BPF_MOV | BPF_X, 2, 10, 0, 0),
		INSN(BPF_ALU64 | BPF_ADD | BPF_K, 2, 0, 0, -4),
		INSN(BPF_LD | BPF_IMM | BPF_DW, 1, BPF_PSEUDO_MAP_FD, 0, map),
		INSN(0, 0, 0, 0, 0),
		INSN(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_map_lookup_elem),
		INSN(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 2, 0),
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, 1, 0, 0, 1),
		INSN(BPF_STX | BPF_ATOMIC | BPF_DW, 0, 1, 0, BPF_ADD),
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, verdict),
		INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
	};
	int fd;

	fd = bpf_prog_load(BPF_PROG_TYPE_SCHED_CLS, name, "GPL", insns, sizeof(insns) / sizeof(*insns), NULL);
	cr_assert_geq(fd, 0, "cannot load %s: %d", name, fd);
	return fd;
}

static int counter(void)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "chaos_t_count", 4, 8, 1, NULL);

	cr_assert_geq(fd, 0);
	return fd;
}

static uint64_t count_of(int map)
{
	uint32_t key = 0;
	uint64_t value = 0;

	cr_assert_eq(bpf_map_lookup_elem(map, &key, &value), 0);
	return value;
}

/* One packet over lo, there and (as nobody listens) back. */
static void ping(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9), .sin_addr = { htonl(0x7f000001) } };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to));
	close(fd);
}

static const struct device_wish fq_wish = {
	.egress_prog_fd = -1, .ingress_prog_fd = -1, .answer_prog_fd = -1, .fq = true, .fq_horizon_ns = 70000000000ULL, .generation = 7,
};

static void need_fq(void)
{
	int ret = qdisc_probe_fq();

	if (ret == -ENOENT)
		skip("this kernel has no fq");
	cr_assert_eq(ret, 0, "fq: %s", strerror(-ret));
}

static int prepare(const char *name, const struct device_wish *wish, struct device_result *result)
{
	struct netns netns = own();
	struct device device = find_device(&netns, name);
	int ret;

	ret = device_prepare(&netns, &device, wish, result, &err);
	netns_close(&netns);
	return ret;
}

/* Namespaces */

TestSuite(device, .init = world, .fini = world_ends, .timeout = 1800);

Test(device, namespaces_are_found_once_each_and_named)
{
	struct netns_list list;
	int pipes[2], before = open_files();
	size_t i, named = 0, of_pid = 0;
	char name[64], byte;
	pid_t child;

	run("ip netns add one");
	run("ip netns add 'two two'");
	cr_assert_eq(pipe(pipes), 0);
	child = fork();
	if (!child) {
		unshare(CLONE_NEWNET);
		(void)!write(pipes[1], "", 1);
		pause();
	}
	cr_assert_eq(read(pipes[0], &byte, 1), 1);
	show_process(child);
	ok(netns_list(&list, &err));
	snprintf(name, sizeof(name), "pid %d", child);
	cr_assert_eq(list.count, 4, "%zu", list.count);
	cr_assert_str_eq(list.entries[0].name, "host");
	for (i = 0; i < list.count; i++) {
		named += !strcmp(list.entries[i].name, "one") || !strcmp(list.entries[i].name, "two two");
		of_pid += !strcmp(list.entries[i].name, name);
	}
	cr_assert_eq(named, 2);
	cr_assert_eq(of_pid, 1);
	netns_list_free(&list);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(pipes[0]);
	close(pipes[1]);
	cr_assert_eq(open_files(), before);
}

static int inode_here(void *arg)
{
	struct stat st;

	stat("/proc/thread-self/ns/net", &st);
	*(uint64_t *)arg = st.st_ino;
	return -42;
}

Test(device, a_function_runs_inside_and_the_thread_comes_back)
{
	struct netns_list list;
	uint64_t here, there, after;
	size_t i;

	run("ip netns add one");
	inode_here(&here);
	ok(netns_list(&list, &err));
	cr_assert_eq(list.count, 2);
	for (i = 0; i < list.count; i++) {
		cr_assert_eq(netns_run(&list.entries[i], inode_here, &there), -42);
		cr_assert_eq(there, list.entries[i].inode);
		inode_here(&after);
		cr_assert_eq(after, here);
	}
	netns_list_free(&list);
}

Test(device, a_process_that_is_gone_has_no_namespace)
{
	struct netns netns;

	cr_assert_eq(netns_of_pid(4194304, &netns, &err), -ESRCH);
}

/* Devices and routes */

static unsigned int route(const struct netns *netns, const char *text)
{
	struct in6_addr address;
	unsigned int ifindex;

	cr_assert_eq(inet_pton(AF_INET6, text, &address), 1);
	ok(device_for_address(netns, &address, &ifindex, &err));
	return ifindex;
}

Test(device, routes_lead_to_devices)
{
	struct netns netns = own();
	struct device v0;

	run("ip link add v0 type veth peer name v1");
	run("ip addr add 10.1.0.1/24 dev v0");
	run("ip link set v0 up");
	run("ip link set v1 up");
	try_run("ip -6 addr add fd00::1/64 dev v0 nodad");
	v0 = find_device(&netns, "v0");
	cr_assert(v0.has_address);
	cr_assert(v0.flags & IFF_UP);
	cr_assert_eq(route(&netns, "::ffff:10.1.0.9"), v0.ifindex);
	cr_assert_eq(route(&netns, "::ffff:10.1.0.1"), 1);
	cr_assert_eq(route(&netns, "::ffff:127.0.0.1"), 1);
	cr_assert_eq(route(&netns, "::ffff:0.0.0.0"), 1);
	cr_assert_eq(route(&netns, "::ffff:192.0.2.1"), 0);
	cr_assert_eq(route(&netns, "2001:db8::1"), 0);
	if (!access("/proc/sys/net/ipv6", F_OK)) {
		cr_assert_eq(route(&netns, "::1"), 1);
		cr_assert_eq(route(&netns, "::"), 1);
		cr_assert_eq(route(&netns, "fd00::9"), v0.ifindex);
		cr_assert_eq(route(&netns, "fd00::1"), 1);
	}
	run("ip route add blackhole 198.51.100.0/24");
	run("ip route add unreachable 203.0.113.0/24");
	cr_assert_eq(route(&netns, "::ffff:198.51.100.1"), 0);
	cr_assert_eq(route(&netns, "::ffff:203.0.113.1"), 0);
	netns_close(&netns);
}

Test(device, a_device_that_vanished_is_enodev)
{
	struct device_wish wish = fq_wish;
	struct device_result result;
	struct netns netns = own();
	struct device v0;
	int map = counter();

	run("ip link add v0 type veth peer name v1");
	v0 = find_device(&netns, "v0");
	run("ip link del v0");
	wish.egress_prog_fd = counting_prog("chaos_t_out", map, -1);
	cr_assert_eq(device_prepare(&netns, &v0, &wish, &result, &err), -ENODEV);
	wish.fq = false;
	cr_assert_eq(device_prepare(&netns, &v0, &wish, &result, &err), -ENODEV);
	cr_assert_eq(result.egress_link_fd, -1);
}

/* Programs */

static void check_programs(bool foreign_tcx)
{
	int map = counter(), foreign = counter(), before;
	struct device_wish wish = {
		.egress_prog_fd = counting_prog("chaos_t_out", map, -1),
		.ingress_prog_fd = counting_prog("chaos_t_in", map, -1), .answer_prog_fd = -1,
		.generation = 7,
		.pin_dir = BPFFS,
	};
	/* These end the chain: only what runs before them is seen. */
	int foreign_prog = counting_prog("other", foreign, 0), foreign_link = -1;
	struct device_result result;
	struct netns netns = own();
	uint64_t seen;
	char *shown;

	if (foreign_tcx) {
		foreign_link = tcprog_link(&netns, 1, TCPROG_EGRESS, foreign_prog, NULL);
	} else {
		run("tc qdisc add dev lo clsact");
		cr_assert_eq(bpf_obj_pin(foreign_prog, BPFFS "/foreign"), 0);
		run("tc filter add dev lo egress prio 1 bpf da object-pinned " BPFFS "/foreign");
	}
	shown = picture();
	before = open_files() + 2;
	ok(device_journal_open(JOURNAL, &err));
	ok(prepare("lo", &wish, &result));
	cr_assert_eq(result.flags, CHAOS_DEVICE_EGRESS | CHAOS_DEVICE_INGRESS);
	cr_assert_eq(ours(), 2);
	ping();
	cr_assert_geq(seen = count_of(map), 2);
	cr_assert_geq(count_of(foreign), 1);
	/* A second load beside it, and the first goes. */
	close(result.egress_link_fd);
	close(result.ingress_link_fd);
	wish.generation = 8;
	wish.egress_prog_fd = counting_prog("chaos_t_out8", map, -1);
	wish.ingress_prog_fd = counting_prog("chaos_t_in8", map, -1);
	run("mkdir " BPFFS "/8");
	wish.pin_dir = BPFFS "/8";
	ok(prepare("lo", &wish, &result));
	close(result.egress_link_fd);
	close(result.ingress_link_fd);
	ok(prepare("lo", &wish, &result)); /* twice is like once */
	cr_assert_eq(ours(), 4);
	ping();
	cr_assert_geq(count_of(map), seen + 4);
	close(result.egress_link_fd);
	close(result.ingress_link_fd);
	ok(device_detach(&netns, 7, &err));
	try_run("rm " BPFFS "/tcx_*");
	cr_assert_eq(ours(), 2);
	ok(device_restore_all(JOURNAL, 8, &err));
	cr_assert_eq(ours(), 2);
	ok(device_restore_all(JOURNAL, 0, &err));
	try_run("rm " BPFFS "/8/tcx_*");
	cr_assert_eq(ours(), 0);
	device_journal_close();
	cr_assert_eq(open_files(), before);
	seen = count_of(foreign);
	ping();
	cr_assert_gt(count_of(foreign), seen);
	same_picture(shown, "programs");
	close(foreign_link);
}

/* Of two programs for what arrives; it ends the chain here, so the other one sees nothing. */
static void check_answer_program(void)
{
	int arriving = counter(), answers = counter();
	struct device_wish wish = {
		.egress_prog_fd = -1,
		.ingress_prog_fd = counting_prog("chaos_t_in", arriving, -1),
		.answer_prog_fd = counting_prog("chaos_t_answer", answers, 0),
		.generation = 7,
		.pin_dir = BPFFS,
	};
	struct device_result result;
	struct netns netns = own();
	char *shown = picture();

	ok(device_journal_open(JOURNAL, &err));
	ok(prepare("lo", &wish, &result));
	cr_expect_eq(result.flags, CHAOS_DEVICE_INGRESS | CHAOS_DEVICE_ANSWER);
	cr_expect_eq(ours(), 2);
	ping();
	cr_expect_geq(count_of(answers), 1);
	cr_expect_eq(count_of(arriving), 0);
	close(result.ingress_link_fd);
	close(result.answer_link_fd);
	ok(device_detach(&netns, 7, &err));
	try_run("rm " BPFFS "/tcx_*");
	ok(device_restore_all(JOURNAL, 0, &err));
	cr_expect_eq(ours(), 0);
	device_journal_close();
	same_picture(shown, "the program for answers");
}

Test(device, the_program_for_answers_runs_first)
{
	struct netns netns = own();
	int map = counter(), link;

	link = tcprog_link(&netns, 1, TCPROG_EGRESS, counting_prog("other", map, 0), NULL);
	close(link);
	if (link >= 0)
		check_answer_program();
	tcprog_no_tcx = true;
	check_answer_program();
}

Test(device, programs_run_first_and_leave_nothing)
{
	struct netns netns = own();
	int map = counter(), link;

	link = tcprog_link(&netns, 1, TCPROG_EGRESS, counting_prog("other", map, 0), NULL);
	if (link < 0)
		skip("this kernel has no TCX");
	close(link);
	check_programs(true);
}

Test(device, filters_run_first_and_leave_nothing)
{
	tcprog_no_tcx = true;
	check_programs(false);
}

Test(device, filters_before_another_kind)
{
	int map = counter();
	struct device_wish wish = {
		.egress_prog_fd = counting_prog("chaos_t_out", map, -1), .ingress_prog_fd = -1, .answer_prog_fd = -1, .generation = 7,
	};
	struct device_result result;
	char *shown;

	tcprog_no_tcx = true;
	run("tc qdisc add dev lo clsact");
	if (try_run("tc filter add dev lo egress prio 1 protocol ip matchall action pass") &&
	    try_run("tc filter add dev lo egress prio 1 protocol ip u32 match u32 0 0 action pass"))
		skip("this kernel has neither matchall nor u32");
	shown = picture();
	ok(device_journal_open(JOURNAL, &err));
	ok(prepare("lo", &wish, &result));
	cr_assert_eq(ours(), 1);
	ok(device_restore_all(JOURNAL, 0, &err));
	same_picture(shown, "filters");
}

Test(device, a_clsact_of_our_own_goes_with_our_last_filter)
{
	int map = counter();
	struct device_wish wish = {
		.egress_prog_fd = counting_prog("chaos_t_out", map, -1), .ingress_prog_fd = -1, .answer_prog_fd = -1, .generation = 7,
	};
	struct device_result result;
	char *shown = picture();

	tcprog_no_tcx = true;
	ok(device_journal_open(JOURNAL, &err));
	ok(prepare("lo", &wish, &result));
	ok(prepare("lo", &wish, &result));
	cr_assert_eq(ours(), 1);
	ok(device_restore_all(JOURNAL, 0, &err));
	same_picture(shown, "clsact");
	cr_assert_neq(access(JOURNAL, F_OK), 0, "the journal is still there");
	/* Somebody's filter came to it: then it stays, with that filter. */
	ok(prepare("lo", &wish, &result));
	if (!try_run("tc filter add dev lo ingress matchall action pass")) {
		ok(device_restore_all(JOURNAL, 0, &err));
		cr_assert_eq(ours(), 0);
		run("tc filter show dev lo ingress | grep matchall");
		run("tc qdisc del dev lo clsact");
	}
	/* Made by somebody, in spite of an old record that says otherwise. */
	ok(device_restore_all(JOURNAL, 0, &err));
	run("tc qdisc add dev lo clsact");
	shown = picture();
	ok(prepare("lo", &wish, &result));
	ok(device_restore_all(JOURNAL, 0, &err));
	same_picture(shown, "foreign clsact");
}

/* Nothing says any more who made it: it goes when only our filters were on it. */
Test(device, a_clsact_with_our_filters_goes_without_a_journal)
{
	int map = counter();
	struct device_wish wish = {
		.egress_prog_fd = counting_prog("chaos_t_out", map, -1), .ingress_prog_fd = -1, .answer_prog_fd = -1, .generation = 7,
	};
	struct device_result result;
	char *shown = picture();

	tcprog_no_tcx = true;
	ok(device_journal_open(JOURNAL, &err));
	ok(prepare("lo", &wish, &result));
	cr_assert_eq(unlink(JOURNAL), 0);
	ok(device_restore_all(JOURNAL, 0, &err));
	same_picture(shown, "clsact without a journal");
}

Test(device, an_ingress_queue_is_refused_only_for_egress)
{
	int map = counter();
	struct device_wish wish = {
		.egress_prog_fd = counting_prog("chaos_t_out", map, -1), .ingress_prog_fd = -1, .answer_prog_fd = -1, .generation = 7,
	};
	struct device_result result;
	char *shown;

	tcprog_no_tcx = true;
	run("tc qdisc add dev lo ingress");
	shown = picture();
	cr_assert_eq(prepare("lo", &wish, &result), -EOPNOTSUPP);
	cr_assert_eq(err.exit, EXIT_CANNOT);
	wish.ingress_prog_fd = wish.egress_prog_fd;
	wish.egress_prog_fd = -1;
	ok(prepare("lo", &wish, &result));
	cr_assert_eq(ours(), 1);
	ok(device_restore_all(NULL, 0, &err));
	same_picture(shown, "ingress");
}

/* Queues */

struct kind {
	char setup[224]; /* shell; a failure means that this kernel lacks it */
	bool refused;
};

static const struct kind kinds[] = {
	{ "true" },
	{ "ip link set d0 txqueuelen 0" },
	{ "tc qdisc add dev d0 root handle 1: pfifo limit 77" },
	{ "tc qdisc add dev d0 root pfifo" },
	{ "tc qdisc add dev d0 root handle 1: bfifo limit 54321" },
	{ "tc qdisc add dev d0 root handle 1: pfifo_fast" },
	{ "tc qdisc add dev d0 root handle 1: noqueue" },
	{ "tc qdisc add dev d0 root handle 1: fq" },
	{ "tc qdisc add dev d0 root fq limit 777 flow_limit 33 maxrate 5mbit quantum 3000 initial_quantum 9000" },
	{ "tc qdisc add dev d0 root fq horizon 3s horizon_cap ce_threshold 3ms timer_slack 20us refill_delay 30ms" },
	{ "tc qdisc add dev d0 root fq nopacing buckets 512 orphan_mask 255 low_rate_threshold 300kbit" },
	{ "tc qdisc add dev d0 root handle 1: fq_codel" },
	{ "tc qdisc add dev d0 root fq_codel limit 777 flows 64 target 7ms interval 133ms noecn quantum 1000" },
	{ "tc qdisc add dev d0 root fq_codel target 1234us interval 98765us ce_threshold 777us memory_limit 1Mb" },
	{ "tc qdisc add dev d0 root codel limit 99 target 3ms interval 33ms ecn ce_threshold 1ms" },
	{ "tc qdisc add dev d0 root cake bandwidth 10mbit rtt 33ms diffserv8 nat wash ack-filter overhead 18" },
	{ "tc qdisc add dev d0 root cake unlimited besteffort raw memlimit 1mb no-split-gso" },
	{ "tc qdisc add dev d0 root sfq perturb 10 quantum 1600 limit 100" },
	{ "tc qdisc add dev d0 root sfq headdrop flows 200 depth 64 divisor 512 limit 3000 redflowlimit 100000 "
	  "min 8000 max 60000 probability 0.20 ecn" },
	{ "tc qdisc add dev d0 root tbf rate 1mbit burst 1600 limit 9000" },
	{ "tc qdisc add dev d0 root tbf rate 333kbit burst 1514 latency 50ms" },
	{ "tc qdisc add dev d0 root tbf rate 20gbit burst 64kb limit 900000" },
	{ "tc qdisc add dev d0 root tbf rate 8mbit burst 5kb latency 70ms peakrate 10mbit minburst 1540" },
	{ "tc qdisc add dev d0 root tbf rate 1mbit burst 2000 limit 9000 overhead 22 linklayer atm" },
	{ "tc qdisc add dev d0 root netem delay 33ms loss 3% duplicate 1% corrupt 2% limit 500" },
	{ "tc qdisc add dev d0 root netem rate 5mbit 20 100 5" },
	{ "tc qdisc add dev d0 root netem loss gemodel 1% 10% 70% 0.1%" },
	{ "tc qdisc add dev d0 root netem loss state 1% 30% 20% 5% 3% ecn" },
	{ "tc qdisc add dev d0 root netem delay 10ms reorder 25% 50% gap 3" },
	{ "tc qdisc add dev d0 root netem slot 1ms 1ms packets 3 bytes 3000" },
	{ "tc qdisc add dev d0 root netem delay 33ms 5ms", true },
	{ "tc qdisc add dev d0 root netem slot distribution pareto 1ms 3ms", true },
	{ "tc qdisc add dev d0 root handle 1: netem delay 3ms && tc qdisc add dev d0 parent 1:1 pfifo", true },
	{ "tc qdisc add dev d0 root handle 1: htb default 1 && tc class add dev d0 parent 1: classid 1:1 htb rate 1gbit",
	  true },
	{ "tc qdisc add dev d0 root handle 1: prio", true },
	{ "tc qdisc add dev d0 stab overhead 20 mtu 2047 tsize 512 mpu 64 root pfifo", true },
	{ "tc qdisc add dev d0 root handle 1: fq_codel && tc filter add dev d0 parent 1: protocol ip u32 "
	  "match u32 0 0 classid 1:1", true },
	{ "tc qdisc add dev d0 root handle 1: red limit 400000 min 30000 max 90000 avpkt 1000 burst 55 probability 0.02",
	  true },
};

/* `make` creates d0. */
static void check_kind(const char *make, const struct kind *kind)
{
	struct netns netns = own();
	struct device_result result;
	struct device d0;
	char *before;
	int ret;

	run("%s", make);
	run("ip link set d0 up");
	if (try_run("%s", kind->setup)) {
		fprintf(stderr, "not here: %s\n", kind->setup);
		goto out;
	}
	before = picture();
	d0 = find_device(&netns, "d0");
	ret = device_can_fq(&netns, &d0, &err);
	cr_assert_eq(ret, kind->refused ? -EOPNOTSUPP : 0, "%s: %s", kind->setup, err.text);
	ok(device_journal_open(JOURNAL, &err));
	ret = device_prepare(&netns, &d0, &fq_wish, &result, &err);
	cr_assert_eq(ret, kind->refused ? -EOPNOTSUPP : 0, "%s: %s", kind->setup, err.text);
	if (kind->refused) {
		cr_assert_eq(err.exit, EXIT_CANNOT);
		cr_assert_neq(err.hint[0], '\0');
	} else {
		run("tc -d qdisc show dev d0 | grep 'fq c4a.*limit 100000p.*horizon 70s'");
		cr_assert_gt(ours(), 0);
	}
	device_journal_close();
	ret = device_restore_all(JOURNAL, 0, &err);
	cr_expect_eq(ret, 0, "%s: %s", kind->setup, err.text);
	cr_assert_eq(ours(), 0);
	same_picture(before, kind->setup);
	cr_assert_neq(access(JOURNAL, F_OK), 0, "the journal is still there");
out:
	run("ip link del d0");
	netns_close(&netns);
}

#define KINDS (sizeof(kinds) / sizeof(*kinds))

Test(device, every_kind_of_queue_comes_back_on_veth)
{
	size_t i;

	need_fq();
	for (i = 0; i < KINDS; i++)
		check_kind("ip link add d0 type veth peer name p0 && ip link set p0 up", &kinds[i]);
}

Test(device, every_kind_of_queue_comes_back_on_ifb)
{
	size_t i;

	need_fq();
	for (i = 0; i < KINDS; i++)
		check_kind("ip link add d0 type ifb", &kinds[i]);
}

Test(device, every_kind_of_queue_comes_back_on_many_queues)
{
	static const struct kind explicit_mq[] = {
		{ "tc qdisc add dev d0 root handle 5: mq" },
		{ "tc qdisc add dev d0 root handle 5: mq && tc qdisc add dev d0 parent 5:2 pfifo limit 33" },
		{ "tc qdisc add dev d0 root handle 5: mq && tc qdisc add dev d0 parent 5:1 handle 51: fq maxrate 1gbit && "
		  "tc qdisc add dev d0 parent 5:3 fq_codel target 1ms" },
		{ "tc qdisc add dev d0 root handle 5: mq && tc qdisc add dev d0 parent 5:2 prio", true },
		{ "tc qdisc add dev d0 root handle 5: mq && tc qdisc add dev d0 parent 5:2 netem delay 3ms 1ms", true },
	};
	size_t i;

	need_fq();
	for (i = 0; i < KINDS; i++)
		check_kind("ip link add d0 numtxqueues 4 type ifb", &kinds[i]);
	for (i = 0; i < sizeof(explicit_mq) / sizeof(*explicit_mq); i++)
		check_kind("ip link add d0 numtxqueues 4 type ifb", &explicit_mq[i]);
}

Test(device, a_device_that_is_down_has_its_queue_when_it_comes_up)
{
	struct device_result result;
	char *before;

	need_fq();
	run("ip link add d0 type ifb && ip link set d0 up");
	before = picture();
	run("ip link set d0 down");
	ok(prepare("d0", &fq_wish, &result));
	ok(device_restore_all(NULL, 0, &err));
	cr_assert_eq(ours(), 0);
	run("ip link set d0 up");
	same_picture(before, "down");
}

Test(device, every_queue_of_a_device_gets_its_own_fq)
{
	struct device_result result;

	need_fq();
	run("ip link add d0 numtxqueues 4 type ifb && ip link set d0 up");
	ok(prepare("d0", &fq_wish, &result));
	run("tc qdisc show dev d0 | grep 'qdisc mq c4a0: root'");
	run("[ $(tc qdisc show dev d0 | grep -c 'qdisc fq c4a[1-4]: parent c4a0:[1-4]') = 4 ]");
}

Test(device, two_loads_share_the_queue_with_the_longer_horizon)
{
	struct device_wish shorter = fq_wish, longer = fq_wish;
	struct device_result result;
	char *before;

	need_fq();
	shorter.fq_horizon_ns = 5000000000ULL;
	longer.fq_horizon_ns = 100000000000ULL;
	run("tc qdisc replace dev lo root handle 9: pfifo limit 77");
	before = picture();
	ok(device_journal_open(JOURNAL, &err));
	ok(prepare("lo", &fq_wish, &result));
	ok(prepare("lo", &shorter, &result));
	run("tc -d qdisc show dev lo | grep 'horizon 70s'");
	ok(prepare("lo", &longer, &result));
	run("tc -d qdisc show dev lo | grep 'horizon 100s'");
	ok(device_restore_all(JOURNAL, 8, &err)); /* a load goes, the other needs the queue */
	run("tc -d qdisc show dev lo | grep 'horizon 100s'");
	ok(device_restore_all(JOURNAL, 0, &err));
	same_picture(before, "two loads");
}

Test(device, without_the_journal_the_default_comes_back)
{
	struct device_result result;
	char *before;

	need_fq();
	run("ip link add d0 type ifb && ip link set d0 up");
	before = picture();
	ok(prepare("d0", &fq_wish, &result));
	ok(prepare("lo", &fq_wish, &result));
	ok(device_restore_all(NULL, 0, &err));
	same_picture(before, "no journal");
}

static void set_default_qdisc(const char *kind)
{
	try_run("modprobe sch_%s", kind);
	run("nsenter --net=/run/proc/1/ns/net sh -c 'echo %s >/run/proc/sys/net/core/default_qdisc'", kind);
}

Test(device, another_default_than_when_the_device_came_up)
{
	struct device_result result;
	int i;

	need_fq();
	if (!getenv("CHAOSBPF_TEST_ALONE"))
		skip("would change a setting of the whole machine: CHAOSBPF_TEST_ALONE=1 allows it");
	for (i = 0; i < 2; i++) {
		set_default_qdisc("fq_codel");
		run("ip link add d0 numtxqueues %d type ifb", i ? 4 : 1);
		run("ip link set d0 up");
		ok(device_journal_open(JOURNAL, &err));
		ok(prepare("d0", &fq_wish, &result));
		set_default_qdisc("pfifo_fast");
		ok(device_restore_all(JOURNAL, 0, &err));
		cr_assert_eq(ours(), 0);
		run("[ $(tc qdisc show dev d0 | grep -c fq_codel) = %d ]", i ? 4 : 1);
		run("[ $(tc qdisc show dev d0 | grep -c pfifo_fast) = 0 ]");
		run("ip link del d0");
	}
	set_default_qdisc("fq_codel");
}

Test(device, what_somebody_put_there_meanwhile_stays)
{
	struct device_result result;
	char *after;

	need_fq();
	run("tc qdisc replace dev lo root handle 9: pfifo limit 77");
	ok(device_journal_open(JOURNAL, &err));
	ok(prepare("lo", &fq_wish, &result));
	run("tc qdisc replace dev lo root handle 8: pfifo limit 88");
	after = picture();
	ok(device_restore_all(JOURNAL, 0, &err));
	same_picture(after, "a foreign queue");
	cr_assert_neq(access(JOURNAL, F_OK), 0);
}

Test(device, a_failure_takes_back_what_was_done)
{
	struct device_wish wish = fq_wish;
	struct device_result result;
	int map = counter(), files;
	char *before;

	need_fq();
	run("tc qdisc replace dev lo root handle 9: pfifo limit 77");
	before = picture();
	ok(device_journal_open(JOURNAL, &err));
	files = open_files();
	wish.egress_prog_fd = counting_prog("chaos_t_out", map, -1);
	wish.ingress_prog_fd = map; /* not a program */
	cr_assert_lt(prepare("lo", &wish, &result), 0);
	cr_assert_eq(result.flags, 0);
	cr_assert_eq(ours(), 0);
	close(wish.egress_prog_fd);
	cr_assert_eq(open_files(), files);
	same_picture(before, "a failure");
}

Test(device, waiting_packets_are_counted)
{
	struct netns netns = own();
	struct device_result result;
	uint32_t packets;

	need_fq();
	ok(prepare("lo", &fq_wish, &result));
	ok(device_backlog(&netns, 1, &packets, &err));
	cr_assert_eq(packets, 0);
	netns_close(&netns);
}

/* Killed at any moment */

static void load_and_stop_for_ever(int egress)
{
	struct device_wish wish = fq_wish;
	struct device_result result;

	wish.egress_prog_fd = egress;
	wish.fq = !qdisc_probe_fq();
	for (;;) {
		if (device_journal_open(JOURNAL, &err))
			_exit(1);
		prepare("lo", &wish, &result);
		prepare("d0", &wish, &result);
		prepare("d1", &wish, &result);
		close(result.egress_link_fd);
		device_journal_close();
		device_restore_all(JOURNAL, 0, &err);
	}
}

static void kill_at_random_moments(bool no_tcx)
{
	int map = counter(), egress = counting_prog("chaos_t_out", map, -1), i, status;
	int kills = getenv("CHAOSBPF_TEST_KILLS") ? atoi(getenv("CHAOSBPF_TEST_KILLS")) : 200;
	char *before;
	pid_t child;

	tcprog_no_tcx = no_tcx;
	run("ip link add d0 type veth peer name p0");
	run("ip link set d0 txqueuelen 0");
	run("ip link set d0 up");
	run("ip link add d1 numtxqueues 2 type ifb && ip link set d1 up");
	if (!qdisc_probe_fq())
		run("tc qdisc replace dev lo root handle 9: pfifo limit 77");
	before = picture();
	srand(42);
	for (i = 0; i < kills; i++) {
		child = fork();
		if (!child) {
			show_process(getpid());
			load_and_stop_for_ever(egress);
		}
		usleep(rand() % 30000);
		kill(child, SIGKILL);
		waitpid(child, &status, 0);
		cr_assert(WIFSIGNALED(status));
		ok(device_restore_all(JOURNAL, 0, &err));
		cr_assert_eq(ours(), 0);
		same_picture(strdup(before), "killed");
	}
	free(before);
}

Test(device, kill_9_at_any_moment_leaves_nothing)
{
	kill_at_random_moments(false);
}

Test(device, kill_9_at_any_moment_leaves_nothing_with_clsact)
{
	kill_at_random_moments(true);
}

/* How long a stop takes */

static void remove_pins(void)
{
	DIR *dir = opendir(BPFFS);
	struct dirent *entry;

	while ((entry = readdir(dir)))
		if (!strncmp(entry->d_name, "tcx_", 4))
			unlinkat(dirfd(dir), entry->d_name, 0);
	closedir(dir);
}

static void stop_is_quick(void)
{
	struct device_wish wish = fq_wish;
	struct device_result result;
	struct netns_list list;
	struct device *devices;
	struct timespec start, end;
	size_t i, j, count;
	int map = counter();
	double ms;

	wish.fq = !qdisc_probe_fq();
	wish.egress_prog_fd = counting_prog("chaos_t_out", map, -1);
	wish.pin_dir = BPFFS;
	for (i = 0; i < 20; i++) {
		run("ip netns add n%zu", i);
		run("ip -n n%zu link add d0 type veth peer name d1", i);
		run("ip -n n%zu link set d0 up", i);
		run("ip -n n%zu link set d1 up", i);
	}
	ok(device_journal_open(JOURNAL, &err));
	ok(netns_list(&list, &err));
	for (i = 0; i < list.count; i++) {
		ok(device_list(&list.entries[i], &devices, &count, &err));
		for (j = 0; j < count; j++) {
			ok(device_prepare(&list.entries[i], &devices[j], &wish, &result, &err));
			close(result.egress_link_fd);
		}
		free(devices);
	}
	clock_gettime(CLOCK_MONOTONIC, &start);
	ok(device_restore_all(JOURNAL, 0, &err));
	remove_pins();
	clock_gettime(CLOCK_MONOTONIC, &end);
	cr_assert_eq(ours(), 0);
	netns_list_free(&list);
	ms = (end.tv_sec - start.tv_sec) * 1e3 + (end.tv_nsec - start.tv_nsec) / 1e6;
	fprintf(stderr, "stop took %.1f ms\n", ms);
	cr_assert_lt(ms, 5000); /* a bound for emulated machines; the bench has the real one */
}

Test(device, stop_is_quick)
{
	tcprog_no_tcx = true;
	stop_is_quick();
}

Test(device, stop_is_quick_with_tcx)
{
	stop_is_quick();
}

/* The journal */

static void write_file(const char *path, const char *text, size_t len)
{
	FILE *out = fopen(path, "we");

	fwrite(text, len, 1, out);
	fclose(out);
	chmod(path, 0600);
}

static char *journal_text(size_t *len)
{
	static const unsigned char options[] = { 8, 0, 1, 0, 1, 2, 3, 4 };
	struct journal_record record = { .netns = 4026531840, .cookie = 1, .name = "eth0" };
	char *text;
	FILE *in;
	int i;

	ok(device_journal_open(JOURNAL, &err));
	for (i = 1; i <= 3; i++) {
		record.ifindex = i;
		record.kind = i == 2 ? JOURNAL_CLSACT : JOURNAL_QDISC;
		record.made = true;
		record.tree.tx_queue_len = 1000;
		record.tree.root = (struct qdisc){ .kind = "fq_codel", .handle = 0x80010000, .options_len = 8 };
		memcpy(record.tree.root.options, options, sizeof(options));
		ok(journal_append(&record));
	}
	device_journal_close();
	in = fopen(JOURNAL, "re");
	text = calloc(1, 4096);
	*len = fread(text, 1, 4096, in);
	fclose(in);
	return text;
}

Test(device, a_torn_journal_keeps_its_whole_lines)
{
	size_t len, cut, i, lines;
	struct journal journal;
	char *text = journal_text(&len);

	for (cut = 0; cut <= len; cut++) {
		write_file(JOURNAL, text, cut);
		for (i = lines = 0; i < cut; i++)
			lines += text[i + 1] == '\n'; /* the record is whole without it */
		ok(journal_read(JOURNAL, &journal, &err));
		cr_assert_eq(journal.count, lines, "cut at %zu", cut);
		for (i = 0; i < lines; i++)
			cr_assert_eq(journal.records[i].ifindex, i + 1);
		journal_free(&journal);
		/* What is appended to a torn line is not lost with it. */
		ok(journal_open(JOURNAL, &err));
		ok(journal_append(&(struct journal_record){ .kind = JOURNAL_CLSACT, .ifindex = 99, .name = "x" }));
		journal_close();
		ok(journal_read(JOURNAL, &journal, &err));
		cr_assert_eq(journal.count, lines + 1, "cut at %zu", cut);
		journal_free(&journal);
	}
	free(text);
}

Test(device, a_damaged_journal_loses_the_damaged_lines_only)
{
	size_t len, at;
	struct journal journal;
	char *text = journal_text(&len);
	unsigned int bit;

	for (at = 0; at < len; at++) {
		for (bit = 0; bit < 8; bit++) {
			text[at] ^= 1 << bit;
			write_file(JOURNAL, text, len);
			ok(journal_read(JOURNAL, &journal, &err));
			cr_assert_geq(journal.count, 1);
			cr_assert_leq(journal.count, at == len - 1 ? 3 : 2, "byte %zu bit %u", at, bit);
			journal_free(&journal);
			text[at] ^= 1 << bit;
		}
	}
	ok(device_restore_all(JOURNAL, 0, &err));
	free(text);
}

Test(device, the_journal_stays_small)
{
	struct journal_record record = { .netns = 1, .ifindex = 1, .name = "eth0" };
	struct journal journal;
	struct stat st;
	int i;

	record.tree.root.options_len = sizeof(record.tree.root.options);
	strcpy(record.tree.root.kind, "fq");
	ok(device_journal_open(JOURNAL, &err));
	for (i = 0; i < 10000; i++) {
		record.ifindex = 1 + i % 10;
		record.tree.tx_queue_len = i;
		ok(journal_append(&record));
	}
	cr_assert_eq(stat(JOURNAL, &st), 0);
	cr_assert_leq(st.st_size, 5 * 1024 * 1024);
	ok(journal_read(JOURNAL, &journal, &err));
	cr_assert_eq(journal_find(&journal, JOURNAL_QDISC, 1, 0, 10)->tree.tx_queue_len, 9999);
	journal_free(&journal);
}

Test(device, a_journal_that_others_could_have_written_is_not_read)
{
	size_t len;
	struct journal journal;

	free(journal_text(&len));
	cr_assert_eq(chmod(JOURNAL, 0666), 0);
	cr_assert_eq(journal_read(JOURNAL, &journal, &err), -EPERM);
	cr_assert_eq(device_journal_open(JOURNAL, &err), -EPERM);
	cr_assert_eq(device_restore_all(JOURNAL, 0, &err), -EPERM);
	cr_assert_eq(unlink(JOURNAL), 0);
	cr_assert_eq(symlink("/etc/passwd", JOURNAL), 0);
	cr_assert_lt(device_journal_open(JOURNAL, &err), 0);
}
