// SPDX-License-Identifier: GPL-2.0-only
#include "user/base/signals.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

int signals_open(struct error *err)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGQUIT);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return error_set(err, -errno, EXIT_FAILED, "cannot wait for signals: %s", strerror(errno));
	sigprocmask(SIG_BLOCK, &set, NULL);
	return fd;
}

int signals_read(int fd, int *from_terminal)
{
	struct signalfd_siginfo info;

	if (read(fd, &info, sizeof(info)) != sizeof(info))
		return 0;
	if (from_terminal)
		*from_terminal = info.ssi_code == SI_KERNEL;
	return (int)info.ssi_signo;
}
