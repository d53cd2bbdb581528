/*
 * pki/cert_make.h - creates unsigned certificates, which the caller signs.
 *
 * The command line creates the certificates of a cluster with it. The aggregator creates the
 * certificates for the requests of nodes. Threads: stateless.
 */
#ifndef MRD_PKI_CERT_MAKE_H
#define MRD_PKI_CERT_MAKE_H

#include <stdbool.h>

struct x509_st;     /* OpenSSL's X509 */
struct evp_pkey_st; /* OpenSSL's EVP_PKEY */

/* Number of bytes at the start of a serial number that depend only on the key. The rest is random.
 * A revocation list, which contains serial numbers, therefore also identifies keys. */
#define MRD_CERT_KEY_MARK 8
#define MRD_CERT_SERIAL   16
/* Computes the first bytes of the serial numbers of all certificates for this key. Returns false if
 * out of memory. */
bool mrd_cert_key_mark(struct evp_pkey_st *key, unsigned char mark[MRD_CERT_KEY_MARK]);
/* Creates a certificate for `key` with O=meridian, CN=name and a new serial number. Its validity
 * begins an hour ago, because the clocks of nodes may disagree. The caller sets the end, extensions
 * and signature. If `issuer` is NULL, the certificate is self-signed. On failure returns NULL, and
 * OpenSSL's error queue has the reason. */
struct x509_st *mrd_cert_make(const char *name, struct evp_pkey_st *key, struct x509_st *issuer);
/* Adds the extension `nid` with a value in the syntax of OpenSSL's configuration files. */
bool mrd_cert_extend(struct x509_st *cert, struct x509_st *issuer, int nid, const char *value);
/* Adds the extensions of a certificate that is not an authority. `usage` is "clientAuth" or
 * "serverAuth,clientAuth". */
bool mrd_cert_extend_leaf(struct x509_st *cert, struct x509_st *issuer, const char *usage);

#endif
