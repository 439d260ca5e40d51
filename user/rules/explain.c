// SPDX-License-Identifier: GPL-2.0-only
/*
 * A rule in plain English. The sentence is put together from left to right:
 *
 *	name: [what] from [whom] to [where] [what happens]; [how often]; [when].
 *
 * The endpoint is always the server's end; with `side: server` the named processes are those that serve it.
 */
#include "user/rules/explain_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "user/base/names.h"

#define ALL_PPM          1000000
#define SHOWN_ENTRIES    4 /* of a long list; the rest is counted */
#define SECOND           1000000000ULL
#define HAS(rule, which) ((rule)->fault.faults & (1U << (which)))

void say(struct sentence *s, const char *fmt, ...)
{
	size_t room = s->size - s->len;
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vsnprintf(s->buf + s->len, room, fmt, ap);
	va_end(ap);
	if (len < 0 || (size_t)len >= room) {
		s->cut = true;
		len = room ? (int)room - 1 : 0;
	}
	s->len += (size_t)len;
}

/* "7.25 s": a number with its decimals, of `unit` nanoseconds each. */
static void say_decimal(struct sentence *s, uint64_t ns, uint64_t unit, const char *name)
{
	uint64_t rest = ns % unit;

	say(s, "%llu", (unsigned long long)(ns / unit));
	if (rest)
		say(s, ".");
	for (; rest; rest %= unit) {
		unit /= 10;
		say(s, "%u", (unsigned int)(rest / unit));
	}
	say(s, " %s", name);
}

void say_duration(struct sentence *s, uint64_t ns)
{
	static const struct {
		uint64_t ns;
		const char *name;
	} long_units[] = { { 24 * 3600 * SECOND, "d" }, { 3600 * SECOND, "h" }, { 60 * SECOND, "min" } };
	const char *gap = "";

	for (size_t i = 0; i < sizeof(long_units) / sizeof(long_units[0]); i++) {
		if (ns < long_units[i].ns)
			continue;
		say(s, "%s%llu %s", gap, (unsigned long long)(ns / long_units[i].ns), long_units[i].name);
		ns %= long_units[i].ns;
		gap = " ";
	}
	if (*gap && ns == 0)
		return;
	say(s, "%s", gap);
	if (ns >= SECOND || ns == 0)
		say_decimal(s, ns, SECOND, "s");
	else if (ns >= 1000000)
		say_decimal(s, ns, 1000000, "ms");
	else if (ns >= 1000)
		say_decimal(s, ns, 1000, "us");
	else
		say_decimal(s, ns, 1, "ns");
}

const char *format_duration(char *buf, size_t size, uint64_t ns)
{
	struct sentence s = { .buf = buf, .size = size };

	say_duration(&s, ns);
	return buf;
}

const char *format_percent(char *buf, size_t size, uint32_t ppm)
{
	struct sentence s = { .buf = buf, .size = size };

	say_decimal(&s, ppm, ALL_PPM / 100, "%");
	return buf;
}

const char *format_host(char *buf, size_t size, const struct host *host)
{
	bool ipv4 = IN6_IS_ADDR_V4MAPPED(&host->address) && host->prefix_len >= 96;
	struct sentence s = { .buf = buf, .size = size };
	char address[INET6_ADDRSTRLEN];

	inet_ntop(ipv4 ? AF_INET : AF_INET6, &host->address.s6_addr[ipv4 ? 12 : 0], address, sizeof(address));
	say(&s, "%s", address);
	if (host->prefix_len < 128)
		say(&s, "/%u", host->prefix_len - (ipv4 ? 96 : 0));
	return buf;
}

/* What goes before entry i of "a, b or c". */
static const char *joint(size_t i, size_t count, const char *last)
{
	if (i == 0)
		return "";
	return i + 1 == count ? last : ", ";
}

/* How many entries to name: all, or the first few when that saves more than one. */
static size_t shown_of(size_t count)
{
	return count > SHOWN_ENTRIES + 1 ? SHOWN_ENTRIES : count;
}

