/*
 * proto/cert_make.h - certificates of ours before they are signed: what all of them have in common,
 * whether the command line makes a cluster's set or the aggregator signs a node's request.
 *
 * Threads: stateless.
 */
#ifndef MRD_PROTO_CERT_MAKE_H
#define MRD_PROTO_CERT_MAKE_H

#include <stdbool.h>

struct x509_st;     /* OpenSSL's X509 */
struct evp_pkey_st; /* OpenSSL's EVP_PKEY */

/* For that key, named O=meridian, CN=name, with a drawn serial number, valid from an hour ago (clocks of
 * nodes that do not agree yet must not refuse it); its end, extensions and signature are the caller's to
 * set. issuer NULL: itself. NULL: OpenSSL's error queue says why. */
struct x509_st *mrd_cert_make(const char *name, struct evp_pkey_st *key, struct x509_st *issuer);
/* Adds an extension as OpenSSL's configuration files spell it. */
bool mrd_cert_extend(struct x509_st *cert, struct x509_st *issuer, int nid, const char *value);
/* Adds those of a certificate that signs no others. usage: "clientAuth", "serverAuth,clientAuth". */
bool mrd_cert_extend_leaf(struct x509_st *cert, struct x509_st *issuer, const char *usage);

#endif
