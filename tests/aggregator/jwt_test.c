/* Tests the verification of JSON Web Tokens with the example of the RFC, with tokens that the test
 * signs, and with forged tokens. */
#include "aggregator/access/jwt.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/obj.h"
#include "tests/aggregator/jwt_make.h"
#include "tests/check.h"

#define NOW INT64_C(1770000000)

static const mrd_jwt_rule rule = { "https://login.example", "meridian", 30 * MRD_SEC };

static EVP_PKEY *rsa, *rsa_other, *ec;

static void
put_ec(EVP_PKEY *key, const char *more, mrd_buf *to)
{
    uint8_t point[65];
    size_t len = 0;

    CHECK(EVP_PKEY_get_octet_string_param(key, OSSL_PKEY_PARAM_PUB_KEY, point, sizeof(point),
                                          &len) == 1);
    CHECK(len == 65 && point[0] == 4);
    mrd_buf_fmt(to, "{\"kty\":\"EC\",\"crv\":\"P-256\",%s\"x\":\"", more);
    jwt_encode(point + 1, 32, to);
    mrd_buf_text(to, "\",\"y\":\"");
    jwt_encode(point + 33, 32, to);
    mrd_buf_text(to, "\"}");
}

static mrd_jwks *
set_of(const char *text)
{
    mrd_jwks *keys = NULL;
    mrd_why why = { 0 };

    if (mrd_jwks_parse(mrd_str_of(text), &keys, &why) != MRD_OK)
        fprintf(stderr, "%s\n", why.text);
    return keys;
}

/* Returns the issuer's keys: an RSA key with the id "r" and an EC key with the id "e". */
static mrd_jwks *
keys_of_issuer(void)
{
    mrd_buf text = { 0 };
    mrd_jwks *keys;

    mrd_buf_text(&text, "{\"keys\":[");
    jwt_put_rsa(rsa, "\"kid\":\"r\",\"alg\":\"RS256\",\"use\":\"sig\",", &text);
    mrd_buf_text(&text, ",");
    put_ec(ec, "\"kid\":\"e\",", &text);
    mrd_buf_text(&text, "]}");
    keys = set_of(mrd_buf_cstr(&text));
    mrd_buf_fini(&text);
    return keys;
}

static mrd_err
verify(mrd_str token, const mrd_jwks *keys, mrd_why *why)
{
    mrd_json *claims = NULL;
    mrd_err err = mrd_jwt_verify(token, keys, &rule, (mrd_wall_ns){ NOW * MRD_SEC }, &claims, why);

    CHECK((err == MRD_OK) == (claims != NULL));
    CHECK(err == MRD_OK || why->text[0] != '\0');
    mrd_json_free(claims);
    return err;
}

#define R256 "{\"alg\":\"RS256\",\"kid\":\"r\"}"
#define E256 "{\"alg\":\"ES256\",\"kid\":\"e\"}"
#define ISS  "\"iss\":\"https://login.example\""
#define AUD  "\"aud\":\"meridian\""
#define EXP  "\"exp\":1770000600"
#define GOOD "{" ISS "," AUD "," EXP ",\"sub\":\"alice\"}"

/* RFC 7515, A.3: a key and token from another source. The token has no audience. */
TEST(the_example_of_the_rfc)
{
    static const char key[] = "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\","
                              "\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
                              "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}]}";
    char token[] = "eyJhbGciOiJFUzI1NiJ9."
                   "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFt"
                   "cGxlLmNvbS9pc19yb290Ijp0cnVlfQ."
                   "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSA"
                   "pmWQxfKTUJqPP3-Kg6NU1Q";
    const mrd_jwt_rule joe = { "joe", "x", 0 };
    mrd_jwks *keys = set_of(key);
    mrd_json *claims = NULL;
    mrd_why why = { 0 };

    REQUIRE(keys != NULL);
    CHECK_ERR("another audience",
              mrd_jwt_verify(mrd_str_of(token), keys, &joe, (mrd_wall_ns){ 0 }, &claims, &why),
              MRD_AUTH);
    CHECK(strstr(why.text, "audience") != NULL);
    token[30] ^= 1;
    CHECK_ERR("changed",
              mrd_jwt_verify(mrd_str_of(token), keys, &joe, (mrd_wall_ns){ 0 }, &claims, &why),
              MRD_AUTH);
    CHECK(strstr(why.text, "signature") != NULL);
    mrd_jwks_free(keys);
}

