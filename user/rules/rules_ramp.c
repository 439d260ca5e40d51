// SPDX-License-Identifier: GPL-2.0-only
/* Values that move while a rule lasts: "200ms..8s over 60s", up or down. */
#include <string.h>

#include "user/rules/rules_parse.h"

#define OVER " over "

/* Cuts a piece out of a value into a node of its own, so that a message can point at it; spaces around it are let go. */
static struct node piece_of(const struct node *node, char *buf, size_t size, const char *first, const char *end)
{
	struct node piece = *node;
	size_t len;

	while (first < end && *first == ' ')
		first++;
	while (end > first && end[-1] == ' ')
		end--;
	len = (size_t)(end - first);
	if (len >= size)
		len = size - 1;
	memcpy(buf, first, len);
	buf[len] = '\0';
	piece.text = buf;
	piece.mark.column += (unsigned int)(first - node->text) + !node->plain;
	return piece;
}

static int read_over(struct parser *p, const struct node *node, const char *text, uint64_t *over_ns)
{
	char buf[RULES_MAX_TEXT + 1];
	struct node piece = piece_of(node, buf, sizeof(buf), text, text + strlen(text));
	int err;

	err = value_duration(p, &piece, RULES_MAX_DURATION_NS, over_ns);
	if (!err && *over_ns == 0)
		err = fail(p, piece.mark, "%s '%s' jumps at once, the time after 'over' must be more than 0",
			   node->label, show(p, node->text));
	return err;
}

int value_ramped(struct parser *p, const struct node *node, value_fn read, uint64_t *value, struct ramp *ramp)
{
	const char *dots = node->kind == NODE_TEXT ? strstr(node->text, "..") : NULL, *over;
	char from[RULES_MAX_TEXT + 1], to[RULES_MAX_TEXT + 1];
	struct node piece;
	int err;

	memset(ramp, 0, sizeof(*ramp));
	if (!dots)
		return read(p, node, value);
	over = strstr(dots, OVER);
	if (!over)
		return fail(p, node->mark, "%s '%s' lacks the time it takes, as in '%s over 60s'", node->label,
			    show(p, node->text), show(p, node->text));
	piece = piece_of(node, from, sizeof(from), node->text, dots);
	err = read(p, &piece, value);
	if (err)
		return err;
	piece = piece_of(node, to, sizeof(to), dots + 2, over);
	err = read(p, &piece, &ramp->to);
	if (!err)
		err = read_over(p, node, over + strlen(OVER), &ramp->over_ns);
	if (!err && ramp->to == *value)
		err = fail(p, node->mark, "%s '%s' does not move, write '%s'", node->label, show(p, node->text),
			   show(p, from));
	return err;
}

static int read_percent(struct parser *p, const struct node *node, uint64_t *value)
{
	uint32_t ppm = 0;
	int err = value_percent(p, node, &ppm);

	*value = ppm;
	return err;
}

int percent_ramped(struct parser *p, const struct node *node, uint32_t *ppm, struct ramp *ramp)
{
	uint64_t value = 0;
	int err = value_ramped(p, node, read_percent, &value, ramp);

	*ppm = (uint32_t)value;
	return err;
}
