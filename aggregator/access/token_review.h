/*
 * aggregator/access/token_review.h - identifies service accounts of Kubernetes. The API server
 * confirms a projected token (TokenReview of authentication.k8s.io/v1), so the token of a deleted
 * pod is refused. An agent is identified by the node of its pod. API servers from version 1.30 name
 * this node in the answer. With older ones, this module requests the pod.
 *
 * The settings are a JSON object in a file that only root and this user may write. Its members:
 *   audience           the tokens' audience, which must differ from the API server's. Required.
 *   server             https://HOST:PORT of the API server. Default: from each pod's environment.
 *   ca-file            authority of the API server's certificate. Default: each pod's own.
 *   bearer-file        token of the aggregator's own account, read again for each review. Default:
 *                      each pod's own. Required with "server".
 *   cache-seconds      how long an answer is valid, 1 to 300. Default: 30. A refusal is valid for
 *                      10 s.
 *   owners             if false, accounts without a role have no rights. By default they own the
 *                      job sessions of their namespace.
 *   roles              `{"admin": ["system:serviceaccount:ops:oncall", "a-group"], ...}`, with
 *                      names of accounts and groups.
 *   agents             `["system:serviceaccount:meridian:meridian-agent"]`, the accounts of agents.
 *                      They are agents of their pod's node and have no other role, even if 'roles'
 *                      lists them.
 *
 * Threads  Any thread may call the functions. Only the module's two own threads wait for the
 *          network.
 * Limits   At most 64 reviews are pending, and on average 20 a second are made. 1024 answers are
 *          cached by the SHA-256 of their tokens. For each client address 15 refused tokens are
 *          reviewed, and then one a second. Accepted tokens do not count for this limit.
 */
#ifndef MRD_AGGREGATOR_ACCESS_TOKEN_REVIEW_H
#define MRD_AGGREGATOR_ACCESS_TOKEN_REVIEW_H

#include "aggregator/access/rights.h"
#include "base/conf/json.h"

typedef struct mrd_token_review mrd_token_review;

/* Opens the settings file and starts the threads. Errors: errors of reading the file, INVALID with
 * the name of the wrong member, DENIED if other users may write the file. */
mrd_err mrd_token_review_open(const char *path, mrd_token_review **ret_review, mrd_why *why);
void mrd_token_review_close(mrd_token_review *review); /* ignores NULL */
/*
 * Identifies the holder of a token. `peer` is a hash of the client's address. Errors: AUTH, BUSY (a
 * review is pending, and `known` will be called at its end), AGAIN (the API server does not answer,
 * or its answer is invalid). Messages never contain the token.
 */
mrd_err mrd_token_review_identify(mrd_token_review *review, uint64_t peer, mrd_str token,
                                  mrd_caller *ret_caller, mrd_why *why);
/* Sets the function `known` that is called after each new answer of the API server. After a call
 * with NULL has returned, no function is called. */
void mrd_token_review_listen(mrd_token_review *review, void (*known)(void *self), void *self);
/* Discards all cached answers of the API server. */
void mrd_token_review_forget(mrd_token_review *review);
/* Gets the next message about a failed review of a token. Returns false if there is none. */
bool mrd_token_review_next_error(mrd_token_review *review, mrd_why *ret_why);

typedef struct {
    /* `asked` counts reviews; `failed` counts reviews without a valid answer of the API server */
    uint64_t asked, accepted, refused, failed;
} mrd_token_review_counts;
void mrd_token_review_count(mrd_token_review *review, mrd_token_review_counts *ret_counts);

/* ---- Parsing of the API server's answers, without I/O ---- */

typedef struct {
    mrd_json *doc;
    const char *user; /* "system:serviceaccount:NAMESPACE:NAME"; the text belongs to doc */
    mrd_json *names;  /* JSON list of `user` and its groups */
    /* the pod and node to which the token is bound, "" if none; the texts belong to doc */
    const char *pod, *pod_uid, *node;
} mrd_reviewed;

/* Parses the API server's answer to a TokenReview. Errors: AUTH if the API server refuses the token
 * for this audience, SYNTAX, TYPE if the answer is not a TokenReview. */
mrd_err mrd_token_review_read(mrd_str text, const char *audience, mrd_reviewed *ret_reviewed,
                              mrd_why *why);
void mrd_reviewed_fini(mrd_reviewed *reviewed);
/* Gets the node of a pod from the API server's answer to GET of the pod. Errors: AUTH (it is
 * another pod, belongs to another account, or is on no node), SYNTAX, TYPE (it is not a pod). */
mrd_err mrd_token_review_pod(mrd_str text, const mrd_reviewed *reviewed, char *to, size_t size,
                             mrd_why *why);

#endif
