/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Maps, and the decision that every hook asks for: does a rule name this connection, and is its fault done now?
 *
 *	armed?     the control word holds our generation, else nothing happens
 *	choose     the first rule that matches and is in force: kept with the connection until a rule ends or the
 *	           schedule moves on
 *	decide     the dice of `percent`, then the budget of max-hits and max-rate; counted, and told in an event
 *
 * Hooks know mechanics, this file knows meaning. Everything here is inlined into the hooks.
 */
#ifndef CORE_BPF_H
#define CORE_BPF_H

#include "bpf/burst.h"
#include "bpf/kernel.h"
#include "bpf/match.h"
#include "bpf/ramp.h"

extern const volatile struct chaos_knobs knobs;
extern __u32 epoch; /* how many rules have finished: what was chosen before is chosen again */

#define MAP(map_type, map_name, key_type, value_type, entries) \
	struct {                                               \
		__uint(type, map_type);                        \
		__uint(max_entries, entries);                  \
		__type(key, key_type);                         \
		__type(value, value_type);                     \
	} map_name __weak SEC(".maps")

/* Shared by all loads, pinned. */
MAP(BPF_MAP_TYPE_ARRAY, chaos_control, __u32, struct chaos_control, 1);
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct chaos_sock);
} chaos_sock __weak SEC(".maps");

/* Of one load; sizes are set to what it needs before it is loaded. */
MAP(BPF_MAP_TYPE_ARRAY, chaos_rules, __u32, struct chaos_rule, CHAOS_MAX_RULES);
MAP(BPF_MAP_TYPE_ARRAY, chaos_budgets, __u32, struct chaos_budget, CHAOS_MAX_RULES);
MAP(BPF_MAP_TYPE_ARRAY, chaos_schedule, __u32, struct chaos_interval, CHAOS_MAX_INTERVALS);
MAP(BPF_MAP_TYPE_ARRAY, chaos_intervals, __u32, __u32, 1); /* entries of chaos_schedule in use */
MAP(BPF_MAP_TYPE_ARRAY, chaos_finished, __u32, struct chaos_finished, 1);
MAP(BPF_MAP_TYPE_ARRAY, chaos_spread, __u32, struct chaos_spread, CHAOS_DISTRIBUTION_COUNT);
MAP(BPF_MAP_TYPE_PERCPU_ARRAY, chaos_stats, __u32, struct chaos_stats, CHAOS_MAX_RULES);
MAP(BPF_MAP_TYPE_PERCPU_ARRAY, chaos_totals, __u32, struct chaos_totals, 1);

/* The matcher: what a packet or call is, to the set of rules that allow it. */
MAP(BPF_MAP_TYPE_ARRAY, chaos_sets, __u32, struct chaos_vector, 65536);
MAP(BPF_MAP_TYPE_HASH, chaos_pids, __u32, __u32, 65536);
MAP(BPF_MAP_TYPE_HASH, chaos_cgroups, struct chaos_cgroup_key, __u32, 16384);
MAP(BPF_MAP_TYPE_HASH, chaos_users, __u32, __u32, CHAOS_MAX_RULES);
MAP(BPF_MAP_TYPE_HASH, chaos_comms, char[CHAOS_COMM_LEN], __u32, CHAOS_MAX_RULES);
MAP(BPF_MAP_TYPE_HASH, chaos_comm_seen, char[CHAOS_COMM_LEN], struct chaos_comm_rules, 4096);
MAP(BPF_MAP_TYPE_ARRAY, chaos_blank, __u32, struct chaos_comm_rules, 1); /* stays zero: new entries begin so */
MAP(BPF_MAP_TYPE_ARRAY, chaos_patterns, __u32, struct chaos_patterns, 1);
MAP(BPF_MAP_TYPE_ARRAY, chaos_pat_sets, __u32, __u32, CHAOS_MAX_PATTERNS);
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct chaos_address_key);
	__type(value, __u32);
} chaos_hosts __weak SEC(".maps");
MAP(BPF_MAP_TYPE_ARRAY, chaos_ports, __u32, __u32, 65536);
MAP(BPF_MAP_TYPE_ARRAY, chaos_name_sets, __u32, __u32, CHAOS_MAX_NAMES);  /* by number of a name */
MAP(BPF_MAP_TYPE_HASH, chaos_resolved, __u8[16], __u32, CHAOS_MAX_NAMES); /* addresses of names, at load */
MAP(BPF_MAP_TYPE_LRU_HASH, chaos_learned, struct chaos_learned_key, struct chaos_learned, 32768);

