// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measures what services serve and what they call, and touches nothing: an object of its own, beside the faults or
 * without them, attached for as long as somebody looks (its links belong to a process).
 *
 *	connect(), bind()       who is it, and is it wanted? kept with the socket
 *	sock_ops                connections that were made, and those that were not
 *	every packet            of sockets that nobody asks for: one look-up, out; else requests and responses, resets
 *	close()                 what was asked and never answered
 *
 * All counters of one kind of connection (see struct observe_key) are a row of an array, whose number the socket knows.
 */
#include "bpf/comm.bpf.h"
#include "bpf/match.h"
#include "bpf/observe.h"
#include "bpf/request.bpf.h"

#define PASS 1

#define ECONNREFUSED 111
#define ETIMEDOUT    110
#define ECONNRESET   104
#define ENETUNREACH  101
#define EHOSTUNREACH 113
#define EACCES       13
#define EPERM        1

const volatile struct observe_knobs knobs = {};

#define MAP(map_type, map_name, key_type, value_type, entries) \
	struct {                                               \
		__uint(type, map_type);                        \
		__uint(max_entries, entries);                  \
		__type(key, key_type);                         \
		__type(value, value_type);                     \
	} map_name SEC(".maps")

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct observe_sock);
} chaos_obs_sock SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct observe_row);
} chaos_obs_rows SEC(".maps");

MAP(BPF_MAP_TYPE_ARRAY, chaos_obs_state, __u32, struct observe_state, 1);
MAP(BPF_MAP_TYPE_ARRAY, chaos_obs_ready, __u32, __u32, 1); /* 1: sockets that were open before us are known */
MAP(BPF_MAP_TYPE_HASH, chaos_obs_keys, struct observe_key, __u32, 1); /* to the number of a row */
MAP(BPF_MAP_TYPE_HASH, chaos_obs_pids, __u32, __u8, 65536);
MAP(BPF_MAP_TYPE_HASH, chaos_obs_cgrps, __u64, __u8, 1024);
MAP(BPF_MAP_TYPE_ARRAY, chaos_obs_comms, __u32, struct chaos_patterns, 1);
MAP(BPF_MAP_TYPE_ARRAY, chaos_obs_ports, __u32, struct observe_ports, 1);
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct chaos_address_key);
	__type(value, __u32);
} chaos_obs_hosts SEC(".maps");

/* ---- small things ------------------------------------------------------------------------------------------------ */

static always void add(__u64 *counter, __u64 number)
{
	__sync_fetch_and_add(counter, number);
}

static always void record(struct histogram *h, __u64 us)
{
	__u32 bucket = histogram_bucket(us);

	add(&h->sum, us);
	if (us > h->max)
		h->max = us;
	if (bucket < HISTOGRAM_BUCKETS)
		__sync_fetch_and_add(&h->counts[bucket], 1);
}

static always __u64 microseconds(__u64 from_ns, __u64 to_ns)
{
	return to_ns > from_ns ? (to_ns - from_ns) / 1000 : 0;
}

/* ---- who is it ---------------------------------------------------------------------------------------------------- */

static always bool comm_wanted(const char *comm)
{
	struct chaos_patterns *patterns;
	__u32 zero = 0;

	patterns = bpf_map_lookup_elem(&chaos_obs_comms, &zero);
	return patterns && pattern_word(patterns, comm, 0);
}

/* A cgroup and all above it, from the root down. */
static always bool current_cgroup_wanted(void)
{
	for (int level = 0; level < OBSERVE_MAX_LEVELS; level++) {
		__u64 id = bpf_get_current_ancestor_cgroup_id(level);

		if (!id)
			return false;
		if (bpf_map_lookup_elem(&chaos_obs_cgrps, &id))
			return true;
	}
	return false;
}

static always bool packet_cgroup_wanted(struct __sk_buff *skb)
{
	for (int level = 0; level < OBSERVE_MAX_LEVELS; level++) {
		__u64 id = bpf_skb_ancestor_cgroup_id(skb, level);

		if (!id)
			return false;
		if (bpf_map_lookup_elem(&chaos_obs_cgrps, &id))
			return true;
	}
	return false;
}

