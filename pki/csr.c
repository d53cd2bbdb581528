#include "pki/csr.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/sys/out.h"
#include "base/sys/secret.h"
#include "pki/cert.h"
#include "pki/cert_make.h"

struct mrd_signer {
    X509 *ca;
    EVP_PKEY *key;
};

static mrd_err
failed(mrd_why *why, mrd_err err, const char *what)
{
    char text[160];

    ERR_error_string_n(ERR_get_error(), text, sizeof(text));
    ERR_clear_error();
    return mrd_why_set(why, err, 0, "%s: %s", what, text);
}

bool
mrd_csr_name_ok(mrd_str instance)
{
    if (instance.len == 0 || instance.len >= MRD_CSR_INSTANCE || instance.p[0] == '.' ||
        instance.p[0] == '-')
        return false;
    for (size_t i = 0; i < instance.len; i++) {
        char c = instance.p[i];

        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              c == '.' || c == '-' || c == '_'))
            return false;
    }
    return true;
}

static mrd_err
name_check(const char *instance, mrd_why *why)
{
    if (mrd_csr_name_ok(mrd_str_of(instance)))
        return MRD_OK;
    return mrd_why_set(why, MRD_INVALID, 0,
                       "'%.80s' cannot be an instance id in a certificate: letters, digits, '.', "
                       "'-' and '_', at most 64",
                       instance);
}

/* ---- Reading and writing PEM ---- */

static mrd_err
key_load(const char *path, EVP_PKEY **ret_key, mrd_why *why)
{
    mrd_err err = mrd_secret_check("key file", path, why);
    FILE *file = err == MRD_OK ? fopen(path, "re") : NULL;

    if (err != MRD_OK)
        return err;
    if (file == NULL)
        return mrd_why_set(why, MRD_NOTFOUND, errno, "%s", path);
    *ret_key = PEM_read_PrivateKey(file, NULL, mrd_cert_no_passphrase, NULL);
    fclose(file);
    return *ret_key == NULL ? failed(why, MRD_SYNTAX, path) : MRD_OK;
}

static mrd_err
cert_load(const char *path, X509 **ret_cert, mrd_why *why)
{
    FILE *file = fopen(path, "re");

    if (file == NULL)
        return mrd_why_set(why, MRD_NOTFOUND, errno, "%s", path);
    *ret_cert = PEM_read_X509(file, NULL, mrd_cert_no_passphrase, NULL);
    fclose(file);
    return *ret_cert == NULL ? failed(why, MRD_SYNTAX, path) : MRD_OK;
}

static mrd_err
cert_parse(mrd_str text, X509 **ret_cert, mrd_why *why)
{
    BIO *in;

    if (text.len > MRD_CSR_MAX)
        return mrd_why_set(why, MRD_LIMIT, 0, "a certificate has at most %d bytes", MRD_CSR_MAX);
    in = BIO_new_mem_buf(text.p, (int) text.len);
    *ret_cert = in == NULL ? NULL : PEM_read_bio_X509(in, NULL, mrd_cert_no_passphrase, NULL);
    BIO_free(in);
    return *ret_cert == NULL ? failed(why, MRD_SYNTAX, "this is no certificate (PEM)") : MRD_OK;
}

/* Returns the content of the PEM block of kind `kind`, allocated by OpenSSL. Returns NULL if the
 * first block is of another kind, or if anything but white space follows it. */
static unsigned char *
one_block(mrd_str text, const char *kind, long *ret_len)
{
    char *name = NULL, *header = NULL;
    unsigned char *der = NULL, *ret = NULL;
    BIO *in = BIO_new_mem_buf(text.p, (int) text.len);
    char rest[64];
    int n;
    bool alone = true;

    if (in != NULL && PEM_read_bio(in, &name, &header, &der, ret_len) == 1) {
        while ((n = BIO_read(in, rest, sizeof(rest))) > 0)
            for (int i = 0; i < n; i++)
                alone = alone && strchr(" \t\r\n", rest[i]) != NULL && rest[i] != '\0';
        if (alone && header[0] == '\0' && strcmp(name, kind) == 0) {
            ret = der;
            der = NULL;
        }
    }
    OPENSSL_free(name);
    OPENSSL_free(header);
    OPENSSL_free(der);
    BIO_free(in);
    return ret;
}

