/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rules as text, targets made by hand, and both at random: for test_tables.c on the host and bpf/test_decide.c in the
 * kernel. Random tests name their seed when they fail; CHAOSBPF_SEED=N repeats one.
 */
#ifndef TESTS_RANDOM_RULES_H
#define TESTS_RANDOM_RULES_H

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "user/rules/rules.h"
#include "user/tables/tables.h"
#include "user/target/target.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))
#define NONE (-1)

/* ---- making tables of a text ---- */

struct made {
	struct rules *rules;
	struct target *targets;
	struct tables *tables;
};

static inline struct rules *parse(const char *source)
{
	struct error err = { 0 };
	struct rules *rules;

	cr_assert_eq(rules_parse("t", source, strlen(source), NULL, &rules, &err), 0, "%s\n%s", err.text, source);
	return rules;
}

static inline void add_pid(struct target *t, uint32_t pid)
{
	t->by_pid = true;
	t->pids = realloc(t->pids, (t->pids_count + 1) * sizeof(*t->pids));
	t->pids[t->pids_count++] = pid;
}

static inline void add_cgroup(struct target *t, uint32_t hierarchy, uint64_t id)
{
	t->by_cgroup = t->by_cgroup || !hierarchy;
	t->cgroups = realloc(t->cgroups, (t->cgroups_count + 1) * sizeof(*t->cgroups));
	t->cgroups[t->cgroups_count++] = (struct chaos_cgroup_key){ .id = id, .hierarchy = hierarchy };
}

/*
 * What user/target/target.c would find on a machine of the test's own: a pid has one child (10,000 above it), the cgroup "17" the
 * id 17 and one cgroup below it (1,000 above it), users are numbers.
 */
static inline struct target *targets_of(const struct rules *rules)
{
	struct target *targets = calloc(rules->count, sizeof(*targets));

	for (size_t i = 0; i < rules->count; i++) {
		const struct match *m = &rules->rules[i].match;

		if (m->pid) {
			add_pid(&targets[i], m->pid);
			add_pid(&targets[i], m->pid + 10000);
		}
		if (m->cgroup.text) {
			add_cgroup(&targets[i], 0, atoi(m->cgroup.text));
			add_cgroup(&targets[i], 0, atoi(m->cgroup.text) + 1000);
		}
		if (m->user.text) {
			targets[i].by_user = true;
			targets[i].uid = atoi(m->user.text);
		}
	}
	return targets;
}

static inline struct made make(const char *source)
{
	struct error err = { 0 };
	struct made made;

	made.rules = parse(source);
	made.targets = targets_of(made.rules);
	cr_assert_eq(tables_make(made.rules, made.targets, false, &made.tables, &err), 0, "%s", err.text);
	return made;
}

static inline void unmake(struct made *made)
{
	tables_free(made->tables);
	targets_free(made->targets, made->rules->count);
	rules_free(made->rules);
}

/* A file of rules under way. */
struct file {
	FILE *out;
	char *text;
	size_t size;
	int count;
};

static inline void begin(struct file *f)
{
	memset(f, 0, sizeof(*f));
	f->out = open_memstream(&f->text, &f->size);
	fputs("version: 1\nrules:\n", f->out);
}

__attribute__((format(printf, 2, 3))) static inline void rule(struct file *f, const char *match, ...)
{
	va_list ap;

	fprintf(f->out, "- name: r%d\n  match: { ", f->count++);
	va_start(ap, match);
	vfprintf(f->out, match, ap);
	va_end(ap);
	fputs(" }\n  fault: { drop: true }\n  duration: 1m\n", f->out);
}

static inline struct made end(struct file *f)
{
	struct made made;

	fclose(f->out);
	made = make(f->text);
	free(f->text);
	return made;
}

/* ---- at random ---- */

static inline struct in6_addr address(const char *text)
{
	struct in6_addr a = { 0 };

	if (inet_pton(AF_INET6, text, &a) == 1)
		return a;
	a.s6_addr[10] = a.s6_addr[11] = 0xff;
	cr_assert_eq(inet_pton(AF_INET, text, &a.s6_addr[12]), 1, "%s", text);
	return a;
}

static uint64_t seed, state;

static inline void begin_random(void)
{
	const char *given = getenv("CHAOSBPF_SEED");

	if (given)
		seed = strtoull(given, NULL, 0);
	else
		cr_assert_eq(getrandom(&seed, sizeof(seed), 0), sizeof(seed));
	state = seed;
}

/* splitmix64 */
static inline uint32_t below(uint32_t limit)
{
	uint64_t z = state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return (uint32_t)((z ^ z >> 31) >> 32) % limit;
}

static inline bool one_in(uint32_t n)
{
	return below(n) == 0;
}