static always bool current_wanted(const char *comm)
{
	__u32 pid = bpf_get_current_pid_tgid() >> 32;

	if (knobs.by & OBSERVE_BY_PID && !bpf_map_lookup_elem(&chaos_obs_pids, &pid))
		return false;
	if (knobs.by & OBSERVE_BY_COMM && !comm_wanted(comm))
		return false;
	if (knobs.by & OBSERVE_BY_USER && (__u32)bpf_get_current_uid_gid() != knobs.uid)
		return false;
	return !(knobs.by & OBSERVE_BY_CGROUP) || current_cgroup_wanted();
}

/* Only where `current` is the owner. */
static always void learn_owner(struct observe_sock *s)
{
	if (!knobs.leader_comm || !leader_comm(s->comm))
		bpf_get_current_comm(s->comm, CHAOS_COMM_LEN);
	trim_comm(s->comm);
	s->cgroup_id = bpf_get_current_cgroup_id();
	s->wanted = current_wanted(s->comm);
	s->known = 1;
}

/* Nobody saw it being opened, and it was not found in /proc: the packet still knows its cgroup and user. */
static always void learn_from_packet(struct __sk_buff *skb, struct observe_sock *s)
{
	s->known = 1;
	s->cgroup_id = bpf_skb_cgroup_id(skb);
	s->wanted = !(knobs.by & (OBSERVE_BY_PID | OBSERVE_BY_COMM));
	if (knobs.by & OBSERVE_BY_USER && bpf_get_socket_uid(skb) != knobs.uid)
		s->wanted = 0;
	if (knobs.by & OBSERVE_BY_CGROUP && !packet_cgroup_wanted(skb))
		s->wanted = 0;
}

/* ---- rows --------------------------------------------------------------------------------------------------------- */

static always bool port_wanted(__u16 port)
{
	struct observe_ports *ports;
	__u32 zero = 0;

	if (!knobs.ports)
		return true;
	ports = bpf_map_lookup_elem(&chaos_obs_ports, &zero);
	return ports && ports->word[(port >> 6) & 1023] >> (port & 63) & 1;
}

static always bool host_wanted(const __u8 *peer)
{
	struct chaos_address_key key = { .prefix_len = 128 };

	if (!knobs.hosts)
		return true;
	__builtin_memcpy(key.address, peer, 16);
	return bpf_map_lookup_elem(&chaos_obs_hosts, &key);
}

static always struct observe_row *row_at(__u32 index)
{
	return bpf_map_lookup_elem(&chaos_obs_rows, &index);
}

/* The next free row, or OBSERVE_REST. Two CPUs that meet a new key at once waste one. */
static __noinline __u32 take_row(const struct observe_key *key)
{
	struct observe_state *state;
	__u32 zero = 0, index = OBSERVE_REST;
	struct observe_row *row;

	if (!key)
		return OBSERVE_REST;
	state = bpf_map_lookup_elem(&chaos_obs_state, &zero);
	if (!state)
		return OBSERVE_REST;
	bpf_spin_lock(&state->lock);
	if (state->rows + 1 < knobs.rows)
		index = ++state->rows;
	bpf_spin_unlock(&state->lock);
	row = row_at(index);
	if (!index || !row)
		return OBSERVE_REST;
	row->key = *key;
	if (bpf_map_update_elem(&chaos_obs_keys, key, &index, BPF_NOEXIST) == 0)
		return index;
	row->key.side = 0;
	return OBSERVE_REST;
}

static __noinline __u32 find_row(const struct observe_key *key)
{
	__u32 *found, index;

	if (!key)
		return OBSERVE_REST;
	found = bpf_map_lookup_elem(&chaos_obs_keys, key);
	if (found)
		return *found;
	index = take_row(key);
	if (index)
		return index;
	found = bpf_map_lookup_elem(&chaos_obs_keys, key); /* somebody else was faster */
	return found ? *found : OBSERVE_REST;
}

