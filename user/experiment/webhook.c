// SPDX-License-Identifier: GPL-2.0-only
/* Posting, in a process of its own, until it is taken or there is no hope. */
#include "user/experiment/webhook.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "user/base/curl_library.h"
#include "user/experiment/webhook_internal.h"

#define TIMEOUT_S 15L
#define WAIT_S    5 /* most are told within it */

double webhook_pauses_s[WEBHOOK_ATTEMPTS - 1] = { 2, 10, 60 };

/* ---- one webhook ---- */

static size_t ignore(char *data, size_t size, size_t n, void *arg)
{
	(void)data;
	(void)arg;
	return size * n;
}

static void authorize(CURL *easy, const struct webhook *webhook, struct curl_slist **headers)
{
	char *line;

	if (!webhook->token.value)
		return;
	if (webhook->authorization == WEBHOOK_BASIC) {
		curl_easy_setopt(easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
		curl_easy_setopt(easy, CURLOPT_USERPWD, webhook->token.value);
	} else if (asprintf(&line, "Authorization: Bearer %s", webhook->token.value) >= 0) {
		*headers = curl_slist_append(*headers, line);
		free(line);
	}
}

/* One attempt: the status, or 0 with the reason. No redirection is followed: the token is for nobody else. */
static long post(const struct webhook *webhook, const char *body, char *reason, size_t size)
{
	struct curl_slist *headers = NULL;
	CURL *easy = curl_easy_init();
	long status = 0;
	CURLcode code;

	if (!easy) {
		snprintf(reason, size, "out of memory");
		return 0;
	}
	headers = curl_slist_append(headers, "Content-Type: application/json");
	authorize(easy, webhook, &headers);
	curl_easy_setopt(easy, CURLOPT_URL, webhook->url.value);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, ignore);
	curl_easy_setopt(easy, CURLOPT_TIMEOUT, TIMEOUT_S);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, "chaosbpf");
	code = curl_easy_perform(easy);
	curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
	if (code) {
		status = 0;
		snprintf(reason, size, "%s", curl_easy_strerror(code)); /* knows no address */
	} else {
		snprintf(reason, size, "status %ld", status);
	}
	curl_slist_free_all(headers);
	curl_easy_cleanup(easy);
	return status;
}

static bool is_taken(long status)
{
	return status >= 200 && status < 300;
}

/* What the receiver refuses it will refuse again, but for these. */
static bool is_hopeless(long status)
{
	return status >= 300 && status < 500 && status != 408 && status != 425 && status != 429;
}

static void pause_s(double seconds)
{
	struct timespec pause = { .tv_sec = (time_t)seconds };

	pause.tv_nsec = (long)((seconds - (double)pause.tv_sec) * 1e9);
	while (nanosleep(&pause, &pause) < 0 && errno == EINTR)
		;
}

void webhook_tell(const struct webhook *webhook, const char *body, char *outcome, size_t size)
{
	char reason[256];
	int attempt = 0;
	long status;

	for (;;) {
		status = post(webhook, body, reason, sizeof(reason));
		attempt++;
		if (is_taken(status) || is_hopeless(status) || attempt == WEBHOOK_ATTEMPTS)
			break;
		pause_s(webhook_pauses_s[attempt - 1]);
	}
	snprintf(outcome, size, "%s after %d attempt%s: %s", is_taken(status) ? "told" : "gave up", attempt,
		 attempt == 1 ? "" : "s", reason);
}

/* ---- all of them, in a child ---- */

/* Nothing of the parent's is kept open: no link of a fault, no pipe that somebody waits for the end of. */
static void become_alone(void)
{
	int null = open("/dev/null", O_RDWR);

	setsid();
	for (int fd = 0; null >= 0 && fd < 3; fd++)
		dup2(null, fd);
	syscall(SYS_close_range, 3U, ~0U, 0U);
	prctl(PR_SET_NAME, "chaosbpf-hook");
	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
}

static void keep_outcome(const char *database, int64_t run, size_t number, const struct webhook *webhook,
			 const char *outcome)
{
	struct findings *findings;
	struct error err;
	char text[512];

	snprintf(text, sizeof(text), "webhook %zu (%s): %s", number, webhook_shape_names[webhook->shape], outcome);
	if (findings_open(&findings, database, FINDINGS_WRITE, &err) < 0)
		return;
	findings_note(findings, run, text, &err);
	findings_close(findings);
}

static void tell_all(const struct webhooks *webhooks, const struct findings_run *run, const char *database)
{
	struct error err;
	int missing = curl_library_load(&err);

	if (!missing)
		curl_global_init(CURL_GLOBAL_DEFAULT);
	for (size_t i = 0; i < webhooks->count; i++) {
		const struct webhook *webhook = &webhooks->list[i];
		char outcome[400] = "libcurl is not installed";
		char *body;

		if (!webhook_wants(webhook, run))
			continue;
		body = webhook_body(webhook, run);
		if (body && !missing)
			webhook_tell(webhook, body, outcome, sizeof(outcome));
		keep_outcome(database, run->id, i + 1, webhook, body ? outcome : "out of memory");
		free(body);
	}
}

static bool anybody(const struct webhooks *webhooks, const struct findings_run *run)
{
	for (size_t i = 0; i < webhooks->count; i++) {
		if (webhook_wants(&webhooks->list[i], run))
			return true;
	}
	return false;
}

int webhook_begin(const char *file, const struct findings_run *run, const char *database, pid_t *child,
		  struct error *err)
{
	struct webhooks *webhooks;
	int code = webhook_file_load(file ? file : WEBHOOK_FILE, &webhooks, err);

	*child = 0;
	if (code == -ENOENT && !file)
		return 0;
	if (code == -ENOENT && !webhooks)
		return error_set(err, code, EXIT_USAGE, "cannot open '%s': %s", file, strerror(ENOENT));
	if (code)
		return code;
	if (anybody(webhooks, run)) {
		*child = fork();
		if (*child == 0) {
			become_alone();
			tell_all(webhooks, run, database);
			_exit(0);
		}
		if (*child < 0)
			code = error_set(err, -errno, EXIT_FAILED, "cannot start a process: %s", strerror(errno));
	}
	webhooks_free(webhooks);
	return code;
}

int webhook_after(const char *database, int64_t id, struct error *err)
{
	struct findings_run *run = NULL;
	struct findings *findings;
	char word[32];
	pid_t child;
	int code = findings_open(&findings, database, FINDINGS_READ, err);

	if (code)
		return code;
	snprintf(word, sizeof(word), "%lld", (long long)id);
	code = findings_read(findings, word, &run, err);
	findings_close(findings);
	if (!code && run->open) {
		code = webhook_begin(NULL, run, database, &child, err);
		if (!code)
			webhook_wait(child, WAIT_S);
	}
	findings_run_free(run);
	return code;
}

void webhook_wait(pid_t child, double seconds)
{
	int pidfd = child > 0 ? (int)syscall(SYS_pidfd_open, child, 0) : -1;
	struct pollfd gone = { .fd = pidfd, .events = POLLIN };

	if (pidfd < 0)
		return;
	poll(&gone, 1, (int)(seconds * 1000));
	close(pidfd);
	waitpid(child, NULL, WNOHANG);
}
