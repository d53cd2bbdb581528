/*
 * aggregator/select_check.h - a selection's words, before nodes are asked: what no node can mean is
 * refused.
 */
#ifndef MRD_AGGREGATOR_SELECT_CHECK_H
#define MRD_AGGREGATOR_SELECT_CHECK_H

#include "aggregator/core/select.h"

/* Of a new session: the words of s, read from o, can mean something. Errors: INVALID, naming the
 * word and the nearest. */
mrd_err mrd_select_check(const mrd_select *s, const mrd_json *o, mrd_why *why);
/* Event types: those that are known here, and those that a node has (NULL: nobody is asked). Errors:
 * INVALID, with what is nearest. */
mrd_err mrd_select_check_types(const mrd_select *s, bool (*has)(void *self, const char *type),
                               void *self, mrd_why *why);

#endif
