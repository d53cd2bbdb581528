/*
 * webhook/review.h - answers the API server's reviews of pods: AdmissionReview of
 * admission.k8s.io/v1.
 *
 * Every pod is allowed. The answer changes a pod that requests recording (webhook/inject.h), or
 * leaves it with warnings for its author. Threads: none of its own, no state.
 */
#ifndef MRD_WEBHOOK_REVIEW_H
#define MRD_WEBHOOK_REVIEW_H

#include "webhook/inject.h"

#define MRD_REVIEW_UID 128 /* bytes; the API server's uids have 36 */

/* Request and result, for the log. Texts have no control characters and are cut if too long. */
typedef struct {
    char space[64], name[128];
    unsigned containers; /* number that will be recorded; 0 if the pod stays unchanged */
    size_t warnings;
} mrd_review_done;

/*
 * Returns the answer to a review, owned by the caller. A review of anything but a new pod is
 * answered with allowed and no change. Errors: INVALID, TYPE (no AdmissionReview v1, or no usable
 * uid, so no answer is possible), NOMEM.
 */
mrd_err mrd_review_answer(const mrd_inject_options *options, const mrd_json *review,
                          mrd_json **ret_answer, mrd_review_done *ret_done, mrd_why *why);

#endif
