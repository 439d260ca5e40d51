/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a request is, told from the payload of TCP: the same for faults (socket.bpf.c) and for what is measured
 * (observe.bpf.c).
 */
#ifndef REQUEST_BPF_H
#define REQUEST_BPF_H

#include "bpf/parse.bpf.h"

/*
 * The least TCP payload of a TLS connection that may begin a request: below it lie HTTP/2's window updates and pings,
 * which cannot be told from requests once encrypted (two updates in one TLS 1.2 record are 55 bytes).
 */
#define TLS_REQUEST_MIN 60

/* What the payload of a connection looks like, from its first bytes; settled once. */
static always void learn_stream(struct __sk_buff *skb, __u8 *stream, const struct packet *p)
{
	__u8 head[9] = {};

	if (*stream != CHAOS_STREAM_UNKNOWN)
		return;
	if (!load_payload(skb, p->payload_offset, head, p->payload < sizeof(head) ? 1 : sizeof(head))) {
		return;
	}
	if (head[0] >= TLS_CHANGE_CIPHER && head[0] <= TLS_DATA && head[1] == 3)
		*stream = CHAOS_STREAM_TLS;
	else if (head[0] == 'P' && head[1] == 'R' && head[2] == 'I' && head[3] == ' ' && head[4] == '*')
		*stream = CHAOS_STREAM_HTTP2;
	else
		*stream = CHAOS_STREAM_PLAIN;
}

/*
 * A TLS segment by its first record. Handshake records ask nothing. In TLS 1.3 the client's Finished looks like data; it
 * follows a ChangeCipherSpec (six bytes that mean nothing there), mostly in the same segment. Where it has a segment of
 * its own it is known by that, unless more records follow in it: those are the request.
 */
static always bool is_tls_upkeep(__u8 *after_ccs, const struct packet *p, const __u8 *head)
{
	const __u32 record = 5 + (head[3] << 8 | head[4]);
	bool follows = *after_ccs;

	*after_ccs = head[0] == TLS_CHANGE_CIPHER && p->payload == record;
	if (head[0] >= TLS_CHANGE_CIPHER && head[0] <= TLS_HANDSHAKE)
		return true;
	if (follows && p->payload <= record)
		return true;
	return p->payload < TLS_REQUEST_MIN;
}

/* Payload that is protocol upkeep and asks nothing of the peer: TLS handshake, HTTP/2 control frames. */
static always bool is_upkeep(struct __sk_buff *skb, __u8 stream, __u8 *after_ccs, const struct packet *p)
{
	__u8 head[9] = {};

	if (stream == CHAOS_STREAM_TLS) {
		if (p->payload < 5)
			return true;
		return load_payload(skb, p->payload_offset, head, 5) && is_tls_upkeep(after_ccs, p, head);
	}
	if (stream == CHAOS_STREAM_HTTP2) {
		/* Frame header: length (3 bytes), type. 0 and 1 are DATA and HEADERS, 9 continues headers. */
		if (p->payload < sizeof(head) || !load_payload(skb, p->payload_offset, head, sizeof(head)))
			return false;
		return head[3] >= 2 && head[3] <= 8;
	}
	return false;
}

#endif
