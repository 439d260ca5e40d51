// SPDX-License-Identifier: GPL-2.0-only
/*
 * user/state/store.c: records, files and pins, below a /run and a bpffs of the test's own (a mount namespace), so that nothing
 * that is loaded on this machine is seen or touched.
 */
#include <bpf/bpf.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "user/state/store.h"

static struct error err;

#define ok(call)                                                                                                       \
	do {                                                                                                           \
		int ok_ = (call);                                                                                      \
		cr_assert_geq(ok_, 0, "%s: %d %s", #call, ok_, err.text);                                              \
	} while (0)

static void world(void)
{
	if (geteuid() != 0)
		cr_skip_test("needs root");
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) || mount("none", "/run", "tmpfs", 0, "mode=755"))
		cr_skip_test("no mount namespace can be made here: %s", strerror(errno));
	if (mount("none", STORE_BPFFS, "bpf", 0, NULL))
		cr_skip_test("no bpffs can be mounted here: %s", strerror(errno));
}

TestSuite(store, .init = world);

static bool exists(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

static unsigned int mode_of(const char *path)
{
	struct stat st;

	cr_assert_eq(lstat(path, &st), 0, "%s", path);
	return st.st_mode & 07777;
}

static void write_text(const char *path, const char *text)
{
	ok(store_write_file(path, text, strlen(text), &err));
}

/* ---- directories ---- */

Test(store, directories_are_root_s_alone)
{
	ok(store_make(&err));
	cr_expect_eq(mode_of(STORE_RUN), 0700);
	cr_expect_eq(mode_of(STORE_PINS), 0700);
	ok(store_make(&err)); /* again: nothing wrong with that */
}

Test(store, a_directory_of_others_is_not_used)
{
	cr_assert_eq(mkdir(STORE_RUN, 0755), 0);
	cr_expect_eq(store_make(&err), -EPERM);
	cr_assert_eq(rmdir(STORE_RUN), 0);
	cr_assert_eq(mkdir(STORE_RUN, 0700), 0);
	cr_assert_eq(chown(STORE_RUN, 1, 1), 0);
	cr_expect_eq(store_make(&err), -EPERM);
	cr_assert_eq(rmdir(STORE_RUN), 0);
	cr_assert_eq(mkdir("/run/elsewhere", 0700), 0);
	cr_assert_eq(symlink("/run/elsewhere", STORE_RUN), 0);
	cr_expect_eq(store_make(&err), -EPERM, "a link to somewhere else");
	cr_expect_not_null(strstr(err.text, STORE_RUN));
}

Test(store, bpffs_is_mounted_where_it_is_not_and_unmounted_again)
{
	cr_assert_eq(umount2(STORE_BPFFS, MNT_DETACH), 0);
	while (umount2(STORE_BPFFS, MNT_DETACH) == 0) /* that of the machine, in our copy of the mounts */
		;
	if (mount("none", STORE_BPFFS, "tmpfs", 0, NULL))
		cr_skip_test("no tmpfs over %s: %s", STORE_BPFFS, strerror(errno));
	ok(store_make(&err));
	cr_expect(exists(STORE_PINS) && exists(STORE_RUN));
	ok(store_remove_all());
	cr_expect_not(exists(STORE_RUN));
	cr_expect_not(exists(STORE_PINS), "our mount is gone, and with it all that was in it");
}

/* ---- files ---- */

Test(store, files_are_replaced_whole)
{
	void *data;
	size_t size;

	ok(store_make(&err));
	write_text(STORE_RULES, "the first, which is longer");
	write_text(STORE_RULES, "second");
	cr_expect_eq(mode_of(STORE_RULES), 0600);
	ok(store_read_file(STORE_RULES, 100, &data, &size, &err));
	cr_expect_eq(size, 6);
	cr_expect_str_eq(data, "second");
	free(data);
	cr_expect_not(exists(STORE_RULES ".new"));
	cr_expect_eq(store_read_file(STORE_RULES, 5, &data, &size, &err), -EBADMSG, "longer than is wanted");
	cr_expect(data == NULL && size == 0);
	cr_expect_eq(store_read_file(STORE_RUN "/no", 5, &data, &size, &err), -ENOENT);
	cr_expect_eq(store_read_file(STORE_RUN, 5000, &data, &size, &err), -EBADMSG, "a directory");
	write_text(STORE_RULES, "");
	ok(store_read_file(STORE_RULES, 0, &data, &size, &err));
	cr_expect_eq(size, 0);
	free(data);
}

Test(store, links_are_not_followed)
{
	void *data;
	size_t size;

	ok(store_make(&err));
	write_text(STORE_RUN "/target", "untouched");
	cr_assert_eq(symlink(STORE_RUN "/target", STORE_RULES), 0);
	cr_assert_eq(symlink(STORE_RUN "/target", STORE_RULES ".new"), 0);
	cr_expect_eq(store_read_file(STORE_RULES, 100, &data, &size, &err), -ELOOP);
	write_text(STORE_RULES, "fresh");
	ok(store_read_file(STORE_RUN "/target", 100, &data, &size, &err));
	cr_expect_str_eq(data, "untouched");
	free(data);
}

/* ---- the record ---- */

static struct store_record a_record(void)
{
	return (struct store_record){
		.generation = 4000000000u,
		.observe = true,
		.command = "exec",
		.file = "/a path/with spaces and 'quotes'.yaml",
		.loaded_at_s = 1700000000,
		.end_ns = UINT64_MAX,
		.owner = { .pid = 4242, .started = 123456789012ULL },
		.reaper = { .pid = 1, .started = 1 },
	};
}

Test(store, a_record_comes_back_as_it_was)
{
	struct store_record wrote = a_record(), read;

	ok(store_make(&err));
	cr_expect_eq(store_read_record(&read, &err), -ENOENT);
	for (int over = 0; over < 2; over++) {
		wrote.over = over;
		wrote.observe = !over;
		ok(store_write_record(&wrote, &err));
		ok(store_read_record(&read, &err));
		cr_expect_eq(read.generation, wrote.generation);
		cr_expect_eq(read.observe, wrote.observe);
		cr_expect_eq(read.over, wrote.over);
		cr_expect_str_eq(read.command, wrote.command);
		cr_expect_str_eq(read.file, wrote.file);
		cr_expect_eq(read.loaded_at_s, wrote.loaded_at_s);
		cr_expect_eq(read.end_ns, wrote.end_ns);
		cr_expect(read.owner.pid == wrote.owner.pid && read.owner.started == wrote.owner.started);
		cr_expect(read.reaper.pid == wrote.reaper.pid && read.reaper.started == wrote.reaper.started);
	}
}

Test(store, the_longest_names)
{
	struct store_record wrote = a_record(), read;

	memset(wrote.file, 'f', sizeof(wrote.file) - 1);
	memset(wrote.command, 'c', sizeof(wrote.command) - 1);
	ok(store_make(&err));
	ok(store_write_record(&wrote, &err));
	ok(store_read_record(&read, &err));
	cr_expect_str_eq(read.file, wrote.file);
	cr_expect_str_eq(read.command, wrote.command);
}

Test(store, a_damaged_record_is_no_record)
{
	struct store_record record = a_record();
	size_t size, whole;
	void *data;
	char *text;

	ok(store_make(&err));
	ok(store_write_record(&record, &err));
	ok(store_read_file(STORE_RUN "/load", 4096, &data, &size, &err));
	text = data;
	whole = size - strlen(record.file) - 1; /* a file's name alone may be cut without being missed */
	for (size_t cut = 0; cut <= whole; cut++) {
		ok(store_write_file(STORE_RUN "/load", text, cut, &err));
		cr_expect_eq(store_read_record(&record, &err), -EBADMSG, "cut to %zu of %zu bytes", cut, size);
	}
	write_text(STORE_RUN "/load", "chaosbpf 2\ngeneration 1\n");
	cr_expect_eq(store_read_record(&record, &err), -EBADMSG);
	free(data);
}

/* ---- pins ---- */

static int some_map(void)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "chaos_t_store", 4, 8, 1, NULL);

	if (fd < 0)
		cr_skip_test("no BPF map can be made here: %s", strerror(errno));
	return fd;
}

