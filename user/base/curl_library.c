// SPDX-License-Identifier: GPL-2.0-only
#include "user/base/curl_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>

struct curl_library curl_library;

/* Debian's three builds of it have the same functions. */
static const char *const files[] = { "libcurl-gnutls.so.4", "libcurl.so.4", "libcurl-nss.so.4" };

static bool find_all(void *handle)
{
	bool found = true;

#define FIND(name) found &= (curl_library.name = dlsym(handle, "curl_" #name)) != NULL;
	CURL_LIBRARY_FUNCTIONS(FIND)
#undef FIND
	return found;
}

int curl_library_load(struct error *err)
{
	static bool loaded;

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && !loaded; i++) {
		void *handle = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);

		loaded = handle && find_all(handle);
		if (handle && !loaded)
			dlclose(handle);
	}
	if (loaded)
		return 0;
	error_set(err, -ENOENT, EXIT_CANNOT, "libcurl is not installed");
	error_hint(err, "on Debian and Ubuntu: apt install libcurl3-gnutls");
	return -ENOENT;
}
