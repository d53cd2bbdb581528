/*
 * aggregator/access/grants.h - common code of oidc.c and token_review.c for their settings files.
 * These are JSON objects that map identities (users, groups, service accounts) to roles. Error
 * messages name the file and the member.
 *
 * Threads  Any thread may call the functions.
 */
#ifndef MRD_AGGREGATOR_ACCESS_GRANTS_H
#define MRD_AGGREGATOR_ACCESS_GRANTS_H

#include "aggregator/access/rights.h"
#include "base/conf/json.h"

/* Loads the JSON object in the file at `path`. `option` is the name of the option, for messages.
 * `members` are the `count` names that the object may have. Errors: errors of reading the file,
 * DENIED (users other than root and the process's user may write the file), TYPE (not an object),
 * INVALID (an unknown member). */
mrd_err mrd_grants_load(const char *option, const char *path, const char *const *members,
                        size_t count, mrd_json **ret_doc, mrd_why *why);
/* Gets the string under the key `name`. If the key is absent, *ret_text is NULL, or with `must` the
 * result is an error. */
mrd_err mrd_grants_text(const mrd_json *doc, const char *name, bool must, const char *path,
                        const char **ret_text, mrd_why *why);
/* Gets the object under the key `name`, NULL if the key is absent. */
mrd_err mrd_grants_object(const mrd_json *doc, const char *name, const char *path,
                          const mrd_json **ret_object, mrd_why *why);
/* Gets the member "roles", which may have a list of names for each of admin, operator and read.
 * Stores NULL if it is absent. */
mrd_err mrd_grants_roles(const mrd_json *doc, const char *path, const mrd_json **ret_roles,
                         mrd_why *why);
/* Checks the URL of a server that confirms identities (mrd_fetch_url_safe has the rules). */
mrd_err mrd_grants_url(const char *url, const char *name, const char *path, mrd_why *why);

/* Returns true if the claim of a token, a text or a list of texts, contains one of the names in the
 * list. */
bool mrd_grants_has(const mrd_json *claim, const mrd_json *names);
/* Returns the highest role that the settings in `roles` give to one of the claim's texts, or NONE.
 * `roles` may be NULL. */
mrd_role mrd_grants_role(const mrd_json *roles, const mrd_json *claim);
/* Copies a name to `to` if it may be a value in a job's identity (base/jobid.h). Returns false if
 * it is invalid or too long. */
bool mrd_grants_name(const char *text, char *to, size_t size);
/* Copies the part NAMESPACE of "system:serviceaccount:NAMESPACE:NAME". Returns false for other
 * texts. */
bool mrd_grants_namespace(const char *subject, char *to, size_t size);

#endif
