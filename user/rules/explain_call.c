// SPDX-License-Identifier: GPL-2.0-only
/* Faults inside a process in plain English. */
#include "user/base/names.h"
#include "user/rules/explain_internal.h"

void say_size(struct sentence *s, uint64_t bytes)
{
	static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
	size_t unit = 0;

	while (bytes && bytes % 1024 == 0 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		bytes /= 1024;
		unit++;
	}
	say(s, "%llu %s", (unsigned long long)bytes, units[unit]);
}

static void say_gpu_oom(struct sentence *s, const struct rule *rule)
{
	const struct fault *f = &rule->fault;

	say(s, "GPU allocations");
	if (f->oom_min_bytes) {
		say(s, " of ");
		say_size(s, f->oom_min_bytes);
		say(s, " or more");
	}
	say(s, " by ");
	say_whom(s, &rule->match);
	say(s, " fail with out of memory");
	if (f->oom_above_bytes) {
		say(s, " when the process would hold more than ");
		say_size(s, f->oom_above_bytes);
	}
	if (f->oom_failures > 1)
		say(s, ", %u in a row in the thread", f->oom_failures);
}

static void say_function(struct sentence *s, const struct rule *rule)
{
	const struct fault *f = &rule->fault;

	say(s, "calls of %s in %s by ", f->call_function.text, f->call_library.text);
	say_whom(s, &rule->match);
	if (f->call_delay_ns) {
		say(s, " take ");
		say_duration(s, f->call_delay_ns);
		say(s, " longer%s", f->call_runs ? "" : ", and");
	}
	if (!f->call_runs)
		say(s, " return %lld%s", (long long)f->call_returns, f->call_delay_ns ? "" : " at once");
	if (f->error)
		say(s, " with errno %s", errno_name(f->error));
}

static void say_errno(struct sentence *s, const struct rule *rule)
{
	static const char *const what[CHAOS_OPERATION_COUNT] = {
		[CHAOS_OPEN] = "opening files",
		[CHAOS_CREATE] = "making files",
		[CHAOS_READ] = "reading from files and sockets",
		[CHAOS_WRITE] = "writing to files and sockets",
		[CHAOS_MMAP] = "mapping files and memory",
		[CHAOS_MEMORY] = "asking for memory",
		[CHAOS_CONNECT] = "connecting",
		[CHAOS_SEND] = "sending",
		[CHAOS_RECEIVE] = "receiving",
		[CHAOS_SOCKET] = "making sockets",
		[CHAOS_IOCTL] = "device control (ioctl)",
		[CHAOS_FORK] = "starting processes",
		[CHAOS_THREAD] = "starting threads",
		[CHAOS_EXEC] = "executing programs",
	};
	const struct fault *f = &rule->fault;

	say(s, "%s", what[f->operation]);
	if (f->path.text)
		say(s, " at %s", f->path.text);
	say(s, " fails with %s for ", errno_name(f->error));
	say_whom(s, &rule->match);
}

void say_call(struct sentence *s, const struct rule *rule)
{
	if (rule->fault.faults & 1U << CHAOS_GPU_OOM)
		say_gpu_oom(s, rule);
	else if (rule->fault.faults & 1U << CHAOS_CALL)
		say_function(s, rule);
	else
		say_errno(s, rule);
}
