// SPDX-License-Identifier: GPL-2.0-only
/* `fault`: what a rule does, and which faults, sides and directions make sense together. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/names.h"
#include "user/rules/explain.h"
#include "user/rules/rules_parse.h"

#define HAS(fault, which) ((fault)->faults & (1U << (which)))
#define ALL_PPM           1000000

#define MAX_EVERY 1000000 /* packets; of a burst's mean length as well */

static int key_every(struct parser *p, const struct node *node, void *target)
{
	struct fault *fault = target;
	uint64_t every = 0;
	int err;

	err = value_number(p, node, 2, MAX_EVERY, &every);
	fault->loss = CHAOS_LOSS_EVERY;
	fault->drop_every = (uint32_t)every;
	return err;
}

static int key_burst_loss(struct parser *p, const struct node *node, void *target)
{
	struct fault *fault = target;
	int err;

	err = value_percent(p, node, &fault->drop_ppm);
	if (!err && (fault->drop_ppm == 0 || fault->drop_ppm == ALL_PPM))
		err = fail(p, node->mark, "loss '%s' leaves no room for bursts, it must be between 0 and 100",
			   show(p, node->text));
	return err;
}

static int key_burst_length(struct parser *p, const struct node *node, void *target)
{
	struct fault *fault = target;
	uint64_t length = 0;
	int err;

	err = value_number(p, node, 1, MAX_EVERY, &length);
	fault->burst_length = (uint32_t)length;
	return err;
}

/* So much loss in such bursts: between two bursts there must be room for one packet at least. */
static int key_burst(struct parser *p, const struct node *node, void *target)
{
	static const struct key keys[] = {
		{ "loss", key_burst_loss, 0 },
		{ "length", key_burst_length, 0 },
		{ NULL, NULL, 0 },
	};
	struct fault *fault = target;
	char loss[32];
	int err;

	fault->loss = CHAOS_LOSS_BURST;
	err = map_parse(p, node, "a map such as { loss: 2%, length: 5 }", keys, fault);
	if (err)
		return err;
	if (!node_get(node, "loss") || !node_get(node, "length"))
		return fail(p, node->mark, "'burst' needs both 'loss' and 'length', as in { loss: 2%%, length: 5 }");
	if (fault->drop_ppm > (uint64_t)fault->burst_length * (ALL_PPM - fault->drop_ppm))
		return fail(p, node_get(node, "length")->mark, "a loss of %s needs bursts of %u packets at least",
			    format_percent(loss, sizeof(loss), fault->drop_ppm),
			    (ALL_PPM - 1) / (ALL_PPM - fault->drop_ppm));
	return 0;
}

/* `drop: { every: 10 }` or `drop: { burst: { loss: 2%, length: 5 } }` */
static int drop_model(struct parser *p, const struct node *node, struct fault *fault)
{
	static const struct key keys[] = {
		{ "every", key_every, 0 },
		{ "burst", key_burst, 0 },
		{ NULL, NULL, 0 },
	};
	int err;

	err = map_parse(p, node, "a map such as { every: 10 }", keys, fault);
	if (!err && node->count != 1)
		err = fail(p, node->mark, "'drop' takes one of 'every' and 'burst'");
	return err;
}

/* A duration that is not nothing. */
static int key_time(struct parser *p, const struct node *node, void *target)
{
	uint64_t *ns = target;
	int err;

	err = value_duration(p, node, CHAOS_MAX_DELAY_NS, ns);
	if (!err && *ns == 0)
		err = fail(p, node->mark, "%s '%s' does nothing, it must be more than 0", node->label,
			   show(p, node->text));
	return err;
}

/* `true`, or the chance of each packet; it may move where `ramp` is given. */
static int value_chance(struct parser *p, const struct node *node, uint32_t *ppm, struct ramp *ramp)
{
	static const char expected[] = "true, or each packet's chance such as 5%";
	const char *text;
	int err;

	err = value_text(p, node, expected, &text);
	if (err)
		return err;
	*ppm = ALL_PPM;
	if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
		return value_true(p, node);
	if (ramp && strstr(text, ".."))
		return percent_ramped(p, node, ppm, ramp);
	if (parse_percent(text, ppm))
		return fail(p, node->mark, "invalid %s '%s', expected %s", node->label, show(p, text), expected);
	if (*ppm == 0)
		return fail(p, node->mark, "%s '%s' does nothing, it must be more than 0", node->label, show(p, text));
	return 0;
}

