#include "aggregator/access/jwt.h"

#include <stdlib.h>

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>

#include "base/obj.h"

enum { KEYS_MAX = 64, KID_MAX = 256, MODULUS_MAX = 1024, HALF = 32, SIGNATURE_MAX = MODULUS_MAX };
#define SECONDS_MAX (INT64_C(1) << 33) /* upper limit of a time claim, in seconds since 1970 */

typedef struct {
    char kid[KID_MAX]; /* id of the key ("kid"); "" means none */
    bool ec;           /* true for an EC key (ES256), false for an RSA key (RS256) */
    EVP_PKEY *key;
} jwk;

struct mrd_jwks {
    jwk keys[KEYS_MAX];
    size_t n;
};

/* ---- base64url without padding; only the canonical encoding of a value is accepted ---- */

static int
digit_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '-' ? 62 : c == '_' ? 63 : -1;
}

/* Decodes base64url and appends the bytes. Returns false if the text is invalid. */
static bool
decode(mrd_str text, mrd_buf *to)
{
    uint32_t bits = 0;
    unsigned n = 0;

    for (size_t i = 0; i < text.len; i++) {
        int d = digit_of(text.p[i]);

        if (d < 0)
            return false;
        bits = bits << 6 | (uint32_t) d;
        if ((n += 6) >= 8) {
            n -= 8;
            mrd_buf_byte(to, (uint8_t) (bits >> n));
            bits &= (1u << n) - 1;
        }
    }
    return n < 6 && bits == 0 && to->err == MRD_OK;
}

/* Decodes the base64url number under the key `name` of a JSON Web Key. Returns false if it has more
 * than `max` bytes. */
static bool
decode_member(const mrd_json *json, const char *name, size_t max, mrd_buf *to)
{
    mrd_str text = mrd_str_of(mrd_json_str(json, name, ""));

    return text.len > 0 && text.len <= max * 4 / 3 + 4 && decode(text, to) && to->len > 0 &&
           to->len <= max;
}

/* ---- Public keys of the issuer ---- */

static EVP_PKEY *
key_of_params(const char *type, OSSL_PARAM_BLD *build)
{
    OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(build);
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, type, NULL), *check = NULL;
    EVP_PKEY *key = NULL;

    if (params == NULL || ctx == NULL || EVP_PKEY_fromdata_init(ctx) != 1 ||
        EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_PUBLIC_KEY, params) != 1)
        key = NULL;
    /* EVP_PKEY_public_check verifies that an EC point is on its curve, that the RSA exponent is
     * odd, and that the RSA modulus has no small factors */
    if (key != NULL && ((check = EVP_PKEY_CTX_new_from_pkey(NULL, key, NULL)) == NULL ||
                        EVP_PKEY_public_check(check) != 1)) {
        EVP_PKEY_free(key);
        key = NULL;
    }
    EVP_PKEY_CTX_free(check);
    EVP_PKEY_CTX_free(ctx);
    OSSL_PARAM_free(params);
    return key;
}

static EVP_PKEY *
rsa_key(const mrd_json *json)
{
    mrd_buf buf = { 0 }, e = { 0 };
    OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    BIGNUM *bn = NULL, *be = NULL;
    EVP_PKEY *key = NULL;

    if (build != NULL && decode_member(json, "n", MODULUS_MAX, &buf) &&
        decode_member(json, "e", 8, &e) && (bn = BN_bin2bn(buf.p, (int) buf.len, NULL)) != NULL &&
        (be = BN_bin2bn(e.p, (int) e.len, NULL)) != NULL && BN_num_bits(bn) >= 2048 &&
        BN_is_odd(be) && BN_num_bits(be) >= 2 &&
        OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_N, bn) == 1 &&
        OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_E, be) == 1)
        key = key_of_params("RSA", build);
    BN_free(bn);
    BN_free(be);
    OSSL_PARAM_BLD_free(build);
    mrd_buf_fini(&buf);
    mrd_buf_fini(&e);
    return key;
}

