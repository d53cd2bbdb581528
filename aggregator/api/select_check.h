/*
 * aggregator/api/select_check.h - validates the values of a selection before nodes are asked, and
 * refuses values that no node can match
 */
#ifndef MRD_AGGREGATOR_API_SELECT_CHECK_H
#define MRD_AGGREGATOR_API_SELECT_CHECK_H

#include "aggregator/core/common/select.h"

/* Validates the selection `selection` of a new session, parsed from `json`. Errors: INVALID for an impossible
 * value. The message suggests the closest known one. */
mrd_err mrd_select_check(const mrd_select *selection, const mrd_json *json, mrd_why *why);
/* Validates event types. A type must be listed here, and a node must have it (not checked if `has`
 * is NULL). Errors: INVALID. The message suggests the closest known type. */
mrd_err mrd_select_check_types(const mrd_select *selection,
                               bool (*has)(void *self, const char *type), void *self, mrd_why *why);

#endif