static int key_drop(struct parser *p, const struct node *node, void *target)
{
	struct fault *fault = target;
	int err;

	fault->faults |= 1U << CHAOS_DROP;
	if (node->kind == NODE_MAP)
		return drop_model(p, node, fault);
	err = value_chance(p, node, &fault->drop_ppm, &fault->drop_ramp);
	fault->drop_all = fault->drop_ppm == ALL_PPM && !fault->drop_ramp.over_ns;
	return err;
}

static int key_duplicate(struct parser *p, const struct node *node, void *target)
{
	struct fault *fault = target;

	fault->faults |= 1U << CHAOS_DUPLICATE;
	return value_chance(p, node, &fault->duplicate_ppm, NULL);
}

static int key_corrupt(struct parser *p, const struct node *node, void *target)
{
	struct fault *fault = target;

	fault->faults |= 1U << CHAOS_CORRUPT;
	return value_chance(p, node, &fault->corrupt_ppm, NULL);
}

#define REORDER_NS 20000000 /* by default: longer than what is sent at once takes on a network nearby */

static int key_reorder_percent(struct parser *p, const struct node *node, void *target)
{
	struct fault *fault = target;

	return value_chance(p, node, &fault->reorder_ppm, NULL);
}

static int key_reorder(struct parser *p, const struct node *node, void *target)
{
	static const struct key keys[] = {
		{ "percent", key_reorder_percent, 0 },
		{ "by", key_time, offsetof(struct fault, reorder_ns) },
		{ NULL, NULL, 0 },
	};
	struct fault *fault = target;
	int err;

	fault->faults |= 1U << CHAOS_REORDER;
	fault->reorder_ns = REORDER_NS;
	if (node->kind != NODE_MAP)
		return key_reorder_percent(p, node, fault);
	err = map_parse(p, node, "a percentage, or a map such as { percent: 10, by: 20ms }", keys, fault);
	if (!err && !node_get(node, "percent"))
		err = fail(p, node->mark, "'reorder' needs 'percent', as in { percent: 10, by: 20ms }");
	return err;
}

#define MIN_RATE_BITS 1000
#define MAX_RATE_BITS 1000000000000ULL

static int key_rate(struct parser *p, const struct node *node, void *target)
{
	static const char expected[] = "bits a second such as 1mbit or 500kbit, or bytes such as 64kbps";
	struct fault *fault = target;
	const char *text;
	int err;

	err = value_text(p, node, expected, &text);
	if (err)
		return err;
	fault->faults |= 1U << CHAOS_RATE;
	err = parse_rate(text, &fault->rate_bits);
	if (err == -EINVAL)
		return fail(p, node->mark, "invalid rate '%s', expected %s", show(p, text), expected);
	if (err || fault->rate_bits < MIN_RATE_BITS || fault->rate_bits > MAX_RATE_BITS)
		return fail(p, node->mark, "rate '%s' is out of range, expected 1kbit to 1tbit", show(p, text));
	return 0;
}

/* Events that a server sends: more than one in ten minutes. */
static int key_tokens(struct parser *p, const struct node *node, void *target)
{
	struct fault *fault = target;
	uint64_t count = 0, window_ns = 0;
	int err;

	fault->faults |= 1U << CHAOS_TOKENS;
	err = value_per_time(p, node, &count, &window_ns);
	if (err)
		return err;
	fault->token_ns = window_ns / count;
	if (fault->token_ns > CHAOS_MAX_DELAY_NS)
		return fail(p, node->mark, "tokens '%s' is out of range, at least 6/h", show(p, node->text));
	return 0;
}

static int read_delay(struct parser *p, const struct node *node, uint64_t *ns)
{
	return value_duration(p, node, CHAOS_MAX_DELAY_NS, ns);
}

static int key_delay(struct parser *p, const struct node *node, void *target)
{
	struct fault *fault = target;
	int err;

	fault->faults |= 1U << CHAOS_DELAY;
	err = value_ramped(p, node, read_delay, &fault->delay_ns, &fault->delay_ramp);
	if (!err && !fault->delay_ramp.over_ns)
		err = key_time(p, node, &fault->delay_ns);
	return err;
}

