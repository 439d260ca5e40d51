// SPDX-License-Identifier: GPL-2.0-only
/*
 * Requests of HTTP whose cost is measured, on one kept-alive connection of loopback: client and server are in this one
 * thread. With a proxy between them its process takes part, as it does in life.
 *
 *   requests                reads commands, one a line, and answers each with one line:
 *     port                  the server's port
 *     direct                from here on, client and server are connected to each other
 *     through PORT          from here on, by the proxy at that port of 127.0.0.1
 *     http MS               a request and its answer                          nanoseconds
 *     refused MS            a request that the proxy answers itself           nanoseconds
 *     median N, worst N     of so many requests, one by one: the time of half of them, of 99 % of them; nanoseconds
 */
#include <netinet/tcp.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "measure.h"

#define BODY "{\"model\": \"tiny\", \"messages\": [{\"role\": \"user\", \"content\": \"what is a vector database, and who needs one?\"}]}"
#define ANSWER "{\"choices\": [{\"message\": {\"role\": \"assistant\", \"content\": \"It finds what is near.\"}}], \"usage\": {\"total_tokens\": 20}, " \
	       "\"id\": \"chatcmpl-0123456789\", \"model\": \"tiny\", \"object\": \"chat.completion\", \"created\": 1700000000, \"padding\": \"" \
	       "................................................................................................\"}"

static int listener, near_end = -1, far_end = -1;
static char request[1024], refused[1024], answer[1024], buffer[1 << 16];

static void send_all(int fd, const char *text)
{
	size_t size = strlen(text);

	if (send(fd, text, size, MSG_NOSIGNAL) != (ssize_t)size)
		die("send");
}

/* A whole message, by its Content-Length. */
static void receive(int fd)
{
	size_t have = 0, wanted = sizeof(buffer) - 1;

	while (have < wanted) {
		ssize_t n = recv(fd, buffer + have, sizeof(buffer) - 1 - have, 0);
		const char *length, *end;

		if (n <= 0)
			die("recv");
		have += n;
		buffer[have] = '\0';
		end = strstr(buffer, "\r\n\r\n");
		length = end ? strcasestr(buffer, "\r\ncontent-length:") : NULL;
		if (length)
			wanted = end + 4 - buffer + strtoul(length + 17, NULL, 10);
	}
}

static void do_http(void)
{
	send_all(near_end, request);
	receive(far_end);
	send_all(far_end, answer);
	receive(near_end);
}

static void do_refused(void)
{
	send_all(near_end, refused);
	receive(near_end);
}

static void set_nodelay(int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

/* A proxy connects when the first request is there. */
static int connect_by(int port)
{
	struct sockaddr_in address = loopback(port);

	close(near_end);
	close(far_end);
	near_end = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(near_end, (struct sockaddr *)&address, sizeof(address)))
		die("connect");
	set_nodelay(near_end);
	send_all(near_end, request);
	far_end = accept(listener, NULL, NULL);
	set_nodelay(far_end);
	receive(far_end);
	send_all(far_end, answer);
	receive(near_end);
	return port;
}

static int open_server(void)
{
	struct sockaddr_in address = loopback(0);
	socklen_t size = sizeof(address);

	listener = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) || listen(listener, 64))
		die("listen");
	getsockname(listener, (struct sockaddr *)&address, &size);
	return ntohs(address.sin_port);
}

static double single(int n, int percent)
{
	static double took[1 << 16];

	if (n > (int)(sizeof(took) / sizeof(took[0])))
		n = sizeof(took) / sizeof(took[0]);
	for (int i = 0; i < n; i++) {
		long long start = now_ns();

		do_http();
		took[i] = (double)(now_ns() - start);
	}
	qsort(took, n, sizeof(took[0]), compare);
	return n ? took[(size_t)n * percent / 100] : 0;
}

int main(void)
{
	int port = open_server();
	char line[128], command[32];

	snprintf(request, sizeof(request),
		 "POST /v1/chat/completions HTTP/1.1\r\nHost: model.test\r\nAuthorization: Bearer none\r\n"
		 "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n" BODY, strlen(BODY));
	snprintf(refused, sizeof(refused), "GET /refused HTTP/1.1\r\nHost: model.test\r\n\r\n");
	snprintf(answer, sizeof(answer),
		 "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nServer: bench\r\nContent-Length: %zu\r\n\r\n" ANSWER,
		 strlen(ANSWER));
	connect_by(port);
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin)) {
		int a = 0;

		if (sscanf(line, "%31s %d", command, &a) < 1)
			continue;
		if (strcmp(command, "port") == 0)
			printf("%d\n", port);
		else if (strcmp(command, "direct") == 0)
			printf("%d\n", connect_by(port));
		else if (strcmp(command, "through") == 0)
			printf("%d\n", connect_by(a));
		else if (strcmp(command, "http") == 0)
			printf("%.1f\n", cost(do_http, a));
		else if (strcmp(command, "refused") == 0)
			printf("%.1f\n", cost(do_refused, a));
		else if (strcmp(command, "median") == 0 || strcmp(command, "worst") == 0)
			printf("%.1f\n", single(a, command[0] == 'm' ? 50 : 99));
		else
			printf("unknown\n");
	}
	return 0;
}
