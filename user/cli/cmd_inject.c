// SPDX-License-Identifier: GPL-2.0-only
/* `chaosbpf inject`: one rule from the command line. How words become a rule is inject.c's. */
#include <stdio.h>
#include <stdlib.h>

#include "user/base/log.h"
#include "user/cli/cmd.h"
#include "user/cli/options.h"
#include "user/rules/inject.h"

static const char help[] =
	"Usage: chaosbpf inject FAULT... WHOM... --for T [OPTIONS]\n"
	"\n"
	"Loads one rule that is written on the command line.\n"
	"\n"
	"FAULT, one or more:\n"
	"  delay=5s          each request takes 5 s longer   jitter=500ms, distribution=normal\n"
	"  drop, drop=5%     the connection goes silent, or loses 5 % of its packets\n"
	"  refuse=refused    connect() fails; also timeout, unreachable, denied\n"
	"  reset             connections are reset; reset.inside=true: the process alone hears\n"
	"  accept-silence    connections are accepted and never answered\n"
	"  tls-stall         TLS handshakes never finish\n"
	"  half-open=2m      what is silent for so long is forgotten, as by a NAT\n"
	"  break-after=4KiB  connections are reset after so much of what the server says\n"
	"  break-after.chunks=12 break-after.how=stall    keys of a map, as in a rules file\n"
	"  status=429 retry-after=20s as=openai    requests of HTTP/1 are answered so;\n"
	"                    also body=empty, garbage, truncated, html; hang: never answered\n"
	"  error-event=overloaded drop-done garble.every=5    events of streams\n"
	"  grpc=unavailable  calls of gRPC in clear end so; also resource-exhausted, cancelled, ...\n"
	"  errno.operation=open errno.error=EMFILE    operations of the process fail\n"
	"  gpu-oom           GPU allocations fail with out of memory\n"
	"  call.library=libz.so.1 call.function=crc32 call.returns=-1\n"
	"                    the function returns that; also call.errno=EIO, call.delay=2s\n"
	"  dns=nxdomain      questions for the names of --to; also servfail, empty, timeout\n"
	"\n"
	"WHOM, all that are given must hold:\n"
	"  --to HOST[:PORTS] address or network, [::1]:6333, 10.0.0.0/8:80,443; may be repeated\n"
	"                    or a known endpoint, as in --to qdrant: see chaosbpf endpoints\n"
	"  --port PORTS      6333, 80,443 or 9000-9010\n"
	"  --protocol P      tcp or udp\n"
	"  --pid N           that process and its children\n"
	"  --process NAME    processes of that name, may hold *\n"
	"  --cgroup C        that cgroup and all below it, as in system.slice/rag.service\n"
	"  --container C     name or id; --pod NAMESPACE/NAME; --unit U, a unit of systemd\n"
	"  --user U          name or number\n"
	"  --side S          client (default) or server: which end the process is\n"
	"  --direction D     request, response or both (default)\n"
	"  --everything      no restriction; only with this word\n"
	"  --include-ssh     SSH connections too\n"
	"  --resolver        with dns: what this machine's resolver asks for anybody, too\n"
	"\n"
	"How long and how often:\n"
	"  --for T           how long the rule lasts (30s, 5m, 1h30m); always needed\n"
	"  --percent P       of the connections, default 100; --per connection, packet or request\n"
	"  --max-hits N      at most N faults, then it is finished; --max-rate 5/s\n"
	"  --seed N          the same seed picks the same connections again\n"
	"\n"
	"  --name N          the rule's name, default inject\n"
	"  --wait            what is named may start or resolve later; else it is an error\n"
	"  --observe         count what would be hit, inject nothing\n"
	"  --endpoints F     your own presets, see chaosbpf endpoints\n"
	"  --print           print the rule as a rules file, load nothing\n"
	"  --json            for programs\n"
	"\n"
	"  sudo chaosbpf inject delay=5s --to 127.0.0.1:6333 --pid 42 --for 2m\n";

static void add_word(void *inject, const char *name, const char *argument)
{
	inject_add(inject, name, argument);
}

static int load(struct inject *inject, const struct load_options *options, bool print)
{
	struct rules *rules;
	struct error err;
	int rc;

	if (inject_yaml(inject, &err) < 0 || inject_parse(inject, &rules, &err) < 0)
		return log_error(&err);
	rc = 0;
	if (print)
		fputs(inject->yaml, stdout);
	else
		rc = command_begin("inject");
	if (!rc && !print)
		rc = load_and_print(rules, options);
	rules_free(rules);
	return rc;
}

static int run(int argc, char **argv)
{
	struct load_options options = { .command = "inject" };
	struct inject inject = { 0 };
	bool print = false;
	const struct option_spec specs[] = {
		{ "to", OPTION_CALL, &inject, add_word },
		{ "port", OPTION_CALL, &inject, add_word },
		{ "protocol", OPTION_CALL, &inject, add_word },
		{ "pid", OPTION_CALL, &inject, add_word },
		{ "process", OPTION_CALL, &inject, add_word },
		{ "cgroup", OPTION_CALL, &inject, add_word },
		{ "container", OPTION_CALL, &inject, add_word },
		{ "pod", OPTION_CALL, &inject, add_word },
		{ "unit", OPTION_CALL, &inject, add_word },
		{ "user", OPTION_CALL, &inject, add_word },
		{ "side", OPTION_CALL, &inject, add_word },
		{ "direction", OPTION_CALL, &inject, add_word },
		{ "everything", OPTION_CALL_FLAG, &inject, add_word },
		{ "include-ssh", OPTION_CALL_FLAG, &inject, add_word },
		{ "resolver", OPTION_CALL_FLAG, &inject, add_word },
		{ "for", OPTION_CALL, &inject, add_word },
		{ "percent", OPTION_CALL, &inject, add_word },
		{ "per", OPTION_CALL, &inject, add_word },
		{ "max-hits", OPTION_CALL, &inject, add_word },
		{ "max-rate", OPTION_CALL, &inject, add_word },
		{ "seed", OPTION_CALL, &inject, add_word },
		{ "name", OPTION_CALL, &inject, add_word },
		{ "endpoints", OPTION_TEXT, &inject.endpoints, NULL },
		{ "wait", OPTION_FLAG, &options.wait, NULL },
		{ "observe", OPTION_FLAG, &options.observe, NULL },
		{ "print", OPTION_FLAG, &print, NULL },
		{ 0 },
	};
	int rc = options_parse("inject", &argc, &argv, specs);

	if (!rc) {
		for (int i = 0; i < argc; i++)
			inject_add(&inject, NULL, argv[i]);
		rc = load(&inject, &options, print);
	}
	inject_free(&inject);
	return rc;
}

const struct command cmd_inject = {
	.name = "inject",
	.summary = "load one rule written on the command line",
	.help = help,
	.run = run,
};
