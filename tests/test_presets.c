// SPDX-License-Identifier: GPL-2.0-only
/*
 * user/presets*.c and user/rules/rules_preset.c: presets files that are right and wrong, hosts from their patterns, and rules
 * that use presets. The file of rules/presets is read as well; run from the top of the source tree.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "user/rules/explain.h"
#include "user/rules/presets.h"
#include "user/target/resolve.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))
/* The preset's map begins at 3:6. */
#define PRESET(map) "version: 1\nendpoints:\n  a: " map "\n"

static struct presets *read_presets(const char *source)
{
	struct error err = { 0 };
	struct presets *presets;

	cr_assert_eq(presets_parse("p", source, strlen(source), &presets, &err), 0, "%s: %s", source, err.text);
	return presets;
}

/* ---- files ---- */

Test(presets, every_key)
{
	struct presets *presets = read_presets("version: 1\n"
					       "endpoints:\n"
					       "  vectors:\n"
					       "    title: Vectors\n"
					       "    aliases: [v, vec]\n"
					       "    kind: vector-database\n"
					       "    hosts: [\"{instance}.{region}.example.com\", 10.0.0.7]\n"
					       "    ports: [6333, 7000-7010]\n"
					       "    protocol: [http, grpc]\n"
					       "    transport: udp\n"
					       "    tls: optional\n"
					       "    stream: ends\n"
					       "    clients: waits\n"
					       "    note: a note\n"
					       "    verified: true\n"
					       "  other: { ports: 1 }\n");
	const struct preset *preset = presets_find(presets, "vec"), *other = presets_find(presets, "other");

	cr_assert_not_null(preset);
	cr_expect_eq(presets->count, 2);
	cr_expect_eq(presets_find(presets, "vectors"), preset);
	cr_expect_null(presets_find(presets, "nobody"));
	cr_expect_str_eq(preset->name, "vectors");
	cr_expect_str_eq(preset->file, "p");
	cr_expect_eq(preset->mark.line, 3);
	cr_expect_str_eq(preset->title.text, "Vectors");
	cr_expect_eq(preset->kind, PRESET_VECTOR_DATABASE);
	cr_expect_eq(preset->hosts.count, 2);
	cr_expect_eq(preset->ports.ports_count, 2);
	cr_expect_eq(preset->protocols.count, 2);
	cr_expect_eq(preset->transports, 1U << CHAOS_UDP);
	cr_expect_eq(preset->tls, PRESET_TLS_OPTIONAL);
	cr_expect_str_eq(preset->stream.text, "ends");
	cr_expect_eq(preset->clients.count, 1);
	cr_expect_str_eq(preset->note.text, "a note");
	cr_expect(preset->verified);
	cr_expect_eq(other->transports, 1U << CHAOS_TCP);
	cr_expect_not(other->verified, "nothing is verified unless it says so");
	cr_expect_str_eq(presets_nearest(presets, "vectrs"), "vectors");
	cr_expect_null(presets_nearest(presets, "elsewhere"));
	presets_free(presets);
	presets_free(NULL);
}

