/*
 * agent/runtime_features.h - what the Neuron runtimes of the node can do, as libmeridian reports when a process opens
 * one: version, event types of the trace, functions that libmeridian does not know. Threads: one.
 */
#ifndef MRD_AGENT_RUNTIME_FEATURES_H
#define MRD_AGENT_RUNTIME_FEATURES_H

#include "agent/drain.h"

#define MRD_RUNTIME_NAMES 256 /* of each list */

typedef struct {
    char version[64]; /* "": none was opened */
    mrd_strlist types, unknown;
    uint64_t signature;      /* of all of it. 0 means nothing is known */
    uint64_t sent, reported; /* signatures: in the last heartbeat; answered */
} mrd_runtime_seen;

/* True when the notice tells of a runtime; *ret_new: it named unknown functions for the first time. */
bool mrd_runtime_notice(mrd_runtime_seen *o, const mrd_drain_process *process, const mrd_event *ev,
                        bool *ret_new);
void mrd_runtime_fini(mrd_runtime_seen *o);

#endif
