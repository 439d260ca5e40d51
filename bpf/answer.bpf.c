// SPDX-License-Identifier: GPL-2.0-only
/*
 * Another answer to a request of HTTP than the server's: `status`, `body`, `hang`. Where the packet arrives at the client's
 * device, before TCP has seen it, bytes are put in the place of others; sequence numbers tell which, so what is sent again
 * becomes the same again, and no segment gets longer.
 *
 *	KEEP     our head, our body, and spaces up to where the server's answer ends: it said how long it is
 *	CLOSE    our head and body, and the end of the stream right behind (see break.bpf.h): the rest never arrives
 *	DIGITS   three digits in the server's first line
 *	NONE     the stream stops before the answer
 *
 * A rule has several forms, best first; the first segment of the answer, with its head, decides which of them fits. Until it
 * has come, whatever overtakes it is lost, and sent again in its turn.
 */
#include "bpf/arrive.bpf.h"
#include "bpf/http.bpf.h"
#include "bpf/turn.bpf.h"

#define PIECE       sizeof(((struct work *)0)->piece)
#define PIECES      48 /* and so many times so many: 18 KiB of head */
#define WRITTEN     64 /* bytes together, */
#define WRITES      34 /* and so many times so many: the largest segment there is */
#define STATUS_END  12 /* behind the status in the first line */
#define TEXT_MASK   (CHAOS_FORM_TEXT - 1)
#define MAX_INTERIM 2

/* What lies on a CPU while a packet is looked at: nothing of tc's interrupts it. */
struct work {
	struct chaos_http_reader reader;
	__u32 at, left; /* of the piece that comes next */
	__u32 read;     /* bytes of the head */
	__u32 status;
	__u32 come; /* bytes of the answer that have come */
	__u32 bodiless;
	__u8 first[16];
	__u8 piece[8];

	/* For chaos_change(). */
	struct chaos_answer answer;
	__u32 length;
	__u32 filler;
	__u32 place;
	__u32 odd;
	__u32 checksum;
	__u8 text[CHAOS_FORM_TEXT];
	__u8 was[2 * WRITTEN];
	__u8 now[2 * WRITTEN];
};
MAP(BPF_MAP_TYPE_PERCPU_ARRAY, chaos_work, __u32, struct work, 1);
MAP(BPF_MAP_TYPE_ARRAY, chaos_forms, __u32, struct chaos_form, CHAOS_MAX_RULES);

static always struct work *work_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&chaos_work, &zero);
}

/* ---- the head of the server's answer --------------------------------------------------------------------------------- */

/* The next piece of it; 1 when it is over, or nothing is left. A global function: the verifier looks at it once. */
__noinline int chaos_head_piece(struct __sk_buff *skb)
{
	const struct chaos_http_table *t = http_table();
	struct work *w = work_here();
	__u64 n, bytes;

	if (!knobs.answers || !w || !t || !w->left || w->reader.phase >= HTTP_FOREIGN)
		return 1;
	n = (w->left < PIECE ? w->left : PIECE) - 1;
	asm volatile("" : "+r"(n)); /* see load_payload() */
	n = (n & (PIECE - 1)) + 1;
	if (bpf_skb_load_bytes(skb, w->at, w->piece, n))
		return 1;
	bytes = n;
	asm volatile("" : "+r"(bytes)); /* see chaos_http_piece() */
	for (__u32 i = 0; i < PIECE && i < bytes; i++) {
		w->read += ((__u64)w->reader.phase - HTTP_FOREIGN) >> 63; /* 1 as long as the head is not over */
		http_byte(&w->reader, t, 1, 0, w->piece[i]); /* the first word has the reader's own patterns */
	}
	w->at += n;
	w->left -= n;
	return 0;
}

__noinline int chaos_head_pieces(struct __sk_buff *skb)
{
	for (__u32 i = 0; i < PIECES; i++) {
		if (chaos_head_piece(skb))
			return 1;
	}
	return 0;
}

/*
 * Reads the head as far as the segment has it, from w->at on; 0: it does not begin as an answer of HTTP, or ends within its
 * status. This and what follows are global functions for the sake of the verifiers before 6.12, which would go through
 * what each leaves to the next: a million instructions do not suffice.
 */
