// SPDX-License-Identifier: GPL-2.0-only
/*
 * Any bytes as a presets file: the parser says no with a place in the file, or gives presets that keep the promises of
 * user/rules/presets.h and whose hosts can be told. Build: clang -fsanitize=fuzzer,address,undefined.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/require.h"
#include "user/rules/presets.h"

static void require_hosts(const struct preset *preset, const struct text_list given[PRESET_PLACEHOLDERS])
{
	size_t missing, count = 0;
	char **hosts = preset_hosts(preset, given, &missing);

	REQUIRE(hosts || missing < PRESET_PLACEHOLDERS);
	for (; hosts && hosts[count]; count++) {
		REQUIRE(!strpbrk(hosts[count], "{}"));
		REQUIRE(!strchr(hosts[count] + 1, '*'));
		free(hosts[count]);
	}
	REQUIRE(count <= preset->hosts.count * 2);
	free(hosts);
}

static void require_preset(const struct presets *presets, const struct preset *preset)
{
	static struct text regions[] = { { .text = (char *)"eu" }, { .text = (char *)"us" } };
	static const struct text_list given[][PRESET_PLACEHOLDERS] = {
		{ { NULL, 0 }, { NULL, 0 } },
		{ { regions, 2 }, { NULL, 0 } },
		{ { NULL, 0 }, { regions, 1 } },
		{ { regions, 2 }, { regions, 1 } },
	};

	REQUIRE(preset->name[0] && presets_find(presets, preset->name) == preset);
	REQUIRE(preset->hosts.count || preset->ports.ports_count);
	REQUIRE(preset->kind < PRESET_KIND_COUNT && preset->tls < PRESET_TLS_COUNT);
	REQUIRE(preset->transports && preset->transports <= RULES_ANY_PROTOCOL);
	for (size_t i = 0; i < preset->aliases.count; i++)
		REQUIRE(presets_find(presets, preset->aliases.entries[i].text) == preset);
	for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++)
		require_hosts(preset, given[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned int line = 0, column = 0;
	struct error err = { 0 };
	struct presets *presets;

	if (presets_parse("f", (const char *)data, size, &presets, &err)) {
		REQUIRE(presets == NULL && err.exit == EXIT_USAGE);
		REQUIRE(sscanf(err.text, "f:%u:%u: ", &line, &column) == 2 && line > 0 && column > 0);
		return 0;
	}
	for (size_t i = 0; i < presets->count; i++)
		require_preset(presets, &presets->list[i]);
	presets_nearest(presets, "opnai");
	presets_free(presets);
	return 0;
}
