/* SPDX-License-Identifier: GPL-2.0-only */
/* libmicrohttpd, loaded when it is first needed, as libcurl is (user/base/curl_library.h). Include this in place of microhttpd.h. */
#ifndef USER_MICROHTTPD_LIBRARY_H
#define USER_MICROHTTPD_LIBRARY_H

#include <microhttpd.h>

#include "user/base/error.h"

#define MICROHTTPD_FUNCTIONS(do)                                                                                      \
	do                                                                                                            \
	(start_daemon) do(stop_daemon) do(create_response_from_buffer) do(add_response_header) do(queue_response) do( \
		destroy_response)

struct microhttpd_library {
#define MEMBER(name) typeof(&MHD_##name) name;
	MICROHTTPD_FUNCTIONS(MEMBER)
#undef MEMBER
};

extern struct microhttpd_library microhttpd;

/* Loads it, the first time. -ENOENT: it is not installed. */
int microhttpd_load(struct error *err);

#endif
