// SPDX-License-Identifier: GPL-2.0-only
/* `chaosbpf events`: every fault that was done, one line each. */
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "user/base/log.h"
#include "user/base/names.h"
#include "user/base/signals.h"
#include "user/cli/cmd.h"
#include "user/cli/options.h"
#include "user/rules/explain.h"
#include "user/state/event.h"

static const char help[] = "Usage: chaosbpf events [OPTIONS]\n"
			   "\n"
			   "Prints the faults that were done, one a line: when, which rule and fault, which\n"
			   "process, the other end, what. Those of the present load, or of the last one.\n"
			   "Events may be dropped under pressure; the counters of 'chaosbpf status' are exact\n"
			   "and tell how many were.\n"
			   "\n"
			   "  --follow       go on with new ones until the load is over or Ctrl-C\n"
			   "  --json         one object a line, for programs\n";

static const char *address_text(char *out, size_t size, const __u8 address[16])
{
	const struct in6_addr *in6 = (const struct in6_addr *)address;

	if (IN6_IS_ADDR_V4MAPPED(in6))
		return inet_ntop(AF_INET, address + 12, out, size);
	return inet_ntop(AF_INET6, address, out, size);
}

static void time_text(char *out, size_t size, double wall, bool utc)
{
	time_t seconds = (time_t)floor(wall);
	unsigned int micro = (unsigned int)((wall - (double)seconds) * 1e6);
	struct tm tm;
	char clock[32];

	if (utc) {
		gmtime_r(&seconds, &tm);
		strftime(clock, sizeof(clock), "%Y-%m-%dT%H:%M:%S", &tm);
		snprintf(out, size, "%s.%06uZ", clock, micro);
	} else {
		localtime_r(&seconds, &tm);
		strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
		snprintf(out, size, "%s.%03u", clock, micro / 1000);
	}
}

/* A value that the kernel side does not know yet is no reason to read past a table. */
static const char *name_of(const char *const *names, unsigned int count, unsigned int value)
{
	return value < count ? names[value] : "unknown";
}

/* A fault inside a process: it has a caller and no connection. */
static bool is_call(const struct chaos_event *event)
{
	return event->fault >= CHAOS_NETWORK_FAULT_COUNT && event->fault < CHAOS_FAULT_COUNT;
}

/* One of HTTP that took the place of the server's, or of the rest of it. */
static bool is_answer(const struct chaos_event *event)
{
	static const unsigned int bytes = 1U << CHAOS_DROP_DONE | 1U << CHAOS_GARBLE;

	return event->fault < CHAOS_FAULT_COUNT && 1U << event->fault & CHAOS_ANSWERS & ~bytes;
}

/* What a fault inside a process has in the place of a connection. */
static void print_call(struct json *json, const struct chaos_event *event)
{
	char function[CHAOS_FUNCTION_LEN + 1];

	snprintf(function, sizeof(function), "%.*s", CHAOS_FUNCTION_LEN, event->function);
	if (event->fault == CHAOS_ERRNO)
		json_text(json, "operation", name_of(operation_names, CHAOS_OPERATION_COUNT, event->side));
	if (event->fault != CHAOS_ERRNO)
		json_text(json, "function", function);
	else if (function[0])
		json_text(json, "file", function);
	if (event->fault == CHAOS_GPU_OOM)
		json_count(json, "bytes", event->bytes);
	if (event->fault == CHAOS_CALL && event->delay_ns)
		json_number(json, "delay_ms", (double)event->delay_ns / 1e6);
	if (event->error)
		json_text(json, "error", errno_name(event->error));
	json_close_object(json);
}

static void call_text(char *out, size_t size, const struct chaos_event *event)
{
	char duration[64] = "";

	if (event->delay_ns)
		format_duration(duration, sizeof(duration), event->delay_ns);
	snprintf(out, size, "%.*s %s%s%s%s", CHAOS_FUNCTION_LEN, event->function,
		 event->delay_ns ? "held for " : "returns", duration, event->error ? ", errno " : "",
		 event->error ? errno_name(event->error) : "");
}

