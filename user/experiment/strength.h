/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What breaking dependencies has shown: which of them a service cannot do without (strong), and which it can (weak). And
 * what was known before, in a file: the next time, a weak one that has become strong is a weakness. Pure.
 */
#ifndef USER_STRENGTH_H
#define USER_STRENGTH_H

#include <stdint.h>

#include "user/base/error.h"
#include "user/experiment/robust.h"
#include "user/findings/findings.h"
#include "user/observe/wire_names.h"

/* How a dependency is broken, in this order; the later ones only where it did not matter before. */
enum breakage {
	BREAK_DOWN,   /* it goes silent */
	BREAK_SLOW,   /* each request takes longer */
	BREAK_RANDOM, /* some requests are reset */
	BREAKAGE_COUNT,
};
extern const char *const breakage_names[]; /* down, slow, random */

enum strength {
	STRENGTH_UNKNOWN, /* it was not called, or too seldom */
	STRENGTH_WEAK,
	STRENGTH_STRONG,
	STRENGTH_COUNT,
};
extern const char *const strength_names[]; /* unknown, weak, strong */

struct trial {
	bool done;
	uint64_t injected; /* faults; 0: it was not called meanwhile, and nothing is known */
	struct robust_verdict verdict;
	char cannot[160]; /* why it could not be had here, or empty */
};

struct tested {
	char name[WIRE_NAME_LEN];
	uint16_t port;
	struct trial trials[BREAKAGE_COUNT];
};

struct tested_list {
	struct tested *list;
	size_t count;
};

enum strength tested_strength(const struct tested *tested);

/* As it is shown and kept; texts are those of `tested` and of this program. `worse` as known_worse() says it, or NULL. */
struct dependency_record tested_record(const struct tested *tested, const char *worse);

/* What was known before: a line of JSON for each. */
struct known;

/* Reads the file that strength_write() wrote. */
int known_read(const char *file, struct known **known, struct error *err);
void known_free(struct known *known);

/* Why it is worse than it was known to be, or NULL: "was weak", "is new". */
const char *known_worse(const struct known *known, const struct tested *tested);

/* Replaces the file at once. */
int strength_write(const char *file, const struct tested_list *tested, struct error *err);

#endif
