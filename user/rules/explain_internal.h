/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files user/explain*.c share, for nobody else. */
#ifndef USER_EXPLAIN_INTERNAL_H
#define USER_EXPLAIN_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "user/rules/explain.h"

/* A sentence in the making; `cut`: it did not fit. */
struct sentence {
	char *buf;
	size_t size, len;
	bool cut;
};

void say(struct sentence *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* user/rules/explain.c: "1 min 30 s" */
void say_duration(struct sentence *s, uint64_t ns);

/* user/rules/explain.c: "processes named 'python3' in cgroup rag.service" */
void say_whom(struct sentence *s, const struct match *match);

/* user/rules/explain.c: "12 chunks" */
void say_chunks(struct sentence *s, uint32_t chunks);

/* user/rules/explain_call.c: "64 MiB"; exact */
void say_size(struct sentence *s, uint64_t bytes);

/* user/rules/explain_http.c: "HTTP requests (POST /v1/chat/completions, model qwen-*)" */
void say_http(struct sentence *s, const struct http_match *http);

/* The same file: "are answered 429 as openai would, to be tried again after 20 s" */
void say_answer(struct sentence *s, const struct fault *fault);

/* user/rules/explain_call.c: "GPU allocations of ... fail with out of memory" */
void say_call(struct sentence *s, const struct rule *rule);

#endif
