/*
 * webhook/review.h - answers the reviews of new pods (AdmissionReview of admission.k8s.io/v1) that
 * the API server of Kubernetes sends.
 *
 * Every pod is allowed. If a pod requests recording, the answer changes it (webhook/inject.h) or
 * leaves it unchanged with warnings for its author. Threads: stateless.
 */
#ifndef MRD_WEBHOOK_REVIEW_H
#define MRD_WEBHOOK_REVIEW_H

#include "webhook/inject.h"

/* buffer size for the uid of a review; the API server's uids have 36 bytes */
#define MRD_REVIEW_UID 128

/* Describes a review and its result for the log. The texts have no control characters and are cut
 * if too long. */
typedef struct {
    char space[64], name[128];
    /* number of containers that will be recorded; 0 if the pod stays unchanged */
    unsigned containers;
    size_t warnings;
} mrd_review_done;

/*
 * Creates the answer to a review, which the caller owns. If the review is not about a new pod, the
 * answer allows the request and changes nothing. Errors: INVALID and TYPE (not an AdmissionReview
 * v1, or without a usable uid, so that no answer is possible), NOMEM.
 */
mrd_err mrd_review_answer(const mrd_inject_options *options, const mrd_json *review,
                          mrd_json **ret_answer, mrd_review_done *ret_done, mrd_why *why);

#endif