MAP(BPF_MAP_TYPE_ARRAY, chaos_http_table, __u32, struct chaos_http_table, 1);

MAP(BPF_MAP_TYPE_HASH, chaos_devices, struct chaos_device_key, struct chaos_device, 16384);
MAP(BPF_MAP_TYPE_HASH, chaos_netns, __u64, __u32, 4096); /* prepared, or reported */
MAP(BPF_MAP_TYPE_LRU_HASH, chaos_flows, struct chaos_flow_key, struct chaos_verdict, 16384);
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1024 * 1024);
} chaos_events __weak SEC(".maps");

/* ---- small things ---------------------------------------------------------------------------------------- */

static always __u64 now_ns(void)
{
	return bpf_ktime_get_boot_ns();
}

/* Also right where an interrupt on the same CPU counts in between. */
static always void count(__u64 *counter)
{
	__sync_fetch_and_add(counter, 1);
}

static always struct chaos_stats *stats_of(__u32 rule)
{
	return bpf_map_lookup_elem(&chaos_stats, &rule);
}

static always struct chaos_rule *rule_of(__u32 rule)
{
	return bpf_map_lookup_elem(&chaos_rules, &rule);
}

/* Does a rule do this fault? What no rule of the load does is not even there: the verifier drops it. */
static always bool does(const struct chaos_rule *r, __u32 fault)
{
	return knobs.faults & 1 << fault && r->faults & 1 << fault;
}

static always bool armed(void)
{
	__u32 zero = 0;
	struct chaos_control *control = bpf_map_lookup_elem(&chaos_control, &zero);

	return control && control->generation == knobs.generation;
}

/* The finaliser of MurmurHash3: every bit of the input reaches every bit of the result. */
static always __u64 mix(__u64 x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdULL;
	x ^= x >> 33;
	x *= 0xc4ceb9fe1a85ec53ULL;
	x ^= x >> 33;
	return x;
}

/* Three numbers to one throw of the dice; the same numbers give the same throw. */
static always __u64 throw(__u64 seed, __u64 a, __u64 b)
{
	return mix(seed ^ mix(a + 0x9e3779b97f4a7c15ULL) ^ mix(b + 0x632be59bd9b4e019ULL) * 3);
}

static always bool chance(__u64 thrown, __u32 ppm)
{
	return ((thrown >> 32) * 1000000) >> 32 < ppm;
}

/* ---- the connection in question --------------------------------------------------------------------------- */

/* Addresses as the socket sees them: what the application named, before any NAT. */
struct flow {
	__u8 peer[16];
	__u8 local[16];
	__u16 peer_port;
	__u16 local_port;
	__u8 protocol; /* enum chaos_protocol */
	__u8 side;
	__u8 spared;
	__u8 any_peer; /* the peer is not known: would any do? */
	__u16 name;    /* of the server, or CHAOS_NAME_OPEN */
	__u8 resolver; /* a question of somebody else, sent by the machine's resolver */
	__u8 pad;
	__u32 allowed; /* set of the rules for a request + 1, when it is about one; 0: it is about the connection */
};

static always bool is_ssh(const struct flow *f)
{
	return f->spared || (f->protocol == CHAOS_TCP && (f->peer_port == 22 || f->local_port == 22));
}

/* ---- choosing a rule -------------------------------------------------------------------------------------- */

