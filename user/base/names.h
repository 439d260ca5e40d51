/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The words of the rule language for the enums of bpf/chaos.h: the same word in YAML, in `status --json`, in events and
 * in the man page. Tables are in the order of their enum, complete (asserted), and end with NULL.
 */
#ifndef USER_NAMES_H
#define USER_NAMES_H

extern const char *const fault_names[];        /* enum chaos_fault: drop, delay, refuse, reset, accept-silence, ... */
extern const char *const dns_names[];          /* nxdomain, servfail, timeout, empty */
extern const char *const per_names[];          /* connection, packet, request, call */
extern const char *const operation_names[];    /* enum chaos_operation: open, create, read, ... */
extern const char *const break_how_names[];    /* reset, close, stall, clean */
extern const char *const distribution_names[]; /* uniform, normal, pareto */
extern const char *const loss_names[];         /* enum chaos_loss: chance, every, burst */
extern const char *const grpc_names[];         /* what a client of gRPC is told, by place in */
#define GRPC_STATUSES 5
extern const unsigned char grpc_codes[GRPC_STATUSES]; /* the errors of HTTP/2 that say so */
extern const char *const form_names[];                /* enum chaos_form_kind */
extern const char *const side_names[];                /* unknown, client, server */
extern const char *const skip_names[];                /* percent, max-hits, max-rate, observe, ssh, device, ... */
extern const char *const protocol_names[];            /* tcp, udp */
extern const char *const refuse_names[];              /* refused, timeout, unreachable, denied */
extern const int refuse_errnos[];                     /* in that order */

/* Of a bit of a rule's faults, as fault_names has it; CHAOS_BREAK_CLEAN is break-after as well. */
const char *fault_word(unsigned int fault);

/* "unavailable" for an error of HTTP/2; "unknown" when no status of gRPC goes by it here. */
const char *grpc_name(unsigned int code);

/* Index of `word` in a table, or -1. */
int name_index(const char *const *names, const char *word);

/* The positive errno of "ECONNREFUSED"; 0 when there is none of that name. */
int errno_of_name(const char *name);

/* All names that errno_of_name() knows; ends with NULL. */
const char *const *errno_names(void);

/* "ECONNREFUSED" for a positive errno; "errno N" from a static buffer for an unknown one. */
const char *errno_name(int error);

#endif
