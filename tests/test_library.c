// SPDX-License-Identifier: GPL-2.0-only
/* user/library*.c: files that processes of this test have mapped, replaced, deleted and hidden in mount namespaces. */
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/compile.h"
#include "user/inside/elf_file.h"
#include "user/inside/library.h"
#include "user/inside/library_internal.h"

#define SHARED "-shared -fPIC -nostdlib"

/* ---- lines of maps ---- */

Test(library_maps, lines)
{
	static const struct {
		const char *line;
		const char *path; /* NULL: not executable, or no file */
		uint64_t inode;
	} cases[] = {
		{ "7f7db2a00000-7f7db2b55000 r-xp 00028000 fe:00 4242                       /usr/lib/libc.so.6\n",
		  "/usr/lib/libc.so.6", 4242 },
		{ "55d0a0000000-55d0a0001000 r-xp 00000000 00:2f 18446744073709551615 /a b  c \n", "/a b  c ",
		  18446744073709551615ULL },
		{ "7f00-7f01 r-xs 00000000 103:02 7 /new\\012line", "/new\nline", 7 },
		{ "7f00-7f01 rwxp 00000000 fe:00 7 /back\\slash\\011 (deleted)\n", "/back\\slash\\011 (deleted)", 7 },
		{ "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n", NULL, 0 },
		{ "7f00-7f01 r--p 00000000 fe:00 7 /usr/lib/libc.so.6\n", NULL, 0 },
		{ "7f00-7f01 r-xp 00000000 00:00 0 \n", NULL, 0 },
		{ "7f00-7f01 r-xp 00000000 00:00 0\n", NULL, 0 },
		{ "7f00-7f01 r-xp 00000000 00:0d 8 anon_inode:[perf_event]\n", NULL, 0 },
		{ "7f00-7f01 r-xp", NULL, 0 },
		{ "\n", NULL, 0 },
		{ "", NULL, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct map_line map = { 0 };
		char line[256];

		strcpy(line, cases[i].line);
		cr_expect_eq(map_line_parse(line, &map), cases[i].path != NULL, "%s", cases[i].line);
		if (cases[i].path) {
			cr_expect_str_eq(map.path, cases[i].path);
			cr_expect_eq(map.inode, cases[i].inode);
		}
	}
}

Test(library_maps, numbers)
{
	char line[] = "7f7db2a00000-7f7db2b55000 r-xp 00028000 103:2f 4242                       /x\n";
	struct map_line map;

	cr_assert(map_line_parse(line, &map));
	cr_expect_eq(map.start, 0x7f7db2a00000);
	cr_expect_eq(map.end, 0x7f7db2b55000);
	cr_expect_eq(map.major, 0x103);
	cr_expect_eq(map.minor, 0x2f);
}

Test(library_maps, paths_for_people)
{
	char *shown = map_path_shown("/a\n\033[31m\377 (deleted)", true);

	cr_expect_str_eq(shown, "/a\\012\\033[31m\377");
	free(shown);
	shown = map_path_shown("/a (deleted)", false);
	cr_expect_str_eq(shown, "/a (deleted)");
	free(shown);
}

/* ---- names ---- */

Test(library_is, names)
{
	static const struct {
		const char *path, *soname, *word;
		bool is_it;
	} cases[] = {
		{ "/usr/lib/libcurl.so.4.8.0", "libcurl.so.4", "libcurl.so.4", true },
		{ "/usr/lib/libcurl.so.4.8.0", "", "libcurl.so.4", true },
		{ "/usr/lib/libcurl.so.4.8.0", "", "libcurl.so.4.8.0", true },
		{ "/usr/lib/libcurl.so.4.8.0", "", "libcurl.so", true },
		{ "/usr/lib/libcurl.so.4.8.0", "", "libcurl", true },
		{ "/usr/lib/libcurl.so.40", "", "libcurl.so.4", false },
		{ "/usr/lib/libcurl-gnutls.so.4.8.0", "libcurl-gnutls.so.4", "libcurl.so.4", false },
		{ "/usr/lib/libcurl.so.4.8.0", "libcurl.so.4", "curl", false },
		{ "/opt/vendor.so", "libcurl.so.4", "libcurl.so.4", true },
		{ "/usr/bin/python3.11", "", "python3", true },
		{ "/usr/bin/python3.11", "", "python", false },
		{ "/usr/bin/python3.11", "", "python3.11", true },
		{ "/v/libcudart-d0da41ae.so.12.1.105", "libcudart-d0da41ae.so.12.1.105", "libcudart.so.12", true },
		{ "/v/libcudart-d0da41ae.so.12.1.105", "", "libcudart.so", true },
		{ "/v/libcudart-d0da41ae.so.12.1.105", "", "libcudart", true },
		{ "/v/libcudart-d0da41ae.so.12.1.105", "", "libcudart.so.11", false },
		{ "/v/libcudart-d0da41ae.so.12.1.105", "", "libcudart.so.1", false },
		{ "/v/libssl-dec.so.3", "", "libssl.so.3", false },
		{ "/v/x", "", "x", true },
		{ "/v/x", "", "v", false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct library library = { .path = (char *)cases[i].path, .soname = (char *)cases[i].soname };

		cr_expect_eq(library_is(&library, cases[i].word), cases[i].is_it, "%s is %s", cases[i].path,
			     cases[i].word);
	}
}

/* ---- processes ---- */

/* A test that is skipped does not come to its end. */
static void skip(const char *why)
{
	compile_ends();
	cr_skip_test("%s", why);
}

struct child {
	pid_t pid;
	int to, from;
};

/* What a child does with a line that it is sent: maps a library, or goes elsewhere. */
static char obey(char *line)
{
	char path[1200];

	line[strcspn(line, "\r")] = '\0'; /* lines end so, since paths may have newlines */
	if (line[0] == 'o')
		return dlopen(line + 1, RTLD_NOW) ? 'y' : 'n';
	if (line[0] == 'm') { /* a file system that nobody else sees, with the library in it */
		if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
			return 'n';
		snprintf(path, sizeof(path), "cp %s/lib.so /dev/shm/chaosbpf-%d.so", compile_dir, getppid());
		if (mount("none", "/dev/shm", "tmpfs", 0, NULL) || system(path))
			return 'n';
		snprintf(path, sizeof(path), "/dev/shm/chaosbpf-%d.so", getppid());
		return dlopen(path, RTLD_NOW) ? 'y' : 'n';
	}
	if (line[0] == 'v') { /* a container of an image */
		snprintf(path, sizeof(path), "lowerdir=%s:%s/etc", line + 1, compile_dir);
		if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		    mount("none", compile_path("merged"), "overlay", 0, path))
			return 'n';
		return dlopen(compile_path("merged/lib.so"), RTLD_NOW) ? 'y' : 'n';
	}
	return 'n';
}

static struct child start(void)
{
	int to[2], from[2];
	struct child child;

	cr_assert_eq(pipe2(to, O_CLOEXEC) | pipe2(from, O_CLOEXEC), 0);
	child.pid = fork();
	if (!child.pid) {
		char line[600], answer;
		ssize_t len;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(to[1]);
		while ((len = read(to[0], line, sizeof(line) - 1)) > 0) {
			line[len] = '\0';
			answer = obey(line);
			if (write(from[1], &answer, 1) != 1)
				break;
		}
		_exit(0);
	}
	close(to[0]);
	close(from[1]);
	child.to = to[1];
	child.from = from[0];
	return child;
}

static bool tell(const struct child *child, char what, const char *path)
{
	char answer = 'n';

	dprintf(child->to, "%c%s\r", what, path);
	return read(child->from, &answer, 1) == 1 && answer == 'y';
}

static void stop(struct child *child)
{
	close(child->to);
	close(child->from);
	kill(child->pid, SIGKILL);
	waitpid(child->pid, NULL, 0);
}

static void scan(struct library_list *list, const struct child *children, size_t count)
{
	uint32_t pids[8];
	struct error err = { 0 };

	for (size_t i = 0; i < count; i++)
		pids[i] = (uint32_t)children[i].pid;
	for (size_t i = 0; i < list->count; i++)
		list->entries[i]->seen = true;
	cr_assert_eq(library_scan(list, pids, count, &err), 0, "%s", err.text);
	cr_expect_not(list->is_truncated);
}

static size_t count_new(const struct library_list *list)
{
	size_t count = 0;

	for (size_t i = 0; i < list->count; i++)
		count += !list->entries[i]->seen;
	return count;
}

static struct library *find(const struct library_list *list, const char *word)
{
	for (size_t i = 0; i < list->count; i++) {
		if (library_is(list->entries[i], word))
			return list->entries[i];
	}
	return NULL;
}

static bool exports(const struct library *library, const char *name)
{
	struct elf_file *elf;
	struct error err = { 0 };
	bool does;
	int fd = open(library->attach_path, O_RDONLY | O_CLOEXEC);

	cr_assert_eq(elf_file_open(fd, library->path, &elf, &err), 0, "%s", err.text);
	does = elf_file_exports(elf, name);
	elf_file_close(elf);
	close(fd);
	return does;
}

TestSuite(library, .init = compile_begins, .fini = compile_ends);

Test(library, program_and_libraries)
{
	struct library_list list = { 0 };
	struct child child = start();
	struct library *libc, *program = NULL;
	char exe[512] = "";

	cr_assert_gt(readlink("/proc/self/exe", exe, sizeof(exe) - 1), 0);
	scan(&list, &child, 1);
	libc = find(&list, "libc.so.6");
	cr_assert_not_null(libc);
	cr_expect_str_eq(libc->soname, "libc.so.6");
	cr_expect_not(libc->is_program || libc->is_deleted || libc->seen);
	cr_expect_eq(libc->processes, 1);
	cr_expect_eq(libc->pid, (uint32_t)child.pid);
	cr_expect(exports(libc, "malloc"));
	cr_expect_eq(find(&list, libc->path), libc);
	for (size_t i = 0; i < list.count; i++) {
		if (list.entries[i]->is_program)
			program = list.entries[i];
	}
	cr_assert_not_null(program);
	cr_expect_str_eq(program->path, exe);
	stop(&child);
	library_list_free(&list);
}

Test(library, opened_after_the_first_scan)
{
	struct library_list list = { 0 };
	struct child children[2] = { start(), start() };
	const char *path = compile("lib.so", "int answer(void) { return 42; }", SHARED " -Wl,-soname,libanswer.so.3");
	struct library *library;

	scan(&list, children, 2);
	cr_expect_null(find(&list, "libanswer.so.3"));
	scan(&list, children, 2);
	cr_expect_eq(count_new(&list), 0);
	cr_assert(tell(&children[0], 'o', path));
	scan(&list, children, 2);
	cr_expect_eq(count_new(&list), 1);
	library = find(&list, "libanswer.so.3");
	cr_assert_not_null(library);
	cr_expect_eq(library->processes, 1);
	cr_expect(exports(library, "answer"));
	cr_assert(tell(&children[1], 'o', path));
	scan(&list, children, 2);
	cr_expect_eq(count_new(&list), 0);
	cr_expect_eq(library->processes, 2);
	scan(&list, children, 1);
	cr_expect_eq(library->processes, 1);
	stop(&children[0]);
	stop(&children[1]);
	scan(&list, children, 2);
	cr_expect_eq(library->processes, 0);
	cr_expect_eq(count_new(&list), 0);
	cr_expect(exports(library, "answer"));
	library_list_free(&list);
}

/* The process goes on with the file that it has; the path leads to another. */
Test(library, replaced_on_disk)
{
	struct library_list list = { 0 };
	struct child child = start();
	const char *path = compile("lib.so.1.0", "int before(void) { return 42; }", SHARED), *link;
	struct library *library;

	if (geteuid() != 0) {
		stop(&child);
		skip("needs root, to open /proc/PID/map_files");
	}
	link = compile_path("lib.so.1");
	cr_assert_eq(symlink("lib.so.1.0", link), 0);
	cr_assert(tell(&child, 'o', link));
	compile("new.so", "int after(void) { return 42; }", SHARED);
	cr_assert_eq(rename(compile_path("new.so"), path), 0);
	scan(&list, &child, 1);
	library = find(&list, "lib.so.1");
	cr_assert_not_null(library);
	cr_expect(library->is_deleted);
	cr_expect_str_eq(library->path, path);
	cr_expect(exports(library, "before"));
	cr_expect_not(exports(library, "after"));
	cr_expect_eq(find(&list, path), library);
	cr_expect_eq(find(&list, link), library);
	stop(&child);
	library_list_free(&list);
}

Test(library, in_a_mount_namespace)
{
	struct library_list list = { 0 };
	struct child child = start();
	struct library *library;
	char path[64];

	compile("lib.so", "int answer(void) { return 42; }", SHARED);
	if (geteuid() != 0 || !tell(&child, 'm', "")) {
		stop(&child);
		skip("needs root, and leave to mount");
	}
	scan(&list, &child, 1);
	snprintf(path, sizeof(path), "/dev/shm/chaosbpf-%d.so", getpid());
	cr_expect_neq(access(path, F_OK), 0);
	library = find(&list, path);
	cr_assert_not_null(library);
	cr_expect_str_eq(library->path, path);
	cr_expect_not(library->is_deleted);
	cr_expect(exports(library, "answer"));
	stop(&child);
	library_list_free(&list);
}

/* Each container has the file in an overlayfs of its own; what the kernel puts a probe on is the one below. */
Test(library, of_two_containers_of_one_image)
{
	struct library_list list = { 0 };
	struct child children[3] = { start(), start(), start() };
	static const char *const folders[] = { "etc", "image", "other", "merged" };
	struct library *library;

	for (size_t i = 0; i < 4; i++)
		cr_assert_eq(mkdir(compile_path(folders[i]), 0755), 0);
	compile("image/lib.so", "int answer(void) { return 42; }", SHARED);
	compile("other/lib.so", "int other(void) { return 42; }", SHARED);
	if (geteuid() != 0 || !tell(&children[0], 'v', compile_path("image"))) {
		for (size_t i = 0; i < 3; i++)
			stop(&children[i]);
		skip("needs root, and leave to mount an overlayfs");
	}
	cr_assert(tell(&children[1], 'v', compile_path("image")));
	cr_assert(tell(&children[2], 'v', compile_path("other")));
	scan(&list, children, 1);
	library = find(&list, compile_path("merged/lib.so"));
	cr_assert_not_null(library);
	scan(&list, children, 3);
	cr_expect_eq(count_new(&list), 1);
	cr_expect_eq(library->processes, 2);
	cr_expect(exports(library, "answer"));
	cr_expect(exports(list.entries[list.count - 1], "other"));
	scan(&list, children + 1, 1);
	cr_expect_eq(library->processes, 1);
	cr_expect_eq(find(&list, "lib.so"), library);
	for (size_t i = 0; i < 3; i++)
		stop(&children[i]);
	library_list_free(&list);
}

Test(library, names_that_are_odd)
{
	static const char *const names[] = { "with blank.so", "new\nline.so", "\033[31m.so", "lib.so (deleted)",
					     "a\\012b.so" };
	static const char *const shown[] = { "with blank.so", "new\\012line.so", "\\033[31m.so", "lib.so (deleted)",
					     "a\\012b.so" };
	struct library_list list = { 0 };
	struct child child = start();

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct library *library;

		if (strchr(names[i], '\\') && geteuid() != 0)
			continue; /* the kernel does not tell this name from one with a newline: it takes map_files */
		compile("plain.so", "int answer(void) { return 42; }", SHARED);
		cr_assert_eq(rename(compile_path("plain.so"), compile_path(names[i])), 0);
		cr_assert(tell(&child, 'o', compile_path(names[i])), "%s", names[i]);
		scan(&list, &child, 1);
		library = find(&list, compile_path(shown[i]));
		cr_assert_not_null(library, "%s", shown[i]);
		cr_expect(exports(library, "answer"));
		cr_expect(strchr(names[i], '\\') || !library->is_deleted, "%s", shown[i]);
	}
	stop(&child);
	library_list_free(&list);
}