/* Settles in which row a connection is counted, from what is known of its ends by now. */
static always void settle_row(struct observe_sock *s, const __u8 *peer, __u16 peer_port, __u16 local_port)
{
	struct observe_key key = { .cgroup_id = s->cgroup_id, .side = s->side };

	key.port = s->side == CHAOS_SIDE_SERVER ? local_port : peer_port;
	if (!s->wanted || !(knobs.sides & 1 << s->side) || !port_wanted(key.port) || !host_wanted(peer)) {
		s->row = OBSERVE_NOBODY;
		return;
	}
	if (s->side == CHAOS_SIDE_CLIENT)
		__builtin_memcpy(key.address, peer, 16);
	__builtin_memcpy(key.comm, s->comm, CHAOS_COMM_LEN);
	s->row = find_row(&key) + 1;
}

/* A function of its own: inlined in several places, clang computes a socket's fields by pointer arithmetic. */
static __noinline void settle_row_of_sock(struct observe_sock *s, struct bpf_sock *sk)
{
	__u8 peer[16];

	peer_of_sock(peer, sk);
	settle_row(s, peer, bpf_ntohs(sk->dst_port), sk->src_port);
}

static always struct observe_row *row_of(const struct observe_sock *s)
{
	return s->row && s->row != OBSERVE_NOBODY ? row_at(s->row - 1) : NULL;
}

