/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A program in C that is told on its standard input, line by line, what to do: the name of a way to one of the operations of
 * `errno`. Prints the error that it met, as a number, or 0. What it needs for that is there before: nothing is allocated and
 * no file is opened in between, and a way makes one call that matters.
 *
 *	operations FILE PROGRAM    FILE is what is opened, read, written and mapped, PROGRAM what is executed
 *	operations                 does nothing, well
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#define LARGE (64UL << 20)
#define SOME  (1UL << 20)

static const char *path, *program;
static int file, datagram, streams[2], pipes[2], listener;
static void *reserved;
static char byte[8];
static volatile int signals; /* that came */

static char *const arguments[] = { "true", NULL };
static char *const environment[] = { NULL };

/* Of a call that returns -1 when it fails. */
static int told(long result)
{
	return result < 0 ? errno : 0;
}

static int closed(int fd)
{
	int error = told(fd);

	if (fd >= 0)
		close(fd);
	return error;
}

static int mapped(void *where, size_t size)
{
	if (where == MAP_FAILED)
		return errno;
	munmap(where, size);
	return 0;
}

static int reaped(pid_t pid)
{
	int error = told(pid), status;

	if (pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status))
		error = WEXITSTATUS(status);
	return error;
}

/* ---- files ---- */

static int do_open(void)
{
	return closed(open(path, O_RDONLY));
}
static int do_read(void)
{
	return told(pread(file, byte, 1, 0));
}
static int do_write(void)
{
	return told(pwrite(file, byte, 1, 0));
}
static int do_mmap(void)
{
	return mapped(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0), 4096);
}
static int do_ioctl(void)
{
	int left;

	return told(ioctl(file, FIONREAD, &left));
}

static int do_create(void)
{
	static int number;
	char name[256];
	int error;

	snprintf(name, sizeof(name), "%s.new.%d.%d", path, getpid(), number++);
	error = closed(open(name, O_CREAT | O_EXCL | O_WRONLY, 0644));
	unlink(name);
	return error;
}

/* ---- memory ---- */

static int anonymous(size_t size, int protection, int flags)
{
	return mapped(mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0), size);
}

static int do_memory(void)
{
	return anonymous(LARGE, PROT_READ | PROT_WRITE, 0);
}
static int do_unreserved(void)
{
	return anonymous(LARGE, PROT_READ | PROT_WRITE, MAP_NORESERVE);
}
static int do_untouchable(void)
{
	return anonymous(LARGE, PROT_NONE, 0);
}

/* What the allocator answers, whichever way it took. */
static int do_malloc(void)
{
	void *volatile block;

	errno = 0;
	block = malloc(LARGE);
	if (!block)
		return errno;
	free(block);
	return 0;
}

static int do_brk(void)
{
	void *end = sbrk(SOME);

	if (end == (void *)-1)
		return errno;
	sbrk(-(long)SOME);
	return 0;
}

static int do_mprotect(void)
{
	int error = told(mprotect(reserved, SOME, PROT_READ | PROT_WRITE));

	munmap(reserved, SOME); /* to be promised again, the next time */
	reserved = mmap(NULL, SOME, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return error;
}

/* ---- sockets ---- */

static int do_socket(void)
{
	return closed(socket(AF_INET, SOCK_STREAM, 0));
}
static int do_eventfd(void)
{
	return closed(eventfd(0, 0));
}

static int do_socketpair(void)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return errno;
	close(pair[0]);
	close(pair[1]);
	return 0;
}

/* Nobody has called, and that is as it should be. */
static int do_accept(void)
{
	int error = closed(accept4(listener, NULL, NULL, SOCK_NONBLOCK));

	return error == EAGAIN ? 0 : error;
}

/* What comes of a connection that is under way: its error, or that of using it. */
static int finished(struct pollfd *wait)
{
	socklen_t len = sizeof(int);
	int error = ETIME; /* nothing ever happens */

	if (poll(wait, 1, 1000) <= 0 || getsockopt(wait->fd, SOL_SOCKET, SO_ERROR, &error, &len) || error)
		return error;
	return told(recv(wait->fd, byte, 1, MSG_DONTWAIT));
}

/* Nobody listens there, and that is as it should be. */
static int connected(int family_type, int flags)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons(1),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct pollfd wait = { .fd = socket(AF_INET, family_type | flags, 0), .events = POLLOUT };
	int error = told(connect(wait.fd, (struct sockaddr *)&address, sizeof(address)));

	if (error == EINPROGRESS)
		error = finished(&wait);
	close(wait.fd);
	return error == ECONNREFUSED ? 0 : error;
}