__noinline int chaos_read_head(struct __sk_buff *skb)
{
	struct work *w = work_here();

	if (!knobs.answers || !w || w->left < STATUS_END || bpf_skb_load_bytes(skb, w->at, w->first, STATUS_END))
		return 0;
	if (w->first[0] != 'H' || w->first[1] != 'T' || w->first[2] != 'T' || w->first[3] != 'P' ||
	    w->first[4] != '/' || w->first[5] != '1' || w->first[6] != '.' || w->first[8] != ' ' ||
	    !http_is_digit(w->first[9]) || !http_is_digit(w->first[10]) || !http_is_digit(w->first[11]))
		return 0;
	w->status = 100 * (w->first[9] - '0') + 10 * (w->first[10] - '0') + (w->first[11] - '0');
	http_read_answer(&w->reader);
	w->read = STATUS_END;
	w->at += STATUS_END;
	w->left -= STATUS_END;
	for (__u32 i = 0; i < PIECES && !chaos_head_pieces(skb); i++)
		;
	return 1;
}

static always bool is_interim(const struct work *w)
{
	return w->status < 200 && w->status != 101;
}

/* ---- which form -------------------------------------------------------------------------------------------------------- */

static always struct chaos_form *form_of(__u32 number)
{
	return bpf_map_lookup_elem(&chaos_forms, &number);
}

/* Does this form fit into the answer of which the head was read? */
__noinline int chaos_form_fits(struct __sk_buff *skb, __u32 number)
{
	const struct chaos_form *form = form_of(number);
	const struct work *w = work_here();
	bool counted, body;
	__u32 all;

	if (!knobs.answers || !skb || !form || !w)
		return 0;
	body = w->status >= 200 && w->status != 204 && w->status != 304;
	counted = w->reader.phase == HTTP_ANSWERED && w->reader.has_length && !w->reader.chunked &&
		  w->reader.left < 1 << 30;
	all = !counted ? 0 : w->read + (body && !w->bodiless ? (__u32)w->reader.left : 0);
	if (form->kind == CHAOS_FORM_KEEP)
		return counted && body && !w->bodiless && all >= form->length;
	if (form->kind == CHAOS_FORM_CLOSE && form->brief > 1)
		return !w->bodiless && w->come > form->length;
	if (form->kind == CHAOS_FORM_CLOSE)
		return !w->bodiless && (w->come >= form->length || all >= form->length);
	return form->kind == CHAOS_FORM_NONE || w->bodiless || body;
}

/* The first of the rule's forms that fits; NULL: none. */
static always struct chaos_form *choose_form(struct __sk_buff *skb, const struct chaos_rule *r, struct chaos_answer *a)
{
	for (__u32 i = 0; i < CHAOS_MAX_FORMS && i < r->forms; i++) {
		if (chaos_form_fits(skb, r->form + i)) {
			a->form = r->form + i;
			return form_of(a->form);
		}
	}
	return NULL;
}

/* The rule's time is not over; what is under way already goes on in any case, but for silence. */
static always bool is_in_force_still(struct chaos_verdict *v)
{
	return verdict_holds(v) || still_governs(v);
}

static always __u32 fault_of(const struct chaos_rule *r)
{
	return does(r, CHAOS_STATUS) ? CHAOS_STATUS : does(r, CHAOS_BODY) ? CHAOS_BODY : CHAOS_HANG;
}

/* The first segment of the answer is here, and decides. */
static always void decide_answer(struct __sk_buff *skb, const struct flow *f, struct chaos_sock *s,
				 struct chaos_http *h, const struct work *w, bool readable)
{
	struct chaos_stats *stats = stats_of(h->request.rule);
	const struct chaos_rule *r = rule_of(h->request.rule);
	struct chaos_answer *a = &h->answer;
	struct chaos_form *form = NULL;
	__u32 fault;

	a->state = CHAOS_ANSWER_LEFT;
	if (!r || !stats || !is_in_force_still(&h->request))
		return;
	fault = fault_of(r);
	if (readable || does(r, CHAOS_HANG))
		form = choose_form(skb, r, a);
	if (!decide(h->request.rule, r, stats, fault, unit_throw(r, &h->request, 0), form != NULL) || !form)
		return;
	a->state = CHAOS_ANSWER_UNDER_WAY;
	a->kind = form->kind;
	a->length = 0;
	if (form->kind == CHAOS_FORM_KEEP) {
		a->end = a->from + w->read + (__u32)w->reader.left;
		a->length = w->read + (__u32)w->reader.left - form->head;
	} else {
		a->end = a->from + form->length;
	}
	tell(h->request.rule, f, &s->owner, &h->request, fault, form->kind | form->brief << 8, form->status);
}

/* ---- writing -------------------------------------------------------------------------------------------------------------- */

/* One of two bytes, without a branch of which the verifier would follow both ways each time. */
static always __u8 either(__u64 condition, __u8 yes, __u8 no)
{
	asm volatile("" : "+r"(condition));
	condition = -(condition & 1);
	return (yes & condition) | (no & ~condition);
}

/* The byte of the answer with this number. */
static always __u8 answer_byte(const struct work *w, __u32 number)
{
	return either(((__u64)number - w->length) >> 63, w->text[number & TEXT_MASK], w->filler);
}

