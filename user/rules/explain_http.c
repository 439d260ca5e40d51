// SPDX-License-Identifier: GPL-2.0-only
/* A rule about requests of HTTP in plain English. */
#include "user/rules/explain_internal.h"

void say_http(struct sentence *s, const struct http_match *http)
{
	const char *gap = "";

	say(s, "HTTP requests (");
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
	if (http->body_contains.text)
		say(s, "%swith '%s' in their body", gap, http->body_contains.text);
	say(s, ")");
}