static int do_connect(void)
{
	return connected(SOCK_STREAM, 0);
}
static int do_connect_later(void)
{
	return connected(SOCK_STREAM, SOCK_NONBLOCK);
}
static int do_connect_datagram(void)
{
	return connected(SOCK_DGRAM, 0);
}

static int do_connect_unix(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "\0nobody listens here" };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0),
	    error = told(connect(fd, (struct sockaddr *)&address, sizeof(address)));

	close(fd);
	return error == ECONNREFUSED ? 0 : error;
}

/* What was sent is taken out again. */
static int sent(long result)
{
	int error = told(result), more;

	while (!error && ioctl(streams[1], FIONREAD, &more) == 0 && more > 0) {
		if (recv(streams[1], byte, sizeof(byte), MSG_DONTWAIT) < 0)
			break;
	}
	return error;
}

static struct iovec vector = { byte, 1 };

static int do_send(void)
{
	return sent(send(streams[0], byte, 1, 0));
}
static int do_send_write(void)
{
	return sent(write(streams[0], byte, 1));
}
static int do_send_writev(void)
{
	return sent(writev(streams[0], &vector, 1));
}

static int do_sendmsg(void)
{
	struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1 };

	return sent(sendmsg(streams[0], &message, 0));
}

static int do_sendmmsg(void)
{
	struct mmsghdr message = { .msg_hdr = { .msg_iov = &vector, .msg_iovlen = 1 } };

	return sent(sendmmsg(streams[0], &message, 1, 0));
}

static int do_sendto(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons(9),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	return told(sendto(datagram, byte, 1, 0, (struct sockaddr *)&address, sizeof(address)));
}

static int do_sendfile(void)
{
	off_t from = 0;

	return sent(sendfile(streams[0], file, &from, 1));
}

static int do_send_splice(void)
{
	int error;

	if (write(pipes[1], byte, 1) != 1)
		return -1;
	error = sent(splice(pipes[0], NULL, streams[0], NULL, 1, SPLICE_F_NONBLOCK));
	if (error)
		read(pipes[0], byte, 1);
	return error;
}

/* A broken pipe comes with one. */
static void note_signal(int sig)
{
	(void)sig;
	signals++;
}

static int do_send_signal(void)
{
	int error;

	signals = 0;
	error = do_send();
	return signals ? -1 : error;
}

static int received(long result)
{
	int error = told(result);

	return error == EAGAIN ? 0 : error;
}

static int do_receive(void)
{
	return received(recv(streams[0], byte, 1, MSG_DONTWAIT));
}
static int do_receive_read(void)
{
	return received(read(streams[0], byte, 1));
}
static int do_receive_readv(void)
{
	return received(readv(streams[0], &vector, 1));
}

static int do_recvmsg(void)
{
	struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1 };

	return received(recvmsg(streams[0], &message, MSG_DONTWAIT));
}

static int do_recvmmsg(void)
{
	struct mmsghdr message = { .msg_hdr = { .msg_iov = &vector, .msg_iovlen = 1 } };

	return received(recvmmsg(streams[0], &message, 1, MSG_DONTWAIT, NULL));
}

/* Something is there for it. */
static int do_receive_splice(void)
{
	struct pollfd wait = { .fd = streams[0], .events = POLLIN };
	int error;

	if (send(streams[1], byte, 1, 0) != 1 || poll(&wait, 1, 10000) != 1)
		return -1;
	error = told(splice(streams[0], NULL, pipes[1], NULL, 1, SPLICE_F_NONBLOCK));
	if (!error && read(pipes[0], byte, 1) != 1)
		return -1;
	return error;
}

/* ---- processes ---- */

static int nothing(void *arg)
{
	(void)arg;
	_exit(0);
}

static int do_fork(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	return reaped(pid);
}

static int do_vfork(void)
{
	pid_t pid = vfork();

	if (pid == 0)
		_exit(0);
	return reaped(pid);
}

static int do_clone(void)
{
	static char stack[65536] __attribute__((aligned(16)));

	return reaped(clone(nothing, stack + sizeof(stack), SIGCHLD, NULL));
}