/* Returns whether a key is an EC key on P-256 or P-384. Compares the name of the curve, because
 * other curves have keys of the same size. */
static bool
curve_ok(const EVP_PKEY *key)
{
    char name[64] = "", form[64] = "";

    if (key == NULL || EVP_PKEY_get_base_id(key) != EVP_PKEY_EC ||
        EVP_PKEY_get_utf8_string_param(key, OSSL_PKEY_PARAM_GROUP_NAME, name, sizeof(name), NULL) !=
            1 ||
        EVP_PKEY_get_utf8_string_param(key, OSSL_PKEY_PARAM_EC_ENCODING, form, sizeof(form),
                                       NULL) != 1)
        return false;
    return strcmp(form, OSSL_PKEY_EC_ENCODING_GROUP) == 0 &&
           (strcmp(name, SN_X9_62_prime256v1) == 0 || strcmp(name, SN_secp384r1) == 0);
}

/* Parses a signing request, and checks its key and that the request is signed with this key. */
static mrd_err
request_parse(mrd_str text, X509_REQ **ret_request, mrd_why *why)
{
    const unsigned char *at;
    unsigned char *der;
    X509_REQ *req = NULL;
    long len = 0;
    mrd_err err = MRD_OK;

    if (text.len > MRD_CSR_MAX)
        return mrd_why_set(why, MRD_LIMIT, 0, "a signing request has at most %d bytes",
                           MRD_CSR_MAX);
    at = der = one_block(text, PEM_STRING_X509_REQ, &len);
    if (der != NULL)
        req = d2i_X509_REQ(NULL, &at, len);
    if (req == NULL || at != der + len)
        err = failed(why, MRD_SYNTAX,
                     "this is no signing request (one of PKCS #10 in PEM, and nothing else)");
    else if (!curve_ok(X509_REQ_get0_pubkey(req)))
        err = mrd_why_set(why, MRD_INVALID, 0, "the request's key is not P-256 or P-384");
    else if (X509_REQ_verify(req, X509_REQ_get0_pubkey(req)) != 1)
        err = mrd_why_set(why, MRD_AUTH, 0, "the request is not signed with its own key");
    ERR_clear_error();
    OPENSSL_free(der);
    if (err != MRD_OK)
        X509_REQ_free(req);
    else
        *ret_request = req;
    return err;
}

/* Stores the common name of a subject. Returns false if there is not exactly one, or if it has
 * characters that an instance id cannot have. */
static bool
common_name(const X509_NAME *subject, char to[MRD_CSR_INSTANCE])
{
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    const ASN1_STRING *value;
    mrd_str name;

    if (at < 0 || X509_NAME_get_index_by_NID(subject, NID_commonName, at) >= 0)
        return false;
    value = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
    name = (mrd_str){ (const char *) ASN1_STRING_get0_data(value),
                      (size_t) ASN1_STRING_length(value) };
    if (!mrd_csr_name_ok(name))
        return false;
    memcpy(to, name.p, name.len);
    to[name.len] = '\0';
    return true;
}

/* ---- Functions for the node ---- */

static mrd_err
key_make(const char *path, EVP_PKEY **ret_key, mrd_why *why)
{
    BIO *pem = BIO_new(BIO_s_secmem());
    EVP_PKEY *key = EVP_EC_gen("P-256");
    char *data = NULL;
    long len = 0;
    mrd_err err;

    if (pem == NULL || key == NULL ||
        PEM_write_bio_PrivateKey(pem, key, NULL, NULL, 0, NULL, NULL) != 1 ||
        (len = BIO_get_mem_data(pem, &data)) <= 0)
        err = failed(why, MRD_NOMEM, path);
    else
        /* durable, because the node's invitation is later tied to this key, which must survive a
         * power failure */
        err = mrd_write_file_durable(path, (mrd_bytes){ (const uint8_t *) data, (size_t) len },
                                     0600, why);
    BIO_free(pem);
    if (err != MRD_OK)
        EVP_PKEY_free(key);
    else
        *ret_key = key;
    return err;
}