static void print_json(const struct chaos_event *event, const char *rule)
{
	char text[INET6_ADDRSTRLEN], comm[CHAOS_COMM_LEN + 1];
	struct json json;

	json_begin(&json, stdout, true);
	json_open_object(&json, NULL);
	time_text(text, sizeof(text), event_wall_time(event->time_ns), true);
	json_text(&json, "time", text);
	json_text(&json, "rule", rule);
	json_text(&json, "fault", name_of(fault_names, CHAOS_FAULT_COUNT, event->fault));
	json_count(&json, "generation", event->generation);
	json_count(&json, is_call(event) ? "thread" : "connection", event->connection);
	json_count(&json, is_call(event) ? "call" : "request", event->request);
	json_count(&json, "pid", event->pid);
	json_count(&json, "uid", event->uid);
	snprintf(comm, sizeof(comm), "%.*s", CHAOS_COMM_LEN, event->comm);
	json_text(&json, "comm", comm);
	json_count(&json, "cgroup_id", event->cgroup_id);
	if (is_call(event)) {
		print_call(&json, event);
		json_end(&json);
		return;
	}
	json_text(&json, "protocol", name_of(protocol_names, CHAOS_PROTOCOL_COUNT, event->protocol));
	json_text(&json, "side", name_of(side_names, CHAOS_SIDE_COUNT, event->side));
	json_text(&json, "peer", address_text(text, sizeof(text), event->peer));
	json_count(&json, "peer_port", event->peer_port);
	json_text(&json, "local", address_text(text, sizeof(text), event->local));
	json_count(&json, "local_port", event->local_port);
	if (event->fault == CHAOS_DELAY || event->fault == CHAOS_REORDER)
		json_number(&json, "delay_ms", (double)event->delay_ns / 1e6);
	if (event->fault == CHAOS_DNS && (unsigned int)event->error < CHAOS_DNS_COUNT)
		json_text(&json, "answer", dns_names[event->error]);
	if (event->fault == CHAOS_BREAK_AFTER && event->error == CHAOS_BREAK_AS_IF_OVER)
		json_text(&json, "how", break_how_names[CHAOS_BREAK_AS_IF_OVER]);
	if (event->fault == CHAOS_GRPC)
		json_text(&json, "grpc", grpc_name((unsigned int)event->error));
	if (is_answer(event)) {
		if (event->error)
			json_count(&json, "status", event->error);
		json_text(&json, "form", name_of(form_names, CHAOS_FORM_KIND_COUNT, event->delay_ns & 0xff));
	}
	if (event->fault == CHAOS_REFUSE || (event->fault == CHAOS_RESET && event->error))
		json_text(&json, "error", errno_name(event->error));
	json_close_object(&json);
	json_end(&json);
}

static void what_text(char *out, size_t size, const struct chaos_event *event)
{
	char duration[64], raw[CHAOS_FUNCTION_LEN + 1], file[4 * CHAOS_FUNCTION_LEN + 1];

	switch (event->fault) {
	case CHAOS_DROP:
		snprintf(out, size, "packet dropped");
		break;
	case CHAOS_DELAY:
		format_duration(duration, sizeof(duration), event->delay_ns);
		if (event->request)
			snprintf(out, size, "request %u held for %s", event->request, duration);
		else
			snprintf(out, size, "packet held for %s", duration);
		break;
	case CHAOS_REFUSE:
		snprintf(out, size, "connect refused with %s", errno_name(event->error));
		break;
	case CHAOS_GPU_OOM:
		snprintf(out, size, "%.*s of %llu bytes fails", CHAOS_FUNCTION_LEN, event->function,
			 (unsigned long long)event->bytes);
		break;
	case CHAOS_CALL:
		call_text(out, size, event);
		break;
	case CHAOS_ERRNO:
		snprintf(raw, sizeof(raw), "%.*s", CHAOS_FUNCTION_LEN, event->function);
		text_clean(file, sizeof(file), raw);
		snprintf(out, size, "%s%s%s fails with %s",
			 name_of(operation_names, CHAOS_OPERATION_COUNT, event->side), file[0] ? " of " : "", file,
			 errno_name(event->error));
		break;
	case CHAOS_STATUS:
	case CHAOS_BODY:
		snprintf(out, size, "answered %d (form: %s%s)", event->error,
			 name_of(form_names, CHAOS_FORM_KIND_COUNT, event->delay_ns & 0xff),
			 event->delay_ns >> 8 ? ", brief" : "");
		break;
	case CHAOS_ERROR_EVENT:
		snprintf(out, size, "stream ended in an error event%s", event->delay_ns >> 8 ? " (brief)" : "");
		break;
	case CHAOS_DROP_DONE:
		snprintf(out, size, "stream without the mark of its end");
		break;
	case CHAOS_GARBLE:
		snprintf(out, size, "stream garbled from here on");
		break;
	case CHAOS_GRPC:
		snprintf(out, size, "call ended: %s", grpc_name((unsigned int)event->error));
		break;
	case CHAOS_HANG:
		snprintf(out, size, "never answered");
		break;
	case CHAOS_RESET:
		snprintf(out, size, "connection reset%s", event->error ? ", inside the process" : "");
		break;
	case CHAOS_ACCEPT_SILENCE:
		snprintf(out, size, "connection silent");
		break;
	case CHAOS_TLS_STALL:
		snprintf(out, size, "TLS handshake stalled");
		break;
	case CHAOS_DUPLICATE:
		snprintf(out, size, "packet sent twice");
		break;
	case CHAOS_CORRUPT:
		snprintf(out, size, "packet damaged");
		break;
	case CHAOS_RATE:
		snprintf(out, size, "connection slow from here on");
		break;
	case CHAOS_TOKENS:
		snprintf(out, size, "stream slow from here on");
		break;
	case CHAOS_REORDER:
		format_duration(duration, sizeof(duration), event->delay_ns);
		snprintf(out, size, "packet held back for %s", duration);
		break;
	case CHAOS_HALF_OPEN:
		snprintf(out, size, "connection forgotten");
		break;
	case CHAOS_DNS:
		snprintf(out, size,
			 event->error == CHAOS_DNS_TIMEOUT ? "question for a name lost" : "question for a name: %s",
			 (unsigned int)event->error < CHAOS_DNS_COUNT ? dns_names[event->error] : "?");
		break;
	case CHAOS_BREAK_AFTER:
		snprintf(out, size, "%s",
			 event->error == CHAOS_BREAK_AS_IF_OVER ? "stream ended as if that were all"
								: "response stopped in the middle");
		break;
	default:
		snprintf(out, size, "fault %u", event->fault);
	}
}

