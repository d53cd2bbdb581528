/*
 * aggregator/jwt.h - JSON Web Tokens (RFC 7519) as an OpenID Connect issuer signs them, proven with
 * its public keys (JWKS, RFC 7517). Signatures are libcrypto's; nothing here does I/O or reads a
 * clock.
 *
 * Taken are RS256 with keys of 2048 to 8192 bits and ES256 (P-256). The key decides what algorithm
 * it is for, not the token: "none", HMAC with a public key as the secret, and RS256 with an EC key
 * are refused, and so is a header with "crit". Issuer and audience must be the ones that are asked
 * for, exp must be there.
 * Threads: a key set is immutable; any.
 */
#ifndef MRD_AGGREGATOR_JWT_H
#define MRD_AGGREGATOR_JWT_H

#include "base/clock.h"
#include "base/json.h"

#define MRD_JWT_MAX  16384        /* characters of a token */
#define MRD_JWKS_MAX (256u << 10) /* bytes of a key set */

typedef struct mrd_jwks mrd_jwks;

/* Keys of other kinds and for encryption are passed over. Errors: SYNTAX, TYPE, LIMIT (bytes, 64
 * keys), EMPTY (none that can be used), NOMEM. */
mrd_err mrd_jwks_parse(mrd_str text, mrd_jwks **ret_keys, mrd_why *why);
void mrd_jwks_free(mrd_jwks *keys); /* NULL is fine */
size_t mrd_jwks_count(const mrd_jwks *keys);

/* True for what may be one: three parts of base64url with points between. */
bool mrd_jwt_looks(mrd_str token);

/* What a token says without proof: to choose who is asked for it, and to refuse. Errors: SYNTAX,
 * LIMIT; they never repeat the token. */
mrd_err mrd_jwt_peek(mrd_str token, mrd_json **ret_claims, mrd_why *why);
/* The parts of mrd_jwt_verify that look at claims alone: whether "aud" has the audience, and seconds
 * from now until "exp" (false: it does not say, or it is over). */
bool mrd_jwt_is_for(const mrd_json *claims, const char *audience);
bool mrd_jwt_left(const mrd_json *claims, mrd_wall_ns now, int64_t *ret_seconds);

typedef struct {
    const char *issuer, *audience;
    mrd_dur_ns leeway; /* that clocks may differ by */
} mrd_jwt_rule;

/*
 * The claims, when everything holds at that time. Errors never repeat the token: SYNTAX, LIMIT;
 * AUTH signature, algorithm, issuer, audience, time; NOTFOUND no key has its name, so that the
 * issuer may have a new one.
 */
mrd_err mrd_jwt_verify(mrd_str token, const mrd_jwks *keys, const mrd_jwt_rule *rule,
                       mrd_wall_ns now, mrd_json **ret_claims, mrd_why *why);

#endif
