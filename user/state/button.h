/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * `chaosbpf stop` is heard also by who has loaded nothing yet: an experiment that still measures what is normal, or waits
 * between two steps. A datagram to an abstract socket, of which nothing is left whoever dies.
 */
#ifndef USER_BUTTON_H
#define USER_BUTTON_H

#include <stdbool.h>

#include "user/base/error.h"

/* Listens; the descriptor is readable when the button has been pressed. -EBUSY: somebody listens already. */
int button_listen(struct error *err);

/* Takes what has come from the descriptor. True: root has pressed it. */
bool button_pressed(int fd);

/* Presses it. True: somebody listens. */
bool button_press(void);

#endif
