/*
 * pki/pki.h - a small certificate authority for users without one: EC P-256 keys, X.509 v3
 *
 * Private keys are written with mode 0600 and never printed. All files are PEM files in one
 * directory. Only pki.c uses libcrypto's certificate interface.
 */
#ifndef MRD_PKI_PKI_H
#define MRD_PKI_PKI_H

#include "base/buf.h"

typedef struct {
    const char *dir;
    const char *name; /* common name, for example "meridian CA", "aggregator" or an instance id */
    const char *file; /* base name of the two files: <file>.pem and <file>.key */
    /* DNS names and IP addresses of the certificate; NULL means the same as in the certificate
     * that is replaced */
    const mrd_strlist *hosts;
    int64_t days; /* validity from now on */
    bool server;  /* the certificate is also valid for servers; otherwise only for clients */
} mrd_pki_request;

/* Creates an authority in two files, <dir>/ca.pem and ca.key. Errors: EXISTS, IO, INVALID. */
mrd_err mrd_pki_authority(const char *dir, int64_t days, mrd_why *why);
/* Issues a key and a certificate signed by <dir>/ca.*, and replaces existing files. With keep_key,
 * an existing key is kept (renewal). */
mrd_err mrd_pki_issue(const mrd_pki_request *request, bool keep_key, mrd_why *why);
/* Gets the seconds until the certificate expires, which are negative if it has expired. Errors:
 * NOTFOUND, CORRUPT. */
mrd_err mrd_pki_remaining(const char *path, int64_t *ret_seconds, mrd_why *why);

/* What mrd_pki_examine found out about a certificate. */
typedef struct {
    char names[512]; /* common name and DNS names, separated by newlines */
    int64_t seconds; /* until it expires; negative if it has */
    bool key_fits;   /* false without a key too */
    char error[160]; /* why the authorities do not confirm the certificate now; empty if they do */
} mrd_pki_view;

/* Checks a certificate with the authorities in `ca` and its key; both may be NULL. Errors:
 * NOTFOUND, INVALID (no certificate, no key). */
mrd_err mrd_pki_examine(const char *ca, const char *cert, const char *key, mrd_pki_view *ret_view,
                        mrd_why *why);

#endif
