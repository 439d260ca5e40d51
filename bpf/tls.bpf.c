// SPDX-License-Identifier: GPL-2.0-only
/*
 * Requests and answers of HTTP inside TLS, by probes on the functions of OpenSSL and what is like it.
 *
 *	SSL_write()   at its entry the request is read, as bpf/http.h reads it from packets in clear
 *	BIO_write()   within it: the first record, encrypted, is handed on towards the socket. Eight bytes of it are noted,
 *	              with what is known of the request: its print. Whichever way the record takes, an event loop's included,
 *	              the packet that carries it is known by them
 *	(the packet)  finds the print, and the request is decided as any other (http.bpf.c): all faults that are done to
 *	              packets go their usual way. An answer that is to be another one is ordered
 *	SSL_read()    at its return, before the caller sees it: the answer is overwritten with the rule's
 *
 * Nobody's buffers are touched but those of an answer that was ordered. What a read returns stays as long as it is, so the
 * forms of answers are padded: KEEP up to the end of the server's, SHUT up to the end of what the first read returned; the
 * client is told to close the connection behind it, and so never reads the rest.
 *
 * The bench of these programs is the connection's own entry: they may be preempted, and one CPU's would be shared.
 */
#include "bpf/call.bpf.h"
#include "bpf/parse.bpf.h"
#include "bpf/tls_stream.bpf.h"

MAP(BPF_MAP_TYPE_ARRAY, chaos_tls_blank, __u32, struct chaos_tls, 1); /* stays zero: new entries begin so */

/* ---- requests ----------------------------------------------------------------------------------------------------- */

/* The next piece of what is written; 1 when none is left. Global functions: see chaos_http_piece(). */
__noinline int chaos_tls_piece(struct pt_regs *ctx)
{
	const struct chaos_http_table *t = http_table();
	struct chaos_tls_frame *frame = frame_here();
	struct chaos_tls *tls = tls_in(frame);
	__u64 bytes;

	if (!knobs.tls || !ctx || !frame || !tls || !t)
		return 1;
	bytes = http_skip(&tls->reader, frame->left);
	set_place(frame, frame->at + bytes, frame->left - bytes);
	if (tls->reader.phase == HTTP_FOREIGN)
		return 1;
	bytes = bring_piece(frame, tls);
	for (__u32 i = 0; i < PIECE && i < bytes; i++)
		http_byte(&tls->reader, t, knobs.http_words, knobs.http_wants, tls->piece[i]);
	return !bytes;
}

__noinline int chaos_tls_pieces(struct pt_regs *ctx)
{
	for (__u32 i = 0; i < PIECES; i++) {
		if (chaos_tls_piece(ctx))
			return 1;
	}
	return 0;
}

/* The connection, known from now on. */
static always struct chaos_tls *meet(const struct chaos_tls_key *key)
{
	struct chaos_tls *tls = tls_of(key);
	__u32 zero = 0;
	void *blank;

	if (tls)
		return tls;
	blank = bpf_map_lookup_elem(&chaos_tls_blank, &zero);
	if (blank)
		bpf_map_update_elem(&chaos_tls, key, blank, BPF_NOEXIST);
	tls = tls_of(key);
	if (tls)
		tls->serial = now_ns();
	return tls;
}

static always bool begins_http2(const struct chaos_tls_frame *frame)
{
	__u8 head[4] = {};

	return frame->left >= sizeof(head) && !bpf_probe_read_user(head, sizeof(head), (void *)frame->at) &&
	       head[0] == 'P' && head[1] == 'R' && head[2] == 'I' && head[3] == ' ';
}

/*
 * Reads what is about to be written. A call that takes less than it was given is made again with the rest, or with all of
 * it: so much was looked at already.
 */
static always void read_written(struct pt_regs *ctx, struct chaos_tls_frame *frame, struct chaos_tls *tls)
{
	const __u32 size = frame->size, again = tls->ahead < size ? tls->ahead : size;

	set_place(frame, frame->bytes + again, size - again);
	if (tls->ahead < size)
		tls->ahead = size;
	if (tls->unread || !frame->left)
		return;
	if (!tls->synced) {
		tls->reader.phase = HTTP_START;
		tls->reader.ready = 0;
		tls->http2 = begins_http2(frame);
		tls->unread = tls->http2;
	}
	for (__u32 i = 0; i < PIECES && !chaos_tls_pieces(ctx); i++)
		;
	if (frame->left)
		tls->reader.phase = HTTP_FOREIGN;
	if (tls->reader.phase != HTTP_FOREIGN)
		tls->synced = 1;
	else if (tls->synced)
		tls->unread = 1;
	tls->unread |= tls->reader.pipelined;
}

