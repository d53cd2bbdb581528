#include "pki/pki.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/sys/out.h"
#include "pki/cert.h"
#include "pki/cert_make.h"

static mrd_err
pki_failed(mrd_why *why, const char *what)
{
    char text[200];

    ERR_error_string_n(ERR_get_error(), text, sizeof(text));
    return mrd_why_set(why, MRD_INVALID, 0, "%s: %s", what, text);
}

static char *
pki_path(const char *dir, const char *file, const char *suffix)
{
    mrd_buf path = { 0 };

    mrd_buf_fmt(&path, "%s/%s%s", dir, file, suffix);
    mrd_buf_cstr(&path);
    if (path.err != MRD_OK) {
        mrd_buf_fini(&path);
        return NULL;
    }
    return (char *) path.p;
}

static mrd_err
pki_store(const char *path, BIO *pem, unsigned mode, mrd_why *why)
{
    char *data = NULL;
    long len = BIO_get_mem_data(pem, &data);

    return mrd_write_file(path, (mrd_bytes){ (const uint8_t *) data, (size_t) len }, mode, why);
}

static mrd_err
pki_store_key(const char *path, EVP_PKEY *key, mrd_why *why)
{
    BIO *pem = BIO_new(BIO_s_secmem());
    mrd_err err;

    if (pem == NULL || PEM_write_bio_PrivateKey(pem, key, NULL, NULL, 0, NULL, NULL) != 1)
        err = pki_failed(why, path);
    else
        err = pki_store(path, pem, 0600, why);
    BIO_free(pem);
    return err;
}

static mrd_err
pki_store_cert(const char *path, X509 *cert, mrd_why *why)
{
    BIO *pem = BIO_new(BIO_s_mem());
    mrd_err err;

    if (pem == NULL || PEM_write_bio_X509(pem, cert) != 1)
        err = pki_failed(why, path);
    else
        err = pki_store(path, pem, 0644, why);
    BIO_free(pem);
    return err;
}

static mrd_err
pki_load_key(const char *path, EVP_PKEY **ret_key, mrd_why *why)
{
    FILE *file = fopen(path, "r");

    if (file == NULL)
        return mrd_why_set(why, MRD_NOTFOUND, errno, "%s", path);
    *ret_key = PEM_read_PrivateKey(file, NULL, NULL, NULL);
    fclose(file);
    return *ret_key == NULL ? pki_failed(why, path) : MRD_OK;
}

static mrd_err
pki_load_cert(const char *path, X509 **ret_cert, mrd_why *why)
{
    FILE *file = fopen(path, "r");

    if (file == NULL)
        return mrd_why_set(why, MRD_NOTFOUND, errno, "%s", path);
    *ret_cert = PEM_read_X509(file, NULL, NULL, NULL);
    fclose(file);
    return *ret_cert == NULL ? pki_failed(why, path) : MRD_OK;
}

/* Appends a list of hosts in OpenSSL's syntax for subjectAltName, such as "DNS:a,IP:1.2.3.4".
 * Returns false if a host has an invalid character. */
