/*
 * webhook/review.h - the API server's question about a pod and our answer: AdmissionReview of
 * admission.k8s.io/v1.
 *
 * Every pod is allowed: the answer changes one that asks (webhook/inject.h), or leaves it, with
 * warnings for whoever made it. Threads: none of its own, no state.
 */
#ifndef MRD_WEBHOOK_REVIEW_H
#define MRD_WEBHOOK_REVIEW_H

#include "webhook/inject.h"

#define MRD_REVIEW_UID 128 /* bytes; the API server's have 36 */

/* What was asked and done, for the log; texts without control characters, cut where they are long. */
typedef struct {
    char space[64], name[128];
    unsigned containers; /* that will be recorded; 0: the pod stays as it is */
    size_t warnings;
} mrd_review_done;

/*
 * The answer to a review, owned by the caller. A review of something else than a new pod is answered, too: allowed, no change.
 * Errors: INVALID, TYPE (this is no AdmissionReview v1, or has no usable uid: there is nothing to answer to), NOMEM.
 */
mrd_err mrd_review_answer(const mrd_inject_options *options, const mrd_json *review,
                          mrd_json **ret_answer, mrd_review_done *ret_done, mrd_why *why);

#endif
