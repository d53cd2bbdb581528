/*
 * pki/cert.h - reads names and validity of an X.509 certificate.
 *
 * The certificate may come from a file or from a peer, even from one that was refused. Its contents
 * are not trusted. Threads: stateless.
 */
#ifndef MRD_PKI_CERT_H
#define MRD_PKI_CERT_H

#include "base/buf.h"
#include "base/clock.h"

struct x509_st; /* OpenSSL's X509 */

/* Size of a buffer for the names of a certificate. It is enough for most certificates, and names
 * that do not fit are left out. */
#define MRD_CERT_NAMES 1024

/*
 * Writes the common name and then the DNS names of a certificate, separated by `between`. Leaves
 * out names that contain `between` or characters other than printable ASCII, so that the text can
 * be logged and split again. Returns the length of the text.
 */
size_t mrd_cert_names(struct x509_st *cert, char between, char *to, size_t size);
/* Does the same as mrd_cert_names for a certificate in DER. Returns false if it cannot be
 * parsed. */
bool mrd_cert_names_der(mrd_bytes der, char between, char *to, size_t size);
/* Stores the period of validity that the certificate states. The end may precede the start. An end
 * beyond the range of the type becomes INT64_MAX. Returns false if the times cannot be read. */
bool mrd_cert_period(struct x509_st *cert, mrd_wall_ns *ret_from, mrd_wall_ns *ret_to);
/* Returns whether `name` is in the list. */
bool mrd_cert_named(const char *names, char between, const char *name);
/* A passphrase callback for OpenSSL's PEM readers. It returns 0 (no passphrase), because a daemon
 * cannot ask for one. */
int mrd_cert_no_passphrase(char *buf, int size, int rwflag, void *self);

#endif