Test(presets, wrong_files)
{
	static const struct {
		const char *source, *message;
	} cases[] = {
		{ "", "p:1:1: the file holds no rules" },
		{ "endpoints: {}", "p:1:1: the version is missing, write 'version: 1'" },
		{ "version: 1", "p:1:1: the endpoints are missing, write 'endpoints:' and a map below it" },
		{ "version: 1\nrules: []", "p:2:1: unknown key 'rules'" },
		{ "version: 1\nendpoints: []", "p:2:12: 'endpoints' is a list, expected a map of names to presets" },
		{ PRESET("1"),
		  "p:3:6: 'a' is a single value, expected a map with hosts, ports and what is known of it" },
		{ PRESET("{ tls: always }"), "p:3:3: preset 'a' has neither hosts nor ports" },
		{ PRESET("{ port: 1 }"), "p:3:8: unknown key 'port', did you mean 'ports'?" },
		{ PRESET("{ pid: 1 }"), "p:3:8: unknown key 'pid'" },
		{ PRESET("{ ports: 70000 }"),
		  "p:3:15: invalid port '70000', expected a port from 1 to 65535 or a range such as 9000-9010" },
		{ PRESET("{ ports: 1, tls: sometimes }"),
		  "p:3:23: unknown tls 'sometimes', expected always, never or optional" },
		{ PRESET("{ ports: 1, kind: cash }"), "p:3:24: unknown kind 'cash', did you mean 'cache'?" },
		{ PRESET("{ ports: 1, transport: sctp }"), "p:3:29: unknown transport 'sctp', expected tcp or udp" },
		{ PRESET("{ hosts: 'a b' }"), "p:3:15: invalid host 'a b', expected a name such as api.example.com or "
					      "{region}.example.com" },
		{ PRESET("{ hosts: 'a.*.b' }"), "p:3:15: invalid host 'a.*.b', expected a name such as api.example.com "
						"or {region}.example.com" },
		{ PRESET("{ hosts: '{region' }"), "p:3:15: host '{region' has a '{' without its '}'" },
		{ PRESET("{ hosts: '{regoin}.x' }"),
		  "p:3:15: unknown placeholder '{regoin}', did you mean '{region}'?" },
		{ PRESET("{ hosts: '{zone}.x' }"),
		  "p:3:15: unknown placeholder '{zone}', expected {region} or {instance}" },
		{ PRESET("{ ports: 1, aliases: 'a b' }"),
		  "p:3:27: invalid name 'a b', expected letters, digits, '.', '_' "
		  "and '-', beginning with a letter or digit" },
		{ PRESET("{ ports: 1 }\n  '': { ports: 1 }"),
		  "p:4:3: a name is empty, expected letters, digits, '.', '_' and '-'" },
		{ PRESET("{ ports: 1, aliases: a }"), "p:3:27: alias 'a' is a name of 'a' already" },
		{ PRESET("{ ports: 1, aliases: b }\n  b: { ports: 1 }"), "p:4:3: 'b' is an alias of 'a' already" },
		{ PRESET("{ ports: 1 }\n  b: { ports: 1, aliases: a }"), "p:4:27: alias 'a' is a name of 'a' already" },
		{ PRESET("{ ports: 1, clients: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17] }"),
		  "p:3:27: 'clients' has more than 16 entries" },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct presets *presets = (void *)1;
		struct error err = { 0 };

		cr_expect_eq(presets_parse("p", cases[i].source, strlen(cases[i].source), &presets, &err), -EINVAL,
			     "%s", cases[i].source);
		cr_expect_null(presets);
		cr_expect_eq(err.exit, EXIT_USAGE);
		cr_expect_str_eq(err.text, cases[i].message, "\n%s\n  got:      %s\n  expected: %s", cases[i].source,
				 err.text, cases[i].message);
	}
}

/* ---- hosts ---- */

static void expect_hosts(const char *patterns, const char *region, const char *instance, const char *expected)
{
	char source[512], text[512] = "";
	struct text region_text = { .text = (char *)region }, instance_text = { .text = (char *)instance };
	struct text_list given[PRESET_PLACEHOLDERS] = { { &region_text, region != NULL },
							{ &instance_text, instance != NULL } };
	struct presets *presets;
	size_t missing = 99;
	char **hosts;

	snprintf(source, sizeof(source), PRESET("{ hosts: [%s] }"), patterns);
	presets = read_presets(source);
	hosts = preset_hosts(&presets->list[0], given, &missing);
	for (size_t i = 0; hosts && hosts[i]; i++) {
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i ? " " : "", hosts[i]);
		free(hosts[i]);
	}
	if (!hosts)
		snprintf(text, sizeof(text), "needs %s", preset_placeholders[missing]);
	cr_expect_str_eq(text, expected, "%s with %s and %s: %s, expected %s", patterns, region, instance, text,
			 expected);
	free(hosts);
	presets_free(presets);
}