static bool
pki_alt_names(const mrd_strlist *hosts, mrd_buf *to)
{
    for (size_t i = 0; i < hosts->n; i++) {
        unsigned char raw[16];
        const char *h = hosts->v[i];
        bool ip = inet_pton(AF_INET, h, raw) == 1 || inet_pton(AF_INET6, h, raw) == 1;

        if (*h == '\0' ||
            strspn(h, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:*_") !=
                strlen(h))
            return false;
        mrd_buf_fmt(to, "%s%s:%s", i == 0 ? "" : ",", ip ? "IP" : "DNS", h);
    }
    return true;
}

static bool
pki_lasts(X509 *cert, int64_t days)
{
    return X509_time_adj_ex(X509_getm_notAfter(cert), (int) days, 0, NULL) != NULL;
}

mrd_err
mrd_pki_authority(const char *dir, int64_t days, mrd_why *why)
{
    char *cert_path = pki_path(dir, "ca", ".pem"), *key_path = pki_path(dir, "ca", ".key");
    EVP_PKEY *key = NULL;
    X509 *cert = NULL;
    mrd_err err = MRD_OK;

    if (cert_path == NULL || key_path == NULL) {
        err = mrd_why_set(why, MRD_NOMEM, 0, "%s", dir);
        goto out;
    }
    if (access(key_path, F_OK) == 0) {
        err = mrd_why_set(why, MRD_EXISTS, 0,
                          "%s exists: `meridian certs renew` keeps it; give another --dir to make "
                          "a new authority",
                          key_path);
        goto out;
    }
    if ((err = mrd_make_dirs(dir, why)) != MRD_OK)
        goto out;
    if (chmod(dir, 0700) != 0) {
        err = mrd_why_set(why, MRD_IO, errno, "%s", dir);
        goto out;
    }
    key = EVP_EC_gen("P-256");
    cert = key == NULL ? NULL : mrd_cert_make("meridian CA", key, NULL);
    if (cert == NULL || !pki_lasts(cert, days) ||
        !mrd_cert_extend(cert, cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
        !mrd_cert_extend(cert, cert, NID_key_usage, "critical,keyCertSign,cRLSign") ||
        !mrd_cert_extend(cert, cert, NID_subject_key_identifier, "hash") ||
        X509_sign(cert, key, EVP_sha256()) == 0)
        err = pki_failed(why, "certificate authority");
    else if ((err = pki_store_key(key_path, key, why)) == MRD_OK)
        err = pki_store_cert(cert_path, cert, why);
out:
    X509_free(cert);
    EVP_PKEY_free(key);
    free(cert_path);
    free(key_path);
    return err;
}

/* Copies the alternative names (subjectAltName) from the certificate in old_path, if it exists, to
 * `cert`. */
static bool
pki_keep_names(X509 *cert, const char *old_path)
{
    X509 *old = NULL;
    bool ok = true;
    int at;

    if (access(old_path, F_OK) != 0 || pki_load_cert(old_path, &old, NULL) != MRD_OK)
        return true;
    at = X509_get_ext_by_NID(old, NID_subject_alt_name, -1);
    if (at >= 0)
        ok = X509_add_ext(cert, X509_get_ext(old, at), -1) == 1;
    X509_free(old);
    return ok;
}

static mrd_err
pki_sign(const mrd_pki_request *request, const char *old_path, EVP_PKEY *key, X509 *ca,
         EVP_PKEY *ca_key, X509 **ret_cert, mrd_why *why)
{
    X509 *cert = mrd_cert_make(request->name, key, ca);
    mrd_buf names = { 0 };
    mrd_err err = MRD_OK;
    bool ok;

    if (request->hosts != NULL && !pki_alt_names(request->hosts, &names)) {
        X509_free(cert);
        mrd_buf_fini(&names);
        return mrd_why_set(why, MRD_INVALID, 0,
                           "--host contains a character that a host name cannot have");
    }
    ok = cert != NULL && pki_lasts(cert, request->days) &&
         mrd_cert_extend_leaf(cert, ca, request->server ? "serverAuth,clientAuth" : "clientAuth") &&
         (request->hosts == NULL
              ? pki_keep_names(cert, old_path)
              : mrd_cert_extend(cert, ca, NID_subject_alt_name, mrd_buf_cstr(&names))) &&
         X509_sign(cert, ca_key, EVP_sha256()) != 0;
    if (ok) {
        *ret_cert = cert;
    } else {
        err = pki_failed(why, request->name);
        X509_free(cert);
    }
    mrd_buf_fini(&names);
    return err;
}

mrd_err
mrd_pki_issue(const mrd_pki_request *request, bool keep_key, mrd_why *why)
{
    char *ca_path = pki_path(request->dir, "ca", ".pem"),
         *ca_key_path = pki_path(request->dir, "ca", ".key");
    char *path = pki_path(request->dir, request->file, ".pem"),
         *key_path = pki_path(request->dir, request->file, ".key");
    EVP_PKEY *key = NULL, *ca_key = NULL;
    X509 *ca = NULL, *cert = NULL;
    bool kept = keep_key && key_path != NULL && access(key_path, F_OK) == 0;
    mrd_err err = MRD_OK;

    if (ca_path == NULL || ca_key_path == NULL || path == NULL || key_path == NULL)
        err = mrd_why_set(why, MRD_NOMEM, 0, "%s", request->dir);
    if (err == MRD_OK)
        err = pki_load_cert(ca_path, &ca, why);
    if (err == MRD_OK)
        err = pki_load_key(ca_key_path, &ca_key, why);
    if (err == MRD_OK && kept)
        err = pki_load_key(key_path, &key, why);
    else if (err == MRD_OK && (key = EVP_EC_gen("P-256")) == NULL)
        err = pki_failed(why, request->name);
    if (err == MRD_OK)
        err = pki_sign(request, path, key, ca, ca_key, &cert, why);
    if (err == MRD_OK && !kept)
        err = pki_store_key(key_path, key, why);
    if (err == MRD_OK)
        err = pki_store_cert(path, cert, why);
    X509_free(cert);
    X509_free(ca);
    EVP_PKEY_free(key);
    EVP_PKEY_free(ca_key);
    free(ca_path);
    free(ca_key_path);
    free(path);
    free(key_path);
    return err;
}

mrd_err
mrd_pki_remaining(const char *path, int64_t *ret_seconds, mrd_why *why)
{
    X509 *cert = NULL;
    int days = 0, seconds = 0;
    mrd_err err = pki_load_cert(path, &cert, why);

    if (err != MRD_OK)
        return err;
    if (ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(cert)) != 1)
        err = mrd_why_set(why, MRD_CORRUPT, 0, "%s: its end cannot be read", path);
    else
        *ret_seconds = (int64_t) days * 86400 + seconds;
    X509_free(cert);
    return err;
}

/* Checks that the authorities in the file `ca` confirm the certificate now. If they do not, writes
 * the reason to `error`. */
static void
view_chain(X509 *cert, const char *ca, char *error, size_t size)
{
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();

    if (store == NULL || ctx == NULL || X509_STORE_load_file(store, ca) != 1 ||
        X509_STORE_CTX_init(ctx, store, cert, NULL) != 1)
        snprintf(error, size, "%s holds no authorities", ca);
    else if (X509_verify_cert(ctx) != 1)
        snprintf(error, size, "%s", X509_verify_cert_error_string(X509_STORE_CTX_get_error(ctx)));
    X509_STORE_CTX_free(ctx);
    X509_STORE_free(store);
    ERR_clear_error();
}

mrd_err
mrd_pki_examine(const char *ca, const char *cert_path, const char *key_path, mrd_pki_view *ret_view,
                mrd_why *why)
{
    mrd_pki_view view = { .names = "" };
    EVP_PKEY *key = NULL;
    X509 *cert = NULL;
    mrd_err err = pki_load_cert(cert_path, &cert, why);

    if (err == MRD_OK && key_path != NULL)
        err = pki_load_key(key_path, &key, why);
    if (err == MRD_OK)
        err = mrd_pki_remaining(cert_path, &view.seconds, why);
    if (err == MRD_OK) {
        mrd_cert_names(cert, '\n', view.names, sizeof(view.names));
        view.key_fits = key != NULL && X509_check_private_key(cert, key) == 1;
        if (ca != NULL)
            view_chain(cert, ca, view.error, sizeof(view.error));
        ERR_clear_error();
        *ret_view = view;
    }
    EVP_PKEY_free(key);
    X509_free(cert);
    return err;
}
