// SPDX-License-Identifier: GPL-2.0-only
#include "user/experiment/holder.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "user/state/store.h"

#define END_ALL UINT64_MAX

/* What stands in an order: the step to load, or END_ALL. */
struct order_message {
	uint64_t step;
};

/* The holder's own side. */
struct keeper {
	const struct experiment *experiment;
	int fd;
	pid_t owner; /* the run */
	struct load *load;
	uint32_t generation;
};

static void tell(const struct keeper *k, const struct holder_news *news)
{
	if (send(k->fd, news, sizeof(*news), MSG_NOSIGNAL) != sizeof(*news))
		_exit(EXIT_FAILED); /* nobody is there any more; the kernel takes the faults away */
}

static int end_load(struct keeper *k, struct error *err)
{
	int ret = k->load ? load_end(k->load, err) : 0;

	k->load = NULL;
	return ret;
}

/* As ordered. Others may have taken a part away since the last look; the faults end before there is another. */
static void end_and_tell(struct keeper *k)
{
	struct holder_news news = { .news = NEWS_ENDED };

	if (k->load) {
		load_disarm(k->load);
		news.whole = load_whole(k->load, &news.missing);
	}
	news.ret = end_load(k, &news.err);
	tell(k, &news);
}

static void load_step(struct keeper *k, size_t step)
{
	/* The run is what others see: when it is gone, whatever command comes next ends what is left. */
	const struct load_options options = { .command = "run", .foreground = true, .whole = true, .owner = k->owner };
	struct holder_news news = { .news = NEWS_LOADED };

	news.ret = end_load(k, &news.err);
	if (!news.ret)
		news.ret = load_locked(k->experiment->steps[step].rules, &options, &k->load, &news.result, &news.err);
	k->generation = news.result.generation;
	tell(k, &news);
}

/* Is the load that is over still the one that was loaded, or has somebody taken it away? */
static bool is_ours(const struct keeper *k)
{
	struct store_record record;
	struct error ignored;

	return store_read_record(&record, &ignored) == 0 && record.generation == k->generation;
}

/* Serves what is loaded until an order comes. */
static void serve(struct keeper *k)
{
	struct holder_news news = { 0 };
	struct error ignored;
	int over;

	over = load_serve(k->load, -1, k->fd, &news.err);
	if (over == 0)
		return;
	if (over == 1 && is_ours(k))
		over = load_whole(k->load, &news.err) ?: 1;
	if (over == -ECANCELED || !is_ours(k))
		news.news = NEWS_STOPPED;
	else
		news.news = over < 0 ? NEWS_LOST : NEWS_OVER;
	tell(k, &news); /* first: whoever sees that nothing is armed any more can then know why */
	if (news.news == NEWS_LOST)
		return;
	if (news.news == NEWS_STOPPED) {
		end_load(k, &ignored);
		return;
	}
	news = (struct holder_news){ .news = NEWS_ENDED };
	news.ret = end_load(k, &news.err);
	tell(k, &news);
}

static _Noreturn void keeper_main(struct keeper *k, pid_t parent)
{
	struct order_message order;
	struct error ignored;
	ssize_t got;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
		_exit(EXIT_FAILED);
	prctl(PR_SET_NAME, "chaosbpf-holder");
	for (;;) {
		if (k->load)
			serve(k);
		got = recv(k->fd, &order, sizeof(order), 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got != sizeof(order))
			break;
		if (order.step == END_ALL)
			end_and_tell(k);
		else
			load_step(k, order.step);
	}
	_exit(end_load(k, &ignored) ? EXIT_FAILED : EXIT_DONE);
}

int holder_start(struct holder *holder, const struct experiment *experiment, struct error *err)
{
	pid_t parent = getpid();
	struct keeper keeper = { .experiment = experiment, .owner = parent };
	int fds[2];

	*holder = (struct holder){ .fd = -1 };
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return error_set(err, -errno, EXIT_FAILED, "cannot make a socket: %s", strerror(errno));
	holder->pid = fork();
	if (holder->pid == 0) {
		close(fds[0]);
		keeper.fd = fds[1];
		keeper_main(&keeper, parent);
	}
	close(fds[1]);
	if (holder->pid < 0) {
		holder->pid = 0;
		close(fds[0]);
		return error_set(err, -errno, EXIT_FAILED, "cannot start a process: %s", strerror(errno));
	}
	holder->fd = fds[0];
	return 0;
}

static int give_order(struct holder *holder, uint64_t step, struct error *err)
{
	const struct order_message order = { .step = step };

	if (send(holder->fd, &order, sizeof(order), MSG_NOSIGNAL) == sizeof(order))
		return 0;
	return error_set(err, -errno, EXIT_FAILED, "the process that holds the faults is gone");
}

int holder_load(struct holder *holder, size_t step, struct error *err)
{
	return give_order(holder, step, err);
}

int holder_end(struct holder *holder, struct error *err)
{
	return give_order(holder, END_ALL, err);
}

bool holder_read(struct holder *holder, struct holder_news *news)
{
	ssize_t got;

	if (holder->fd < 0)
		return false;
	got = recv(holder->fd, news, sizeof(*news), MSG_DONTWAIT);
	if (got == sizeof(*news))
		return true;
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	*news = (struct holder_news){ .news = NEWS_GONE };
	news->ret = error_set(&news->err, -ESRCH, EXIT_FAILED,
			      "the process that held the faults was killed, and they ended with it");
	close(holder->fd);
	holder->fd = -1;
	return true;
}

void holder_stop(struct holder *holder)
{
	if (holder->fd >= 0)
		close(holder->fd);
	holder->fd = -1;
	if (holder->pid)
		waitpid(holder->pid, NULL, 0);
	holder->pid = 0;
}