mrd_err
mrd_csr_make(const char *key_path, const char *instance, mrd_buf *to, mrd_why *why)
{
    X509_REQ *req = NULL;
    EVP_PKEY *key = NULL;
    BIO *pem = NULL;
    char *data = NULL;
    long len = 0;
    mrd_err err = name_check(instance, why);

    if (err == MRD_OK)
        err = access(key_path, F_OK) == 0 ? key_load(key_path, &key, why)
                                          : key_make(key_path, &key, why);
    if (err != MRD_OK)
        return err;
    if ((req = X509_REQ_new()) == NULL || (pem = BIO_new(BIO_s_mem())) == NULL ||
        X509_NAME_add_entry_by_txt(X509_REQ_get_subject_name(req), "CN", MBSTRING_UTF8,
                                   (const unsigned char *) instance, -1, -1, 0) != 1 ||
        X509_REQ_set_pubkey(req, key) != 1 || X509_REQ_sign(req, key, EVP_sha256()) == 0 ||
        PEM_write_bio_X509_REQ(pem, req) != 1 || (len = BIO_get_mem_data(pem, &data)) <= 0)
        err = failed(why, MRD_INVALID, key_path);
    else
        mrd_buf_add(to, data, (size_t) len);
    BIO_free(pem);
    X509_REQ_free(req);
    EVP_PKEY_free(key);
    return err != MRD_OK ? err : to->err;
}

static bool
seconds_between(const ASN1_TIME *from, const ASN1_TIME *to, mrd_dur_ns *ret)
{
    int days = 0, seconds = 0;

    if (ASN1_TIME_diff(&days, &seconds, from, to) != 1)
        return false;
    *ret = ((int64_t) days * 86400 + seconds) * MRD_SEC;
    return true;
}

mrd_err
mrd_csr_validity(const char *cert_path, mrd_dur_ns *ret_left, mrd_dur_ns *ret_all, mrd_why *why)
{
    X509 *cert = NULL;
    mrd_err err = cert_load(cert_path, &cert, why);

    if (err == MRD_OK &&
        (!seconds_between(NULL, X509_get0_notAfter(cert), ret_left) ||
         !seconds_between(X509_get0_notBefore(cert), X509_get0_notAfter(cert), ret_all)))
        err = mrd_why_set(why, MRD_SYNTAX, 0, "%s: its times cannot be read", cert_path);
    X509_free(cert);
    return err;
}

mrd_err
mrd_csr_period(mrd_str cert, mrd_wall_ns *ret_from, mrd_wall_ns *ret_to, mrd_why *why)
{
    mrd_wall_ns from = { 0 }, to = { 0 };
    X509 *x = NULL;
    mrd_err err = cert_parse(cert, &x, why);

    if (err == MRD_OK && (!mrd_cert_period(x, &from, &to) || to.ns <= from.ns))
        err = mrd_why_set(why, MRD_SYNTAX, 0, "the certificate's times cannot be read");
    X509_free(x);
    if (err != MRD_OK)
        return err;
    *ret_from = from;
    *ret_to = to;
    return MRD_OK;
}

mrd_err
mrd_csr_fits(mrd_str cert, const char *key_path, const char *instance, mrd_why *why)
{
    char names[MRD_CERT_NAMES];
    X509 *x = NULL;
    EVP_PKEY *key = NULL;
    mrd_err err = cert_parse(cert, &x, why);

    if (err == MRD_OK && (err = key_load(key_path, &key, why)) == MRD_OK) {
        mrd_cert_names(x, '\n', names, sizeof(names));
        if (X509_check_private_key(x, key) != 1)
            err = mrd_why_set(why, MRD_AUTH, 0, "the certificate is for another key than %s",
                              key_path);
        else if (!mrd_cert_named(names, '\n', instance))
            err = mrd_why_set(why, MRD_AUTH, 0, "the certificate does not name '%s'", instance);
        ERR_clear_error();
    }
    EVP_PKEY_free(key);
    X509_free(x);
    return err;
}