static EVP_PKEY *
ec_key(const mrd_json *json)
{
    mrd_buf x = { 0 }, y = { 0 };
    OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    uint8_t point[1 + 2 * HALF] = { 4 };
    EVP_PKEY *key = NULL;

    if (build != NULL && strcmp(mrd_json_str(json, "crv", ""), "P-256") == 0 &&
        decode_member(json, "x", HALF, &x) && decode_member(json, "y", HALF, &y) && x.len == HALF &&
        y.len == HALF) {
        memcpy(point + 1, x.p, HALF);
        memcpy(point + 1 + HALF, y.p, HALF);
        if (OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) ==
                1 &&
            OSSL_PARAM_BLD_push_octet_string(build, OSSL_PKEY_PARAM_PUB_KEY, point,
                                             sizeof(point)) == 1)
            key = key_of_params("EC", build);
    }
    OSSL_PARAM_BLD_free(build);
    mrd_buf_fini(&x);
    mrd_buf_fini(&y);
    return key;
}

/* Reads one key of a key set. Returns false if the key has another kind or use, so that it must be
 * skipped. */
static bool
key_read(const mrd_json *json, jwk *to)
{
    const char *type = mrd_json_str(json, "kty", ""), *kid = mrd_json_str(json, "kid", "");
    const char *alg = mrd_json_str(json, "alg", NULL), *use = mrd_json_str(json, "use", "sig");

    *to = (jwk){ .ec = strcmp(type, "EC") == 0 };
    if ((!to->ec && strcmp(type, "RSA") != 0) || strcmp(use, "sig") != 0 ||
        strlen(kid) >= sizeof(to->kid) ||
        (alg != NULL && strcmp(alg, to->ec ? "ES256" : "RS256") != 0))
        return false;
    memcpy(to->kid, kid, strlen(kid));
    to->key = to->ec ? ec_key(json) : rsa_key(json);
    return to->key != NULL;
}

mrd_err
mrd_jwks_parse(mrd_str text, mrd_jwks **ret_keys, mrd_why *why)
{
    mrd_jwks *keys;
    mrd_json *doc = NULL, *list;
    mrd_err err = mrd_json_parse_up_to(text, MRD_JWKS_MAX, "key set", &doc, why);

    if (err != MRD_OK)
        return err;
    list = mrd_json_is_object(doc) ? mrd_json_get(doc, "keys") : NULL;
    if ((keys = calloc(1, sizeof(*keys))) == NULL)
        err = mrd_why_set(why, MRD_NOMEM, 0, "key set");
    else if (!mrd_json_is_array(list))
        err = mrd_why_set(why, MRD_TYPE, 0, "a key set is an object with a list 'keys'");
    else if (mrd_json_size(list) > KEYS_MAX)
        err = mrd_why_set(why, MRD_LIMIT, 0, "a key set of %zu keys: at most %d are taken",
                          mrd_json_size(list), KEYS_MAX);
    for (size_t i = 0; err == MRD_OK && i < mrd_json_size(list); i++)
        keys->n += key_read(mrd_json_at(list, i), &keys->keys[keys->n]);
    if (err == MRD_OK && keys->n == 0)
        err = mrd_why_set(why, MRD_EMPTY, 0,
                          "the key set has no key that can be used: RSA of 2048 bits or more, or "
                          "P-256, for signatures");
    mrd_json_free(doc);
    if (err != MRD_OK)
        mrd_jwks_free(keys);
    else
        *ret_keys = keys;
    return err;
}

void
mrd_jwks_free(mrd_jwks *keys)
{
    for (size_t i = 0; keys != NULL && i < keys->n; i++)
        EVP_PKEY_free(keys->keys[i].key);
    free(keys);
}

/* ---- Verifying a token ---- */

typedef struct {
    mrd_str head, body, signature, signed_text;
} parts;

static bool
split(mrd_str token, parts *to)
{
    const char *end = token.p + token.len;
    const char *one = memchr(token.p, '.', token.len), *two;

    if (one == NULL || (two = memchr(one + 1, '.', (size_t) (end - one - 1))) == NULL ||
        memchr(two + 1, '.', (size_t) (end - two - 1)) != NULL)
        return false;
    to->head = (mrd_str){ token.p, (size_t) (one - token.p) };
    to->body = (mrd_str){ one + 1, (size_t) (two - one - 1) };
    to->signature = (mrd_str){ two + 1, (size_t) (end - two - 1) };
    to->signed_text = (mrd_str){ token.p, (size_t) (two - token.p) };
    return to->head.len > 0 && to->body.len > 0;
}

bool
mrd_jwt_looks(mrd_str token)
{
    parts p;

    return token.len > 0 && split(token, &p);
}