static int key_distribution(struct parser *p, const struct node *node, void *target)
{
	enum chaos_distribution *distribution = target;
	unsigned int index;
	int err;

	err = value_choice(p, node, distribution_names, &index);
	if (!err)
		*distribution = index;
	return err;
}

static int key_refuse(struct parser *p, const struct node *node, void *target)
{
	struct fault *fault = target;
	unsigned int index;
	int err;

	err = value_choice(p, node, refuse_names, &index);
	if (err)
		return err;
	fault->faults |= 1U << CHAOS_REFUSE;
	fault->refuse = refuse_errnos[index];
	return 0;
}

static int key_inside(struct parser *p, const struct node *node, void *target)
{
	bool *inside = target;

	*inside = true;
	return value_true(p, node);
}

/* `reset: true` or `reset: { inside: true }` */
static int key_reset(struct parser *p, const struct node *node, void *target)
{
	static const struct key keys[] = {
		{ "inside", key_inside, offsetof(struct fault, reset_inside) },
		{ NULL, NULL, 0 },
	};
	struct fault *fault = target;
	int err;

	fault->faults |= 1U << CHAOS_RESET;
	if (node->kind != NODE_MAP)
		return value_true(p, node);
	err = map_parse(p, node, "true, or a map such as { inside: true }", keys, fault);
	if (!err && !fault->reset_inside)
		err = fail(p, node->mark, "'reset' takes 'true' or { inside: true }");
	return err;
}

static int key_tls_stall(struct parser *p, const struct node *node, void *target)
{
	struct fault *fault = target;

	fault->faults |= 1U << CHAOS_TLS_STALL;
	return value_true(p, node);
}

static int key_idle(struct parser *p, const struct node *node, void *target)
{
	uint64_t *ns = target;
	int err = value_duration(p, node, RULES_MAX_DURATION_NS, ns);

	if (!err && *ns == 0)
		err = fail(p, node->mark, "%s '%s' forgets every connection at once, it must be more than 0",
			   node->label, show(p, node->text));
	return err;
}

static int key_break_how(struct parser *p, const struct node *node, void *target)
{
	enum chaos_break_how *how = target;
	unsigned int index;
	int err = value_choice(p, node, break_how_names, &index);

	if (!err)
		*how = index;
	return err;
}

static int key_idle_how(struct parser *p, const struct node *node, void *target)
{
	enum chaos_break_how *how = target;
	int err = key_break_how(p, node, how);

	if (!err && *how != CHAOS_BREAK_STALL && *how != CHAOS_BREAK_RESET)
		err = fail(p, node->mark,
			   "invalid how '%s': a connection that was forgotten is answered by 'reset', or not "
			   "('stall')",
			   break_how_names[*how]);
	return err;
}

static int key_half_open(struct parser *p, const struct node *node, void *target)
{
	static const struct key keys[] = {
		{ "idle", key_idle, offsetof(struct fault, idle_ns) },
		{ "how", key_idle_how, offsetof(struct fault, idle_how) },
		{ NULL, NULL, 0 },
	};
	struct fault *fault = target;
	int err;

	fault->faults |= 1U << CHAOS_HALF_OPEN;
	fault->idle_how = CHAOS_BREAK_STALL;
	if (node->kind == NODE_TEXT)
		return key_idle(p, node, &fault->idle_ns);
	err = map_parse(p, node, "a map such as { idle: 120s }", keys, fault);
	if (!err && !fault->idle_ns)
		err = fail(p, node->mark, "'half-open' needs 'idle', as in { idle: 120s }");
	return err;
}

#define MAX_CHUNKS      1000000
#define BREAK_MAX_BYTES (1ULL << 30) /* sequence numbers begin again after four times as many */

static int key_break_bytes(struct parser *p, const struct node *node, void *target)
{
	uint64_t *bytes = target;
	int err = value_size(p, node, "a size such as 4096, 4KiB or 1MB", BREAK_MAX_BYTES, "too much, at most 1GiB",
			     bytes);

	if (!err && *bytes == 0)
		err = fail(p, node->mark, "%s '%s' lets nothing by, use 'reset' with 'direction: response'",
			   node->label, show(p, node->text));
	return err;
}

static int key_break_time(struct parser *p, const struct node *node, void *target)
{
	uint64_t *ns = target;
	int err = value_duration(p, node, RULES_MAX_DURATION_NS, ns);

	if (!err && *ns == 0)
		err = fail(p, node->mark, "time '%s' lets nothing by, it must be more than 0", show(p, node->text));
	return err;
}

