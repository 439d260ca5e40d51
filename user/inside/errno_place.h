/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where errno lies in another process. It is a variable of the C library, one for each thread, and nothing but the code of
 * __errno_location() tells where: so many bytes from the thread pointer. That code is a handful of instructions in glibc
 * and musl, which are read here and not run.
 */
#ifndef USER_ERRNO_PLACE_H
#define USER_ERRNO_PLACE_H

#include <stdint.h>
#include <sys/types.h>

/*
 * From the thread pointer to errno, the same in all threads of the process and in those that it forks. `function` is the
 * address of its __errno_location; 0: of that which its libraries export. No allocation, only reads of /proc/PID.
 *
 *	-ENOENT      no such function: a static program without symbols, or nothing is mapped yet
 *	-ENOTUNIQ    several C libraries, with an errno each
 *	-EOPNOTSUPP  its code is not understood, or not on this architecture
 *	-errno       the process cannot be read
 */
int errno_place(pid_t pid, uint64_t function, int64_t *offset);

/* The code by itself: `len` bytes of it. *slot: 0, or where from the first byte a word lies that is the offset. */
int errno_place_code(const uint8_t *code, int len, int64_t *offset, int64_t *slot);

#endif
