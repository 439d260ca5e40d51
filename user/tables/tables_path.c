// SPDX-License-Identifier: GPL-2.0-only
/* Paths of rules: a tree of names, and the trie by which the kernel goes down in it (bpf/path.bpf.h). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "user/tables/tables_internal.h"

/* A name in a directory, or the beginning of one (`star`). Node 0 is none, node 1 the root. */
struct node {
	size_t parent, first_child, next; /* next: of the same directory; 0: none */
	const char *name;                 /* within the rule's path */
	size_t len;
	bool star;
	struct chaos_vector ends, below; /* rules */
};

struct tree {
	struct node *nodes;
	size_t count, room;
};

static int new_node(struct tree *tree, struct node node, size_t *number)
{
	if (tree->count == tree->room) {
		size_t room = tree->room ? 2 * tree->room : 64;
		struct node *more = realloc(tree->nodes, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		tree->nodes = more;
		tree->room = room;
	}
	*number = tree->count;
	tree->nodes[tree->count++] = node;
	return 0;
}

/* The node of that name, made when it is not there. */
static int child(struct tree *tree, size_t parent, const char *name, size_t len, bool star, size_t *number)
{
	struct node node = { .parent = parent, .name = name, .len = len, .star = star };
	int err;

	for (size_t i = tree->nodes[parent].first_child; i; i = tree->nodes[i].next) {
		const struct node *n = &tree->nodes[i];

		if (n->star == star && n->len == len && memcmp(n->name, name, len) == 0) {
			*number = i;
			return 0;
		}
	}
	node.next = tree->nodes[parent].first_child;
	err = new_node(tree, node, number);
	if (!err)
		tree->nodes[parent].first_child = *number;
	return err;
}

/* The path is as user/rules/rules_call.c lets it pass: absolute, no empty part, a star at the end only. */
static int add_path(struct tree *tree, const char *path, size_t rule)
{
	size_t at = CHAOS_PART_ROOT;
	int err = 0;

	while (*path && !err) {
		const char *name = path + 1;
		size_t len = strcspn(name, "/");

		if (len >= CHAOS_PART_LEN) /* of a link only, and cannot be told from another one that begins so */
			return 0;
		path = name + len;
		if (!*path && strcmp(name, "**") == 0) {
			set_bit(&tree->nodes[at].below, rule);
			return 0;
		}
		if (!*path && len && name[len - 1] == '*')
			err = child(tree, at, name, len - 1, true, &at);
		else
			err = child(tree, at, name, len, false, &at);
	}
	if (!err)
		set_bit(&tree->nodes[at].ends, rule);
	return err;
}

/* What holds for a name that begins with that of a star holds for the longer one as well: the trie finds only that. */
static void add_stars(struct tree *tree, struct node *to, const struct chaos_vector *own)
{
	for (size_t i = tree->nodes[to->parent].first_child; i; i = tree->nodes[i].next) {
		const struct node *n = &tree->nodes[i];

		if (n->star && n->len <= to->len && memcmp(n->name, to->name, n->len) == 0)
			merge(&to->ends, &own[i]);
	}
}

/* Rules for directories hold for all in them; parents stand before their children. */
static int complete(struct tree *tree)
{
	struct chaos_vector *own = malloc(tree->count * sizeof(*own));

	if (!own)
		return -ENOMEM;
	for (size_t i = 0; i < tree->count; i++)
		own[i] = tree->nodes[i].ends;
	for (size_t i = CHAOS_PART_ROOT + 1; i < tree->count; i++) {
		struct node *n = &tree->nodes[i];

		add_stars(tree, n, own);
		merge(&n->ends, &tree->nodes[n->parent].below);
		merge(&n->below, &tree->nodes[n->parent].below);
	}
	free(own);
	return 0;
}

static int fill_part(struct tables *t, const struct node *n, size_t number, struct part_pair *pair)
{
	int err;

	pair->key.node = n->parent;
	memcpy(pair->key.name, n->name, n->len);
	pair->key.prefix_len = 8 * (sizeof(pair->key.node) + n->len + !n->star);
	pair->part.node = n->first_child ? number : 0;
	err = tables_set_number(t, &n->ends, &pair->part.ends);
	return err ?: tables_set_number(t, &n->below, &pair->part.below);
}

static int fill_parts(struct tables *t, const struct tree *tree)
{
	int err = 0;

	t->parts = calloc(tree->count, sizeof(*t->parts));
	if (!t->parts)
		return -ENOMEM;
	for (size_t i = CHAOS_PART_ROOT + 1; i < tree->count && !err; i++)
		err = fill_part(t, &tree->nodes[i], i, &t->parts[t->parts_count++]);
	return err ?: tables_set_number(t, &tree->nodes[CHAOS_PART_ROOT].below, &t->knobs.below_root);
}

int tables_make_paths(struct tables *t, const struct rules *rules)
{
	struct tree tree = { 0 };
	struct chaos_vector *any;
	size_t number;
	int err;

	err = new_node(&tree, (struct node){ 0 }, &number);
	err = err ?: new_node(&tree, (struct node){ 0 }, &number);
	for (size_t i = 0; i < rules->count && !err; i++) {
		const struct fault *f = &rules->rules[i].fault;

		if (!f->path.text) {
			set_bit(&tree.nodes[CHAOS_PART_ROOT].below, i);
			continue;
		}
		t->knobs.paths = 1;
		err = add_path(&tree, f->path.text, i);
		if (!err && f->real_path)
			err = add_path(&tree, f->real_path, i);
	}
	if (err)
		goto out;
	any = &(struct chaos_vector){ 0 };
	for (size_t i = 0; i < rules->count; i++) {
		if (!rules->rules[i].fault.path.text)
			set_bit(any, i);
	}
	err = tables_set_number(t, any, &t->knobs.pathless);
	err = err ?: complete(&tree);
	err = err ?: fill_parts(t, &tree);
out:
	free(tree.nodes);
	return err;
}

/* As the kernel's trie: the longest key that the wanted one begins with. */
static const struct chaos_part *find_part(const struct tables *t, uint32_t node, const char *name, size_t len)
{
	struct chaos_part_key key = { .node = node };
	const struct chaos_part *found = NULL;
	uint32_t longest = 0;

	memcpy(key.name, name, len < CHAOS_PART_LEN ? len : CHAOS_PART_LEN - 1);
	for (size_t i = 0; i < t->parts_count; i++) {
		const struct part_pair *pair = &t->parts[i];

		if (pair->key.prefix_len >= longest &&
		    memcmp(&pair->key.node, &key.node, pair->key.prefix_len / 8) == 0) {
			longest = pair->key.prefix_len;
			found = &pair->part;
		}
	}
	return found;
}

void tables_path_rules(const struct tables *t, const char *path, struct chaos_vector *rules)
{
	uint32_t set = path && path[0] && path[1] ? t->knobs.below_root : t->knobs.pathless, node = CHAOS_PART_ROOT;

	for (size_t len; path && *path && path[1]; path += 1 + len) {
		const struct chaos_part *part;

		len = strcspn(path + 1, "/");
		part = find_part(t, node, path + 1, len);
		if (!part)
			break;
		set = path[1 + len] ? part->below : part->ends;
		node = part->node;
		if (!node)
			break;
	}
	*rules = t->sets[set];
}
