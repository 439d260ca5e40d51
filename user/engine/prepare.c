// SPDX-License-Identifier: GPL-2.0-only
#include "user/base/vector.h"
#include "user/engine/prepare.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bpf/bpf.h>

#define MAX_ROUTES        64 /* above so many addresses every device is prepared, instead of asking for each */
#define HORIZON_MARGIN_NS 10000000000ULL

uint64_t rules_longest_delay(const struct rules *rules)
{
	uint64_t longest = 0;

	for (size_t i = 0; i < rules->count; i++) {
		const struct fault *fault = &rules->rules[i].fault;
		uint64_t of_rule = fault->faults & CHAOS_PACING ? CHAOS_MAX_DELAY_NS : fault_longest_delay(fault);

		if (of_rule > longest)
			longest = of_rule;
	}
	return longest;
}

/* ---- which ---------------------------------------------------------------------------------------------------- */

static bool is_zero(const struct chaos_vector *v)
{
	static const struct chaos_vector none;

	return memcmp(v, &none, sizeof(none)) == 0;
}

/* Rules that some process of this namespace could meet. */
static void netns_rules(const struct tables *tables, const struct process_list *processes, uint64_t netns,
			struct chaos_vector *rules)
{
	memset(rules, 0, sizeof(*rules));
	for (size_t i = 0; i < processes->count; i++) {
		struct chaos_vector of_process;

		if (processes->entries[i].netns != netns)
			continue;
		tables_process_rules(tables, &processes->entries[i], &of_process);
		for (int w = 0; w < CHAOS_WORDS; w++)
			rules->word[w] |= of_process.word[w];
	}
}

/* Single addresses whose route can be asked for; false: ask for none, take all devices. */
static bool routes_can_be_asked(const struct rule *rule)
{
	const struct endpoint *e = &rule->match.endpoint;

	if (rule->match.side != CHAOS_SIDE_CLIENT || !e->hosts_count || e->hosts_count > MAX_ROUTES || e->names_count)
		return false;
	for (size_t i = 0; i < e->hosts_count; i++) {
		if (e->hosts[i].prefix_len != 128)
			return false;
	}
	return true;
}

static bool reaches(const struct netns *netns, const struct rule *rule, unsigned int ifindex)
{
	const struct endpoint *e = &rule->match.endpoint;

	for (size_t i = 0; i < e->hosts_count; i++) {
		unsigned int out = 0;
		struct error ignored;

		if (device_for_address(netns, &e->hosts[i].address, &out, &ignored) == 0 && out == ifindex)
			return true;
	}
	return false;
}

static bool rule_wants(const struct netns *netns, const struct rule *rule, const struct device *device)
{
	if (!(device->flags & IFF_UP) || device->is_our_ifb)
		return false;
	if (routes_can_be_asked(rule))
		return reaches(netns, rule, device->ifindex);
	return device->has_address;
}

int rule_devices(const struct rules *rules, const struct tables *tables, size_t index,
		 const struct process_list *processes, device_fn fn, void *arg, struct error *err)
{
	struct netns_list spaces;
	int ret = netns_list(&spaces, err);

	if (ret)
		return ret;
	for (size_t s = 0; s < spaces.count && !ret; s++) {
		struct chaos_vector possible;
		struct device *devices = NULL;
		size_t count = 0;

		netns_rules(tables, processes, spaces.entries[s].inode, &possible);
		if (!has_rule(&possible, index) || device_list(&spaces.entries[s], &devices, &count, err))
			continue;
		for (size_t d = 0; d < count && !ret; d++) {
			if (rule_wants(&spaces.entries[s], &rules->rules[index], &devices[d]))
				ret = fn(&spaces.entries[s], &devices[d], arg);
		}
		free(devices);
	}
	netns_list_free(&spaces);
	return ret;
}

/* What all rules together want of a device. Routes are asked once for a rule and namespace at most, not for each device. */
static unsigned int needs_of(const struct prepare *p, const struct netns *netns, const struct chaos_vector *possible,
			     const struct device *device)
{
	const unsigned int arriving = CHAOS_DEVICE_INGRESS | CHAOS_DEVICE_ANSWER;
	unsigned int needs = 0, all = CHAOS_DEVICE_EGRESS | arriving | CHAOS_DEVICE_FQ | CHAOS_DEVICE_IFB;

	for (size_t i = 0; i < p->rules->count && needs != all; i++) {
		unsigned int of_rule = rule_device_needs(&p->rules->rules[i]);

		if (has_rule(possible, i) && (of_rule & ~needs) && rule_wants(netns, &p->rules->rules[i], device))
			needs |= of_rule;
	}
	/* The one for answers runs first, as it is attached later: no device gets the other after it. */
	if (needs & CHAOS_DEVICE_ANSWER && p->tables->device_needs & CHAOS_DEVICE_INGRESS)
		needs |= CHAOS_DEVICE_INGRESS;
	/* The filter that picks what is held must be there before our program is: no device gets it later. */
	if (needs & CHAOS_DEVICE_INGRESS && p->engine && p->engine->pick_fd >= 0)
		needs |= CHAOS_DEVICE_IFB;
	return needs;
}