TEST(what_a_token_must_say)
{
    static const struct {
        const char *what, *head, *claims;
        char key; /* r (RSA), o (another RSA key), e (elliptic curve), n (no signature) */
        mrd_err err;
    } rows[] = {
        { "RSA", R256, GOOD, 'r', MRD_OK },
        { "EC", E256, GOOD, 'e', MRD_OK },
        { "one of several audiences", R256, "{" ISS "," EXP ",\"aud\":[\"x\",\"meridian\"]}", 'r',
          MRD_OK },
        { "a time with a fraction", R256, "{" ISS "," AUD ",\"exp\":1770000600.5}", 'r', MRD_OK },
        { "within the leeway", R256, "{" ISS "," AUD ",\"exp\":1769999980}", 'r', MRD_OK },
        { "valid since", R256, "{" ISS "," AUD "," EXP ",\"nbf\":1769999999}", 'r', MRD_OK },
        { "expired", R256, "{" ISS "," AUD ",\"exp\":1769999970}", 'r', MRD_AUTH },
        { "no end", R256, "{" ISS "," AUD "}", 'r', MRD_AUTH },
        { "an end in words", R256, "{" ISS "," AUD ",\"exp\":\"1770000600\"}", 'r', MRD_AUTH },
        { "an end that no clock shows", R256, "{" ISS "," AUD ",\"exp\":1e300}", 'r', MRD_AUTH },
        { "an end before all times", R256, "{" ISS "," AUD ",\"exp\":-1}", 'r', MRD_AUTH },
        { "not yet", R256, "{" ISS "," AUD "," EXP ",\"nbf\":1770000100}", 'r', MRD_AUTH },
        { "not before what", R256, "{" ISS "," AUD "," EXP ",\"nbf\":null}", 'r', MRD_AUTH },
        { "another issuer", R256, "{\"iss\":\"https://login.example.evil\"," AUD "," EXP "}", 'r',
          MRD_AUTH },
        { "no issuer", R256, "{" AUD "," EXP "}", 'r', MRD_AUTH },
        { "another audience", R256, "{" ISS ",\"aud\":\"other\"," EXP "}", 'r', MRD_AUTH },
        { "audiences without us", R256, "{" ISS ",\"aud\":[\"a\",7]," EXP "}", 'r', MRD_AUTH },
        { "no audience", R256, "{" ISS "," EXP "}", 'r', MRD_AUTH },
        { "wrong key", R256, GOOD, 'o', MRD_AUTH },
        { "no signature", R256, GOOD, 'n', MRD_AUTH },
        { "alg none", "{\"alg\":\"none\"}", GOOD, 'n', MRD_AUTH },
        { "alg None, named key", "{\"alg\":\"None\",\"kid\":\"r\"}", GOOD, 'n', MRD_AUTH },
        { "no alg", "{\"kid\":\"r\"}", GOOD, 'r', MRD_AUTH },
        { "alg of another kind", "{\"alg\":5,\"kid\":\"r\"}", GOOD, 'r', MRD_AUTH },
        { "RSA signature for ES256", "{\"alg\":\"ES256\",\"kid\":\"r\"}", GOOD, 'r', MRD_AUTH },
        { "EC key for RS256", "{\"alg\":\"RS256\",\"kid\":\"e\"}", GOOD, 'e', MRD_AUTH },
        { "EC signature, RSA key", R256, GOOD, 'e', MRD_AUTH },
        { "RS512", "{\"alg\":\"RS512\",\"kid\":\"r\"}", GOOD, 'r', MRD_AUTH },
        { "unknown key", "{\"alg\":\"RS256\",\"kid\":\"new\"}", GOOD, 'r', MRD_NOTFOUND },
        { "no name among two keys", "{\"alg\":\"RS256\"}", GOOD, 'r', MRD_NOTFOUND },
        { "an empty name", "{\"alg\":\"RS256\",\"kid\":\"\"}", GOOD, 'r', MRD_NOTFOUND },
        { "a name that is a number", "{\"alg\":\"RS256\",\"kid\":1}", GOOD, 'r', MRD_SYNTAX },
        { "a key of its own", "{\"alg\":\"RS256\",\"kid\":\"new\",\"jwk\":{\"kty\":\"RSA\"}}", GOOD,
          'o', MRD_NOTFOUND },
        { "critical extension", "{\"alg\":\"RS256\",\"kid\":\"r\",\"crit\":[\"b64\"]}", GOOD, 'r',
          MRD_AUTH },
        { "a list as content", R256, "[]", 'r', MRD_SYNTAX },
        { "a member twice", R256, "{" ISS "," ISS "," AUD "," EXP "}", 'r', MRD_SYNTAX },
        { "no JSON", R256, "alice", 'r', MRD_SYNTAX },
    };
    mrd_jwks *keys = keys_of_issuer();
    mrd_buf token = { 0 };

    REQUIRE(keys != NULL);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        char by = rows[i].key;
        mrd_why why = { 0 };

        jwt_make(rows[i].head, rows[i].claims,
                 by == 'r'   ? rsa
                 : by == 'o' ? rsa_other
                 : by == 'e' ? ec
                             : NULL,
                 &token);
        CHECK_ERR(rows[i].what, verify((mrd_str){ (const char *) token.p, token.len }, keys, &why),
                  rows[i].err);
        CHECK_ROW(rows[i].what, strstr(why.text, mrd_buf_cstr(&token)) == NULL);
    }
    mrd_buf_fini(&token);
    mrd_jwks_free(keys);
}

