/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The process that holds the faults of a run: it loads, serves and ends them, and does nothing else. So nothing that a run
 * waits for, be it a disk, a terminal or an answer, comes between an order and the end of a fault; and loading, which
 * may take seconds, delays no probe.
 *
 * The faults end with either of the two processes: the kernel kills the holder when the run dies, and takes the faults
 * away with it.
 */
#ifndef USER_HOLDER_H
#define USER_HOLDER_H

#include <sys/types.h>

#include "user/load/load.h"
#include "user/experiment/experiment.h"

/* What is said of them when somebody else did. */
#define ENDED_ELSEWHERE "the faults were ended from elsewhere, as by 'chaosbpf stop'"

struct holder {
	pid_t pid;
	int fd; /* readable when there is news */
};

enum news {
	NEWS_LOADED,  /* or not: see `ret` */
	NEWS_ENDED,   /* as ordered */
	NEWS_OVER,    /* the last rule has ended by itself; NEWS_ENDED follows when it is taken down */
	NEWS_STOPPED, /* somebody else has taken the load away */
	NEWS_LOST, /* somebody else has taken a part of it away: see `err`. What is left stays until it is ordered to end */
	NEWS_GONE, /* the holder itself has died */
};

struct holder_news {
	enum news news;
	int ret; /* 0, or a negative errno and `err` */
	struct error err;
	struct load_result result; /* of NEWS_LOADED */
	int whole;                 /* of NEWS_ENDED: 0, or as load_whole(), and what was missing in the end */
	struct error missing;
};

/* Starts it; nothing is loaded yet. Before any thread is started, and with the signals of signals_open() blocked. */
int holder_start(struct holder *holder, const struct experiment *experiment, struct error *err);

/* Orders, answered by news: load the rules of a step (ends those before), end what is loaded. */
int holder_load(struct holder *holder, size_t step, struct error *err);
int holder_end(struct holder *holder, struct error *err);

/* Takes one piece of news; false: there is none. */
bool holder_read(struct holder *holder, struct holder_news *news);

/* Ends what is loaded, and the process; waits for that. */
void holder_stop(struct holder *holder);

#endif
