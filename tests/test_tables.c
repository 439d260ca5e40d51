// SPDX-License-Identifier: GPL-2.0-only
/*
 * user/tables/tables.c with the matcher of bpf/match.h: rules as text, targets made by hand, and the rule that is chosen. Every
 * dimension by itself, then all of them at random against a matcher that reads the rules one by one.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "tests/random_rules.h"

#define SECOND ((uint64_t)1000000000)

/* The rules that are written as the matches of one table. */
static struct made make_matches(const char *const *matches, size_t count)
{
	struct file f;

	begin(&f);
	for (size_t i = 0; i < count; i++)
		rule(&f, "%s", matches[i]);
	return end(&f);
}

#define MAKE(...) make_matches((const char *const[]){ __VA_ARGS__ }, COUNT(((const char *const[]){ __VA_ARGS__ })))

/* ---- probes ---- */

/* A TCP client that no rule of a test names by itself. */
static struct probe nobody(void)
{
	return (struct probe){
		.process = { .pid = 4, .uid = 60000, .cgroup_id = 4, .comm = "nobody" },
		.address = address("192.0.2.1"),
		.port = 4,
		.protocol = CHAOS_TCP,
		.side = CHAOS_SIDE_CLIENT,
	};
}

static int match(const struct made *made, const struct probe *probe)
{
	uint32_t rule = tables_match(made->tables, probe);

	return rule == CHAOS_NO_RULE ? NONE : (int)rule;
}

static int match_comm(const struct made *made, const char *comm)
{
	struct probe p = nobody();

	memset(p.process.comm, 0, sizeof(p.process.comm));
	memcpy(p.process.comm, comm, strnlen(comm, sizeof(p.process.comm) - 1));
	return match(made, &p);
}

static int match_address(const struct made *made, const char *text)
{
	struct probe p = nobody();

	p.address = address(text);
	return match(made, &p);
}

static int match_port(const struct made *made, uint16_t port)
{
	struct probe p = nobody();

	p.port = port;
	return match(made, &p);
}

/* ---- each dimension ---- */

struct address_case {
	const char *address;
	int rule;
};

static void expect_addresses(const struct made *made, const struct address_case *cases, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int got = match_address(made, cases[i].address);

		cr_expect_eq(got, cases[i].rule, "%s: rule %d, expected %d", cases[i].address, got, cases[i].rule);
	}
}

/* The longest prefix is what the kernel finds: it must know the rules of those around it, and file order decides. */
Test(tables, networks_inside_networks)
{
	static const struct address_case cases[] = {
		{ "10.1.2.3", 0 }, { "10.1.2.4", 1 },	    { "10.1.0.0", 1 },	{ "10.1.255.255", 1 },
		{ "10.2.0.1", 2 }, { "10.255.255.255", 2 }, { "11.0.0.0", NONE }, { "9.255.255.255", NONE },
	};
	static const struct address_case outer_first[] = {
		{ "10.1.2.3", 0 }, { "10.1.2.4", 0 }, { "10.2.0.1", 0 }, { "11.0.0.0", NONE },
	};
	struct made made = MAKE("hosts: 10.1.2.3", "hosts: 10.1.0.0/16", "hosts: 10.0.0.0/8");

	expect_addresses(&made, cases, COUNT(cases));
	unmake(&made);
	made = MAKE("hosts: 10.0.0.0/8", "hosts: 10.1.0.0/16", "hosts: 10.1.2.3");
	expect_addresses(&made, outer_first, COUNT(outer_first));
	unmake(&made);
}

Test(tables, prefixes_of_every_length)
{
	struct file f;
	struct made made;

	begin(&f);
	for (int len = 128; len >= 1; len--) {
		struct in6_addr network = { 0 };
		char text[INET6_ADDRSTRLEN];

		for (int bit = 0; bit < len; bit++)
			network.s6_addr[bit / 8] |= 0x80 >> bit % 8;
		inet_ntop(AF_INET6, &network, text, sizeof(text));
		rule(&f, "hosts: \"%s/%d\"", text, len);
	}
	made = end(&f);
	for (int len = 0; len <= 128; len++) {
		struct probe p = nobody();

		/* The first `len` bits are set and the next one is not. */
		for (int bit = 0; bit < 128; bit++)
			p.address.s6_addr[bit / 8] &= ~(0x80 >> bit % 8);
		for (int bit = 0; bit < 128; bit++)
			if (bit != len)
				p.address.s6_addr[bit / 8] |= 0x80 >> bit % 8;
		cr_expect_eq(match(&made, &p), len ? 128 - len : NONE, "%d bits: rule %d", len, match(&made, &p));
	}
	unmake(&made);
}

Test(tables, ipv6_and_mapped_addresses)
{
	static const struct address_case cases[] = {
		{ "2001:db8::1", 0 },	     { "2001:db8::2", 1 },     { "2001:db8:ffff::", 1 }, { "2001:db9::", NONE },
		{ "::ffff:198.51.100.7", 2 }, { "198.51.100.7", 2 }, { "::1", 3 },		 { "127.0.0.1", NONE },
		{ "::198.51.100.7", NONE },  { "::", NONE },
	};
	struct made made = MAKE("hosts: \"2001:db8::1\"", "hosts: \"2001:db8::/32\"", "hosts: 198.51.100.7", "hosts: \"::1\"");

	expect_addresses(&made, cases, COUNT(cases));
	unmake(&made);
}

