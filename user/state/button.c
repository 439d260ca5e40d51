// SPDX-License-Identifier: GPL-2.0-only
#include "user/state/button.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Abstract names begin with a 0 byte, and are as long as is said. */
static const struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "\0chaosbpf-stop" };
#define ADDRESS_SIZE ((socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof("\0chaosbpf-stop") - 1))

int button_listen(struct error *err)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1, ret;

	if (fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)) &&
	    !bind(fd, (const struct sockaddr *)&address, ADDRESS_SIZE))
		return fd;
	ret = -errno;
	if (fd >= 0)
		close(fd);
	if (ret != -EADDRINUSE)
		return error_set(err, ret, EXIT_FAILED, "cannot listen for 'chaosbpf stop': %s", strerror(-ret));
	error_set(err, -EBUSY, EXIT_FAILED, "an experiment or a test of dependencies is under way on this machine");
	error_hint(err, "wait for it, or end it with 'chaosbpf stop'");
	return -EBUSY;
}

/* Anybody may send to an abstract socket: the kernel says who did. */
static bool is_of_root(struct msghdr *message)
{
	for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
		struct ucred sender;

		if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_CREDENTIALS)
			continue;
		memcpy(&sender, CMSG_DATA(part), sizeof(sender));
		return sender.uid == 0;
	}
	return false;
}

bool button_pressed(int fd)
{
	bool pressed = false;

	for (;;) {
		char control[CMSG_SPACE(sizeof(struct ucred))], byte;
		struct iovec data = { .iov_base = &byte, .iov_len = 1 };
		struct msghdr message = {
			.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
		};

		if (recvmsg(fd, &message, MSG_CMSG_CLOEXEC) < 0)
			return pressed;
		pressed |= is_of_root(&message);
	}
}

bool button_press(void)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool heard;

	if (fd < 0)
		return false;
	heard = sendto(fd, "", 1, 0, (const struct sockaddr *)&address, ADDRESS_SIZE) == 1;
	close(fd);
	return heard;
}
