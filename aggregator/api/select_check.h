/*
 * aggregator/api/select_check.h - validates the values of a selection before nodes are asked, and
 * refuses values that no node can match
 */
#ifndef MRD_AGGREGATOR_API_SELECT_CHECK_H
#define MRD_AGGREGATOR_API_SELECT_CHECK_H

#include "aggregator/core/common/select.h"

/* Validates a new session's selection of nodes and events, which was parsed from `json`. Errors:
 * INVALID for a value that no node can match. The message suggests the closest known value. */
mrd_err mrd_select_check(const mrd_select *selection, const mrd_json *json, mrd_why *why);
/* Validates the event types of a selection. Each type must be in the table of known types, or `has`
 * must return true for it. `has` may be NULL. Errors: INVALID. The message suggests the closest
 * known type. */
mrd_err mrd_select_check_types(const mrd_select *selection,
                               bool (*has)(void *self, const char *type), void *self, mrd_why *why);

#endif