Test(tables, a_rule_without_hosts_stands_beside_those_with_some)
{
	static const struct address_case cases[] = {
		{ "10.1.2.3", 0 }, { "10.1.2.4", 1 }, { "8.8.8.8", 1 }, { "2001:db8::1", 1 },
	};
	struct made made = MAKE("hosts: 10.1.2.3", "ports: 4", "hosts: 10.0.0.0/8");

	expect_addresses(&made, cases, COUNT(cases));
	unmake(&made);
}

/* The addresses that a name had, as names_resolve() would fill them in. */
static void resolve(struct made *made, size_t rule, size_t name, const char *text)
{
	struct host_name *n = &made->rules->rules[rule].match.endpoint.names[name];

	n->addresses = realloc(n->addresses, (n->addresses_count + 1) * sizeof(*n->addresses));
	n->addresses[n->addresses_count++] = address(text);
}

static int match_name(const struct made *made, const char *name, const char *text)
{
	struct probe p = nobody();

	p.address = address(text);
	p.name = name;
	return match(made, &p);
}

Test(tables, names_exact_and_below)
{
	struct made made = MAKE("hosts: [api.openai.com]", "hosts: ['*.openai.com']", "hosts: ['*.com', b.org]",
				"hosts: ['*.ai.openai.com', 10.0.0.7]");
	static const struct {
		const char *name;
		int rule;
	} cases[] = {
		{ "api.openai.com", 0 }, { "eu.api.openai.com", 1 }, { "openai.com", 2 },     { "xopenai.com", 2 },
		{ "a.ai.openai.com", 1 }, { "b.org", 2 },	      { "a.b.org", NONE },    { "com", NONE },
		{ "api.openai.co", NONE }, { "pi.openai.com", 1 },    { "api.openai.comx", NONE },
	};

	for (size_t i = 0; i < COUNT(cases); i++)
		cr_expect_eq(match_name(&made, cases[i].name, "192.0.2.1"), cases[i].rule, "%s: rule %d", cases[i].name,
			     match_name(&made, cases[i].name, "192.0.2.1"));
	cr_expect_eq(match_name(&made, "elsewhere.test", "10.0.0.7"), 3, "the address counts beside the name");
	unmake(&made);
}

Test(tables, addresses_that_names_had)
{
	struct made made = MAKE("hosts: [a.test], ports: 1", "hosts: [a.test, b.test]", "hosts: [c.test]");
	struct error err;

	resolve(&made, 0, 0, "192.0.2.7");
	resolve(&made, 1, 0, "192.0.2.7");
	resolve(&made, 1, 1, "2001:db8::1");
	resolve(&made, 2, 0, "192.0.2.7");
	tables_free(made.tables);
	cr_assert_eq(tables_make(made.rules, made.targets, false, &made.tables, &err), 0);
	cr_expect_eq(match_name(&made, NULL, "192.0.2.7"), 1);
	cr_expect_eq(match_name(&made, NULL, "2001:db8::1"), 1);
	cr_expect_eq(match_name(&made, NULL, "192.0.2.8"), NONE);
	cr_expect_eq(match_name(&made, "c.test", "192.0.2.7"), 2, "what the connection says is better than its address");
	cr_expect_eq(match_name(&made, "d.test", "192.0.2.7"), NONE);
	unmake(&made);
}

/* `dns` is about questions only, and these about nothing else; ports say nothing of them. */
Test(tables, questions_and_connections)
{
	struct made made = make("version: 1\nrules:\n"
				"- { name: a, match: { hosts: a.test, ports: 443 }, fault: { dns: empty }, duration: 1m }\n"
				"- { name: b, match: { hosts: a.test }, fault: { drop: true }, duration: 1m }\n");
	struct probe p = nobody();

	p.name = "a.test";
	p.port = 443;
	cr_expect_eq(match(&made, &p), 1);
	p.protocol = CHAOS_QUERY;
	p.port = 0;
	cr_expect_eq(match(&made, &p), 0);
	p.name = "b.test";
	cr_expect_eq(match(&made, &p), NONE);
	unmake(&made);
}

Test(tables, port_ranges_and_their_edges)
{
	static const struct {
		uint16_t port;
		int rule;
	} cases[] = {
		{ 79, NONE }, { 80, 0 },    { 81, NONE },   { 8999, 2 },  { 9000, 1 }, { 9005, 1 },	{ 9010, 1 },
		{ 9011, 2 },  { 10000, 2 }, { 10001, NONE }, { 65534, NONE }, { 65535, 3 }, { 0, NONE }, { 1, 4 },
	};
	struct made made = MAKE("ports: 80", "ports: [9000-9010]", "ports: 8000-10000", "ports: 65535", "ports: 1");

	for (size_t i = 0; i < COUNT(cases); i++)
		cr_expect_eq(match_port(&made, cases[i].port), cases[i].rule, "port %u", cases[i].port);
	unmake(&made);
	made = MAKE("ports: 1-65535, user: 60000");
	for (uint32_t port = 1; port <= 65535; port++)
		cr_assert_eq(match_port(&made, port), 0, "port %u", port);
	cr_expect_eq(match_port(&made, 0), NONE);
	unmake(&made);
}

