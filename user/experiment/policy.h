/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a machine allows of experiments: a file that belongs to whoever answers for it, not to whoever writes experiments.
 * Without one everything is allowed but `environment: production`.
 */
#ifndef USER_POLICY_H
#define USER_POLICY_H

#include <time.h>

#include "user/experiment/experiment.h"

#define POLICY_FILE        "/etc/chaosbpf/policy.yaml"
#define POLICY_PRODUCTION  "CHAOSBPF_PRODUCTION" /* "yes": the second of three locks */
#define POLICY_MAX_WINDOWS 64

struct policy_window {
	struct window window;
	struct mark mark;
};

struct policy {
	char *file; /* as it was named; NULL: there is none */
	bool production;
	struct mark production_mark;
	bool operator_required;
	struct text *operators; /* who may be on call; none: anybody */
	size_t operators_count;
	struct mark operator_mark;
	struct policy_window *hours, *peak_hours;
	size_t hours_count, peak_hours_count;
	uint32_t max_percent_ppm; /* 0: no limit, as with the other two */
	uint64_t max_duration_ns, max_hits;
	struct mark percent_mark, duration_mark, hits_mark;
	struct text *cgroups, *names; /* that may not be hit */
	size_t cgroups_count, names_count;
	struct port_range *ports;
	size_t ports_count;
	uint64_t staging_within_ns; /* how old a held run in staging may be; 0: any */
};

/* `path` NULL: POLICY_FILE if it is there. *policy is to be freed. */
int policy_load(const char *path, struct policy **policy, struct error *err);
int policy_parse(const char *file, const char *source, size_t len, struct policy **policy, struct error *err);
void policy_free(struct policy *policy);

/* Who asks, and when. */
struct policy_asked {
	const char *operator; /* or NULL */
	time_t now;
	const char *production; /* value of the environment's POLICY_PRODUCTION, or NULL */
};

/* Refuses (EXIT_USAGE) what the policy does not allow, with the reason and the place of what forbids it. */
int policy_check(const struct policy *policy, const struct experiment *experiment, const struct policy_asked *asked,
		 struct error *err);

/* The same for what earlier runs say: an open weakness, and for production a held run in staging. */
int policy_check_findings(const struct policy *policy, const struct experiment *experiment, struct findings *findings,
			  time_t now, struct error *err);

#endif
