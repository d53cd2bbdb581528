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
    const char *name; /* common name: "meridian CA", "aggregator", an instance id */
    const char *file; /* base name of the files: <file>.pem, <file>.key */
    const mrd_strlist
        *hosts;   /* DNS names and IP addresses. NULL means the hosts of the replaced certificate */
    int64_t days; /* validity from now on */
    bool server;  /* valid for servers; otherwise only for clients */
} mrd_pki_request;

/* Creates an authority: <dir>/ca.pem and ca.key. Errors: EXISTS, IO, INVALID. */
mrd_err mrd_pki_authority(const char *dir, int64_t days, mrd_why *why);
/* Issues a key and a certificate signed by <dir>/ca.*, and replaces files of that name (renewal
 * keeps the key). */
mrd_err mrd_pki_issue(const mrd_pki_request *request, bool keep_key, mrd_why *why);
/* Gets the seconds until the certificate expires; negative if it has. Errors: NOTFOUND, CORRUPT. */
mrd_err mrd_pki_remaining(const char *path, int64_t *ret_seconds, mrd_why *why);

/* A certificate and its validity for a user of it. */
typedef struct {
    char names[512]; /* common name and DNS names, separated by newlines */
    int64_t seconds; /* until it expires; negative if it has */
    bool key_fits;   /* false without a key too */
    char error[160]; /* why the authorities do not confirm it now; empty if they do */
} mrd_pki_view;

/* `ca` and `key` may be NULL. Errors: NOTFOUND, INVALID (no certificate, no key). */
mrd_err mrd_pki_examine(const char *ca, const char *cert, const char *key, mrd_pki_view *ret_view,
                        mrd_why *why);

#endif