/* Whatever was there is of a call that never returned. */
static always struct chaos_tls_frame *wait_for_return(const struct call *call, struct chaos_tls_frame *frame)
{
	frame->sp = call->sp;
	frame->bytes = call->second;
	frame->size = call->third;
	frame->out = call->fourth;
	frame->point = call->number;
	frame->role = call->point->role;
	bpf_map_update_elem(&chaos_tls_frames, &call->tid, frame, BPF_ANY);
	return frame_here();
}

static always void wait_for_nothing(const struct call *call)
{
	if (frame_here())
		bpf_map_delete_elem(&chaos_tls_frames, &call->tid);
}

/* Nobody is looked at but processes that some rule about requests names. */
static always bool is_looked_at(const struct call *call)
{
	struct chaos_point_stats *counted;
	struct chaos_owner owner = {};
	struct call_matcher m = {};

	if (!find_caller(call->point->set, &owner, &m))
		return false;
	counted = bpf_map_lookup_elem(&chaos_pointstats, &call->number);
	if (counted)
		count(&counted->calls);
	return true;
}

static always void enter_write(const struct call *call)
{
	struct chaos_tls_frame new = {}, *frame;
	struct chaos_tls *tls = NULL;

	if (is_looked_at(call)) {
		key_of(call->first, &new.tls);
		tls = meet(&new.tls);
	}
	if (!tls) {
		wait_for_nothing(call);
		return;
	}
	frame = wait_for_return(call, &new);
	if (frame && frame->size <= 1 << 30)
		read_written(call->ctx, frame, tls);
}

/* What is known of the request that this record belongs to. */
static always void make_print(const struct chaos_tls_frame *frame, struct chaos_tls *tls, struct chaos_print *print)
{
	const struct chaos_http_table *t = http_table();

	print->tls = frame->tls;
	print->serial = tls->serial;
	print->begun = tls->reader.begun;
	/* What still comes on a connection whose stream was ended before its time is not the answer to this request. */
	if (tls->order.state == CHAOS_ANSWER_ENDED)
		tls->unread = 1;
	if (tls->unread)
		print->flags = CHAOS_PRINT_UNREAD | (tls->http2 ? CHAOS_PRINT_HTTP2 : 0);
	else if (!tls->synced)
		print->flags = CHAOS_PRINT_OTHER;
	if (print->flags || !tls->reader.ready || !t)
		return;
	tls->reader.ready = 0;
	tls->order.state = CHAOS_ANSWER_LEFT;
	close_order(tls);
	print->flags = CHAOS_PRINT_KNOWN;
	print->flags |= tls->reader.found[0] >> CHAOS_HTTP_HEAD & 1 ? CHAOS_PRINT_HEAD : 0;
	print->conditions = http_conditions(&tls->reader, t);
}

/* Only within a call that writes, and only the first record of it: the others say no more. */
static always void enter_record(const struct call *call)
{
	struct chaos_tls_frame *frame = frame_here();
	struct chaos_print print = {};
	__u8 record[RECORD_PRINT] = {};
	struct chaos_tls *tls;
	__u64 key;

	if (!frame || frame->printed || frame->role > CHAOS_ROLE_TLS_WRITE_EX || frame->sp <= call->sp)
		return;
	if ((__s32)call->third < (__s32)sizeof(record) ||
	    bpf_probe_read_user(record, sizeof(record), (void *)call->second) || record[0] != TLS_DATA ||
	    record[1] != 3)
		return;
	tls = tls_of(&frame->tls);
	if (!tls)
		return;
	make_print(frame, tls, &print);
	__builtin_memcpy(&key, record + CHAOS_PRINT_AT, sizeof(key));
	/* A record that the socket did not take comes again: what was known of it then still is. */
	bpf_map_update_elem(&chaos_prints, &key, &print, print.flags ? BPF_ANY : BPF_NOEXIST);
	frame->printed = 1;
}

static always void enter_read(const struct call *call)
{
	struct chaos_tls_frame new = {};

	key_of(call->first, &new.tls);
	if (knobs.answers && tls_of(&new.tls))
		wait_for_return(call, &new);
	else
		wait_for_nothing(call);
}

static always void enter_free(const struct call *call)
{
	struct chaos_tls_key key = {};
	struct chaos_tls *tls;

	key_of(call->first, &key);
	tls = tls_of(&key);
	if (!tls)
		return;
	close_order(tls);
	bpf_map_delete_elem(&chaos_tls, &key);
}

/* ---- the probes --------------------------------------------------------------------------------------------------- */