struct comm_case {
	const char *comm;
	int rule;
};

static void expect_comms(const char *process, const char *hits, const char *misses)
{
	char *copy, *save, *word;
	struct file f;
	struct made made;

	begin(&f);
	rule(&f, "process: \"%s\"", process);
	made = end(&f);
	for (int wanted = 0; wanted >= NONE; wanted--) {
		copy = strdup(wanted == 0 ? hits : misses);
		for (word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save))
			cr_expect_eq(match_comm(&made, word), wanted, "'%s' and the name '%s'", process, word);
		free(copy);
	}
	unmake(&made);
}

Test(tables, process_names_and_patterns)
{
	expect_comms("gunicorn", "gunicorn", "gunicorn2 gunicor Gunicorn xgunicorn");
	expect_comms("gunicorn*", "gunicorn gunicorn2 gunicorngunicor", "gunicor xgunicorn");
	expect_comms("*worker", "worker kworker x-worker workerworker", "worker2 worke orker");
	expect_comms("rag*worker", "ragworker rag-worker ragworkerworker rag-ragworker", "rag worker rag-worke xragworker");
	expect_comms("*a*b*c*", "abc xaxbxcx aabbcc cabcab", "acb bca ab c");
	expect_comms("a**b", "ab axb aab abb", "a b ba abx");
	expect_comms("*.*", "a.b . .. x.", "ab a");
	expect_comms("abcdefghijklmno", "abcdefghijklmno", "abcdefghijklmn abcdefghijklmnp");
	expect_comms("abcdefghijklmno*", "abcdefghijklmno", "abcdefghijklmn abcdefghijklmnp");
	expect_comms("*abcdefghijklmno", "abcdefghijklmno", "bcdefghijklmno");
}

Test(tables, an_empty_name_meets_no_pattern_that_asks_for_a_character)
{
	struct made made = MAKE("process: \"a*\"", "process: \"*a\"", "process: bash", "user: 60000");

	cr_expect_eq(match_comm(&made, ""), 3);
	unmake(&made);
}

Test(tables, a_name_and_patterns_that_fit_it_all_count)
{
	struct made made = MAKE("process: \"*7\"", "process: \"work*\"", "process: worker-7", "ports: 4");

	cr_expect_eq(match_comm(&made, "worker-7"), 0);
	cr_expect_eq(match_comm(&made, "worker-8"), 1);
	cr_expect_eq(match_comm(&made, "bash"), 3);
	unmake(&made);
	made = MAKE("process: worker-7", "process: \"work*\"");
	cr_expect_eq(match_comm(&made, "worker-7"), 0);
	cr_expect_eq(match_comm(&made, "worker-8"), 1);
	cr_expect_eq(match_comm(&made, "bash"), NONE);
	unmake(&made);
}

Test(tables, processes_by_number)
{
	struct made made = MAKE("pid: 100", "pid: 200", "user: 60000");
	static const struct {
		uint32_t pid;
		int rule;
	} cases[] = { { 100, 0 }, { 10100, 0 }, { 200, 1 }, { 10200, 1 }, { 101, 2 }, { 99, 2 }, { 0, 2 }, { 1, 2 } };

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct probe p = nobody();

		p.process.pid = cases[i].pid;
		cr_expect_eq(match(&made, &p), cases[i].rule, "pid %u", cases[i].pid);
	}
	unmake(&made);
}

Test(tables, a_rule_whose_processes_are_all_gone_hits_nobody)
{
	struct error err = { 0 };
	struct made made = MAKE("pid: 100", "pid: 200");
	struct probe p = nobody();
	bool changed;

	made.targets[0].pids_count = 0;
	cr_expect_eq(tables_update_pids(made.tables, made.targets, &changed, &err), 0);
	cr_expect(changed);
	p.process.pid = 100;
	cr_expect_eq(match(&made, &p), NONE);
	p.process.pid = 200;
	cr_expect_eq(match(&made, &p), 1);
	unmake(&made);
}

Test(tables, cgroups_and_those_below_them)
{
	struct made made = MAKE("cgroup: \"17\"", "cgroup: \"18\"");
	struct probe p = nobody();

	for (uint64_t id = 0; id < 2000; id++) {
		p.process.cgroup_id = id;
		cr_expect_eq(match(&made, &p), id % 1000 == 17 ? 0 : id % 1000 == 18 ? 1 : NONE, "cgroup %lu", id);
	}
	unmake(&made);
}

Test(tables, users)
{
	struct made made = MAKE("user: 0", "user: 33", "pid: 4");
	struct probe p = nobody();

	p.process.uid = 0;
	cr_expect_eq(match(&made, &p), 0);
	p.process.uid = 33;
	cr_expect_eq(match(&made, &p), 1);
	p.process.uid = 34;
	cr_expect_eq(match(&made, &p), 2);
	unmake(&made);
}

