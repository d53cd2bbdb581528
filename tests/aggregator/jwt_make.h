/*
 * tests/aggregator/jwt_make.h - makes the JSON Web Tokens and the public keys of an issuer, for tests.
 */
#ifndef MRD_TESTS_AGGREGATOR_JWT_MAKE_H
#define MRD_TESTS_AGGREGATOR_JWT_MAKE_H

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>

#include "base/buf.h"
#include "tests/check.h"

/* Appends the bytes in base64url. */
static inline void
jwt_encode(const uint8_t *p, size_t n, mrd_buf *to)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

    for (size_t i = 0; i < n; i += 3) {
        uint32_t v = (uint32_t) p[i] << 16 | (i + 1 < n ? (uint32_t) p[i + 1] << 8 : 0) |
                     (i + 2 < n ? p[i + 2] : 0);

        for (unsigned k = 0; k < 4 && i + k <= n; k++)
            mrd_buf_byte(to, (uint8_t) digits[v >> (18 - 6 * k) & 63]);
    }
}

static inline void
jwt_encode_text(const char *text, mrd_buf *to)
{
    jwt_encode((const uint8_t *) text, strlen(text), to);
}

/* Appends a number of the key in base64url. */
static inline void
jwt_put_number(EVP_PKEY *key, const char *param, mrd_buf *to)
{
    BIGNUM *b = NULL;
    uint8_t bytes[1024];

    CHECK(EVP_PKEY_get_bn_param(key, param, &b) == 1);
    jwt_encode(bytes, (size_t) BN_bn2bin(b, bytes), to);
    BN_free(b);
}

/* Appends the public key as an object of a JWKS. `more` holds further members, each with a comma after it. */
static inline void
jwt_put_rsa(EVP_PKEY *key, const char *more, mrd_buf *to)
{
    mrd_buf_fmt(to, "{\"kty\":\"RSA\",%s\"n\":\"", more);
    jwt_put_number(key, OSSL_PKEY_PARAM_RSA_N, to);
    mrd_buf_text(to, "\",\"e\":\"");
    jwt_put_number(key, OSSL_PKEY_PARAM_RSA_E, to);
    mrd_buf_text(to, "\"}");
}

/* Converts a signature of P-256 from DER to the form of a JWT. Returns its length. */
static inline size_t
jwt_raw_of(const uint8_t *der, size_t len, uint8_t raw[64])
{
    ECDSA_SIG *sig = d2i_ECDSA_SIG(NULL, &der, (long) len);

    BN_bn2binpad(ECDSA_SIG_get0_r(sig), raw, 32);
    BN_bn2binpad(ECDSA_SIG_get0_s(sig), raw + 32, 32);
    ECDSA_SIG_free(sig);
    return 64;
}

/* Replaces `to` by the token of head and claims, signed by the key. Without a key the signature is empty. */
static inline void
jwt_make(const char *head, const char *claims, EVP_PKEY *key, mrd_buf *to)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    uint8_t der[1024], raw[64];
    size_t len = sizeof(der);

    mrd_buf_reset(to);
    jwt_encode_text(head, to);
    mrd_buf_text(to, ".");
    jwt_encode_text(claims, to);
    if (key != NULL) {
        CHECK(EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, key) == 1);
        CHECK(EVP_DigestSign(ctx, der, &len, to->p, to->len) == 1);
    }
    mrd_buf_text(to, ".");
    if (key != NULL && EVP_PKEY_is_a(key, "EC"))
        jwt_encode(raw, jwt_raw_of(der, len, raw), to);
    else if (key != NULL)
        jwt_encode(der, len, to);
    EVP_MD_CTX_free(ctx);
}

#endif