Test(presets, hosts_from_patterns)
{
	expect_hosts("api.x.com", NULL, NULL, "api.x.com");
	expect_hosts("'*.x.com', 10.0.0.0/8", NULL, NULL, "*.x.com 10.0.0.0/8");
	/* What begins with a placeholder is everything below. */
	expect_hosts("'{region}.x.com'", NULL, NULL, "*.x.com");
	expect_hosts("'{instance}.{region}.x.com', '{instance}.x.com'", NULL, NULL, "*.x.com");
	expect_hosts("api.x.com, '{region}.api.x.com'", NULL, NULL, "api.x.com *.api.x.com");
	/* A region means that region alone. */
	expect_hosts("api.x.com, '{region}.api.x.com'", "eu", NULL, "eu.api.x.com");
	expect_hosts("'a.{region}.x.com', 'b.{region}.x.com'", "eu", NULL, "a.eu.x.com b.eu.x.com");
	expect_hosts("'{instance}.{region}.x.com'", "eu", NULL, "*.eu.x.com");
	expect_hosts("'{instance}.{region}.x.com'", "eu", "me", "me.eu.x.com");
	expect_hosts("'{region}-a.x.com'", "eu", NULL, "eu-a.x.com");
	/* Nothing wider than was asked for. */
	expect_hosts("'a.{region}.x.com'", NULL, NULL, "needs region");
	expect_hosts("'{region}-a.x.com', a.x.com", NULL, NULL, "needs region");
	expect_hosts("'{instance}.{region}.x.com'", NULL, "me", "needs region");
	expect_hosts("'a.{instance}.x.com'", NULL, NULL, "needs instance");
	/* The wider name has it already. */
	expect_hosts("'{instance}.x.com', 'grpc-{instance}.x.com'", NULL, NULL, "*.x.com");
	expect_hosts("'grpc-{instance}.x.com', '{instance}.x.com'", NULL, NULL, "*.x.com");
	expect_hosts("'{instance}.x.com', 'a-{instance}.x.com', '{instance}.y.com', 'b-{instance}.x.com'", NULL, NULL,
		     "*.x.com *.y.com");
	expect_hosts("'{instance}.x.com', 'grpc-{instance}.x.com'", NULL, "me", "me.x.com grpc-me.x.com");
	/* One that cannot be said covers nothing, not even itself. */
	expect_hosts("'{region}.a-{instance}.x.com'", NULL, NULL, "needs region");
	expect_hosts("'{region}.a-{instance}.x.com', 'b-{region}.a-{instance}.x.com'", NULL, NULL, "needs region");
	expect_hosts("'{instance}.x.com'", "eu", NULL, "");
}

Test(presets, hosts_of_several_regions)
{
	struct presets *presets = read_presets(PRESET("{ hosts: ['a.{region}.x', '{instance}.{region}.y'] }"));
	struct text regions[] = { { .text = (char *)"eu" }, { .text = (char *)"us" } };
	struct text_list given[PRESET_PLACEHOLDERS] = { { regions, 2 } };
	static const char *const expected[] = { "a.eu.x", "a.us.x", "*.eu.y", "*.us.y" };
	size_t missing;
	char **hosts = preset_hosts(&presets->list[0], given, &missing);

	cr_assert_not_null(hosts);
	for (size_t i = 0; i < COUNT(expected); i++) {
		cr_expect_str_eq(hosts[i], expected[i]);
		free(hosts[i]);
	}
	cr_expect_null(hosts[COUNT(expected)]);
	free(hosts);
	cr_expect(preset_needs(&presets->list[0], 0));
	cr_expect_not(preset_needs(&presets->list[0], 1));
	presets_free(presets);
}

/* ---- in rules ---- */

static char own[] = "/tmp/chaosbpf-presets-XXXXXX";

static void write_own(void)
{
	static const char text[] = "version: 1\n"
				   "endpoints:\n"
				   "  vectors: { hosts: [10.0.0.0/8, \"::1\"], ports: [6333, 6334], aliases: vec }\n"
				   "  redis: { ports: 7777 }\n"
				   "  names: { ports: 53, transport: [tcp, udp] }\n"
				   "  moved: { hosts: [nowhere.invalid, localhost], ports: 1 }\n"
				   "  gone: { hosts: [nowhere.invalid], ports: 1 }\n"
				   "  far: { hosts: [\"10.0.0.{region}\", \"10.1.{instance}.{region}\"] }\n";
	int fd = mkstemp(own);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, sizeof(text) - 1), (ssize_t)sizeof(text) - 1);
	close(fd);
}

static void remove_own(void)
{
	unlink(own);
}

TestSuite(preset_rules, .init = write_own, .fini = remove_own);

static int parse(const char *endpoints, const char *match, bool again, struct rules **rules, struct error *err)
{
	const struct rules_options options = { .endpoints = own, .again = again };
	char source[1024];

	snprintf(source, sizeof(source),
		 "version: 1\nendpoints: { %s }\nrules: [ { name: a, match: { %s }, fault: { drop: true }, duration: "
		 "5m } ]\n",
		 endpoints, match);
	memset(err, 0, sizeof(*err));
	return rules_parse("t", source, strlen(source), &options, rules, err);
}