/* Names first: people know hosts by them. */
static void say_hosts(struct sentence *s, const struct endpoint *endpoint)
{
	size_t names = endpoint->names_count, count = names + endpoint->hosts_count, shown = shown_of(count);
	char host[HOST_TEXT_LEN];

	for (size_t i = 0; i < shown; i++) {
		say(s, "%s", joint(i, count, " or "));
		if (i < names) {
			say(s, "%s%s", endpoint->names[i].suffix ? "*." : "", endpoint->names[i].name);
			continue;
		}
		format_host(host, sizeof(host), &endpoint->hosts[i - names]);
		say(s, "%s", host);
	}
	if (shown < count)
		say(s, " or %zu more", count - shown);
}

static void say_ports(struct sentence *s, const struct endpoint *endpoint)
{
	size_t count = endpoint->ports_count, shown = shown_of(count);
	const struct port_range *ports = endpoint->ports;

	say(s, count == 1 && ports[0].first == ports[0].last ? "port " : "ports ");
	for (size_t i = 0; i < shown; i++) {
		say(s, "%s%u", joint(i, count, " or "), ports[i].first);
		if (ports[i].first != ports[i].last)
			say(s, " to %u", ports[i].last);
	}
	if (shown < count)
		say(s, " or %zu more", count - shown);
}

/* "processes named gunicorn* of user www-data in cgroup rag.slice and below" */
void say_whom(struct sentence *s, const struct match *match)
{
	if (match->pid)
		say(s, "process %u and its children", match->pid);
	else if (match->process.text || match->user.text || match->cgroup.text || match->container.text ||
		 match->pod.text || match->unit.text)
		say(s, "processes");
	else
		say(s, match->everything ? "every process" : "any process");
	if (match->process.text)
		say(s, " named %s", match->process.text);
	if (match->user.text)
		say(s, " of user %s", match->user.text);
	if (match->cgroup.text)
		say(s, " in cgroup %s and below", match->cgroup.text);
	if (match->unit.text)
		say(s, " of unit %s", match->unit.text);
	if (match->container.text)
		say(s, " in container %s", match->container.text);
	if (match->pod.text)
		say(s, match->container.text ? " of pod %s" : " in pod %s", match->pod.text);
}

/* "10.0.0.7 or 10.1.0.0/16, port 6333," or "port 6333 anywhere" or "vectors (10.0.0.7, port 6333)" */
static void say_where(struct sentence *s, const struct match *match)
{
	const struct endpoint *endpoint = &match->endpoint;
	bool named = endpoint->name[0], hosts = endpoint->hosts_count + endpoint->names_count,
	     ports = endpoint->ports_count;

	if (named)
		say(s, "%s (", endpoint->name);
	if (hosts)
		say_hosts(s, endpoint);
	if (hosts && ports)
		say(s, ", ");
	if (ports)
		say_ports(s, endpoint);
	else if (!hosts)
		say(s, "any address");
	if (named)
		say(s, ")");
	else if (hosts && ports)
		say(s, ",");
	else if (ports && match->side == CHAOS_SIDE_CLIENT)
		say(s, " anywhere");
}

/*
 * The ends of the connections. The named process is the client, which turns to the place, or the server; then the place
 * is its own.
 */
static void say_ends(struct sentence *s, const struct match *match, bool response)
{
	const struct endpoint *endpoint = &match->endpoint;

	if (match->side == CHAOS_SIDE_CLIENT) {
		say(s, " from ");
		say_whom(s, match);
		say(s, " to ");
		say_where(s, match);
		return;
	}
	say(s, response ? " of " : " to ");
	say_whom(s, match);
	if (endpoint->hosts_count || endpoint->names_count || endpoint->ports_count) {
		say(s, " serving ");
		say_where(s, match);
	} else {
		say(s, " as server");
	}
}

static void say_protocol(struct sentence *s, const struct match *match)
{
	if (match->http.given)
		return; /* it goes without saying */
	if (match->protocols == 1U << CHAOS_TCP)
		say(s, "TCP ");
	else if (match->protocols == 1U << CHAOS_UDP)
		say(s, "UDP ");
}

static void say_percent(struct sentence *s, uint64_t ppm)
{
	say_decimal(s, ppm, ALL_PPM / 100, "%");
}

