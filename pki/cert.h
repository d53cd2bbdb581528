/*
 * pki/cert.h - gets the names in an X.509 certificate as text. The certificate may be from a peer,
 * even one that was just refused, or from a file. Its contents are not trusted.
 *
 * Threads: stateless.
 */
#ifndef MRD_PKI_CERT_H
#define MRD_PKI_CERT_H

#include "base/buf.h"
#include "base/clock.h"

struct x509_st; /* OpenSSL's X509 */

/* Buffer size that is enough for most certificates. A name that does not fit is left out. */
#define MRD_CERT_NAMES 1024

/*
 * Writes the common name and then the DNS names, separated by `between`. Names that contain
 * `between`, or characters other than printable ASCII, are left out, so that the text can be logged
 * and split again. Returns its length.
 */
size_t mrd_cert_names(struct x509_st *cert, char between, char *to, size_t size);
/* Like mrd_cert_names, for a certificate in DER. Returns false if it cannot be parsed. */
bool mrd_cert_names_der(mrd_bytes der, char between, char *to, size_t size);
/* Gets the period of validity as the certificate states it, so the end may precede the start.
 * INT64_MAX means an end beyond the range of the type. Returns false if the times cannot be
 * read. */
bool mrd_cert_period(struct x509_st *cert, mrd_wall_ns *ret_from, mrd_wall_ns *ret_to);
/* Returns whether `name` is in the list. */
bool mrd_cert_named(const char *names, char between, const char *name);
/* A callback for OpenSSL's PEM readers. It returns 0, because a daemon cannot ask for a
 * passphrase. */
int mrd_cert_no_passphrase(char *buf, int size, int rwflag, void *self);

#endif
