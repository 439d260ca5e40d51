/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef USER_STATE_AWAITS_H
#define USER_STATE_AWAITS_H

#include "user/state/state.h"

/* Fills in rule_status.awaits. What cannot be found out is left empty: nothing else of `status` depends on it. */
void awaits_find(const struct rules *rules, struct status *s);

#endif