int key_chunks(struct parser *p, const struct node *node, void *target)
{
	uint32_t *chunks = target;
	uint64_t count;
	int err = value_number(p, node, 1, MAX_CHUNKS, &count);

	*chunks = err ? 0 : (uint32_t)count;
	return err;
}

static int key_break_after(struct parser *p, const struct node *node, void *target)
{
	static const struct key keys[] = {
		{ "bytes", key_break_bytes, offsetof(struct fault, break_bytes) },
		{ "time", key_break_time, offsetof(struct fault, break_ns) },
		{ "chunks", key_chunks, offsetof(struct fault, break_chunks) },
		{ "how", key_break_how, offsetof(struct fault, break_how) },
		{ NULL, NULL, 0 },
	};
	struct fault *fault = target;
	int err;

	fault->faults |= 1U << CHAOS_BREAK_AFTER;
	if (node->kind == NODE_TEXT)
		return key_break_bytes(p, node, &fault->break_bytes);
	err = map_parse(p, node, "a map such as { bytes: 4KiB }", keys, fault);
	if (!err && !!fault->break_bytes + !!fault->break_ns + !!fault->break_chunks != 1)
		err = fail(p, node->mark, "'break-after' takes one of 'bytes', 'time' and 'chunks'");
	return err ? err : stream_break(p, node, fault);
}

static int key_accept_silence(struct parser *p, const struct node *node, void *target)
{
	struct fault *fault = target;

	fault->faults |= 1U << CHAOS_ACCEPT_SILENCE;
	return value_true(p, node);
}

static int key_dns(struct parser *p, const struct node *node, void *target)
{
	struct fault *fault = target;
	unsigned int index;
	int err = value_choice(p, node, dns_names, &index);

	if (err)
		return err;
	fault->faults |= 1U << CHAOS_DNS;
	fault->dns = index;
	return 0;
}

const struct key fault_keys[] = {
	{ "drop", key_drop, 0 },
	{ "delay", key_delay, 0 },
	{ "jitter", key_time, offsetof(struct fault, jitter_ns) },
	{ "distribution", key_distribution, offsetof(struct fault, distribution) },
	{ "refuse", key_refuse, 0 },
	{ "reset", key_reset, 0 },
	{ "accept-silence", key_accept_silence, 0 },
	{ "tls-stall", key_tls_stall, 0 },
	{ "half-open", key_half_open, 0 },
	{ "rate", key_rate, 0 },
	{ "tokens", key_tokens, 0 },
	{ "break-after", key_break_after, 0 },
	{ "corrupt", key_corrupt, 0 },
	{ "duplicate", key_duplicate, 0 },
	{ "reorder", key_reorder, 0 },
	{ "dns", key_dns, 0 },
	{ "status", key_http_status, 0 },
	{ "retry-after", key_retry_after, 0 },
	{ "body", key_http_body, 0 },
	{ "as", key_as, 0 },
	{ "hang", key_hang, 0 },
	{ "error-event", key_error_event, 0 },
	{ "drop-done", key_drop_done, 0 },
	{ "garble", key_garble, 0 },
	{ "grpc", key_grpc, 0 },
	{ "gpu-oom", key_gpu_oom, 0 },
	{ "call", key_call, 0 },
	{ "errno", key_errno, 0 },
	{ NULL, NULL, 0 },
};

/* Where a ramp leads, or where it comes from. */
static uint64_t larger_delay(const struct fault *fault)
{
	if (fault->delay_ramp.over_ns && fault->delay_ramp.to > fault->delay_ns)
		return fault->delay_ramp.to;
	return fault->delay_ns;
}

/* The tails of normal and pareto are cut at four times the jitter. */
bool delay_holds_answers(const struct match *match)
{
	return match->side == CHAOS_SIDE_CLIENT && match->directions == CHAOS_RESPONSE;
}

uint64_t fault_longest_delay(const struct fault *fault)
{
	return larger_delay(fault) + fault->jitter_ns * (fault->distribution == CHAOS_UNIFORM ? 1 : 4) +
	       fault->reorder_ns;
}

