// SPDX-License-Identifier: GPL-2.0-only
/* What a load would do, in words: which mechanism on which device, and what this kernel or machine cannot do. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "user/base/names.h"
#include "user/base/vector.h"
#include "user/load/load_internal.h"
#include "user/rules/explain.h"
#include "user/rules/operation.h"
#include "user/target/container.h"

/* After so long without a request common servers close a connection that is kept alive. */
#define PATIENCE_OF_SERVERS_NS 5000000000ULL

static int missing(const struct load *load, enum feature feature, struct error *err)
{
	return error_set(err, -EOPNOTSUPP, EXIT_CANNOT, "this kernel has no %s (%s)", feature_names[feature],
			 load->features.why_not[feature]);
}

static int hooks_possible(const struct load *load, const char *fault, unsigned int operations, struct error *err)
{
	const char *function;

	if (!load->features.has[FEATURE_FMOD_RET]) {
		error_set(err, -EOPNOTSUPP, EXIT_CANNOT,
			  "%s needs programs that end a function of the kernel (fmod_ret), which this kernel does "
			  "not have (%s)",
			  fault, load->features.why_not[FEATURE_FMOD_RET]);
		error_hint(err, "distribution kernels have it (CONFIG_DEBUG_INFO_BTF, CONFIG_FUNCTION_TRACER)");
		return -EOPNOTSUPP;
	}
	for (int operation = 0; operation < CHAOS_OPERATION_COUNT; operation++) {
		function = operations & 1U << operation ? operation_missing(operation) : NULL;
		if (function)
			return error_set(err, -EOPNOTSUPP, EXIT_CANNOT,
					 "'%s' cannot fail on this kernel: it has no %s()", operation_names[operation],
					 function);
	}
	return 0;
}

/* Where errno lies is read from x86-64 code, see user/inside/errno_place.c. */
#ifdef __x86_64__
#define ERRNO_IS_KNOWN true
#else
#define ERRNO_IS_KNOWN false
#endif

/* Faults inside a process. */
static int call_possible(const struct load *load, const struct rule *rule, struct error *err)
{
	const bool *has = load->features.has;
	const char *fault = fault_word(__builtin_ctz(rule->fault.faults));

	if (rule->fault.faults & 1 << CHAOS_ERRNO)
		return hooks_possible(load, fault, 1U << rule->fault.operation, err);
	if (!has[FEATURE_PROBE])
		return error_set(err, -EOPNOTSUPP, EXIT_CANNOT,
				 "%s needs probes on user functions, which this kernel does not have", fault);
	if (has[FEATURE_PROBE_REGISTERS] && !rule_needs_assist(rule))
		return 0;
	if (rule->fault.error && !ERRNO_IS_KNOWN)
		return error_set(err, -EOPNOTSUPP, EXIT_CANNOT, "'errno' of a call is known on x86-64 only");
	if (!has[FEATURE_SIGNAL] && has[FEATURE_PROBE_REGISTERS])
		return error_set(err, -EOPNOTSUPP, EXIT_CANNOT,
				 "'errno' and 'delay' of a call need programs that send signals, which this kernel "
				 "does not have");
	if (!has[FEATURE_SIGNAL]) {
		error_set(
			err, -EOPNOTSUPP, EXIT_CANNOT,
			"%s needs programs that write registers (6.18 on) or send signals, and this kernel has neither",
			fault);
		return -EOPNOTSUPP;
	}
	return assist_possible(err);
}

/* The first of a rule's faults that needs one of these of a device. */
static const char *fault_that_needs(const struct rule *rule, unsigned int needs)
{
	for (int fault = 0; fault <= CHAOS_BREAK_CLEAN; fault++) {
		if (rule_fault_needs(rule, fault) & needs)
			return fault_word(fault);
	}
	return "it";
}