static const char *const networks[] = {
	"10.0.0.0/8",	 "10.1.0.0/16",	  "10.1.2.0/24",   "10.1.2.3",	     "10.1.2.128/25", "10.128.0.0/9",
	"192.0.2.0/24",	 "192.0.2.7",	  "128.0.0.0/1",   "2001:db8::/32", "2001:db8:1::/48", "2001:db8::1",
	"fe80::/10",	 "2000::/3",	  "127.0.0.1",	   "10.1.2.2/31",
};
static const char *const addresses[] = {
	"10.0.0.1",    "10.1.0.1",    "10.1.2.3",	"10.1.2.2",    "10.1.2.200", "10.200.0.1",	"192.0.2.7", "192.0.2.8",
	"200.0.0.1",   "2001:db8::1", "2001:db8:1::1", "2001:db8::2", "2002::1",	   "fe80::1",	"::1",	     "127.0.0.1",
	"255.255.255.255", "::",
};
static const char *const names[] = {
	"py*", "*3", "python3", "*", "p*n*", "*y*", "nginx", "nginx*", "*-worker", "a*b", "worker", "*r", "w*r*k", "*th*",
};
static const char *const comms[] = {
	"python3", "python", "py", "nginx", "nginx-worker", "worker", "workerk", "ab", "axb", "", "pn", "3", "y", "rag-worker",
};

static inline void random_match(struct file *f)
{
	const char *sep = "";

	fprintf(f->out, "- name: r%d\n  match: { ", f->count++);
#define KEY(...) (fputs(sep, f->out), sep = ", ", fprintf(f->out, __VA_ARGS__))
	if (one_in(3))
		KEY("hosts: [\"%s\", \"%s\"]", networks[below(COUNT(networks))], networks[below(COUNT(networks))]);
	if (one_in(3)) {
		uint32_t first = 1 + below(40);

		KEY("ports: [%u, %u-%u]", 1 + below(40), first, first + below(10));
	}
	if (one_in(4)) {
		const char *name = names[below(COUNT(names))];

		if (strcmp(name, "*") != 0)
			KEY("process: \"%s\"", name);
	}
	if (one_in(5))
		KEY("user: %u", below(4));
	if (one_in(6))
		KEY("pid: %u", 100 + below(6));
	if (one_in(6))
		KEY("cgroup: \"%u\"", 1 + below(5));
	if (!*sep)
		KEY("everything: true");
	if (one_in(5))
		KEY("protocol: %s", one_in(2) ? "tcp" : "udp");
	if (one_in(4))
		KEY("side: server");
	fputs(" }\n  fault: { drop: true }\n  duration: 1m\n", f->out);
}

static inline struct probe random_probe(void)
{
	struct probe p = {
		.process = { .pid = 99 + below(8) + 10000 * below(2), .uid = below(5), .cgroup_id = below(7) + 1000 * below(2) },
		.port = below(55),
		.protocol = below(CHAOS_PROTOCOL_COUNT),
		.side = below(CHAOS_SIDE_COUNT),
	};

	p.address = address(addresses[below(COUNT(addresses))]);
	if (one_in(4))
		p.address.s6_addr[12 + below(4)] ^= 1 << below(8);
	snprintf(p.process.comm, sizeof(p.process.comm), "%s", comms[below(COUNT(comms))]);
	return p;
}

static inline bool fits(const char *pattern, const char *name)
{
	if (*pattern == '*')
		return fits(pattern + 1, name) || (*name && fits(pattern, name + 1));
	return *pattern == *name && (!*pattern || fits(pattern + 1, name + 1));
}

static inline bool in_network(const struct in6_addr *a, const struct host *host)
{
	for (unsigned int bit = 0; bit < host->prefix_len; bit++)
		if ((a->s6_addr[bit / 8] ^ host->address.s6_addr[bit / 8]) & 0x80 >> bit % 8)
			return false;
	return true;
}

static inline bool endpoint_fits(const struct endpoint *e, const struct probe *p)
{
	bool host = !e->hosts_count, port = !e->ports_count;

	for (size_t i = 0; i < e->hosts_count; i++)
		host |= in_network(&p->address, &e->hosts[i]);
	for (size_t i = 0; i < e->ports_count; i++)
		port |= p->port >= e->ports[i].first && p->port <= e->ports[i].last;
	return host && port;
}

static inline bool process_fits(const struct match *m, const struct target *t, const struct process *p)
{
	bool pid = !t->by_pid, cgroup = !t->by_cgroup;

	for (size_t i = 0; i < t->pids_count; i++)
		pid |= t->pids[i] == p->pid;
	for (size_t i = 0; i < t->cgroups_count; i++)
		cgroup |= t->cgroups[i].id == p->cgroup_id;
	return pid && cgroup && (!t->by_user || t->uid == p->uid) && (!m->process.text || fits(m->process.text, p->comm));
}

/* The rule that matches, found by reading them one by one; NONE when none does. */
static inline int naive_match(const struct made *made, const struct probe *p)
{
	for (size_t i = 0; i < made->rules->count; i++) {
		const struct match *m = &made->rules->rules[i].match;

		if (m->protocols & 1u << p->protocol && m->side == p->side && endpoint_fits(&m->endpoint, p) &&
		    process_fits(m, &made->targets[i], &p->process))
			return i;
	}
	return NONE;
}

#endif
