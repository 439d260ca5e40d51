/* SPDX-License-Identifier: GPL-2.0-only */
/* What `deps test` leaves in the findings. Whatever cannot be kept is told once, and the test goes on. */
#ifndef USER_TRIALS_RECORD_H
#define USER_TRIALS_RECORD_H

#include "user/experiment/trials.h"
#include "user/rules/rules.h"

struct trials_record {
	struct findings_writer *writer; /* NULL: nothing is kept, and all of these do nothing */
	int64_t id;                     /* of the run; 0: none */
	bool failed;                    /* said once */
};

void trials_record_begin(struct trials_record *record, struct findings *findings, const struct trials_options *options);
void trials_record_phase(struct trials_record *record, enum phase phase);

/* One is being broken now. */
void trials_record_trial(struct trials_record *record, const struct tested *tested, enum breakage how, uint64_t for_ns);

/* What the service did in a stretch of time that ends now: how many of its requests ended and failed, and the median. */
void trials_record_tick(struct trials_record *record, uint64_t ended, uint64_t failed, double median_ms);

/* The counters of what is loaded now, which breaks this one. */
void trials_record_rule(struct trials_record *record, const struct tested *tested, enum breakage how,
			const struct rules *rules);

/* The end. `records` has one for each that was tested. */
void trials_record_end(struct trials_record *record, const struct trials_result *result,
		       const struct dependency_record *records, enum verdict verdict, const char *reason);

#endif
