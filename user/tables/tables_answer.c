// SPDX-License-Identifier: GPL-2.0-only
/* The answers that are made up: for each rule its forms, best first, see bpf/answer.bpf.c. */
#include "user/tables/answer_body.h"
#include "user/tables/tables_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND     1000000000ULL
#define OK_STATUS  200
#define EMPTY_LINE 4 /* bytes, with the end of the line before */

static const char *type_of(const struct fault *f)
{
	return f->body == BODY_HTML ? "text/html" : "application/json";
}

/* How much of what a real server says there is room for. */
enum brevity {
	IN_FULL,
	BRIEF,
	BARE, /* not even how long it is */
};

/* A line of the head, with blanks and capitals where there is room for them. */
static void put_header(struct answer_text *t, enum brevity brevity, const char *name, const char *brief_name,
		       const char *value)
{
	const bool full = brevity == IN_FULL;

	answer_put(t, "%s:%s%s\r\n", full ? name : brief_name, full ? " " : "", value);
}

/* How an answer ends. */
struct ending {
	bool closes; /* the client is told that the connection is closed */
	bool filled; /* up to where the server's ends: how long its body is is written then, at *length_at */
};

static struct ending ending_of(enum chaos_form_kind kind)
{
	return (struct ending){ .closes = kind != CHAOS_FORM_KEEP, .filled = kind != CHAOS_FORM_CLOSE };
}

/* The head of an answer with a body of `length` bytes. */
static void put_head(struct answer_text *t, const struct fault *f, enum brevity brevity, struct ending ending,
		     size_t length, struct chaos_form *form)
{
	const unsigned int status = f->status ? f->status : OK_STATUS;
	const bool full = brevity == IN_FULL;
	char number[32];

	answer_put(t, "HTTP/1.1 %u %s\r\n", status, full ? answer_reason(status) : "");
	if (full)
		put_header(t, brevity, "Content-Type", NULL, type_of(f));
	if (answer_error_type(f))
		put_header(t, brevity, "x-amzn-ErrorType", "x-amzn-ErrorType", answer_error_type(f));
	if (f->retry_after) {
		snprintf(number, sizeof(number), "%llu", (unsigned long long)(f->retry_after_ns / SECOND));
		put_header(t, brevity, "Retry-After", "retry-after", number);
	}
	/* Behind the last line there is the number, or what fills a head whose body is to stay empty. */
	form->open_head = ending.filled && !length;
	if (ending.filled && length) {
		answer_put(t, "%s:%s", full ? "Content-Length" : "content-length", full ? " " : "");
		form->length_at = (uint16_t)t->length;
		answer_put(t, "%*s\r\n", CHAOS_FORM_DIGITS_LENGTH, "");
	} else if (brevity != BARE || ending.filled) {
		snprintf(number, sizeof(number), "%zu", length);
		put_header(t, brevity, "Content-Length", "content-length", number);
	}
	if (ending.closes)
		put_header(t, brevity, "Connection", "connection", "close");
	if (form->open_head)
		answer_put(t, "x:");
	else
		answer_put(t, "\r\n");
}

static int add_form(struct tables *t, struct chaos_rule *r, const struct chaos_form *form)
{
	struct chaos_form *more = realloc(t->forms, (t->forms_count + 1) * sizeof(*more));

	if (!more)
		return -ENOMEM;
	t->forms = more;
	t->forms[t->forms_count++] = *form;
	r->forms++;
	return 0;
}

/* One form with head and body. */
static int add_whole(struct tables *t, struct chaos_rule *r, const struct fault *f, enum chaos_form_kind kind,
		     enum brevity brevity)
{
	struct chaos_form form = { .kind = kind, .brief = brevity, .status = f->status ? f->status : OK_STATUS };
	struct answer_text head = { .length = 0 }, body = { .length = 0 };

	if (brevity)
		answer_brief_body(&body, f, brevity == BARE);
	else
		answer_body(&body, f);
	put_head(&head, f, brevity, ending_of(kind), body.length, &form);
	if (head.length + body.length > CHAOS_FORM_TEXT)
		return -E2BIG;
	form.filler = form.open_head ? 'x' : f->body == BODY_GARBAGE ? 0xff : ' ';
	form.head = (uint16_t)head.length;
	form.length = (uint16_t)(head.length + body.length);
	memcpy(form.text, head.text, head.length);
	memcpy(form.text + head.length, body.text, body.length);
	if (form.open_head)
		form.length += EMPTY_LINE;
	return add_form(t, r, &form);
}

static int add_digits(struct tables *t, struct chaos_rule *r, const struct fault *f)
{
	struct chaos_form form = { .kind = CHAOS_FORM_DIGITS, .brief = 1, .status = f->status, .length = 12 };
	char text[32];

	snprintf(text, sizeof(text), "HTTP/1.1 %u", f->status);
	memcpy(form.text, text, form.length);
	return add_form(t, r, &form);
}

/* What a stream ends with, best first; `clean` ends with nothing. Where single bytes are changed there is none. */
static int add_stream(struct tables *t, struct chaos_rule *r, const struct fault *f)
{
	int err = 0;

	t->knobs.streams = 1;
	if (f->faults & (1U << CHAOS_DROP_DONE | 1U << CHAOS_GARBLE))
		return 0;
	for (unsigned int brief = 0; brief < STREAM_ENDINGS && !err; brief++) {
		struct chaos_form form = { .kind = CHAOS_FORM_CLOSE, .brief = (uint8_t)brief, .filler = '\n' };
		const char *text = f->faults & 1U << CHAOS_ERROR_EVENT ? stream_error_text(f->stream_error, brief) : "";

		if (brief && !text[0])
			break;
		form.length = (uint16_t)strlen(text);
		memcpy(form.text, text, form.length);
		err = add_form(t, r, &form);
	}
	return err;
}

int tables_make_answer(struct tables *t, struct chaos_rule *r, const struct fault *f)
{
	const struct chaos_form none = { .kind = CHAOS_FORM_NONE };
	int err = 0;

	if (!(f->faults & (CHAOS_ANSWERS | 1 << CHAOS_GRPC)))
		return 0;
	t->knobs.answers = 1;
	if (f->faults & 1 << CHAOS_GRPC) {
		t->knobs.grpc = 1;
		r->grpc = f->grpc;
		return 0;
	}
	r->form = (uint16_t)t->forms_count;
	if (f->faults & CHAOS_STREAMS)
		return add_stream(t, r, f);
	if (f->faults & 1U << CHAOS_HANG)
		return add_form(t, r, &none);
	for (enum brevity brevity = IN_FULL; brevity <= BARE && !err; brevity++) {
		if (f->body != BODY_EMPTY && brevity != BARE)
			err = add_whole(t, r, f, CHAOS_FORM_KEEP, brevity);
		err = err ?: add_whole(t, r, f, CHAOS_FORM_CLOSE, brevity);
		if (t->knobs.tls && brevity != BARE)
			err = err ?: add_whole(t, r, f, CHAOS_FORM_SHUT, brevity);
	}
	if (f->status && f->body == BODY_JSON)
		err = err ?: add_digits(t, r, f);
	return err;
}