/* ---- Signing by the authority ---- */

mrd_err
mrd_signer_open(const char *ca_path, const char *key_path, mrd_signer **ret_signer, mrd_why *why)
{
    mrd_signer *signer = calloc(1, sizeof(*signer));
    mrd_err err = signer == NULL ? mrd_why_set(why, MRD_NOMEM, 0, "%s", ca_path)
                                 : cert_load(ca_path, &signer->ca, why);

    if (err == MRD_OK)
        err = key_load(key_path, &signer->key, why);
    if (err == MRD_OK && X509_check_ca(signer->ca) != 1)
        err =
            mrd_why_set(why, MRD_INVALID, 0, "%s is not the certificate of an authority", ca_path);
    if (err == MRD_OK && X509_check_private_key(signer->ca, signer->key) != 1)
        err = mrd_why_set(why, MRD_INVALID, 0, "%s is not the key of %s", key_path, ca_path);
    ERR_clear_error();
    if (err != MRD_OK)
        mrd_signer_close(signer);
    else
        *ret_signer = signer;
    return err;
}

void
mrd_signer_close(mrd_signer *signer)
{
    if (signer == NULL)
        return;
    X509_free(signer->ca);
    EVP_PKEY_free(signer->key);
    free(signer);
}

/* Checks that a request has no subject other than CN=instance, no extensions and no attributes. */
static mrd_err
request_check(X509_REQ *req, const char *instance, mrd_why *why)
{
    const X509_NAME *subject = X509_REQ_get_subject_name(req);
    int n = X509_NAME_entry_count(subject);
    char name[MRD_CSR_INSTANCE] = "";

    if (X509_REQ_get_attr_count(req) != 0)
        return mrd_why_set(
            why, MRD_INVALID, 0,
            "the request asks for extensions or has attributes, which are not signed");
    if (n > 1 || (n == 1 && (!common_name(subject, name) || strcmp(name, instance) != 0)))
        return mrd_why_set(why, MRD_INVALID, 0,
                           "the request names another subject than CN=%s, which alone is signed",
                           instance);
    return MRD_OK;
}

/* Sets the end of a certificate's validity: `life` from now, but not later than the end of the
 * authority's own certificate. */
static bool
end_set(const mrd_signer *signer, X509 *cert, mrd_dur_ns life)
{
    const ASN1_TIME *end = X509_get0_notAfter(signer->ca);
    int64_t seconds = life / MRD_SEC;
    mrd_dur_ns left;

    if (!seconds_between(NULL, end, &left))
        return false;
    return left < life ? X509_set1_notAfter(cert, end) == 1
                       : X509_time_adj_ex(X509_getm_notAfter(cert), (int) (seconds / 86400),
                                          (long) (seconds % 86400), NULL) != NULL;
}

static X509 *
certificate(const mrd_signer *signer, EVP_PKEY *key, const char *instance, mrd_dur_ns life)
{
    X509 *cert = mrd_cert_make(instance, key, signer->ca);

    if (cert != NULL && end_set(signer, cert, life) &&
        mrd_cert_extend_leaf(cert, signer->ca, "clientAuth") &&
        X509_sign(cert, signer->key, EVP_sha256()) != 0)
        return cert;
    X509_free(cert);
    return NULL;
}