static always struct observe_sock *sock_state(struct bpf_sock *sk)
{
	return bpf_sk_storage_get(&chaos_obs_sock, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
}

/* ---- connections --------------------------------------------------------------------------------------------------- */

/* Forgets the connection that this socket, or the listener that it is a copy of, had before. */
static always void begin_connection(struct observe_sock *s, __u8 side)
{
	s->side = side;
	s->row = 0;
	s->retransmits = 0;
	s->connecting = 0;
	s->refused = 0;
	s->seen = 0;
	s->stream = CHAOS_STREAM_UNKNOWN;
	s->after_ccs = 0;
	s->waiting = 0;
	s->events = 0;
	s->ended = 0;
	s->fresh = 1;
}

static always __u32 failure_of(__s32 error)
{
	switch (error) {
	case ECONNREFUSED:
		return OBSERVE_REFUSED;
	case ETIMEDOUT:
		return OBSERVE_TIMEOUT;
	case ECONNRESET:
		return OBSERVE_RESET;
	case ENETUNREACH:
	case EHOSTUNREACH:
		return OBSERVE_UNREACHABLE;
	case EPERM:
	case EACCES:
		return OBSERVE_DENIED;
	case 0:
		return OBSERVE_GIVEN_UP;
	}
	return OBSERVE_OTHER;
}

static always void count_failure(struct observe_sock *s, __u32 failure)
{
	struct observe_row *row = row_of(s);

	s->connecting = 0;
	if (row && failure < OBSERVE_FAILURE_COUNT)
		add(&row->failures[failure], 1);
}

/* connect() came to nothing, for which no packet and no change of state is to blame. */
static always void connect_ended(struct observe_sock *s, __u32 failure)
{
	settle_row(s, s->address, s->port, 0);
	count_failure(s, failure);
}

static always int connects(struct bpf_sock_addr *ctx, const __u8 *peer)
{
	struct bpf_sock *sk = ctx->sk;
	struct observe_sock *s;
	__s32 error = 0;

	if (!sk || ctx->type != SOCK_STREAM || ctx->protocol != IPPROTO_TCP)
		return PASS;
	s = sock_state(sk);
	if (!s)
		return PASS;
	if (s->connecting == 1)
		connect_ended(s, OBSERVE_AT_ONCE);
	learn_owner(s);
	begin_connection(s, CHAOS_SIDE_CLIENT);
	__builtin_memcpy(s->address, peer, 16);
	s->port = bpf_ntohs(ctx->user_port);
	if (knobs.get_retval)
		error = bpf_get_retval();
	if (error)
		connect_ended(s, failure_of(-error));
	else
		s->connecting = 1;
	return PASS;
}

SEC("cgroup/connect4")
int chaos_obs_conn4(struct bpf_sock_addr *ctx)
{
	__u8 peer[16];

	map_ipv4(peer, ctx->user_ip4);
	return connects(ctx, peer);
}

SEC("cgroup/connect6")
int chaos_obs_conn6(struct bpf_sock_addr *ctx)
{
	__u32 peer[4];

	peer[0] = ctx->user_ip6[0];
	peer[1] = ctx->user_ip6[1];
	peer[2] = ctx->user_ip6[2];
	peer[3] = ctx->user_ip6[3];
	return connects(ctx, (const __u8 *)peer);
}

/* Whoever binds is the owner of what is accepted. */
static always int binds(struct bpf_sock *ctx)
{
	struct observe_sock *s;

	if (ctx->type != SOCK_STREAM || ctx->protocol != IPPROTO_TCP)
		return PASS;
	s = sock_state(ctx);
	if (s)
		learn_owner(s);
	return PASS;
}

SEC("cgroup/post_bind4")
int chaos_obs_bind4(struct bpf_sock *ctx)
{
	return binds(ctx);
}

SEC("cgroup/post_bind6")
int chaos_obs_bind6(struct bpf_sock *ctx)
{
	return binds(ctx);
}

SEC("cgroup/sock_release")
int chaos_obs_close(struct bpf_sock *ctx)
{
	struct observe_sock *s = bpf_sk_storage_get(&chaos_obs_sock, ctx, NULL, 0);
	struct observe_row *row;

	if (!s)
		return PASS;
	if (s->connecting == 1)
		connect_ended(s, OBSERVE_AT_ONCE);
	row = row_of(s);
	if (row && s->waiting)
		add(&row->unanswered, 1);
	s->waiting = 0;
	return PASS;
}

/* The kernel's reason; where it cannot be read, what can be concluded. */
static always __s32 socket_error(struct bpf_sock *sk, const struct observe_sock *s)
{
	if (knobs.socket_error) {
		struct sock *socket = (void *)bpf_skc_to_tcp_sock(sk);

		return socket ? socket->sk_err : 0;
	}
	return s->refused ? ECONNREFUSED : s->retransmits ? ETIMEDOUT : 0;
}

static always void take_retransmits(struct observe_sock *s, struct observe_row *row, __u32 total)
{
	__u32 more = total - s->retransmits;

	s->retransmits = total;
	if (more)
		add(&row->retransmits, more);
}

static always void state_changes(struct bpf_sock_ops *ctx, struct bpf_sock *sk, struct observe_sock *s)
{
	struct observe_row *row = row_of(s);

	if (ctx->args[1] != BPF_TCP_CLOSE || !row)
		return;
	take_retransmits(s, row, ctx->total_retrans);
	if (s->connecting == 2 && ctx->args[0] == BPF_TCP_SYN_SENT)
		count_failure(s, failure_of(socket_error(sk, s)));
}

static always void is_connected(struct observe_sock *s, struct bpf_sock *sk)
{
	struct observe_row *row;

	settle_row_of_sock(s, sk);
	s->fresh = 0;
	row = row_of(s);
	if (!row)
		return;
	add(&row->connections, 1);
	if (s->connecting == 2)
		record(&row->times[OBSERVE_CONNECT], microseconds(s->connect_ns, bpf_ktime_get_ns()));
	s->connecting = 0;
}

static always void tell_states(struct bpf_sock_ops *ctx)
{
	bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG);
}

