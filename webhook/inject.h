/*
 * webhook/inject.h - computes the change that lets Meridian record a pod, as a JSON Patch (RFC
 * 6902). It adds an init container that provides libmeridian.so, volumes, and environment
 * variables.
 *
 * A pod requests recording with the label meridian.dev/inject=true. Annotations add details:
 *
 *   meridian.dev/containers  names of the containers to record, separated by commas. By default
 *                            these are the containers with Neuron devices (limits or requests
 *                            aws.amazon.com/neuron*), or all containers if none has devices.
 *   meridian.dev/capture     value of MERIDIAN_CAPTURE. The default is "all".
 *   meridian.dev/job         value of MERIDIAN_JOB. The default is the label of the pod's job, or
 *                            else its name label.
 *
 * The pod's own settings stay as they are: its variables, its class of service, and its /dev/shm.
 * The pod has its own /dev/shm if it mounts a volume there, above or below, or if it uses hostIPC.
 * If the pod preloads a library, our library is put before it. If the image or an envFrom preloads
 * a library, this module cannot see it, and our library replaces it. The volume for rings becomes
 * the /dev/shm that the containers share. If anything prevents the change, the pod stays unchanged,
 * and a warning gives the reason.
 *
 * A pod is untrusted data, so every member is checked before use. Limits: MRD_INJECT_CONTAINERS
 * containers, MRD_INJECT_TEXT bytes of an annotation. Threads: stateless.
 */
#ifndef MRD_WEBHOOK_INJECT_H
#define MRD_WEBHOOK_INJECT_H

#include "base/conf/json.h"

#define MRD_INJECT_CONTAINERS                                                                      \
    64 /* maximum number of containers, more than pods have; each adds about 1 KB to the patch */
#define MRD_INJECT_TEXT 253 /* maximum bytes of an annotation that becomes a variable */

typedef struct {
    const char *image;   /* Meridian's image, from which the init container is made */
    const char *library; /* path of the library in the image */
    const char *rings;   /* size limit of the volume for rings, for example "1Gi" */
} mrd_inject_options;

typedef struct {
    mrd_json *patch; /* array of patch operations, empty if the pod stays unchanged; owned */
    /* messages to the author of the pod, at most MRD_INJECT_CONTAINERS + 8 */
    mrd_strlist warnings;
    unsigned containers; /* number of containers that will be recorded */
} mrd_injection;

/* Computes the patch for a pod. *ret must be zeroed before, and the caller frees it even after an
 * error. Errors: NOMEM. */
mrd_err mrd_inject(const mrd_inject_options *options, const mrd_json *pod, mrd_injection *ret,
                   mrd_why *why);
void mrd_injection_fini(mrd_injection *injection);

#endif