/* Sums go by four bytes: behind the last one are zeros. */
static always void end_with_zeros(__u8 *bytes, __u64 n)
{
	for (int i = 0; i < 3; i++)
		bytes[n + i] = 0;
}

/* The next piece of what is to be written; 1 when nothing is left, or it fails (w->left says so). A global function, as above. */
__noinline int chaos_write_piece(struct __sk_buff *skb)
{
	struct work *w = work_here();
	__s64 sum;
	__u64 n;

	if (!knobs.answers || !w || !w->left)
		return 1;
	n = (w->left < WRITTEN ? w->left : WRITTEN) - 1;
	asm volatile("" : "+r"(n)); /* see chaos_sum_of() */
	n = (n & (WRITTEN - 1)) + 1;
	if (bpf_skb_load_bytes(skb, w->at, w->was, n))
		return 1;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < WRITTEN; i++)
		w->now[i] = answer_byte(w, w->place + i);
	w->now[0] = either(w->odd, w->was[0], w->now[0]);
	w->odd = 0;
	end_with_zeros(w->was, n);
	end_with_zeros(w->now, n);
	sum = bpf_csum_diff((void *)w->was, (n + 3) & (2 * WRITTEN - 4), (void *)w->now, (n + 3) & (2 * WRITTEN - 4),
			    0);
	if (sum < 0 || bpf_l4_csum_replace(skb, w->checksum, 0, (__u32)sum, 0) ||
	    bpf_skb_store_bytes(skb, w->at, w->now, n, 0))
		return 1;
	w->at += n;
	w->place += n;
	w->left -= n;
	return 0;
}

__noinline int chaos_write_pieces(struct __sk_buff *skb)
{
	for (__u32 i = 0; i < WRITES; i++) {
		if (chaos_write_piece(skb))
			return 1;
	}
	return 0;
}

/*
 * Puts `size` bytes of the answer, from its byte `place` on, in the place of those at `at`, and corrects the checksum. Sums
 * go by pairs of bytes: where the first is the second of a pair, the one before it stays.
 */
static always bool write_answer(struct __sk_buff *skb, struct work *w, __u32 at, __u32 size, __u32 place,
				__u32 checksum)
{
	w->odd = (at - checksum) & 1;
	w->at = at - w->odd;
	w->left = size + w->odd;
	w->place = place - w->odd;
	w->checksum = checksum;
	for (__u32 i = 0; i < WRITES && !chaos_write_pieces(skb); i++)
		;
	return !w->left;
}

/* The text of a form, with its Content-Length, to the work bench. */
static always bool bring_text(struct work *w, const struct chaos_answer *a)
{
	const struct chaos_form *form = form_of(a->form);
	__u32 number = a->length;

	if (!form)
		return false;
	__builtin_memcpy(w->text, form->text, sizeof(w->text));
	w->length = form->length;
	w->filler = form->filler;
	for (__u32 i = 0; form->length_at && i < CHAOS_FORM_DIGITS_LENGTH; i++) {
		__u64 at = form->length_at + CHAOS_FORM_DIGITS_LENGTH - 1 - i;

		asm volatile("" : "+r"(at));
		w->text[at & TEXT_MASK] = either(i ? ((__u64)number - 1) >> 63 : 0, ' ', '0' + number % 10);
		number /= 10;
	}
	return true;
}

/* Writes what of the answer lies in this segment, and cuts it where the answer ends; false: the segment is to be lost. */
static always bool change_segment(struct __sk_buff *skb, __u32 network, const struct packet *p, struct work *w)
{
	const __u32 checksum = network + p->transport + offsetof(struct tcp_header, checksum);
	const struct chaos_answer *a = &w->answer;
	const struct cut cut = { .at = a->end,
				 .how = a->kind == CHAOS_FORM_NONE ? CHAOS_BREAK_STALL : CHAOS_BREAK_CLOSE };
	__u32 begin = a->from + (a->kind == CHAOS_FORM_DIGITS ? CHAOS_FORM_FIRST : 0), end = p->seq + p->payload;

	if (!bring_text(w, a))
		return true;
	if (after(p->seq, begin))
		begin = p->seq;
	if (after(end, a->end))
		end = a->end;
	if (after(end, begin) && !write_answer(skb, w, network + p->payload_offset + (begin - p->seq), end - begin,
					       begin - a->from, checksum))
		return false;
	if (a->kind != CHAOS_FORM_CLOSE && a->kind != CHAOS_FORM_NONE)
		return true;
	if (!after(p->seq + p->payload + !!(p->tcp_flags & TCP_FIN), a->end))
		return true;
	return cut_short(skb, network, p, &cut);
}