mrd_err
mrd_signer_sign(const mrd_signer *signer, mrd_str request, const char *instance, mrd_dur_ns life,
                mrd_buf *to, mrd_why *why)
{
    X509_REQ *req = NULL;
    X509 *cert = NULL;
    BIO *pem = NULL;
    char *data = NULL;
    long len = 0;
    mrd_err err = name_check(instance, why);

    if (err == MRD_OK && X509_cmp_current_time(X509_get0_notAfter(signer->ca)) <= 0)
        err = mrd_why_set(why, MRD_STATE, 0, "the authority's own certificate has expired");
    if (err == MRD_OK && (err = request_parse(request, &req, why)) == MRD_OK)
        err = request_check(req, instance, why);
    if (err == MRD_OK) {
        cert = certificate(signer, X509_REQ_get0_pubkey(req), instance, life);
        if (cert == NULL || (pem = BIO_new(BIO_s_mem())) == NULL ||
            PEM_write_bio_X509(pem, cert) != 1 || (len = BIO_get_mem_data(pem, &data)) <= 0)
            err = failed(why, MRD_INVALID, "signing");
        else
            mrd_buf_add(to, data, (size_t) len);
    }
    BIO_free(pem);
    X509_free(cert);
    X509_REQ_free(req);
    return err != MRD_OK ? err : to->err;
}

mrd_err
mrd_csr_key_hash(mrd_str request, char hash[MRD_SHA256_HEX], mrd_why *why)
{
    X509_REQ *req = NULL;
    unsigned char *der = NULL;
    mrd_sha256 *sha;
    mrd_err err = request_parse(request, &req, why);
    int len = err == MRD_OK ? i2d_PUBKEY(X509_REQ_get0_pubkey(req), &der) : 0;

    X509_REQ_free(req);
    if (err != MRD_OK)
        return err;
    if (len <= 0 || (sha = mrd_sha256_new()) == NULL) {
        OPENSSL_free(der);
        return failed(why, MRD_NOMEM, "key");
    }
    mrd_sha256_add(sha, der, (size_t) len);
    mrd_sha256_hex(sha, hash);
    mrd_sha256_free(sha);
    OPENSSL_free(der);
    return MRD_OK;
}

/* Makes a store of the authorities that may issue clients' certificates, with their revocation
 * lists. The authorities are `ca` and all authorities in the file `path`. Either may be NULL. If
 * the file cannot be read, returns AUTH, so that no certificate is accepted, because the file might
 * revoke it. The caller frees the store. */
static mrd_err
authorities_load(X509 *ca, const char *path, X509_STORE **ret_store, mrd_why *why)
{
    X509_STORE *store = X509_STORE_new();
    STACK_OF(X509_OBJECT) * objects;
    X509_LOOKUP *file;
    bool lists = false;

    if (store == NULL || (ca != NULL && X509_STORE_add_cert(store, ca) != 1) ||
        (file = X509_STORE_add_lookup(store, X509_LOOKUP_file())) == NULL) {
        X509_STORE_free(store);
        return failed(why, MRD_NOMEM, "certificate");
    }
    if (path != NULL && X509_load_cert_crl_file(file, path, X509_FILETYPE_PEM) <= 0) {
        X509_STORE_free(store);
        return failed(why, MRD_AUTH, "the file of --tls-ca cannot be read");
    }
    objects = X509_STORE_get0_objects(store);
    for (int i = 0; i < sk_X509_OBJECT_num(objects); i++)
        lists = lists || X509_OBJECT_get_type(sk_X509_OBJECT_value(objects, i)) == X509_LU_CRL;
    if (lists)
        X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK);
    *ret_store = store;
    return MRD_OK;
}

/* Returns true if a certificate was revoked only because a newer one has replaced it. */
static bool
is_superseded(const X509_REVOKED *entry)
{
    ASN1_ENUMERATED *reason = X509_REVOKED_get_ext_d2i(entry, NID_crl_reason, NULL, NULL);
    bool is = reason != NULL && ASN1_ENUMERATED_get(reason) == CRL_REASON_SUPERSEDED;

    ASN1_ENUMERATED_free(reason);
    return is;
}

/* Returns true if a revocation list contains a certificate for the key with this mark
 * (mrd_cert_key_mark). Certificates that were revoked only because a newer one replaced them do not
 * count. */