/* "200 ms", or "200 ms to 8 s (rising over 1 min)" */
static void say_ramped(struct sentence *s, uint64_t value, const struct ramp *ramp,
		       void (*say_value)(struct sentence *s, uint64_t value))
{
	say_value(s, value);
	if (!ramp->over_ns)
		return;
	say(s, " to ");
	say_value(s, ramp->to);
	say(s, " (%s over ", ramp->to > value ? "rising" : "falling");
	say_duration(s, ramp->over_ns);
	say(s, ")");
}

/* "8 s ± 500 ms" */
static void say_delay(struct sentence *s, const struct fault *fault)
{
	say_ramped(s, fault->delay_ns, &fault->delay_ramp, say_duration);
	if (!fault->jitter_ns)
		return;
	say(s, " ± ");
	say_duration(s, fault->jitter_ns);
	if (fault->distribution == CHAOS_NORMAL)
		say(s, " (normal distribution, at most ");
	else if (fault->distribution == CHAOS_PARETO)
		say(s, " (pareto distribution, at most ");
	else
		return;
	say_duration(s, fault_longest_delay(fault) - fault->reorder_ns);
	say(s, ")");
}

/* A delay and nothing else is best told about the requests that it slows. */
static void say_only_delay(struct sentence *s, const struct rule *rule)
{
	bool response = rule->match.side == CHAOS_SIDE_SERVER;

	say_protocol(s, &rule->match);
	if (rule->per == CHAOS_PER_PACKET) {
		say(s, "packets");
		say_ends(s, &rule->match, response);
		say(s, " are each held ");
		say_delay(s, &rule->fault);
		return;
	}
	if (rule->match.http.given)
		say_http(s, &rule->match.http);
	else
		say(s, response ? "responses" : "requests");
	say_ends(s, &rule->match, response);
	if (delay_holds_answers(&rule->match)) {
		say(s, " get their answers ");
		say_delay(s, &rule->fault);
		say(s, " later, once each");
		return;
	}
	say(s, " take ");
	say_delay(s, &rule->fault);
	say(s, " longer, once each");
}

static void say_drop(struct sentence *s, const struct rule *rule)
{
	static const char *const towards[] = {
		[CHAOS_REQUEST] = " towards the server",
		[CHAOS_RESPONSE] = " towards the client",
		[CHAOS_BOTH] = "",
	};

	if (rule->fault.drop_all && rule->per != CHAOS_PER_PACKET) {
		say(s, "go silent");
	} else if (rule->fault.drop_all) {
		say(s, "lose packets");
	} else if (rule->fault.loss == CHAOS_LOSS_EVERY) {
		say(s, "lose one packet in %u, exactly", rule->fault.drop_every);
	} else if (rule->fault.loss == CHAOS_LOSS_BURST) {
		say(s, "lose ");
		say_percent(s, rule->fault.drop_ppm);
		say(s, " of their packets, %u in a row on average", rule->fault.burst_length);
	} else {
		say(s, "lose ");
		say_ramped(s, rule->fault.drop_ppm, &rule->fault.drop_ramp, say_percent);
		say(s, " of their packets");
	}
	say(s, "%s", towards[rule->match.directions]);
}

/* "have 5 % of their packets towards the server doubled" */
static void say_damage(struct sentence *s, const struct rule *rule, enum chaos_fault fault)
{
	const struct match *match = &rule->match;
	uint32_t ppm = fault == CHAOS_DUPLICATE ? rule->fault.duplicate_ppm
		       : fault == CHAOS_CORRUPT ? rule->fault.corrupt_ppm
						: rule->fault.reorder_ppm;

	say(s, "have ");
	if (ppm < ALL_PPM)
		say_percent(s, ppm);
	say(s, ppm < ALL_PPM ? " of their packets" : "all packets");
	if (match->directions != CHAOS_BOTH)
		say(s, " towards the %s", match->directions == CHAOS_REQUEST ? "server" : "client");
	if (fault == CHAOS_DUPLICATE)
		say(s, " doubled");
	else if (fault == CHAOS_CORRUPT)
		say(s, " damaged");
	else
		say(s, " overtaken by those sent in the next ");
	if (fault == CHAOS_REORDER)
		say_duration(s, rule->fault.reorder_ns);
}

