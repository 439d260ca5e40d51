// SPDX-License-Identifier: GPL-2.0-only
/* Where a rule strikes: addresses, networks, ports, and the names given to them under `endpoints:`. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/rules/explain.h"
#include "user/rules/presets.h"
#include "user/rules/rules_parse.h"

_Static_assert(RULES_MAX_KEYS <= RULES_MAX_ENDPOINTS, "the limit of a map is that of the endpoints");

#define IPV4_MAPPED_BITS 96

static const char host_expected[] = "an IPv4 or IPv6 address, a network such as 10.1.0.0/16, or a name";
static const char port_expected[] = "a port from 1 to 65535 or a range such as 9000-9010";

/* "10.0.0.7:6333", "qdrant:6333", "[::1]:6333" */
static bool ends_with_port(const char *text)
{
	const char *colon = strrchr(text, ':');
	uint64_t port;

	return colon && parse_number(colon + 1, &port) == 0 && (strchr(text, ':') == colon || colon[-1] == ']');
}

/* Says what is wrong with a host that is not an address, guessing what was meant. */
static int host_invalid(struct parser *p, const struct node *node)
{
	const char *text = node->text, *shown = show(p, text);

	if (ends_with_port(text))
		return fail(p, node->mark, "invalid host '%s', the port belongs under 'ports'", shown);
	if (text[0] == '[')
		return fail(p, node->mark, "invalid host '%s', write an IPv6 address without brackets", shown);
	if (strchr(text, '%'))
		return fail(p, node->mark, "invalid host '%s', write a link-local address without its device", shown);
	return fail(p, node->mark, "invalid host '%s', expected %s", shown, host_expected);
}

static bool address_parse(const char *text, struct in6_addr *address, unsigned int *bits)
{
	memset(address, 0, sizeof(*address));
	if (inet_pton(AF_INET, text, &address->s6_addr[12]) == 1) {
		address->s6_addr[10] = 0xff;
		address->s6_addr[11] = 0xff;
		*bits = 32;
		return true;
	}
	*bits = 128;
	return inet_pton(AF_INET6, text, address) == 1;
}

/* Clears the bits beyond the prefix; true when some were set. */
static bool clear_host_bits(struct in6_addr *address, unsigned int prefix_len)
{
	bool any = false;

	for (unsigned int i = prefix_len; i < 128; i++) {
		unsigned char bit = 0x80 >> (i % 8);

		any = any || (address->s6_addr[i / 8] & bit);
		address->s6_addr[i / 8] &= (unsigned char)~bit;
	}
	return any;
}

static bool contains(const struct host *network, const struct host *host)
{
	struct in6_addr address = host->address;

	if (network->prefix_len > host->prefix_len)
		return false;
	clear_host_bits(&address, network->prefix_len);
	return memcmp(&address, &network->address, sizeof(address)) == 0;
}

/* What an address and its prefix can be wrong in, once both are read. */
static int host_check(struct parser *p, const struct node *node, struct host *host)
{
	static const struct host mapped = { .address = { { { [10] = 0xff, [11] = 0xff } } },
					    .prefix_len = IPV4_MAPPED_BITS };
	char network[HOST_TEXT_LEN];

	if (clear_host_bits(&host->address, host->prefix_len)) {
		format_host(network, sizeof(network), host);
		return fail(p, node->mark, "host '%s' has bits set beyond its prefix; the network is %s",
			    show(p, node->text), network);
	}
	if (host->prefix_len < IPV4_MAPPED_BITS && contains(host, &mapped))
		return fail(p, node->mark, "host '%s' would hold every IPv4 address too; 2000::/3 is the IPv6 internet",
			    show(p, node->text));
	if (host->prefix_len == 128 && (IN6_IS_ADDR_UNSPECIFIED(&host->address) ||
					(IN6_IS_ADDR_V4MAPPED(&host->address) && host->address.s6_addr32[3] == 0)))
		return fail(p, node->mark, "host '%s' is no peer's address; leave 'hosts' out for any address",
			    show(p, node->text));
	return 0;
}