static always const struct chaos_vector *set_of(const __u32 *found, __u32 wildcard)
{
	__u32 set = found ? *found : wildcard;

	return bpf_map_lookup_elem(&chaos_sets, &set);
}

static always void add_vector(struct chaos_vector *to, const struct chaos_vector *from)
{
	for (__u64 w = 0; w < CHAOS_WORDS && w < knobs.words; w++)
		to->word[w & (CHAOS_WORDS - 1)] |= from->word[w & (CHAOS_WORDS - 1)];
}

/*
 * The rules for a process name that is seen for the first time: those of the name itself and of every pattern with a
 * `*` that fits. Kept in chaos_comm_seen, so each name pays once; two CPUs may fill in the same, with the same.
 */
static __noinline __attribute__((unused)) int learn_comm(struct chaos_owner *owner)
{
	const struct chaos_vector *rules;
	struct chaos_patterns *patterns;
	struct chaos_comm_rules *all;
	__u32 zero = 0;

	patterns = bpf_map_lookup_elem(&chaos_patterns, &zero);
	all = bpf_map_lookup_elem(&chaos_comm_seen, owner->comm);
	rules = set_of(bpf_map_lookup_elem(&chaos_comms, owner->comm), knobs.wildcard[CHAOS_DIM_COMM]);
	if (!patterns || !all || !rules)
		return 0;
	add_vector(&all->rules, rules);
	for (__u32 w = 0; w < CHAOS_PATTERN_WORDS; w++) {
		__u64 hits = pattern_word(patterns, owner->comm, w);

		for (__u32 lane = 0; lane < 4; lane++) {
			__u32 pattern = 4 * w + lane;

			if (!(hits >> (16 * lane) & 0xffff))
				continue;
			rules = set_of(bpf_map_lookup_elem(&chaos_pat_sets, &pattern), 0);
			if (rules)
				add_vector(&all->rules, rules);
		}
	}
	all->ready = 1;
	return 0;
}

/*
 * Called where a process is met (owner.bpf.h), so that the matcher finds its name looked at already: for patterns that
 * look-up is all there is on the packet's path.
 */
static always void meet_comm(struct chaos_owner *owner)
{
	struct chaos_comm_rules *seen;
	void *blank;
	__u32 zero = 0;

	if (!knobs.patterns)
		return;
	seen = bpf_map_lookup_elem(&chaos_comm_seen, owner->comm);
	if (seen && seen->ready)
		return;
	blank = bpf_map_lookup_elem(&chaos_blank, &zero);
	if (!seen && blank)
		bpf_map_update_elem(&chaos_comm_seen, owner->comm, blank, BPF_NOEXIST);
	learn_comm(owner);
}

static always const struct chaos_vector *comm_rules(struct chaos_owner *owner)
{
	if (knobs.patterns) {
		struct chaos_comm_rules *seen = bpf_map_lookup_elem(&chaos_comm_seen, owner->comm);

		if (seen)
			return &seen->rules;
	}
	return set_of(bpf_map_lookup_elem(&chaos_comms, owner->comm), knobs.wildcard[CHAOS_DIM_COMM]);
}

static always const struct chaos_vector *host_rules(const struct flow *f)
{
	struct chaos_address_key key = { .prefix_len = 128 };

	if (f->any_peer)
		return set_of(NULL, knobs.everything);
	__builtin_memcpy(key.address, f->side == CHAOS_SIDE_SERVER ? f->local : f->peer, sizeof(key.address));
	return set_of(bpf_map_lookup_elem(&chaos_hosts, &key), knobs.wildcard[CHAOS_DIM_ADDRESS]);
}

static always const struct chaos_vector *port_rules(const struct flow *f)
{
	__u32 port = f->side == CHAOS_SIDE_SERVER ? f->local_port : f->peer_port;

	if (f->any_peer)
		return set_of(NULL, knobs.everything);
	return set_of(bpf_map_lookup_elem(&chaos_ports, &port), knobs.wildcard[CHAOS_DIM_PORT]);
}

