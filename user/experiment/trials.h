/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Breaking each dependency of a service in turn, and measuring the service meanwhile, from the kernel alone:
 *
 *	learn what is normal, and what is called -> for each way to break, for each dependency that is not strong yet:
 *	break it, end that, wait
 *
 * The faults live in a process of their own (user/experiment/holder.h), and end with this one.
 */
#ifndef USER_TRIALS_H
#define USER_TRIALS_H

#include "user/experiment/policy.h"
#include "user/experiment/strength.h"
#include "user/rules/inject.h"

struct trials_record;

struct trials_options {
	struct inject words; /* whose service it is */
	const char *environment;
	const struct policy *policy;
	struct policy_asked who;
	uint64_t baseline_ns, each_ns, gap_ns, delay_ns;
	bool quiet;                   /* no word of how far it is */
	struct trials_record *record; /* what is kept meanwhile (user/experiment/trials_record.h) */
};

struct trials_result {
	struct tested_list tested;
	struct robust_limits normal; /* of the service */
	double window_s;
	bool aborted;
	char why[256]; /* of an abort */
};

/*
 * Takes as long as it takes. -ECANCELED with result->aborted: by a signal, or the faults were ended from elsewhere; what
 * was found until then is in *result. Free it with trials_free() either way.
 */
int trials_run(const struct trials_options *options, struct trials_result *result, struct error *err);
void trials_free(struct trials_result *result);

#endif