Test(tables, side_and_protocol)
{
	static const struct {
		const char *match;
		bool tcp_client, udp_client, tcp_server, udp_server;
	} cases[] = {
		{ "ports: 4", true, true, false, false },
		{ "ports: 4, protocol: tcp", true, false, false, false },
		{ "ports: 4, protocol: udp", false, true, false, false },
		{ "ports: 4, side: server", false, false, true, true },
		{ "ports: 4, side: server, protocol: udp", false, false, false, true },
		{ "ports: 4, protocol: [tcp, udp]", true, true, false, false },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct made made = MAKE(cases[i].match);

		for (int kind = 0; kind < CHAOS_PROTOCOL_COUNT * CHAOS_SIDE_COUNT; kind++) {
			struct probe p = nobody();
			bool wanted;

			p.protocol = kind / CHAOS_SIDE_COUNT;
			p.side = kind % CHAOS_SIDE_COUNT;
			wanted = p.side == CHAOS_SIDE_CLIENT ?
					 (p.protocol == CHAOS_TCP ? cases[i].tcp_client : cases[i].udp_client) :
				 p.side == CHAOS_SIDE_SERVER ?
					 (p.protocol == CHAOS_TCP ? cases[i].tcp_server : cases[i].udp_server) :
					 false;
			cr_expect_eq(match(&made, &p), wanted ? 0 : NONE, "%s: protocol %d, side %d", cases[i].match,
				     p.protocol, p.side);
		}
		unmake(&made);
	}
}

/* One rule that asks for everything, and probes that miss by one dimension each. */
Test(tables, every_key_must_hold)
{
	struct made made = MAKE("hosts: 10.1.2.3, ports: 443, protocol: tcp, process: \"py*\", user: 33, pid: 100, cgroup: \"17\"");
	struct probe right = nobody(), p;

	right.process = (struct process){ .pid = 100, .uid = 33, .cgroup_id = 17, .comm = "python" };
	right.address = address("10.1.2.3");
	right.port = 443;
	cr_expect_eq(match(&made, &right), 0);
#define MISS(field, value)                                                                                             \
	p = right;                                                                                                     \
	p.field = value;                                                                                               \
	cr_expect_eq(match(&made, &p), NONE, #field)
	MISS(process.pid, 101);
	MISS(process.uid, 34);
	MISS(process.cgroup_id, 18);
	MISS(process.comm[1], 'i');
	MISS(address.s6_addr[15], 4);
	MISS(port, 444);
	MISS(protocol, CHAOS_UDP);
	MISS(side, CHAOS_SIDE_SERVER);
	unmake(&made);
}

Test(tables, everything_is_what_no_other_rule_takes)
{
	struct made made = MAKE("ports: 443", "everything: true");

	cr_expect_eq(match_port(&made, 443), 0);
	cr_expect_eq(match_port(&made, 444), 1);
	cr_expect_eq(match_address(&made, "2001:db8::1"), 1);
	cr_expect_eq(match_comm(&made, "whoever"), 1);
	unmake(&made);
}

Test(tables, the_first_rule_of_the_file_wins)
{
	struct file f;
	struct made made;

	begin(&f);
	for (int i = 0; i < 300; i++)
		rule(&f, "ports: %d-1000", i + 1);
	made = end(&f);
	cr_expect_eq(match_port(&made, 1), 0);
	cr_expect_eq(match_port(&made, 300), 0);
	unmake(&made);
	begin(&f);
	for (int i = 0; i < 300; i++)
		rule(&f, "ports: %d-1000", 300 - i);
	made = end(&f);
	for (int port = 1; port <= 300; port++)
		cr_expect_eq(match_port(&made, port), 300 - port, "port %d", port);
	cr_expect_eq(match_port(&made, 1001), NONE);
	unmake(&made);
}

/* ---- limits ---- */

Test(tables, as_many_rules_as_there_can_be)
{
	struct file f;
	struct made made;

	begin(&f);
	for (int i = 0; i < CHAOS_MAX_RULES; i++)
		rule(&f, "ports: %d, hosts: 10.%d.%d.0/24", 1000 + i, i / 256, i % 256);
	made = end(&f);
	cr_expect_eq(made.tables->knobs.rules, CHAOS_MAX_RULES);
	cr_expect_eq(made.tables->knobs.words, CHAOS_WORDS);
	for (int i = 0; i < CHAOS_MAX_RULES; i++) {
		struct probe p = nobody();
		char text[32];

		p.port = 1000 + i;
		snprintf(text, sizeof(text), "10.%d.%d.9", i / 256, i % 256);
		p.address = address(text);
		cr_expect_eq(match(&made, &p), i);
		p.port++;
		cr_expect_eq(match(&made, &p), NONE);
	}
	unmake(&made);
}

Test(tables, words_follow_the_number_of_rules)
{
	static const struct {
		int rules;
		unsigned int words;
	} cases[] = { { 1, 1 }, { 63, 1 }, { 64, 1 }, { 65, 2 }, { 128, 2 }, { 129, 3 } };

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct file f;
		struct made made;

		begin(&f);
		for (int k = 0; k < cases[i].rules; k++)
			rule(&f, "ports: %d", k + 1);
		made = end(&f);
		cr_expect_eq(made.tables->knobs.words, cases[i].words, "%d rules", cases[i].rules);
		cr_expect_eq(match_port(&made, cases[i].rules), cases[i].rules - 1);
		unmake(&made);
	}
}

