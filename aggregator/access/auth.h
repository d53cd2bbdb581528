/*
 * aggregator/access/auth.h - identifies callers by bearer tokens. Each token has a role, and
 * aggregator/access/rights.h lists the rights of the roles. Tokens are compared in constant time.
 *
 * A token file is a JSON object with these members:
 *   read, operator, admin   `["TOKEN", ...]`
 *   agent                   `[{"token": "TOKEN", "instance": "i-0abc"}, ...]`
 *
 * "control" is an older name of "admin". An agent token without instance is valid for any instance.
 * The module refuses a token file that others may read or a group may write. It stores only the
 * SHA-256 of a token.
 *
 * Threads  Any thread may call the functions.
 */
#ifndef MRD_AGGREGATOR_ACCESS_AUTH_H
#define MRD_AGGREGATOR_ACCESS_AUTH_H

#include "base/buf.h"
#include "base/hash.h"

typedef enum {
    MRD_ROLE_NONE,
    /* may use the sessions of its own jobs; a token file cannot give this role */
    MRD_ROLE_OWNER,
    MRD_ROLE_READ,     /* may read and download everything */
    MRD_ROLE_OPERATOR, /* may also start, stop and trigger sessions */
    MRD_ROLE_ADMIN,    /* may also delete sessions and forget nodes */
    MRD_ROLE_AGENT,    /* may only send the data of its own node (instance) */
} mrd_role;

typedef struct mrd_auth mrd_auth;

/* Loads a token file. Errors: NOTFOUND, DENIED (other users may read the file), SYNTAX, TYPE, LIMIT
 * (a token is shorter than 16 characters). */
mrd_err mrd_auth_load(const char *path, mrd_auth **ret_auth, mrd_why *why);
/* Parses the text of a token file. mrd_auth_reload cannot be used for the result. */
mrd_err mrd_auth_parse(mrd_str text, const char *name, mrd_auth **ret_auth, mrd_why *why);
void mrd_auth_free(mrd_auth *auth);
/* Reads the file again and replaces all tokens. On errors the old tokens stay. */
mrd_err mrd_auth_reload(mrd_auth *auth, mrd_why *why);
/* Returns true if the file differs from the last version that was read without error. */
bool mrd_auth_changed(mrd_auth *auth);
/* Returns the role of a token, NONE if it is unknown. Always compares with all tokens, so that the
 * duration reveals nothing about them. */
mrd_role mrd_auth_role(const mrd_auth *auth, mrd_str token);
/* Returns true if this is an agent token with which an agent may send data of the instance. */
bool mrd_auth_agent(const mrd_auth *auth, mrd_str token, mrd_str instance);
/* Computes the SHA-256 of a token. Returns false if out of memory, or if the token's length is not
 * allowed. */
bool mrd_auth_digest(mrd_str token, char digest[MRD_SHA256_HEX]);
const char *mrd_role_text(mrd_role role);

#endif
