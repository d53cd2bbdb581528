/*
 * pki/cert_make.h - creates unsigned certificates, which the caller signs. The command line makes
 * the set of certificates of a cluster in this way, and the aggregator those for nodes' requests.
 *
 * Threads: stateless.
 */
#ifndef MRD_PKI_CERT_MAKE_H
#define MRD_PKI_CERT_MAKE_H

#include <stdbool.h>

struct x509_st;     /* OpenSSL's X509 */
struct evp_pkey_st; /* OpenSSL's EVP_PKEY */

/* Number of bytes at the begin of a serial number that depend on the key only, so that a revocation
 * list names keys, too. The rest is random. */
#define MRD_CERT_KEY_MARK 8
#define MRD_CERT_SERIAL   16
/* Computes the first bytes of the serial numbers of all certificates for this key. False if out of
 * memory. */
bool mrd_cert_key_mark(struct evp_pkey_st *key, unsigned char mark[MRD_CERT_KEY_MARK]);
/* Creates a certificate for `key` with O=meridian, CN=name and a new serial number. It is valid
 * from an hour ago, because the clocks of nodes may disagree. The caller sets the end, extensions
 * and signature. `issuer` NULL makes it self-signed. On failure it returns NULL and OpenSSL's error
 * queue has the reason. */
struct x509_st *mrd_cert_make(const char *name, struct evp_pkey_st *key, struct x509_st *issuer);
/* Adds an extension in the syntax of OpenSSL's configuration files. */
bool mrd_cert_extend(struct x509_st *cert, struct x509_st *issuer, int nid, const char *value);
/* Adds the extensions of a certificate that is not an authority. `usage` is "clientAuth" or
 * "serverAuth,clientAuth". */
bool mrd_cert_extend_leaf(struct x509_st *cert, struct x509_st *issuer, const char *usage);

#endif
