// SPDX-License-Identifier: GPL-2.0-only
#include "user/state/state_names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "bpf/chaos.h"
#include "user/base/clock.h"
#include "user/state/store.h"

/* "moc.ianepo." back to "*.openai.com", "moc.ianepo.ipa\0" to "api.openai.com". */
static void read_pattern(const struct chaos_name_key *key, char *text, size_t size)
{
	size_t len = key->prefix_len / 8 ? key->prefix_len / 8 - 1 : 0;
	bool suffix = key->reversed[len] == '.';
	char name[CHAOS_NAME_LEN];

	for (size_t i = 0; i < len; i++)
		name[i] = (char)key->reversed[len - 1 - i];
	name[len] = '\0';
	snprintf(text, size, "%s%s", suffix ? "*." : "", name);
}

static struct name_status *add_name(struct name_list *list, uint32_t number)
{
	struct name_status *more = realloc(list->entries, (list->count + 1) * sizeof(*more));

	if (!more)
		return NULL;
	list->entries = more;
	memset(&more[list->count], 0, sizeof(*more));
	more[list->count].number = number;
	return &more[list->count++];
}

static struct name_status *find_name(struct name_list *list, uint32_t number)
{
	for (size_t i = 0; i < list->count; i++) {
		if (list->entries[i].number == number)
			return &list->entries[i];
	}
	return add_name(list, number);
}

static int add_address(struct name_list *list, uint32_t number, const void *address)
{
	struct name_status *name = find_name(list, number);
	struct in6_addr *more;

	if (!name)
		return -ENOMEM;
	for (size_t i = 0; i < name->addresses_count; i++) {
		if (memcmp(&name->addresses[i], address, sizeof(*more)) == 0)
			return 0;
	}
	more = realloc(name->addresses, (name->addresses_count + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	name->addresses = more;
	memcpy(&more[name->addresses_count++], address, sizeof(*more));
	return 0;
}

static int read_patterns(uint32_t generation, struct name_list *list)
{
	int fd = store_open_pin(generation, "chaos_names"), ret = fd < 0 ? fd : 0;
	struct chaos_name_key key, *last = NULL;
	uint32_t number;

	while (!ret && bpf_map_get_next_key(fd, last, &key) == 0) {
		struct name_status *name;

		last = &key;
		if (bpf_map_lookup_elem(fd, &key, &number))
			continue;
		name = add_name(list, number);
		if (name)
			read_pattern(&key, name->text, sizeof(name->text));
		else
			ret = -ENOMEM;
	}
	if (fd >= 0)
		close(fd);
	return ret;
}

static int read_resolved(uint32_t generation, struct name_list *list)
{
	int fd = store_open_pin(generation, "chaos_resolved"), ret = fd < 0 ? fd : 0;
	struct in6_addr address, *last = NULL;
	uint32_t number;

	while (!ret && bpf_map_get_next_key(fd, last, &address) == 0) {
		last = &address;
		if (bpf_map_lookup_elem(fd, &address, &number) == 0)
			ret = add_address(list, number, &address);
	}
	if (fd >= 0)
		close(fd);
	return ret;
}

/* Entries of a process repeat those of all. */
static int read_learned(uint32_t generation, struct name_list *list)
{
	int fd = store_open_pin(generation, "chaos_learned"), ret = fd < 0 ? fd : 0;
	struct chaos_learned_key key, *last = NULL;
	struct chaos_learned learned;
	uint64_t now = boot_ns();

	while (!ret && bpf_map_get_next_key(fd, last, &key) == 0) {
		last = &key;
		if (!key.pid && bpf_map_lookup_elem(fd, &key, &learned) == 0 && learned.until_ns > now &&
		    learned.name != CHAOS_NAME_OTHER)
			ret = add_address(list, learned.name, key.address);
	}
	if (fd >= 0)
		close(fd);
	return ret;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(((const struct name_status *)a)->text, ((const struct name_status *)b)->text);
}

int name_list_read(uint32_t generation, struct name_list *list)
{
	int ret;

	memset(list, 0, sizeof(*list));
	ret = read_patterns(generation, list);
	if (ret || !list->count)
		return ret;
	ret = read_resolved(generation, list);
	ret = ret ?: read_learned(generation, list);
	if (!ret)
		qsort(list->entries, list->count, sizeof(*list->entries), by_text);
	return ret;
}

void name_list_free(struct name_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->entries[i].addresses);
	free(list->entries);
	memset(list, 0, sizeof(*list));
}