/* "1.5 Mbit/s" */
static void say_rate(struct sentence *s, uint64_t bits)
{
	static const struct {
		uint64_t bits;
		const char *name;
	} units[] = { { 1000000000, "Gbit/s" }, { 1000000, "Mbit/s" }, { 1000, "kbit/s" } };
	size_t i = 0;

	while (i < 2 && bits < units[i].bits)
		i++;
	say_decimal(s, bits, units[i].bits, units[i].name);
}

/* "carry at most 1 Mbit/s each towards the server", "carry an event each 200 ms at most towards the client" */
static void say_pace(struct sentence *s, const struct rule *rule, enum chaos_fault fault)
{
	static const char *const where[] = {
		[CHAOS_REQUEST] = " towards the server",
		[CHAOS_RESPONSE] = " towards the client",
		[CHAOS_BOTH] = " in either direction",
	};

	if (fault == CHAOS_RATE) {
		say(s, "carry at most ");
		say_rate(s, rule->fault.rate_bits);
		say(s, " each");
	} else {
		say(s, "carry an event each ");
		say_duration(s, rule->fault.token_ns);
		say(s, " at most");
	}
	say(s, "%s", where[fault == CHAOS_TOKENS ? CHAOS_RESPONSE : rule->match.directions]);
}

static void say_refuse(struct sentence *s, const struct rule *rule)
{
	int index = 0;

	while (refuse_names[index + 1] && refuse_errnos[index] != rule->fault.refuse)
		index++;
	say(s, "fail at connect with %s (%s)", errno_name(rule->fault.refuse), refuse_names[index]);
}

static void say_reset(struct sentence *s, const struct rule *rule)
{
	static const char *const when[][CHAOS_BOTH + 1] = {
		[CHAOS_PER_CONNECTION] = { "", " when a request is sent", " when a response is sent", "" },
		[CHAOS_PER_PACKET] = { "", " by packets towards the server", " by packets towards the client", "" },
		[CHAOS_PER_REQUEST] = { "", " when a request is sent", " when a response is sent", "" },
	};

	say(s, "are reset%s%s", when[rule->per][rule->match.directions],
	    rule->fault.reset_inside ? ", as far as the process is told" : "");
}

/* "questions from ... for *.openai.com are answered nxdomain" */
static void say_dns(struct sentence *s, const struct rule *rule)
{
	static const char *const becomes[] = {
		[CHAOS_DNS_NXDOMAIN] = "are told that there is no such name (nxdomain)",
		[CHAOS_DNS_SERVFAIL] = "are told that the name server failed (servfail)",
		[CHAOS_DNS_TIMEOUT] = "are never answered",
		[CHAOS_DNS_EMPTY] = "are told that the name has no address (empty)",
	};

	say(s, "DNS questions of ");
	say_whom(s, &rule->match);
	say(s, " for ");
	if (rule->match.endpoint.names_count)
		say_hosts(s, &rule->match.endpoint);
	else
		say(s, "any name");
	if (rule->match.resolver)
		say(s, ", and those that this machine's resolver asks for anybody,");
	say(s, " %s", becomes[rule->fault.dns]);
}

void say_chunks(struct sentence *s, uint32_t chunks)
{
	say(s, "%u chunk%s", chunks, chunks == 1 ? "" : "s");
}

/* "are reset after 4096 bytes of each response" */
static void say_break(struct sentence *s, const struct rule *rule)
{
	static const char *const how[] = { "are reset", "are closed", "go silent" };
	const bool request = rule->match.directions == CHAOS_REQUEST;

	say(s, "%s after ", how[rule->fault.break_how]);
	if (rule->fault.break_ns)
		say_duration(s, rule->fault.break_ns);
	else if (rule->fault.break_chunks)
		say_chunks(s, rule->fault.break_chunks);
	else
		say(s, "%llu byte%s", (unsigned long long)rule->fault.break_bytes,
		    rule->fault.break_bytes == 1 ? "" : "s");
	if (rule->per == CHAOS_PER_REQUEST)
		say(s, request ? " of each request" : " of each response");
	else
		say(s, " of what the %s says", request ? "client" : "server");
}

