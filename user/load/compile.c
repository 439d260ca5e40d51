// SPDX-License-Identifier: GPL-2.0-only
/* From parsed rules to what the kernel is given: names looked up, tables, schedule. Touches nothing of the machine. */
#include <errno.h>
#include <string.h>

#include "user/load/load_internal.h"
#include "user/rules/path.h"
#include "user/target/resolve.h"

/* Before bpf_set_retval only TCP can be refused with an errno: such a rule lets UDP be. */
static void narrow_to_kernel(struct rules *rules, const struct features *f)
{
	for (size_t i = 0; i < rules->count; i++) {
		struct rule *rule = &rules->rules[i];

		if (rule->fault.faults & 1 << CHAOS_REFUSE && !f->has[FEATURE_SET_RETVAL] &&
		    rule->fault.refuse != EPERM && rule->match.protocols & 1 << CHAOS_TCP)
			rule->match.protocols = 1 << CHAOS_TCP;
	}
}

int load_compile(struct load *load, struct rules *rules, const struct load_options *options, struct error *err)
{
	const struct target_options names = {
		.only_cgroup = options->only_cgroup,
		.cgroup2_mount = load->features.cgroup2_mount,
		.root = "/",
		.wait = options->wait,
		.wait_container = options->checking,
	};
	struct instant now;
	int ret;

	load->options = *options;
	load->log.fd = -1;
	load->rules = rules;
	features_probe(&load->features);
	ret = names_resolve(rules, options->wait || options->checking, err);
	ret = ret ?: paths_resolve(rules, err);
	ret = ret ?: process_list(load->features.cgroup2_mount, &load->processes, err);
	ret = ret ?: targets_resolve(load->rules, &names, &load->processes, &load->targets, err);
	if (ret)
		return ret;
	narrow_to_kernel(load->rules, &load->features);
	moment_now(&now);
	load->began_ns = now.boot_ns;
	ret = tables_make(load->rules, load->targets, options->observe, &load->tables, err);
	if (!ret && load->tables->device_needs & CHAOS_DEVICE_IFB)
		features_probe_ifb(&load->features);
	return ret ?: schedule_make(load->rules, &now, &load->schedule, err);
}

void load_free(struct load *load)
{
	if (load->log.fd >= 0)
		eventlog_close(&load->log);
	prepare_free(&load->prepare);
	probes_free(&load->probes);
	if (load->engine.skel)
		engine_free(&load->engine);
	schedule_free(&load->schedule);
	tables_free(load->tables);
	targets_free(load->targets, load->rules->count);
	process_list_free(&load->processes);
}
