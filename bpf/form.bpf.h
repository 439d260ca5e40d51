/* SPDX-License-Identifier: GPL-2.0-only */
/* Forms of an answer that is made up, and which of them fits the one in whose place it comes: in packets, and inside TLS. */
#ifndef FORM_BPF_H
#define FORM_BPF_H

#include "bpf/http.bpf.h"

#define STATUS_END 12 /* behind the status in the first line of an answer */

MAP(BPF_MAP_TYPE_ARRAY, chaos_forms, __u32, struct chaos_form, CHAOS_MAX_RULES);

static always struct chaos_form *form_of(__u32 number)
{
	return bpf_map_lookup_elem(&chaos_forms, &number);
}

static always __u32 fault_of(const struct chaos_rule *r)
{
	const __u64 answers = r->faults & CHAOS_ANSWERS;

	return answers ? lowest_bit(answers) : CHAOS_FAULT_COUNT;
}

/* The status that an answer begins with; 0: it does not begin as one of HTTP. */
static always __u32 status_in(const __u8 *first)
{
	if (first[0] != 'H' || first[1] != 'T' || first[2] != 'T' || first[3] != 'P' || first[4] != '/' ||
	    first[5] != '1' || first[6] != '.' || first[8] != ' ' || !http_is_digit(first[9]) ||
	    !http_is_digit(first[10]) || !http_is_digit(first[11]))
		return 0;
	return 100 * (first[9] - '0') + 10 * (first[10] - '0') + (first[11] - '0');
}

/* 100 Continue and its like: the answer comes behind it. */
static always bool is_interim(__u32 status)
{
	return status < 200 && status != 101;
}

/* What is known of the server's answer once its first bytes have come. */
struct answer_head {
	const struct chaos_http_reader *reader;
	__u32 status;
	__u32 read; /* bytes of the head, */
	__u32 come; /* and of the answer, so far */
	bool bodiless;
	bool in_tls;
};

/* Does it say how long it is, and has it a body? */
static always bool is_counted(const struct answer_head *a)
{
	return a->reader->phase == HTTP_ANSWERED && a->reader->has_length && !a->reader->chunked &&
	       a->reader->left < 1 << 30;
}

static always bool may_have_body(const struct answer_head *a)
{
	return a->status >= 200 && a->status != 204 && a->status != 304;
}

/* Bytes of an answer that is counted, with its head. */
static always __u32 length_of(const struct answer_head *a)
{
	return a->read + (may_have_body(a) && !a->bodiless ? (__u32)a->reader->left : 0);
}

static always bool form_fits(const struct chaos_form *form, const struct answer_head *a)
{
	const bool counted = is_counted(a), body = may_have_body(a);
	const __u32 all = counted ? length_of(a) : 0;

	if (form->kind == CHAOS_FORM_KEEP)
		return counted && body && !a->bodiless && all >= form->length;
	if (form->kind == CHAOS_FORM_SHUT)
		return a->in_tls && !a->bodiless && a->come >= form->length;
	if (form->kind == CHAOS_FORM_CLOSE && form->brief > 1)
		return !a->in_tls && !a->bodiless && a->come > form->length;
	if (form->kind == CHAOS_FORM_CLOSE)
		return !a->in_tls && !a->bodiless && (a->come >= form->length || all >= form->length);
	return form->kind == CHAOS_FORM_NONE || a->bodiless || body;
}

/* ---- writing it ---------------------------------------------------------------------------------------------------- */

#define TEXT_MASK (CHAOS_FORM_TEXT - 1)

/* One of two bytes, without a branch of which the verifier would follow both ways each time. */
static always __u8 either(__u64 condition, __u8 yes, __u8 no)
{
	asm volatile("" : "+r"(condition));
	condition = -(condition & 1);
	return (yes & condition) | (no & ~condition);
}

/* The byte with this number. */
static always __u8 made_byte(const struct chaos_made *m, __u32 number)
{
	const __u8 fill = either(((__u64)number - m->ends) >> 63, m->filler, m->end >> 8 * ((number - m->ends) & 7));

	return either(((__u64)number - m->length) >> 63, m->text[number & TEXT_MASK], fill);
}

/* The text of a form, with its Content-Length. Nothing comes behind what fills. */
static always void make_text(struct chaos_made *m, const struct chaos_form *form, __u32 content_length)
{
	__u32 number = content_length;

	__builtin_memcpy(m->text, form->text, sizeof(m->text));
	m->length = form->length;
	m->filler = form->filler;
	m->ends = ~0U;
	for (__u32 i = 0; form->length_at && i < CHAOS_FORM_DIGITS_LENGTH; i++) {
		__u64 at = form->length_at + CHAOS_FORM_DIGITS_LENGTH - 1 - i;

		asm volatile("" : "+r"(at));
		m->text[at & TEXT_MASK] = either(i ? ((__u64)number - 1) >> 63 : 0, ' ', '0' + number % 10);
		number /= 10;
	}
}

#endif
