/*
 * cli/view/align_int.h - internals of cli/view/align.h: align.c (units, observations, the solution),
 * align_source.c (streams in the times of the solution)
 */
#ifndef MRD_CLI_VIEW_ALIGN_INT_H
#define MRD_CLI_VIEW_ALIGN_INT_H

#include "cli/view/align.h"
#include "timesync/collective/collective.h"
#include "trace/analysis/collectives.h"

#define EPOCH_NS                                                                                   \
    (1000000000LL * MRD_SEC) /* later than September 2001: UTC, not time since a start */
#define NO_UNIT UINT32_MAX

typedef struct {
    mrd_sid name;
    uint64_t says_all, says_single; /* annotations about all-to-all, and about send and recv */
    uint32_t clock;                 /* in the catalog */
    /* range of the observations of its clock, local; first > last means none */
    mrd_local_ns first, last;
    mrd_align *table;           /* NULL: its own clock */
    mrd_coll_segment *segments; /* segments of the table, in which the clock is aligned */
    size_t n_segments;
    bool reference, described;
    mrd_align_cursor cursor;
    bool has_gap;
    size_t gap; /* index of its first gap in the alignment's gaps */
} unit;

/* The part of a unit in one stream. */
typedef struct {
    size_t stream;
    uint32_t unit;
    /* local times of begins; first > last means that no event has a time */
    mrd_local_ns first, last;
    mrd_local_ns longest_at; /* begin of the event with the latest end */
    mrd_dur_ns longest;      /* its duration */
} presence;

typedef struct {
    mrd_coll_obs obs; /* its part is the process and the core */
    uint32_t members;
    bool named; /* the event names all members, or they are all ranks of the job */
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
    mrd_coll_break *breaks; /* session times around breaks of any clock */
    size_t n_breaks;
    /* collectives that contradict themselves; collectives of groups that do */
    uint64_t wrong, mixed;
    bool mapped, too_many;
    mrd_buf refused;
};

static inline mrd_err
mrd_align_no_memory(mrd_why *why)
{
    return mrd_why_set(why, MRD_NOMEM, 0, "aligning clocks");
}

/* Returns NO_UNIT for a device profile. */
uint32_t mrd_alignment_unit_of(const mrd_alignment *alignment, mrd_track_id track);

#endif