/* May what the client says next change it? */
static always bool is_unsettled(__u32 name)
{
	return name == CHAOS_NAME_OPEN || name == CHAOS_NAME_HALF;
}

/*
 * The name by which a server is known from its address: that of the last DNS answer that this process got, else the last
 * that anyone got, else what it was when the rules were loaded.
 */
static always __u32 name_of_address(struct flow *f, struct chaos_owner *owner)
{
	struct chaos_learned_key key = { .pid = owner->pid };
	struct chaos_learned *learned;
	__u64 now = now_ns();
	__u32 *resolved;

	__builtin_memcpy(key.address, f->side == CHAOS_SIDE_SERVER ? f->local : f->peer, sizeof(key.address));
	learned = bpf_map_lookup_elem(&chaos_learned, &key);
	if (learned && learned->until_ns > now)
		return learned->name;
	key.pid = 0;
	learned = bpf_map_lookup_elem(&chaos_learned, &key);
	if (learned && learned->until_ns > now)
		return learned->name;
	resolved = bpf_map_lookup_elem(&chaos_resolved, key.address);
	return resolved ? *resolved : CHAOS_NAME_OTHER;
}

/* The rules for the server's name, which hold whatever those for its address say. */
static always const struct chaos_vector *name_rules(struct flow *f, struct chaos_owner *owner)
{
	__u32 name = f->name, *found = NULL;

	if (knobs.names && !f->any_peer) {
		if (name == CHAOS_NAME_OPEN)
			name = name_of_address(f, owner);
		found = bpf_map_lookup_elem(&chaos_name_sets, &name);
	}
	return set_of(found, knobs.nothing);
}

/*
 * The present interval of the schedule: the first that ends after `now`. NULL: the last has passed. How many there are
 * comes from a map: a number known at load would have the verifier follow every path of the search tree.
 */
static always const struct chaos_interval *interval_at(__u64 now)
{
	__u32 zero = 0, first = 0, *intervals = bpf_map_lookup_elem(&chaos_intervals, &zero), last;

	if (!intervals)
		return NULL;
	last = *intervals;
	for (__u32 i = 0; i < 13 && i < knobs.search_steps; i++) { /* 2^13 > CHAOS_MAX_INTERVALS */
		__u32 middle = (first + last) / 2;
		struct chaos_interval *interval;

		if (first >= last)
			break;
		interval = bpf_map_lookup_elem(&chaos_schedule, &middle);
		if (!interval)
			return NULL;
		if (interval->until_ns > now)
			last = middle;
		else
			first = middle + 1;
	}
	return first < *intervals ? bpf_map_lookup_elem(&chaos_schedule, &first) : NULL;
}

struct choice {
	__u32 rule;           /* CHAOS_NO_RULE: none now */
	__u64 valid_until_ns; /* ~0: none ever */
};

/* Fills in every dimension; false when a set is missing, which does not happen in a configuration that was loaded. */
static always bool look_up(struct matcher *m, struct flow *f, struct chaos_owner *owner)
{
	struct chaos_cgroup_key cgroup = { .id = owner->cgroup_id };
	__u32 kind = f->protocol * CHAOS_SIDE_COUNT + f->side;

	if (kind >= CHAOS_KIND_COUNT)
		return false;
	m->kind = set_of(NULL, knobs.http && f->allowed ? f->allowed - 1 : knobs.kind[kind]);
	m->by[CHAOS_DIM_COMM] = comm_rules(owner);
	m->by[CHAOS_DIM_PID] = set_of(bpf_map_lookup_elem(&chaos_pids, &owner->pid), knobs.wildcard[CHAOS_DIM_PID]);
	m->by[CHAOS_DIM_CGROUP] =
		set_of(bpf_map_lookup_elem(&chaos_cgroups, &cgroup), knobs.wildcard[CHAOS_DIM_CGROUP]);
	m->by[CHAOS_DIM_USER] = set_of(bpf_map_lookup_elem(&chaos_users, &owner->uid), knobs.wildcard[CHAOS_DIM_USER]);
	if (knobs.resolvers && f->resolver) /* whoever asked the resolver */
		m->by[CHAOS_DIM_COMM] = m->by[CHAOS_DIM_PID] = m->by[CHAOS_DIM_CGROUP] = m->by[CHAOS_DIM_USER] =
			set_of(NULL, knobs.resolver);
	m->by[CHAOS_DIM_ADDRESS] = host_rules(f);
	m->by[CHAOS_DIM_PORT] = port_rules(f);
	m->name = knobs.names ? name_rules(f, owner) : m->by[CHAOS_DIM_ADDRESS];
	return m->kind && m->name && m->by[CHAOS_DIM_PID] && m->by[CHAOS_DIM_CGROUP] && m->by[CHAOS_DIM_COMM] &&
	       m->by[CHAOS_DIM_USER] && m->by[CHAOS_DIM_ADDRESS] && m->by[CHAOS_DIM_PORT];
}