/* An entry that is forgotten is not opened again, unless another file has taken its inode's number or its contents. */
Test(library, forgotten)
{
	struct library_list list = { 0 };
	struct child child = start();
	const char *path = compile("lib.so", "int answer(void) { return 42; }", SHARED);
	struct library *library;

	cr_assert(tell(&child, 'o', path));
	scan(&list, &child, 1);
	library = find(&list, path);
	cr_assert_not_null(library);
	library_forget(library);
	cr_expect_eq(library->fd, -1);
	cr_expect_str_eq(library->attach_path, "");
	scan(&list, &child, 1);
	cr_expect_eq(count_new(&list), 0);
	stop(&child);
	scan(&list, &child, 1);
	cr_expect_eq(library->processes, 0);
	child = start();
	cr_assert(tell(&child, 'o', path));
	scan(&list, &child, 1);
	cr_expect_eq(count_new(&list), 0);
	cr_expect_eq(library->processes, 1);
	stop(&child);
	scan(&list, &child, 1);
	cr_assert_eq(utimensat(AT_FDCWD, path, (struct timespec[2]){ { 0 }, { .tv_sec = 1 } }, 0), 0);
	child = start();
	cr_assert(tell(&child, 'o', path));
	scan(&list, &child, 1);
	cr_expect_eq(count_new(&list), 1);
	cr_expect_eq(library->processes, 0);
	stop(&child);
	library_list_free(&list);
}

