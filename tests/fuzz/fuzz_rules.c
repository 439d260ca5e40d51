// SPDX-License-Identifier: GPL-2.0-only
/*
 * Any bytes as a rules file: the parser says no with a place in the file, or gives rules that keep the promises of
 * user/rules/rules.h and can be explained. Build: clang -fsanitize=fuzzer,address,undefined.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/require.h"
#include "user/rules/explain.h"
#include "user/rules/rules.h"

#define PRESETS "rules/presets/endpoints.yaml" /* run from the top of the source tree */

static void require_error(const struct error *err)
{
	unsigned int line = 0, column = 0;
	int end = 0;

	REQUIRE(err->exit == EXIT_USAGE);
	REQUIRE(sscanf(err->text, "f:%u:%u: %n", &line, &column, &end) == 2);
	REQUIRE(line > 0 && column > 0 && end > 0 && err->text[end] != '\0');
	for (const char *c = err->text; *c; c++)
		REQUIRE((unsigned char)*c >= 0x20 && *c != 0x7f);
}

static void require_fault(const struct rule *rule)
{
	const struct fault *fault = &rule->fault;

	REQUIRE(fault->faults != 0 && fault->faults < 1U << CHAOS_FAULT_COUNT);
	REQUIRE(fault_longest_delay(fault) <= CHAOS_MAX_DELAY_NS);
	REQUIRE(fault->jitter_ns <= fault->delay_ns || fault->jitter_ns <= fault->delay_ramp.to);
	REQUIRE(fault->drop_ppm <= 1000000 && (!fault->drop_all || fault->drop_ppm == 1000000));
	REQUIRE(!!fault->refuse == !!(fault->faults & (1U << CHAOS_REFUSE)));
	REQUIRE(!fault->refuse || rule->per == CHAOS_PER_CONNECTION);
}

static void require_match(const struct match *match)
{
	const struct endpoint *endpoint = &match->endpoint;

	REQUIRE(match->protocols && match->protocols <= RULES_ANY_PROTOCOL);
	REQUIRE(match->directions >= CHAOS_REQUEST && match->directions <= CHAOS_BOTH);
	REQUIRE(match->side == CHAOS_SIDE_CLIENT || match->side == CHAOS_SIDE_SERVER);
	REQUIRE(match->everything || endpoint->hosts_count || endpoint->names_count || endpoint->ports_count || match->pid ||
		match->cgroup.text || match->container.text || match->pod.text || match->unit.text ||
		match->process.text || match->user.text);
	for (size_t i = 0; i < endpoint->hosts_count; i++)
		REQUIRE(endpoint->hosts[i].prefix_len <= 128);
	for (size_t i = 0; i < endpoint->names_count; i++)
		REQUIRE(endpoint->names[i].name[0] && strlen(endpoint->names[i].name) <= RULES_MAX_HOST_NAME);
	for (size_t i = 0; i < endpoint->ports_count; i++)
		REQUIRE(endpoint->ports[i].first && endpoint->ports[i].first <= endpoint->ports[i].last);
}

static void require_rule(const struct rule *rule)
{
	REQUIRE(rule->name[0] != '\0' && strlen(rule->name) <= RULES_MAX_NAME);
	REQUIRE(rule->mark.line > 0 && rule->mark.column > 0);
	REQUIRE(rule->percent_ppm <= 1000000);
	REQUIRE(rule->duration_ns > 0 && rule->duration_ns <= RULES_MAX_DURATION_NS);
	REQUIRE(!rule->rate_count == !rule->rate_window_ns);
	REQUIRE(rule->window.first_minute < 1440 && rule->window.last_minute <= 1440);
	REQUIRE(rule->window.days > 0 && rule->window.days <= 0x7f);
	require_match(&rule->match);
	require_fault(rule);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* An end for every rule in half of the runs, else few rules get through. */
	struct rules_options options = { .duration_ns = size % 2 ? 60000000000ULL : 0, .endpoints = PRESETS };
	struct error err = { 0 };
	struct rules *rules;
	char sentence[8192];

	if (rules_parse("f", (const char *)data, size, &options, &rules, &err)) {
		REQUIRE(rules == NULL);
		require_error(&err);
		return 0;
	}
	REQUIRE(rules->count > 0 && rules->count <= CHAOS_MAX_RULES);
	for (size_t i = 0; i < rules->count; i++) {
		require_rule(&rules->rules[i]);
		REQUIRE(explain_rule(rules, i, sentence, sizeof(sentence)) == 0);
	}
	rules_free(rules);
	return 0;
}
