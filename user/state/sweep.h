/* SPDX-License-Identifier: GPL-2.0-only */
/* Finding what is ours in the kernel without any record of it: by the names of programs and maps. */
#ifndef USER_SWEEP_H
#define USER_SWEEP_H

#include <stddef.h>
#include <stdint.h>

/* Writes 0 into every control word that exists, pinned or not. 0 or the first negative errno. */
int sweep_disarm(void);

/* Links whose program's name begins with "chaos_". */
size_t sweep_count_links(void);

/* Detaches them, whoever holds them. The number detached. */
size_t sweep_links(void);

/* Packets that wait in queues of ours, in all namespaces. */
uint32_t sweep_backlog(void);

#endif
