// SPDX-License-Identifier: GPL-2.0-only
#include "user/base/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "user/target/exec_child.h"

static void default_signals(void)
{
	sigset_t none;

	for (int i = 1; i < NSIG; i++)
		signal(i, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void child_main(char *const *command, const struct exec_user *user, pid_t parent)
{
	int null = open("/dev/null", O_RDWR);

	setpgid(0, 0);
	for (int fd = 0; null >= 0 && fd < 3; fd++)
		dup2(null, fd);
	for (int fd = 3; fd < 1024; fd++)
		fcntl(fd, F_SETFD, FD_CLOEXEC);
	/* After the change of user, which would clear it. */
	if (exec_user_become(user) || prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
		_exit(126);
	default_signals();
	execvp(command[0], command);
	_exit(errno == ENOENT ? 127 : 126);
}

int spawn(struct spawned *spawned, char *const *command, struct error *err)
{
	pid_t parent = getpid();
	struct exec_user user;
	int ret = exec_user_find(&user, err);

	*spawned = (struct spawned){ .pidfd = -1 };
	if (ret)
		return ret;
	spawned->pid = fork();
	if (spawned->pid == 0)
		child_main(command, &user, parent);
	if (spawned->pid < 0) {
		spawned->pid = 0;
		return error_set(err, -errno, EXIT_FAILED, "cannot start '%s': %s", command[0], strerror(errno));
	}
	setpgid(spawned->pid, spawned->pid); /* whoever of the two is first */
	spawned->pidfd = (int)syscall(SYS_pidfd_open, spawned->pid, 0);
	return 0;
}

static void forget(struct spawned *spawned)
{
	if (spawned->pidfd >= 0)
		close(spawned->pidfd);
	*spawned = (struct spawned){ .pidfd = -1 };
}

bool spawn_ended(struct spawned *spawned, int *code)
{
	siginfo_t info = { 0 };
	int status;

	/* Seen, but not taken yet: as long as it is a zombie, its group's number is nobody else's. */
	if (waitid(P_PID, (id_t)spawned->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0)
		return false;
	kill(-spawned->pid, SIGKILL);
	status = 0;
	waitpid(spawned->pid, &status, 0);
	*code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	forget(spawned);
	return true;
}

void spawn_kill(struct spawned *spawned)
{
	if (!spawned->pid)
		return;
	kill(-spawned->pid, SIGKILL);
	kill(spawned->pid, SIGKILL);
	waitpid(spawned->pid, NULL, 0);
	forget(spawned);
}
