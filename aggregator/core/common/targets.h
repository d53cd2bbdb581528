/*
 * aggregator/core/common/targets.h - the export targets that sessions may choose by name. The
 * option --export-targets lists them: "NAME=DIR,NAME=s3://bucket/prefix".
 */
#ifndef MRD_AGGREGATOR_CORE_COMMON_TARGETS_H
#define MRD_AGGREGATOR_CORE_COMMON_TARGETS_H

#include "base/buf.h"

/* Validates a list of export targets. NULL is valid. Errors: INVALID if a name has other characters
 * than letters, digits, '-' and '_', occurs twice, or is missing. */
mrd_err mrd_targets_check(const char *list, mrd_why *why);
/* Iterates over a valid list. *at must be NULL for the first call. Returns false after the last
 * target. */
bool mrd_targets_next(const char *list, const char **at, mrd_str *ret_name, mrd_str *ret_target);
/* Checks that a target in the list has this name. Errors: INVALID, with a message that lists the
 * existing names. */
mrd_err mrd_targets_has(const char *list, const char *name, mrd_why *why);

#endif
