/* SPDX-License-Identifier: GPL-2.0-only */
/* Paths of rules as the kernel will see them: without symbolic links. */
#ifndef USER_PATH_H
#define USER_PATH_H

#include "user/base/error.h"
#include "user/rules/rules.h"

/*
 * Fills in fault.real_path of every rule whose path leads over a symbolic link of this machine: what it leads to is meant as
 * well. What does not exist (yet) stays as it is written. 0 or -ENOMEM.
 */
int paths_resolve(struct rules *rules, struct error *err);

/* The same for one path, to be freed; NULL when there is no link in it. */
char *path_resolve(const char *path);

#endif
