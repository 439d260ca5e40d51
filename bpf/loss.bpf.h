/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Models of loss: which packets of a connection a drop loses that does not lose them all.
 *
 *	chance     each packet by itself
 *	every      the 10th, the 20th, ...: counted for each connection
 *	burst      the chain of Gilbert and Elliott: a connection is well or ill, an ill one loses every packet
 *
 * What a model has to remember is kept with the verdict, and goes with it.
 */
#ifndef LOSS_BPF_H
#define LOSS_BPF_H

#include "bpf/damage.bpf.h"

static always bool loses_every(struct chaos_sock *s, struct chaos_verdict *v, const struct chaos_rule *r)
{
	__u32 number;

	bpf_spin_lock(&s->lock);
	number = ++v->loss_packets;
	bpf_spin_unlock(&s->lock);
	return r->drop_every && number % r->drop_every == 0;
}

/* The first packet meets a connection that has always been there: ill with the chance of the whole loss. */
static always bool loses_in_burst(struct chaos_sock *s, struct chaos_verdict *v, const struct chaos_rule *r)
{
	bool ill;

	bpf_spin_lock(&s->lock);
	if (!v->loss_packets++)
		ill = chance(throw(r->seed + SALT_LOSS, v->connection, 0), r->drop_ppm);
	else
		ill = burst_goes_on(v->loss_ill, throw(r->seed + SALT_LOSS, v->connection, v->loss_packets) >> 32,
				    r->burst_enter, r->burst_leave);
	v->loss_ill = ill;
	bpf_spin_unlock(&s->lock);
	return ill;
}

static always bool knows(const struct chaos_rule *r, __u8 model)
{
	return knobs.losses & 1 << model && r->loss == model;
}

/* Does the model lose this packet, the connection's `packet`th? To be asked once for each. */
static always bool model_loses(struct chaos_sock *s, struct chaos_verdict *v, const struct chaos_rule *r, __u32 packet)
{
	if (knows(r, CHAOS_LOSS_EVERY))
		return loses_every(s, v, r);
	if (knows(r, CHAOS_LOSS_BURST))
		return loses_in_burst(s, v, r);
	return chance(throw(r->seed + SALT_LOSS, v->connection, packet), at_present(r, r->drop_ppm, &r->drop_ramp));
}

#endif
