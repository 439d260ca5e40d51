/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rules compiled for the kernel: rule sets, and for every dimension what leads to which set. Pure: takes what was
 * parsed and looked up, touches nothing of the machine; tests run it on the host with the matcher of bpf/match.h.
 */
#ifndef USER_TABLES_H
#define USER_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/chaos.h"
#include "user/base/error.h"
#include "user/base/process.h"
#include "user/rules/rules.h"
#include "user/target/target.h"

/* Faults inside a process that are done by probes on functions. */
#define FAULTS_BY_PROBE (1U << CHAOS_GPU_OOM | 1U << CHAOS_CALL)

/* Does it need probes: for its fault, or to read requests inside TLS? */
static inline bool rule_has_probes(const struct rule *rule)
{
	return rule->fault.faults & FAULTS_BY_PROBE || rule->match.http.given;
}

#define DEFINE_PAIR(name, key_type) \
	struct name {               \
		key_type key;       \
		uint32_t set;       \
	}
DEFINE_PAIR(pid_pair, uint32_t);
DEFINE_PAIR(cgroup_pair, struct chaos_cgroup_key);
DEFINE_PAIR(user_pair, uint32_t);
struct comm_pair {
	char key[CHAOS_COMM_LEN];
	uint32_t set;
};
DEFINE_PAIR(host_pair, struct chaos_address_key);

/* A pattern of names and its number; what an address was when the rules were loaded. */
struct name_pair {
	struct chaos_name_key key;
	uint32_t number;
};
struct resolved_pair {
	struct in6_addr key; /* mapped */
	uint32_t number;
};

/* A name in a directory that rules have in a path. */
struct part_pair {
	struct chaos_part_key key;
	struct chaos_part part;
};

struct tables {
	struct chaos_rule *rules;
	struct chaos_budget *budgets;
	size_t rules_count;

	struct chaos_vector *sets;
	size_t sets_count;
	uint32_t *sets_index; /* hash of vectors, to find equal ones */
	size_t sets_room;

	struct pid_pair *pids;
	size_t pids_count;
	struct cgroup_pair *cgroups;
	size_t cgroups_count;
	bool follows;    /* cgroups may come while the load lasts, and new sets with them */
	bool follows_v1; /* of v1 hierarchies, with processes */
	struct user_pair *users;
	size_t users_count;
	struct comm_pair *comms;
	size_t comms_count;
	struct host_pair *hosts;
	size_t hosts_count;
	uint32_t *ports; /* 65536 sets */

	const char *const *resolvers; /* process names, ends with NULL; NULL: no rule asks for them */

	struct name_pair *names;
	size_t names_count;
	struct resolved_pair *resolved;
	size_t resolved_count;
	uint32_t *name_sets; /* by number; 0 is CHAOS_NAME_OPEN */
	size_t name_sets_count;

	struct part_pair *parts;
	size_t parts_count;
	unsigned int operations; /* of all rules for errno, a set of 1 << enum chaos_operation */

	struct chaos_form *forms; /* of answers */
	size_t forms_count;
	struct chaos_http_table *http; /* NULL: no rule is about requests */

	struct chaos_patterns patterns;
	uint32_t pattern_sets[CHAOS_MAX_PATTERNS];
	size_t patterns_count;

	struct chaos_spread *spread; /* CHAOS_DISTRIBUTION_COUNT */
	unsigned int device_needs;   /* of all rules, see rule_device_needs() */
	uint32_t probed;             /* the set of rules with probes */
	struct chaos_knobs knobs;    /* wildcard, kind, everything, faults, patterns, rules */
};

/* What a rule needs of the devices that its packets pass: a set of enum chaos_device_flag. */
unsigned int rule_device_needs(const struct rule *rule);

/* What one of its faults does. */
unsigned int rule_fault_needs(const struct rule *rule, enum chaos_fault fault);

/* Does it take the assist on every kernel? On those whose programs cannot write registers, all rules with probes do. */
bool rule_needs_assist(const struct rule *rule);

/*
 * The key of a name, lower case: as it is sent, or with `suffix` as the pattern `*.name`. `name` has at most
 * RULES_MAX_HOST_NAME characters.
 */
void tables_name_key(const char *name, bool suffix, struct chaos_name_key *key);

/* Puts a pattern of process names (CHAOS_COMM_LEN - 1 characters, stars not counted) into a lane of its own. */
void tables_add_pattern(struct chaos_patterns *patterns, size_t lane, const char *pattern);

/* To be freed with tables_free(). EXIT_USAGE when the rules exceed a limit (hosts, patterns). */
int tables_make(const struct rules *rules, const struct target *targets, bool observe, struct tables **tables,
		struct error *err);
void tables_free(struct tables *tables);

/*
 * Takes the processes of `targets` in place of those that the tables were made with; *changed: some came or went. No
 * new rule sets can come of it (a child has its parent's): -EAGAIN if they would.
 */
int tables_update_pids(struct tables *tables, const struct target *targets, bool *changed, struct error *err);

/*
 * Takes the cgroups of `targets` in place of those that are there, and adds their processes to those that are there
 * (what the kernel has added stays). New rule sets may come of it, behind those that there were.
 */
int tables_update_cgroups(struct tables *tables, const struct target *targets, struct error *err);

/* The rules that could hit a socket of this process, whatever the address; lowest rule, or CHAOS_NO_RULE. */
void tables_process_rules(const struct tables *tables, const struct process *process, struct chaos_vector *rules);

/* The rules for a process name (16 bytes, the rest NUL). */
void tables_comm_rules(const struct tables *tables, const char *comm, struct chaos_vector *rules);

/* The rules that name this file, whoever uses it, those without a path included; NULL: what has no path. */
void tables_path_rules(const struct tables *tables, const char *path, struct chaos_vector *rules);

/* What the kernel's matcher chooses among all rules: for tests. CHAOS_NO_RULE when none matches. */
struct probe {
	struct process process;
	struct in6_addr address; /* mapped */
	uint16_t port;
	enum chaos_protocol protocol;
	enum chaos_side side;
	const char *name; /* that the connection asked for, lower case; NULL: by its address */
};
uint32_t tables_match(const struct tables *tables, const struct probe *probe);

#endif