static void expect_sentence(const char *endpoints, const char *match, const char *expected)
{
	struct rules *rules;
	struct error err;
	char text[1024];

	cr_assert_eq(parse(endpoints, match, false, &rules, &err), 0, "%s, %s: %s", endpoints, match, err.text);
	explain_rule(rules, 0, text, sizeof(text));
	cr_expect_str_eq(text, expected, "\n  got:      %s\n  expected: %s", text, expected);
	rules_free(rules);
}

Test(preset_rules, as_if_written_there)
{
	expect_sentence(
		"", "endpoint: vectors",
		"a: TCP connections from any process to vectors (10.0.0.0/8 or ::1, ports 6333 or 6334) go silent; "
		"ends after 5 min.");
	expect_sentence(
		"", "endpoint: vec, hosts: 10.0.0.7, ports: 6333",
		"a: TCP connections from any process to vec (10.0.0.7, port 6333) go silent; ends after 5 min.");
	expect_sentence(
		"v: { preset: vectors, hosts: 192.168.0.1 }", "endpoint: v",
		"a: TCP connections from any process to v (192.168.0.1, ports 6333 or 6334) go silent; ends after 5 "
		"min.");
	expect_sentence("v: { ports: 1, preset: vectors }", "endpoint: v, hosts: [\"::1\"]",
			"a: TCP connections from any process to v (::1, port 1) go silent; ends after 5 min.");
	expect_sentence("", "endpoint: names",
			"a: connections from any process to names (port 53) go silent; ends after 5 min.");
	expect_sentence("", "endpoint: names, protocol: udp",
			"a: UDP connections from any process to names (port 53) go silent; ends after 5 min.");
	expect_sentence("f: { preset: far, region: 7, instance: 2 }", "endpoint: f",
			"a: TCP connections from any process to f (10.1.2.7) go silent; ends after 5 min.");
	/* The user's own preset comes before the installed one, a name of the file before both. */
	expect_sentence("", "endpoint: redis",
			"a: TCP connections from any process to redis (port 7777) go silent; ends after 5 min.");
	expect_sentence("redis: { ports: 8888 }", "endpoint: redis",
			"a: connections from any process to redis (port 8888) go silent; ends after 5 min.");
	expect_sentence("", "endpoint: ollama",
			"a: TCP connections from any process to ollama (port 11434) go silent; ends after 5 min.");
}

Test(preset_rules, what_is_wrong)
{
	static const struct {
		const char *endpoints, *match, *message;
	} cases[] = {
		{ "", "endpoint: qdrnt", "t:3:40: unknown endpoint 'qdrnt', did you mean the preset 'qdrant'?" },
		{ "vector: { ports: 1 }", "endpoint: vecto",
		  "t:3:40: unknown endpoint 'vecto', did you mean 'vector'?" },
		{ "", "endpoint: nobody-knows",
		  "t:3:40: unknown endpoint 'nobody-knows', expected a name from 'endpoints' or a preset" },
		{ "v: { preset: vectrs }", "ports: 1",
		  "t:2:27: unknown preset 'vectrs', did you mean 'vectors'? 'chaosbpf endpoints' lists them" },
		{ "v: { preset: nobody-knows }", "ports: 1",
		  "t:2:27: unknown preset 'nobody-knows', 'chaosbpf endpoints' lists them" },
		{ "v: { preset: [a] }", "ports: 1",
		  "t:2:27: 'preset' is a list, expected a preset's name such as openai" },
		{ "v: { region: eu }", "ports: 1", "t:2:19: 'region' needs 'preset'" },
		{ "v: { preset: vectors, region: eu }", "ports: 1", "t:2:36: preset 'vectors' has no 'region'" },
		{ "v: { preset: far }", "ports: 1",
		  "t:2:27: preset 'far' needs 'region', as in { preset: far, region: us-east-1 }" },
		{ "", "endpoint: far",
		  "t:3:40: preset 'far' needs 'region': write 'endpoints: { far: { preset: far, region: us-east-1 } "
		  "}'" },
		{ "v: { preset: far, region: 'a b' }", "ports: 1",
		  "t:2:40: invalid region 'a b', expected a part of a host's name such as us-east-1" },
		{ "v: { preset: far, region: -a }", "ports: 1",
		  "t:2:40: invalid region '-a', expected a part of a host's name such as us-east-1" },
		{ "v: { preset: far, region: [] }", "ports: 1", "t:2:40: 'region' is an empty list" },
		{ "", "endpoint: vectors, ports: 1", "t:3:56: endpoint 'vectors' has none of these ports" },
		{ "", "endpoint: vectors, protocol: udp", "t:3:59: preset 'vectors' is reached by tcp only" },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct rules *rules;
		struct error err;

		cr_expect_eq(parse(cases[i].endpoints, cases[i].match, false, &rules, &err), -EINVAL, "%s, %s",
			     cases[i].endpoints, cases[i].match);
		cr_expect_str_eq(err.text, cases[i].message, "\n  got:      %s\n  expected: %s", err.text,
				 cases[i].message);
	}
}

