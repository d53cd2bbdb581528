/*
 * pki/csr.h - makes and signs the certificates of nodes.
 *
 * A node makes a key and a signing request (PKCS #10). An authority signs a client certificate for
 * the instance name that the authority has chosen. The authority takes only the key from the
 * request, and refuses requests with other names or with extensions.
 *
 * Threads: a signer is immutable, and any thread can use it.
 */
#ifndef MRD_PKI_CSR_H
#define MRD_PKI_CSR_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/hash.h"

#define MRD_CSR_MAX 8192 /* maximum size of a request or certificate in PEM, in bytes */
/* size of a buffer for a common name, which has at most 64 characters */
#define MRD_CSR_INSTANCE 65

/* ---- Functions for the node ---- */

/* Appends a signing request (PEM) for the key in the file key_path. If the file does not exist,
 * makes a key and stores it there with mode 0600. Errors: INVALID (the name or the key), DENIED
 * (other users can read the key), IO. */
mrd_err mrd_csr_make(const char *key_path, const char *instance, mrd_buf *to, mrd_why *why);
/* Stores the remaining and the whole lifetime of the certificate in a file. Errors: NOTFOUND,
 * SYNTAX. */
mrd_err mrd_csr_validity(const char *cert_path, mrd_dur_ns *ret_left, mrd_dur_ns *ret_all,
                         mrd_why *why);
/* Stores the start and the end of the validity of a certificate (PEM). Errors: LIMIT, SYNTAX. */
mrd_err mrd_csr_period(mrd_str cert, mrd_wall_ns *ret_from, mrd_wall_ns *ret_to, mrd_why *why);
/* Checks that a certificate (PEM) is for the key in the file key_path, and has the name
 * `instance`. */
mrd_err mrd_csr_fits(mrd_str cert, const char *key_path, const char *instance, mrd_why *why);

/* ---- Functions for the authority ---- */

typedef struct mrd_signer mrd_signer;

/* Opens an authority, which can sign requests, from its certificate and key. Errors: NOTFOUND,
 * DENIED (other users can read the key), SYNTAX, INVALID (the certificate is not an authority's, or
 * the key does not match it). */
mrd_err mrd_signer_open(const char *ca_path, const char *key_path, mrd_signer **ret_signer,
                        mrd_why *why);
void mrd_signer_close(mrd_signer *signer); /* ignores NULL */
/* Returns true if a certificate may have this name: at most 64 letters, digits, '.', '-' and
 * '_'. */
bool mrd_csr_name_ok(mrd_str instance);
/*
 * Signs a request and appends the new certificate (PEM). It is valid for `life`, but not longer
 * than the certificate of the authority.
 *
 * LIMIT     the request is too large
 * SYNTAX    the text is not exactly one signing request
 * AUTH      the request is not signed with its own key
 * INVALID   the request has another name, extensions, or a key other than P-256 or P-384
 * STATE     the authority has expired
 */
mrd_err mrd_signer_sign(const mrd_signer *signer, mrd_str request, const char *instance,
                        mrd_dur_ns life, mrd_buf *to, mrd_why *why);
/* Checks the key of a request against the revocation lists in the file `authorities`, which may be
 * NULL. Errors: AUTH if a certificate for this key is revoked or the file cannot be read, and the
 * errors of parsing the request. */
mrd_err mrd_csr_revoked(mrd_str request, const char *authorities, mrd_why *why);
/* Computes the SHA-256 of the public key in a request. */
mrd_err mrd_csr_key_hash(mrd_str request, char hash[MRD_SHA256_HEX], mrd_why *why);
/*
 * Checks the certificate of a node that requests its next certificate, and stores the name in it.
 * The certificate must fulfil all of these conditions:
 *
 * - It is valid and not revoked. No earlier certificate for its key is revoked either.
 * - Its key has signed the request.
 * - It was issued by this authority or by one in the file `authorities`, which may be NULL.
 *
 * Nodes can therefore migrate to a new authority while the file still contains the old one. Errors:
 * AUTH (also if the file cannot be read), and the errors of parsing the request.
 */
mrd_err mrd_signer_holder(const mrd_signer *signer, mrd_str cert, mrd_str request,
                          const char *authorities, char instance[MRD_CSR_INSTANCE], mrd_why *why);

#endif
