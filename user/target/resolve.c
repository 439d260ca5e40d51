// SPDX-License-Identifier: GPL-2.0-only
#include "user/target/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "user/base/clock.h"

static const struct addrinfo wanted = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };

/* One question for each different name, however many rules ask it. */
struct questions {
	struct gaicb *list;
	struct gaicb **pointers;
	size_t count;
};

static struct gaicb *find_question(const struct questions *q, const char *name)
{
	for (size_t i = 0; i < q->count; i++) {
		if (strcmp(q->list[i].ar_name, name) == 0)
			return &q->list[i];
	}
	return NULL;
}

static size_t count_names(const struct rules *rules)
{
	size_t count = 0;

	for (size_t i = 0; i < rules->count; i++)
		count += rules->rules[i].match.endpoint.names_count;
	return count;
}

static bool needs_addresses(const struct rule *rule)
{
	return !(rule->fault.faults & 1U << CHAOS_DNS);
}

static int collect(const struct rules *rules, struct questions *q)
{
	size_t room = count_names(rules);

	q->list = calloc(room + 1, sizeof(*q->list));
	q->pointers = calloc(room + 1, sizeof(struct gaicb *));
	if (!q->list || !q->pointers)
		return -ENOMEM;
	for (size_t i = 0; i < rules->count; i++) {
		const struct endpoint *endpoint = &rules->rules[i].match.endpoint;

		for (size_t k = 0; needs_addresses(&rules->rules[i]) && k < endpoint->names_count; k++) {
			const struct host_name *name = &endpoint->names[k];

			if (name->suffix || find_question(q, name->name))
				continue;
			q->pointers[q->count] = &q->list[q->count];
			q->list[q->count++] = (struct gaicb){ .ar_name = name->name, .ar_request = &wanted };
		}
	}
	return 0;
}

static bool all_answered(const struct questions *q)
{
	for (size_t i = 0; i < q->count; i++) {
		if (gai_error(&q->list[i]) == EAI_INPROGRESS)
			return false;
	}
	return true;
}

/*
 * True when every answer is there; false when time is up, and some threads of the resolver still wait for theirs. Looks again
 * and again instead of gai_suspend(): that one leaves its place in a request's list of waiters, which lies on its stack, when
 * the answer comes just as its time is up (glibc sets the result before it takes the lock), and the resolver's thread then
 * writes to what is no longer there. Seen as a crash, once in some hundred loads.
 */
static bool ask(struct questions *q)
{
	double deadline = now_ms() + RESOLVE_TIMEOUT_S * 1000.0;
	const struct timespec tick = { .tv_nsec = 2000000 };

	if (!q->count || getaddrinfo_a(GAI_NOWAIT, q->pointers, (int)q->count, NULL))
		return true;
	while (!all_answered(q)) {
		if (now_ms() >= deadline)
			return false;
		nanosleep(&tick, NULL);
	}
	return true;
}

static struct in6_addr address_of(const struct addrinfo *info)
{
	struct in6_addr address = { 0 };

	if (info->ai_family == AF_INET6)
		return ((struct sockaddr_in6 *)info->ai_addr)->sin6_addr;
	address.s6_addr[10] = address.s6_addr[11] = 0xff;
	memcpy(&address.s6_addr[12], &((struct sockaddr_in *)info->ai_addr)->sin_addr, 4);
	return address;
}

static int take_answer(struct host_name *name, const struct addrinfo *answer)
{
	size_t count = 0;

	for (const struct addrinfo *info = answer; info; info = info->ai_next)
		count++;
	name->addresses = calloc(count + 1, sizeof(*name->addresses));
	if (!name->addresses)
		return -ENOMEM;
	for (const struct addrinfo *info = answer; info; info = info->ai_next) {
		if (info->ai_family == AF_INET || info->ai_family == AF_INET6)
			name->addresses[name->addresses_count++] = address_of(info);
	}
	return 0;
}

static int no_answer(const struct rules *rules, const struct host_name *name, int code, struct error *err)
{
	if (code == EAI_INPROGRESS)
		rules_error_at(rules, name->mark, err, EXIT_FAILED, "host '%s' did not resolve within %d s", name->name,
			       RESOLVE_TIMEOUT_S);
	else
		rules_error_at(rules, name->mark, err, EXIT_FAILED, "host '%s' does not resolve: %s", name->name,
			       gai_strerror(code));
	error_hint(err, "a rule for a name without an address hits nothing until some process asks for it; --wait "
			"accepts that");
	return -ENOENT;
}

static int resolve_name(const struct rules *rules, const struct questions *q, struct host_name *name, struct error *err)
{
	struct gaicb *question = name->suffix ? NULL : find_question(q, name->name);
	int code = question ? gai_error(question) : 0;

	if (!question || name->addresses)
		return 0;
	if (code)
		return no_answer(rules, name, code, err);
	return take_answer(name, question->ar_result) ? error_set(err, -ENOMEM, EXIT_FAILED, "out of memory") : 0;
}

/*
 * A preset lists old names and such as not every region has: of these one is enough, or a pattern or address beside them.
 * Those that have none now are known by the DNS answers to come.
 */
static int resolve_endpoint(const struct rules *rules, const struct questions *q, struct endpoint *endpoint, bool wait,
			    struct error *err)
{
	bool any = wait || endpoint->hosts_count > 0;
	int ret, failed = 0;

	for (size_t i = 0; i < endpoint->names_count; i++) {
		struct host_name *name = &endpoint->names[i];

		ret = resolve_name(rules, q, name, err);
		if (ret && (ret != -ENOENT || !(wait || name->one_of_many)))
			return ret;
		failed = ret ? ret : failed;
		any = any || !ret;
	}
	return any ? 0 : failed;
}

int names_resolve(struct rules *rules, bool wait, struct error *err)
{
	struct questions q = { 0 };
	bool answered;
	int ret = collect(rules, &q);

	if (ret)
		return error_set(err, ret, EXIT_FAILED, "out of memory");
	answered = ask(&q);
	for (size_t i = 0; i < rules->count && !ret; i++) {
		if (needs_addresses(&rules->rules[i]))
			ret = resolve_endpoint(rules, &q, &rules->rules[i].match.endpoint, wait, err);
	}
	/* What is still being answered writes to its question: that memory stays. */
	for (size_t i = 0; answered && i < q.count; i++)
		freeaddrinfo(q.list[i].ar_result);
	if (answered) {
		free(q.list);
		free(q.pointers);
	}
	return ret;
}