/* An old name that is gone does not take the preset with it; what somebody wrote down himself must be there. */
Test(preset_rules, names_that_do_not_resolve)
{
	static const struct {
		const char *endpoints, *match;
		bool wait;
		int code;
	} cases[] = {
		{ "", "endpoint: moved", false, 0 },
		{ "", "endpoint: gone", false, -ENOENT },
		{ "", "endpoint: gone", true, 0 },
		{ "v: { preset: moved, hosts: [nowhere.invalid, localhost] }", "endpoint: v", false, -ENOENT },
		{ "v: { preset: moved, hosts: [nowhere.invalid, localhost] }", "endpoint: v", true, 0 },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct rules *rules;
		struct error err;

		cr_assert_eq(parse(cases[i].endpoints, cases[i].match, false, &rules, &err), 0, "%s", err.text);
		cr_expect_eq(names_resolve(rules, cases[i].wait, &err), cases[i].code, "%s: %s", cases[i].match, err.text);
		rules_free(rules);
	}
}

/* `status` reads again what was loaded, perhaps when the presets are other ones. */
Test(preset_rules, read_again)
{
	static const char *const cases[][2] = {
		{ "", "endpoint: gone" },
		{ "", "endpoint: vectors, ports: 1" },
		{ "v: { preset: gone, region: eu }", "endpoint: v, hosts: 10.0.0.7" },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct rules *rules;
		struct error err;

		cr_expect_eq(parse(cases[i][0], cases[i][1], true, &rules, &err), 0, "%s", err.text);
		rules_free(rules);
	}
}

/* ---- where they are kept ---- */

Test(preset_rules, files_that_cannot_be_had)
{
	struct presets *presets;
	struct error err;

	cr_expect_eq(presets_load("/nowhere/endpoints.yaml", &presets, &err), -ENOENT);
	cr_expect_str_eq(err.text, "cannot open '/nowhere/endpoints.yaml': No such file or directory");
	cr_expect_null(presets);
	cr_expect_eq(presets_load("/dev/zero", &presets, &err), -EINVAL);
	cr_expect_str_eq(err.text, "/dev/zero:1:1: the file is larger than 1 MiB");
	cr_expect_eq(presets_load("rules/slow-qdrant.yaml", &presets, &err), -EINVAL);
}

/* What is handed out: each is complete, each can be used in a rule once its placeholders are given. */
Test(preset_rules, the_installed_file)
{
	struct presets *presets;
	struct error err = { 0 };

	cr_assert_eq(presets_load(own, &presets, &err), 0, "%s", err.text);
	cr_expect_geq(presets->count, 45);
	for (size_t i = 6; i < presets->count; i++) {
		const struct preset *preset = &presets->list[i];

		cr_expect(strstr(preset->file, "rules/presets/endpoints.yaml"), "%s", preset->file);
		cr_expect_not_null(preset->title.text, "%s", preset->name);
		cr_expect_gt(preset->ports.ports_count, 0, "%s", preset->name);
		cr_expect_gt(preset->protocols.count, 0, "%s", preset->name);
		cr_expect(preset->tls != PRESET_TLS_ALWAYS || preset->hosts.count, "%s is hosted, but where?",
			  preset->name);
		for (size_t k = 0; k < preset->clients.count; k++) {
			const char *text = preset->clients.entries[k].text;

			if (strncmp(text, "as ", 3) == 0)
				cr_expect_not_null(presets_find(presets, text + 3), "%s: %s", preset->name, text);
		}
	}
	presets_free(presets);
}
