/*
 * trace/model/filter.h - a source that passes on only the events of a slice. A slice is a range of
 * times, nodes, processes, cores and event types. Used by `meridian view`, and by the aggregator's
 * HTTP interface for slices.
 */
#ifndef MRD_TRACE_FILTER_H
#define MRD_TRACE_FILTER_H

#include "trace/model/catalog.h"
#include "trace/model/source.h"

typedef struct {
    mrd_ev_ns start, end;  /* session time; a span passes if it overlaps [start, end) */
    mrd_strlist instances; /* node names that pass; empty means all */
    mrd_strlist types;     /* event types that pass (base/event_type.h); empty means all */
    /* Ranges of logical cores that pass, such as "3" and "0-7"; empty means all. If there are any,
     * events without a core do not pass. The core of a runtime call is in its argument lnc_idx. */
    mrd_strlist cores;
    mrd_strlist processes; /* process ids that pass; empty means all */
} mrd_filter;

#define MRD_FILTER_ALL                                                                             \
    {                                                                                              \
        .start = { INT64_MIN }, .end = { INT64_MAX }                                               \
    }

void mrd_filter_fini(mrd_filter *filter);
/* Parses a time. It is ns since 1970, UTC ("2026-03-01T12:00:00Z"), or a duration after `first`
 * ("12.5s"). `first` is the time of a file's first event, or the start of a session. Errors:
 * SYNTAX, with the valid forms. */
mrd_err mrd_filter_time(mrd_str text, mrd_ev_ns first, mrd_ev_ns *ret, mrd_why *why);
/* Checks the syntax of core ranges and process ids. Errors: INVALID with a message. */
mrd_err mrd_filter_check(const mrd_filter *filter, mrd_why *why);
/* Checks that each event type is a known type or a name in the catalog. The catalog must be
 * complete. If it is NULL, only known types are valid. Errors: INVALID; the message suggests the
 * most similar type. */
mrd_err mrd_filter_check_types(const mrd_strlist *types, const mrd_catalog *cat, mrd_why *why);
/* Checks that each process of the filter is in the catalog, and that the catalog has a core in each
 * range. If no track has a core, but there are runtime calls, every range is valid, because calls
 * state their core in an argument. Errors: NOTFOUND, with the missing name. */
mrd_err mrd_filter_check_present(const mrd_filter *filter, const mrd_catalog *cat, mrd_why *why);
/* Returns true if the filter has no conditions, so that all events pass. */
bool mrd_filter_is_all(const mrd_filter *filter);
/* Opens a source with those events of `inner` that pass. Owns `inner`; borrows `filter` and `cat`.
 * *ret_passed and *ret_held count the events that pass and the other events. Both may be NULL, and
 * must outlive the source. */
mrd_err mrd_filter_open(mrd_source *inner, const mrd_filter *filter, const mrd_catalog *cat,
                        uint64_t *ret_passed, uint64_t *ret_held, mrd_source **ret_source,
                        mrd_why *why);

#endif