/* "connections from ... lose 5 % of their packets and take 2 s longer for each request" */
static void say_connections(struct sentence *s, const struct rule *rule)
{
	static const enum chaos_fault order[] = { CHAOS_DROP,        CHAOS_DELAY,          CHAOS_REFUSE,
						  CHAOS_RESET,       CHAOS_ACCEPT_SILENCE, CHAOS_TLS_STALL,
						  CHAOS_CORRUPT,     CHAOS_DUPLICATE,      CHAOS_REORDER,
						  CHAOS_HALF_OPEN,   CHAOS_RATE,           CHAOS_TOKENS,
						  CHAOS_BREAK_AFTER, CHAOS_STATUS,         CHAOS_BODY,
						  CHAOS_HANG,        CHAOS_BREAK_CLEAN,    CHAOS_ERROR_EVENT,
						  CHAOS_DROP_DONE,   CHAOS_GARBLE,         CHAOS_GRPC };
	const size_t orders = sizeof(order) / sizeof(order[0]);
	size_t count = (size_t)__builtin_popcount(rule->fault.faults), said = 0;

	say_protocol(s, &rule->match);
	if (rule->match.http.given) {
		say(s, rule->fault.faults & CHAOS_ANSWERS ? "" : "connections of ");
		say_http(s, &rule->match.http);
	} else {
		say(s, "connections");
	}
	say_ends(s, &rule->match, false);
	for (size_t i = 0; i < orders; i++) {
		if (!HAS(rule, order[i]))
			continue;
		say(s, "%s", said ? joint(said, count, " and ") : " ");
		said++;
		if (order[i] == CHAOS_DROP) {
			say_drop(s, rule);
		} else if (order[i] == CHAOS_DELAY) {
			say(s, rule->per == CHAOS_PER_PACKET ? "have packets held " : "take ");
			say_delay(s, &rule->fault);
			say(s, rule->per == CHAOS_PER_PACKET ? "" : " longer for each request");
		} else if (order[i] == CHAOS_REFUSE) {
			say_refuse(s, rule);
		} else if (order[i] == CHAOS_ACCEPT_SILENCE) {
			say(s, "are accepted and never answered");
		} else if (order[i] == CHAOS_TLS_STALL) {
			say(s, "never finish their TLS handshake");
		} else if (1 << order[i] & CHAOS_ANSWERS) {
			say_answer(s, &rule->fault);
		} else if (order[i] == CHAOS_GRPC) {
			say(s, "have calls of gRPC end in %s", grpc_name(rule->fault.grpc));
		} else if (order[i] == CHAOS_BREAK_AFTER) {
			say_break(s, rule);
		} else if (order[i] == CHAOS_HALF_OPEN) {
			say(s, "are forgotten after ");
			say_duration(s, rule->fault.idle_ns);
			say(s, " without a packet, and %s",
			    rule->fault.idle_how == CHAOS_BREAK_RESET ? "reset when they are used again"
								      : "lose all that follows");
		} else if (order[i] == CHAOS_RESET) {
			say_reset(s, rule);
		} else if (1 << order[i] & CHAOS_PACING) {
			say_pace(s, rule, order[i]);
		} else {
			say_damage(s, rule, order[i]);
		}
	}
}

static bool is_partial(const struct rule *rule)
{
	return rule->percent_ramp.over_ns || (rule->percent_ppm > 0 && rule->percent_ppm < ALL_PPM);
}

static bool is_never(const struct rule *rule)
{
	return rule->percent_ppm == 0 && !rule->percent_ramp.over_ns;
}

/* Of single packets. */
static bool has_packet_dice(const struct rule *rule)
{
	const struct fault *f = &rule->fault;

	return (HAS(rule, CHAOS_DROP) && !f->drop_all && f->loss != CHAOS_LOSS_EVERY) ||
	       (HAS(rule, CHAOS_DUPLICATE) && f->duplicate_ppm < ALL_PPM) ||
	       (HAS(rule, CHAOS_CORRUPT) && f->corrupt_ppm < ALL_PPM) ||
	       (HAS(rule, CHAOS_REORDER) && f->reorder_ppm < ALL_PPM);
}