/* Does to a segment what w->answer says; 0: it is to be lost. */
__noinline int chaos_change(struct __sk_buff *skb)
{
	struct work *w = work_here();
	struct packet p = {};
	__s32 network = network_offset(skb);

	if (!knobs.answers || !w || network < 0 || !parse(skb, &p, network))
		return 1;
	return change_segment(skb, network, &p, w);
}

/* ---- the packet ------------------------------------------------------------------------------------------------------------ */

/* Reads on while interim answers (100 Continue) come first. False: nothing else has come yet. */
static always bool read_first(struct __sk_buff *skb, __u32 network, const struct packet *p, struct chaos_answer *a,
			      struct work *w, bool *readable)
{
	w->bodiless = a->head;
	for (int i = 0; i <= MAX_INTERIM; i++) {
		const __u32 skip = a->from - p->seq;

		w->come = p->payload - skip;
		w->at = network + p->payload_offset + skip;
		w->left = w->come;
		*readable = chaos_read_head(skb);
		if (!*readable || !is_interim(w))
			return true;
		*readable = false;
		if (w->reader.phase != HTTP_ANSWERED)
			return true;
		a->from += w->read;
		if (!after(p->seq + p->payload, a->from))
			return false;
	}
	return true;
}

/* Is the segment to be lost? Those that come before the first one are, and are sent again in their turn. */
static always bool look_at_first(struct __sk_buff *skb, __u32 network, const struct packet *p, struct chaos_sock *s,
				 struct chaos_http *h, struct work *w)
{
	struct flow f = { .protocol = CHAOS_TCP, .side = s->side };
	struct chaos_answer *a = &h->answer;
	bool readable;

	if (after(p->seq, a->from)) {
		if (!after(a->acked, a->from))
			return p->payload;
		a->state = CHAOS_ANSWER_LEFT; /* its beginning came by another way */
		return false;
	}
	if (!p->payload || !after(p->seq + p->payload, a->from) || !read_first(skb, network, p, a, w, &readable))
		return false;
	flow_of_packet(&f, p, false);
	decide_answer(skb, &f, s, h, w, readable);
	return false;
}

enum todo {
	PASS_ON,
	LOSE,
	CHANGE,
};

static always enum todo look_at(struct __sk_buff *skb, __u32 network, const struct packet *p, struct chaos_sock *s,
				struct chaos_http *h, struct work *w)
{
	struct chaos_answer *a = &h->answer;
	struct chaos_stats *stats = stats_of(h->request.rule);

	if (a->state == CHAOS_ANSWER_WAITS && look_at_first(skb, network, p, s, h, w))
		return LOSE;
	if (a->state == CHAOS_ANSWER_UNDER_WAY && a->kind == CHAOS_FORM_NONE && !is_in_force_still(&h->request))
		a->state = CHAOS_ANSWER_LEFT;
	if (a->state != CHAOS_ANSWER_UNDER_WAY)
		return PASS_ON;
	w->answer = *a;
	if (stats)
		count(&stats->packets);
	return CHANGE;
}

/* Payload, or the end of the stream. */
static always bool is_looked_at(const struct packet *p)
{
	return p->protocol == CHAOS_TCP && !(p->tcp_flags & (TCP_SYN | TCP_RST)) &&
	       (p->payload || p->tcp_flags & TCP_FIN) && (!knobs.arriving_ports || names_port(p->source_port));
}

SEC("tc")
int chaos_answer(struct __sk_buff *skb)
{
	enum todo todo = PASS_ON;
	struct packet p = {};
	struct bpf_sock *sk, *full;
	struct work *w = work_here();
	struct chaos_sock *s;
	struct chaos_http *h;
	__s32 network;

	if (!knobs.answers || !w || !armed())
		return TC_ACT_UNSPEC;
	network = network_offset(skb);
	if (network < 0 || !parse(skb, &p, network) || !is_looked_at(&p))
		return TC_ACT_UNSPEC;
	sk = find_socket(skb, &p);
	if (!sk)
		return TC_ACT_UNSPEC;
	full = bpf_sk_fullsock(sk);
	s = full && full->state != BPF_TCP_LISTEN ? bpf_sk_storage_get(&chaos_sock, full, NULL, 0) : NULL;
	h = s && s->answer ? bpf_sk_storage_get(&chaos_http, full, NULL, 0) : NULL;
	if (s && h)
		todo = look_at(skb, network, &p, s, h, w);
	bpf_sk_release(sk);
	if (todo == LOSE || (todo == CHANGE && !chaos_change(skb)))
		return bpf_redirect(NOWHERE, 0);
	return TC_ACT_UNSPEC;
}