static int host_parse(struct parser *p, const struct node *node, struct host *host)
{
	char address[INET6_ADDRSTRLEN];
	const char *text, *slash;
	uint64_t prefix;
	unsigned int bits;
	size_t len;
	int err;

	err = value_text(p, node, host_expected, &text);
	if (err)
		return err;
	slash = strchr(text, '/');
	len = slash ? (size_t)(slash - text) : strlen(text);
	if (len >= sizeof(address))
		return host_invalid(p, node);
	memcpy(address, text, len);
	address[len] = '\0';
	if (!address_parse(address, &host->address, &bits))
		return host_invalid(p, node);
	prefix = bits;
	if (slash && (parse_number(slash + 1, &prefix) || prefix > bits))
		return fail(p, node->mark, "invalid prefix in host '%s', expected /0 to /%u", show(p, text), bits);
	host->prefix_len = (unsigned int)prefix + 128 - bits;
	host->mark = node->mark;
	return host_check(p, node, host);
}

static int add_host(struct parser *p, const struct node *node, void *target)
{
	struct endpoint *endpoint = target;

	if (node->kind == NODE_TEXT && is_host_name(node->text))
		return host_name_parse(p, node, &endpoint->names[endpoint->names_count++]);
	return host_parse(p, node, &endpoint->hosts[endpoint->hosts_count++]);
}

int key_hosts(struct parser *p, const struct node *node, void *target)
{
	struct endpoint *endpoint = target;
	const size_t count = value_count(node);

	endpoint->hosts = calloc(count, sizeof(*endpoint->hosts));
	endpoint->names = calloc(count, sizeof(*endpoint->names));
	if (!endpoint->hosts || !endpoint->names)
		return out_of_memory(p);
	return value_each(p, node, add_host, endpoint);
}

static bool port_number(const char *text, uint16_t *port)
{
	uint64_t number;

	if (parse_number(text, &number) || number < 1 || number > UINT16_MAX)
		return false;
	*port = (uint16_t)number;
	return true;
}

static int port_parse(struct parser *p, const struct node *node, struct port_range *range)
{
	char first[16];
	const char *text, *dash;
	size_t len;
	int err;

	err = value_text(p, node, port_expected, &text);
	if (err)
		return err;
	dash = strchr(text, '-');
	len = dash ? (size_t)(dash - text) : strlen(text);
	if (len >= sizeof(first))
		goto invalid;
	memcpy(first, text, len);
	first[len] = '\0';
	if (!port_number(first, &range->first) || !port_number(dash ? dash + 1 : first, &range->last))
		goto invalid;
	if (range->first > range->last)
		return fail(p, node->mark, "port range '%s' runs backwards", show(p, text));
	range->mark = node->mark;
	return 0;
invalid:
	return fail(p, node->mark, "invalid port '%s', expected %s", show(p, text), port_expected);
}

static int add_ports(struct parser *p, const struct node *node, void *target)
{
	struct endpoint *endpoint = target;

	return port_parse(p, node, &endpoint->ports[endpoint->ports_count++]);
}

int key_ports(struct parser *p, const struct node *node, void *target)
{
	struct endpoint *endpoint = target;

	endpoint->ports = calloc(value_count(node), sizeof(*endpoint->ports));
	if (!endpoint->ports)
		return out_of_memory(p);
	return value_each(p, node, add_ports, endpoint);
}

/* A preset fills in what is not written: it is read after the others. */
static const struct key endpoint_keys[] = {
	{ "hosts", key_hosts, 0 },  { "ports", key_ports, 0 },    { "preset", key_later, 0 },
	{ "region", key_later, 0 }, { "instance", key_later, 0 }, { NULL, NULL, 0 },
};

static int endpoint_parse(struct parser *p, const struct node *node, struct endpoint *endpoint)
{
	const struct node *preset = node_get(node, "preset"), *given;
	int err;

	err = map_parse(p, node, "a map with hosts and ports", endpoint_keys, endpoint);
	if (err)
		return err;
	for (size_t i = 0; !preset && preset_placeholders[i]; i++) {
		given = node_get(node, preset_placeholders[i]);
		if (given)
			return fail(p, given->key_mark, "'%s' needs 'preset'", given->key);
	}
	if (preset)
		return endpoint_preset(p, node, preset, endpoint);
	if (!endpoint->hosts && !endpoint->ports)
		return fail(p, node->key_mark, "endpoint '%s' has neither hosts nor ports", endpoint->name);
	return 0;
}

