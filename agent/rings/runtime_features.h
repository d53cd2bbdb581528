/* agent/rings/runtime_features.h - collects the features of the node's Neuron runtimes. libmeridian
 * reports them when a process opens a runtime. They are the version, the event types of the trace,
 * and the functions that libmeridian does not know. Only one thread may call these functions. */
#ifndef MRD_AGENT_RINGS_RUNTIME_FEATURES_H
#define MRD_AGENT_RINGS_RUNTIME_FEATURES_H

#include "agent/rings/drain.h"

#define MRD_RUNTIME_NAMES 256 /* maximum number of entries in each list of names */

typedef struct {
    char version[64]; /* version of the runtime; "" means that no process has opened one */
    /* labels of the node, as the last runtime reported them: "instance_type=trn2.48xlarge,…" */
    char labels[192];
    mrd_strlist types, unknown;
    uint64_t signature; /* hash of all members above; 0 means that nothing was reported yet */
    /* `sent` is the signature of the features in the last heartbeat. `reported` is the signature in
     * the last acknowledged heartbeat. */
    uint64_t sent, reported;
} mrd_runtime_seen;

/* Adds the features in a notice of libmeridian. Returns false if the notice is not about a runtime.
 * Sets *ret_new if the runtime has unknown functions that no earlier notice contained. */
bool mrd_runtime_notice(mrd_runtime_seen *seen, const mrd_drain_process *process,
                        const mrd_event *ev, bool *ret_new);
void mrd_runtime_fini(mrd_runtime_seen *seen);

#endif
