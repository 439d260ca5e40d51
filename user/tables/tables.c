// SPDX-License-Identifier: GPL-2.0-only
#include "user/tables/tables_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "bpf/match.h"

#define MAX_HOSTS 65536

/* cudaErrorMemoryAllocation, CUDA_ERROR_OUT_OF_MEMORY, hipErrorOutOfMemory */
#define GPU_OUT_OF_MEMORY 2

static int no_memory(struct error *err)
{
	return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
}

/* ---- rule sets: equal vectors are kept once ------------------------------------------------------------------- */

static size_t hash(const struct chaos_vector *v)
{
	uint64_t h = 0xcbf29ce484222325ULL;

	for (int w = 0; w < CHAOS_WORDS; w++) {
		h = (h ^ v->word[w]) * 0x100000001b3ULL;
		h ^= h >> 29;
	}
	return h;
}

static int grow_sets(struct tables *t)
{
	size_t room = t->sets_room ? 2 * t->sets_room : 256;
	struct chaos_vector *sets = realloc(t->sets, room / 2 * sizeof(*sets));
	uint32_t *index;

	if (!sets)
		return -ENOMEM;
	t->sets = sets;
	index = malloc(room * sizeof(*index));
	if (!index)
		return -ENOMEM;
	memset(index, 0xff, room * sizeof(*index));
	for (size_t i = 0; i < t->sets_count; i++) {
		size_t at = hash(&sets[i]) & (room - 1);

		while (index[at] != UINT32_MAX)
			at = (at + 1) & (room - 1);
		index[at] = i;
	}
	free(t->sets_index);
	t->sets_index = index;
	t->sets_room = room;
	return 0;
}

int tables_set_number(struct tables *t, const struct chaos_vector *v, uint32_t *number)
{
	size_t at;

	if (t->sets_count >= t->sets_room / 2) {
		int err = grow_sets(t);

		if (err)
			return err;
	}
	for (at = hash(v) & (t->sets_room - 1); t->sets_index[at] != UINT32_MAX; at = (at + 1) & (t->sets_room - 1)) {
		if (memcmp(&t->sets[t->sets_index[at]], v, sizeof(*v)) == 0) {
			*number = t->sets_index[at];
			return 0;
		}
	}
	t->sets[t->sets_count] = *v;
	t->sets_index[at] = t->sets_count;
	*number = t->sets_count++;
	return 0;
}

/* ---- one list of (key, vector) for a dimension, sorted and merged ----------------------------------------------- */

struct entry {
	unsigned char key[32];
	struct chaos_vector rules;
};

struct entries {
	struct entry *list;
	size_t count, room;
	size_t key_size;
	struct chaos_vector wildcard; /* rules that do not ask */
};

