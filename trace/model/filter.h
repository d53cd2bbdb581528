/*
 * trace/model/filter.h - a source that passes a slice of a profile: time x instance x process x
 * core x event type. For `meridian view` and the HTTP slice.
 */
#ifndef MRD_TRACE_FILTER_H
#define MRD_TRACE_FILTER_H

#include "trace/model/catalog.h"
#include "trace/model/source.h"

typedef struct {
    mrd_ev_ns start, end;  /* session time; a span passes if it overlaps [start, end) */
    mrd_strlist instances; /* empty means all */
    mrd_strlist types;     /* values of base/event_type.h; empty means all */
    /* "3", "0-7": values of lnc_idx. Events without a core pass only if the list is empty (calls
     * of the runtime have their lnc_idx) */
    mrd_strlist cores;
    mrd_strlist processes; /* process ids */
} mrd_filter;

#define MRD_FILTER_ALL                                                                             \
    {                                                                                              \
        .start = { INT64_MIN }, .end = { INT64_MAX }                                               \
    }

void mrd_filter_fini(mrd_filter *filter);
/* Parses "12.5s" after `first` (a file's first event, a session's start), "2026-03-01T12:00:00Z" or
 * epoch ns. Errors: SYNTAX, with the valid forms. */
mrd_err mrd_filter_time(mrd_str text, mrd_ev_ns first, mrd_ev_ns *ret, mrd_why *why);
/* Checks core ranges and process ids. Errors: INVALID with a message. */
mrd_err mrd_filter_check(const mrd_filter *filter, mrd_why *why);
/* Checks that event types are generally known or in the catalog. The catalog must be complete; NULL
 * means no names. Errors: INVALID, with the closest one. */
mrd_err mrd_filter_check_types(const mrd_strlist *types, const mrd_catalog *cat, mrd_why *why);
/* Checks that each named process is in the catalog, and each range of cores has one of the catalog's
 * cores. If only calls of the runtime are there, every core passes, because calls name theirs in
 * an argument. Errors: NOTFOUND, with the name. */
mrd_err mrd_filter_check_present(const mrd_filter *filter, const mrd_catalog *cat, mrd_why *why);
/* Returns true if everything passes. */
bool mrd_filter_is_all(const mrd_filter *filter);
/* Owns inner; borrows filter and cat. ret_passed and ret_held count events; they may be NULL and must
 * outlive the source. */
mrd_err mrd_filter_open(mrd_source *inner, const mrd_filter *filter, const mrd_catalog *cat,
                        uint64_t *ret_passed, uint64_t *ret_held, mrd_source **ret_source,
                        mrd_why *why);

#endif
