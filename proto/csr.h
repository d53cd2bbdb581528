/*
 * proto/csr.h - a node's own certificate: the node makes a key and a signing request (PKCS #10), and
 * an authority signs the name that it chose itself, for a client and nothing else. Of a request only
 * the key counts; one that asks for other names or for extensions is refused.
 *
 * Threads: a signer is immutable; any.
 */
#ifndef MRD_PROTO_CSR_H
#define MRD_PROTO_CSR_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/hash.h"

#define MRD_CSR_MAX      8192 /* bytes of PEM, of a request or a certificate */
#define MRD_CSR_INSTANCE 65   /* a common name has at most 64 characters */
#define MRD_CSR_SERIAL   43   /* a serial number in hexadecimal, with its end */

/* ---- On the node ---- */

/* Appends a request (PEM) for the key in that file, which is made, with mode 0600, when it is not
 * there. Errors: INVALID (the name, the key), DENIED (others may read the key), IO. */
mrd_err mrd_csr_make(const char *key_path, const char *instance, mrd_buf *to, mrd_why *why);
/* What is left of a certificate's life, and how long that is in all. Errors: NOTFOUND, SYNTAX. */
mrd_err mrd_csr_validity(const char *cert_path, mrd_dur_ns *ret_left, mrd_dur_ns *ret_all,
                         mrd_why *why);
/* From when until when a certificate (PEM) is valid. Errors: LIMIT, SYNTAX. */
mrd_err mrd_csr_period(mrd_str cert, mrd_wall_ns *ret_from, mrd_wall_ns *ret_to, mrd_why *why);
/* Whether a certificate (PEM) is for that key and names the instance. */
mrd_err mrd_csr_fits(mrd_str cert, const char *key_path, const char *instance, mrd_why *why);

/* ---- At the authority ---- */

typedef struct mrd_signer mrd_signer;

/* Errors: NOTFOUND, DENIED (others may read the key), SYNTAX, INVALID (no authority, another's key). */
mrd_err mrd_signer_open(const char *ca_path, const char *key_path, mrd_signer **ret_signer,
                        mrd_why *why);
void mrd_signer_close(mrd_signer *signer); /* NULL is fine */
/* Whether a certificate may name it: letters, digits, '.', '-' and '_', at most 64. */
bool mrd_csr_name_ok(mrd_str instance);
/*
 * Appends a certificate (PEM) for the request's key, valid for `life`, at most as long as the
 * authority's own. Errors: LIMIT, SYNTAX (also: more than one request), AUTH (not signed with its
 * key), INVALID (another name, extensions, a key that is not P-256 or P-384), STATE (the authority has
 * expired).
 */
mrd_err mrd_signer_sign(const mrd_signer *signer, mrd_str request, const char *instance,
                        mrd_dur_ns life, mrd_buf *to, mrd_why *why);
/* The serial number of a certificate (PEM). Errors: LIMIT, SYNTAX, NOMEM. */
mrd_err mrd_csr_serial(mrd_str cert, char serial[MRD_CSR_SERIAL], mrd_why *why);
/* AUTH: a revocation list in the file `authorities` has one of these serial numbers, which blanks separate, or the file
 * cannot be read. NULL: there is no list. */
mrd_err mrd_csr_revoked(const char *serials, const char *authorities, mrd_why *why);
/* SHA-256 of the request's public key. */
mrd_err mrd_csr_key_hash(mrd_str request, char hash[MRD_SHA256_HEX], mrd_why *why);
/*
 * Who asks for the next certificate: the name in one that is valid, of this authority or one of those
 * in the file `authorities`, in none of its revocation lists, and for the key with which the request is
 * signed. NULL: this authority alone. So nodes go over to a new authority while the file has the old
 * one, too. Errors: AUTH (also: the file cannot be read), and those of the request.
 */
mrd_err mrd_signer_holder(const mrd_signer *signer, mrd_str cert, mrd_str request,
                          const char *authorities, char instance[MRD_CSR_INSTANCE], mrd_why *why);

#endif