static int check_delay(struct parser *p, const struct node *node, const struct fault *fault)
{
	const struct node *jitter = node_get(node, "jitter"), *distribution = node_get(node, "distribution");

	if (jitter && !HAS(fault, CHAOS_DELAY))
		return fail(p, jitter->key_mark, "'jitter' needs 'delay'");
	if (distribution && !jitter)
		return fail(p, distribution->key_mark, "'distribution' needs 'jitter'");
	if (!jitter)
		return 0;
	if (fault->jitter_ns > larger_delay(fault))
		return fail(p, jitter->mark, "jitter '%s' is longer than the delay, '%s'", show(p, jitter->text),
			    show(p, node_get(node, "delay")->text));
	if (fault_longest_delay(fault) - fault->reorder_ns > CHAOS_MAX_DELAY_NS)
		return fail(p, jitter->mark, "delay and %sjitter '%s' together are longer than 10 min",
			    fault->distribution == CHAOS_UNIFORM ? "" : "four times the ", show(p, jitter->text));
	return 0;
}

/* Faults that leave nothing for another to act on. */
static int check_alone(struct parser *p, const struct node *node, const struct fault *fault)
{
	static const struct {
		enum chaos_fault fault;
		const char *why;
	} alone[] = {
		{ CHAOS_REFUSE, "a connection that is refused has no packets" },
		{ CHAOS_ACCEPT_SILENCE, "nothing is said on a silent connection" },
		{ CHAOS_TLS_STALL, "nothing is said before the handshake" },
		{ CHAOS_GRPC, "it is decided for each answer, they before" },
		{ CHAOS_DNS, "it is about questions for names, they about connections" },
	};

	for (size_t i = 0; i < sizeof(alone) / sizeof(alone[0]); i++) {
		const char *name = fault_names[alone[i].fault];

		if (HAS(fault, alone[i].fault) && fault->faults != 1U << alone[i].fault)
			return fail(p, node_get(node, name)->key_mark, "'%s' goes with no other fault: %s", name,
				    alone[i].why);
	}
	return 0;
}

/* Faults of single packets need packets that are not lost, and may not hold them for ever. */
static int check_damage(struct parser *p, const struct node *node, const struct fault *fault)
{
	static const enum chaos_fault damages[] = { CHAOS_DUPLICATE, CHAOS_CORRUPT, CHAOS_REORDER, CHAOS_RATE,
						    CHAOS_TOKENS };

	for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		const char *name = fault_names[damages[i]];

		if (HAS(fault, damages[i]) && fault->drop_all)
			return fail(p, node_get(node, name)->key_mark,
				    "'%s' and 'drop: true' contradict each other: no packet is left for it", name);
	}
	if (fault_longest_delay(fault) > CHAOS_MAX_DELAY_NS)
		return fail(p, node_get(node, "reorder")->mark,
			    "'delay' and 'reorder' together hold packets longer than 10 min");
	return 0;
}

int key_fault(struct parser *p, const struct node *node, void *target)
{
	struct fault *fault = target;
	int err;

	fault->mark = node->mark;
	err = map_parse(p, node, "a map such as { delay: 8s }", fault_keys, fault);
	if (!err)
		err = check_delay(p, node, fault);
	if (err)
		return err;
	if (!fault->faults)
		return fail(p, node->mark, "no fault here, expected one such as drop, delay, refuse or reset");
	err = check_alone(p, node, fault);
	if (!err)
		err = answer_check(p, node, fault);
	if (err)
		return err;
	if (HAS(fault, CHAOS_DELAY) && fault->drop_all)
		return fail(p, node_get(node, "delay")->key_mark,
			    "'delay' and 'drop: true' contradict each other: nothing arrives that could be late");
	if (HAS(fault, CHAOS_HALF_OPEN) && fault->drop_all)
		return fail(p, node_get(node, "half-open")->key_mark,
			    "'half-open' and 'drop: true' contradict each other: no connection gets as far");
	if (HAS(fault, CHAOS_BREAK_AFTER) && (fault->drop_all || HAS(fault, CHAOS_RESET)))
		return fail(p, node_get(node, "break-after")->key_mark,
			    "'break-after' and '%s: true' contradict each other: there is no response to break",
			    fault->drop_all ? "drop" : "reset");
	if (HAS(fault, CHAOS_RESET) && fault->drop_all)
		return fail(p, node_get(node, "reset")->key_mark,
			    "'reset' and 'drop: true' contradict each other: the client would not hear of it");
	return check_damage(p, node, fault);
}

