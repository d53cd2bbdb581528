/*
 * aggregator/grants.h - what the files of --oidc and --token-review have in common: JSON objects that
 * decide who may do what. Errors name the file and the member.
 *
 * Threads: stateless.
 */
#ifndef MRD_AGGREGATOR_GRANTS_H
#define MRD_AGGREGATOR_GRANTS_H

#include "aggregator/rights.h"
#include "base/json.h"

/* Errors: those of the file; DENIED: others than root and this user may write it; TYPE: no object;
 * INVALID: a member that is none of these. */
mrd_err mrd_grants_load(const char *option, const char *path, const char *const *members, size_t n,
                        mrd_json **ret_doc, mrd_why *why);
/* A text that must be there, or may (NULL). */
mrd_err mrd_grants_text(const mrd_json *doc, const char *name, bool must, const char *path,
                        const char **ret_text, mrd_why *why);
/* An object that may be there. */
mrd_err mrd_grants_object(const mrd_json *doc, const char *name, const char *path,
                          const mrd_json **ret_object, mrd_why *why);
/* "roles": lists of names for admin, operator and read; may be absent. */
mrd_err mrd_grants_roles(const mrd_json *doc, const char *path, const mrd_json **ret_roles,
                         mrd_why *why);
/* The address of a server that proves who somebody is (mrd_fetch_url_safe). */
mrd_err mrd_grants_url(const char *url, const char *name, const char *path, mrd_why *why);

/* Whether a text or a list of texts has one of the names in a list. */
bool mrd_grants_has(const mrd_json *claim, const mrd_json *names);
/* The most that the claim's texts give; NONE. roles may be NULL. */
mrd_role mrd_grants_role(const mrd_json *roles, const mrd_json *claim);
/* A name as job identities have it, whole; false: it is none, or too long. */
bool mrd_grants_name(const char *text, char *to, size_t size);
/* NAMESPACE of "system:serviceaccount:NAMESPACE:NAME". */
bool mrd_grants_namespace(const char *subject, char *to, size_t size);

#endif
