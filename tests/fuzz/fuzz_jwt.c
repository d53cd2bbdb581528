/* Fuzzes the verification of JSON Web Tokens. The input is a key set and, after a NUL, a token. The
 * fuzzer does not know the private keys, so the only valid token is the one in the corpus. Errors
 * have a text, which never contains the token. */
#include "aggregator/access/jwt.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The example of RFC 7515, A.2 and A.3. Its tokens have no audience and are from 2011. */
static const mrd_jwt_rule rule = { "joe", "meridian", 30 * MRD_SEC };

static void
check_error(const mrd_why *why, mrd_err err, mrd_str token)
{
    if (err == MRD_OK || why->err != err || why->text[0] == '\0')
        abort();
    if (token.len >= 16 && memmem(why->text, strlen(why->text), token.p, token.len) != NULL)
        abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size == 0 ? NULL : memchr(data, 0, size);
    mrd_str set = { (const char *) data, end == NULL ? size : (size_t) (end - data) };
    mrd_str token = { (const char *) data + set.len, 0 };
    mrd_jwks *keys = NULL;
    mrd_json *claims = NULL;
    mrd_why why = { 0 };
    int64_t seconds = 0;
    mrd_err err;

    if (end != NULL)
        token = (mrd_str){ (const char *) end + 1, size - set.len - 1 };
    if ((err = mrd_jwt_peek(token, &claims, &why)) != MRD_OK) {
        check_error(&why, err, token);
    } else {
        (void) mrd_jwt_is_for(claims, "meridian");
        if (mrd_jwt_left(claims, (mrd_wall_ns){ 0 }, &seconds) && seconds <= 0)
            abort();
        if (!mrd_jwt_looks(token))
            abort();
        mrd_json_free(claims);
    }
    why = (mrd_why){ 0 };
    if ((err = mrd_jwks_parse(set, &keys, &why)) != MRD_OK) {
        check_error(&why, err, token);
        return 0;
    }
    why = (mrd_why){ 0 };
    err = mrd_jwt_verify(token, keys, &rule, (mrd_wall_ns){ INT64_C(1300819370) * MRD_SEC },
                         &claims, &why);
    if (err == MRD_OK) /* for no audience at all */
        abort();
    check_error(&why, err, token);
    mrd_jwks_free(keys);
    return 0;
}
