/*
 * cli/pki.h - a small certificate authority for people who have none: EC P-256 keys, X.509 v3.
 *
 * Private keys are written 0600 and never printed. Everything is a PEM file in one folder.
 * libcrypto's certificate interface lives in pki.c only.
 */
#ifndef MRD_CLI_PKI_H
#define MRD_CLI_PKI_H

#include "base/buf.h"

typedef struct {
    const char *dir;
    const char *name; /* common name: "meridian CA", "aggregator", an instance id */
    const char *file; /* base name of the files: <file>.pem, <file>.key */
    const mrd_strlist
        *hosts;   /* DNS names and IP addresses; NULL: those of the certificate replaced */
    int64_t days; /* validity from now on */
    bool server;  /* may serve; otherwise only a client */
} mrd_pki_request;

/* A new authority: <dir>/ca.pem and ca.key. Errors: EXISTS, IO, INVALID. */
mrd_err mrd_pki_authority(const char *dir, int64_t days, mrd_why *why);
/* A key and a certificate signed by <dir>/ca.*; replaces files of that name (renewal keeps the
 * key). */
mrd_err mrd_pki_issue(const mrd_pki_request *request, bool keep_key, mrd_why *why);
/* Seconds until the certificate ends; negative when it has. Errors: NOTFOUND, CORRUPT. */
mrd_err mrd_pki_remaining(const char *path, int64_t *ret_seconds, mrd_why *why);

/* One certificate as somebody who wants to use it sees it. */
typedef struct {
    char names[512]; /* common name and DNS names, a newline between them */
    int64_t seconds; /* until it ends; negative when it has */
    bool key_fits;   /* false without a key too */
    char error[160]; /* why the authorities do not vouch for it now; empty: they do */
} mrd_pki_view;

/* ca and key may be NULL. Errors: NOTFOUND, INVALID (no certificate, no key). */
mrd_err mrd_pki_examine(const char *ca, const char *cert, const char *key, mrd_pki_view *ret_view,
                        mrd_why *why);

#endif