/* A seed matters where there are dice. */
static void say_seed(struct sentence *s, const struct rule *rule)
{
	bool some = is_partial(rule);
	bool jitter = rule->fault.jitter_ns > 0, lossy = has_packet_dice(rule);

	if (!rule->seed_given || is_never(rule) || !(some || jitter || lossy))
		return;
	if (some)
		say(s, ", the same ones");
	else
		say(s, jitter ? "; the same jitter" : "; the same packets");
	say(s, " each time (seed %llu)", (unsigned long long)rule->seed);
}

static void say_how_often(struct sentence *s, const struct rule *rule)
{
	static const char *const units[] = { "connections", "packets", "requests", "calls" };
	const char *window = rule->rate_window_ns == SECOND ? "a second" : "an hour";

	if (rule->rate_window_ns == 60 * SECOND)
		window = "a minute";
	if (is_never(rule)) {
		say(s, "; on 0 %% of the %s, so never", units[rule->per]);
	} else if (is_partial(rule)) {
		say(s, "; on ");
		say_ramped(s, rule->percent_ppm, &rule->percent_ramp, say_percent);
		say(s, " of the %s", units[rule->per]);
	} else if (rule->per == CHAOS_PER_PACKET || rule->per == CHAOS_PER_REQUEST) {
		say(s, "; on all %s", units[rule->per]);
	}
	say_seed(s, rule);
	if (rule->max_hits == 1)
		say(s, "; at most once");
	else if (rule->max_hits)
		say(s, "; at most %llu times", (unsigned long long)rule->max_hits);
	if (rule->rate_count)
		say(s, "; at most %u %s", rule->rate_count, window);
}

static void say_days(struct sentence *s, unsigned int days)
{
	static const char *const names[] = { "Mondays", "Tuesdays",  "Wednesdays", "Thursdays",
					     "Fridays", "Saturdays", "Sundays" };
	size_t count = (size_t)__builtin_popcount(days), said = 0;

	if (days == 0x7f) {
		say(s, "every day");
		return;
	}
	say(s, "on ");
	for (unsigned int i = 0; i < 7; i++) {
		if (days & (1U << ((i + 1) % 7))) { /* tm_wday begins with Sunday, people's weeks with Monday */
			say(s, "%s%s", joint(said, count, " and "), names[i]);
			said++;
		}
	}
}

static void say_when(struct sentence *s, const struct rule *rule)
{
	const struct window *window = &rule->window;
	unsigned int first = window->first_minute, last = window->last_minute;

	say(s, "; ");
	if (rule->start_after_ns) {
		say(s, "starts ");
		say_duration(s, rule->start_after_ns);
		say(s, " after the load and ");
	}
	say(s, "ends after ");
	say_duration(s, rule->duration_ns);
	if (!window->limited)
		return;
	say(s, "; ");
	say_days(s, window->days);
	if (first == 0 && last == 1440)
		return;
	say(s, " between %02u:%02u and %02u:%02u", first / 60, first % 60, last / 60, last % 60);
	if (first > last)
		say(s, " the next day");
}

int explain_rule(const struct rules *rules, size_t index, char *buf, size_t size)
{
	struct sentence s = { .buf = buf, .size = size };
	const struct rule *rule = &rules->rules[index];

	say(&s, "%s: ", rule->name);
	if (rule->fault.faults & CHAOS_CALLS)
		say_call(&s, rule);
	else if (HAS(rule, CHAOS_DNS))
		say_dns(&s, rule);
	else if (rule->fault.faults == 1U << CHAOS_DELAY)
		say_only_delay(&s, rule);
	else
		say_connections(&s, rule);
	if (rule->match.include_ssh)
		say(&s, ", SSH included");
	say_how_often(&s, rule);
	say_when(&s, rule);
	say(&s, ".");
	return s.cut ? -ENOSPC : 0;
}