/* The token has many other audiences. Only the length of a token is limited. */
TEST(the_last_of_many_audiences)
{
    mrd_jwks *keys = keys_of_issuer();
    mrd_buf claims = { 0 }, token = { 0 };

    REQUIRE(keys != NULL);
    for (int others = 63; others <= 300; others++) {
        mrd_why why = { 0 };

        mrd_buf_reset(&claims);
        mrd_buf_text(&claims, "{" ISS "," EXP ",\"aud\":[");
        for (int i = 0; i < others; i++)
            mrd_buf_fmt(&claims, "\"of%d\",", i);
        mrd_buf_text(&claims, "\"meridian\"]}");
        jwt_make(R256, mrd_buf_cstr(&claims), rsa, &token);
        CHECK_ERR("last", verify((mrd_str){ (const char *) token.p, token.len }, keys, &why),
                  MRD_OK);
    }
    mrd_buf_fini(&claims);
    mrd_buf_fini(&token);
    mrd_jwks_free(keys);
}

/* Uses the public key as an HMAC secret. A verifier that lets the token choose the algorithm would
 * accept that. */
TEST(a_public_key_is_no_secret)
{
    mrd_jwks *keys = keys_of_issuer();
    mrd_buf token = { 0 }, public = { 0 };
    uint8_t mac[32];
    unsigned n = sizeof(mac);
    mrd_why why = { 0 };

    REQUIRE(keys != NULL);
    jwt_put_rsa(rsa, "", &public);
    jwt_encode_text("{\"alg\":\"HS256\",\"kid\":\"r\"}", &token);
    mrd_buf_text(&token, ".");
    jwt_encode_text(GOOD, &token);
    CHECK(HMAC(EVP_sha256(), public.p, (int) public.len, token.p, token.len, mac, &n) != NULL);
    mrd_buf_text(&token, ".");
    jwt_encode(mac, n, &token);
    CHECK_ERR("HS256", verify((mrd_str){ (const char *) token.p, token.len }, keys, &why),
              MRD_AUTH);
    mrd_buf_fini(&public);
    mrd_buf_fini(&token);
    mrd_jwks_free(keys);
}

/* A valid token that is cut at any position, or has any character changed, is refused. The copy
 * ends exactly at its end, so that a sanitizer detects a read after it. */