Test(tables, sixty_four_patterns_and_no_more)
{
	struct file f;
	struct error err = { 0 };
	struct made made;
	char comm[16];

	begin(&f);
	for (int i = 0; i < CHAOS_MAX_PATTERNS; i++)
		rule(&f, "process: \"w%d-*\"", i);
	for (int i = 0; i < CHAOS_MAX_PATTERNS; i++) /* the same ones again cost nothing */
		rule(&f, "process: \"w%d-*\", ports: 5", i);
	made = end(&f);
	cr_expect_eq(made.tables->patterns_count, CHAOS_MAX_PATTERNS);
	for (int i = 0; i < CHAOS_MAX_PATTERNS; i++) {
		snprintf(comm, sizeof(comm), "w%d-x", i);
		cr_expect_eq(match_comm(&made, comm), i, "%s", comm);
	}
	unmake(&made);

	begin(&f);
	for (int i = 0; i <= CHAOS_MAX_PATTERNS; i++)
		rule(&f, "process: \"w%d-*\"", i % CHAOS_MAX_PATTERNS);
	fclose(f.out);
	made.rules = parse(f.text);
	made.rules->rules[CHAOS_MAX_PATTERNS].match.process.text[0] = 'x'; /* the parser would have refused it, too */
	made.targets = targets_of(made.rules);
	cr_expect_eq(tables_make(made.rules, made.targets, false, &made.tables, &err), -EINVAL);
	cr_expect_eq(err.exit, EXIT_USAGE);
	cr_expect_str_eq(err.text, "t:260:21: more than 64 different process names with '*'");
	cr_expect_null(made.tables);
	free(f.text);
	unmake(&made);
}

/* ---- rule sets ---- */

static bool is_set(const struct tables *t, uint32_t set)
{
	return set < t->sets_count;
}

static void expect_sound_sets(const struct tables *t)
{
	for (size_t i = 0; i < t->sets_count; i++)
		for (size_t k = 0; k < i; k++)
			cr_assert(memcmp(&t->sets[i], &t->sets[k], sizeof(*t->sets)) != 0, "sets %zu and %zu are equal", i, k);
	for (size_t i = 0; i < 65536; i++)
		cr_assert(is_set(t, t->ports[i]));
	for (size_t i = 0; i < t->hosts_count; i++)
		cr_assert(is_set(t, t->hosts[i].set));
	for (size_t i = 0; i < t->pids_count; i++)
		cr_assert(is_set(t, t->pids[i].set));
	for (size_t i = 0; i < t->cgroups_count; i++)
		cr_assert(is_set(t, t->cgroups[i].set));
	for (size_t i = 0; i < t->users_count; i++)
		cr_assert(is_set(t, t->users[i].set));
	for (size_t i = 0; i < t->comms_count; i++)
		cr_assert(is_set(t, t->comms[i].set));
	for (size_t i = 0; i < t->patterns_count; i++)
		cr_assert(is_set(t, t->pattern_sets[i]));
	for (int i = 0; i < CHAOS_DIM_COUNT; i++)
		cr_assert(is_set(t, t->knobs.wildcard[i]));
	for (int i = 0; i < CHAOS_KIND_COUNT; i++)
		cr_assert(is_set(t, t->knobs.kind[i]));
	cr_assert(is_set(t, t->knobs.everything));
}

Test(tables, equal_rule_sets_are_kept_once)
{
	struct file f;
	struct made made;

	begin(&f);
	for (int i = 0; i < 1000; i++)
		rule(&f, "ports: [80, 443, 8000-9000], hosts: [10.0.0.0/8, 192.0.2.0/24], user: 33");
	made = end(&f);
	expect_sound_sets(made.tables);
	cr_expect_eq(made.tables->sets_count, 2, "all rules, or none: %zu sets", made.tables->sets_count);
	unmake(&made);
}

Test(tables, thousands_of_rule_sets)
{
	struct file f;
	struct made made;

	begin(&f);
	for (int i = 0; i < 500; i++)
		rule(&f, "ports: [%d, %d], user: %d, process: p%d", i + 1, i + 2, i, i / 2);
	made = end(&f);
	expect_sound_sets(made.tables);
	cr_expect_gt(made.tables->sets_count, 1000);
	unmake(&made);
}

static const struct chaos_vector *set_of_pid(const struct tables *t, uint32_t pid)
{
	for (size_t i = 0; i < t->pids_count; i++)
		if (t->pids[i].key == pid)
			return &t->sets[t->pids[i].set];
	return NULL;
}

