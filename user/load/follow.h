/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Cgroups that come while a load lasts: a container, pod or unit that starts, or starts again as another cgroup. Whoever
 * serves the load (reaper.c) has them looked for.
 *
 * The kernel tells of each new cgroup by inotify, so that nothing is to be done while none comes, and a container is
 * found within milliseconds. What it is called may be written down by its runtime only later: after each new cgroup it is
 * looked again for some seconds. Where inotify cannot be had (its limits), it is looked each second. Cgroups made below
 * one that is known need none of this: the kernel side adds them by itself.
 */
#ifndef USER_FOLLOW_H
#define USER_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

struct load;

struct follow {
	bool needed;        /* some rule names what may come */
	int fd;             /* inotify, or -1 */
	bool blind;         /* some directory could not be watched */
	bool came;          /* a cgroup came since it was last looked */
	uint64_t looked_ns; /* CLOCK_BOOTTIME, when it was last looked */
	uint64_t pause_ns;  /* not before so long after that */
	uint64_t until_ns;  /* looks each second until then */
};

void follow_open(struct follow *follow, const struct load *load);
void follow_close(struct follow *follow);

/* Takes what inotify has to say; call it when `fd` is readable. */
void follow_hear(struct follow *follow, uint64_t now_ns);

/* Looks if it is time to. */
void follow_look(struct follow *follow, struct load *load, uint64_t now_ns);

/* Something else hints at a new container (a new network namespace): looks at the next chance. */
void follow_hint(struct follow *follow, uint64_t now_ns);

#endif