static always void choose(struct flow *f, struct chaos_owner *owner, struct choice *choice)
{
	const struct chaos_interval *interval;
	struct chaos_finished *finished;
	__u32 zero = 0, found_at = 0;
	__u64 ever = 0, found = 0;
	const struct chaos_vector *later;
	struct matcher m;

	choice->rule = CHAOS_NO_RULE;
	choice->valid_until_ns = ~0ULL;
	finished = bpf_map_lookup_elem(&chaos_finished, &zero);
	interval = interval_at(now_ns());
	if (!finished || !interval || !look_up(&m, f, owner))
		return;
	/* A client's first payload may tell another name than the address does: until then any rule with names may match. */
	later = m.name;
	if (knobs.names && is_unsettled(f->name) && f->protocol == CHAOS_TCP && f->side == CHAOS_SIDE_CLIENT)
		later = set_of(NULL, knobs.named);
	if (!later)
		return;
	for (__u64 w = 0; w < CHAOS_WORDS && w < knobs.words; w++) {
		const __u64 at = w & (CHAOS_WORDS - 1); /* 6.1 loses the bound of a loop that clang rewrote */
		__u64 word = match_word(&m, at);

		ever |= word;
		if (knobs.names)
			ever |= match_word_named(&m, later, at);
		found = word & interval->active.word[at] & ~finished->rules.word[at];
		found_at = w;
		if (found)
			break;
	}
	if (ever || knobs.follows)
		choice->valid_until_ns = interval->until_ns;
	if (found)
		choice->rule = found_at * 64 + lowest_bit(found);
}

/* SSH is how people get back in: a rule that does not name it in words lets it be, and this is counted. */
static always bool spares(const struct flow *f, __u32 rule)
{
	struct chaos_stats *stats = stats_of(rule);
	struct chaos_rule *r = rule_of(rule);

	if (!r || !stats || r->flags & CHAOS_RULE_INCLUDE_SSH)
		return false;
	if (!f->any_peer) {
		count(&stats->matched);
		count(&stats->skipped[CHAOS_SKIP_SSH]);
	}
	return true;
}

/* Numbers the connections of a rule from 1: what the dice are thrown for. */
static always __u64 number_connection(__u32 rule)
{
	struct chaos_budget *budget = bpf_map_lookup_elem(&chaos_budgets, &rule);
	__u64 number;

	if (!budget)
		return 0;
	bpf_spin_lock(&budget->lock);
	number = ++budget->connections;
	bpf_spin_unlock(&budget->lock);
	return number;
}

/* Fills in a verdict for a connection that has none, or whose verdict is out of date. */
static __noinline __attribute__((unused)) int choose_verdict(struct flow *f, struct chaos_owner *owner,
							     struct chaos_verdict *v)
{
	struct chaos_totals *totals;
	struct choice choice = {};
	__u32 zero = 0, new_epoch = epoch;