/* Who enters a v1 cgroup later gets the cgroup's set as the set of its pid. */
Test(tables, a_v1_cgroup_is_a_set_of_processes)
{
	struct error err = { 0 };
	struct made made = { .rules = parse("version: 1\nrules:\n"
					    "- { name: a, match: { cgroup: docker }, fault: { drop: true }, duration: 1m }\n"
					    "- { name: b, match: { ports: 4 }, fault: { drop: true }, duration: 1m }\n"
					    "- { name: c, match: { cgroup: v2 }, fault: { drop: true }, duration: 1m }\n"
					    "- { name: d, match: { pid: 200 }, fault: { drop: true }, duration: 1m }\n") };
	struct probe p = nobody();

	made.targets = calloc(4, sizeof(*made.targets));
	add_pid(&made.targets[0], 100);
	add_cgroup(&made.targets[2], 0, 78);
	add_pid(&made.targets[3], 200);
	add_cgroup(&made.targets[0], 5, 77);
	cr_assert_eq(tables_make(made.rules, made.targets, false, &made.tables, &err), 0, "%s", err.text);
	cr_assert_eq(made.tables->cgroups_count, 2);
	cr_assert_eq(made.tables->cgroups[0].key.hierarchy, 5);
	cr_expect_eq(&made.tables->sets[made.tables->cgroups[0].set], set_of_pid(made.tables, 100));
	cr_expect_eq(match(&made, &p), 1);
	p.process.pid = 100;
	cr_expect_eq(match(&made, &p), 0);
	p.process.pid = 101;
	p.process.cgroup_id = 77; /* the same number in v2 is another cgroup */
	cr_expect_eq(match(&made, &p), 1);
	unmake(&made);
}

Test(tables, processes_come_and_go)
{
	struct made made = MAKE("pid: 100", "pid: 200", "ports: 9", "pid: 300");
	struct probe p = nobody();
	struct error err = { 0 };
	bool changed = true;

	cr_expect_eq(tables_update_pids(made.tables, made.targets, &changed, &err), 0);
	cr_expect_not(changed);
	add_pid(&made.targets[0], 400); /* a child: the rules of its parent */
	cr_expect_eq(tables_update_pids(made.tables, made.targets, &changed, &err), 0);
	cr_expect(changed);
	p.process.pid = 400;
	cr_expect_eq(match(&made, &p), 0);
	add_pid(&made.targets[1], 400); /* a child of both: no such rule set has been loaded */
	cr_expect_eq(tables_update_pids(made.tables, made.targets, &changed, &err), -EAGAIN);
	unmake(&made);
}

Test(tables, the_rules_of_a_process_whatever_it_talks_to)
{
	struct made made = MAKE("user: 33, ports: 80", "user: 34, hosts: 10.0.0.1", "process: \"py*\", side: server", "ports: 9");
	struct process p = { .pid = 4, .uid = 33, .comm = "python3" };
	struct chaos_vector rules;

	tables_process_rules(made.tables, &p, &rules);
	cr_expect_eq(rules.word[0], 1 << 0 | 1 << 2 | 1 << 3);
	p = (struct process){ .pid = 4, .uid = 34, .comm = "bash" };
	tables_process_rules(made.tables, &p, &rules);
	cr_expect_eq(rules.word[0], 1 << 1 | 1 << 3);
	for (int w = 1; w < CHAOS_WORDS; w++)
		cr_expect_eq(rules.word[w], 0);
	unmake(&made);
}

/* ---- what a rule says, as the kernel is told ---- */

static const char full_rule[] =
	"version: 1\nrules:\n- name: a\n"
	"  match: { ports: 443, side: server, direction: response, include-ssh: true }\n"
	"  fault: { delay: 8s, jitter: 500ms, distribution: pareto }\n"
	"  percent: 0.5\n  per: packet\n  max-hits: 10\n  max-rate: 5/m\n  duration: 1m\n  seed: 42\n"
	"- name: b\n  match: { ports: 80, protocol: tcp }\n  fault: { refuse: timeout }\n  duration: 1m\n"
	"- name: c\n  match: { ports: 81 }\n  fault: { drop: 30 }\n  duration: 1m\n"
	"- name: d\n  match: { ports: 82 }\n  fault: { drop: true }\n  duration: 1m\n";

Test(tables, what_a_rule_says_is_what_the_kernel_is_told)
{
	struct made made = make(full_rule);
	const struct chaos_rule *r = made.tables->rules;

	cr_expect_eq(r[0].faults, 1 << CHAOS_DELAY);
	cr_expect_eq(r[0].percent_ppm, 5000);
	cr_expect_eq(r[0].flags, CHAOS_RULE_INCLUDE_SSH);
	cr_expect_eq(r[0].delay_ns, 8 * SECOND);
	cr_expect_eq(r[0].jitter_ns, SECOND / 2);
	cr_expect_eq(r[0].seed, 42);
	cr_expect_eq(r[0].max_hits, 10);
	cr_expect_eq(r[0].rate_window_ns, 60 * SECOND);
	cr_expect_eq(r[0].rate_count, 5);
	cr_expect_eq(r[0].per, CHAOS_PER_PACKET);
	cr_expect_eq(r[0].distribution, CHAOS_PARETO);
	cr_expect_eq(r[0].directions, CHAOS_RESPONSE);
	cr_expect_eq(made.tables->budgets[0].max_hits, 10);
	cr_expect_eq(made.tables->budgets[0].window_ns, 60 * SECOND);
	cr_expect_eq(r[1].faults, 1 << CHAOS_REFUSE);
	cr_expect_eq(r[1].error, ETIMEDOUT);
	cr_expect_eq(r[1].max_hits, 0);
	cr_expect_eq(r[1].rate_window_ns, 0);
	cr_expect_eq(r[1].percent_ppm, 1000000);
	cr_expect_eq(r[1].directions, CHAOS_BOTH);
	cr_expect(r[2].drop_ppm == 300000 && r[2].flags == 0);
	cr_expect(r[3].drop_ppm == 1000000 && r[3].flags == CHAOS_RULE_DROP_ALL);
	cr_expect_eq(made.tables->knobs.faults, 1 << CHAOS_DELAY | 1 << CHAOS_REFUSE | 1 << CHAOS_DROP);
	cr_expect_neq(r[1].seed, r[2].seed, "a seed that is not given is a random one");
	unmake(&made);
}

