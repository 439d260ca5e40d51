// SPDX-License-Identifier: GPL-2.0-only
/*
 * What each fault makes the kernel's verifier look at: loaded, never attached. tests/compilers/run.sh runs this suite once
 * more with what another clang makes of bpf/, each of which finds shortcuts of its own that the verifier does not follow.
 */
#include <criterion/criterion.h>

#include "tests/bpf/loaded.h"

TestSuite(loads, .init = need_bpf, .timeout = 300);

#define RULE(match, fault) "- { name: r%d, match: { user: 1000" match " }, fault: { " fault " }, duration: 1h }\n"
#define NAMES		   ", hosts: [\"*.a.test\"]"
#define SERVER		   NAMES ", side: server"

/* Host names make the paths longer, and a server's end takes others than a client's. */
static const char *const rules[] = {
	RULE(NAMES, "drop: { burst: { loss: 2%, length: 5 } }, delay: 100ms..1s over 60s, jitter: 10ms"),
	RULE(NAMES ", process: \"a*\"", "drop: { every: 10 }"),
	RULE(NAMES, "reset: true"),
	RULE(NAMES, "accept-silence: true"),
	RULE(NAMES, "tls-stall: true"),
	RULE(NAMES, "half-open: { idle: 10s }"),
	RULE(NAMES, "duplicate: 5%, corrupt: 5%, reorder: 5%"),
	RULE(NAMES ", direction: response", "delay: 1s, rate: 1mbit"),
	RULE(NAMES, "dns: nxdomain"),
	RULE(NAMES, "refuse: unreachable"),
	RULE(NAMES ", ports: 80", "break-after: { chunks: 12 }"),
	RULE(SERVER, "break-after: { bytes: 4KiB, how: close }, rate: 1mbit"),
	RULE(SERVER, "break-after: { chunks: 3, how: reset }, delay: 1s, duplicate: 2%, corrupt: 2%"),
	RULE(SERVER, "tokens: 5/s"),
	RULE(SERVER, "drop: { every: 10 }, reset: true"),
	RULE(NAMES ", http: { path: /v1/*, model: \"qwen-*\" }", "status: 429, retry-after: 20s, as: openai, delay: 1s"),
	RULE(NAMES ", ports: 80", "body: html"),
	RULE(NAMES, "hang: true"),
	RULE(NAMES, "break-after: { chunks: 12, how: clean }"),
	RULE(NAMES ", http: { path: /v1/* }", "error-event: { type: overloaded, chunks: 3 }"),
	RULE(NAMES ", ports: 80", "drop-done: true"),
	RULE(NAMES ", ports: 80", "garble: { every: 5 }, delay: 1s"),
	RULE(NAMES ", ports: 80", "grpc: unavailable"),
};

/* Rules `first` to `last`: one load. */
static void expect_loaded(size_t first, size_t last)
{
	size_t size;
	struct loaded l;
	char *source;
	FILE *out = open_memstream(&source, &size);

	fputs("version: 1\nrules:\n", out);
	for (size_t i = first; i <= last; i++)
		fprintf(out, rules[i], (int)i);
	fclose(out);
	load(&l, source);
	unload(&l);
	free(source);
}

Test(loads, each_fault_alone)
{
	for (size_t i = 0; i < COUNT(rules); i++)
		expect_loaded(i, i);
}

Test(loads, all_faults_together)
{
	expect_loaded(0, COUNT(rules) - 1);
}
