// SPDX-License-Identifier: GPL-2.0-only
/* user/inside/errno_place.c: the code of __errno_location() as compilers write it, and errno of real processes. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "user/inside/errno_place.h"

#ifdef __x86_64__

#define ADD_THREAD "\x64\x48\x03\x04\x25\0\0\0\0"
#define MOV_THREAD "\x64\x48\x8b\x04\x25\0\0\0\0"

static const struct {
	const char *name, *code;
	int len;
	int64_t offset, slot;
	int ret;
} codes[] = {
#define CODE(text) text, sizeof(text) - 1
	{ "glibc", CODE("\x48\x8b\x05\x79\xb7\x1a\x00" ADD_THREAD "\xc3"), 0, 0x1ab779 + 7, 0 },
	{ "glibc for CET", CODE("\xf3\x0f\x1e\xfa\x48\x8b\x05\x10\x00\x00\x00" ADD_THREAD "\xc3"), 0, 0x10 + 11, 0 },
	{ "static glibc", CODE("\xf3\x0f\x1e\xfa\x48\xc7\xc0\xc0\xff\xff\xff" ADD_THREAD "\xc3"), -64, 0, 0 },
	{ "musl", CODE(MOV_THREAD "\x48\x83\xc0\x34\xc3"), 0x34, 0, 0 },
	{ "a byte below 0", CODE(MOV_THREAD "\x48\x83\xc0\xfc\xc3"), -4, 0, 0 },
	{ "add of 32 bits", CODE(MOV_THREAD "\x48\x05\x80\xff\xff\xff\xc3"), -128, 0, 0 },
	{ "lea", CODE(MOV_THREAD "\x48\x8d\x80\x80\xff\xff\xff\xc3"), -128, 0, 0 },
	{ "the word added", CODE(MOV_THREAD "\x48\x03\x05\x04\x00\x00\x00\xc3"), 0, 4 + 16, 0 },
	{ "no ret", CODE(MOV_THREAD "\x48\x83\xc0\x34\x90"), 0, 0, -EOPNOTSUPP },
	{ "cut short", CODE(MOV_THREAD "\x48\x83\xc0"), 0, 0, -EOPNOTSUPP },
	{ "the thread pointer alone", CODE(MOV_THREAD "\xc3"), 0, 0, -EOPNOTSUPP },
	{ "no thread pointer", CODE("\x48\x8b\x05\x79\xb7\x1a\x00\xc3"), 0, 0, -EOPNOTSUPP },
	{ "a breakpoint on it", CODE("\xcc\x0f\x1e\xfa\x48\x8b\x05\x10\x00\x00\x00" ADD_THREAD "\xc3"), 0, 0, -EOPNOTSUPP },
	{ "another function", CODE("\x55\x48\x89\xe5\xb8\x07\x00\x00\x00\x5d\xc3"), 0, 0, -EOPNOTSUPP },
};

Test(errno_place, code)
{
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		int64_t offset, slot;
		int ret = errno_place_code((const uint8_t *)codes[i].code, codes[i].len, &offset, &slot);

		cr_expect_eq(ret, codes[i].ret, "%s", codes[i].name);
		if (ret)
			continue;
		cr_expect_eq(offset, codes[i].offset, "%s: %ld", codes[i].name, (long)offset);
		cr_expect_eq(slot, codes[i].slot, "%s: %ld", codes[i].name, (long)slot);
	}
}

static int64_t own_offset(void)
{
	return (char *)&errno - (char *)__builtin_thread_pointer();
}

static void *in_a_thread(void *arg)
{
	*(int64_t *)arg = own_offset();
	return NULL;
}

Test(errno_place, this_process)
{
	int64_t offset = 0, of_thread = 0;
	pthread_t thread;

	cr_assert_eq(errno_place(getpid(), 0, &offset), 0);
	cr_expect_eq(offset, own_offset());
	pthread_create(&thread, NULL, in_a_thread, &of_thread);
	pthread_join(thread, NULL);
	cr_expect_eq(offset, of_thread);
	cr_expect_eq(errno_place(getpid(), (uintptr_t)__errno_location, &offset), 0);
	cr_expect_eq(offset, own_offset());
	cr_expect_eq(errno_place(getpid(), (uintptr_t)own_offset, &offset), -EOPNOTSUPP);
	cr_expect_eq(errno_place(getpid(), 8, &offset), -EFAULT);
}

Test(errno_place, a_process_that_is_gone)
{
	pid_t pid = fork();
	int64_t offset;

	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	cr_expect_eq(errno_place(pid, 0, &offset), -ENOENT);
}

#endif
