// SPDX-License-Identifier: GPL-2.0-only
#include "user/base/microhttpd_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>

struct microhttpd_library microhttpd;

static bool find_all(void *handle)
{
	bool found = true;

#define FIND(name) found &= (microhttpd.name = dlsym(handle, "MHD_" #name)) != NULL;
	MICROHTTPD_FUNCTIONS(FIND)
#undef FIND
	return found;
}

int microhttpd_load(struct error *err)
{
	void *handle = dlopen("libmicrohttpd.so.12", RTLD_NOW | RTLD_LOCAL);

	if (handle && find_all(handle))
		return 0;
	if (handle)
		dlclose(handle);
	error_set(err, -ENOENT, EXIT_CANNOT, "libmicrohttpd is not installed");
	error_hint(err, "on Debian and Ubuntu: apt install libmicrohttpd12 (libmicrohttpd12t64 on newer ones)");
	return -ENOENT;
}
