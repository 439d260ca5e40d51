/* SPDX-License-Identifier: GPL-2.0-only */
/* What tests of findings share: a directory of their own, databases in it, and texts that wish nobody well. */
#ifndef TESTS_FINDINGS_FILE_H
#define TESTS_FINDINGS_FILE_H

#include "user/findings/findings.h"

/* Into a new directory that is the test's alone; removed at its end. */
void findings_enter(void);
void findings_leave(void);

/* The directory that the test was started in: the source tree. */
const char *findings_source(void);

/* A database of the first schema with four runs: held, weakness, aborted (resolved), without a verdict. */
void findings_old(const char *file);

/* Opens or fails the test. */
struct findings *findings_get(const char *file, enum findings_mode mode);

/* The run or fails the test. */
struct findings_run *findings_run_get(struct findings *findings, const char *word);

/* The whole of a file, to be freed. */
char *file_text(const char *file);

/* A text of the outermost object of a JSON document, to be freed; fails the test if it is none. */
char *json_text_of(const char *document, const char *key);

#endif
