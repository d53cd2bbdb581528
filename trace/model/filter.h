/*
 * trace/model/filter.h - a slice of a profile: time x instance x process x core x event type, as one
 * source in front of the sinks. The same code serves `meridian view` and the HTTP slice.
 */
#ifndef MRD_TRACE_FILTER_H
#define MRD_TRACE_FILTER_H

#include "trace/model/catalog.h"
#include "trace/model/source.h"

typedef struct {
    mrd_ev_ns start, end;  /* session time; a span is kept when it overlaps [start, end) */
    mrd_strlist instances; /* empty: all */
    mrd_strlist types;     /* words of base/event_type.h; empty: all */
    mrd_strlist cores;     /* "3", "0-7": lnc_idx; events without a core (calls of the
                            * runtime name theirs by lnc_idx) are kept only when empty */
    mrd_strlist processes; /* process ids */
} mrd_filter;

#define MRD_FILTER_ALL                                                                             \
    {                                                                                              \
        .start = { INT64_MIN }, .end = { INT64_MAX }                                               \
    }

void mrd_filter_fini(mrd_filter *f);
/* "12.5s" after `first` (a file's first event, a session's start), "2026-03-01T12:00:00Z" or epoch ns. Errors: SYNTAX naming the
 * forms. */
mrd_err mrd_filter_time(mrd_str text, mrd_ev_ns first, mrd_ev_ns *ret, mrd_why *why);
/* Checks core ranges and process ids. Errors: INVALID with a message. */
mrd_err mrd_filter_check(const mrd_filter *f, mrd_why *why);
/* Checks words that choose event types: known in general, or a name of the catalog (complete; NULL:
 * none is known). Errors: INVALID, naming the nearest. */
mrd_err mrd_filter_check_types(const mrd_strlist *types, const mrd_catalog *cat, mrd_why *why);
/* Checks that each process that is named is in the catalog. Errors: NOTFOUND, naming it. */
mrd_err mrd_filter_check_processes(const mrd_filter *f, const mrd_catalog *cat, mrd_why *why);
/* True when nothing is filtered. */
bool mrd_filter_is_all(const mrd_filter *f);
/* Owns inner; borrows f and cat. ret_passed and ret_held count; they may be NULL and outlive the
 * source. */
mrd_err mrd_filter_open(mrd_source *inner, const mrd_filter *f, const mrd_catalog *cat,
                        uint64_t *ret_passed, uint64_t *ret_held, mrd_source **ret_source,
                        mrd_why *why);

#endif
