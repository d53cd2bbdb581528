#include "pki/cert_make.h"

#include <openssl/rand.h>
#include <openssl/x509v3.h>

#define EARLIER 3600 /* seconds by which the validity begins before the current time */

bool
mrd_cert_key_mark(EVP_PKEY *key, unsigned char mark[MRD_CERT_KEY_MARK])
{
    unsigned char *der = NULL, hash[EVP_MAX_MD_SIZE];
    int len = i2d_PUBKEY(key, &der);
    bool ok = len > 0 && EVP_Digest(der, (size_t) len, hash, NULL, EVP_sha256(), NULL) == 1;

    OPENSSL_free(der);
    for (size_t i = 0; ok && i < MRD_CERT_KEY_MARK; i++)
        mark[i] = hash[i];
    mark[0] &= 0x7f; /* makes the serial number positive */
    return ok;
}

static bool
serial_set(X509 *cert, EVP_PKEY *key)
{
    unsigned char raw[MRD_CERT_SERIAL] = { 0 };
    BIGNUM *number;
    bool ok;

    if (!mrd_cert_key_mark(key, raw) ||
        RAND_bytes(raw + MRD_CERT_KEY_MARK, MRD_CERT_SERIAL - MRD_CERT_KEY_MARK) != 1)
        return false;
    number = BN_bin2bn(raw, sizeof(raw), NULL);
    ok = number != NULL && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert)) != NULL;
    BN_free(number);
    return ok;
}

static bool
name_add(X509 *cert, const char *field, const char *value)
{
    return X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), field, MBSTRING_UTF8,
                                      (const unsigned char *) value, -1, -1, 0) == 1;
}

X509 *
mrd_cert_make(const char *name, EVP_PKEY *key, X509 *issuer)
{
    X509 *cert = X509_new();

    if (cert != NULL && X509_set_version(cert, 2) == 1 && serial_set(cert, key) &&
        X509_gmtime_adj(X509_getm_notBefore(cert), -EARLIER) != NULL &&
        X509_set_pubkey(cert, key) == 1 && name_add(cert, "O", "meridian") &&
        name_add(cert, "CN", name) &&
        X509_set_issuer_name(cert, X509_get_subject_name(issuer == NULL ? cert : issuer)) == 1)
        return cert;
    X509_free(cert);
    return NULL;
}

bool
mrd_cert_extend(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509_EXTENSION *ext;
    bool ok;

    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    ok = ext != NULL && X509_add_ext(cert, ext, -1) == 1;
    X509_EXTENSION_free(ext);
    return ok;
}

bool
mrd_cert_extend_leaf(X509 *cert, X509 *issuer, const char *usage)
{
    return mrd_cert_extend(cert, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
           mrd_cert_extend(cert, issuer, NID_key_usage, "critical,digitalSignature") &&
           mrd_cert_extend(cert, issuer, NID_ext_key_usage, usage) &&
           mrd_cert_extend(cert, issuer, NID_subject_key_identifier, "hash") &&
           mrd_cert_extend(cert, issuer, NID_authority_key_identifier, "keyid");
}