static int add_entry(struct entries *e, const void *key, size_t rule)
{
	if (e->count == e->room) {
		size_t room = e->room ? 2 * e->room : 64;
		struct entry *more = realloc(e->list, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		e->list = more;
		e->room = room;
	}
	memset(&e->list[e->count], 0, sizeof(*e->list));
	memcpy(e->list[e->count].key, key, e->key_size);
	set_bit(&e->list[e->count].rules, rule);
	e->count++;
	return 0;
}

static int by_key(const void *a, const void *b)
{
	return memcmp(((const struct entry *)a)->key, ((const struct entry *)b)->key, sizeof(((struct entry *)0)->key));
}

static void merge_entries(struct entries *e)
{
	size_t kept = 0;

	if (!e->count)
		return;
	qsort(e->list, e->count, sizeof(*e->list), by_key);
	for (size_t i = 1; i < e->count; i++) {
		if (by_key(&e->list[kept], &e->list[i]) == 0)
			merge(&e->list[kept].rules, &e->list[i].rules);
		else
			e->list[++kept] = e->list[i];
	}
	e->count = kept + 1;
}

/* Every entry also allows the rules that do not ask; returns the numbers in sets[], the caller's. */
static int number_entries(struct tables *t, struct entries *e, enum chaos_dimension dimension, uint32_t **numbers)
{
	int err = tables_set_number(t, &e->wildcard, &t->knobs.wildcard[dimension]);

	*numbers = calloc(e->count + 1, sizeof(**numbers));
	if (!*numbers)
		return -ENOMEM;
	for (size_t i = 0; i < e->count && !err; i++) {
		struct chaos_vector v = e->list[i].rules;

		merge(&v, &e->wildcard);
		err = tables_set_number(t, &v, &(*numbers)[i]);
	}
	return err;
}

/* Turns entries into the array of pairs of a dimension. */
#define FINISH(t, e, dimension, field)                                                              \
	({                                                                                          \
		uint32_t *numbers_ = NULL;                                                          \
		int err_;                                                                           \
		merge_entries(e);                                                                   \
		err_ = number_entries(t, e, dimension, &numbers_);                                  \
		(t)->field = calloc((e)->count + 1, sizeof(*(t)->field));                           \
		if (!(t)->field)                                                                    \
			err_ = -ENOMEM;                                                             \
		for (size_t i_ = 0; !err_ && i_ < (e)->count; i_++) {                               \
			memcpy(&(t)->field[i_].key, (e)->list[i_].key, sizeof((t)->field[i_].key)); \
			(t)->field[i_].set = numbers_[i_];                                          \
		}                                                                                   \
		(t)->field##_count = (e)->count;                                                    \
		free(numbers_);                                                                     \
		err_;                                                                               \
	})

/* ---- processes, cgroups, users ---------------------------------------------------------------------------------- */

static int make_pids(struct tables *t, const struct target *targets, size_t count)
{
	struct entries e = { .key_size = sizeof(uint32_t) };
	int err = 0;

	for (size_t i = 0; i < count && !err; i++) {
		if (!targets[i].by_pid)
			set_bit(&e.wildcard, i);
		for (size_t k = 0; targets[i].by_pid && k < targets[i].pids_count && !err; k++)
			err = add_entry(&e, &targets[i].pids[k], i);
	}
	if (!err)
		err = FINISH(t, &e, CHAOS_DIM_PID, pids);
	free(e.list);
	return err;
}

/*
 * v2 cgroups lead to sets of the cgroup dimension. v1 cgroups are there for processes that enter later, whose pid then
 * gets the entry's set: sets of the pid dimension.
 */
static int make_cgroups(struct tables *t, const struct target *targets, size_t count)
{
	struct entries e = { .key_size = sizeof(struct chaos_cgroup_key) };
	struct chaos_vector any_pid = { 0 };
	int err = 0;

	for (size_t i = 0; i < count && !err; i++) {
		if (!targets[i].by_cgroup)
			set_bit(&e.wildcard, i);
		if (!targets[i].by_pid)
			set_bit(&any_pid, i);
		for (size_t k = 0; k < targets[i].cgroups_count && !err; k++)
			err = add_entry(&e, &targets[i].cgroups[k], i);
	}
	if (!err)
		err = FINISH(t, &e, CHAOS_DIM_CGROUP, cgroups);
	for (size_t i = 0; i < t->cgroups_count && !err; i++) {
		struct chaos_vector v = e.list[i].rules;

		if (!t->cgroups[i].key.hierarchy)
			continue;
		merge(&v, &any_pid);
		err = tables_set_number(t, &v, &t->cgroups[i].set);
	}
	free(e.list);
	return err;
}

static int make_users(struct tables *t, const struct target *targets, size_t count)
{
	struct entries e = { .key_size = sizeof(uint32_t) };
	int err = 0;

	for (size_t i = 0; i < count && !err; i++) {
		if (!targets[i].by_user)
			set_bit(&e.wildcard, i);
		else
			err = add_entry(&e, &targets[i].uid, i);
	}
	if (!err)
		err = FINISH(t, &e, CHAOS_DIM_USER, users);
	free(e.list);
	return err;
}

/* ---- process names ---------------------------------------------------------------------------------------------- */

/* A bit for each character, a `*` keeps the bit it stands at. */
void tables_add_pattern(struct chaos_patterns *p, size_t lane, const char *pattern)
{
	const size_t word = lane / 4, shift = 16 * (lane % 4);
	unsigned int state = 0;

	p->start[word] |= 1ULL << shift;
	for (; *pattern; pattern++) {
		uint64_t bit = 1ULL << (shift + state);

		if (*pattern == '*') {
			p->star[word] |= bit;
			continue;
		}
		p->step[(unsigned char)*pattern][word] |= bit;
		state++;
	}
	p->accept[word] |= 1ULL << (shift + state);
}

static size_t literal_length(const char *pattern)
{
	size_t len = 0;

	for (; *pattern; pattern++)
		len += *pattern != '*';
	return len;
}

struct pattern_use {
	const char *pattern;
	struct chaos_vector rules;
};

static int use_pattern(struct pattern_use *uses, size_t *count, const struct rules *rules, size_t i, struct error *err)
{
	const struct text *process = &rules->rules[i].match.process;
	size_t k;

	for (k = 0; k < *count && strcmp(uses[k].pattern, process->text) != 0; k++)
		;
	if (k == CHAOS_MAX_PATTERNS)
		return rules_error_at(rules, process->mark, err, EXIT_USAGE,
				      "more than %d different process names with '*'", CHAOS_MAX_PATTERNS);
	if (literal_length(process->text) >= CHAOS_PATTERN_STATES)
		return rules_error_at(rules, process->mark, err, EXIT_USAGE,
				      "process '%s' is longer than the 15 characters that the kernel keeps",
				      process->text);
	if (k == *count)
		uses[(*count)++].pattern = process->text;
	set_bit(&uses[k].rules, i);
	return 0;
}

static int make_comms(struct tables *t, const struct rules *rules, struct error *err)
{
	struct entries e = { .key_size = CHAOS_COMM_LEN };
	struct pattern_use uses[CHAOS_MAX_PATTERNS] = { 0 };
	int ret = 0;

	for (size_t i = 0; i < rules->count && !ret; i++) {
		const char *process = rules->rules[i].match.process.text;
		char key[CHAOS_COMM_LEN] = { 0 };

		if (!process) {
			set_bit(&e.wildcard, i);
		} else if (strchr(process, '*')) {
			ret = use_pattern(uses, &t->patterns_count, rules, i, err);
			if (ret)
				goto out;
		} else {
			memcpy(key, process, strnlen(process, sizeof(key) - 1));
			ret = add_entry(&e, key, i);
		}
	}
	if (!ret)
		ret = FINISH(t, &e, CHAOS_DIM_COMM, comms);
	for (size_t k = 0; k < t->patterns_count && !ret; k++) {
		tables_add_pattern(&t->patterns, k, uses[k].pattern);
		ret = tables_set_number(t, &uses[k].rules, &t->pattern_sets[k]);
	}
	t->knobs.patterns = t->patterns_count > 0;
	if (ret)
		ret = no_memory(err);
out:
	free(e.list);
	return ret;
}

/* ---- addresses and ports ---------------------------------------------------------------------------------------- */

static void mask(struct chaos_address_key *key)
{
	for (unsigned int bit = key->prefix_len; bit < 128; bit++)
		key->address[bit / 8] &= ~(0x80 >> (bit % 8));
}

/* The kernel finds the longest prefix only: each gets the rules of the shorter ones around it. */
static void widen(struct entries *e)
{
	bool used[129] = { false };

	for (size_t i = 0; i < e->count; i++)
		used[((struct chaos_address_key *)e->list[i].key)->prefix_len] = true;
	/* Longest first would merge twice; the rules of a shorter prefix are complete before a longer one asks for them. */
	for (unsigned int len = 1; len <= 128; len++) {
		for (size_t i = 0; used[len] && i < e->count; i++) {
			struct chaos_address_key *own = (struct chaos_address_key *)e->list[i].key;

			if (own->prefix_len != len)
				continue;
			for (int shorter = len - 1; shorter >= 0; shorter--) {
				struct entry around = { 0 };
				struct chaos_address_key key = *own;
				struct entry *found;

				if (!used[shorter])
					continue;
				key.prefix_len = shorter;
				mask(&key);
				memcpy(around.key, &key, sizeof(key));
				found = bsearch(&around, e->list, e->count, sizeof(around), by_key);
				if (found) {
					merge(&e->list[i].rules, &found->rules);
					break; /* it already has those of still shorter ones */
				}
			}
		}
	}
}

static int make_hosts(struct tables *t, const struct rules *rules, struct error *err)
{
	struct entries e = { .key_size = sizeof(struct chaos_address_key) };
	int ret = 0;

	for (size_t i = 0; i < rules->count && !ret; i++) {
		const struct endpoint *endpoint = &rules->rules[i].match.endpoint;

		if (!endpoint->hosts_count && !endpoint->names_count)
			set_bit(&e.wildcard, i);
		for (size_t k = 0; k < endpoint->hosts_count && !ret; k++) {
			struct chaos_address_key key = { .prefix_len = endpoint->hosts[k].prefix_len };

			memcpy(key.address, &endpoint->hosts[k].address, sizeof(key.address));
			mask(&key);
			ret = add_entry(&e, &key, i);
		}
	}
	if (!ret) {
		merge_entries(&e);
		if (e.count > MAX_HOSTS) {
			ret = error_set(err, -E2BIG, EXIT_USAGE, "%s: more than %d different addresses", rules->file,
					MAX_HOSTS);
			goto out;
		}
		widen(&e);
		ret = FINISH(t, &e, CHAOS_DIM_ADDRESS, hosts);
	}
	if (ret)
		ret = no_memory(err);
out:
	free(e.list);
	return ret;
}

/* `dns` is about questions, every other fault about connections. */
static bool asks_names(const struct rule *rule)
{
	return rule->fault.faults & 1 << CHAOS_DNS;
}

static int make_ports(struct tables *t, const struct rules *rules)
{
	struct chaos_vector *by_port = calloc(65536, sizeof(*by_port)), wildcard = { 0 };
	int err = 0;

	t->ports = calloc(65536, sizeof(*t->ports));
	if (!by_port || !t->ports) {
		free(by_port);
		return -ENOMEM;
	}
	for (size_t i = 0; i < rules->count; i++) {
		const struct endpoint *endpoint = &rules->rules[i].match.endpoint;

		bool any = !endpoint->ports_count || asks_names(&rules->rules[i]);

		if (any)
			set_bit(&wildcard, i);
		for (size_t k = 0; !any && k < endpoint->ports_count; k++) {
			for (uint32_t port = endpoint->ports[k].first; port <= endpoint->ports[k].last; port++)
				set_bit(&by_port[port], i);
		}
	}
	err = tables_set_number(t, &wildcard, &t->knobs.wildcard[CHAOS_DIM_PORT]);
	for (size_t port = 0; port < 65536 && !err; port++) {
		if (port && memcmp(&by_port[port], &by_port[port - 1], sizeof(*by_port)) == 0) {
			t->ports[port] = t->ports[port - 1];
			continue;
		}
		/* The next port compares with this one as it was: merge into a copy. */
		struct chaos_vector v = by_port[port];

		merge(&v, &wildcard);
		err = tables_set_number(t, &v, &t->ports[port]);
	}
	free(by_port);
	return err;
}

static int make_kinds(struct tables *t, const struct rules *rules)
{
	int err = 0;

	for (int kind = 0; kind < CHAOS_KIND_COUNT && !err; kind++) {
		struct chaos_vector v = { 0 };

		for (size_t i = 0; i < rules->count; i++) {
			const struct match *m = &rules->rules[i].match;
			const bool query = kind / CHAOS_SIDE_COUNT == CHAOS_QUERY;

			if (rules->rules[i].fault.faults & CHAOS_CALLS || asks_names(&rules->rules[i]) != query)
				continue;
			if (m->http.given) /* see add_requests() in bpf/core.bpf.h */
				continue;
			if (query && (int)m->side == kind % CHAOS_SIDE_COUNT)
				set_bit(&v, i);
			if (!query && m->protocols & 1u << (kind / CHAOS_SIDE_COUNT) &&
			    (int)m->side == kind % CHAOS_SIDE_COUNT)
				set_bit(&v, i);
		}
		err = tables_set_number(t, &v, &t->knobs.kind[kind]);
	}
	return err;
}

/* Which rules fail an operation. */
static int make_operations(struct tables *t, const struct rules *rules)
{
	int err = 0;

	for (int operation = 0; operation < CHAOS_OPERATION_COUNT && !err; operation++) {
		struct chaos_vector v = { 0 };

		for (size_t i = 0; i < rules->count; i++) {
			const struct fault *f = &rules->rules[i].fault;

			if (!(f->faults & 1 << CHAOS_ERRNO) || (int)f->operation != operation)
				continue;
			set_bit(&v, i);
			t->operations |= 1U << operation;
		}
		err = tables_set_number(t, &v, &t->knobs.operations[operation]);
	}
	return err;
}

static int make_probed(struct tables *t, const struct rules *rules)
{
	struct chaos_vector probed = { 0 }, assisted = { 0 };
	int err;

	for (size_t i = 0; i < rules->count; i++) {
		if (rules->rules[i].fault.faults & FAULTS_BY_PROBE)
			set_bit(&probed, i);
		if (rule_needs_assist(&rules->rules[i]))
			set_bit(&assisted, i);
	}
	err = tables_set_number(t, &probed, &t->probed);
	return err ?: tables_set_number(t, &assisted, &t->knobs.assisted);
}

/* ---- rules, budgets, spreads ------------------------------------------------------------------------------------ */

static uint64_t random_seed(void)
{
	uint64_t seed = 0;

	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		seed = 0x9e3779b97f4a7c15ULL;
	return seed;
}

/*
 * A window can see the rest of a slot that was begun long before it, and then every slot whole, that one too: `slots` + 1
 * slots less one fault, which must not be more than the limit.
 */
static void make_slots(struct chaos_budget *budget, uint64_t limit)
{
	budget->slot_faults = (limit + CHAOS_RATE_SLOTS + 1) / (CHAOS_RATE_SLOTS + 1);
	budget->slots = (limit + 1) / budget->slot_faults - 1;
}

/* Chances as parts of 2^32: a burst of `length` packets on average ends with 1 / length at each, and begins so often that
 * the share of packets within one is the loss. */
static void make_burst(struct chaos_rule *to, const struct fault *fault)
{
	const double whole = 4294967296.0, loss = fault->drop_ppm / 1e6, leave = 1.0 / fault->burst_length;
	const double enter = leave * loss / (1 - loss);

	to->burst_leave = fmin(leave * whole, UINT32_MAX);
	to->burst_enter = fmin(enter * whole, UINT32_MAX);
}

static struct chaos_ramp ramp_of(const struct ramp *ramp)
{
	return (struct chaos_ramp){ .to = ramp->to, .over_ns = ramp->over_ns };
}

/* Tokens are what a server says: they leave at its side, and arrive at the client's. */
static bool has_tokens(const struct rule *rule, enum chaos_side side)
{
	return rule->fault.faults & 1 << CHAOS_TOKENS && rule->match.side == side &&
	       rule->match.directions & CHAOS_RESPONSE;
}

/* What waits does so where it leaves, or, arriving and TCP, in an ifb. */
static unsigned int wait_needs(const struct rule *rule)
{
	bool client = rule->match.side == CHAOS_SIDE_CLIENT;
	unsigned int leaving = client ? CHAOS_REQUEST : CHAOS_RESPONSE, paced = 0, needs = 0;

	if (rule->fault.faults & 1 << CHAOS_DELAY)
		paced |= delay_holds_answers(&rule->match) ? CHAOS_RESPONSE : leaving;
	if (rule->fault.faults & 1 << CHAOS_RATE)
		paced |= rule->match.directions;
	if (rule->fault.faults & 1 << CHAOS_TOKENS)
		paced |= rule->match.directions & CHAOS_RESPONSE;
	if (paced & leaving)
		needs |= CHAOS_DEVICE_FQ;
	if (has_tokens(rule, CHAOS_SIDE_SERVER))
		needs |= CHAOS_DEVICE_EGRESS;
	if (paced & ~leaving && rule->match.protocols & 1 << CHAOS_TCP)
		needs |= CHAOS_DEVICE_INGRESS | CHAOS_DEVICE_IFB;
	return needs;
}

static bool touches(const struct rule *rule, bool leaving)
{
	const bool client = rule->match.side == CHAOS_SIDE_CLIENT;

	return rule->match.directions & (client == leaving ? CHAOS_REQUEST : CHAOS_RESPONSE);
}

static unsigned int damage_needs(const struct rule *rule)
{
	unsigned int needs = 0;

	if (touches(rule, true))
		needs |= CHAOS_DEVICE_EGRESS;
	if (touches(rule, false))
		needs |= CHAOS_DEVICE_INGRESS;
	if (rule->fault.faults & 1 << CHAOS_REORDER && touches(rule, true))
		needs |= CHAOS_DEVICE_FQ;
	if (rule->fault.faults & 1 << CHAOS_REORDER && touches(rule, false))
		needs |= CHAOS_DEVICE_IFB;
	return needs;
}

/* One direction is cut: the response, unless the rule is about requests. */
static bool cut_leaves(const struct rule *rule)
{
	const bool response = rule->match.directions & CHAOS_RESPONSE;

	return rule->fault.faults & 1 << CHAOS_BREAK_AFTER && response == (rule->match.side == CHAOS_SIDE_SERVER);
}

unsigned int rule_device_needs(const struct rule *rule)
{
	unsigned int faults = rule->fault.faults, needs = 0;

	if (rule->fault.reset_inside) /* no packet is touched for it */
		faults &= ~(1U << CHAOS_RESET);
	if (faults & CHAOS_LOSING || cut_leaves(rule))
		needs |= CHAOS_DEVICE_EGRESS;
	if (faults & 1 << CHAOS_BREAK_AFTER && !cut_leaves(rule))
		needs |= CHAOS_DEVICE_INGRESS;
	if (faults & (CHAOS_ANSWERS | 1 << CHAOS_GRPC))
		needs |= CHAOS_DEVICE_ANSWER;
	if (faults & (1 << CHAOS_DNS | 1 << CHAOS_RESET))
		needs |= CHAOS_DEVICE_EGRESS | CHAOS_DEVICE_INGRESS;
	if (faults & CHAOS_DAMAGE)
		needs |= damage_needs(rule);
	needs |= wait_needs(rule);
	if (faults & 1 << CHAOS_DELAY && rule->per == CHAOS_PER_PACKET)
		needs |= CHAOS_DEVICE_EGRESS;
	return needs;
}

unsigned int rule_fault_needs(const struct rule *rule, enum chaos_fault fault)
{
	struct rule one = *rule;

	one.fault.faults &= 1U << fault;
	return rule_device_needs(&one);
}

/* What must be there before payload may leave: of packets that are lost tc is no condition. */
static unsigned int first_needs(const struct rule *rule)
{
	struct rule kept = *rule;

	kept.fault.faults &= ~CHAOS_LOSING;
	return rule_device_needs(&kept);
}

/* Datagrams are found at their socket before it gets them for this alone. */
static bool damages_datagrams(const struct rule *rule)
{
	return rule->fault.faults & CHAOS_DAMAGE && rule->match.protocols & 1 << CHAOS_UDP && touches(rule, false);
}

/*
 * A reset of single requests is decided where they leave. The answers of those that the dice let by would be decided again: with
 * `percent: 50` three in four would be hit.
 */
static unsigned int directions(const struct rule *rule)
{
	const bool of_requests = rule->per == CHAOS_PER_REQUEST && rule->fault.faults == 1 << CHAOS_RESET &&
				 rule->match.side == CHAOS_SIDE_CLIENT;

	return of_requests && rule->match.directions == CHAOS_BOTH ? CHAOS_REQUEST : rule->match.directions;
}

static void make_rule(struct chaos_rule *to, struct chaos_budget *budget, const struct rule *from, bool observe)
{
	to->faults = from->fault.faults;
	to->percent_ppm = from->percent_ppm;
	to->drop_ppm = from->fault.drop_ppm;
	to->flags = (observe ? CHAOS_RULE_OBSERVE : 0) | (from->fault.drop_all ? CHAOS_RULE_DROP_ALL : 0) |
		    (from->match.include_ssh ? CHAOS_RULE_INCLUDE_SSH : 0) |
		    (from->fault.faults & CHAOS_LASTING || from->fault.reset_inside ? CHAOS_RULE_LASTS : 0) |
		    (from->fault.reset_inside ? CHAOS_RULE_INSIDE : 0) | (from->fault.path.text ? CHAOS_RULE_PATH : 0) |
		    (rule_needs_assist(from) ? CHAOS_RULE_ASSIST : 0) | (from->fault.call_runs ? CHAOS_RULE_RUNS : 0);
	to->percent_ramp = ramp_of(&from->percent_ramp);
	to->drop_ramp = ramp_of(&from->fault.drop_ramp);
	to->loss = from->fault.loss;
	to->drop_every = from->fault.drop_every;
	if (to->loss == CHAOS_LOSS_BURST)
		make_burst(to, &from->fault);
	to->duplicate_ppm = from->fault.duplicate_ppm;
	to->corrupt_ppm = from->fault.corrupt_ppm;
	to->reorder_ppm = from->fault.reorder_ppm;
	to->reorder_ns = from->fault.reorder_ns;
	to->rate_bytes = from->fault.rate_bits / 8;
	to->token_ns = from->fault.token_ns;
	to->delay_ns = from->fault.faults & 1 << CHAOS_CALL ? from->fault.call_delay_ns : from->fault.delay_ns;
	to->delay_ramp = ramp_of(&from->fault.delay_ramp);
	to->jitter_ns = from->fault.jitter_ns;
	to->seed = from->seed_given ? from->seed : random_seed();
	to->max_hits = from->max_hits;
	to->rate_window_ns = from->rate_count ? from->rate_window_ns : 0;
	to->rate_count = from->rate_count;
	to->error = from->fault.faults & (1 << CHAOS_ERRNO | 1 << CHAOS_CALL) ? from->fault.error : from->fault.refuse;
	to->returns = from->fault.faults & 1 << CHAOS_GPU_OOM ? GPU_OUT_OF_MEMORY : from->fault.call_returns;
	to->min_bytes = from->fault.oom_min_bytes;
	to->above_bytes = from->fault.oom_above_bytes;
	to->failures = from->fault.oom_failures ? from->fault.oom_failures : 1;
	to->per = from->per;
	to->idle_ns = from->fault.idle_ns;
	to->idle_how = from->fault.idle_how;
	to->dns = from->fault.dns;
	to->break_bytes = from->fault.break_bytes;
	to->break_chunks = from->fault.break_chunks;
	to->break_ns = from->fault.break_ns;
	to->break_how = from->fault.break_how;
	to->stream_chunks = from->fault.stream_chunks;
	to->distribution = from->fault.distribution;
	to->directions = directions(from);
	to->waits_for = first_needs(from);
	budget->max_hits = to->max_hits;
	budget->window_ns = to->rate_window_ns;
	make_slots(budget, from->rate_count);
}

/* Registers can be written by a program where the kernel lets it; memory and time are the assist's. */
bool rule_needs_assist(const struct rule *rule)
{
	return rule->fault.faults & 1 << CHAOS_CALL && (rule->fault.error || rule->fault.call_delay_ns);
}

/* Those for which tc looks at packets that arrive. */
static bool all_arriving_name_ports(const struct rules *rules)
{
	const unsigned int arriving = CHAOS_DEVICE_INGRESS | CHAOS_DEVICE_ANSWER;

	for (size_t i = 0; i < rules->count; i++) {
		if (rule_device_needs(&rules->rules[i]) & arriving && !asks_names(&rules->rules[i]) &&
		    !rules->rules[i].match.endpoint.ports_count)
			return false;
	}
	return true;
}

static bool has_ramp(const struct chaos_rule *r)
{
	return r->percent_ramp.over_ns || r->drop_ramp.over_ns || r->delay_ramp.over_ns;
}

static bool reads_requests(const struct rules *rules)
{
	for (size_t i = 0; i < rules->count; i++) {
		if (rules->rules[i].match.http.given)
			return true;
	}
	return false;
}

static int make_rules(struct tables *t, const struct rules *rules, bool observe)
{
	struct chaos_vector all = { 0 };

	t->rules_count = rules->count;
	t->rules = calloc(rules->count, sizeof(*t->rules));
	t->budgets = calloc(rules->count, sizeof(*t->budgets));
	if (!t->rules || !t->budgets)
		return -ENOMEM;
	t->knobs.tls = reads_requests(rules);
	for (size_t i = 0; i < rules->count; i++) {
		make_rule(&t->rules[i], &t->budgets[i], &rules->rules[i], observe);
		if (tables_make_answer(t, &t->rules[i], &rules->rules[i].fault))
			return -ENOMEM;
		t->knobs.faults |= t->rules[i].faults;
		t->device_needs |= rule_device_needs(&rules->rules[i]);
		t->knobs.losses |= 1 << t->rules[i].loss;
		t->knobs.chunks |= t->rules[i].break_chunks > 0;
		t->knobs.splits |= has_tokens(&rules->rules[i], CHAOS_SIDE_SERVER);
		t->knobs.splits_arriving |= has_tokens(&rules->rules[i], CHAOS_SIDE_CLIENT);
		t->knobs.cuts_leaving |= cut_leaves(&rules->rules[i]);
		t->knobs.datagrams_arriving |= damages_datagrams(&rules->rules[i]);
		t->knobs.ramps |= has_ramp(&t->rules[i]);
		t->knobs.ceiling |= t->rules[i].above_bytes > 0;
		t->knobs.assist |= !!(t->rules[i].flags & CHAOS_RULE_ASSIST);
		t->knobs.inside |= !!(t->rules[i].flags & CHAOS_RULE_INSIDE);
		t->knobs.caller_comm |= t->rules[i].faults & CHAOS_CALLS && rules->rules[i].match.process.text;
		set_bit(&all, i);
	}
	t->knobs.rules = rules->count;
	t->knobs.paces_arriving = !!(t->device_needs & CHAOS_DEVICE_IFB);
	t->knobs.arriving_ports = all_arriving_name_ports(rules);
	t->knobs.words = (rules->count + 63) / 64;
	return tables_set_number(t, &all, &t->knobs.everything);
}

/* The inverse of the normal distribution's cumulative function, by bisection: exact enough, and run once. */
static double normal_quantile(double p)
{
	double low = -8, high = 8;

	for (int i = 0; i < 60; i++) {
		double middle = (low + high) / 2;

		if (0.5 * erfc(-middle / M_SQRT2) < p)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/*
 * uniform: within the jitter on both sides. normal: the jitter is its standard deviation, cut at four of them. pareto:
 * shape 3, shifted and scaled to mean 0 and deviation 1, so most are a little early and few are very late.
 */
static double quantile(enum chaos_distribution distribution, double p)
{
	const double shape = 3, mean = shape / (shape - 1),
		     deviation = sqrt(shape / ((shape - 1) * (shape - 1) * (shape - 2)));
	double q;

	switch (distribution) {
	case CHAOS_NORMAL:
		q = normal_quantile(p);
		break;
	case CHAOS_PARETO:
		q = (pow(1 - p, -1 / shape) - mean) / deviation;
		break;
	default:
		return 2 * p - 1;
	}
	return q > 4 ? 4 : q < -4 ? -4 : q;
}

static int make_spread(struct tables *t)
{
	t->spread = calloc(CHAOS_DISTRIBUTION_COUNT, sizeof(*t->spread));
	if (!t->spread)
		return -ENOMEM;
	for (int d = 0; d < CHAOS_DISTRIBUTION_COUNT; d++) {
		for (int i = 0; i < CHAOS_SPREAD_STEPS; i++)
			t->spread[d].quantile[i] = lround(quantile(d, (i + 0.5) / CHAOS_SPREAD_STEPS) * 4096);
	}
	return 0;
}

int tables_make(const struct rules *rules, const struct target *targets, bool observe, struct tables **tables,
		struct error *err)
{
	struct tables *t = calloc(1, sizeof(*t));
	int ret;

	*tables = NULL;
	if (!t)
		return no_memory(err);
	for (size_t i = 0; i < rules->count; i++) {
		t->follows |= targets[i].may_come;
		t->follows_v1 |= targets[i].may_come && !targets[i].by_cgroup;
	}
	t->knobs.follows = t->follows;
	if (make_rules(t, rules, observe) || make_kinds(t, rules) || make_operations(t, rules) ||
	    tables_make_paths(t, rules) || make_probed(t, rules) || make_pids(t, targets, rules->count) ||
	    make_cgroups(t, targets, rules->count) || make_users(t, targets, rules->count) || make_ports(t, rules) ||
	    make_spread(t)) {
		ret = no_memory(err);
		goto out;
	}
	ret = make_comms(t, rules, err);
	if (!ret)
		ret = make_hosts(t, rules, err);
	if (!ret)
		ret = tables_make_names(t, rules, err);
	if (!ret)
		ret = tables_make_http(t, rules, err);
out:
	if (ret) {
		tables_free(t);
		return ret;
	}
	*tables = t;
	return 0;
}

void tables_free(struct tables *t)
{
	if (!t)
		return;
	free(t->rules);
	free(t->budgets);
	free(t->sets);
	free(t->sets_index);
	free(t->pids);
	free(t->cgroups);
	free(t->users);
	free(t->comms);
	free(t->hosts);
	free(t->ports);
	free(t->names);
	free(t->resolved);
	free(t->name_sets);
	free(t->parts);
	free(t->http);
	free(t->forms);
	free(t->spread);
	free(t);
}

int tables_update_pids(struct tables *t, const struct target *targets, bool *changed, struct error *err)
{
	struct pid_pair *before = t->pids;
	size_t before_count = t->pids_count, sets_count = t->sets_count;
	int ret = make_pids(t, targets, t->rules_count);

	*changed = before_count != t->pids_count || memcmp(before, t->pids, before_count * sizeof(*before)) != 0;
	free(before);
	if (ret)
		return no_memory(err);
	if (t->sets_count != sets_count)
		return error_set(err, -EAGAIN, EXIT_FAILED, "processes came and went too fast; try again");
	return 0;
}

/* ---- the same look-ups as the kernel's, for seeding and for tests ------------------------------------------------- */

#define FIND(pairs, count, wanted, otherwise)                                                 \
	({                                                                                    \
		uint32_t set_ = otherwise;                                                    \
		for (size_t i_ = 0; i_ < (count); i_++) {                                     \
			if (memcmp(&(pairs)[i_].key, wanted, sizeof((pairs)[i_].key)) == 0) { \
				set_ = (pairs)[i_].set;                                       \
				break;                                                        \
			}                                                                     \
		}                                                                             \
		set_;                                                                         \
	})

/* A process may be in the sets of a pid that the kernel knows and /proc no longer tells: both hold. */
static int merge_pids(struct tables *t, const struct pid_pair *before, size_t count)
{
	int err = 0;

	for (size_t i = 0; i < t->pids_count && !err; i++) {
		uint32_t old = FIND(before, count, &t->pids[i].key, t->pids[i].set);
		struct chaos_vector both = t->sets[old];

		if (old == t->pids[i].set)
			continue;
		merge(&both, &t->sets[t->pids[i].set]);
		err = tables_set_number(t, &both, &t->pids[i].set);
	}
	return err;
}

int tables_update_cgroups(struct tables *t, const struct target *targets, struct error *err)
{
	struct cgroup_pair *cgroups = t->cgroups;
	struct pid_pair *pids = t->pids;
	size_t pids_count = t->pids_count;
	int ret = make_cgroups(t, targets, t->rules_count);

	free(cgroups);
	if (!ret && t->follows_v1) {
		ret = make_pids(t, targets, t->rules_count);
		ret = ret ?: merge_pids(t, pids, pids_count);
		free(pids);
	}
	return ret ? no_memory(err) : 0;
}

void tables_comm_rules(const struct tables *t, const char *comm, struct chaos_vector *rules)
{
	*rules = t->sets[FIND(t->comms, t->comms_count, comm, t->knobs.wildcard[CHAOS_DIM_COMM])];
	for (int w = 0; t->patterns_count && w < CHAOS_PATTERN_WORDS; w++) {
		uint64_t hits = pattern_word(&t->patterns, comm, w);

		for (int lane = 0; lane < 4; lane++) {
			if (hits >> (16 * lane) & 0xffff)
				merge(rules, &t->sets[t->pattern_sets[4 * w + lane]]);
		}
	}
}

static void process_matcher(const struct tables *t, const struct process *p, struct chaos_vector *comm,
			    struct matcher *m)
{
	struct chaos_cgroup_key cgroup = { .id = p->cgroup_id };
	const uint32_t *wild = t->knobs.wildcard;

	tables_comm_rules(t, p->comm, comm);
	m->by[CHAOS_DIM_COMM] = comm;
	m->by[CHAOS_DIM_PID] = &t->sets[FIND(t->pids, t->pids_count, &p->pid, wild[CHAOS_DIM_PID])];
	m->by[CHAOS_DIM_CGROUP] = &t->sets[FIND(t->cgroups, t->cgroups_count, &cgroup, wild[CHAOS_DIM_CGROUP])];
	m->by[CHAOS_DIM_USER] = &t->sets[FIND(t->users, t->users_count, &p->uid, wild[CHAOS_DIM_USER])];
	m->by[CHAOS_DIM_ADDRESS] = &t->sets[t->knobs.everything];
	m->by[CHAOS_DIM_PORT] = &t->sets[t->knobs.everything];
	m->kind = &t->sets[t->knobs.everything];
	m->name = &t->sets[t->knobs.nothing];
}

void tables_process_rules(const struct tables *t, const struct process *process, struct chaos_vector *rules)
{
	struct chaos_vector comm;
	struct matcher m;

	process_matcher(t, process, &comm, &m);
	for (int w = 0; w < CHAOS_WORDS; w++)
		rules->word[w] = match_word(&m, w);
	if (tables_is_resolver(t, process->comm))
		merge(rules, &t->sets[t->knobs.resolver]);
}

static uint32_t host_set(const struct tables *t, const struct in6_addr *address)
{
	uint32_t set = t->knobs.wildcard[CHAOS_DIM_ADDRESS];
	int longest = -1;

	for (size_t i = 0; i < t->hosts_count; i++) {
		struct chaos_address_key key = { .prefix_len = t->hosts[i].key.prefix_len };

		memcpy(key.address, address, sizeof(key.address));
		mask(&key);
		if ((int)key.prefix_len > longest && memcmp(&key, &t->hosts[i].key, sizeof(key)) == 0) {
			longest = key.prefix_len;
			set = t->hosts[i].set;
		}
	}
	return set;
}

uint32_t tables_match(const struct tables *t, const struct probe *probe)
{
	struct chaos_vector comm;
	struct matcher m;

	process_matcher(t, &probe->process, &comm, &m);
	m.by[CHAOS_DIM_ADDRESS] = &t->sets[host_set(t, &probe->address)];
	m.name = &t->sets[tables_name_set(t, probe)];
	m.by[CHAOS_DIM_PORT] = &t->sets[t->ports[probe->port]];
	m.kind = &t->sets[t->knobs.kind[probe->protocol * CHAOS_SIDE_COUNT + probe->side]];
	for (int w = 0; w < CHAOS_WORDS; w++) {
		uint64_t word = match_word(&m, w);

		if (word)
			return w * 64 + lowest_bit(word);
	}
	return CHAOS_NO_RULE;
}