static void print_text(const struct chaos_event *event, const char *rule)
{
	char clock[32], comm[4 * CHAOS_COMM_LEN + 1], raw[CHAOS_COMM_LEN + 1], process[96], what[256];
	char address[INET6_ADDRSTRLEN], peer[INET6_ADDRSTRLEN + 10];

	time_text(clock, sizeof(clock), event_wall_time(event->time_ns), false);
	snprintf(raw, sizeof(raw), "%.*s", CHAOS_COMM_LEN, event->comm);
	text_clean(comm, sizeof(comm), raw);
	snprintf(process, sizeof(process), "%s/%u", comm[0] ? comm : "?", event->pid);
	address_text(address, sizeof(address), event->peer);
	if (is_call(event))
		snprintf(peer, sizeof(peer), "-");
	else
		snprintf(peer, sizeof(peer), strchr(address, ':') ? "[%s]:%u" : "%s:%u", address, event->peer_port);
	what_text(what, sizeof(what), event);
	printf("%s  %-20s  %-6s  %-20s  %-21s  %s\n", clock, rule,
	       name_of(fault_names, CHAOS_FAULT_COUNT, event->fault), process, peer, what);
}

static int print_event(const struct chaos_event *event, const char *rule, void *follow)
{
	if (event->kind != CHAOS_EVENT_FAULT)
		return 0;
	(options_json ? print_json : print_text)(event, rule);
	if (*(bool *)follow)
		fflush(stdout);
	return ferror(stdout) ? -EIO : 0; /* nobody reads any more: main.c says so */
}

/*
 * Readable when following is to end: by a signal (reading moves events into the log, which must not be cut in two) or
 * because the reader of our output is gone, which writing alone would notice only at the next event.
 */
static int open_wake(struct error *err)
{
	struct epoll_event event = { .events = EPOLLIN };
	int signals = signals_open(err);
	int wake;

	if (signals < 0)
		return signals;
	wake = epoll_create1(EPOLL_CLOEXEC);
	if (wake < 0 || epoll_ctl(wake, EPOLL_CTL_ADD, signals, &event))
		return error_set(err, -errno, EXIT_FAILED, "cannot wait for signals: %s", strerror(errno));
	/* No event but EPOLLERR and EPOLLHUP, which always count. Fails for a file: that has no reader to lose. */
	event.events = 0;
	epoll_ctl(wake, EPOLL_CTL_ADD, STDOUT_FILENO, &event);
	return wake;
}

static int run(int argc, char **argv)
{
	bool follow = false;
	const struct option_spec specs[] = {
		{ "follow", OPTION_FLAG, &follow, NULL },
		{ 0 },
	};
	struct error err = { 0 };
	int wake = -1;
	int rc = options_parse("events", &argc, &argv, specs);

	if (!rc)
		rc = options_operands("events", argc, argv, 0, 0, "nothing");
	if (!rc)
		rc = command_begin("events");
	if (rc)
		return rc;
	if (follow) {
		wake = open_wake(&err);
		if (wake < 0)
			return log_error(&err);
	}
	rc = events_read(follow, wake, print_event, &follow, &err);
	if (wake >= 0)
		close(wake);
	if (rc < 0 && !ferror(stdout))
		return log_error(&err);
	return EXIT_DONE;
}

const struct command cmd_events = {
	.name = "events",
	.summary = "print the faults that were done, one a line",
	.help = help,
	.run = run,
};
