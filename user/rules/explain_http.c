// SPDX-License-Identifier: GPL-2.0-only
/* A rule about requests of HTTP in plain English. */
#include "user/base/names.h"
#include "user/rules/explain_internal.h"

static void say_stream(struct sentence *s, const struct fault *fault)
{
	if (fault->faults & 1U << CHAOS_BREAK_CLEAN) {
		say(s, "get streams that end after ");
		say_chunks(s, fault->stream_chunks);
		say(s, " as if that were all");
	} else if (fault->faults & 1U << CHAOS_ERROR_EVENT) {
		say(s, "get streams that end in an error event (%s)", stream_error_names[fault->stream_error]);
		if (fault->stream_chunks) {
			say(s, " after ");
			say_chunks(s, fault->stream_chunks);
		}
	} else if (fault->faults & 1U << CHAOS_DROP_DONE) {
		say(s, "get streams that never say that they are over");
	} else if (fault->stream_chunks == 1) {
		say(s, "get every chunk of a stream garbled");
	} else {
		say(s, "get one chunk in %u of a stream garbled", fault->stream_chunks);
	}
}

void say_answer(struct sentence *s, const struct fault *fault)
{
	static const char *const bodies[] = { "", " with an empty body", " with garbage",
					      " with JSON that stops in the middle", " with a page of HTML" };

	if (fault->faults & CHAOS_STREAMS) {
		say_stream(s, fault);
		return;
	}
	if (fault->faults & 1U << CHAOS_HANG) {
		say(s, "are never answered");
		return;
	}
	say(s, "are answered %u%s", fault->status ? fault->status : 200, bodies[fault->body]);
	if (fault->as)
		say(s, " as %s would", provider_names[fault->as]);
	if (fault->retry_after) {
		say(s, ", to be tried again after ");
		say_duration(s, fault->retry_after_ns);
	}
}

void say_http(struct sentence *s, const struct http_match *http)
{
	const char *gap = "";

	say(s, "HTTP requests");
	if (!http->path.text && !http->method.text && !http->model.text && !http->headers_count &&
	    !http->body_contains.text && !http->min_size)
		return;
	say(s, " (");
	if (http->method.text || http->path.text) {
		say(s, "%s%s%s", http->method.text ? http->method.text : "",
		    http->method.text && http->path.text ? " " : "", http->path.text ? http->path.text : "");
		gap = ", ";
	}
	if (http->model.text) {
		say(s, "%smodel %s", gap, http->model.text);
		gap = ", ";
	}
	for (size_t i = 0; i < http->headers_count; i++) {
		say(s, "%s%s: %s", gap, http->headers[i].name, http->headers[i].value.text);
		gap = ", ";
	}
	if (http->body_contains.text) {
		say(s, "%swith '%s' in their body", gap, http->body_contains.text);
		gap = ", ";
	}
	if (http->min_size) {
		say(s, "%swith a body of ", gap);
		say_size(s, http->min_size);
		say(s, " or more");
	}
	say(s, ")");
}
