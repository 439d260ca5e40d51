// SPDX-License-Identifier: GPL-2.0-only
#include "user/state/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "user/base/clock.h"
#include "user/base/process_id.h"
#include "user/state/store.h"

#define LOCK    STORE_RUN "/lock"
#define LOADING " loading" /* behind the holder's number in the lock file */

static int held_lock = -1;

/* `stop` removes the file: a lock on a file that is no longer there is worth nothing. */
static bool is_current(int fd)
{
	struct stat ours, there;

	return fstat(fd, &ours) == 0 && stat(LOCK, &there) == 0 && ours.st_ino == there.st_ino &&
	       ours.st_dev == there.st_dev;
}

static void name_holder(int fd, struct error *err)
{
	char pid[32] = "";
	ssize_t len = pread(fd, pid, sizeof(pid) - 1, 0);

	pid[len > 0 ? len : 0] = '\0';
	pid[strcspn(pid, " ")] = '\0';
	if (pid[0])
		error_set(err, -ETIMEDOUT, EXIT_FAILED, "another chaosbpf (process %s) is at work", pid);
	else
		error_set(err, -ETIMEDOUT, EXIT_FAILED, "another chaosbpf is at work");
}

static void sign(int fd, const char *note)
{
	char pid[32];
	int len = snprintf(pid, sizeof(pid), "%d%s", getpid(), note);

	if (ftruncate(fd, 0) == 0 && pwrite(fd, pid, len, 0) != len)
		return; /* only for the message above */
}

int lock_take(int timeout_ms, struct error *err)
{
	uint64_t until = boot_ns() + timeout_ms * 1000000ULL;

	for (;;) {
		int fd;

		if (mkdir(STORE_RUN, 0700) < 0 && errno != EEXIST)
			return error_set(err, -errno, EXIT_FAILED, "cannot make " STORE_RUN ": %s", strerror(errno));
		fd = open(LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0 && errno != ENOENT)
			return error_set(err, -errno, EXIT_FAILED, "cannot open " LOCK ": %s", strerror(errno));
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && is_current(fd)) {
			sign(fd, "");
			held_lock = fd;
			return fd;
		}
		if (boot_ns() >= until) {
			if (fd >= 0) {
				name_holder(fd, err);
				close(fd);
			}
			return -ETIMEDOUT;
		}
		if (fd >= 0)
			close(fd);
		usleep(5000);
	}
}

void lock_release(int lock)
{
	if (lock >= 0)
		close(lock);
	held_lock = -1;
}

void lock_note_loading(void)
{
	if (held_lock >= 0)
		sign(held_lock, LOADING);
}

void lock_interrupt_loading(void)
{
	char text[32] = "", comm[32] = "", path[64], *note;
	int fd = open(LOCK, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct process_id holder;
	ssize_t len;

	if (fd < 0)
		return;
	len = pread(fd, text, sizeof(text) - 1, 0);
	close(fd);
	note = len > 0 ? strstr(text, LOADING) : NULL;
	if (!note)
		return;
	holder = process_id_of(atoi(text));
	/* The text may be old and the number somebody else's by now. */
	snprintf(path, sizeof(path), "/proc/%d/comm", holder.pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && read(fd, comm, sizeof(comm) - 1) > 0 && strcmp(comm, "chaosbpf\n") == 0)
		process_id_kill(&holder);
	if (fd >= 0)
		close(fd);
}

void lock_forget(void)
{
	if (held_lock >= 0)
		close(held_lock);
	held_lock = -1;
}
