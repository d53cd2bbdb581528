/*
 * proto/api_names.h - members of the API's answers and of stored documents that had other names in
 * the release before: who reads such a document gives them their present names first, so that no
 * other code knows the old ones. A row goes with the second release after the renaming
 * (docs/http.md, Renamed members).
 */
#ifndef MRD_PROTO_API_NAMES_H
#define MRD_PROTO_API_NAMES_H

#include "base/json.h"

/* Errors: NOMEM. */
mrd_err mrd_api_present_names(mrd_json *doc, mrd_why *why);

#endif
