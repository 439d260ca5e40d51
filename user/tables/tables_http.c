// SPDX-License-Identifier: GPL-2.0-only
/*
 * What rules ask of HTTP requests, for the reader of bpf/http.h: conditions, each a pattern of bits, and which rules ask
 * for which. Conditions that say the same are one.
 */
#include "user/tables/tables_internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/http.h"

#define BITS (64 * CHAOS_HTTP_WORDS)

struct condition {
	enum chaos_http_class class;
	const char *name; /* of a header, or NULL */
	const char *text; /* or NULL: */
	uint64_t size;    /* so many bytes of a body, at least */
};

struct maker {
	struct chaos_http_table *table;
	const struct rules *rules;
	struct error *err;
	unsigned int used; /* bits */
	struct condition conditions[CHAOS_HTTP_CONDITIONS];
	size_t count;
};

static void set(__u64 *words, unsigned int bit)
{
	words[bit / 64] |= 1ULL << bit % 64;
}

/* The character that leads from this bit to the next. */
static void add_step(struct maker *m, enum chaos_http_class class, unsigned char c)
{
	set(m->table->class[class], m -> used);
	set(m->table->step[c], m->used++);
}

/* The same in either case. */
static void add_letters(struct maker *m, enum chaos_http_class class, const char *text)
{
	for (; *text; text++) {
		set(m->table->step[toupper((unsigned char)*text)], m->used);
		add_step(m, class, (unsigned char)tolower((unsigned char)*text));
	}
}

static void add_last(struct maker *m, enum chaos_http_class class)
{
	set(m->table->class[class], m -> used);
	set(m->table->accept, m->used++);
}

/* The reader's own patterns; their places are known to it. */
static void add_own(struct maker *m)
{
	struct chaos_http_table *t = m->table;

	set(t->start, CHAOS_HTTP_LENGTH_START);
	add_letters(m, CHAOS_HTTP_HEADER, "content-length:");
	set(t->star, CHAOS_HTTP_LENGTH);
	add_last(m, CHAOS_HTTP_HEADER);
	set(t->start, CHAOS_HTTP_CHUNKED_START);
	add_letters(m, CHAOS_HTTP_HEADER, "transfer-encoding:");
	set(t->star, m->used);
	add_letters(m, CHAOS_HTTP_HEADER, "chunked");
	set(t->blank, m->used);
	add_last(m, CHAOS_HTTP_HEADER);
	set(t->start, CHAOS_HTTP_HEAD_START);
	for (const char *c = "HEAD"; *c; c++)
		add_step(m, CHAOS_HTTP_METHOD, (unsigned char)*c);
	add_last(m, CHAOS_HTTP_METHOD);
}

static size_t bits_of(const struct condition *c)
{
	size_t bits = 1 + (c->name ? strlen(c->name) + 1 : 0);

	for (const char *text = c->text; text && *text; text++)
		bits += c->class == CHAOS_HTTP_TEXT || *text != '*';
	return c->text ? bits : 0;
}

static void add_pattern(struct maker *m, const struct condition *c)
{
	struct chaos_http_table *t = m->table;

	set(t->start, m->used);
	if (c->class == CHAOS_HTTP_TEXT)
		set(t->star, m->used);
	if (c->name) {
		add_letters(m, c->class, c->name);
		add_step(m, c->class, ':');
		set(t->blank, m->used);
	}
	for (const char *text = c->text; *text; text++) {
		if (*text == '*' && c->class != CHAOS_HTTP_TEXT)
			set(t->star, m->used);
		else
			add_step(m, c->class, (unsigned char)*text);
	}
	if (c->class == CHAOS_HTTP_TEXT)
		set(t->star, m->used);
	if (c->name)
		set(t->blank, m->used);
	t->condition[m->count] = (uint16_t)m->used;
	add_last(m, c->class);
}

static bool is_same_text(const char *a, const char *b)
{
	return !a == !b && (!a || strcmp(a, b) == 0);
}

static bool is_same(const struct condition *a, const struct condition *b)
{
	return a->class == b->class && a->size == b->size && is_same_text(a->text, b->text) &&
	       is_same_text(a->name, b->name);
}