int endpoints_parse(struct parser *p, const struct node *map)
{
	struct rules *rules = p->rules;
	struct endpoint *endpoint;
	const struct node *child;
	int err;

	err = value_kind(p, map, NODE_MAP, "a map of names to hosts and ports");
	if (err)
		return err;
	rules->endpoints = calloc(map->count + 1, sizeof(*rules->endpoints));
	if (!rules->endpoints)
		return out_of_memory(p);
	for (size_t i = 0; i < map->count; i++) {
		child = &map->children[i];
		endpoint = &rules->endpoints[rules->endpoints_count++];
		endpoint->mark = child->key_mark;
		err = name_parse(p, child->key_mark, child->key, endpoint->name);
		if (!err)
			err = endpoint_parse(p, child, endpoint);
		if (err)
			return err;
	}
	return 0;
}

static const struct endpoint *find_named(const struct rules *rules, const char *name)
{
	for (size_t i = 0; i < rules->endpoints_count; i++) {
		if (strcmp(rules->endpoints[i].name, name) == 0)
			return &rules->endpoints[i];
	}
	return NULL;
}

static const char *nearest_named(const struct rules *rules, const char *word)
{
	const char **names = calloc(rules->endpoints_count + 1, sizeof(*names)), *near = NULL;

	for (size_t i = 0; names && i < rules->endpoints_count; i++)
		names[i] = rules->endpoints[i].name;
	if (names)
		near = nearest_word(word, names);
	free(names);
	return near;
}

/* A slip in a name of the file itself; 0 when there is none like it. */
static int endpoint_misspelled(struct parser *p, const struct node *node)
{
	const char *near = nearest_named(p->rules, node->text);

	if (!near)
		return 0;
	return fail(p, node->mark, "unknown endpoint '%s', did you mean '%s'?", show(p, node->text), near);
}

static int endpoint_unknown(struct parser *p, const struct node *node, const struct presets *presets)
{
	const char *near = presets_nearest(presets, node->text);

	if (near)
		return fail(p, node->mark, "unknown endpoint '%s', did you mean the preset '%s'?", show(p, node->text),
			    near);
	return fail(p, node->mark, "unknown endpoint '%s', expected a name from 'endpoints' or a preset",
		    show(p, node->text));
}

/* Makes the preset of that name an endpoint, as if it had been written under `endpoints`. */
static int add_preset(struct parser *p, const struct node *node)
{
	struct rules *rules = p->rules;
	struct endpoint *more, *endpoint;

	more = reallocarray(rules->endpoints, rules->endpoints_count + 1, sizeof(*more));
	if (!more)
		return out_of_memory(p);
	rules->endpoints = more;
	endpoint = &more[rules->endpoints_count++];
	memset(endpoint, 0, sizeof(*endpoint));
	endpoint->mark = node->mark;
	snprintf(endpoint->name, sizeof(endpoint->name), "%s", node->text);
	return endpoint_preset(p, NULL, node, endpoint);
}

int endpoint_find(struct parser *p, const struct node *node, const struct endpoint **found)
{
	struct presets *presets;
	const char *text;
	int err;

	err = value_text(p, node, "a name from 'endpoints' or a preset", &text);
	if (err)
		return err;
	*found = find_named(p->rules, text);
	if (*found)
		return 0;
	if (!p->options || !p->options->again) {
		err = presets_get(p, node->mark, &presets);
		if (err || !presets_find(presets, text)) {
			int slip = endpoint_misspelled(p, node);

			return slip ? slip : err ? err : endpoint_unknown(p, node, presets);
		}
	}
	err = add_preset(p, node);
	if (!err)
		*found = &p->rules->endpoints[p->rules->endpoints_count - 1];
	return err;
}

/* A network of `wide` that holds `host`; an equal one only if asked for. */
static bool is_within(const struct host *host, const struct host *wide, size_t count, bool or_equal)
{
	for (size_t i = 0; i < count; i++) {
		if (contains(&wide[i], host) && (or_equal || wide[i].prefix_len < host->prefix_len))
			return true;
	}
	return false;
}

/*
 * What both lists of networks hold. Two networks are apart or one lies within the other, so the entries of each list
 * that lie within the other list are the answer; those in both are taken once.
 */