static int do_spawn(void)
{
	pid_t pid = 0;
	int error = posix_spawn(&pid, program, NULL, NULL, arguments, environment);

	return error ?: reaped(pid);
}

static void *end(void *arg)
{
	return arg;
}

static int do_thread(void)
{
	pthread_t thread;
	int error = pthread_create(&thread, NULL, end, NULL);

	return error ?: pthread_join(thread, NULL);
}

static int do_exec(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		execve(program, arguments, environment);
		_exit(errno);
	}
	return reaped(pid);
}

static int do_fexecve(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		fexecve(open(program, O_PATH | O_CLOEXEC), arguments, environment);
		_exit(errno);
	}
	return reaped(pid);
}

static const struct way {
	const char *name;
	int (*function)(void);
} ways[] = {
	{ "open", do_open },
	{ "create", do_create },
	{ "read", do_read },
	{ "write", do_write },
	{ "mmap", do_mmap },
	{ "ioctl", do_ioctl },
	{ "memory", do_memory },
	{ "unreserved", do_unreserved },
	{ "untouchable", do_untouchable },
	{ "malloc", do_malloc },
	{ "brk", do_brk },
	{ "mprotect", do_mprotect },
	{ "socket", do_socket },
	{ "socketpair", do_socketpair },
	{ "accept", do_accept },
	{ "eventfd", do_eventfd },
	{ "connect", do_connect },
	{ "connect-later", do_connect_later },
	{ "connect-datagram", do_connect_datagram },
	{ "connect-unix", do_connect_unix },
	{ "send", do_send },
	{ "send-write", do_send_write },
	{ "send-writev", do_send_writev },
	{ "sendmsg", do_sendmsg },
	{ "sendmmsg", do_sendmmsg },
	{ "sendto", do_sendto },
	{ "sendfile", do_sendfile },
	{ "send-splice", do_send_splice },
	{ "send-signal", do_send_signal },
	{ "receive", do_receive },
	{ "receive-read", do_receive_read },
	{ "receive-readv", do_receive_readv },
	{ "recvmsg", do_recvmsg },
	{ "recvmmsg", do_recvmmsg },
	{ "receive-splice", do_receive_splice },
	{ "fork", do_fork },
	{ "vfork", do_vfork },
	{ "clone", do_clone },
	{ "spawn", do_spawn },
	{ "thread", do_thread },
	{ "exec", do_exec },
	{ "fexecve", do_fexecve },
};

/* A listener, and the two ends of a connection to it. */
static int connect_streams(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(address);

	listener = socket(AF_INET, SOCK_STREAM, 0);
	streams[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (listener < 0 || streams[0] < 0 || bind(listener, (struct sockaddr *)&address, len) || listen(listener, 5) ||
	    getsockname(listener, (struct sockaddr *)&address, &len) ||
	    connect(streams[0], (struct sockaddr *)&address, len))
		return -1;
	streams[1] = accept(listener, NULL, NULL);
	return streams[1] < 0 || fcntl(streams[0], F_SETFL, O_NONBLOCK) || fcntl(streams[1], F_SETFL, O_NONBLOCK) ||
	       fcntl(listener, F_SETFL, O_NONBLOCK);
}

static int prepare(void)
{
	signal(SIGPIPE, note_signal);
	file = open(path, O_RDWR);
	datagram = socket(AF_INET, SOCK_DGRAM, 0);
	reserved = mmap(NULL, SOME, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return file < 0 || datagram < 0 || reserved == MAP_FAILED || pipe2(pipes, O_NONBLOCK) || connect_streams();
}

/* A line of the standard input, without its end; false: there is none any more. */
static int read_line(char *line, size_t size)
{
	size_t len = 0;

	while (read(0, line + len, 1) == 1) {
		if (line[len] == '\n') {
			line[len] = '\0';
			return 1;
		}
		if (len + 1 < size)
			len++;
	}
	return 0;
}

int main(int argc, char **argv)
{
	char line[64], answer[32];

	if (argc == 1)
		return 0; /* to be executed is all it is for */
	path = argv[1];
	program = argv[argc - 1];
	if (argc != 3 || prepare())
		return 1;
	while (read_line(line, sizeof(line))) {
		int error = -1;

		for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
			if (strcmp(ways[i].name, line) == 0)
				error = ways[i].function();
		}
		snprintf(answer, sizeof(answer), "%d\n", error);
		if (write(1, answer, strlen(answer)) < 0)
			return 1;
	}
	return 0;
}