	choose(f, owner, &choice);
	totals = bpf_map_lookup_elem(&chaos_totals, &zero);
	if (totals) {
		count(&totals->decisions);
		if (!owner->pid)
			count(&totals->unowned);
	}
	if (choice.rule != CHAOS_NO_RULE && is_ssh(f) && spares(f, choice.rule))
		choice.rule = CHAOS_NO_RULE;
	if (v->generation != knobs.generation || v->rule != choice.rule) {
		v->connection = choice.rule == CHAOS_NO_RULE || f->any_peer || (knobs.http && f->allowed)
					? 0
					: number_connection(choice.rule);
		v->rule = choice.rule;
		v->decided = 0;
		v->inject = 0;
		v->fresh = 0;
		if (v->generation) /* else it is from when the rules were loaded, see user/engine/seed.c */
			v->last_packet_ns = 0;
		v->upgrade = 0;
		v->cut = 0;
		v->request = 0;
		v->hold_until_mono_ns = 0;
		v->answer_delay_ns = 0;
		v->pace_until_mono_ns = 0;
		v->loss_packets = 0;
		v->loss_ill = 0;
	}
	v->http = 0;
	v->valid_until_ns = choice.valid_until_ns;
	v->epoch = new_epoch;
	v->generation = knobs.generation;
	return 0;
}

/* Can the verdict be used as it is? One comparison for the many connections that no rule can ever name. */
static always bool verdict_holds(const struct chaos_verdict *v)
{
	if (v->generation != knobs.generation)
		return false;
	if (v->valid_until_ns == ~0ULL)
		return true;
	return v->epoch == epoch && now_ns() < v->valid_until_ns;
}

/*
 * Does a verdict for a request that is out of date still hold, since its rule is in force? A function of its own: what it needs
 * of the stack would not fit into choose_verdict().
 */
static __noinline __attribute__((unused)) bool still_governs(struct chaos_verdict *v)
{
	const struct chaos_interval *interval;
	struct chaos_finished *finished;
	__u32 zero = 0, new_epoch = epoch;
	__u64 word = v->rule / 64;

	if (v->http != CHAOS_HTTP_GOVERNS || v->generation != knobs.generation)
		return false;
	interval = interval_at(now_ns());
	finished = bpf_map_lookup_elem(&chaos_finished, &zero);
	if (!interval || !finished || word >= CHAOS_WORDS)
		return false;
	asm volatile("" : "+r"(word)); /* see finish_rule() */
	word &= CHAOS_WORDS - 1;
	if (!((interval->active.word[word] & ~finished->rules.word[word]) >> v->rule % 64 & 1))
		return false;
	v->valid_until_ns = interval->until_ns;
	v->epoch = new_epoch;
	return true;
}

/*
 * To a verdict for a connection: which is the first rule that is about requests, if it comes before the connection's own? Such
 * rules are not of the sets of kinds.
 */
static __noinline __attribute__((unused)) int add_requests(struct flow *f, struct chaos_owner *owner,
							   struct chaos_verdict *v)
{
	struct choice choice = {};

	f->allowed = knobs.requests + 1;
	choose(f, owner, &choice);
	f->allowed = 0;
	v->http = choice.rule < v->rule ? choice.rule + 1 : 0;
	if (choice.valid_until_ns < v->valid_until_ns)
		v->valid_until_ns = choice.valid_until_ns;
	return 0;
}

/* Chooses again where it has to be. */
static always void refresh_verdict(struct flow *f, struct chaos_owner *owner, struct chaos_verdict *v)
{
	if (verdict_holds(v) || (knobs.http && still_governs(v)))
		return;
	choose_verdict(f, owner, v);
	if (knobs.http && f->protocol == CHAOS_TCP && f->side == CHAOS_SIDE_CLIENT)
		add_requests(f, owner, v);
}