/* The place of a key of `match`, or of the rule when it is not written. */
static struct mark match_mark(const struct node *node, const char *key)
{
	const struct node *match = node_get(node, "match");
	const struct node *found = match ? node_get(match, key) : NULL;

	return found ? found->mark : node->mark;
}

/* Decided once for a connection, in whatever units other rules of the file think. */
static int check_per_connection(struct parser *p, const struct node *node, struct rule *rule, enum chaos_fault fault)
{
	const struct node *per = node_get(node, "per");

	if (rule->per != CHAOS_PER_CONNECTION && per)
		return fail(p, per->mark, "'per: %s' makes no sense with '%s', decided once for each connection",
			    per_names[rule->per], fault_names[fault]);
	rule->per = CHAOS_PER_CONNECTION;
	return 0;
}

/* refuse happens at connect(), before there are packets and at the client only. */
static int check_refuse(struct parser *p, const struct node *node, struct rule *rule)
{
	int err = check_per_connection(p, node, rule, CHAOS_REFUSE);

	if (err)
		return err;
	if (rule->match.side == CHAOS_SIDE_SERVER)
		return fail(p, match_mark(node, "side"),
			    "'refuse' is for the client; the server has 'drop' and 'reset'");
	if (rule->match.directions != CHAOS_BOTH)
		return fail(p, match_mark(node, "direction"),
			    "'direction' makes no sense with 'refuse': no packet is ever sent");
	return 0;
}

/* Does the rule ask for UDP itself? One without `protocol` is content with TCP. */
static bool asks_udp(const struct node *node, const struct match *match)
{
	const struct node *match_node = node_get(node, "match");

	return match_node && node_get(match_node, "protocol") && match->protocols & 1U << CHAOS_UDP;
}

/* What arrives waits for TCP only, where tc can tell whose it is: a rule about nothing else is about TCP alone. */
static int check_arriving(struct parser *p, const struct node *node, struct match *match, enum chaos_fault fault)
{
	if (asks_udp(node, match))
		return fail(p, match_mark(node, "protocol"),
			    "'%s' of packets that arrive is for tcp only: leave udp out, or name the other end",
			    fault_names[fault]);
	match->protocols = 1U << CHAOS_TCP;
	return 0;
}

/* A request is held where it leaves; so is a response at the server, and one that arrives at the client waits there. */
static int check_delay_direction(struct parser *p, const struct node *node, struct rule *rule)
{
	struct match *match = &rule->match;

	if (delay_holds_answers(match)) {
		const struct node *per = node_get(node, "per");

		if (rule->per == CHAOS_PER_PACKET)
			return fail(p, per ? per->mark : node->mark,
				    "packets that arrive are not held one by one: leave 'per: packet' out, or use "
				    "'direction: request', or 'side: server' at the other end");
		return check_arriving(p, node, match, CHAOS_DELAY);
	}
	if (match->side == CHAOS_SIDE_SERVER && match->directions == CHAOS_REQUEST)
		return fail(p, match_mark(node, "direction"),
			    "the request is not delayed at the server; a delayed response looks the same from outside: "
			    "use 'direction: response', or 'side: client' at the other end");
	return 0;
}

static int check_pace(struct parser *p, const struct node *node, struct rule *rule, enum chaos_fault fault)
{
	struct match *match = &rule->match;
	const enum chaos_direction leaves = match->side == CHAOS_SIDE_CLIENT ? CHAOS_REQUEST : CHAOS_RESPONSE;
	unsigned int paced = match->directions & (fault == CHAOS_TOKENS ? CHAOS_RESPONSE : CHAOS_BOTH);
	int err = check_per_connection(p, node, rule, fault);

	if (err)
		return err;
	if (!paced)
		return fail(p, match_mark(node, "direction"), "'tokens' are what a server sends: a request has none");
	return paced & leaves ? 0 : check_arriving(p, node, match, fault);
}

/* For faults of connections, which UDP does not have; without `protocol` the rule is about TCP alone. */
static int check_tcp(struct parser *p, const struct node *node, struct match *match, enum chaos_fault fault,
		     const char *why)
{
	if (asks_udp(node, match))
		return fail(p, match_mark(node, "protocol"), "'%s' is for tcp only, udp has no %s", fault_names[fault],
			    why);
	match->protocols = 1U << CHAOS_TCP;
	return 0;
}

