// SPDX-License-Identifier: GPL-2.0-only
/* One thread of the library's answers; what it answers with is put there by ours. */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "user/base/microhttpd_library.h"
#include "user/observe/publish.h"
#include "user/rules/rules.h"

#define MAX_CONNECTIONS 16
#define TIMEOUT_S       10
#define CONTENT_TYPE    "text/plain; version=0.0.4; charset=utf-8"

struct publisher {
	struct MHD_Daemon *daemon;
	pthread_mutex_t lock;
	char *text;
	size_t len;
};

static enum MHD_Result answer_with(struct MHD_Connection *connection, unsigned int status, const char *text, size_t len,
				   const char *type)
{
	struct MHD_Response *response =
		microhttpd.create_response_from_buffer(len, (void *)text, MHD_RESPMEM_MUST_COPY);
	enum MHD_Result done;

	if (!response)
		return MHD_NO;
	microhttpd.add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	done = microhttpd.queue_response(connection, status, response);
	microhttpd.destroy_response(response);
	return done;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned int status, const char *text)
{
	return answer_with(connection, status, text, strlen(text), "text/plain");
}

static enum MHD_Result answer(void *arg, struct MHD_Connection *connection, const char *url, const char *method,
			      const char *version, const char *data, size_t *data_len, void **request)
{
	struct publisher *p = arg;
	enum MHD_Result done;

	(void)version, (void)data, (void)request;
	if (*data_len) { /* of a body, which nobody wants */
		*data_len = 0;
		return MHD_YES;
	}
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET\n");
	if (strcmp(url, "/metrics") != 0)
		return refuse(connection, MHD_HTTP_NOT_FOUND, "it is /metrics\n");
	pthread_mutex_lock(&p->lock);
	done = answer_with(connection, MHD_HTTP_OK, p->text ?: "", p->len, CONTENT_TYPE);
	pthread_mutex_unlock(&p->lock);
	return done;
}

static int bad_address(const char *address, struct error *err)
{
	error_set(err, -EINVAL, EXIT_USAGE, "--listen: '%s' is no address with a port", address);
	error_hint(err, "write it as " PUBLISH_DEFAULT " or [::1]:9469");
	return -EINVAL;
}

/* "127.0.0.1:9469", "[::1]:9469", ":9469" and "9469". */
static int parse_address(const char *address, struct sockaddr_storage *to, struct error *err)
{
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)to;
	struct sockaddr_in *four = (struct sockaddr_in *)to;
	const char *colon = strrchr(address, ':'), *port_text = colon ? colon + 1 : address;
	char host[INET6_ADDRSTRLEN + 2] = "";
	size_t len = colon ? (size_t)(colon - address) : 0;
	uint64_t port;

	memset(to, 0, sizeof(*to));
	if (parse_number(port_text, &port) || port < 1 || port > UINT16_MAX || len >= sizeof(host))
		return bad_address(address, err);
	memcpy(host, address, len);
	if (len > 2 && host[0] == '[' && host[len - 1] == ']') {
		host[len - 1] = '\0';
		six->sin6_family = AF_INET6;
		six->sin6_port = htons((uint16_t)port);
		return inet_pton(AF_INET6, host + 1, &six->sin6_addr) == 1 ? 0 : bad_address(address, err);
	}
	four->sin_family = AF_INET;
	four->sin_port = htons((uint16_t)port);
	four->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return !len || inet_pton(AF_INET, host, &four->sin_addr) == 1 ? 0 : bad_address(address, err);
}

/* By ourselves, so that what goes wrong can be told. */
static int listen_at(const char *address, struct error *err)
{
	struct sockaddr_storage to;
	const int yes = 1;
	int ret = parse_address(address, &to, err), fd;

	if (ret)
		return ret;
	fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return error_set(err, -errno, EXIT_FAILED, "--listen %s: %s", address, strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (bind(fd, (struct sockaddr *)&to, sizeof(to)) || listen(fd, MAX_CONNECTIONS)) {
		ret = error_set(err, -errno, EXIT_FAILED, "--listen %s: %s", address, strerror(errno));
		close(fd);
		return ret;
	}
	return fd;
}

int publish_open(const char *address, struct publisher **publisher, struct error *err)
{
	struct publisher *p;
	int fd, ret = microhttpd_load(err);

	*publisher = NULL;
	if (ret)
		return ret;
	fd = listen_at(address, err);
	if (fd < 0)
		return fd;
	p = calloc(1, sizeof(*p));
	if (p) {
		pthread_mutex_init(&p->lock, NULL);
		p->daemon = microhttpd.start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL, answer, p,
						    MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
						    MAX_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, TIMEOUT_S,
						    MHD_OPTION_END);
	}
	if (!p || !p->daemon) {
		close(fd);
		free(p);
		return error_set(err, -ENOMEM, EXIT_FAILED, "--listen %s: the server does not start", address);
	}
	*publisher = p;
	return 0;
}

void publish_text(struct publisher *p, char *text, size_t len)
{
	pthread_mutex_lock(&p->lock);
	free(p->text);
	p->text = text;
	p->len = len;
	pthread_mutex_unlock(&p->lock);
}

void publish_close(struct publisher *p)
{
	if (!p)
		return;
	microhttpd.stop_daemon(p->daemon); /* closes the socket as well */
	pthread_mutex_destroy(&p->lock);
	free(p->text);
	free(p);
}
