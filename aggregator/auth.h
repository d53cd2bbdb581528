/*
 * aggregator/auth.h - who may do what: bearer tokens with roles, compared in constant time.
 *
 * A token file is JSON: {"read": ["..."], "control": ["..."], "agent": [{"token": "...",
 * "instance": "i-0abc"}]}. An agent token without instance may speak for any instance. Files that
 * others may read, or a group may write, are refused. Tokens are kept as SHA-256 only.
 * Threads: any.
 */
#ifndef MRD_AGGREGATOR_AUTH_H
#define MRD_AGGREGATOR_AUTH_H

#include "base/buf.h"

typedef enum {
    MRD_ROLE_NONE,
    MRD_ROLE_READ,    /* look and download */
    MRD_ROLE_CONTROL, /* READ, and start, stop, trigger, delete */
    MRD_ROLE_AGENT,   /* publish as an instance; no READ */
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
/* True when a holder of `have` may do what needs `need`. */
bool mrd_role_allows(mrd_role have, mrd_role need);
const char *mrd_role_text(mrd_role role);

#endif
