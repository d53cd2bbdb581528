/*
 * aggregator/core/select.h - which events of which nodes a session wants; all lists empty:
 * everything. Only the node itself can judge jobs, ranks and processes; here the instance decides.
 */
#ifndef MRD_AGGREGATOR_CORE_SELECT_H
#define MRD_AGGREGATOR_CORE_SELECT_H

#include "proto/selection.h"

mrd_err mrd_select_copy(mrd_select *to, const mrd_select *from); /* to: zeroed. Errors: NOMEM */
bool mrd_select_matches(const mrd_select *s, const char *instance_id);
/* From {"instance_id": ["i-1"], "rank": [0, 1], ...}. Errors: TYPE, NOMEM; *s is then partly
 * filled. */
mrd_err mrd_select_from_json(mrd_select *s, const mrd_json *o, mrd_why *why);
mrd_json *mrd_select_json(const mrd_select *s);

mrd_json *mrd_strings_json(const mrd_strlist *list);
mrd_err mrd_strings_copy(mrd_strlist *to, const mrd_strlist *from); /* to: zeroed. Errors: NOMEM */

#endif
