/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The journal: what devices had before we touched them, so that it comes back even after kill -9.
 *
 * A text file, one record a line, each with a checksum; a line that is torn or damaged is passed over. Records are only
 * ever appended, and always before the device is touched, so a record says what was there if it is gone, never that it
 * is gone: whoever restores looks at the device first. The last record of a device counts. The file is written anew
 * without the records that are settled, and goes when none is left.
 */
#ifndef USER_JOURNAL_H
#define USER_JOURNAL_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "user/base/error.h"
#include "user/engine/qdisc.h"

enum journal_kind {
	JOURNAL_QDISC,  /* `tree` is what the device had */
	JOURNAL_CLSACT, /* `made`: the device's clsact is of our making; of `tree` only the length counts */
	JOURNAL_KIND_COUNT,
};

struct journal_record {
	enum journal_kind kind;
	uint64_t netns;  /* inode */
	uint64_t cookie; /* of the namespace, 0: unknown */
	unsigned int ifindex;
	char name[IF_NAMESIZE];
	bool made;
	struct qdisc_tree tree;
	bool settled; /* to be forgotten by journal_forget() */
};

struct journal {
	struct journal_record *records;
	size_t count;
	size_t size;  /* how much of the file was read */
	uint32_t sum; /* of that much */
};

/* Opens for appending; makes the file, and its directory if need be. One at a time in a process. */
int journal_open(const char *path, struct error *err);
void journal_close(void);
bool journal_is_open(void);

/* Appends one record to the open journal; without an open one does nothing. 0 or negative errno. */
int journal_append(const struct journal_record *record);

/* Reads all good records of a journal; a missing file has none. Free with journal_free(). */
int journal_read(const char *path, struct journal *journal, struct error *err);
/* Reads the journal that is open for appending; empty when there is none. */
int journal_read_open(struct journal *journal);
void journal_free(struct journal *journal);

/* The record that counts for this device, or NULL. */
struct journal_record *journal_find(const struct journal *journal, enum journal_kind kind, uint64_t netns,
				    uint64_t cookie, unsigned int ifindex);

/* Writes the file anew with the records that are not settled, and whatever was appended since it was read. */
int journal_forget(const char *path, const struct journal *journal, struct error *err);

#endif