/* What leaves waits on the device, what arrives in an ifb. */
Test(tables, what_a_paced_connection_needs_of_its_device)
{
	static const struct {
		const char *match, *fault;
		unsigned int needs;
	} cases[] = {
		{ "", "rate: 1mbit", CHAOS_DEVICE_FQ | CHAOS_DEVICE_INGRESS | CHAOS_DEVICE_IFB },
		{ ", direction: request", "rate: 1mbit", CHAOS_DEVICE_FQ },
		{ ", direction: response", "rate: 1mbit", CHAOS_DEVICE_INGRESS | CHAOS_DEVICE_IFB },
		{ ", protocol: udp", "rate: 1mbit", CHAOS_DEVICE_FQ },
		{ "", "tokens: 5/s", CHAOS_DEVICE_INGRESS | CHAOS_DEVICE_IFB },
		{ "", "tokens: 5/s, delay: 1s", CHAOS_DEVICE_FQ | CHAOS_DEVICE_INGRESS | CHAOS_DEVICE_IFB },
		{ ", side: server", "rate: 1mbit", CHAOS_DEVICE_FQ | CHAOS_DEVICE_INGRESS | CHAOS_DEVICE_IFB },
		{ ", side: server, direction: request", "rate: 1mbit", CHAOS_DEVICE_INGRESS | CHAOS_DEVICE_IFB },
		{ ", side: server, direction: response", "rate: 1mbit", CHAOS_DEVICE_FQ },
		{ ", side: server", "tokens: 5/s", CHAOS_DEVICE_FQ | CHAOS_DEVICE_EGRESS },
		{ "", "delay: 1s", CHAOS_DEVICE_FQ },
		{ "", "reset: true", CHAOS_DEVICE_EGRESS | CHAOS_DEVICE_INGRESS },
		{ "", "reset: { inside: true }", 0 },
		{ "", "reset: { inside: true }, delay: 1s", CHAOS_DEVICE_FQ },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		char source[256];
		struct made made;

		snprintf(source, sizeof(source),
			 "version: 1\nrules:\n- { name: a, match: { ports: 1%s }, fault: { %s }, duration: 1m }\n",
			 cases[i].match, cases[i].fault);
		made = make(source);
		cr_expect_eq(made.tables->device_needs, cases[i].needs, "%s: %x", source, made.tables->device_needs);
		cr_expect_eq(made.tables->knobs.paces_arriving, !!(cases[i].needs & CHAOS_DEVICE_IFB), "%s", source);
		unmake(&made);
	}
}

/* What check says of a rule with several faults: which of them it is that needs it. */
Test(tables, what_one_of_several_faults_needs_of_its_device)
{
	struct made made = make("version: 1\nrules:\n- { name: a, match: { ports: 1 }, duration: 1m,"
				" fault: { delay: 1s, tokens: 5/s, break-after: { bytes: 1000 } } }\n");
	const struct rule *rule = &made.rules->rules[0];

	cr_expect_eq(rule_fault_needs(rule, CHAOS_DELAY), CHAOS_DEVICE_FQ);
	cr_expect_eq(rule_fault_needs(rule, CHAOS_TOKENS), CHAOS_DEVICE_INGRESS | CHAOS_DEVICE_IFB);
	cr_expect_eq(rule_fault_needs(rule, CHAOS_BREAK_AFTER), CHAOS_DEVICE_INGRESS);
	cr_expect_eq(rule_fault_needs(rule, CHAOS_RATE), 0, "it has none");
	unmake(&made);
}

Test(tables, observing_is_a_flag_of_every_rule)
{
	struct error err = { 0 };
	struct made made = { .rules = parse(full_rule) };

	made.targets = targets_of(made.rules);
	cr_assert_eq(tables_make(made.rules, made.targets, true, &made.tables, &err), 0);
	for (size_t i = 0; i < made.tables->rules_count; i++)
		cr_expect(made.tables->rules[i].flags & CHAOS_RULE_OBSERVE);
	unmake(&made);
}

/*
 * A slot may be begun long before it is full, so a window can see the rest of one old slot and then every slot whole,
 * that one again among them: even then not more than the limit, and never much less than it.
 */
