/* SPDX-License-Identifier: GPL-2.0-only */
/* One command at a time changes something. */
#ifndef USER_LOCK_H
#define USER_LOCK_H

#include "user/base/error.h"

/*
 * Takes the lock that serialises commands that change anything; waits at most timeout_ms. Returns a file descriptor to
 * be given to lock_release(), or a negative errno; -ETIMEDOUT names the holder in err.
 */
int lock_take(int timeout_ms, struct error *err);
void lock_release(int lock);

/* Notes beside the lock that its holder is loading: what `stop` may interrupt. */
void lock_note_loading(void);

/* Kills the process that holds the lock if it is loading; returns when it is gone. */
void lock_interrupt_loading(void);

/* In a child that goes on: lets go of its parent's lock without giving it up. */
void lock_forget(void);

#endif