static bool
list_has(X509_CRL *list, const unsigned char mark[MRD_CERT_KEY_MARK])
{
    STACK_OF(X509_REVOKED) *revoked = X509_CRL_get_REVOKED(list);
    bool found = false;

    for (int i = 0; i < sk_X509_REVOKED_num(revoked) && !found; i++) {
        const X509_REVOKED *entry = sk_X509_REVOKED_value(revoked, i);
        unsigned char raw[MRD_CERT_SERIAL];
        BIGNUM *number = ASN1_INTEGER_to_BN(X509_REVOKED_get0_serialNumber(entry), NULL);

        found = number != NULL && BN_bn2binpad(number, raw, sizeof(raw)) == sizeof(raw) &&
                memcmp(raw, mark, MRD_CERT_KEY_MARK) == 0 && !is_superseded(entry);
        BN_free(number);
    }
    return found;
}

/* Returns AUTH if a revocation list in the store contains a certificate of this key. */
static mrd_err
key_check(EVP_PKEY *key, const X509_STORE *store, mrd_why *why)
{
    STACK_OF(X509_OBJECT) *objects = X509_STORE_get0_objects(store);
    unsigned char mark[MRD_CERT_KEY_MARK];

    if (!mrd_cert_key_mark(key, mark))
        return failed(why, MRD_NOMEM, "certificate");
    for (int i = 0; i < sk_X509_OBJECT_num(objects); i++) {
        X509_CRL *list = X509_OBJECT_get0_X509_CRL(sk_X509_OBJECT_value(objects, i));

        if (list != NULL && list_has(list, mark))
            return mrd_why_set(why, MRD_AUTH, 0,
                               "a certificate of this key was revoked: make a new key");
    }
    return MRD_OK;
}

mrd_err
mrd_csr_revoked(mrd_str request, const char *authorities, mrd_why *why)
{
    X509_REQ *req = NULL;
    X509_STORE *store = NULL;
    mrd_err err = request_parse(request, &req, why);

    if (err == MRD_OK && authorities != NULL &&
        (err = authorities_load(NULL, authorities, &store, why)) == MRD_OK)
        err = key_check(X509_REQ_get0_pubkey(req), store, why);
    X509_STORE_free(store);
    X509_REQ_free(req);
    ERR_clear_error();
    return err;
}

/* Checks that a certificate is valid now, is a client certificate, was issued by one of the
 * authorities in the store, and is not revoked. */
static mrd_err
chain_check(X509 *cert, X509_STORE *store, mrd_why *why)
{
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();
    mrd_err err = MRD_OK;

    if (ctx == NULL || X509_STORE_CTX_init(ctx, store, cert, NULL) != 1) {
        err = failed(why, MRD_NOMEM, "certificate");
    } else {
        X509_STORE_CTX_set_purpose(ctx, X509_PURPOSE_SSL_CLIENT);
        if (X509_verify_cert(ctx) != 1)
            err = mrd_why_set(why, MRD_AUTH, 0, "the certificate does not count: %s",
                              X509_verify_cert_error_string(X509_STORE_CTX_get_error(ctx)));
    }
    X509_STORE_CTX_free(ctx);
    return err;
}

mrd_err
mrd_signer_holder(const mrd_signer *signer, mrd_str cert, mrd_str request, const char *authorities,
                  char instance[MRD_CSR_INSTANCE], mrd_why *why)
{
    X509 *x = NULL;
    X509_REQ *req = NULL;
    X509_STORE *store = NULL;
    mrd_err err = cert_parse(cert, &x, why);

    if (err == MRD_OK && (err = request_parse(request, &req, why)) == MRD_OK &&
        (err = authorities_load(signer->ca, authorities, &store, why)) == MRD_OK)
        err = chain_check(x, store, why);
    if (err == MRD_OK && EVP_PKEY_eq(X509_get0_pubkey(x), X509_REQ_get0_pubkey(req)) != 1)
        err = mrd_why_set(why, MRD_AUTH, 0, "the request is not signed with the certificate's key");
    if (err == MRD_OK)
        err = key_check(X509_get0_pubkey(x), store, why);
    if (err == MRD_OK && !common_name(X509_get_subject_name(x), instance))
        err = mrd_why_set(why, MRD_AUTH, 0, "the certificate names no instance");
    X509_STORE_free(store);
    X509_REQ_free(req);
    X509_free(x);
    ERR_clear_error();
    return err;
}