static mrd_err
object_of(mrd_str text, const char *what, mrd_json **ret_doc, mrd_why *why)
{
    mrd_buf plain = { 0 };
    mrd_json *doc = NULL;
    bool ok = decode(text, &plain) &&
              mrd_json_parse((mrd_str){ (const char *) plain.p, plain.len }, what, &doc, NULL) ==
                  MRD_OK &&
              mrd_json_is_object(doc);

    mrd_buf_fini(&plain);
    if (ok)
        *ret_doc = doc;
    else
        mrd_json_free(doc);
    return ok ? MRD_OK : mrd_why_set(why, MRD_SYNTAX, 0, "the %s of the token is not JSON", what);
}

/* Finds the key that the token's header names ("kid"). A header without a name is accepted only if
 * the set has exactly one key. */
static mrd_err
key_for(const mrd_json *head, const mrd_jwks *keys, const jwk **ret_key, mrd_why *why)
{
    const char *alg = mrd_json_str(head, "alg", ""), *kid = mrd_json_str(head, "kid", NULL);
    bool ec = strcmp(alg, "ES256") == 0;
    const jwk *found = NULL;

    if (!ec && strcmp(alg, "RS256") != 0)
        return mrd_why_set(why, MRD_AUTH, 0, "the token is not signed with RS256 or ES256");
    if (mrd_json_get(head, "crit") != NULL)
        return mrd_why_set(why, MRD_AUTH, 0,
                           "the token has critical extensions (crit), which are not supported");
    if (kid == NULL && mrd_json_get(head, "kid") != NULL)
        return mrd_why_set(why, MRD_SYNTAX, 0, "the key id (kid) of the token is not text");
    for (size_t i = 0; i < keys->n; i++) {
        const jwk *k = &keys->keys[i];

        if (kid == NULL ? keys->n == 1 : k->kid[0] != '\0' && strcmp(k->kid, kid) == 0)
            found = found == NULL || k->ec == ec ? k : found;
    }
    if (found == NULL)
        return mrd_why_set(why, MRD_NOTFOUND, 0,
                           "the issuer has no key with the key id (kid) of the token");
    if (found->ec != ec)
        return mrd_why_set(
            why, MRD_AUTH, 0,
            "the issuer's key with this id is for another algorithm than the token's");
    *ret_key = found;
    return MRD_OK;
}

/* Encodes an ES256 signature (r and s, 32 bytes each) as DER for libcrypto. Returns the length, 0
 * if the numbers are not valid. */
static size_t
der_of(const uint8_t raw[2 * HALF], uint8_t **ret_der)
{
    ECDSA_SIG *sig = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(raw, HALF, NULL), *s = BN_bin2bn(raw + HALF, HALF, NULL);
    int len = 0;

    if (sig != NULL && r != NULL && s != NULL && ECDSA_SIG_set0(sig, r, s) == 1) {
        len = i2d_ECDSA_SIG(sig, ret_der);
    } else {
        BN_free(r);
        BN_free(s);
    }
    ECDSA_SIG_free(sig);
    return len > 0 ? (size_t) len : 0;
}

static bool
signed_by(const jwk *k, mrd_str text, mrd_str signature)
{
    mrd_buf raw = { 0 };
    uint8_t *der = NULL;
    const uint8_t *sig;
    size_t len;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool ok = signature.len <= SIGNATURE_MAX * 2 && decode(signature, &raw) && ctx != NULL;

    sig = raw.p;
    len = raw.len;
    if (ok && k->ec) {
        ok = raw.len == 2 * HALF && (len = der_of(raw.p, &der)) > 0;
        sig = der;
    }
    ok = ok && EVP_DigestVerifyInit(ctx, NULL, EVP_sha256(), NULL, k->key) == 1 &&
         EVP_DigestVerify(ctx, sig, len, (const uint8_t *) text.p, text.len) == 1;
    EVP_MD_CTX_free(ctx);
    OPENSSL_free(der);
    mrd_buf_fini(&raw);
    return ok;
}

/* Gets a claim that is a time, in seconds, rounded down. Returns false if it is absent or out of
 * range. */
static bool
time_of(const mrd_json *claims, const char *name, int64_t *ret_seconds)
{
    const mrd_json *json = mrd_json_get(claims, name);
    mrd_json_type type = mrd_json_type_of(json);
    double d = mrd_json_num(claims, name, -1);

    if ((type != MRD_JSON_INT && type != MRD_JSON_REAL) || !(d >= 0 && d < (double) SECONDS_MAX))
        return false;
    *ret_seconds = (int64_t) d;
    return true;
}

