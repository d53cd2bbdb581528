/*
 * aggregator/core/targets.h - the export targets that sessions may choose by name: "NAME=DIR,NAME=s3://bucket/prefix", as the
 * operator's option --export-targets has them.
 */
#ifndef MRD_AGGREGATOR_CORE_TARGETS_H
#define MRD_AGGREGATOR_CORE_TARGETS_H

#include "base/buf.h"

/* Errors: INVALID: a name that is not of letters, digits, '-' and '_', a name twice, a target without a name. NULL is fine. */
mrd_err mrd_targets_check(const char *list, mrd_why *why);
/* One after the other: *at is NULL at first; false behind the last. list was checked. */
bool mrd_targets_next(const char *list, const char **at, mrd_str *ret_name, mrd_str *ret_target);
/* Errors: INVALID: there is none of this name; says which there are. */
mrd_err mrd_targets_has(const char *list, const char *name, mrd_why *why);

#endif
