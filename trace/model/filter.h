/*
 * trace/model/filter.h - a source that passes a slice of a profile: time x instance x process x
 * core x event type. Used by `meridian view` and by the aggregator's HTTP interface for slices.
 */
#ifndef MRD_TRACE_FILTER_H
#define MRD_TRACE_FILTER_H

#include "trace/model/catalog.h"
#include "trace/model/source.h"

typedef struct {
    mrd_ev_ns start, end;  /* session time; a span passes if it overlaps [start, end) */
    mrd_strlist instances; /* node names that pass; empty means all */
    mrd_strlist types;     /* values of base/event_type.h; empty means all */
    /* Ranges of lnc_idx that pass, such as "3" and "0-7". If there are any, events without a core
     * do not pass. Calls of the runtime have their core in an argument. */
    mrd_strlist cores;
    mrd_strlist processes; /* process ids that pass; empty means all */
} mrd_filter;

#define MRD_FILTER_ALL                                                                             \
    {                                                                                              \
        .start = { INT64_MIN }, .end = { INT64_MAX }                                               \
    }

void mrd_filter_fini(mrd_filter *filter);
/* Parses a time: "12.5s" after `first` (a file's first event, or a session's start),
 * "2026-03-01T12:00:00Z", or ns since 1970. Errors: SYNTAX, with the valid forms. */
mrd_err mrd_filter_time(mrd_str text, mrd_ev_ns first, mrd_ev_ns *ret, mrd_why *why);
/* Checks core ranges and process ids. Errors: INVALID with a message. */
mrd_err mrd_filter_check(const mrd_filter *filter, mrd_why *why);
/* Checks that each event type is a known one or a name in the catalog. The catalog must be
 * complete; NULL means no names. Errors: INVALID, with the most similar type. */
mrd_err mrd_filter_check_types(const mrd_strlist *types, const mrd_catalog *cat, mrd_why *why);
/* Checks that each chosen process is in the catalog, and that each range of cores contains one of
 * the catalog's cores. If the profile has only calls of the runtime, every range is accepted,
 * because calls state their core in an argument. Errors: NOTFOUND, with the missing name. */
mrd_err mrd_filter_check_present(const mrd_filter *filter, const mrd_catalog *cat, mrd_why *why);
/* Returns true if all events pass the filter. */
bool mrd_filter_is_all(const mrd_filter *filter);
/* Opens a source with the events of `inner` that pass. Owns inner; borrows filter and cat.
 * ret_passed and ret_held count passed and held events; they may be NULL and must outlive the
 * source. */
mrd_err mrd_filter_open(mrd_source *inner, const mrd_filter *filter, const mrd_catalog *cat,
                        uint64_t *ret_passed, uint64_t *ret_held, mrd_source **ret_source,
                        mrd_why *why);

#endif