/* A value that may be under way to another: what it is at present. */
static always __u64 at_present(const struct chaos_rule *r, __u64 value, const struct chaos_ramp *ramp)
{
	__u64 now;

	if (!knobs.ramps || !ramp->over_ns)
		return value;
	now = now_ns();
	return ramp_value(value, ramp, now > r->begins_ns ? now - r->begins_ns : 0);
}

/* ---- deciding --------------------------------------------------------------------------------------------- */

/* Takes a rule out of the game for good, and has every connection choose again. */
static always void finish_rule(__u32 rule)
{
	struct chaos_finished *finished;
	__u32 zero = 0, word = rule / 64;

	finished = bpf_map_lookup_elem(&chaos_finished, &zero);
	if (!finished)
		return;
	/* The bound is on the register that is the index: kernels before 6.12 know it of no other. */
	asm volatile("" : "+r"(word));
	word &= CHAOS_WORDS - 1;
	bpf_spin_lock(&finished->lock);
	finished->rules.word[word] |= 1ULL << (rule % 64);
	bpf_spin_unlock(&finished->lock);
	__sync_fetch_and_add(&epoch, 1);
}

/* The sliding window of max-rate; under the lock. */
static always bool rate_allows(struct chaos_budget *b, __u64 now)
{
	__u32 next;

	if (b->slot_used && b->slot_used < b->slot_faults) {
		b->slot_used++;
		return true;
	}
	next = b->slot + 1;
	if (next >= b->slots)
		next = 0;
	next &= CHAOS_RATE_SLOTS - 1;
	/* `now` was read before the lock was had: another CPU may have begun a slot after it. */
	if (b->recent[next] && (now < b->recent[next] || now - b->recent[next] < b->window_ns))
		return false;
	b->recent[next] = now;
	b->slot = next;
	b->slot_used = 1;
	return true;
}

#define TAKEN CHAOS_SKIP_COUNT

/* Spends one fault of a rule, exactly on all CPUs together. Returns TAKEN, or why not. */
static always __u32 take_here(__u32 rule, const struct chaos_rule *r)
{
	struct chaos_budget *b;
	__u32 answer = TAKEN;
	bool last = false;
	__u64 now;

	if (!r->max_hits && !r->rate_window_ns)
		return TAKEN;
	b = bpf_map_lookup_elem(&chaos_budgets, &rule);
	if (!b)
		return CHAOS_SKIP_MAX_HITS;
	now = now_ns();
	bpf_spin_lock(&b->lock);
	if (b->max_hits && b->used >= b->max_hits) {
		answer = CHAOS_SKIP_MAX_HITS;
	} else if (b->window_ns && !rate_allows(b, now)) {
		answer = CHAOS_SKIP_MAX_RATE;
	} else {
		b->used++;
		last = b->max_hits && b->used == b->max_hits;
	}
	bpf_spin_unlock(&b->lock);
	if (last && !(r->flags & CHAOS_RULE_LASTS))
		finish_rule(rule);
	return answer;
}

/* The same, with a stack of its own, for functions that have none left. */
static __noinline __attribute__((unused)) __u32 take(__u32 rule, const struct chaos_rule *r)
{
	return take_here(rule, r);
}

/* What is told of a fault. */
static always void describe(struct chaos_event *e, __u32 rule, const struct flow *f, const struct chaos_owner *owner,
			    const struct chaos_verdict *v, __u32 fault)
{
	__builtin_memset(e, 0, sizeof(*e));
	e->cgroup_id = owner->cgroup_id;
	e->connection = v->connection;
	e->generation = knobs.generation;
	e->rule = rule;
	e->pid = owner->pid;
	e->uid = owner->uid;
	e->request = v->request;
	__builtin_memcpy(e->peer, f->peer, sizeof(e->peer));
	__builtin_memcpy(e->local, f->local, sizeof(e->local));
	e->peer_port = f->peer_port;
	e->local_port = f->local_port;
	e->fault = fault;
	e->protocol = f->protocol;
	e->side = f->side;
	e->kind = CHAOS_EVENT_FAULT;
	__builtin_memcpy(e->comm, owner->comm, sizeof(e->comm));
}