SEC("sockops")
int chaos_obs_ops(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	struct observe_sock *s;

	switch (ctx->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_STATE_CB:
		break;
	default:
		return PASS;
	}
	if (!sk)
		return PASS;
	s = sock_state(sk);
	if (!s)
		return PASS;
	switch (ctx->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		if (!s->known)
			return PASS;
		s->connecting = 2;
		s->connect_ns = bpf_ktime_get_ns();
		settle_row_of_sock(s, sk);
		if (s->row != OBSERVE_NOBODY)
			tell_states(ctx);
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
		if (s->known && s->side == CHAOS_SIDE_CLIENT)
			is_connected(s, sk);
		break;
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		begin_connection(s, CHAOS_SIDE_SERVER);
		/* Else the first packet will tell whose it is. */
		if (s->known)
			is_connected(s, sk);
		if (s->row != OBSERVE_NOBODY)
			tell_states(ctx);
		break;
	case BPF_SOCK_OPS_STATE_CB:
		state_changes(ctx, sk, s);
		break;
	}
	return PASS;
}

/* ---- requests and responses ---------------------------------------------------------------------------------------- */

/* Has this segment something that was not seen before? */
static always bool is_new(struct observe_sock *s, __u8 seen, __u32 *high, const struct packet *p, __u32 *bytes)
{
	__u32 end = p->seq + p->payload;

	if (s->seen & seen && !after(end, *high))
		return false;
	*bytes = s->seen & seen && after(*high, p->seq) ? end - *high : p->payload;
	*high = end;
	s->seen |= seen;
	return true;
}

/* What a client sends while its request is under way and is no part of it. */
static always bool is_beside_request(struct __sk_buff *skb, struct observe_sock *s, const struct packet *p)
{
	if (s->stream == CHAOS_STREAM_TLS)
		return p->payload < TLS_REQUEST_MIN;
	return s->stream == CHAOS_STREAM_HTTP2 && is_upkeep(skb, s->stream, &s->after_ccs, p);
}

static always void request_payload(struct __sk_buff *skb, struct observe_sock *s, struct observe_row *row,
				   const struct packet *p)
{
	learn_stream(skb, &s->stream, p);
	if (!s->waiting) {
		if (is_upkeep(skb, s->stream, &s->after_ccs, p))
			return;
		s->waiting = 1;
		s->events = 0;
		s->request_seq = p->seq;
		add(&row->requests, 1);
	} else if (is_beside_request(skb, s, p)) {
		return;
	}
	s->request_ns = bpf_ktime_get_ns();
}

/*
 * Session tickets of TLS 1.3, which servers send right after the handshake and which look like data: mostly two of the
 * same size in a segment of their own. Only until something has been answered.
 */
static always bool is_tickets(struct __sk_buff *skb, const struct observe_sock *s, const struct packet *p)
{
	__u8 first[5] = {}, second[5] = {};
	__u32 record;

	if (s->stream != CHAOS_STREAM_TLS || s->seen & OBSERVE_SEEN_ANSWER || p->payload < 2 * sizeof(first))
		return false;
	if (!load_payload(skb, p->payload_offset, first, sizeof(first)) || first[0] != TLS_DATA)
		return false;
	record = sizeof(first) + (first[3] << 8 | first[4]);
	if (p->payload != 2 * record || !load_payload(skb, p->payload_offset + record, second, sizeof(second)))
		return false;
	return second[0] == TLS_DATA && second[3] == first[3] && second[4] == first[4];
}

#define SCAN_STEP  64
#define SCAN_STEPS 12 /* so far into a response its content-type is looked for */
#define EVENT_ST   0x6576656e742d7374ULL

/*
 * "text/event-stream" in the headers of a response: "event-st", of which eight characters or more follow, tells it from
 * anything else. Sizes are constants for 5.10's sake. A global function: the verifier looks at it once, whatever the
 * paths that lead here.
 */
__noinline int is_event_stream(struct __sk_buff *skb, __u32 offset, __u32 length)
{
	__u8 part[SCAN_STEP];
	__u64 last = 0;

	for (int step = 0; step < SCAN_STEPS && length >= SCAN_STEP; step++) {
		if (bpf_skb_load_bytes(skb, offset, part, SCAN_STEP))
			return 0;
		for (int i = 0; i < SCAN_STEP; i++) {
			last = last << 8 | part[i];
			if (last == EVENT_ST)
				return 1;
		}
		offset += SCAN_STEP;
		length -= SCAN_STEP;
	}
	for (int step = 0; step < SCAN_STEP / 8 && length >= 8; step++) {
		if (bpf_skb_load_bytes(skb, offset, part, 8))
			return 0;
		for (int i = 0; i < 8; i++) {
			last = last << 8 | part[i];
			if (last == EVENT_ST)
				return 1;
		}
		offset += 8;
		length -= 8;
	}
	return 0;
}

