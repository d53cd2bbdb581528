/*
 * aggregator/oidc.h - people and service accounts that an OpenID Connect issuer names: their JSON Web
 * Tokens are proven with its public keys, which a thread fetches, and claims become callers.
 *
 * The settings are a JSON object in a file that nobody but root and this user may write:
 *   issuer, audience   must be those of a token
 *   jwks               URL of the keys; https, or http to this machine
 *   ca-file            authority of that server; default: the system's
 *   bearer-file        token that is sent to it (Kubernetes: that of the aggregator's own account)
 *   user-claim         whose text is the owner's name on the nodes
 *   users              {"alice@example": "alice"}: names for its texts; others are nobody. Without
 *                      it the text itself is the name
 *   uid-claim          whose integer is the owner's number on the nodes
 *   service-accounts   true: sub is "system:serviceaccount:NAMESPACE:NAME", the owner's namespace
 *   roles-claim        whose text or list of texts gives a role, by
 *   roles              {"admin": ["hpc-admins"], "operator": [...], "read": [...]}
 *
 * Keys are fetched at the start, every 15 minutes, and when a token names a key that is not there (at
 * most every 10 s). Keys older than a day count no more.
 * Threads: any; nothing waits for the network.
 */
#ifndef MRD_AGGREGATOR_OIDC_H
#define MRD_AGGREGATOR_OIDC_H

#include "aggregator/rights.h"
#include "base/clock.h"

typedef struct mrd_oidc mrd_oidc;

/* Errors: of the file; INVALID names the member that is wrong; DENIED others may write it. */
mrd_err mrd_oidc_open(const char *path, mrd_oidc **ret_oidc, mrd_why *why);
void mrd_oidc_close(mrd_oidc *oidc); /* NULL is fine */
/* Errors, which never repeat the token: AUTH; AGAIN the keys are not here yet. */
mrd_err mrd_oidc_identify(mrd_oidc *oidc, mrd_str token, mrd_caller *ret_caller, mrd_why *why);
/* The keys again, now, whatever was tried lately. */
void mrd_oidc_refresh(mrd_oidc *oidc);
const char *mrd_oidc_issuer(const mrd_oidc *oidc);
/* The next message about keys that could not be fetched; false when there is none. */
bool mrd_oidc_next_error(mrd_oidc *oidc, mrd_why *ret_why);

#endif