static void pin(int map, uint32_t generation, const char *name)
{
	char dir[64], path[128];

	ok(store_make_generation_dir(generation, &err));
	store_generation_dir(generation, dir, sizeof(dir));
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	cr_assert_eq(bpf_obj_pin(map, path), 0, "%s: %s", path, strerror(errno));
}

Test(store, pins_of_loads)
{
	int map = some_map(), fd;

	ok(store_make(&err));
	pin(map, 3, "chaos_rules");
	pin(map, 10, "chaos_rules");
	pin(map, 10, "link_0");
	cr_assert_eq(bpf_obj_pin(map, STORE_PINS "/chaos_control"), 0);
	fd = store_open_pin(10, "link_0");
	cr_expect_geq(fd, 0);
	close(fd);
	fd = store_open_pin(0, "chaos_control");
	cr_expect_geq(fd, 0);
	close(fd);
	cr_expect_eq(store_open_pin(3, "link_0"), -ENOENT);
	cr_expect_eq(store_open_pin(4, "chaos_rules"), -ENOENT);

	cr_expect_eq(store_remove_generations(10), 1);
	cr_expect_eq(store_open_pin(3, "chaos_rules"), -ENOENT);
	fd = store_open_pin(10, "chaos_rules");
	cr_expect_geq(fd, 0);
	close(fd);
	cr_expect_eq(store_remove_generations(0), 1);
	cr_expect_eq(store_remove_generations(0), 0);
	cr_expect(exists(STORE_PINS "/chaos_control"), "shared by all loads");
	store_remove_shared();
	cr_expect_not(exists(STORE_PINS));
	close(map);
}

Test(store, generations_only_rise)
{
	struct store_record record = a_record();
	int map = some_map();

	ok(store_make(&err));
	cr_expect_eq(store_next_generation(), 1);
	pin(map, 3, "chaos_rules");
	cr_expect_eq(store_next_generation(), 4);
	record.generation = 7;
	ok(store_write_record(&record, &err));
	cr_expect_eq(store_next_generation(), 8);
	pin(map, 20, "chaos_rules");
	cr_expect_eq(store_next_generation(), 21);
	close(map);
}

Test(store, nothing_is_left)
{
	struct store_record record = a_record();
	int map = some_map();

	ok(store_remove_all()); /* nothing there: fine */
	ok(store_make(&err));
	pin(map, 3, "chaos_rules");
	pin(map, 4, "link_0");
	cr_assert_eq(bpf_obj_pin(map, STORE_PINS "/chaos_sock"), 0);
	ok(store_write_record(&record, &err));
	write_text(STORE_JOURNAL, "x");
	write_text(STORE_EVENTS, "x");
	ok(store_remove_all());
	cr_expect_not(exists(STORE_PINS));
	cr_expect_not(exists(STORE_RUN));
	ok(store_remove_all());
	close(map);
}
