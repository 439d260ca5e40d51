/* SPDX-License-Identifier: GPL-2.0-only */
/* What an answer of HTTP says that is made up. */
#ifndef USER_ANSWER_BODY_H
#define USER_ANSWER_BODY_H

#include <stdbool.h>
#include <stddef.h>

#include "bpf/chaos.h"
#include "user/rules/rules.h"

/* May hold any bytes, and is not ended by a 0; what does not fit is left out, which no text of ours needs. */
struct answer_text {
	char text[CHAOS_FORM_TEXT + 1];
	size_t length;
};

void answer_put(struct answer_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* "Too Many Requests" */
const char *answer_reason(unsigned int status);

/* What the header x-amzn-ErrorType says; NULL: the provider sends none. */
const char *answer_error_type(const struct fault *f);

/* The body that the fault asks for. */
void answer_body(struct answer_text *t, const struct fault *f);

/* For answers without room: a shorter one, which still is JSON and tells the status; `barely`: nothing else. */
void answer_brief_body(struct answer_text *t, const struct fault *f, bool barely);

/* An event of a stream that says this, in so few words; "": there are no fewer. */
#define STREAM_ENDINGS 3
const char *stream_error_text(enum stream_error error, unsigned int brief);

#endif
