/*
 * agent/rings/runtime_features.h - the abilities of the Neuron runtimes of the node, which
 * libmeridian reports when a process opens one. They are version, event types of the trace,
 * functions that libmeridian does not know. Threads: one.
 */
#ifndef MRD_AGENT_RINGS_RUNTIME_FEATURES_H
#define MRD_AGENT_RINGS_RUNTIME_FEATURES_H

#include "agent/rings/drain.h"

#define MRD_RUNTIME_NAMES 256 /* maximum number of entries in each list */

typedef struct {
    char version[64]; /* empty: no process has opened a runtime */
    /* labels of the node, as the last runtime reported them: "instance_type=trn2.48xlarge,…" */
    char labels[192];
    mrd_strlist types, unknown;
    uint64_t signature;      /* hash of all members; 0 means unknown */
    uint64_t sent, reported; /* signatures in the last heartbeat; in the last acknowledged one */
} mrd_runtime_seen;

/* Returns true if the notice is about a runtime. Sets *ret_new if the runtime has functions that
 * libmeridian does not know, and they are seen for the first time. */
bool mrd_runtime_notice(mrd_runtime_seen *seen, const mrd_drain_process *process,
                        const mrd_event *ev, bool *ret_new);
void mrd_runtime_fini(mrd_runtime_seen *seen);

#endif