/* The rule asks for it: it is no longer indifferent. */
static int ask_for(struct maker *m, size_t rule, const struct condition *c, struct mark mark)
{
	size_t i = 0;

	while (i < m->count && !is_same(&m->conditions[i], c))
		i++;
	if (i == CHAOS_HTTP_CONDITIONS)
		return rules_error_at(m->rules, mark, m->err, EXIT_USAGE,
				      "more than %d different conditions under 'http' in one file",
				      CHAOS_HTTP_CONDITIONS);
	if (i == m->count) {
		if (m->used + bits_of(c) > BITS)
			return rules_error_at(m->rules, mark, m->err, EXIT_USAGE,
					      "the conditions under 'http' of one file are too long, at most some %d "
					      "characters together",
					      BITS - CHAOS_HTTP_FIRST_FREE - CHAOS_HTTP_CONDITIONS);
		if (c->text)
			add_pattern(m, c);
		else
			m->table->size[i] = c->size;
		m->conditions[m->count++] = *c;
	}
	m->table->indifferent[rule / 64][i] &= ~(1ULL << rule % 64);
	return 0;
}

static int ask(struct maker *m, size_t rule, const struct text *text, enum chaos_http_class class, const char *name)
{
	const struct condition c = { .class = class, .name = name, .text = text->text };

	return text->text ? ask_for(m, rule, &c, text->mark) : 0;
}

static int ask_size(struct maker *m, size_t rule, const struct http_match *http)
{
	const struct condition c = { .class = CHAOS_HTTP_NONE, .size = http->min_size };

	return http->min_size ? ask_for(m, rule, &c, http->min_size_mark) : 0;
}

static int add_rule(struct maker *m, size_t rule)
{
	const struct http_match *http = &m->rules->rules[rule].match.http;
	int err;

	set(m->table->rules, rule);
	err = ask(m, rule, &http->path, CHAOS_HTTP_PATH, NULL);
	err = err ?: ask(m, rule, &http->method, CHAOS_HTTP_METHOD, NULL);
	err = err ?: ask(m, rule, &http->model, CHAOS_HTTP_MODEL, NULL);
	err = err ?: ask(m, rule, &http->body_contains, CHAOS_HTTP_TEXT, NULL);
	err = err ?: ask_size(m, rule, http);
	for (size_t i = 0; i < http->headers_count && !err; i++)
		err = ask(m, rule, &http->headers[i].value, CHAOS_HTTP_HEADER, http->headers[i].name);
	return err;
}

/* The rules that are for requests. */
static int requests_set(struct tables *t, const struct rules *rules, struct error *err)
{
	struct chaos_vector requests = { 0 };

	for (size_t i = 0; i < rules->count; i++) {
		if (rules->rules[i].match.http.given)
			set_bit(&requests, i);
	}
	return tables_set_number(t, &requests, &t->knobs.requests)
		       ? error_set(err, -ENOMEM, EXIT_FAILED, "out of memory")
		       : 0;
}

int tables_make_http(struct tables *t, const struct rules *rules, struct error *err)
{
	struct maker m = { .rules = rules, .err = err };
	int ret = 0;

	for (size_t i = 0; i < rules->count; i++) {
		const struct http_match *http = &rules->rules[i].match.http;

		t->knobs.http |= http->given;
		t->knobs.http_wants |=
			(http->model.text ? HTTP_WANTS_MODEL : 0) | (http->body_contains.text ? HTTP_WANTS_TEXT : 0);
	}
	if (!t->knobs.http)
		return 0;
	t->http = m.table = calloc(1, sizeof(*t->http));
	if (!m.table)
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	memset(m.table->indifferent, 0xff, sizeof(m.table->indifferent));
	for (size_t i = 0; i < CHAOS_HTTP_CONDITIONS; i++)
		m.table->size[i] = CHAOS_HTTP_NO_SIZE;
	add_own(&m);
	for (size_t i = 0; i < rules->count && !ret; i++) {
		if (rules->rules[i].match.http.given)
			ret = add_rule(&m, i);
	}
	t->knobs.http_words = (m.used + 63) / 64;
	return ret ?: requests_set(t, rules, err);
}
