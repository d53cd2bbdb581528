/*
 * pki/csr.h - certificates of nodes. A node makes a key and a signing request (PKCS #10). An
 * authority signs a client certificate with the instance name that the authority chose. From the
 * request it takes only the key. It refuses requests for other names or with extensions.
 *
 * Threads: a signer is immutable and can be used by any thread.
 */
#ifndef MRD_PKI_CSR_H
#define MRD_PKI_CSR_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/hash.h"

#define MRD_CSR_MAX      8192 /* maximum size of a request or certificate in PEM, in bytes */
#define MRD_CSR_INSTANCE 65   /* a common name has at most 64 characters */

/* ---- On the node ---- */

/* Appends a request (PEM) for the key in `key_path`. If the file does not exist, makes a key with
 * mode 0600. Errors: INVALID (the name or the key), DENIED (other users can read the key), IO. */
mrd_err mrd_csr_make(const char *key_path, const char *instance, mrd_buf *to, mrd_why *why);
/* Gets the remaining and the whole lifetime of a certificate. Errors: NOTFOUND, SYNTAX. */
mrd_err mrd_csr_validity(const char *cert_path, mrd_dur_ns *ret_left, mrd_dur_ns *ret_all,
                         mrd_why *why);
/* Gets the period of validity of a certificate (PEM). Errors: LIMIT, SYNTAX. */
mrd_err mrd_csr_period(mrd_str cert, mrd_wall_ns *ret_from, mrd_wall_ns *ret_to, mrd_why *why);
/* Checks that a certificate (PEM) belongs to the key and names the instance. */
mrd_err mrd_csr_fits(mrd_str cert, const char *key_path, const char *instance, mrd_why *why);

/* ---- At the authority ---- */

typedef struct mrd_signer mrd_signer;

/* Opens an authority, which signs requests. Errors: NOTFOUND, DENIED (other users can read the
 * key), SYNTAX, INVALID (not an authority, or the key does not match). */
mrd_err mrd_signer_open(const char *ca_path, const char *key_path, mrd_signer **ret_signer,
                        mrd_why *why);
void mrd_signer_close(mrd_signer *signer); /* NULL is fine */
/* Returns true if a certificate may have this name: at most 64 letters, digits, '.', '-' and
 * '_'. */
bool mrd_csr_name_ok(mrd_str instance);
/*
 * Signs a request and appends the certificate (PEM). It is valid for `life`, but not longer than
 * the authority's own. Errors: LIMIT, SYNTAX (also for more than one request), AUTH (the request is
 * not signed with its own key), INVALID, STATE (the authority has expired). INVALID means another
 * name, extensions, or a key other than P-256 or P-384.
 */
mrd_err mrd_signer_sign(const mrd_signer *signer, mrd_str request, const char *instance,
                        mrd_dur_ns life, mrd_buf *to, mrd_why *why);
/* Checks the key of a request against the revocation lists in the file `authorities` (NULL: none).
 * Errors: AUTH if a certificate that we signed for this key is revoked, or if the file cannot be
 * read; errors of the request. */
mrd_err mrd_csr_revoked(mrd_str request, const char *authorities, mrd_why *why);
/* Gets the SHA-256 of the public key in a request. */
mrd_err mrd_csr_key_hash(mrd_str request, char hash[MRD_SHA256_HEX], mrd_why *why);
/*
 * Identifies a node that requests its next certificate. `cert` must be valid and not revoked, as
 * must all earlier certificates for its key, and have the key that signed the request. Its issuer must be this authority or one in the file
 * `authorities` (NULL: only this one). So nodes can migrate to a new authority while the file still
 * contains the old one. Returns the name in `cert`. Errors: AUTH (also if the file cannot be read),
 * and the errors of the request.
 */
mrd_err mrd_signer_holder(const mrd_signer *signer, mrd_str cert, mrd_str request,
                          const char *authorities, char instance[MRD_CSR_INSTANCE], mrd_why *why);

#endif
