/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Is all still there that a load put in place? Others may detach programs, remove filters and replace queues; the kernel
 * tells nobody. What went with its device or namespace is not missing: nothing passes there any more.
 */
#ifndef USER_WHOLE_H
#define USER_WHOLE_H

#include "user/engine/engine.h"
#include "user/engine/prepare.h"

/* 0 when all is there; -ENOLINK and what is missing, in words. Where it cannot be told it counts as there. */
int programs_whole(const struct engine *engine, struct error *err);
int devices_whole(const struct prepare *prepare, struct error *err);

/* The same for rules that `unload` has ended; -ECANCELED when it were all. */
int rules_whole(const struct engine *engine, const struct rules *rules, struct error *err);

#endif
