// SPDX-License-Identifier: GPL-2.0-only
#include "user/target/container.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIN_ID_PREFIX 8 /* shorter ones are too easily a name */
#define SHOWN         4 /* of several that a name could mean */
#define SHORT_ID      12

/* Cgroups that a name could mean. What is one thing has one key: an id, a UID, a path. */
struct found {
	char **paths;
	char **keys;
	const char **labels; /* for messages, not owned; may be NULL */
	size_t count;
};

static void found_free(struct found *found)
{
	for (size_t i = 0; i < found->count; i++) {
		free(found->paths[i]);
		free(found->keys[i]);
	}
	free(found->paths);
	free(found->keys);
	free(found->labels);
	memset(found, 0, sizeof(*found));
}

static int add(struct found *found, const char *path, const char *key, const char *label)
{
	char **paths = realloc(found->paths, (found->count + 1) * sizeof(*paths));
	char **keys;
	const char **labels;

	if (paths)
		found->paths = paths;
	keys = realloc(found->keys, (found->count + 1) * sizeof(*keys));
	if (keys)
		found->keys = keys;
	labels = realloc(found->labels, (found->count + 1) * sizeof(*labels));
	if (labels)
		found->labels = labels;
	if (!paths || !keys || !labels)
		return -ENOMEM;
	paths[found->count] = strdup(path);
	keys[found->count] = strdup(key);
	labels[found->count] = label;
	found->count++;
	return paths[found->count - 1] && keys[found->count - 1] ? 0 : -ENOMEM;
}

/* ---- the machine ---- */

static int need_tree(struct machine *machine)
{
	int err = machine->has_tree ? 0 : cgroup_tree_read(machine->mounts, NULL, NULL, &machine->tree);

	machine->has_tree = machine->has_tree || !err;
	return err;
}

static int need_names(struct machine *machine)
{
	int err = machine->has_names ? 0 : container_names_read(machine->root, &machine->names);

	machine->has_names = machine->has_names || !err;
	return err;
}

void machine_free(struct machine *machine)
{
	cgroup_tree_free(&machine->tree);
	container_names_free(&machine->names);
	machine->has_tree = machine->has_names = false;
}

/* ---- who is meant ---- */

/* A user's own files name containers of that user alone. */
static bool may_speak_for(const struct container_name *name, const char *path)
{
	char slice[64];

	if (!name->owner)
		return true;
	snprintf(slice, sizeof(slice), "/user-%u.slice/", name->owner);
	return strstr(path, slice) != NULL;
}

/* The entry that calls this container `wanted`, or NULL. */
static const struct container_name *name_of(const struct machine *machine, const char *id, const char *path,
					    const char *wanted)
{
	for (size_t i = 0; i < machine->names.count; i++) {
		const struct container_name *name = &machine->names.list[i];

		if (!name->is_pod && strcmp(name->id, id) == 0 && strcmp(name->name, wanted) == 0 &&
		    may_speak_for(name, path))
			return name;
	}
	return NULL;
}

static bool is_id_prefix(const char *text)
{
	size_t len = strlen(text);

	return len >= MIN_ID_PREFIX && len <= CONTAINER_ID_LEN && strspn(text, "0123456789abcdef") == len;
}

/* Not within one of these cgroups, if there are any. */
static bool is_outside(const struct found *within, const char *path)
{
	for (size_t i = 0; within && i < within->count; i++) {
		if (cgroup_is_below(path, within->paths[i]))
			return false;
	}
	return within != NULL;
}

/* A name goes before the beginning of an id, as in the runtimes' own commands. */
static int find_container(struct machine *machine, const char *wanted, bool by_id, const struct found *within,
			  struct found *found)
{
	char id[CONTAINER_ID_LEN + 1];
	int err = 0;

	for (size_t i = 0; i < machine->tree.count && !err; i++) {
		const char *path = machine->tree.paths[i];
		const struct container_name *name;

		if (!cgroup_container_id(path, id) || is_outside(within, path))
			continue;
		if (by_id) {
			if (strncmp(id, wanted, strlen(wanted)) == 0)
				err = add(found, path, id, NULL);
			continue;
		}
		name = name_of(machine, id, path, wanted);
		if (name)
			err = add(found, path, id, name->pod);
	}
	return err;
}

static int find_pod_of_uid(struct machine *machine, const char *uid, struct found *found)
{
	int err = 0;

	for (size_t i = 0; i < machine->tree.count && !err; i++) {
		if (cgroup_is_pod(machine->tree.paths[i], uid))
			err = add(found, machine->tree.paths[i], uid, NULL);
	}
	return err;
}

static int find_pod(struct machine *machine, const char *wanted, struct found *found)
{
	int err = 0;

	if (!strchr(wanted, '/'))
		return find_pod_of_uid(machine, wanted, found);
	for (size_t i = 0; i < machine->names.count && !err; i++) {
		const struct container_name *name = &machine->names.list[i];

		if (name->is_pod && strcmp(name->name, wanted) == 0)
			err = find_pod_of_uid(machine, name->id, found);
	}
	return err;
}

