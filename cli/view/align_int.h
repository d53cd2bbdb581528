/*
 * cli/view/align_int.h - internals of cli/view/align.h: align.c (units, observations, the
 * solution), align_source.c (streams in the times of the solution)
 */
#ifndef MRD_CLI_VIEW_ALIGN_INT_H
#define MRD_CLI_VIEW_ALIGN_INT_H

#include "cli/view/align.h"
#include "timesync/collective/collective.h"
#include "trace/analysis/collectives.h"

/* A larger time, after September 2001, counts from 1970. A smaller one counts from another start,
 * such as the boot. */
#define EPOCH_NS (1000000000LL * MRD_SEC)
#define NO_UNIT  UINT32_MAX

typedef struct {
    mrd_sid name;
    /* numbers of annotations in this unit with a text that mentions all-to-all, or send or recv */
    uint64_t says_all, says_single;
    uint32_t clock; /* index of the unit's clock in the catalog */
    /* local times of the unit's first and last collective; first > last means that there is none */
    mrd_local_ns first, last;
    /* maps the unit's times to session time; NULL if the unit keeps its own clock */
    mrd_align *table;
    mrd_coll_segment *segments; /* time ranges in which `table` is valid */
    size_t n_segments;
    bool reference, described;
    mrd_align_cursor cursor;
    bool has_gap;
    size_t gap; /* index of the unit's first gap in the array `gaps` of mrd_alignment */
} unit;

/* The events of one unit in one stream. */
typedef struct {
    size_t stream;
    uint32_t unit;
    /* local times of the first and last begin; first > last means that no event has a time */
    mrd_local_ns first, last;
    mrd_local_ns longest_at; /* begin of the event with the latest end */
    mrd_dur_ns longest;      /* duration of that event */
} presence;

typedef struct {
    mrd_coll_obs obs; /* obs.part identifies the process and the core */
    uint32_t members;
    /* the event names all members of its group, or the group has all ranks of the job */
    bool named;
    mrd_cc_kind kind;
} sighting;

struct mrd_alignment {
    mrd_align_options options;
    mrd_catalog *cat;
    mrd_store *store;
    unit *units;
    size_t n_units;
    mrd_collectives *cc; /* finds collectives in events, and resolves their names */
    uint32_t *unit_of;   /* unit of each process; NO_UNIT for device profiles */
    presence *at;
    size_t n_at, cap_at;
    sighting *seen;
    size_t n_seen, cap_seen;
    mrd_coll_gap *gaps;
    size_t n_gaps, cap_gaps;
    mrd_coll_break *breaks; /* ranges of session time around a step of any unit's clock */
    size_t n_breaks;
    /* `wrong`: number of collectives with contradictory arguments. `mixed`: number of collectives
     * in groups that have more participants than members. */
    uint64_t wrong, mixed;
    bool mapped, too_many;
    mrd_buf refused;
};

static inline mrd_err
mrd_align_no_memory(mrd_why *why)
{
    return mrd_why_set(why, MRD_NOMEM, 0, "aligning clocks");
}

/* Returns the unit of a track's process, or NO_UNIT for a device profile. */
uint32_t mrd_alignment_unit_of(const mrd_alignment *alignment, mrd_track_id track);

#endif
