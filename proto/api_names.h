/*
 * proto/api_names.h - renames members of the API's answers and of stored documents that had another
 * name in the previous release.
 *
 * Code that reads such a document calls mrd_api_present_names first, so that no other code has to
 * handle the old names. A row of the table is deleted in the second release after the member was
 * renamed (docs/reference/http.md, Renamed members).
 */
#ifndef MRD_PROTO_API_NAMES_H
#define MRD_PROTO_API_NAMES_H

#include "base/conf/json.h"

/* Renames the members of `doc` that have old names. Errors: NOMEM. */
mrd_err mrd_api_present_names(mrd_json *doc, mrd_why *why);

#endif
