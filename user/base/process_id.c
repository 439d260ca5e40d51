// SPDX-License-Identifier: GPL-2.0-only
#include "user/base/process_id.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct process_id process_id_of(pid_t pid)
{
	struct process_id id = { .pid = pid };
	char path[32], text[1024], *field;
	ssize_t len;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	if (len <= 0)
		return (struct process_id){ 0 };
	text[len] = '\0';
	field = strrchr(text, ')'); /* the name may hold anything; field 3 follows it */
	for (int i = 2; field && i < 22; i++) {
		field = strchr(field + 1, ' ');
		if (field && i == 2 && field[1] == 'Z')
			return (struct process_id){ 0 }; /* ended, not yet waited for */
	}
	if (field)
		id.started = strtoull(field, NULL, 10);
	return id;
}

bool process_id_alive(const struct process_id *id)
{
	struct process_id now;

	if (!id->pid)
		return false;
	now = process_id_of(id->pid);
	return now.pid && now.started == id->started;
}

void process_id_kill(const struct process_id *id)
{
	int pidfd;
	struct pollfd gone;

	if (!process_id_alive(id) || id->pid == getpid())
		return;
	pidfd = syscall(SYS_pidfd_open, id->pid, 0);
	if (pidfd < 0)
		return;
	if (process_id_alive(id)) {
		syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
		gone = (struct pollfd){ .fd = pidfd, .events = POLLIN };
		poll(&gone, 1, 2000);
	}
	close(pidfd);
}
