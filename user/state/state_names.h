/* SPDX-License-Identifier: GPL-2.0-only */
/* What the names of the loaded rules stand for at present, as the kernel has it. */
#ifndef USER_STATE_NAMES_H
#define USER_STATE_NAMES_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

/* One pattern, or (text empty) what several patterns share. */
struct name_status {
	uint32_t number;
	char text[264];             /* `*.` in front of a suffix */
	struct in6_addr *addresses; /* IPv4 in mapped form */
	size_t addresses_count;
};

struct name_list {
	struct name_status *entries;
	size_t count;
};

/*
 * Names in alphabetical order: addresses from when the rules were loaded and those that DNS answers have taught and that
 * are not too old. 0 or a negative errno; what was read is to be freed with name_list_free() either way.
 */
int name_list_read(uint32_t generation, struct name_list *list);
void name_list_free(struct name_list *list);

#endif
