/*
 * webhook/inject.h - what a pod lacks to be recorded, as a JSON Patch (RFC 6902): the init container that
 * brings libmeridian.so, the volumes, and the variables of its containers.
 *
 * The pod asks by its label meridian.dev/inject=true. Annotations say more:
 *   meridian.dev/containers  which containers, by commas; else those that have Neuron devices
 *                            (limits or requests aws.amazon.com/neuron*), else all
 *   meridian.dev/capture     MERIDIAN_CAPTURE (all)
 *   meridian.dev/job         MERIDIAN_JOB; else the label of the pod's job, else its name label
 * What the pod says itself stays: its variables, its /dev/shm (a mount there, above or below, or the
 * host's by hostIPC), a library that it preloads (ours comes before it; what its image or an envFrom
 * preloads is not seen from here, and ours takes its place), its class of service. The volume for
 * rings is /dev/shm of all its containers, which share one. A pod is never made worse: where something is in the way it stays as it is, and
 * a warning says why.
 *
 * A pod is anybody's text: every member is looked at before it is used. Bounds: MRD_INJECT_CONTAINERS
 * containers, MRD_INJECT_TEXT bytes of an annotation. Threads: none of its own, no state.
 */
#ifndef MRD_WEBHOOK_INJECT_H
#define MRD_WEBHOOK_INJECT_H

#include "base/json.h"

#define MRD_INJECT_CONTAINERS                                                                      \
    64                      /* more than a pod is ever seen with; each makes about 1 KB of patch */
#define MRD_INJECT_TEXT 253 /* of an annotation's value that becomes a variable */

typedef struct {
    const char *image;   /* of the init container: Meridian's */
    const char *library; /* where the library is in it */
    const char *rings;   /* sizeLimit of the volume for rings, "1Gi" */
} mrd_inject_options;

typedef struct {
    mrd_json *patch; /* an array of operations; empty: the pod stays as it is. Owned */
    mrd_strlist
        warnings;        /* sentences for whoever made the pod, at most MRD_INJECT_CONTAINERS + 8 */
    unsigned containers; /* that will be recorded */
} mrd_injection;

/* *ret (zeroed before) is to be freed in every case. Errors: NOMEM. */
mrd_err mrd_inject(const mrd_inject_options *options, const mrd_json *pod, mrd_injection *ret,
                   mrd_why *why);
void mrd_injection_fini(mrd_injection *injection);

#endif
