/*
 * webhook/inject.h - computes what a pod needs to be recorded, as a JSON Patch (RFC 6902). This is
 * the init container that brings libmeridian.so, the volumes, and the variables of its containers.
 *
 * A pod asks for it with the label meridian.dev/inject=true. Annotations add details:
 *   meridian.dev/containers  the containers, separated by commas. Without it, the containers with
 *                            Neuron devices (limits or requests aws.amazon.com/neuron*), or all if
 *                            none has one.
 *   meridian.dev/capture     MERIDIAN_CAPTURE (all).
 *   meridian.dev/job         MERIDIAN_JOB. Without it, the label of the pod's job, or else its name
 *                            label.
 *
 * The pod's own settings stay: its variables, its class of service, and its /dev/shm (a mount
 * there, above or below, or the host's by hostIPC). If the pod preloads a library, ours is put
 * before it. Libraries that the image or an envFrom preloads are not visible here, and ours
 * replaces them. The volume for rings becomes /dev/shm of all its containers, which share it. A pod
 * never becomes worse: if there is an obstacle, it stays unchanged, and a warning gives the reason.
 *
 * A pod is untrusted data, so every member is checked before use. Limits: MRD_INJECT_CONTAINERS
 * containers, MRD_INJECT_TEXT bytes of an annotation. Threads: none of its own, no state.
 */
#ifndef MRD_WEBHOOK_INJECT_H
#define MRD_WEBHOOK_INJECT_H

#include "base/conf/json.h"

#define MRD_INJECT_CONTAINERS                                                                      \
    64                      /* more than any pod has in practice; each makes about 1 KB of patch */
#define MRD_INJECT_TEXT 253 /* of an annotation's value that becomes a variable */

typedef struct {
    const char *image;   /* of the init container, which is Meridian's */
    const char *library; /* path of the library in the image */
    const char *rings;   /* sizeLimit of the volume for rings, "1Gi" */
} mrd_inject_options;

typedef struct {
    mrd_json *patch; /* an array of operations, empty if the pod stays unchanged. Owned */
    /* sentences for the author of the pod, at most MRD_INJECT_CONTAINERS + 8 */
    mrd_strlist warnings;
    unsigned containers; /* that will be recorded */
} mrd_injection;

/* Computes the patch. The caller frees *ret (zeroed before) in every case. Errors: NOMEM. */
mrd_err mrd_inject(const mrd_inject_options *options, const mrd_json *pod, mrd_injection *ret,
                   mrd_why *why);
void mrd_injection_fini(mrd_injection *injection);

#endif