/* Room for an event; NULL: there is none, and that is counted. */
static always struct chaos_event *begin_event(void)
{
	struct chaos_event *e = bpf_ringbuf_reserve(&chaos_events, sizeof(*e), 0);
	struct chaos_totals *totals;
	__u32 zero = 0;

	if (e)
		return e;
	totals = bpf_map_lookup_elem(&chaos_totals, &zero);
	if (totals)
		count(&totals->events_dropped);
	return NULL;
}

/* Tells what was done. */
static always void tell(__u32 rule, const struct flow *f, const struct chaos_owner *owner,
			const struct chaos_verdict *v, __u32 fault, __u64 delay_ns, __s32 error)
{
	struct chaos_event *e = begin_event();

	if (!e)
		return;
	describe(e, rule, f, owner, v, fault);
	e->time_ns = now_ns();
	e->delay_ns = delay_ns;
	e->error = error;
	bpf_ringbuf_submit(e, 0);
}

/* Counts what was decided, TAKEN or why not. Is the fault done? */
static always bool settle(const struct chaos_rule *r, struct chaos_stats *stats, __u64 fault, __u32 reason)
{
	count(&stats->matched);
	if (reason == TAKEN && (r->flags & CHAOS_RULE_OBSERVE))
		reason = CHAOS_SKIP_OBSERVE;
	if (reason != TAKEN) {
		if (reason < CHAOS_SKIP_COUNT)
			count(&stats->skipped[reason]);
		return false;
	}
	count(&stats->injected);
	if (fault == CHAOS_BREAK_CLEAN)
		fault = CHAOS_BREAK_AFTER;
	if (!__builtin_constant_p(fault))
		asm volatile("" : "+r"(fault)); /* see finish_rule() */
	if (fault < CHAOS_FAULT_COUNT)
		count(&stats->faults[fault]);
	return true;
}

/* decide(); with `here` on the stack of the caller. */
static always bool decide_here(__u32 rule, const struct chaos_rule *r, struct chaos_stats *stats, __u32 fault,
			       __u64 unit, bool possible, bool here)
{
	__u32 reason;

	if (!chance(unit, at_present(r, r->percent_ppm, &r->percent_ramp)))
		reason = CHAOS_SKIP_PERCENT;
	else if (!possible)
		reason = fault == CHAOS_BREAK_AFTER                       ? CHAOS_SKIP_ENCRYPTED
			 : 1 << fault & (CHAOS_ANSWERS | 1 << CHAOS_GRPC) ? CHAOS_SKIP_NO_ROOM
									  : CHAOS_SKIP_DEVICE;
	else
		reason = here ? take_here(rule, r) : take(rule, r);
	return settle(r, stats, fault, reason);
}

/*
 * Is the fault done, this time? Counts it as matched and as injected or skipped. `unit` is the throw for whatever
 * `per` names; `possible` is false when the mechanism is missing here.
 */
static always bool decide(__u32 rule, const struct chaos_rule *r, struct chaos_stats *stats, __u32 fault, __u64 unit,
			  bool possible)
{
	return decide_here(rule, r, stats, fault, unit, possible, false);
}

/* Came up for decision, and its own dice said no. */
static always void spare(struct chaos_stats *stats)
{
	count(&stats->matched);
	count(&stats->skipped[CHAOS_SKIP_PERCENT]);
}

/* The throw that `percent` looks at. */
static always __u64 unit_throw(const struct chaos_rule *r, const struct chaos_verdict *v, __u32 packet)
{
	__u64 unit = 0;

	if (knobs.http && v->http == CHAOS_HTTP_GOVERNS)
		unit = 0; /* `connection` numbers the requests that the rule names */
	else if (r->per == CHAOS_PER_REQUEST)
		unit = v->request + 1ULL;
	else if (r->per == CHAOS_PER_PACKET)
		unit = packet + 1ULL;
	return throw(r->seed, v->connection, unit);
}

#endif
