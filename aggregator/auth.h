/*
 * aggregator/auth.h - who a caller is: bearer tokens with roles, compared in constant time.
 *
 * A token file is JSON: {"read": ["..."], "operator": ["..."], "admin": ["..."], "agent":
 * [{"token": "...", "instance": "i-0abc"}]}; "control" is what "admin" was called before. An agent
 * token without instance may speak for any instance. Files that others may read, or a group may
 * write, are refused. Tokens are kept as SHA-256 only. What a role may do: aggregator/rights.h.
 * Threads: any.
 */
#ifndef MRD_AGGREGATOR_AUTH_H
#define MRD_AGGREGATOR_AUTH_H

#include "base/buf.h"
#include "base/hash.h"

typedef enum {
    MRD_ROLE_NONE,
    MRD_ROLE_OWNER,    /* has jobs; never of a token file */
    MRD_ROLE_READ,     /* look and download, all of it */
    MRD_ROLE_OPERATOR, /* READ, and start, stop, trigger */
    MRD_ROLE_ADMIN,    /* OPERATOR, and delete, forget */
    MRD_ROLE_AGENT,    /* publish as an instance; no READ */
} mrd_role;

typedef struct mrd_auth mrd_auth;

/* Errors: NOTFOUND, DENIED (readable by others), SYNTAX, TYPE, LIMIT (token shorter than 16
 * characters). */
mrd_err mrd_auth_load(const char *path, mrd_auth **ret_auth, mrd_why *why);
/* The same of the text of a file; it cannot be reloaded. */
mrd_err mrd_auth_parse(mrd_str text, const char *name, mrd_auth **ret_auth, mrd_why *why);
void mrd_auth_free(mrd_auth *auth);
/* The file again: from now on its tokens count, and no other. Errors leave the old ones. */
mrd_err mrd_auth_reload(mrd_auth *auth, mrd_why *why);
/* True when the file is not what was last read with success. */
bool mrd_auth_changed(mrd_auth *auth);
/* The role of a token, NONE when unknown. All tokens are compared, whichever matches. */
mrd_role mrd_auth_role(const mrd_auth *auth, mrd_str token);
/* True when this agent token may publish as the instance. */
bool mrd_auth_agent(const mrd_auth *auth, mrd_str token, mrd_str instance);
/* The SHA-256 of a token; false without memory, or when no token has that length. */
bool mrd_auth_digest(mrd_str token, char digest[MRD_SHA256_HEX]);
const char *mrd_role_text(mrd_role role);

#endif
