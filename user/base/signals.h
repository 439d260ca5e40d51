/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The signals that ask a long-running command to end, as a file descriptor: nothing happens in a handler, so what was
 * begun is always finished and taken down in order.
 */
#ifndef USER_SIGNALS_H
#define USER_SIGNALS_H

#include "user/base/error.h"

/* Blocks SIGINT, SIGTERM, SIGHUP and SIGQUIT; readable when one has come. The descriptor or a negative errno. */
int signals_open(struct error *err);

/*
 * Takes one from the descriptor; 0 when there is none. *from_terminal: the kernel sent it (Ctrl-C, a hang-up), so that
 * every process of the foreground group has it already.
 */
int signals_read(int fd, int *from_terminal);

#endif
