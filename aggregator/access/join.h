/*
 * aggregator/access/join.h - issues certificates to nodes. A node gets its first certificate with
 * an invitation of an administrator, and renews the certificate with the certificate itself. If
 * another server confirms a node's identity (aggregator/access/token_review.h), the node needs no
 * invitation.
 *
 * An invitation is a random token. <store>/invitations.json has its SHA-256, the end of its
 * validity, and its instance. It can be used once, with one key. If the node with this key did not
 * receive the answer, it may repeat the request until one of its certificates is revoked.
 *
 * Threads  Any thread may call the functions. They sign and write a file, which takes milliseconds.
 */
#ifndef MRD_AGGREGATOR_ACCESS_JOIN_H
#define MRD_AGGREGATOR_ACCESS_JOIN_H

#include "pki/csr.h"

#define MRD_JOIN_TOKEN       65    /* buffer size of a token with its NUL */
#define MRD_JOIN_INVITATIONS 10000 /* maximum number of valid invitations */

typedef struct mrd_join mrd_join;

typedef struct {
    const char *ca, *key; /* PEM files with the certificate and key of the authority that signs */
    /* file of trusted authorities, which may contain revocation lists; NULL means none */
    const char *authorities;
    const char *store; /* directory for invitations.json */
    mrd_dur_ns life;   /* validity of the certificates that this authority signs */
} mrd_join_options;

/* Opens the certificate authority and the file of invitations. The strings in `options` must live
 * until mrd_join_close. Errors: errors of reading the files, and CORRUPT (invalid invitations). */
mrd_err mrd_join_open(const mrd_join_options *options, mrd_join **ret_join, mrd_why *why);
void mrd_join_close(mrd_join *join); /* ignores NULL */
/* mrd_join_reload reads the authority's files again. If that fails, the old contents stay in use.
 * mrd_join_changed returns true if the files changed since they were read. */
mrd_err mrd_join_reload(mrd_join *join, mrd_why *why);
bool mrd_join_changed(mrd_join *join);

/* Creates an invitation that is valid for `life` ns. An `instance` of "" means any instance.
 * Errors: INVALID (the instance id), STATE (there are MRD_JOIN_INVITATIONS already), NOMEM, IO. */
mrd_err mrd_join_invite(mrd_join *join, const char *instance, mrd_dur_ns life,
                        char ret_token[MRD_JOIN_TOKEN], mrd_wall_ns *ret_end, mrd_why *why);
/* Signs a node's certificate request with an invitation's token, and appends the certificate to
 * *to. Errors: AUTH, IO, and errors of mrd_signer_sign. AUTH means that the token is unknown,
 * expired, used, for another instance, or that one of its certificates was revoked. After an error
 * of mrd_signer_sign the invitation can still be used. */
mrd_err mrd_join_sign(mrd_join *join, mrd_str token, const char *instance, mrd_str request,
                      mrd_buf *to, mrd_why *why);
/* Signs the certificate request of a node, and appends the certificate to *to. The caller has
 * confirmed the node's identity. Errors: errors of mrd_signer_sign. */
mrd_err mrd_join_sign_proven(mrd_join *join, const char *instance, mrd_str request, mrd_buf *to,
                             mrd_why *why);
/* Renews the certificate `cert` of a node: signs the node's request and appends the new
 * certificate. Errors: AUTH, errors of mrd_signer_sign. */
mrd_err mrd_join_renew(mrd_join *join, mrd_str cert, mrd_str request, mrd_buf *to,
                       char ret_instance[MRD_CSR_INSTANCE], mrd_why *why);

#endif