/* Faults that make a connection silent from some point on: both directions, or there would be answers. */
static int check_silence(struct parser *p, const struct node *node, struct rule *rule, enum chaos_fault fault,
			 const char *why)
{
	int err = check_per_connection(p, node, rule, fault);

	if (!err)
		err = check_tcp(p, node, &rule->match, fault, why);
	if (!err && rule->match.directions != CHAOS_BOTH)
		err = fail(p, match_mark(node, "direction"), "'direction' makes no sense with '%s', use 'drop: true'",
			   fault_names[fault]);
	return err;
}

/* The names are those that are asked for. Ports are those of the servers, and say nothing of questions. */
static int check_dns(struct parser *p, const struct node *node, struct rule *rule)
{
	const struct endpoint *endpoint = &rule->match.endpoint;
	const struct node *per = node_get(node, "per");

	if (endpoint->hosts_count)
		return fail(p, endpoint->hosts[0].mark, "'dns' is about names that are asked for, not about addresses");
	if (rule->match.side == CHAOS_SIDE_SERVER)
		return fail(p, match_mark(node, "side"), "'dns' is for the client, which asks for names");
	if (rule->match.directions != CHAOS_BOTH)
		return fail(p, match_mark(node, "direction"), "'direction' makes no sense with 'dns'");
	if (per && rule->per == CHAOS_PER_PACKET)
		return fail(p, per->mark, "'per: packet' makes no sense with 'dns', decided once for each question");
	return 0;
}

/* The response is cut unless the rule is about requests alone. */
static int check_break(struct parser *p, const struct node *node, struct rule *rule)
{
	if (rule->match.directions == CHAOS_REQUEST && rule->fault.break_chunks)
		return fail(p, match_mark(node, "direction"), "'chunks' are what a server streams: a request has none");
	if (rule->per == CHAOS_PER_PACKET)
		return fail(p, node_get(node, "per") ? node_get(node, "per")->mark : node->mark,
			    "'per: packet' makes no sense with 'break-after', use 'connection' or 'request'");
	return check_tcp(p, node, &rule->match, CHAOS_BREAK_AFTER, "stream to break");
}

int fault_check(struct parser *p, const struct node *node, struct rule *rule)
{
	struct fault *fault = &rule->fault;
	int err = call_check(p, node, rule);

	if (!err)
		err = http_check(p, node, rule);
	if (!err && HAS(fault, CHAOS_GRPC))
		err = grpc_check(p, node, rule);
	if (!err && HAS(fault, CHAOS_REFUSE))
		err = check_refuse(p, node, rule);
	if (!err && HAS(fault, CHAOS_DELAY))
		err = check_delay_direction(p, node, rule);
	if (!err && HAS(fault, CHAOS_RESET))
		err = check_tcp(p, node, &rule->match, CHAOS_RESET, "connection to reset");
	if (!err && HAS(fault, CHAOS_ACCEPT_SILENCE))
		err = check_silence(p, node, rule, CHAOS_ACCEPT_SILENCE, "connection to accept");
	if (!err && HAS(fault, CHAOS_HALF_OPEN) && fault->idle_how == CHAOS_BREAK_RESET &&
	    rule->match.side == CHAOS_SIDE_SERVER)
		err = fail(p, match_mark(node, "side"), "'how: reset' of 'half-open' is for the client");
	if (!err && HAS(fault, CHAOS_BREAK_AFTER))
		err = check_break(p, node, rule);
	if (!err && HAS(fault, CHAOS_HALF_OPEN))
		err = check_silence(p, node, rule, CHAOS_HALF_OPEN, "connection to forget");
	if (!err && HAS(fault, CHAOS_TLS_STALL))
		err = check_silence(p, node, rule, CHAOS_TLS_STALL, "TLS handshake of its own");
	if (!err && HAS(fault, CHAOS_DNS))
		err = check_dns(p, node, rule);
	else if (!err && rule->match.resolver)
		err = fail(p, match_mark(node, "resolver"),
			   "'resolver' is about questions for names, and goes with 'dns' only");
	if (!err && HAS(fault, CHAOS_RATE))
		err = check_pace(p, node, rule, CHAOS_RATE);
	if (!err && HAS(fault, CHAOS_TOKENS))
		err = check_pace(p, node, rule, CHAOS_TOKENS);
	return err;
}

void fault_free(struct fault *fault)
{
	free(fault->call_library.text);
	free(fault->call_function.text);
	free(fault->path.text);
	free(fault->real_path);
}
