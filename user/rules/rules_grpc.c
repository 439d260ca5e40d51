// SPDX-License-Identifier: GPL-2.0-only
/*
 * `grpc: unavailable`: the status that a client of gRPC makes of a stream that is reset (PROTOCOL-HTTP2.md of gRPC, "Errors").
 * Which request it is cannot be told yet: names and paths are compressed by what was sent before.
 */
#include "user/base/names.h"
#include "user/rules/rules_parse.h"

int key_grpc(struct parser *p, const struct node *node, void *target)
{
	struct fault *fault = target;
	unsigned int index = 0;
	int err = value_choice(p, node, grpc_names, &index);

	fault->faults |= 1U << CHAOS_GRPC;
	if (!err)
		fault->grpc = grpc_codes[index];
	return err;
}

int grpc_check(struct parser *p, const struct node *node, struct rule *rule)
{
	const struct node *match = node_get(node, "match"), *per = node_get(node, "per"), *found;

	if (rule->match.side == CHAOS_SIDE_SERVER)
		return fail(
			p, node_get(match, "side")->mark,
			"'grpc' is for the client: streams are reset where answers arrive; leave 'side' out and name "
			"the clients");
	found = node_get(match, "protocol");
	if (found && rule->match.protocols & 1U << CHAOS_UDP)
		return fail(p, found->mark, "'grpc' is for tcp only");
	found = node_get(match, "direction");
	if (found && rule->match.directions != CHAOS_RESPONSE)
		return fail(p, found->mark, "'grpc' is about the response; leave 'direction' out");
	if (per && rule->per != CHAOS_PER_REQUEST)
		return fail(p, per->mark, "'per: %s' makes no sense with 'grpc', decided for each call",
			    per_names[rule->per]);
	rule->per = CHAOS_PER_REQUEST;
	rule->match.protocols = 1U << CHAOS_TCP;
	return 0;
}