TEST(damaged_tokens)
{
    mrd_jwks *keys = keys_of_issuer();
    mrd_buf token = { 0 };
    mrd_why why = { 0 };

    REQUIRE(keys != NULL);
    for (int which = 0; which < 2; which++) {
        jwt_make(which == 0 ? R256 : E256, GOOD, which == 0 ? rsa : ec, &token);
        for (size_t n = 0; n < token.len; n++) {
            char *cut = malloc(n + 1), *changed = malloc(token.len);

            memcpy(cut, token.p, n);
            CHECK(verify((mrd_str){ cut, n }, keys, &why) != MRD_OK);
            memcpy(changed, token.p, token.len);
            changed[n] = changed[n] == 'A' ? 'B' : 'A';
            CHECK(verify((mrd_str){ changed, token.len }, keys, &why) != MRD_OK);
            free(cut);
            free(changed);
        }
        mrd_buf_text(&token, ".x");
        CHECK(verify((mrd_str){ (const char *) token.p, token.len }, keys, &why) == MRD_SYNTAX);
    }
    mrd_buf_reset(&token);
    while (token.len <= MRD_JWT_MAX)
        mrd_buf_text(&token, "eyJh.bGci.");
    CHECK(verify((mrd_str){ (const char *) token.p, token.len }, keys, &why) == MRD_LIMIT);
    mrd_buf_fini(&token);
    mrd_jwks_free(keys);
}

TEST(key_sets)
{
    static const struct {
        const char *what, *text;
        mrd_err err;
    } rows[] = {
        { "no JSON", "<html>", MRD_SYNTAX },
        { "a list", "[]", MRD_TYPE },
        { "no keys", "{}", MRD_TYPE },
        { "an empty list", "{\"keys\":[]}", MRD_EMPTY },
        { "a secret", "{\"keys\":[{\"kty\":\"oct\",\"k\":\"AAAA\"}]}", MRD_EMPTY },
        { "not on the curve",
          "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\","
          "\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
          "\"y\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\"}]}",
          MRD_EMPTY },
        { "another curve",
          "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-384\",\"x\":\"AA\",\"y\":\"AA\"}]}", MRD_EMPTY },
        { "a short modulus", "{\"keys\":[{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\"}]}",
          MRD_EMPTY },
        { "members of other types", "{\"keys\":[7,null,{\"kty\":\"RSA\",\"n\":7,\"e\":[]}]}",
          MRD_EMPTY },
    };
    mrd_buf text = { 0 };
    mrd_jwks *keys = NULL;
    mrd_why why = { 0 };

    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        CHECK_ERR(rows[i].what, mrd_jwks_parse(mrd_str_of(rows[i].text), &keys, &why), rows[i].err);
    /* A key for encryption or for another algorithm is ignored. */
    mrd_buf_text(&text, "{\"keys\":[");
    jwt_put_rsa(rsa, "\"use\":\"enc\",", &text);
    mrd_buf_text(&text, ",");
    jwt_put_rsa(rsa, "\"alg\":\"PS256\",", &text);
    mrd_buf_text(&text, "]}");
    CHECK_ERR("other uses", mrd_jwks_parse(mrd_str_of(mrd_buf_cstr(&text)), &keys, &why),
              MRD_EMPTY);
    mrd_buf_reset(&text);
    mrd_buf_text(&text, "{\"keys\":[0");
    for (int i = 0; i < 64; i++)
        mrd_buf_text(&text, ",0");
    mrd_buf_text(&text, "]}");
    CHECK_ERR("65 keys", mrd_jwks_parse(mrd_str_of(mrd_buf_cstr(&text)), &keys, &why), MRD_LIMIT);
    mrd_buf_fini(&text);
}

int
main(int argc, char **argv)
{
    rsa = EVP_RSA_gen(2048);
    rsa_other = EVP_RSA_gen(2048);
    ec = EVP_EC_gen("P-256");
    return rsa == NULL || rsa_other == NULL || ec == NULL ? 1 : test_main(argc, argv);
}
