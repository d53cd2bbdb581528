/*
 * aggregator/core/common/select.h - a session's selection: which events of which nodes it records.
 * An empty list in the selection selects everything. The aggregator's core checks only the instance
 * id. Each node checks jobs, ranks and processes itself.
 */
#ifndef MRD_AGGREGATOR_CORE_COMMON_SELECT_H
#define MRD_AGGREGATOR_CORE_COMMON_SELECT_H

#include "proto/selection.h"

/* Copies a selection into *to, which must be zeroed. Errors: NOMEM. */
mrd_err mrd_select_copy(mrd_select *to, const mrd_select *from);
bool mrd_select_matches(const mrd_select *selection, const char *instance_id);
/* Reads `{"instance_id": ["i-1"], "rank": [0, 1], ...}`. On errors TYPE and NOMEM, *selection is
 * partly filled. */
mrd_err mrd_select_from_json(mrd_select *selection, const mrd_json *json, mrd_why *why);
mrd_json *mrd_select_json(const mrd_select *selection);

mrd_json *mrd_strings_json(const mrd_strlist *list);
/* Copies a list into *to, which must be zeroed. Errors: NOMEM. */
mrd_err mrd_strings_copy(mrd_strlist *to, const mrd_strlist *from);

#endif