Test(library, processes_that_are_none)
{
	struct library_list list = { 0 };
	uint32_t pids[] = { 2, 0, UINT32_MAX, 0x3fffff, (uint32_t)getpid() };
	struct error err = { 0 };

	cr_expect_eq(library_scan(&list, NULL, 0, &err), 0);
	cr_expect_eq(library_scan(&list, pids, 4, &err), 0);
	cr_expect_eq(list.count, 0);
	cr_expect_eq(library_scan(&list, pids, 5, &err), 0);
	cr_expect_gt(list.count, 0);
	library_list_free(&list);
	library_list_free(&list);
}

/* ---- on disk ---- */

static struct library *on_disk(struct library_list *list, const char *root, const char *word)
{
	struct library *library;
	struct error err = { 0 };

	cr_expect_eq(library_on_disk(list, root, word, &library, &err), 0, "%s", err.text);
	return library;
}

Test(library, on_disk)
{
	struct library_list list = { 0 };
	struct library *library = on_disk(&list, "/", "libc.so.6");
	struct child child;
	size_t count = list.count;

	cr_assert_not_null(library);
	cr_expect_str_eq(library->soname, "libc.so.6");
	cr_expect(exports(library, "malloc"));
	cr_expect_eq(library->processes, 0);
	cr_expect_eq(on_disk(&list, "/", "libc.so.6"), library);
	cr_expect_eq(on_disk(&list, "/", library->path), library);
	cr_expect_eq(list.count, count);
	cr_expect_null(on_disk(&list, "/", "libno-such-thing.so.7"));
	cr_expect_null(on_disk(&list, "/", "/etc/passwd"));
	cr_expect_null(on_disk(&list, "/", "/dev/zero"));
	cr_expect_null(on_disk(&list, "/no/such/root", "libc.so.6"));
	child = start();
	scan(&list, &child, 1);
	cr_expect_eq(library->processes, 1, "the same file, mapped");
	stop(&child);
	library_list_free(&list);
}

