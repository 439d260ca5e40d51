// SPDX-License-Identifier: GPL-2.0-only
#include "user/base/web.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/curl_library.h"
#include "user/base/names.h"

#define MAX_HEADERS (64 * 1024)
#define MAX_FDS     64

struct web {
	CURLM *multi;
	struct call *calls; /* under way */
};

struct bytes {
	char *data;
	size_t len, limit;
};

struct call {
	struct call *next, **link;
	CURL *easy;
	struct curl_slist *headers;
	char *url; /* ours, of a connection alone */
	struct bytes head, body;
	uint64_t timeout_ns;
	web_done done;
	void *arg;
};

int web_open(struct web **web, struct error *err)
{
	int ret = curl_library_load(err);

	*web = NULL;
	if (ret)
		return ret;
	*web = calloc(1, sizeof(**web));
	if (*web && curl_global_init(CURL_GLOBAL_DEFAULT) == 0) {
		(*web)->multi = curl_multi_init();
		if ((*web)->multi)
			return 0;
		curl_global_cleanup();
	}
	free(*web);
	*web = NULL;
	return error_set(err, -ENOMEM, EXIT_FAILED, "cannot set up libcurl");
}

static void call_free(struct web *web, struct call *call)
{
	*call->link = call->next;
	if (call->next)
		call->next->link = call->link;
	if (call->easy) {
		curl_multi_remove_handle(web->multi, call->easy);
		curl_easy_cleanup(call->easy);
	}
	curl_slist_free_all(call->headers);
	free(call->url);
	free(call->head.data);
	free(call->body.data);
	free(call);
}

void web_close(struct web *web)
{
	if (!web)
		return;
	while (web->calls)
		call_free(web, web->calls);
	curl_multi_cleanup(web->multi);
	curl_global_cleanup();
	free(web);
}

/* Keeps what fits; the rest is taken and let go. */
static size_t keep(char *data, size_t size, size_t n, void *arg)
{
	struct bytes *bytes = arg;
	size_t len = size * n, room = bytes->limit - bytes->len, taken = len < room ? len : room;
	char *grown = realloc(bytes->data, bytes->len + taken + 1);

	if (!grown)
		return 0;
	bytes->data = grown;
	memcpy(bytes->data + bytes->len, data, taken);
	bytes->len += taken;
	bytes->data[bytes->len] = '\0';
	return len;
}

static struct call *call_new(struct web *web, uint64_t timeout_ns, web_done done, void *arg)
{
	struct call *call = calloc(1, sizeof(*call));

