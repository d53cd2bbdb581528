/*
 * aggregator/access/oidc.h - identifies users and service accounts of an OpenID Connect issuer. The
 * module verifies their JSON Web Tokens with the issuer's public keys, which a thread fetches, and
 * maps the claims to callers.
 *
 * The settings are a JSON object in a file that only root and this user may write. Its members:
 *   issuer, audience   must match the values in a token.
 *   jwks               URL of the public keys (https, or http to this machine).
 *   ca-file            authority of the certificate of that server. Default: the system's.
 *   bearer-file        file with the token that is sent to that server. In Kubernetes this is the
 *                      token of the aggregator's account.
 *   user-claim         the claim with the owner's user name on the nodes.
 *   users              `{"alice@example": "alice"}` maps values of user-claim to user names. Other
 *                      values have no rights. Without `users` the claim itself is the user name.
 *   uid-claim          the claim with the owner's user id on the nodes.
 *   service-accounts   if true, the claim "sub" is "system:serviceaccount:NAMESPACE:NAME", and the
 *                      caller owns the sessions of jobs in NAMESPACE.
 *   roles-claim        the claim (a string or a list of strings) to which `roles` assigns a role.
 *   roles              `{"admin": ["hpc-admins"], "operator": [...], "read": [...]}`.
 *
 * The thread fetches the keys at the start, every 15 minutes, and when a token names an unknown key
 * (at most every 10 s). Keys older than a day are not used.
 *
 * Threads  Any thread may call the functions. No function waits for the network.
 */
#ifndef MRD_AGGREGATOR_ACCESS_OIDC_H
#define MRD_AGGREGATOR_ACCESS_OIDC_H

#include "aggregator/access/rights.h"
#include "base/clock.h"

typedef struct mrd_oidc mrd_oidc;

/* Opens the settings file and starts the thread that fetches keys. Errors: errors of reading the
 * file, INVALID (the message names the wrong member), DENIED (other users may write the file). */
mrd_err mrd_oidc_open(const char *path, mrd_oidc **ret_oidc, mrd_why *why);
void mrd_oidc_close(mrd_oidc *oidc); /* ignores NULL */
/* Verifies a token and identifies its holder. Errors: AUTH, AGAIN (no keys were fetched yet, or a
 * fetch may bring the key). Messages never contain the token. */
mrd_err mrd_oidc_identify(mrd_oidc *oidc, mrd_str token, mrd_caller *ret_caller, mrd_why *why);
/* Makes the thread fetch the issuer's keys at once, without the usual pause after the last attempt.
 * Does not wait for the result. */
void mrd_oidc_refresh(mrd_oidc *oidc);
const char *mrd_oidc_issuer(const mrd_oidc *oidc);
/* Gets the next message about a failed fetch of the keys. Returns false if there is none. */
bool mrd_oidc_next_error(mrd_oidc *oidc, mrd_why *ret_why);

#endif