/* A cache as ldconfig writes it: name and path of each library. */
static void write_cache(const char *old_table, const char *const (*entries)[2], const uint64_t *capabilities,
			uint32_t count)
{
	struct {
		int32_t flags;
		uint32_t name, path, os;
		uint64_t capabilities;
	} entry;
	char head[48] = "glibc-ld.so.cache1.1", text[1024];
	uint32_t len = 0, begin = 48 + count * 24;
	FILE *file;

	mkdir(compile_path("etc"), 0755);
	file = fopen(compile_path("etc/ld.so.cache"), "w");
	cr_assert_not_null(file);
	if (old_table)
		fwrite("ld.so-1.7.0\0\1\0\0\0abcdabcdabcd\0\0\0\0", 1, 32, file);
	memcpy(head + 20, &count, 4);
	fwrite(head, 1, sizeof(head), file);
	for (uint32_t i = 0; i < count; i++) {
		memset(&entry, 0, sizeof(entry));
#ifdef __aarch64__
		entry.flags = 0xa03;
#else
		entry.flags = 0x303;
#endif
		entry.capabilities = capabilities[i];
		entry.name = begin + len;
		len += (uint32_t)sprintf(text + len, "%s", entries[i][0]) + 1;
		entry.path = begin + len;
		len += (uint32_t)sprintf(text + len, "%s", entries[i][1]) + 1;
		fwrite(&entry, 1, sizeof(entry), file);
	}
	fwrite(text, 1, len, file);
	fclose(file);
}

