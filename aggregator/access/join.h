/*
 * aggregator/access/join.h - issues certificates to nodes. A node enrols once with an invitation of
 * an administrator, and renews with its certificate. Where another server confirms a node's
 * identity (aggregator/access/token_review.h), the node can enrol any number of times.
 *
 * An invitation is a random token. <store>/invitations.json has its SHA-256, its expiry and its
 * instance. It is used once, by one key. The node with this key may repeat the request if it did
 * not receive the answer, until one of its certificates is revoked.
 *
 * Threads: any. Functions sign and write a file, which takes milliseconds.
 */
#ifndef MRD_AGGREGATOR_ACCESS_JOIN_H
#define MRD_AGGREGATOR_ACCESS_JOIN_H

#include "pki/csr.h"

#define MRD_JOIN_TOKEN       65    /* with its end */
#define MRD_JOIN_INVITATIONS 10000 /* that have not ended */

typedef struct mrd_join mrd_join;

typedef struct {
    const char *ca, *key; /* PEM files of the authority that signs */
    /* file of trusted authorities, which may contain revocation lists; NULL means none */
    const char *authorities;
    const char *store; /* folder */
    mrd_dur_ns life;   /* of a certificate */
} mrd_join_options;

/* Opens the authority and the invitations. The texts in `options` are borrowed. Errors: errors of
 * reading the files, and CORRUPT for unreadable invitations. */
mrd_err mrd_join_open(const mrd_join_options *options, mrd_join **ret_join, mrd_why *why);
void mrd_join_close(mrd_join *join); /* NULL is fine */
/* Reads the authority's files again. On errors the old contents stay in use. mrd_join_changed
 * returns true if the files differ from what was read. */
mrd_err mrd_join_reload(mrd_join *join, mrd_why *why);
bool mrd_join_changed(mrd_join *join);

/* Creates an invitation. `instance` "" means any instance. Errors: INVALID (the instance id), STATE
 * (there are MRD_JOIN_INVITATIONS already), NOMEM, IO. */
mrd_err mrd_join_invite(mrd_join *join, const char *instance, mrd_dur_ns life,
                        char ret_token[MRD_JOIN_TOKEN], mrd_wall_ns *ret_end, mrd_why *why);
/* Signs a node's request with an invitation's token and appends the certificate. Errors: AUTH (the
 * token is unknown, expired, used, for another instance, or its certificate was revoked), errors of
 * mrd_signer_sign, which leave the invitation unused, and IO. */
mrd_err mrd_join_sign(mrd_join *join, mrd_str token, const char *instance, mrd_str request,
                      mrd_buf *to, mrd_why *why);
/* Signs the request of a node after its identity was confirmed in another way, and appends the
 * certificate. Errors: errors of mrd_signer_sign. */
mrd_err mrd_join_sign_proven(mrd_join *join, const char *instance, mrd_str request, mrd_buf *to,
                             mrd_why *why);
/* Renews the certificate `cert` of a node: signs the node's request and appends the new
 * certificate. Errors: AUTH, errors of mrd_signer_sign. */
mrd_err mrd_join_renew(mrd_join *join, mrd_str cert, mrd_str request, mrd_buf *to,
                       char ret_instance[MRD_CSR_INSTANCE], mrd_why *why);

#endif