/* "HTTP/1.1 200": the class, or 0. */
static always __u32 status_class(struct __sk_buff *skb, const struct packet *p)
{
	__u8 head[12] = {};

	if (p->payload < sizeof(head) || !load_payload(skb, p->payload_offset, head, sizeof(head)))
		return 0;
	if (head[0] != 'H' || head[1] != 'T' || head[2] != 'T' || head[3] != 'P' || head[4] != '/' || head[8] != ' ')
		return 0;
	return head[9] >= '1' && head[9] <= '5' ? head[9] - '0' : 0;
}

static always void response_begins(struct __sk_buff *skb, struct bpf_sock *sk, struct observe_sock *s,
				   struct observe_row *row, const struct packet *p, __u64 now)
{
	struct bpf_tcp_sock *tcp = bpf_tcp_sock(sk);
	__u64 class = 0;

	s->waiting = 0;
	s->seen |= OBSERVE_SEEN_ANSWER;
	add(&row->responses, 1);
	record(&row->times[OBSERVE_RESPONSE], microseconds(s->request_ns, now));
	if (tcp && tcp->srtt_us)
		record(&row->times[OBSERVE_RTT], tcp->srtt_us >> 3);
	if (s->stream == CHAOS_STREAM_PLAIN)
		class = status_class(skb, p);
	asm volatile(
		""
		: "+r"(class)); /* clang 19 knows its bounds and would leave out the comparison; the verifier does not */
	if (class < OBSERVE_CLASSES)
		add(&row->status[class], 1);
	s->events = class == 2 && is_event_stream(skb, p->payload_offset, p->payload);
	s->event_ns = now;
}

static always void response_payload(struct __sk_buff *skb, struct bpf_sock *sk, struct observe_sock *s,
				    struct observe_row *row, const struct packet *p)
{
	__u64 now = bpf_ktime_get_ns();

	if (s->waiting) {
		/* What was sent before the request was there answers something else. */
		if (after(p->ack, s->request_seq) && !is_tickets(skb, s, p))
			response_begins(skb, sk, s, row, p, now);
		return;
	}
	if (!s->events)
		return;
	record(&row->times[OBSERVE_GAP], microseconds(s->event_ns, now));
	s->event_ns = now;
}

/* A reset, or the end of what the server says. Whatever was asked will not be answered any more. */
static always void connection_ends(struct observe_sock *s, struct observe_row *row, const struct packet *p, bool leaves,
				   bool of_request)
{
	if (p->tcp_flags & TCP_RST) {
		if (!s->ended)
			add(leaves ? &row->resets_sent : &row->resets_received, 1);
		s->ended = 1;
	} else if (of_request) {
		return; /* it may be answered yet; else close() counts it */
	}
	if (s->waiting)
		add(&row->unanswered, 1);
	s->waiting = 0;
}

/* A connection that was there before us, or whose owner only a packet can tell. */
static always void settle_late(struct __sk_buff *skb, struct bpf_sock *sk, struct observe_sock *s)
{
	__u32 zero = 0, *ready = bpf_map_lookup_elem(&chaos_obs_ready, &zero);
	struct bpf_tcp_sock *tcp;
	struct observe_row *row;

	if (!s->known) {
		if (!ready || !*ready)
			return;
		learn_from_packet(skb, s);
	}
	if (s->side == CHAOS_SIDE_UNKNOWN)
		s->side = CHAOS_SIDE_CLIENT;
	settle_row_of_sock(s, sk);
	row = row_of(s);
	if (!row)
		return;
	tcp = bpf_tcp_sock(sk);
	if (s->fresh)
		add(&row->connections, 1);
	else if (tcp)
		s->retransmits = tcp->total_retrans; /* those of earlier are not ours to count */
	s->fresh = 0;
}