/* A container's root, with its own cache and links that mean its own files. */
Test(library, on_disk_of_a_root)
{
	static const char *const entries[][2] = {
		{ "libanswer.so.3", "/opt/haswell/libanswer.so.3" },
		{ "libanswer.so.3", "/opt/link.so" },
		{ "libout.so", "/opt/out.so" },
		{ "libgone.so", "/opt/gone.so" },
	};
	static const uint64_t capabilities[] = { 1ULL << 62, 0, 0, 0 };
	struct library_list list = { 0 };
	struct library *library;

	mkdir(compile_path("opt"), 0755);
	mkdir(compile_path("usr"), 0755);
	mkdir(compile_path("usr/lib"), 0755);
	compile("opt/lib.so", "int answer(void) { return 42; }", SHARED);
	compile("usr/lib/libusual.so", "int usual(void) { return 42; }", SHARED);
	cr_assert_eq(symlink("/opt/lib.so", compile_path("opt/link.so")), 0);
	cr_assert_eq(symlink("/usr/../../../../../../../../../bin/sh", compile_path("opt/out.so")), 0);
	for (int old = 0; old < 2; old++) {
		write_cache(old ? "" : NULL, entries, capabilities, 4);
		library = on_disk(&list, compile_dir, "libanswer.so.3");
		cr_assert_not_null(library);
		cr_expect_str_eq(library->path, "/opt/link.so");
		cr_expect(exports(library, "answer"));
		cr_expect_null(on_disk(&list, compile_dir, "libout.so"));
		cr_expect_null(on_disk(&list, compile_dir, "libgone.so"));
		library = on_disk(&list, compile_dir, "libusual.so");
		cr_assert_not_null(library);
		cr_expect_str_eq(library->path, "/usr/lib/libusual.so");
		cr_expect_eq(list.count, 2);
	}
	library_list_free(&list);
}

Test(library, caches_that_are_broken)
{
	static const char *const entries[][2] = { { "libanswer.so.3", "/opt/lib.so" }, { "libb.so", "/opt/lib.so" } };
	static const uint64_t capabilities[] = { 0, 0 };
	struct library_list list = { 0 };
	char bytes[2048];
	unsigned int seed = 1;
	size_t size;
	int fd;

	write_cache("", entries, capabilities, 2);
	fd = open(compile_path("etc/ld.so.cache"), O_RDWR | O_CLOEXEC);
	size = (size_t)read(fd, bytes, sizeof(bytes));
	for (int i = 0; i < 2000; i++) {
		char wrong[2048];

		memcpy(wrong, bytes, size);
		for (int k = 0; k < 4; k++)
			wrong[(size_t)rand_r(&seed) % size] = (char)rand_r(&seed);
		cr_assert_eq(pwrite(fd, wrong, size, 0), (ssize_t)size);
		if (i % 2)
			cr_assert_eq(ftruncate(fd, (off_t)((size_t)rand_r(&seed) % size)), 0);
		cr_expect_null(on_disk(&list, compile_dir, "libanswer.so.3"));
	}
	close(fd);
	library_list_free(&list);
}