static bool has_suffix(const char *unit)
{
	static const char *const suffixes[] = { ".service", ".scope", ".slice", ".socket", ".mount", ".swap", NULL };
	size_t len = strlen(unit);

	for (size_t i = 0; suffixes[i]; i++) {
		size_t end = strlen(suffixes[i]);

		if (len > end && strcmp(unit + len - end, suffixes[i]) == 0)
			return true;
	}
	return false;
}

static int find_unit(struct machine *machine, const char *wanted, struct found *found)
{
	char unit[RULES_MAX_TEXT + 16];
	int err = 0;

	snprintf(unit, sizeof(unit), "%s%s", wanted, has_suffix(wanted) ? "" : ".service");
	for (size_t i = 0; i < machine->tree.count && !err; i++) {
		if (cgroup_is_unit(machine->tree.paths[i], unit))
			err = add(found, machine->tree.paths[i], machine->tree.paths[i], NULL);
	}
	return err;
}

/* ---- what to say ---- */

static bool is_first_of_key(const struct found *found, size_t index)
{
	for (size_t i = 0; i < index; i++) {
		if (strcmp(found->keys[i], found->keys[index]) == 0)
			return false;
	}
	return true;
}

static size_t count_keys(const struct found *found)
{
	size_t count = 0;

	for (size_t i = 0; i < found->count; i++)
		count += is_first_of_key(found, i);
	return count;
}

/* "0123456789ab (default/rag-0), ..." */
static void list_found(const struct found *found, bool are_ids, char *buf, size_t size)
{
	size_t shown = 0, len = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < found->count && shown < SHOWN && len < size; i++) {
		if (!is_first_of_key(found, i))
			continue;
		len += (size_t)snprintf(buf + len, size - len, "%s%.*s", shown ? ", " : "", are_ids ? SHORT_ID : 120,
					found->keys[i]);
		if (found->labels[i] && len < size)
			len += (size_t)snprintf(buf + len, size - len, " (%s)", found->labels[i]);
		shown++;
	}
	if (len < size && count_keys(found) > SHOWN)
		snprintf(buf + len, size - len, " and %zu more", count_keys(found) - SHOWN);
}

/* One thing, or an error: nothing, or several. */
static int check_one(const struct rules *rules, const struct text *text, const char *what, bool are_ids,
		     const struct found *found, struct error *err)
{
	char list[512];

	if (!found->count) {
		rules_error_at(rules, text->mark, err, EXIT_USAGE, "no %s '%s' is running here", what, text->text);
		error_hint(err, "start it first, or load with --wait, which takes it up when it starts");
		return -ENOENT;
	}
	if (count_keys(found) == 1)
		return 0;
	list_found(found, are_ids, list, sizeof(list));
	rules_error_at(rules, text->mark, err, EXIT_USAGE, "%s '%s' could be %zu: %s", what, text->text,
		       count_keys(found), list);
	if (are_ids)
		error_hint(err, "write its id, or the pod beside it");
	else
		error_hint(err, "write its path as 'cgroup'");
	return -EINVAL;
}

/* ---- all of it ---- */

static int failed(int code, struct error *err)
{
	return error_set(err, code, EXIT_FAILED, "cannot look for containers: %s", strerror(-code));
}

static int find(struct machine *machine, const struct rules *rules, const struct match *m, struct found *found,
		struct error *err)
{
	struct found pod = { 0 };
	int code = 0;

	if (m->unit.text) {
		code = find_unit(machine, m->unit.text, found);
		return code ? failed(code, err) : check_one(rules, &m->unit, "unit", false, found, err);
	}
	if (m->pod.text) {
		code = find_pod(machine, m->pod.text, &pod);
		code = code ? failed(code, err) : check_one(rules, &m->pod, "pod", false, &pod, err);
	}
	if (!code && !m->container.text) {
		*found = pod;
		return 0;
	}
	if (!code) {
		const struct found *within = m->pod.text ? &pod : NULL;

		code = find_container(machine, m->container.text, false, within, found);
		if (!code && !found->count && is_id_prefix(m->container.text))
			code = find_container(machine, m->container.text, true, within, found);
		code = code ? failed(code, err) : check_one(rules, &m->container, "container", true, found, err);
	}
	found_free(&pod);
	return code;
}

bool match_names_container(const struct match *match)
{
	return match->container.text || match->pod.text || match->unit.text;
}

int container_cgroups(struct machine *machine, const struct rules *rules, const struct match *match, char ***paths,
		      size_t *count, struct error *err)
{
	struct found found = { 0 };
	int code = need_tree(machine);

	*paths = NULL;
	*count = 0;
	if (!code && !match->unit.text)
		code = need_names(machine);
	code = code ? failed(code, err) : find(machine, rules, match, &found, err);
	if (!code) {
		*paths = found.paths;
		*count = found.count;
		found.paths = NULL;
		for (size_t i = 0; i < found.count; i++)
			free(found.keys[i]);
		found.count = 0;
	}
	found_free(&found);
	return code;
}
