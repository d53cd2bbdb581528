/*
 * aggregator/token_review.h - service accounts of Kubernetes: a projected token is proven by the API
 * server (TokenReview of authentication.k8s.io/v1), so that one of a deleted pod counts no more. An
 * agent's pod proves by it on which node it runs: the API server says so of a token that is bound to a
 * pod (1.30 and newer), or it is asked for the pod.
 *
 * The settings are a JSON object in a file that nobody but root and this user may write:
 *   audience           the tokens' audience, which must not be that of the API server (required)
 *   server             https://HOST:PORT; default: as each pod's environment says
 *   ca-file            authority of that server; default: that of each pod
 *   bearer-file        token of the aggregator's own account, read again for each review; default:
 *                      that of each pod. With "server" it must be given
 *   cache-seconds      how long an answer counts, 1 to 300; default 30. A refusal: 10
 *   owners             false: accounts without a role are nobody; default: they are owners of the job
 *                      sessions of their namespace
 *   roles              {"admin": ["system:serviceaccount:ops:oncall", "a-group"], ...}: names of
 *                      accounts and groups
 *   agents             ["system:serviceaccount:meridian:meridian-agent"]: accounts of agents. They are
 *                      agents of their pod's node and nothing else, whatever 'roles' says
 *
 * Threads: any; nothing here waits for the network but two threads of its own. At most 64 tokens are
 * asked about at one time, 20 in a second over time, and 1024 answers are remembered, by the tokens'
 * SHA-256. Of one address (`peer`, a hash of it) 15 refused tokens are asked about, and one more each
 * second; those that are accepted do not count.
 */
#ifndef MRD_AGGREGATOR_TOKEN_REVIEW_H
#define MRD_AGGREGATOR_TOKEN_REVIEW_H

#include "aggregator/rights.h"
#include "base/json.h"

typedef struct mrd_token_review mrd_token_review;

/* Errors: of the file; INVALID names the member that is wrong; DENIED others may write it. */
mrd_err mrd_token_review_open(const char *path, mrd_token_review **ret_review, mrd_why *why);
void mrd_token_review_close(mrd_token_review *review); /* NULL is fine */
/*
 * Errors, which never repeat the token: AUTH; BUSY: the API server is being asked, and `known` will be
 * called; AGAIN: it cannot be asked, or its answer was none.
 */
mrd_err mrd_token_review_identify(mrd_token_review *review, uint64_t peer, mrd_str token,
                                  mrd_caller *ret_caller, mrd_why *why);
/* Whom to tell that an answer came; NULL: nobody, from the return on. */
void mrd_token_review_listen(mrd_token_review *review, void (*known)(void *self), void *self);
/* Answers that are remembered count no more. */
void mrd_token_review_forget(mrd_token_review *review);
/* The next message about a review that failed; false when there is none. */
bool mrd_token_review_next_error(mrd_token_review *review, mrd_why *ret_why);

typedef struct {
    uint64_t asked, accepted, refused,
        failed; /* failed: the API server gave no answer that counts */
} mrd_token_review_counts;
void mrd_token_review_count(mrd_token_review *review, mrd_token_review_counts *ret_counts);

/* ---- Of one answer of the API server, without I/O ---- */

typedef struct {
    mrd_json *doc;
    const char *user;                 /* "system:serviceaccount:NAMESPACE:NAME"; doc's */
    mrd_json *names;                  /* that and the groups */
    const char *pod, *pod_uid, *node; /* that the token is bound to, ""; doc's */
} mrd_reviewed;

/* Errors: AUTH it accepts no such token for this audience; SYNTAX, TYPE: this is no TokenReview. */
mrd_err mrd_token_review_read(mrd_str text, const char *audience, mrd_reviewed *ret_reviewed,
                              mrd_why *why);
void mrd_reviewed_fini(mrd_reviewed *reviewed);
/* The node of that pod, from the API server's answer to GET. Errors: AUTH: it is another pod, of another
 * account, or on no node; SYNTAX, TYPE: this is no pod. */
mrd_err mrd_token_review_pod(mrd_str text, const mrd_reviewed *reviewed, char *to, size_t size,
                             mrd_why *why);

#endif