SEC("uprobe")
int chaos_tls_enter(struct pt_regs *ctx)
{
	struct call call = {};

	own_stack(ctx);
	if (!knobs.tls || !armed() || !find_point(ctx, &call))
		return 0;
	switch (call.point->role) {
	case CHAOS_ROLE_TLS_RECORD:
		enter_record(&call);
		break;
	case CHAOS_ROLE_TLS_WRITE:
	case CHAOS_ROLE_TLS_WRITE_EX:
		enter_write(&call);
		break;
	case CHAOS_ROLE_TLS_READ:
	case CHAOS_ROLE_TLS_READ_EX:
		enter_read(&call);
		break;
	case CHAOS_ROLE_TLS_FREE:
		enter_free(&call);
		break;
	}
	return 0;
}

/* How many bytes has the call taken, or brought? */
static always __u32 bytes_done(const struct chaos_tls_frame *frame, struct pt_regs *ctx)
{
	const __s32 result = (__s32)PT_REGS_RC(ctx);
	__u64 done = 0;

	if (frame->role == CHAOS_ROLE_TLS_WRITE || frame->role == CHAOS_ROLE_TLS_READ)
		return result > 0 ? result : 0;
	if (result == 1 && bpf_probe_read_user(&done, sizeof(done), (void *)frame->out))
		return 0;
	return done;
}

/* The first bytes of an answer that was ordered. */
static always void begin(struct pt_regs *ctx, struct chaos_tls_frame *frame, struct chaos_tls *tls, __u32 size)
{
	bool readable = false;

	if (!read_first(ctx, frame, tls, size, &readable))
		return;
	tls->order.state = CHAOS_ANSWER_LEFT;
	tls->begun = 0;
	if (!is_in_time(tls->order.rule))
		return;
	if (knobs.streams && is_stream(tls->order.rule))
		begin_stream(ctx, frame, tls, readable);
	else
		make_answer(ctx, frame, tls, readable);
}

static always void go_on_streaming(struct pt_regs *ctx, struct chaos_tls_frame *frame, struct chaos_tls *tls,
				   __u32 size)
{
	if (!is_in_time(tls->order.rule)) {
		tls->order.state = CHAOS_ANSWER_LEFT;
		return;
	}
	tls->begun = tls->stream.next;
	tls->bytes = frame->bytes;
	tls->come = size;
	follow_stream(ctx, frame, tls);
}

/* A read has brought `size` bytes. */
static always void bring(struct pt_regs *ctx, struct chaos_tls_frame *frame, struct chaos_tls *tls, __u32 size)
{
	struct chaos_order *order = &tls->order;
	const bool waits = order->state == CHAOS_ANSWER_WAITS || order->state == CHAOS_ANSWER_STREAMS;

	switch (order->state) {
	case CHAOS_ANSWER_WAITS:
		begin(ctx, frame, tls, size);
		break;
	case CHAOS_ANSWER_STREAMS:
		if (knobs.streams)
			go_on_streaming(ctx, frame, tls, size);
		break;
	case CHAOS_ANSWER_UNDER_WAY:
		go_on(ctx, frame, tls, frame->bytes, size);
		break;
	case CHAOS_ANSWER_LAST_CHUNK:
		write_last_chunk(ctx, frame, tls, frame->bytes, size);
		break;
	default:
		return;
	}
	if (!waits || order->state == CHAOS_ANSWER_UNDER_WAY || order->state == CHAOS_ANSWER_LAST_CHUNK)
		count_read(order->rule);
	if (order->state == CHAOS_ANSWER_LEFT)
		close_order(tls);
}

SEC("uretprobe")
int chaos_tls_leave(struct pt_regs *ctx)
{
	struct chaos_tls_frame *frame = frame_here();
	struct chaos_tls *tls;
	__u32 tid, done;

	own_stack(ctx);
	/* The return address has been taken off by now. */
	if (!frame || frame->sp + RETURN_ADDRESS != PT_REGS_SP(ctx) ||
	    frame->tls.pid != bpf_get_current_pid_tgid() >> 32)
		return 0;
	tls = tls_of(&frame->tls);
	done = bytes_done(frame, ctx);
	if (!knobs.tls || !armed() || !tls || !done)
		goto out;
	if (frame->role <= CHAOS_ROLE_TLS_WRITE_EX)
		tls->ahead = tls->ahead > done ? tls->ahead - done : 0;
	else if (knobs.answers && knobs.write_user)
		bring(ctx, frame, tls, done);
out:
	tid = current_tid();
	bpf_map_delete_elem(&chaos_tls_frames, &tid);
	return 0;
}
