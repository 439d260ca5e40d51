// SPDX-License-Identifier: GPL-2.0-only
/* Host names: patterns for the kernel's trie, and the addresses that names had when the rules were loaded. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "user/tables/tables_internal.h"

void tables_name_key(const char *name, bool suffix, struct chaos_name_key *key)
{
	size_t len = strlen(name);

	memset(key, 0, sizeof(*key));
	for (size_t i = 0; i < len; i++)
		key->reversed[i] = (unsigned char)name[len - 1 - i];
	key->reversed[len] = suffix ? '.' : '\0';
	key->prefix_len = 8 * (len + 1);
}

struct name_use {
	struct chaos_name_key key;
	struct chaos_vector rules;
};

static int by_name(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct chaos_name_key));
}

static int by_reversed(const void *a, const void *b)
{
	const struct name_use *x = a, *y = b;
	int order = memcmp(x->key.reversed, y->key.reversed, sizeof(x->key.reversed));

	return order ? order : by_name(a, b);
}

static bool is_prefix(const struct chaos_name_key *of, const struct chaos_name_key *key)
{
	return of->prefix_len <= key->prefix_len && memcmp(of->reversed, key->reversed, of->prefix_len / 8) == 0;
}

/* All patterns of all rules, each once, with the rules of the wider ones around it. The caller frees *uses. */
static int collect_names(const struct rules *rules, struct name_use **uses, size_t *count)
{
	size_t total = 0, kept = 0;

	for (size_t i = 0; i < rules->count; i++)
		total += rules->rules[i].match.endpoint.names_count;
	*uses = calloc(total + 1, sizeof(**uses));
	if (!*uses)
		return -ENOMEM;
	for (size_t i = 0, at = 0; i < rules->count; i++) {
		const struct endpoint *endpoint = &rules->rules[i].match.endpoint;

		for (size_t k = 0; k < endpoint->names_count; k++, at++) {
			tables_name_key(endpoint->names[k].name, endpoint->names[k].suffix, &(*uses)[at].key);
			set_bit(&(*uses)[at].rules, i);
		}
	}
	qsort(*uses, total, sizeof(**uses), by_reversed);
	for (size_t i = 1; i < total; i++) {
		if (by_name(&(*uses)[kept], &(*uses)[i]) == 0)
			merge(&(*uses)[kept].rules, &(*uses)[i].rules);
		else
			(*uses)[++kept] = (*uses)[i];
	}
	*count = total ? kept + 1 : 0;
	/* Sorted by the text turned around, a wider pattern stands before what it holds: the nearest one has all others' rules. */
	for (size_t i = 1; i < *count; i++) {
		for (size_t around = i; around-- > 0;) {
			if (is_prefix(&(*uses)[around].key, &(*uses)[i].key)) {
				merge(&(*uses)[i].rules, &(*uses)[around].rules);
				break;
			}
		}
	}
	return 0;
}

/* A new number for these rules. */
static int number_name(struct tables *t, const struct chaos_vector *rules, uint32_t *number)
{
	if (t->name_sets_count == CHAOS_MAX_NAMES)
		return -E2BIG;
	*number = t->name_sets_count++;
	return tables_set_number(t, rules, &t->name_sets[*number]);
}

/* A number that leads to these rules: the names of an address together may be one name that there is already. */
static int find_number(struct tables *t, const struct chaos_vector *rules, uint32_t *number)
{
	uint32_t set;
	int err = tables_set_number(t, rules, &set);

	for (*number = 1; !err && *number < t->name_sets_count; ++*number) {
		if (t->name_sets[*number] == set)
			return 0;
	}
	return err ?: number_name(t, rules, number);
}

static int by_address(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct in6_addr));
}

struct address_use {
	struct in6_addr address;
	uint32_t number; /* of the name that has it */
};

static uint32_t number_of(const struct tables *t, const struct host_name *name)
{
	struct chaos_name_key key;
	uint32_t number = CHAOS_NAME_OPEN;

	tables_name_key(name->name, name->suffix, &key);
	for (size_t i = 0; i < t->names_count; i++) {
		if (by_name(&t->names[i].key, &key) == 0)
			number = t->names[i].number;
	}
	return number;
}

/* Every address of every name. The caller frees *uses. */
static int collect_addresses(const struct tables *t, const struct rules *rules, struct address_use **uses,
			     size_t *count)
{
	for (size_t i = 0; i < rules->count; i++) {
		const struct endpoint *endpoint = &rules->rules[i].match.endpoint;

		for (size_t k = 0; k < endpoint->names_count; k++) {
			const struct host_name *name = &endpoint->names[k];
			const uint32_t number = name->addresses_count ? number_of(t, name) : CHAOS_NAME_OPEN;
			struct address_use *more = realloc(*uses, (*count + name->addresses_count + 1) * sizeof(*more));

			if (!more)
				return -ENOMEM;
			*uses = more;
			for (size_t a = 0; a < name->addresses_count; a++)
				more[(*count)++] =
					(struct address_use){ .address = name->addresses[a], .number = number };
		}
	}
	return 0;
}