static bool
is_for(const mrd_json *aud, const char *audience)
{
    char scratch[64];
    mrd_str text;

    if (mrd_json_type_of(aud) == MRD_JSON_TEXT)
        return mrd_json_text(aud, scratch, &text) == MRD_OK && mrd_str_is(text, audience);
    for (size_t i = 0; mrd_json_is_array(aud) && i < mrd_json_size(aud); i++)
        if (mrd_json_type_of(mrd_json_at(aud, i)) == MRD_JSON_TEXT &&
            mrd_json_text(mrd_json_at(aud, i), scratch, &text) == MRD_OK &&
            mrd_str_is(text, audience))
            return true;
    return false;
}

mrd_err
mrd_jwt_peek(mrd_str token, mrd_json **ret_claims, mrd_why *why)
{
    parts p;

    if (token.len > MRD_JWT_MAX)
        return mrd_why_set(why, MRD_LIMIT, 0, "a token has at most %d characters", MRD_JWT_MAX);
    if (token.len == 0 || !split(token, &p))
        return mrd_why_set(why, MRD_SYNTAX, 0, "this is no JSON Web Token");
    return object_of(p.body, "content", ret_claims, why);
}

bool
mrd_jwt_is_for(const mrd_json *claims, const char *audience)
{
    return is_for(mrd_json_get(claims, "aud"), audience);
}

bool
mrd_jwt_left(const mrd_json *claims, mrd_wall_ns now, int64_t *ret_seconds)
{
    int64_t to;

    if (!time_of(claims, "exp", &to) || to <= now.ns / MRD_SEC)
        return false;
    *ret_seconds = to - now.ns / MRD_SEC;
    return true;
}

static mrd_err
check_claims(const mrd_json *claims, const mrd_jwt_rule *rule, mrd_wall_ns now, mrd_why *why)
{
    int64_t s = now.ns / MRD_SEC, leeway = rule->leeway / MRD_SEC, from, to;

    if (strcmp(mrd_json_str(claims, "iss", ""), rule->issuer) != 0)
        return mrd_why_set(why, MRD_AUTH, 0, "the token is from another issuer");
    if (!is_for(mrd_json_get(claims, "aud"), rule->audience))
        return mrd_why_set(why, MRD_AUTH, 0, "the token is for another audience");
    if (!time_of(claims, "exp", &to))
        return mrd_why_set(why, MRD_AUTH, 0, "the token does not say when it expires");
    if (s >= to + leeway)
        return mrd_why_set(why, MRD_AUTH, 0, "the token has expired");
    if (mrd_json_get(claims, "nbf") == NULL)
        return MRD_OK;
    if (!time_of(claims, "nbf", &from) || s + leeway < from)
        return mrd_why_set(why, MRD_AUTH, 0, "the token is not valid yet");
    return MRD_OK;
}

mrd_err
mrd_jwt_verify(mrd_str token, const mrd_jwks *keys, const mrd_jwt_rule *rule, mrd_wall_ns now,
               mrd_json **ret_claims, mrd_why *why)
{
    mrd_json *head = NULL, *claims = NULL;
    const jwk *key = NULL;
    parts p;
    mrd_err err;

    if (token.len > MRD_JWT_MAX)
        return mrd_why_set(why, MRD_LIMIT, 0, "a token has at most %d characters", MRD_JWT_MAX);
    if (!split(token, &p))
        return mrd_why_set(why, MRD_SYNTAX, 0, "not a JSON Web Token");
    if ((err = object_of(p.head, "header", &head, why)) == MRD_OK &&
        (err = key_for(head, keys, &key, why)) == MRD_OK &&
        !signed_by(key, p.signed_text, p.signature))
        err = mrd_why_set(why, MRD_AUTH, 0, "the token's signature is not the issuer's");
    /* The claims are parsed only after the signature was verified. */
    if (err == MRD_OK && (err = object_of(p.body, "content", &claims, why)) == MRD_OK)
        err = check_claims(claims, rule, now, why);
    mrd_json_free(head);
    if (err != MRD_OK)
        mrd_json_free(claims);
    else
        *ret_claims = claims;
    return err;
}
