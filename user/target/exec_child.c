// SPDX-License-Identifier: GPL-2.0-only
/*
 * Owns the command's process from fork to exit code. Which cgroup it is in and what hits it there is not known here.
 */
#include "user/target/exec_child.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a child says when it could not become the command. */
struct failure {
	enum failure_step { FAILED_USER, FAILED_EXEC } step;
	int error;
};

static int parse_id(const char *text, unsigned long *id)
{
	char *end;

	errno = 0;
	*id = strtoul(text, &end, 10);
	/* (uid_t)-1 means "unchanged" to the kernel. */
	if (errno || end == text || *end || text[0] == '-' || *id >= 0xffffffffUL)
		return -EINVAL;
	return 0;
}

int exec_user_find(struct exec_user *user, struct error *err)
{
	const char *uid_text = getenv("SUDO_UID"), *gid_text = getenv("SUDO_GID");
	unsigned long uid, gid;
	struct passwd *entry;

	*user = (struct exec_user){ 0 };
	if (geteuid() != 0 || !uid_text || !gid_text)
		return 0;
	if (parse_id(uid_text, &uid) || parse_id(gid_text, &gid))
		return error_set(err, -EINVAL, EXIT_FAILED, "SUDO_UID='%s', SUDO_GID='%s' do not name a user", uid_text,
				 gid_text);
	user->change = true;
	user->uid = uid;
	user->gid = gid;
	entry = getpwuid(uid);
	if (entry) {
		snprintf(user->name, sizeof(user->name), "%s", entry->pw_name);
		snprintf(user->home, sizeof(user->home), "%s", entry->pw_dir);
		snprintf(user->shell, sizeof(user->shell), "%s", entry->pw_shell);
	}
	return 0;
}

int exec_user_become(const struct exec_user *user)
{
	if (!user->change)
		return 0;
	/* Groups first: without root they can no longer be changed. */
	if (user->name[0] ? initgroups(user->name, user->gid) : setgroups(1, &user->gid))
		return -errno;
	if (setresgid(user->gid, user->gid, user->gid) || setresuid(user->uid, user->uid, user->uid))
		return -errno;
	if (user->name[0]) {
		setenv("HOME", user->home, 1);
		setenv("USER", user->name, 1);
		setenv("LOGNAME", user->name, 1);
		setenv("SHELL", user->shell, 1);
	}
	/* The command is an ordinary process of that user, not one that sudo started. */
	unsetenv("SUDO_UID");
	unsetenv("SUDO_GID");
	unsetenv("SUDO_USER");
	unsetenv("SUDO_COMMAND");
	return 0;
}

static void default_signals(void)
{
	sigset_t none;

	/* SIGHUP is left alone: we never change it, and when it is ignored someone wrote `nohup`. */
	for (int i = 1; i < NSIG; i++) {
		if (i != SIGHUP)
			signal(i, SIG_DFL);
	}
	sigemptyset(&none);
	/* A Ctrl-C that came while the faults were loaded takes effect here. */
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void child_main(int go_fd, int failed_fd, const struct exec_user *user, const struct rlimit *memlock,
				 char *const *argv)
{
	struct failure failure = { .step = FAILED_USER };
	char go;

	/* Not yet the command, and no longer chaosbpf itself: it may be traced before it begins. */
	prctl(PR_SET_NAME, "chaosbpf-exec");
	if (read(go_fd, &go, 1) != 1)
		_exit(EXIT_FAILED);
	setrlimit(RLIMIT_MEMLOCK, memlock);
	failure.error = -exec_user_become(user);
	if (!failure.error) {
		default_signals();
		execvp(argv[0], argv);
		failure = (struct failure){ .step = FAILED_EXEC, .error = errno };
	}
	if (write(failed_fd, &failure, sizeof(failure)) < 0)
		_exit(EXIT_FAILED);
	_exit(failure.error == ENOENT ? 127 : 126);
}

static int open_pidfd(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

int exec_child_prepare(struct exec_child *child, const struct exec_user *user, char *const *argv, struct error *err)
{
	int go[2] = { -1, -1 }, failed[2] = { -1, -1 };
	struct rlimit memlock;

	signal(SIGCHLD, SIG_DFL); /* ignored, as some callers leave it, it would take the exit code away */
	getrlimit(RLIMIT_MEMLOCK, &memlock);
	if (pipe2(go, O_CLOEXEC) || pipe2(failed, O_CLOEXEC))
		goto out_pipes;
	child->pid = fork();
	if (child->pid < 0)
		goto out_pipes;
	if (child->pid == 0) {
		close(go[1]); /* or its own copy would keep it waiting after our death */
		child_main(go[0], failed[1], user, &memlock, argv);
	}
	close(go[0]);
	close(failed[1]);
	child->go_fd = go[1];
	child->failed_fd = failed[0];
	child->pidfd = open_pidfd(child->pid);
	if (child->pidfd < 0) {
		error_set(err, -errno, EXIT_FAILED, "cannot watch the command: %s", strerror(errno));
		exec_child_cancel(child);
		return -EIO;
	}
	return 0;

out_pipes:
	error_set(err, -errno, EXIT_FAILED, "cannot start a process: %s", strerror(errno));
	for (int i = 0; i < 2; i++) {
		if (go[i] >= 0)
			close(go[i]);
		if (failed[i] >= 0)
			close(failed[i]);
	}
	return -EIO;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static int failure_error(const struct failure *failure, const char *command, struct error *err)
{
	if (failure->step == FAILED_USER)
		return error_set(err, -failure->error, EXIT_FAILED, "cannot become the user who called sudo: %s",
				 strerror(failure->error));
	error_set(err, -failure->error, failure->error == ENOENT ? 127 : 126, "cannot run '%s': %s", command,
		  failure->error == ENOENT ? "command not found" : strerror(failure->error));
	return -failure->error;
}

int exec_child_start(struct exec_child *child, const char *command, struct error *err)
{
	struct failure failure;
	ssize_t len;

	/* A child that was killed meanwhile shows in its exit code. */
	len = write(child->go_fd, "", 1);
	close_fd(&child->go_fd);
	/* The pipe ends without a word when exec() closes it. */
	do {
		len = read(child->failed_fd, &failure, sizeof(failure));
	} while (len < 0 && errno == EINTR);
	close_fd(&child->failed_fd);
	if (len != sizeof(failure))
		return 0;
	return failure_error(&failure, command, err);
}

void exec_child_cancel(struct exec_child *child)
{
	close_fd(&child->go_fd);
	close_fd(&child->failed_fd);
	exec_child_wait(child);
}

int exec_child_wait(struct exec_child *child)
{
	int status;

	while (waitpid(child->pid, &status, 0) < 0) {
		if (errno != EINTR)
			return EXIT_FAILED;
	}
	close_fd(&child->pidfd);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
