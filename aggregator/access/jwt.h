/*
 * aggregator/access/jwt.h - verifies JSON Web Tokens (RFC 7519) of an OpenID Connect issuer with
 * the issuer's public keys (JWKS, RFC 7517). libcrypto verifies the signatures. This module does no
 * I/O and reads no clock.
 *
 * Accepts RS256 with keys of 2048 to 8192 bits and ES256 (P-256). The key determines the algorithm,
 * not the token. So "none", HMAC with a public key as the secret, and RS256 with an EC key are
 * refused. A token with "crit" in its header is refused, too. Issuer and audience must match, and
 * exp must be present.
 *
 * Threads  Any thread may call the functions. A key set is immutable.
 */
#ifndef MRD_AGGREGATOR_ACCESS_JWT_H
#define MRD_AGGREGATOR_ACCESS_JWT_H

#include "base/clock.h"
#include "base/conf/json.h"

#define MRD_JWT_MAX  16384        /* maximum length of a token */
#define MRD_JWKS_MAX (256u << 10) /* maximum bytes of a key set */

typedef struct mrd_jwks mrd_jwks;

/* Parses a JSON Web Key Set. Skips keys of unsupported kinds, and keys for encryption. Errors:
 * SYNTAX, TYPE, LIMIT (too many bytes, or more than 64 keys), EMPTY (no usable key), NOMEM. */
mrd_err mrd_jwks_parse(mrd_str text, mrd_jwks **ret_keys, mrd_why *why);
void mrd_jwks_free(mrd_jwks *keys); /* ignores NULL */

/* Returns true if the text has the form of a JWT: three base64url parts separated by dots. */
bool mrd_jwt_looks(mrd_str token);

/* Gets the claims of a token without verification. They may be used only to choose the issuer or to
 * refuse the token early. Errors: SYNTAX, LIMIT. Messages never contain the token. */
mrd_err mrd_jwt_peek(mrd_str token, mrd_json **ret_claims, mrd_why *why);
/* These two checks of mrd_jwt_verify need no key. mrd_jwt_is_for returns true if "aud" contains the
 * audience. mrd_jwt_left gets the seconds from `now` until "exp", and returns false if "exp" is
 * absent or in the past. */
bool mrd_jwt_is_for(const mrd_json *claims, const char *audience);
bool mrd_jwt_left(const mrd_json *claims, mrd_wall_ns now, int64_t *ret_seconds);

typedef struct {
    const char *issuer, *audience;
    mrd_dur_ns leeway; /* clock difference from the issuer that is allowed in time checks */
} mrd_jwt_rule;

/*
 * Verifies a token at time `now` and gets its claims. Errors: SYNTAX, LIMIT, AUTH (signature,
 * algorithm, issuer, audience or time), NOTFOUND. NOTFOUND means that the key set does not have the
 * key that the token names, so the issuer may have a newer set. Messages never contain the token.
 */
mrd_err mrd_jwt_verify(mrd_str token, const mrd_jwks *keys, const mrd_jwt_rule *rule,
                       mrd_wall_ns now, mrd_json **ret_claims, mrd_why *why);

#endif