static always void measure(struct __sk_buff *skb, struct bpf_sock *sk, struct observe_sock *s, struct observe_row *row,
			   bool leaves)
{
	const bool of_request = (s->side == CHAOS_SIDE_CLIENT) == leaves;
	struct bpf_tcp_sock *tcp;
	struct packet p = {};
	__u32 bytes = 0;
	bool new;

	if (!parse(skb, &p, 0))
		return;
	if (!p.payload && !(p.tcp_flags & (TCP_FIN | TCP_RST)))
		return;
	if (leaves) {
		tcp = bpf_tcp_sock(sk);
		if (tcp)
			take_retransmits(s, row, tcp->total_retrans);
	}
	if (p.payload && !(p.tcp_flags & TCP_RST)) {
		new = of_request ? is_new(s, OBSERVE_SEEN_REQUEST, &s->request_high, &p, &bytes)
				 : is_new(s, OBSERVE_SEEN_RESPONSE, &s->response_high, &p, &bytes);
		if (new)
			add(leaves ? &row->bytes_sent : &row->bytes_received, bytes);
		if (new &&of_request)
			request_payload(skb, s, row, &p);
		else if (new)
			response_payload(skb, sk, s, row, &p);
	}
	if (p.tcp_flags & (TCP_FIN | TCP_RST))
		connection_ends(s, row, &p, leaves, of_request);
}

/* A peer that refuses, where the socket's own error cannot be read. */
static always void answer_to_syn(struct __sk_buff *skb, struct observe_sock *s)
{
	struct packet p = {};

	if (!knobs.socket_error && s->connecting == 2 && parse(skb, &p, 0) && p.tcp_flags & TCP_RST)
		s->refused = 1;
}

static always int packet(struct __sk_buff *skb, bool leaves)
{
	struct observe_sock *s;
	struct observe_row *row;
	struct bpf_sock *sk;

	sk = skb->sk;
	if (!sk)
		return PASS;
	sk = bpf_sk_fullsock(sk);
	if (!sk || sk->type != SOCK_STREAM || sk->protocol != IPPROTO_TCP || sk->state == BPF_TCP_LISTEN)
		return PASS;
	s = sock_state(sk);
	if (!s || s->row == OBSERVE_NOBODY)
		return PASS; /* nearly all packets of nearly all connections */
	if (sk->state == BPF_TCP_SYN_SENT) {
		if (!leaves)
			answer_to_syn(skb, s);
		return PASS;
	}
	if (!s->row)
		settle_late(skb, sk, s);
	row = row_of(s);
	if (row)
		measure(skb, sk, s, row, leaves);
	return PASS;
}

SEC("cgroup_skb/egress")
int chaos_obs_out(struct __sk_buff *skb)
{
	return packet(skb, true);
}

SEC("cgroup_skb/ingress")
int chaos_obs_in(struct __sk_buff *skb)
{
	return packet(skb, false);
}

/* ---- children of a process that is named ---------------------------------------------------------------------------- */

SEC("raw_tp/sched_process_fork")
int chaos_obs_fork(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *parent = (void *)ctx->args[0], *child = (void *)ctx->args[1];
	__u32 parent_pid = BPF_CORE_READ(parent, tgid), child_pid = BPF_CORE_READ(child, tgid);
	__u8 yes = 1;

	if (parent_pid != child_pid && bpf_map_lookup_elem(&chaos_obs_pids, &parent_pid))
		bpf_map_update_elem(&chaos_obs_pids, &child_pid, &yes, BPF_ANY);
	return 0;
}

SEC("raw_tp/sched_process_exit")
int chaos_obs_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (void *)ctx->args[0];
	__u32 pid = BPF_CORE_READ(task, tgid);

	if (!BPF_CORE_READ(task, signal, live.counter))
		bpf_map_delete_elem(&chaos_obs_pids, &pid);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
