/*
 * agent/offer.h - what the Neuron runtimes of the node offer, as libmeridian told when a process opened
 * one: version, event types of the trace, functions that libmeridian does not know. Threads: one.
 */
#ifndef MRD_AGENT_OFFER_H
#define MRD_AGENT_OFFER_H

#include "agent/drain.h"

#define MRD_OFFER_NAMES 256 /* of each list */

typedef struct {
    char version[64]; /* "": none was opened */
    mrd_strlist types, unknown;
    uint64_t signature;  /* of all of it; 0: nothing is known */
    uint64_t sent, told; /* signatures: in the last heartbeat; answered */
} mrd_offer;

/* True when the notice tells of a runtime; *ret_new: it named unknown functions for the first time. */
bool mrd_offer_notice(mrd_offer *o, const mrd_drain_process *process, const mrd_event *ev,
                      bool *ret_new);
void mrd_offer_fini(mrd_offer *o);

#endif