int rule_possible(const struct load *load, size_t index, struct error *err)
{
	static const enum feature always_needed[] = { FEATURE_BPF, FEATURE_BTF, FEATURE_CGROUP2, FEATURE_RINGBUF };
	const struct rule *rule = &load->rules->rules[index];
	const struct features *f = &load->features;

	for (size_t i = 0; i < sizeof(always_needed) / sizeof(always_needed[0]); i++) {
		if (!f->has[always_needed[i]])
			return missing(load, always_needed[i], err);
	}
	if (rule->fault.faults & CHAOS_CALLS)
		return call_possible(load, rule, err);
	if (rule->fault.reset_inside && hooks_possible(load, "'inside' of reset", OPERATIONS_INSIDE, err))
		return -EOPNOTSUPP;
	if (rule_device_needs(rule) & (CHAOS_DEVICE_FQ | CHAOS_DEVICE_IFB) && !f->has[FEATURE_FQ]) {
		error_set(err, -EOPNOTSUPP, EXIT_CANNOT, "%s needs the fq queue, which this kernel does not have (%s)",
			  fault_that_needs(rule, CHAOS_DEVICE_FQ | CHAOS_DEVICE_IFB), f->why_not[FEATURE_FQ]);
		error_hint(err, "load the module sch_fq; distribution kernels have it (CONFIG_NET_SCH_FQ)");
		return -EOPNOTSUPP;
	}
	if (rule_device_needs(rule) & CHAOS_DEVICE_IFB && !f->has[FEATURE_IFB]) {
		error_set(err, -EOPNOTSUPP, EXIT_CANNOT,
			  "%s of what arrives needs an ifb, which this kernel cannot do (%s)",
			  fault_that_needs(rule, CHAOS_DEVICE_IFB), f->why_not[FEATURE_IFB]);
		error_hint(err,
			   "load the modules ifb and act_mirred; distribution kernels have them. Or slow what leaves: "
			   "name the other end");
		return -EOPNOTSUPP;
	}
	if (rule->fault.faults & 1 << CHAOS_REFUSE && !f->has[FEATURE_SET_RETVAL] && rule->fault.refuse != EPERM &&
	    rule->match.protocols == 1 << CHAOS_UDP) {
		error_set(err, -EOPNOTSUPP, EXIT_CANNOT, "UDP can only be refused as 'denied' on this kernel");
		error_hint(err, "any errno needs bpf_set_retval (5.18 on)");
		return -EOPNOTSUPP;
	}
	return 0;
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

static void append(char *buf, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void append(char *buf, size_t size, const char *fmt, ...)
{
	size_t len = strlen(buf);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(buf + len, size - len, fmt, ap);
	va_end(ap);
}

struct device_words {
	const struct load *load;
	struct rule_plan *plan;
	char list[256];
	size_t count;
	unsigned int needs;
};

static bool cannot_prepare(const struct device_words *w, const struct netns *netns, const struct device *device,
			   struct error *why)
{
	const bool *has = w->load->features.has;

	if (w->needs & CHAOS_DEVICE_FQ && has[FEATURE_FQ] && device_can_fq(netns, device, why))
		return true;
	return w->needs & CHAOS_DEVICE_IFB && has[FEATURE_IFB] && device_can_ifb(netns, device, why);
}

static int name_device(const struct netns *netns, const struct device *device, void *arg)
{
	struct device_words *w = arg;
	struct error why = { 0 };

	if (w->count++ < 8)
		append(w->list, sizeof(w->list), "%s%s in %s", w->count > 1 ? ", " : "", device->name, netns->name);
	if (!w->plan->cannot[0] && cannot_prepare(w, netns, device, &why)) {
		snprintf(w->plan->cannot, sizeof(w->plan->cannot), "%.500s", why.text);
		snprintf(w->plan->hint, sizeof(w->plan->hint), "%.500s", why.hint);
	}
	return 0;
}

static void add_devices(const struct load *load, size_t index, struct rule_plan *plan)
{
	struct device_words w = { .load = load, .plan = plan };
	struct error ignored;

	w.needs = rule_device_needs(&load->rules->rules[index]);
	rule_devices(load->rules, load->tables, index, &load->processes, name_device, &w, &ignored);
	if (w.count > 8)
		append(w.list, sizeof(w.list), " and %zu more", w.count - 8);
	append(plan->mechanism, sizeof(plan->mechanism), "; devices: %s", w.count ? w.list : "none yet");
}

static const char *ifb_words(const struct load *load, const struct rule *rule, enum chaos_fault fault)
{
	if (!(rule_fault_needs(rule, fault) & CHAOS_DEVICE_IFB))
		return "";
	return load->features.ifb_redirect ? ", those that arrive in an ifb"
					   : ", those that arrive in an ifb by act_mirred";
}

/* Is its answer another one, which inside TLS is made in the memory of the process? */
static bool makes_answers(const struct rule *rule)
{
	return rule->fault.faults & CHAOS_ANSWERS & ~(1U << CHAOS_HANG);
}

static bool changes_inside_tls(const struct load *load, const struct rule *rule)
{
	return makes_answers(rule) && load->features.has[FEATURE_PROBE] && load->features.has[FEATURE_WRITE_USER];
}

static void describe(const struct load *load, size_t index, struct rule_plan *plan)
{
	const struct rule *rule = &load->rules->rules[index];
	const unsigned int faults = rule->fault.faults;
	const enum chaos_fault paced = faults & 1 << CHAOS_RATE ? CHAOS_RATE : CHAOS_TOKENS;
	const bool tcx = load->features.has[FEATURE_TCX];
	char *m = plan->mechanism;
	const size_t size = sizeof(plan->mechanism);

	if (faults & 1 << CHAOS_REFUSE)
		append(m, size, "refuse: %s",
		       load->features.has[FEATURE_SET_RETVAL] ? "the errno is set in the connect hook"
		       : rule->fault.refuse == ETIMEDOUT      ? "SYNs are dropped; the timeout takes about 3 s"
		       : rule->fault.refuse == EPERM          ? "the connect hook says no"
							      : "the connect hook rewrites the destination");
	if (faults & 1 << CHAOS_DROP)
		append(m, size, "%sdrop: arriving packets at the socket, leaving ones by a %s program",
		       m[0] ? "; " : "", tcx ? "TCX" : "clsact");
	if (faults & 1 << CHAOS_ACCEPT_SILENCE)
		append(m, size, "%saccept-silence: arriving payload at the socket, leaving payload by a %s program",
		       m[0] ? "; " : "", tcx ? "TCX" : "clsact");
	if (faults & 1 << CHAOS_BREAK_AFTER)
		append(m, size, "%sbreak-after: %s packets are cut by a %s program", m[0] ? "; " : "",
		       rule_fault_needs(rule, CHAOS_BREAK_AFTER) & CHAOS_DEVICE_INGRESS ? "arriving" : "leaving",
		       tcx ? "TCX" : "clsact");
	if (faults & CHAOS_ANSWERS)
		append(m, size, "%s%s: a %s program changes the answer where it arrives%s", m[0] ? "; " : "",
		       fault_word(__builtin_ctz(faults & CHAOS_ANSWERS)), tcx ? "TCX" : "clsact",
		       changes_inside_tls(load, rule) ? ", inside TLS a probe does where it is read" : "");
	if (faults & 1 << CHAOS_GRPC)
		append(m, size, "%sgrpc: a %s program resets streams where answers arrive", m[0] ? "; " : "",
		       tcx ? "TCX" : "clsact");
	if (faults & 1 << CHAOS_HALF_OPEN)
		append(m, size, "%shalf-open: arriving packets at the socket, leaving ones by a %s program",
		       m[0] ? "; " : "", tcx ? "TCX" : "clsact");
	if (faults & 1 << CHAOS_TLS_STALL)
		append(m, size, "%stls-stall: the ClientHello at the %s", m[0] ? "; " : "",
		       rule->match.side == CHAOS_SIDE_SERVER ? "socket"
		       : tcx                                 ? "device by a TCX program"
							     : "device by a clsact program");
	if (faults & 1 << CHAOS_DNS)
		append(m, size, "dns: %s",
		       rule->fault.dns == CHAOS_DNS_TIMEOUT ? "the question is lost where it leaves"
							    : "a tc program makes the question its own answer; over "
							      "TCP it changes the answer that comes");
	if (rule->fault.reset_inside)
		append(m, size,
		       "%sreset: programs in the kernel's security hooks (fmod_ret) return ECONNRESET, nothing is sent",
		       m[0] ? "; " : "");
	else if (faults & 1 << CHAOS_RESET)
		append(m, size, "%sreset: a packet is turned into a RST by a %s program", m[0] ? "; " : "",
		       tcx ? "TCX" : "clsact");
	if (faults & 1 << CHAOS_DELAY)
		append(m, size, "%sdelay: %s, held by an fq queue%s", m[0] ? "; " : "",
		       rule->per == CHAOS_PER_PACKET       ? "each packet is stamped"
		       : delay_holds_answers(&rule->match) ? "the first packet of an answer is stamped"
							   : "the first packet of a request is stamped",
		       !delay_holds_answers(&rule->match) ? ""
		       : load->features.ifb_redirect      ? " of an ifb"
							  : " of an ifb, by act_mirred");
	if (faults & 1 << CHAOS_DUPLICATE)
		append(m, size, "%sduplicate: a %s program sends a copy", m[0] ? "; " : "", tcx ? "TCX" : "clsact");
	if (faults & 1 << CHAOS_CORRUPT)
		append(m, size, "%scorrupt: a %s program changes a byte and the checksum", m[0] ? "; " : "",
		       tcx ? "TCX" : "clsact");
	if (faults & CHAOS_PACING)
		append(m, size, "%s%s: packets are stamped one behind the other, held by an fq queue%s",
		       m[0] ? "; " : "", fault_names[paced], ifb_words(load, rule, paced));
	if (faults & 1 << CHAOS_REORDER)
		append(m, size, "%sreorder: a %s program holds packets in an fq queue%s", m[0] ? "; " : "",
		       tcx ? "TCX" : "clsact", ifb_words(load, rule, CHAOS_REORDER));
	if (faults & FAULTS_BY_PROBE)
		append(m, size, "%s: a probe on the function %s", fault_names[__builtin_ctz(faults)],
		       load->features.has[FEATURE_PROBE_REGISTERS] && !rule_needs_assist(rule)
			       ? "sends it back at once"
			       : "stops the thread, and a process that traces it sends it back");
	if (rule_needs_assist(rule) && load->features.has[FEATURE_PROBE_REGISTERS])
		append(m, size, ", as 'errno' and 'delay' need");
	if (faults & 1 << CHAOS_ERRNO)
		append(m, size, "errno: programs in the kernel's security hooks (fmod_ret) return the error%s",
		       rule->fault.path.text ? "; the path is the one that the process sees" : "");
	if (rule_device_needs(rule))
		add_devices(load, index, plan);
}

static void add_note(struct rule_plan *plan, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add_note(struct rule_plan *plan, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	append(plan->note, sizeof(plan->note), "%s%s", plan->note[0] ? "; " : "", text);
}

static bool some_process_matches(const struct load *load, size_t index)
{
	for (size_t i = 0; i < load->processes.count; i++) {
		struct chaos_vector rules;

		tables_process_rules(load->tables, &load->processes.entries[i], &rules);
		if (has_rule(&rules, index))
			return true;
	}
	return false;
}

/* The first of its names that has no address now, where one would be needed; NULL: none. */
static const char *unresolved_name(const struct rule *rule)
{
	const struct endpoint *endpoint = &rule->match.endpoint;

	for (size_t i = 0; i < endpoint->names_count && !(rule->fault.faults & 1 << CHAOS_DNS); i++) {
		const struct host_name *name = &endpoint->names[i];

		if (!name->suffix && !name->one_of_many && !name->addresses_count)
			return name->name;
	}
	return NULL;
}

static void add_errno_notes(const struct rule *rule, struct rule_plan *plan)
{
	const struct fault *f = &rule->fault;
	const char *note = operation_note(f->operation, f->error);

	if (f->real_path)
		add_note(plan, "the path leads over a symbolic link here: %s is meant as well", f->real_path);
	if (note)
		add_note(plan, "%s", note);
}

/* About what was measured, see `make bench`. */
static void add_probe_notes(const struct load *load, const struct rule *rule, struct rule_plan *plan)
{
	add_note(plan, "each call of the function costs 1 to 10 us more, also where others call it in the same file");
	if (!load->features.has[FEATURE_PROBE_REGISTERS] || rule_needs_assist(rule))
		add_note(
			plan,
			"one that is hit 15 to 25 us; the traced processes have a stop for each new thread, fork, exec "
			"and signal, and can have no other tracer (gdb, strace); kill -9 of chaosbpf ends the fault");
}

static void add_assist_notes(const struct rule *rule, struct rule_plan *plan)
{
	if (rule->fault.call_delay_ns)
		add_note(plan,
			 "the thread waits where nothing but SIGKILL reaches it: other signals for it are late, and "
			 "so is a stop of its process (SIGSTOP, Ctrl-Z)");
	if (rule->fault.error)
		add_note(plan,
			 "errno is set where the process has one C library, glibc or musl; other calls are skipped");
}

/* Where requests are read, and where they are not. */
static void add_http_notes(const struct load *load, const struct rule *rule, struct rule_plan *plan)
{
	const bool *has = load->features.has;

	if (!has[FEATURE_PROBE])
		add_note(plan,
			 "requests are read in clear text: connections that speak TLS are left alone and counted");
	else
		add_note(plan,
			 "inside TLS, requests are read by probes on the functions of OpenSSL and what is like it, "
			 "libraries and programs; connections of other libraries (GnuTLS, Go, rustls, Java) are "
			 "left alone and counted");
	add_note(plan, "so are those that speak HTTP/2, or send a request before the last one has its answer");
	if (has[FEATURE_PROBE] && makes_answers(rule) && !has[FEATURE_WRITE_USER])
		add_note(plan,
			 "answers inside TLS are left alone and counted, since programs may not write the memory of "
			 "processes here (lockdown); 'reset', 'drop', 'delay' and 'hang' need not");
}

static void add_notes(const struct load *load, size_t index, struct rule_plan *plan)
{
	const struct rule *rule = &load->rules->rules[index];
	const struct match *m = &rule->match;
	const bool *has = load->features.has;

	if (!some_process_matches(load, index))
		add_note(plan, "no process matches at present");
	if (load->targets[index].waits && match_names_container(m))
		add_note(plan, "no %s '%s' is running here: load needs --wait, and takes it up when it starts",
			 m->unit.text        ? "unit"
			 : m->container.text ? "container"
					     : "pod",
			 m->unit.text        ? m->unit.text
			 : m->container.text ? m->container.text
					     : m->pod.text);
	if (unresolved_name(rule))
		add_note(plan,
			 "host '%s' has no address now: load needs --wait, and takes it up when some process asks for "
			 "it",
			 unresolved_name(rule));
	if ((m->pid || target_may_come(rule)) && !has[FEATURE_FORK_HOOK])
		add_note(plan, "children and cgroups that are born later are not seen on this kernel");
	if (m->side == CHAOS_SIDE_SERVER && !has[FEATURE_ACCEPT_HOOK])
		add_note(plan, "accepted connections belong to whoever opened the listener on this kernel");
	if (rule->fault.faults & 1 << CHAOS_REFUSE && !has[FEATURE_SET_RETVAL] && rule->fault.refuse != EPERM &&
	    m->protocols & 1 << CHAOS_UDP)
		add_note(plan, "TCP only on this kernel");
	if (rule->fault.faults & 1 << CHAOS_CORRUPT && m->protocols & 1 << CHAOS_UDP && m->directions == CHAOS_BOTH)
		add_note(plan, "of UDP only what leaves is damaged");
	if (rule->fault.faults & 1 << CHAOS_RATE && m->protocols & 1 << CHAOS_UDP && m->directions == CHAOS_BOTH)
		add_note(plan, "of UDP only what leaves is slowed");
	if (rule->fault.faults & 1 << CHAOS_TOKENS && m->side == CHAOS_SIDE_SERVER)
		add_note(plan, "inside TLS, events that the server sends faster come in portions, at that rate");
	if (rule->fault.faults & 1 << CHAOS_TOKENS && m->side == CHAOS_SIDE_CLIENT && !load->features.ifb_redirect)
		add_note(plan,
			 "events that the server sends faster come in portions, at that rate, on this kernel; 'side: "
			 "server' lets each go when it is due");
	if (rule->fault.faults & 1 << CHAOS_DELAY && m->side == CHAOS_SIDE_CLIENT && !delay_holds_answers(m) &&
	    rule->per != CHAOS_PER_PACKET && fault_longest_delay(&rule->fault) >= PATIENCE_OF_SERVERS_NS)
		add_note(plan,
			 "the server waits for the request meanwhile, and some close a connection on which nothing "
			 "comes "
			 "(uvicorn, node and llama-server after 5 s); 'direction: response' holds the answer instead");
	if (m->http.given)
		add_http_notes(load, rule, plan);
	if (rule->fault.faults & 1 << CHAOS_GRPC)
		add_note(plan,
			 "HTTP/2 is read in clear text, TLS is left alone and counted; so is an answer whose first "
			 "message is shorter than 13 bytes, which has no room for the reset");
	if (rule->fault.faults & CHAOS_STREAMS)
		add_note(plan,
			 "streams are server-sent events or lines of JSON, not compressed; what ends earlier, and "
			 "other answers, are left alone");
	if (rule->fault.faults & 1 << CHAOS_ERROR_EVENT)
		add_note(plan, "an event that is shorter than the error in its place gets a shorter one, events tell "
			       "which; without any room the stream is left alone and counted");
	if (rule->fault.faults & (1 << CHAOS_STATUS | 1 << CHAOS_BODY))
		add_note(plan,
			 "an answer that is shorter than the one in its place gets a shorter form, events tell which; "
			 "one without a body is left alone");
	if (m->http.model.text || m->http.body_contains.text)
		add_note(plan, "of a request's body the first 16 KiB are read");
	if (rule->fault.break_chunks)
		add_note(plan, "chunks are counted in clear text: connections that speak TLS or HTTP/2 are skipped");
	if (m->endpoint.names_count && rule->fault.faults & 1 << CHAOS_REFUSE)
		add_note(plan,
			 "refuse happens before TLS tells the host's name: it goes by what DNS said of the address");
	if (m->resolver)
		add_note(plan, "what this machine's resolver (systemd-resolved, nscd, dnsmasq, ...) asks is hit "
			       "whoever asked it; "
			       "what it has cached it still knows");
	else if (rule->fault.faults & 1 << CHAOS_DNS)
		add_note(plan,
			 "only questions that its processes send themselves: with nss-resolve or nscd a resolver sends "
			 "them for everybody; 'resolver: true' hits those, too");
	else if (m->endpoint.names_count && m->protocols & 1 << CHAOS_UDP)
		add_note(plan, "QUIC (UDP 443) is known by its address, not by its name");
	if (load->options.only_cgroup && (target_may_come(rule) || m->pid))
		add_note(plan, "its own %s is replaced by the command's", target_may_come(rule) ? "cgroup" : "pid");
	if (rule->fault.faults & FAULTS_BY_PROBE)
		add_probe_notes(load, rule, plan);
	if (rule->fault.faults & 1 << CHAOS_CALL && !rule->fault.call_runs)
		add_note(plan,
			 "the result is a number or a pointer: one that is floating-point, or a struct by value, is "
			 "not given, and symbols do not tell");
	if (rule_needs_assist(rule))
		add_assist_notes(rule, plan);
	if (rule->fault.reset_inside)
		add_note(plan, "the connection itself stays as it is, and what has arrived is delivered when the rule "
			       "has ended; a reader that sleeps already is not woken; splice() from it passes, and up "
			       "to 6.1 sendfile() and splice() to it");
	if (rule->fault.faults & 1 << CHAOS_ERRNO)
		add_errno_notes(rule, plan);
	else if (!has[FEATURE_PIDFD_GETFD])
		add_note(plan, "connections older than the load are known by cgroup and user only");
}

/* Which functions would have probes; what is not there is an error as it is at load, but for what may come later. */
static int look_for_functions(const struct load *load, struct rule_plan *plans, struct error *err)
{
	struct probes probes = {
		.rules = load->rules,
		.tables = load->tables,
		.features = &load->features,
		.wait = load->options.wait,
	};
	int ret;

	if (geteuid() != 0 || !probes_needed(load->rules))
		return 0;
	ret = probes_look(&probes, &load->processes, true, err);
	for (size_t i = 0; i < load->rules->count && !ret; i++) {
		if (load->rules->rules[i].fault.faults & FAULTS_BY_PROBE && !probes.met[i])
			add_note(&plans[i], "none of its processes has such a library open, and none is on this "
					    "machine: one that is opened later is found");
	}
	probes_free(&probes);
	return ret;
}

int load_check(struct rules *rules, const struct load_options *options, struct features *features,
	       struct rule_plan **plans, struct error *err)
{
	struct rule_plan *p = calloc(rules->count, sizeof(*p));
	struct load *load = calloc(1, sizeof(*load));
	struct load_options checking = *options;
	int ret = 0;

	checking.checking = true;

	*plans = NULL;
	if (!p || !load) {
		ret = error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
		goto out;
	}
	ret = load_compile(load, rules, &checking, err);
	*features = load->features;
	if (ret)
		goto out;
	for (size_t i = 0; i < rules->count; i++) {
		struct error why = { 0 };

		explain_rule(load->rules, i, p[i].sentence, sizeof(p[i].sentence));
		if (geteuid() != 0)
			continue;
		describe(load, i, &p[i]);
		if (rule_possible(load, i, &why)) {
			snprintf(p[i].cannot, sizeof(p[i].cannot), "%.500s", why.text);
			snprintf(p[i].hint, sizeof(p[i].hint), "%.500s", why.hint);
		}
		add_notes(load, i, &p[i]);
	}
	ret = look_for_functions(load, p, err);
	if (ret)
		goto out;
	*plans = p;
	p = NULL;
out:
	free(p);
	if (load)
		load_free(load);
	free(load);
	return ret;
}
