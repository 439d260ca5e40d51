/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Text for others to fetch: a file that is replaced as a whole (Prometheus's textfile collector reads it at any moment),
 * and an HTTP server of our own that knows one page, /metrics.
 */
#ifndef USER_PUBLISH_H
#define USER_PUBLISH_H

#include <stdbool.h>
#include <stddef.h>

#include "user/base/error.h"

/*
 * Writes a file beside `path` and puts it in its place. A file that is there keeps its owner and mode, a new one is for
 * root alone, or with `readable` for everybody to read.
 */
int publish_file(const char *path, const char *text, size_t len, bool readable, struct error *err);

struct publisher;

#define PUBLISH_DEFAULT "127.0.0.1:9469"

/* `address`: "127.0.0.1:9469", "[::1]:9469", ":9469" (loopback). libmicrohttpd is loaded now: EXIT_CANNOT without. */
int publish_open(const char *address, struct publisher **publisher, struct error *err);

/* What the next who asks will get; takes `text`, which is to be freed. */
void publish_text(struct publisher *publisher, char *text, size_t len);

void publish_close(struct publisher *publisher);

#endif
