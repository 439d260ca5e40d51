// SPDX-License-Identifier: GPL-2.0-only
/*
 * Any bytes as a runtime's state file: nothing comes of it but ids and names of their shape. The first byte chooses the
 * runtime. Build: clang -fsanitize=fuzzer,address,undefined.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/require.h"
#include "user/target/container_names.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void require_name(const struct container_name *name)
{
	REQUIRE(strspn(name->id, "0123456789abcdef") == CONTAINER_ID_LEN && !name->id[CONTAINER_ID_LEN]);
	REQUIRE(name->name[0] && strlen(name->name) <= CONTAINER_MAX_NAME && !strchr(name->name, '/'));
	REQUIRE(!name->pod || strchr(name->pod, '/') == strrchr(name->pod, '/'));
	for (const char *c = name->name; *c; c++)
		REQUIRE((unsigned char)*c > 0x20 && (unsigned char)*c < 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct container_names names = { 0 };
	const char *json = (const char *)data + 1;

	if (!size)
		return 0;
	if (data[0] % 3 == 0)
		docker_config_parse(ID, json, size - 1, &names);
	else if (data[0] % 3 == 1)
		podman_list_parse(json, size - 1, 1000, &names);
	else
		containerd_config_parse(ID, json, size - 1, &names);
	for (size_t i = 0; i < names.count; i++) {
		require_name(&names.list[i]);
		REQUIRE(names.list[i].owner == (data[0] % 3 == 1 ? 1000 : 0));
	}
	container_names_free(&names);
	return 0;
}
