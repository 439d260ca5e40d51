/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An experiment that is run: probes ask, the method breaks, the phases decide, everything is kept. What is allowed was
 * asked before (user/experiment/policy.h).
 */
#ifndef USER_RUN_H
#define USER_RUN_H

#include "user/base/output.h"
#include "user/experiment/experiment.h"

struct run_options {
	const char *operator;      /* the person on call, or NULL */
	struct findings *findings; /* where it is kept; NULL: nowhere */
	bool json;                 /* one document at the end, no progress */
};

struct run_outcome {
	int exit; /* enum exit_code */
	enum verdict verdict;
	int64_t id; /* in the findings; 0: not kept */
};

/* Runs it to its end and prints what it found. */
void run_experiment(const struct experiment *experiment, const struct run_options *options,
		    struct run_outcome *outcome);

/* The plan with its times: for people, and as members of the object that is open. Rules are not looked up. */
void plan_print(const struct experiment *experiment, FILE *out);
void plan_json(const struct experiment *experiment, struct json *json);

/* The same as a document of its own, for what is kept; to be freed. NULL: out of memory. */
char *plan_document(const struct experiment *experiment);

#endif