/* ---- preparing -------------------------------------------------------------------------------------------------- */

struct cookie_call {
	int map_fd;
	uint64_t cookie;
};

static int ask_cookie(void *arg)
{
	struct cookie_call *call = arg;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct chaos_sock state;

	if (fd < 0)
		return -errno;
	if (bpf_map_lookup_elem(call->map_fd, &fd, &state) == 0)
		call->cookie = state.owner.netns;
	close(fd);
	return 0;
}

uint64_t netns_cookie(const struct netns *netns, int sock_map_fd)
{
	struct cookie_call call = { .map_fd = sock_map_fd };

	return netns_run(netns, ask_cookie, &call) == 0 ? call.cookie : 0;
}

static struct prepared_netns *space_of(struct prepare *p, const struct netns *netns)
{
	struct prepared_netns *more;

	for (size_t i = 0; i < p->count; i++) {
		if (p->spaces[i].netns.inode == netns->inode)
			return &p->spaces[i];
	}
	more = realloc(p->spaces, (p->count + 1) * sizeof(*more));
	if (!more)
		return NULL;
	p->spaces = more;
	more = &p->spaces[p->count];
	memset(more, 0, sizeof(*more));
	more->netns = *netns;
	more->netns.fd = fcntl(netns->fd, F_DUPFD_CLOEXEC, 3);
	if (more->netns.fd < 0)
		return NULL;
	more->cookie = netns_cookie(netns, p->engine->sock_fd);
	more->ifb_link = -1;
	p->count++;
	return more;
}

static struct prepared_device *device_of(struct prepared_netns *space, unsigned int ifindex)
{
	struct prepared_device *more;

	for (size_t i = 0; i < space->count; i++) {
		if (space->devices[i].ifindex == ifindex)
			return &space->devices[i];
	}
	more = realloc(space->devices, (space->count + 1) * sizeof(*more));
	if (!more)
		return NULL;
	space->devices = more;
	more[space->count] = (struct prepared_device){ .ifindex = ifindex, .links = { -1, -1, -1 } };
	return &more[space->count++];
}

static int tell_programs(struct prepare *p, const struct prepared_netns *space, const struct prepared_device *device)
{
	struct chaos_device_key key = { .netns = space->cookie, .ifindex = device->ifindex };
	struct chaos_device value = { .flags = device->flags | CHAOS_DEVICE_SEEN, .ifb = space->ifb };

	return bpf_map_update_elem(engine_map(p->engine, "chaos_devices"), &key, &value, BPF_ANY) ? -errno : 0;
}

static int prepare_ifb(const struct prepare *p, struct prepared_netns *space, struct error *err)
{
	const struct device_wish wish = {
		.egress_prog_fd = p->engine->ifb_fd,
		.ingress_prog_fd = -1,
		.answer_prog_fd = -1,
		.fq = true,
		.fq_horizon_ns = p->horizon_ns,
		.generation = p->engine->generation,
		.pin_dir = p->pin_dir,
	};
	unsigned int ifindex;
	int ret;

	if (space->ifb)
		return 0;
	ret = device_prepare_ifb(&space->netns, &wish, &ifindex, &space->ifb_link, err);
	if (!ret)
		space->ifb = ifindex;
	return ret;
}

static int prepare_one(struct prepare *p, struct prepared_netns *space, const struct device *device, unsigned int needs,
		       struct error *err)
{
	struct prepared_device *done = device_of(space, device->ifindex);
	struct device_result result = { .egress_link_fd = -1, .ingress_link_fd = -1, .answer_link_fd = -1 };
	struct device_wish wish = {
		.egress_prog_fd = -1,
		.ingress_prog_fd = -1,
		.answer_prog_fd = -1,
		.pick_prog_fd = -1,
		.fq_horizon_ns = p->horizon_ns,
		.generation = p->engine->generation,
		.pin_dir = p->pin_dir,
	};
	int ret;