Test(tables, slots_of_a_rate_stay_below_it)
{
	static const uint32_t rates[] = {
		1, 2, 10, 63, 64, 65, 66, 100, 127, 128, 129, 130, 191, 192, 193, 1000, 4096, 99999, 1000000,
	};

	for (size_t i = 0; i < COUNT(rates); i++) {
		char source[256];
		struct made made;
		uint64_t slots, each;

		snprintf(source, sizeof(source),
			 "version: 1\nrules:\n- name: a\n  match: { ports: 80 }\n  fault: { drop: true }\n  duration: 1m\n"
			 "  max-rate: %u/s\n", rates[i]);
		made = make(source);
		slots = made.tables->budgets[0].slots;
		each = made.tables->budgets[0].slot_faults;
		cr_expect(slots >= 1 && slots <= CHAOS_RATE_SLOTS && each >= 1, "%u/s", rates[i]);
		cr_expect_leq(slots * each + each - 1, rates[i], "%u/s: %lu slots of %lu", rates[i], slots, each);
		cr_expect_geq(slots * each, rates[i] * 0.95, "%u/s: %lu slots of %lu", rates[i], slots, each);
		if (rates[i] <= CHAOS_RATE_SLOTS)
			cr_expect(slots == rates[i] && each == 1, "%u/s is exact", rates[i]);
		unmake(&made);
	}
}

static void moments_of(const struct chaos_spread *s, double *mean, double *deviation)
{
	double sum = 0, squares = 0;

	for (int i = 0; i < CHAOS_SPREAD_STEPS; i++)
		sum += s->quantile[i];
	*mean = sum / CHAOS_SPREAD_STEPS;
	for (int i = 0; i < CHAOS_SPREAD_STEPS; i++)
		squares += (s->quantile[i] - *mean) * (s->quantile[i] - *mean);
	*deviation = sqrt(squares / CHAOS_SPREAD_STEPS) / CHAOS_SPREAD_STEPS;
	*mean /= CHAOS_SPREAD_STEPS;
}

/* In units of the jitter. A pareto tail that is cut at four deviations loses a little of both moments. */
Test(tables, spreads_have_their_mean_and_deviation)
{
	static const struct {
		enum chaos_distribution distribution;
		double mean, deviation, tolerance, least, most;
	} cases[] = {
		{ CHAOS_UNIFORM, 0, 0.57735, 0.001, -1, 1 },
		{ CHAOS_NORMAL, 0, 1, 0.002, -4, 4 },
		{ CHAOS_PARETO, -0.0234, 0.7372, 0.002, -0.5774, 4 },
	};
	struct made made = make(full_rule);

	for (size_t i = 0; i < COUNT(cases); i++) {
		const struct chaos_spread *s = &made.tables->spread[cases[i].distribution];
		double mean, deviation;

		moments_of(s, &mean, &deviation);
		cr_expect_float_eq(mean, cases[i].mean, cases[i].tolerance, "%zu: mean %f", i, mean);
		cr_expect_float_eq(deviation, cases[i].deviation, cases[i].tolerance, "%zu: deviation %f", i, deviation);
		for (int k = 0; k < CHAOS_SPREAD_STEPS; k++) {
			double q = s->quantile[k] / (double)CHAOS_SPREAD_STEPS;

			cr_assert(q >= cases[i].least - 0.001 && q <= cases[i].most + 0.001, "%zu: %f", i, q);
			cr_assert(!k || s->quantile[k] >= s->quantile[k - 1], "%zu: quantiles rise", i);
		}
	}
	for (int k = 0; k < CHAOS_SPREAD_STEPS; k++)
		cr_assert_eq(made.tables->spread[CHAOS_NORMAL].quantile[k],
			     -made.tables->spread[CHAOS_NORMAL].quantile[CHAOS_SPREAD_STEPS - 1 - k]);
	unmake(&made);
}

/* ---- at random, against a matcher that reads the rules one by one ---- */

static void compare(int rules, int probes, int *hits)
{
	struct file f;
	struct made made;

	begin(&f);
	while (f.count < rules)
		random_match(&f);
	made = end(&f);
	for (int i = 0; i < probes; i++) {
		struct probe p = random_probe();
		int got = match(&made, &p), wanted = naive_match(&made, &p);
		char text[INET6_ADDRSTRLEN];

		*hits += wanted != NONE;
		cr_assert_eq(got, wanted, "CHAOSBPF_SEED=%lu, %d rules: pid %u uid %u cgroup %lu comm '%s' %s port %u protocol "
			     "%d side %d: rule %d, expected %d", seed, rules, p.process.pid, p.process.uid,
			     p.process.cgroup_id, p.process.comm, inet_ntop(AF_INET6, &p.address, text, sizeof(text)),
			     p.port, p.protocol, p.side, got, wanted);
	}
	unmake(&made);
}

Test(tables, random_rules_and_probes, .timeout = 120)
{
	int hits = 0;

	begin_random();
	for (int i = 0; i < 60; i++)
		compare(1 + below(i < 50 ? 12 : 100), 400, &hits);
	cr_expect(hits > 4000 && hits < 23000, "%d of 24000 probes met a rule: too few or too many to tell", hits);
}

Test(tables, random_probes_among_a_thousand_rules, .timeout = 120)
{
	int hits = 0;

	begin_random();
	compare(1000, 5000, &hits);
	cr_expect_gt(hits, 1000);
}
