/*
 * aggregator/join.h - nodes that ask for a certificate of their own: once with an invitation, which an
 * administrator made, and from then on with the certificate that they have; or as often as they like
 * where somebody else proves whose node it is (aggregator/token_review.h).
 *
 * An invitation is a random token, kept as SHA-256 in <store>/invitations.json with its end and the
 * instance that it is for. It is used once: by one key, which may ask again when an answer was lost, until a certificate that it
 * got is in a revocation list.
 *
 * Threads: any. Functions sign and write a file: milliseconds.
 */
#ifndef MRD_AGGREGATOR_JOIN_H
#define MRD_AGGREGATOR_JOIN_H

#include "proto/csr.h"

#define MRD_JOIN_TOKEN       65    /* with its end */
#define MRD_JOIN_INVITATIONS 10000 /* that have not ended */

typedef struct mrd_join mrd_join;

typedef struct {
    const char *ca, *key;    /* PEM files of the authority that signs */
    const char *authorities; /* may hold revocation lists; NULL: none */
    const char *store;       /* folder */
    mrd_dur_ns life;         /* of a certificate */
} mrd_join_options;

/* Borrows the texts. Errors: those of the files; CORRUPT: invitations that cannot be read. */
mrd_err mrd_join_open(const mrd_join_options *options, mrd_join **ret_join, mrd_why *why);
void mrd_join_close(mrd_join *join); /* NULL is fine */
/* The authority's files again; errors leave the old ones in use. _changed: they are not what was read. */
mrd_err mrd_join_reload(mrd_join *join, mrd_why *why);
bool mrd_join_changed(mrd_join *join);

/* instance "": whichever. Errors: INVALID (its name), STATE (MRD_JOIN_INVITATIONS), NOMEM, IO. */
mrd_err mrd_join_invite(mrd_join *join, const char *instance, mrd_dur_ns life,
                        char ret_token[MRD_JOIN_TOKEN], mrd_wall_ns *ret_end, mrd_why *why);
/* Appends the certificate. Errors: AUTH (unknown, ended, used, for another instance, revoked), those of
 * mrd_signer_sign, which leave the invitation unused; IO. */
mrd_err mrd_join_sign(mrd_join *join, mrd_str token, const char *instance, mrd_str request,
                      mrd_buf *to, mrd_why *why);
/* Appends the certificate of an instance that was proven in another way. Errors: those of
 * mrd_signer_sign. */
mrd_err mrd_join_sign_proven(mrd_join *join, const char *instance, mrd_str request, mrd_buf *to,
                             mrd_why *why);
/* Appends the next certificate of the holder of `cert`. Errors: AUTH, those of mrd_signer_sign. */
mrd_err mrd_join_renew(mrd_join *join, mrd_str cert, mrd_str request, mrd_buf *to,
                       char ret_instance[MRD_CSR_INSTANCE], mrd_why *why);

#endif
