/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * libcurl, loaded when it is first needed. Linked, it and its thirty libraries would make every command begin some
 * 25 ms later, `stop` too. Include this in place of curl/curl.h, and call curl_library_load() before anything else of it.
 */
#ifndef USER_CURL_LIBRARY_H
#define USER_CURL_LIBRARY_H

#include <curl/curl.h>

#include "user/base/error.h"

#define CURL_LIBRARY_FUNCTIONS(do)                                                                               \
	do(global_init) do(global_cleanup) do(easy_init) do(easy_setopt) do(easy_perform) do(easy_getinfo)       \
	do(easy_cleanup) do(easy_strerror) do(slist_append) do(slist_free_all) do(multi_init) do(multi_setopt)   \
	do(multi_add_handle) do(multi_remove_handle) do(multi_perform) do(multi_poll) do(multi_info_read)        \
	do(multi_cleanup) do(multi_strerror)

struct curl_library {
#define MEMBER(name) typeof(&curl_##name) name;
	CURL_LIBRARY_FUNCTIONS(MEMBER)
#undef MEMBER
};

extern struct curl_library curl_library;

/* Loads it, the first time. -ENOENT: it is not installed. */
int curl_library_load(struct error *err);

/* The usual names; curl.h has macros of some that check types, and these are checked by the members' types. */
#undef curl_easy_setopt
#undef curl_easy_getinfo
#undef curl_multi_setopt
#define curl_global_init         curl_library.global_init
#define curl_global_cleanup      curl_library.global_cleanup
#define curl_easy_init           curl_library.easy_init
#define curl_easy_setopt         curl_library.easy_setopt
#define curl_easy_perform        curl_library.easy_perform
#define curl_easy_getinfo        curl_library.easy_getinfo
#define curl_easy_cleanup        curl_library.easy_cleanup
#define curl_easy_strerror       curl_library.easy_strerror
#define curl_slist_append        curl_library.slist_append
#define curl_slist_free_all      curl_library.slist_free_all
#define curl_multi_init          curl_library.multi_init
#define curl_multi_setopt        curl_library.multi_setopt
#define curl_multi_add_handle    curl_library.multi_add_handle
#define curl_multi_remove_handle curl_library.multi_remove_handle
#define curl_multi_perform       curl_library.multi_perform
#define curl_multi_poll          curl_library.multi_poll
#define curl_multi_info_read     curl_library.multi_info_read
#define curl_multi_cleanup       curl_library.multi_cleanup
#define curl_multi_strerror      curl_library.multi_strerror

#endif
