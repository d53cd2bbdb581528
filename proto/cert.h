/*
 * proto/cert.h - the names in an X.509 certificate as text: of the other end of a connection, of a
 * certificate that was just refused, of a file. Its bytes come from outside.
 *
 * Threads: stateless.
 */
#ifndef MRD_PROTO_CERT_H
#define MRD_PROTO_CERT_H

#include "base/buf.h"
#include "base/clock.h"

struct x509_st; /* OpenSSL's X509 */

#define MRD_CERT_NAMES 1024 /* bytes that suffice for most; what does not fit is left out whole */

/*
 * The common name, then the DNS names, `between` them. Only names of printable ASCII without
 * `between` count, so that the text can be logged and taken apart again. Returns its length.
 */
size_t mrd_cert_names(struct x509_st *cert, char between, char *to, size_t size);
/* Of a certificate in DER. False when it is none. */
bool mrd_cert_names_der(mrd_bytes der, char between, char *to, size_t size);
/* From when until when it is valid, as it says: the end may be before the begin. INT64_MAX: no end that a
 * clock here reaches. False: its times cannot be read. */
bool mrd_cert_period(struct x509_st *cert, mrd_wall_ns *ret_from, mrd_wall_ns *ret_to);
/* Whether `name` is one of them. */
bool mrd_cert_named(const char *names, char between, const char *name);
/* For OpenSSL's readers of PEM: a passphrase is never asked for, because nobody is there. Returns 0. */
int mrd_cert_no_passphrase(char *buf, int size, int rwflag, void *self);

#endif