	if (!done)
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	needs &= ~done->flags;
	if (!needs)
		return tell_programs(p, space, done);
	if (needs & CHAOS_DEVICE_EGRESS)
		wish.egress_prog_fd = p->engine->egress_fd;
	if (needs & CHAOS_DEVICE_INGRESS)
		wish.ingress_prog_fd = p->engine->ingress_fd;
	if (needs & CHAOS_DEVICE_ANSWER)
		wish.answer_prog_fd = p->engine->answer_fd;
	if (needs & CHAOS_DEVICE_IFB) {
		ret = prepare_ifb(p, space, err);
		if (ret)
			return ret == -ENODEV ? 0 : ret;
		wish.pick_prog_fd = p->engine->pick_fd;
		wish.ifb = space->ifb;
	}
	wish.fq = needs & CHAOS_DEVICE_FQ;
	ret = device_prepare(&space->netns, device, &wish, &result, err);
	if (ret == -ENODEV)
		return 0; /* gone meanwhile */
	if (ret)
		return ret;
	if (!done->flags)
		p->devices++;
	done->flags |= result.flags;
	if (result.egress_link_fd >= 0)
		done->links[TCPROG_EGRESS] = result.egress_link_fd;
	if (result.ingress_link_fd >= 0)
		done->links[TCPROG_INGRESS] = result.ingress_link_fd;
	if (result.answer_link_fd >= 0)
		done->links[TCPROG_ANSWER] = result.answer_link_fd;
	ret = tell_programs(p, space, done);
	return ret ? error_set(err, ret, EXIT_FAILED, "cannot note device %s: %s", device->name, strerror(-ret)) : 0;
}

static int dry_one(const struct prepare *p, const struct netns *netns, const struct device *device, unsigned int needs,
		   struct error *err)
{
	int ret = needs & CHAOS_DEVICE_FQ ? device_can_fq(netns, device, err) : 0;

	(void)p;
	return !ret && needs & CHAOS_DEVICE_IFB ? device_can_ifb(netns, device, err) : ret;
}

static int prepare_space(struct prepare *p, const struct netns *netns, const struct process_list *processes, bool dry,
			 struct error *err)
{
	struct prepared_netns *space = NULL;
	struct chaos_vector possible;
	struct device *devices = NULL;
	uint32_t known = 1;
	size_t count = 0;
	int ret = 0;

	netns_rules(p->tables, processes, netns->inode, &possible);
	if (is_zero(&possible) || device_list(netns, &devices, &count, err))
		return 0; /* nobody there to be hit, or gone meanwhile */
	for (size_t d = 0; d < count && !ret; d++) {
		unsigned int needs = needs_of(p, netns, &possible, &devices[d]);

		if (dry) {
			ret = dry_one(p, netns, &devices[d], needs, err);
			continue;
		}
		space = space_of(p, netns);
		ret = space ? prepare_one(p, space, &devices[d], needs, err)
			    : error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	}
	if (space)
		bpf_map_update_elem(engine_map(p->engine, "chaos_netns"), &space->cookie, &known, BPF_ANY);
	free(devices);
	return ret;
}

bool prepare_needed(const struct rules *rules)
{
	for (size_t i = 0; i < rules->count; i++) {
		if (rule_device_needs(&rules->rules[i]))
			return true;
	}
	return false;
}

int prepare_devices(struct prepare *p, const struct process_list *processes, bool dry, struct error *err)
{
	struct netns_list spaces;
	int ret;

	if (!prepare_needed(p->rules))
		return 0;
	p->horizon_ns = rules_longest_delay(p->rules) + HORIZON_MARGIN_NS;
	ret = netns_list(&spaces, err);
	if (ret)
		return ret;
	for (size_t i = 0; i < spaces.count && !ret; i++)
		ret = prepare_space(p, &spaces.entries[i], processes, dry, err);
	netns_list_free(&spaces);
	return ret;
}

uint32_t prepare_backlog(const struct prepare *p)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < p->count; i++) {
		uint32_t packets = 0;
		struct error ignored;

		if (p->spaces[i].ifb && device_backlog(&p->spaces[i].netns, p->spaces[i].ifb, &packets, &ignored) == 0)
			sum += packets;
		for (size_t d = 0; d < p->spaces[i].count; d++) {
			packets = 0;
			if (p->spaces[i].devices[d].flags & CHAOS_DEVICE_FQ &&
			    device_backlog(&p->spaces[i].netns, p->spaces[i].devices[d].ifindex, &packets, &ignored) ==
				    0)
				sum += packets;
		}
	}
	return sum;
}

void prepare_free(struct prepare *p)
{
	for (size_t i = 0; i < p->count; i++) {
		for (size_t d = 0; d < p->spaces[i].count; d++) {
			for (int place = 0; place < TCPROG_PLACE_COUNT; place++) {
				if (p->spaces[i].devices[d].links[place] >= 0)
					close(p->spaces[i].devices[d].links[place]);
			}
		}
		if (p->spaces[i].ifb_link >= 0)
			close(p->spaces[i].ifb_link);
		free(p->spaces[i].devices);
		close(p->spaces[i].netns.fd);
	}
	free(p->spaces);
	p->spaces = NULL;
	p->count = 0;
}
