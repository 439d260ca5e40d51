/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Requests over HTTP, many at once, none waiting for another; and whether an answer is what was expected. All of libcurl
 * is behind this. No proxy is used, no redirection followed: it is the named server whose answer counts.
 */
#ifndef USER_WEB_H
#define USER_WEB_H

#include <poll.h>

#include "user/experiment/experiment.h"

struct web;

struct web_answer {
	const char *error; /* what went wrong on the way, in a few words; NULL: an answer came */
	int status;
	double latency_ms;
	const char *headers; /* as they came */
	const char *body;    /* EXPERIMENT_MAX_BODY at most, with a NUL behind it */
	size_t body_len;
};

typedef void (*web_done)(const struct web_answer *answer, void *arg);

int web_open(struct web **web, struct error *err);

/* Ends what is under way without a word. */
void web_close(struct web *web);

/* `request` must live until `done` was called, which web_poll() does. */
int web_start(struct web *web, const struct request *request, uint64_t timeout_ns, web_done done, void *arg);

/* A TCP connection and nothing else. */
int web_connect(struct web *web, const char *host, const char *port, uint64_t timeout_ns, web_done done, void *arg);

/* Waits as poll() does, for the requests as well. */
void web_poll(struct web *web, struct pollfd *fds, size_t count, int timeout_ms);

/* Is it what was expected? If not, `reason` says why. */
bool web_expected(const struct expect *expect, const struct web_answer *answer, char *reason, size_t size);

/* The value in Prometheus's answer to an instant query; NAN with the reason. Of several series: of the first. */
double web_prometheus_value(const struct web_answer *answer, char *reason, size_t size);

#endif
