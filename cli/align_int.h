/*
 * cli/align_int.h - inside of cli/align.h: align.c (units, what is seen of them, the solution), align_source.c
 * (streams in the times of the solution).
 */
#ifndef MRD_CLI_ALIGN_INT_H
#define MRD_CLI_ALIGN_INT_H

#include "cli/align.h"
#include "timesync/collective.h"
#include "trace/analysis/collectives.h"

#define EPOCH_NS                                                                                   \
    (1000000000LL * MRD_SEC) /* later than September 2001: UTC, not time since a start */
#define NO_UNIT UINT32_MAX

typedef struct {
    mrd_sid name;
    uint64_t says_all, says_single; /* annotations about all-to-all, and about send and recv */
    uint32_t clock;                 /* in the catalog */
    mrd_local_ns first, last;       /* evidence of its clock, local; first > last: none */
    mrd_align *table;               /* NULL: its own clock */
    mrd_coll_segment *segments;     /* of the table: where it is known */
    size_t n_segments;
    bool reference, described;
    mrd_align_cursor cursor;
    bool has_gap;
    size_t gap; /* its first one, in gaps of the alignment */
} unit;

/* Where a unit is in a stream. */
typedef struct {
    size_t stream;
    uint32_t unit;
    mrd_local_ns first, last; /* local, of begins; first > last: only events without time */
    mrd_local_ns longest_at;  /* begin of the event that ends last */
    mrd_dur_ns longest;       /* its duration */
} presence;

typedef struct {
    mrd_coll_obs obs;
    uint64_t part; /* participant inside the unit: process and core */
    uint32_t members;
    mrd_cc_kind kind;
} sighting;

struct mrd_alignment {
    mrd_align_options options;
    mrd_catalog *cat;
    mrd_store *store;
    unit *units;
    size_t n_units;
    mrd_collectives *cc; /* of the pass; knows names */
    uint32_t *unit_of;   /* by process; NO_UNIT for device profiles */
    presence *at;
    size_t n_at, cap_at;
    sighting *seen;
    size_t n_seen, cap_seen;
    mrd_coll_gap *gaps;
    size_t n_gaps, cap_gaps;
    mrd_coll_break *breaks; /* session time around breaks of any clock */
    size_t n_breaks;
    uint64_t wrong, mixed; /* collectives that contradict themselves; of groups that do */
    bool mapped, too_many;
    mrd_buf refused;
};

static inline mrd_err
mrd_align_no_memory(mrd_why *why)
{
    return mrd_why_set(why, MRD_NOMEM, 0, "aligning clocks");
}

/* NO_UNIT: of a device profile. */
uint32_t mrd_alignment_unit_of(const mrd_alignment *a, mrd_track_id track);

#endif
