/*
 * pki/pki.h - a small certificate authority (EC P-256 keys, X.509 v3) for users without one
 *
 * All files are PEM files in one directory. Private keys are written with mode 0600 and never
 * printed.
 */
#ifndef MRD_PKI_PKI_H
#define MRD_PKI_PKI_H

#include "base/buf.h"

typedef struct {
    const char *dir;
    const char *name; /* common name, for example "meridian CA", "aggregator" or an instance id */
    const char *file; /* the files are named <file>.pem and <file>.key */
    /* DNS names and IP addresses of the certificate. NULL means the same as in the certificate that
     * is replaced. */
    const mrd_strlist *hosts;
    int64_t days; /* validity from now on */
    bool server;  /* the certificate is for servers and clients, otherwise only for clients */
} mrd_pki_request;

/* Creates an authority: its certificate in <dir>/ca.pem and its key in <dir>/ca.key. Errors:
 * EXISTS, IO, INVALID. */
mrd_err mrd_pki_authority(const char *dir, int64_t days, mrd_why *why);
/* Creates a key and a certificate that the authority in <dir>/ca.* signs, and replaces existing
 * files. With keep_key, an existing key is used again (renewal). */
mrd_err mrd_pki_issue(const mrd_pki_request *request, bool keep_key, mrd_why *why);
/* Stores the seconds until the certificate expires, negative if it has expired. Errors: NOTFOUND,
 * CORRUPT. */
mrd_err mrd_pki_remaining(const char *path, int64_t *ret_seconds, mrd_why *why);

/* The result of mrd_pki_examine for one certificate. */
typedef struct {
    char names[512]; /* common name and DNS names, separated by newlines */
    int64_t seconds; /* seconds until the certificate expires; negative if it has expired */
    bool key_fits;   /* the key belongs to the certificate; false if no key was given */
    char error[160]; /* why the authorities do not confirm the certificate now; "" if they do */
} mrd_pki_view;

/* Checks a certificate with the authorities in the file `ca` and with its key file. Both may be
 * NULL, which skips that check. Errors: NOTFOUND, INVALID (a file contains no certificate or no
 * key). */
mrd_err mrd_pki_examine(const char *ca, const char *cert, const char *key, mrd_pki_view *ret_view,
                        mrd_why *why);

#endif