/* The number that stands for all names of one address: the name's own when it is alone. */
static int number_together(struct tables *t, const struct address_use *uses, size_t count, uint32_t *number)
{
	struct chaos_vector all = { 0 };
	bool alone = true;

	for (size_t i = 0; i < count; i++) {
		merge(&all, &t->sets[t->name_sets[uses[i].number]]);
		alone = alone && uses[i].number == uses[0].number;
	}
	*number = uses[0].number;
	return alone ? 0 : find_number(t, &all, number);
}

/* What each address stood for when it was asked, for all names that have it. */
static int make_resolved(struct tables *t, const struct rules *rules)
{
	struct address_use *uses = NULL;
	size_t count = 0, same;
	int err = collect_addresses(t, rules, &uses, &count);

	t->resolved = calloc(count + 1, sizeof(*t->resolved));
	if (!t->resolved)
		err = -ENOMEM;
	if (!err && count)
		qsort(uses, count, sizeof(*uses), by_address);
	for (size_t i = 0; i < count && !err; i += same) {
		struct resolved_pair *pair = &t->resolved[t->resolved_count++];

		for (same = 1; i + same < count && by_address(&uses[i], &uses[i + same]) == 0; same++)
			;
		pair->key = uses[i].address;
		err = number_together(t, &uses[i], same, &pair->number);
	}
	free(uses);
	return err;
}

/*
 * Who asks name servers in the place of other processes, as the kernel keeps their names (15 characters). dockerd does so
 * for containers, whose own questions are seen before they reach it.
 */
static const char *const resolvers[] = {
	"systemd-resolve", "nscd",   "unscd", "nsncd",          "dnsmasq", "unbound", "named",        "pdns_recursor",
	"kresd",           "stubby", "pdnsd", "dnscrypt-proxy", "coredns", "dockerd", "aardvark-dns", NULL,
};
_Static_assert(sizeof(resolvers) / sizeof(resolvers[0]) <= CHAOS_MAX_RESOLVERS, "chaos_resolvers");

static int make_resolvers(struct tables *t, const struct rules *rules)
{
	struct chaos_vector asking = { 0 };

	for (size_t i = 0; i < rules->count; i++) {
		if (!rules->rules[i].match.resolver)
			continue;
		set_bit(&asking, i);
		t->resolvers = resolvers;
	}
	t->knobs.resolvers = t->resolvers != NULL;
	return tables_set_number(t, &asking, &t->knobs.resolver);
}

bool tables_is_resolver(const struct tables *t, const char *comm)
{
	for (const char *const *name = t->resolvers; name && *name; name++) {
		if (strcmp(*name, comm) == 0)
			return true;
	}
	return false;
}

int tables_make_names(struct tables *t, const struct rules *rules, struct error *err)
{
	struct chaos_vector nothing = { 0 }, named = { 0 };
	struct name_use *uses = NULL;
	size_t count = 0;
	int ret = collect_names(rules, &uses, &count);

	t->names = calloc(count + 1, sizeof(*t->names));
	t->name_sets = calloc(CHAOS_MAX_NAMES, sizeof(*t->name_sets));
	if (!t->names || !t->name_sets)
		ret = -ENOMEM;
	ret = ret ?: tables_set_number(t, &nothing, &t->knobs.nothing);
	if (!ret) {
		t->name_sets[CHAOS_NAME_OPEN] = t->knobs.nothing;
		t->name_sets_count = 1;
	}
	for (size_t i = 0; i < count && !ret; i++) {
		t->names[i].key = uses[i].key;
		ret = number_name(t, &uses[i].rules, &t->names[i].number);
		t->names_count++;
	}
	for (size_t i = 0; i < rules->count; i++) {
		if (rules->rules[i].match.endpoint.names_count)
			set_bit(&named, i);
	}
	ret = ret ?: tables_set_number(t, &named, &t->knobs.named);
	ret = ret ?: make_resolvers(t, rules);
	ret = ret ?: make_resolved(t, rules);
	t->knobs.names = count > 0;
	free(uses);
	if (ret == -E2BIG)
		return error_set(err, ret, EXIT_USAGE, "%s: more than %d different host names", rules->file,
				 CHAOS_MAX_NAMES - 1);
	return ret ? error_set(err, -ENOMEM, EXIT_FAILED, "out of memory") : 0;
}

uint32_t tables_name_set(const struct tables *t, const struct probe *probe)
{
	struct chaos_name_key key;
	uint32_t number = CHAOS_NAME_OPEN;
	unsigned int longest = 0;

	for (size_t i = 0; !probe->name && i < t->resolved_count; i++) {
		if (by_address(&t->resolved[i].key, &probe->address) == 0)
			number = t->resolved[i].number;
	}
	if (probe->name)
		tables_name_key(probe->name, false, &key);
	for (size_t i = 0; probe->name && i < t->names_count; i++) {
		if (t->names[i].key.prefix_len > longest && is_prefix(&t->names[i].key, &key)) {
			longest = t->names[i].key.prefix_len;
			number = t->names[i].number;
		}
	}
	return t->name_sets[number];
}
