// SPDX-License-Identifier: GPL-2.0-only
/* `status`, `body`, `as`, `retry-after` and `hang`: what the answer to a request of HTTP is to be. */
#include <errno.h>
#include <string.h>

#include "user/base/names.h"
#include "user/rules/rules_parse.h"

#define HAS(fault, which) ((fault)->faults & (1U << (which)))
#define MIN_STATUS        400
#define MAX_STATUS        599
#define SECOND            1000000000ULL
#define MAX_RETRY_AFTER   (24 * 3600 * SECOND)

const char *const body_names[] = { "empty", "garbage", "truncated", "html", NULL };
_Static_assert(sizeof(body_names) / sizeof(body_names[0]) == BODY_COUNT - BODY_EMPTY + 1, "a name for each");

const char *const provider_names[] = { "any",     "openai",       "openai-quota", "azure", "anthropic", "gemini",
				       "bedrock", "llama-server", "vllm",         "tgi",   NULL };
_Static_assert(sizeof(provider_names) / sizeof(provider_names[0]) == PROVIDER_COUNT + 1, "a name for each");

int key_http_status(struct parser *p, const struct node *node, void *target)
{
	struct fault *fault = target;
	uint64_t status = 0;
	int err = value_number(p, node, MIN_STATUS, MAX_STATUS, &status);

	fault->faults |= 1U << CHAOS_STATUS;
	fault->status = (uint32_t)status;
	return err;
}

int key_http_body(struct parser *p, const struct node *node, void *target)
{
	struct fault *fault = target;
	unsigned int index;
	int err = value_choice(p, node, body_names, &index);

	if (err)
		return err;
	fault->faults |= 1U << CHAOS_BODY;
	fault->body = index + BODY_EMPTY;
	return 0;
}

int key_as(struct parser *p, const struct node *node, void *target)
{
	struct fault *fault = target;
	unsigned int index;
	int err = value_choice(p, node, provider_names, &index);

	if (!err)
		fault->as = index;
	return err;
}

int key_retry_after(struct parser *p, const struct node *node, void *target)
{
	struct fault *fault = target;
	int err = value_duration(p, node, MAX_RETRY_AFTER, &fault->retry_after_ns);

	if (!err && fault->retry_after_ns % SECOND)
		err = fail(p, node->mark, "retry-after '%s' is sent in whole seconds", show(p, node->text));
	fault->retry_after = true;
	return err;
}

int key_hang(struct parser *p, const struct node *node, void *target)
{
	struct fault *fault = target;

	fault->faults |= 1U << CHAOS_HANG;
	return value_true(p, node);
}

/* Which of these keys go together; `node` is the fault's map. */
int answer_check(struct parser *p, const struct node *node, struct fault *fault)
{
	const struct node *as = node_get(node, "as"), *retry = node_get(node, "retry-after");
	static const unsigned int beside = 1U << CHAOS_DELAY;

	if (retry && !HAS(fault, CHAOS_STATUS))
		return fail(p, retry->key_mark,
			    "'retry-after' needs 'status', as in { status: 429, retry-after: 20s }");
	if (as && !HAS(fault, CHAOS_STATUS))
		return fail(p, as->key_mark, "'as' needs 'status': it says whose error it is");
	if (as && HAS(fault, CHAOS_BODY))
		return fail(p, as->key_mark, "'as' and 'body' contradict each other: both say what the body is");
	if (HAS(fault, CHAOS_HANG) && HAS(fault, CHAOS_STATUS))
		return fail(p, node_get(node, "hang")->key_mark,
			    "'hang' and 'status' contradict each other: there is no answer");
	if (HAS(fault, CHAOS_HANG) && HAS(fault, CHAOS_BODY))
		return fail(p, node_get(node, "hang")->key_mark,
			    "'hang' and 'body' contradict each other: there is no answer");
	if (fault->faults & CHAOS_STREAMS && __builtin_popcount(fault->faults & CHAOS_ANSWERS) > 1)
		return fail(p, node->mark, "'%s' goes with no other fault of answers, and there is one more",
			    fault_word(__builtin_ctz(fault->faults & CHAOS_STREAMS)));
	if (fault->faults & CHAOS_ANSWERS && fault->faults & ~(CHAOS_ANSWERS | beside))
		return fail(p, node->mark, "'%s' goes with no other fault but 'delay'",
			    fault_word(__builtin_ctz(fault->faults & CHAOS_ANSWERS)));
	if (HAS(fault, CHAOS_STATUS)) /* they are one fault */
		fault->faults &= ~(1U << CHAOS_BODY);
	return 0;
}
