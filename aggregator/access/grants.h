/*
 * aggregator/access/grants.h - common code for the files of --oidc and --token-review: JSON objects that
 * map identities to roles. Errors name the file and the member.
 *
 * Threads: stateless.
 */
#ifndef MRD_AGGREGATOR_ACCESS_GRANTS_H
#define MRD_AGGREGATOR_ACCESS_GRANTS_H

#include "aggregator/access/rights.h"
#include "base/conf/json.h"

/* Errors: errors of the file, DENIED (other users than root and this one may write it), TYPE (not
 * an object), INVALID (an unknown member). */
mrd_err mrd_grants_load(const char *option, const char *path, const char *const *members,
                        size_t count, mrd_json **ret_doc, mrd_why *why);
/* Gets a text, which is required (`must`) or may be absent (NULL). */
mrd_err mrd_grants_text(const mrd_json *doc, const char *name, bool must, const char *path,
                        const char **ret_text, mrd_why *why);
/* Gets an object, which may be absent. */
mrd_err mrd_grants_object(const mrd_json *doc, const char *name, const char *path,
                          const mrd_json **ret_object, mrd_why *why);
/* "roles" has lists of names for admin, operator and read; may be absent. */
mrd_err mrd_grants_roles(const mrd_json *doc, const char *path, const mrd_json **ret_roles,
                         mrd_why *why);
/* Checks the address of a server that confirms identities (mrd_fetch_url_safe). */
mrd_err mrd_grants_url(const char *url, const char *name, const char *path, mrd_why *why);

/* Returns true if a text, or one of a list of texts, is in a list of names. */
bool mrd_grants_has(const mrd_json *claim, const mrd_json *names);
/* Returns the highest role that one of the claim's texts has, or NONE. `roles` may be NULL. */
mrd_role mrd_grants_role(const mrd_json *roles, const mrd_json *claim);
/* Copies a name that is valid in job identities. Returns false if it is invalid or too long. */
bool mrd_grants_name(const char *text, char *to, size_t size);
/* Gets NAMESPACE of "system:serviceaccount:NAMESPACE:NAME". */
bool mrd_grants_namespace(const char *subject, char *to, size_t size);

#endif