static int hosts_narrow(struct endpoint *endpoint, const struct endpoint *named)
{
	struct host *both = calloc(endpoint->hosts_count + named->hosts_count, sizeof(*both));
	size_t count = 0;

	if (!both)
		return -ENOMEM;
	for (size_t i = 0; i < endpoint->hosts_count; i++) {
		if (is_within(&endpoint->hosts[i], named->hosts, named->hosts_count, true))
			both[count++] = endpoint->hosts[i];
	}
	for (size_t i = 0; i < named->hosts_count; i++) {
		if (is_within(&named->hosts[i], endpoint->hosts, endpoint->hosts_count, false))
			both[count++] = named->hosts[i];
	}
	free(endpoint->hosts);
	endpoint->hosts = both;
	endpoint->hosts_count = count;
	return 0;
}

static int compare_ports(const void *a, const void *b)
{
	return ((const struct port_range *)a)->first - ((const struct port_range *)b)->first;
}

/* Sorts, and joins what overlaps, so that no port is in two ranges. */
static void ports_tidy(struct port_range *ports, size_t *count)
{
	size_t kept = 0;

	qsort(ports, *count, sizeof(*ports), compare_ports);
	for (size_t i = 1; i < *count; i++) {
		if (ports[i].first > ports[kept].last)
			ports[++kept] = ports[i];
		else if (ports[i].last > ports[kept].last)
			ports[kept].last = ports[i].last;
	}
	*count = kept + 1;
}

/* What two tidy lists have in common, as for merging: at most one range for each end that comes up. */
static size_t ports_common(const struct endpoint *a, const struct port_range *b, size_t b_count,
			   struct port_range *both)
{
	size_t count = 0, i = 0, j = 0;

	while (i < a->ports_count && j < b_count) {
		const struct port_range *x = &a->ports[i], *y = &b[j];

		both[count] = *x;
		if (y->first > x->first)
			both[count].first = y->first;
		if (y->last < x->last)
			both[count].last = y->last;
		count += both[count].first <= both[count].last;
		if (x->last < y->last)
			i++;
		else
			j++;
	}
	return count;
}

static int ports_narrow(struct endpoint *endpoint, const struct endpoint *named)
{
	size_t total = endpoint->ports_count + named->ports_count, count = named->ports_count;
	struct port_range *both = calloc(total + 1, sizeof(*both));
	struct port_range *other = calloc(count, sizeof(*other));

	if (!both || !other) {
		free(both);
		free(other);
		return -ENOMEM;
	}
	memcpy(other, named->ports, count * sizeof(*other));
	ports_tidy(other, &count);
	ports_tidy(endpoint->ports, &endpoint->ports_count);
	count = ports_common(endpoint, other, count, both);
	free(other);
	free(endpoint->ports);
	endpoint->ports = both;
	endpoint->ports_count = count;
	return 0;
}

static void *copy_array(const void *array, size_t count, size_t size)
{
	void *copy = calloc(count + 1, size);

	if (copy && count)
		memcpy(copy, array, count * size);
	return copy;
}

int endpoint_narrow(struct parser *p, const struct node *node, struct endpoint *endpoint, const struct endpoint *named)
{
	const char *nothing = NULL;
	int err = 0;

	if (!endpoint->hosts) {
		endpoint->hosts = copy_array(named->hosts, named->hosts_count, sizeof(*named->hosts));
		endpoint->hosts_count = named->hosts_count;
		err = endpoint->hosts ? names_copy(endpoint, named) : -ENOMEM;
	} else if (named->hosts) {
		err = hosts_narrow(endpoint, named) ?: names_narrow(endpoint, named);
		nothing = endpoint->hosts_count + endpoint->names_count ? NULL : "hosts";
	}
	if (!err && !endpoint->ports) {
		endpoint->ports = copy_array(named->ports, named->ports_count, sizeof(*named->ports));
		endpoint->ports_count = named->ports_count;
		err = endpoint->ports ? 0 : -ENOMEM;
	} else if (!err && named->ports) {
		err = ports_narrow(endpoint, named);
		nothing = endpoint->ports_count ? nothing : "ports";
	}
	if (err)
		return out_of_memory(p);
	if (nothing)
		return fail(p, node_get(node, nothing)->mark, "endpoint '%s' has none of these %s", named->name,
			    nothing);
	return 0;
}

void endpoint_free(struct endpoint *endpoint)
{
	free(endpoint->hosts);
	names_free(endpoint->names, endpoint->names_count);
	free(endpoint->ports);
}