	if (!call)
		return NULL;
	call->next = web->calls;
	call->link = &web->calls;
	if (web->calls)
		web->calls->link = &call->next;
	web->calls = call;
	call->timeout_ns = timeout_ns;
	call->done = done;
	call->arg = arg;
	call->head.limit = MAX_HEADERS;
	call->body.limit = EXPERIMENT_MAX_BODY;
	call->easy = curl_easy_init();
	if (!call->easy) {
		call_free(web, call);
		return NULL;
	}
	curl_easy_setopt(call->easy, CURLOPT_PRIVATE, call);
	curl_easy_setopt(call->easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(call->easy, CURLOPT_PROXY, "");
	curl_easy_setopt(call->easy, CURLOPT_TIMEOUT_MS, (long)((timeout_ns + 999999) / 1000000));
	curl_easy_setopt(call->easy, CURLOPT_WRITEFUNCTION, keep);
	curl_easy_setopt(call->easy, CURLOPT_WRITEDATA, &call->body);
	curl_easy_setopt(call->easy, CURLOPT_HEADERFUNCTION, keep);
	curl_easy_setopt(call->easy, CURLOPT_HEADERDATA, &call->head);
	return call;
}

static int add_header(struct call *call, const char *header)
{
	struct curl_slist *list = curl_slist_append(call->headers, header);

	if (!list)
		return -ENOMEM;
	call->headers = list;
	return 0;
}

static int set_request(struct call *call, const struct request *request)
{
	int err = add_header(call, "Expect:"); /* or a long body waits a second for leave */

	for (size_t i = 0; i < request->headers_count && !err; i++)
		err = add_header(call, request->headers[i]);
	if (err)
		return err;
	curl_easy_setopt(call->easy, CURLOPT_URL, request->url);
	curl_easy_setopt(call->easy, CURLOPT_USERAGENT, "chaosbpf/" CHAOSBPF_VERSION);
	if (request->body) {
		curl_easy_setopt(call->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_len);
		curl_easy_setopt(call->easy, CURLOPT_POSTFIELDS, request->body);
	}
	curl_easy_setopt(call->easy, CURLOPT_CUSTOMREQUEST, request->method);
	if (strcmp(request->method, "HEAD") == 0)
		curl_easy_setopt(call->easy, CURLOPT_NOBODY, 1L);
	curl_easy_setopt(call->easy, CURLOPT_HTTPHEADER, call->headers);
	if (request->insecure) {
		curl_easy_setopt(call->easy, CURLOPT_SSL_VERIFYPEER, 0L);
		curl_easy_setopt(call->easy, CURLOPT_SSL_VERIFYHOST, 0L);
	}
	if (request->fresh) {
		curl_easy_setopt(call->easy, CURLOPT_FRESH_CONNECT, 1L);
		curl_easy_setopt(call->easy, CURLOPT_FORBID_REUSE, 1L);
	}
	return 0;
}

static int call_begin(struct web *web, struct call *call)
{
	if (curl_multi_add_handle(web->multi, call->easy)) {
		call_free(web, call);
		return -ENOMEM;
	}
	return 0;
}

int web_start(struct web *web, const struct request *request, uint64_t timeout_ns, web_done done, void *arg)
{
	struct call *call = call_new(web, timeout_ns, done, arg);

	if (!call)
		return -ENOMEM;
	if (set_request(call, request)) {
		call_free(web, call);
		return -ENOMEM;
	}
	return call_begin(web, call);
}

int web_connect(struct web *web, const char *host, const char *port, uint64_t timeout_ns, web_done done, void *arg)
{
	struct call *call = call_new(web, timeout_ns, done, arg);
	bool six = strchr(host, ':');

	if (!call)
		return -ENOMEM;
	if (asprintf(&call->url, "http://%s%s%s:%s", six ? "[" : "", host, six ? "]" : "", port) < 0) {
		call->url = NULL;
		call_free(web, call);
		return -ENOMEM;
	}
	curl_easy_setopt(call->easy, CURLOPT_URL, call->url);
	curl_easy_setopt(call->easy, CURLOPT_CONNECT_ONLY, 1L);
	curl_easy_setopt(call->easy, CURLOPT_FRESH_CONNECT, 1L);
	return call_begin(web, call);
}

/* In the words of somebody who looks at the service, not at libcurl. */
static void error_words(const struct call *call, CURLcode code, char *buf, size_t size)
{
	long number = 0;

	curl_easy_getinfo(call->easy, CURLINFO_OS_ERRNO, &number);
	switch (code) {
	case CURLE_OPERATION_TIMEDOUT:
		snprintf(buf, size, "no answer within %.3g s", (double)call->timeout_ns / 1e9);
		break;
	case CURLE_COULDNT_CONNECT:
		snprintf(buf, size, "cannot connect%s%s", number ? ": " : "", number ? errno_name((int)number) : "");
		break;
	case CURLE_COULDNT_RESOLVE_HOST:
		snprintf(buf, size, "the host's name does not resolve");
		break;
	case CURLE_GOT_NOTHING:
		snprintf(buf, size, "closed without an answer");
		break;
	case CURLE_PARTIAL_FILE:
		snprintf(buf, size, "the answer was cut short");
		break;
	case CURLE_RECV_ERROR:
	case CURLE_SEND_ERROR:
		snprintf(buf, size, "connection lost%s%s", number ? ": " : "", number ? errno_name((int)number) : "");
		break;
	default:
		snprintf(buf, size, "%s", curl_easy_strerror(code));
	}
}

static void finish(struct web *web, struct call *call, CURLcode code)
{
	struct web_answer answer = { .headers = call->head.data ?: "", .body = call->body.data ?: "" };
	curl_off_t took = 0;
	char words[160];
	long status = 0;

	curl_easy_getinfo(call->easy, CURLINFO_TOTAL_TIME_T, &took);
	curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
	answer.latency_ms = (double)took / 1e3;
	answer.status = (int)status;
	answer.body_len = call->body.len;
	if (code) {
		error_words(call, code, words, sizeof(words));
		answer.error = words;
	}
	call->done(&answer, call->arg);
	call_free(web, call);
}

void web_poll(struct web *web, struct pollfd *fds, size_t count, int timeout_ms)
{
	struct curl_waitfd extra[MAX_FDS] = { 0 };
	CURLMsg *message;
	int left;

	if (count > MAX_FDS)
		count = MAX_FDS;
	for (size_t i = 0; i < count; i++) {
		extra[i].fd = fds[i].fd;
		extra[i].events = CURL_WAIT_POLLIN;
	}
	curl_multi_perform(web->multi, &left);
	curl_multi_poll(web->multi, extra, (unsigned int)count, timeout_ms, NULL);
	for (size_t i = 0; i < count; i++)
		fds[i].revents = extra[i].revents ? POLLIN : 0;
	curl_multi_perform(web->multi, &left);
	while ((message = curl_multi_info_read(web->multi, &left))) {
		CURLcode code = message->data.result;
		struct call *call = NULL;

		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &call);
		finish(web, call, code);
	}
}
