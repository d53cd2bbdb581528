/*
 * aggregator/timeline.h - the session's one timeline, where the aggregator moved or its machine
 * rebooted inside a session: every incarnation of it has a clock of its own.
 *
 * The session's timeline is that of the first incarnation. Later ones are shifted by a constant each, at
 * the instant in the middle of the gap (timesync/timescale_link.h):
 *   nodes  whose clock ran on across the gap say by how much, with a bound;
 *   utc    else the two incarnations' wall clocks do, where both state how far from UTC they may be;
 *   none   else the two timelines read as UTC as well as their wall clocks did, and order is kept.
 * The bound of a link is common to all nodes, so it is not in the bounds of events (which say how
 * well nodes agree with each other), but in the manifest, the clock table, and every output.
 *
 * Kept as <session>/clocks/timeline.json by the merge of the whole session, so that slices agree
 * with it; else solved from the tables at hand.
 *
 * Units    int64 ns.
 * Threads  stateless; a mrd_timeline is plain data.
 * Source   docs/timesync.md section 6.
 */
#ifndef MRD_AGGREGATOR_TIMELINE_H
#define MRD_AGGREGATOR_TIMELINE_H

#include "aggregator/node_clock.h"
#include "base/json.h"
#include "timesync/timescale_link.h"

#define MRD_INCARNATIONS_MAX 16 /* further incarnations stay on their own timelines */

typedef enum { MRD_LINKED_FIRST, MRD_LINKED_NODES, MRD_LINKED_UTC, MRD_LINKED_NONE } mrd_linked_by;

typedef struct {
    char id[64];         /* its timeline, as probes name it */
    mrd_linked_by by;    /* how it is linked to the incarnation before */
    mrd_dur_ns shift_ns; /* added to its session times */
    mrd_timescale_link
        link; /* by nodes or UTC; at_ns in the session's timeline; NONE: only gap and odd */
} mrd_incarnation;

typedef struct {
    mrd_incarnation v[MRD_INCARNATIONS_MAX];
    size_t n; /* 0: frames do not say; 1: one incarnation, nothing to link */
} mrd_timeline;

/* From the solved tables of all nodes of the session, before any shift. */
mrd_err mrd_timeline_solve(const mrd_node_clock *const *clocks, size_t n,
                           mrd_timeline *ret_timeline);
/* True when the timeline knows every incarnation of these clocks. */
bool mrd_timeline_knows(const mrd_timeline *timeline, const mrd_node_clock *clock);
/* Brings tables and probes of a node to the session's timeline. Once per clock. */
void mrd_timeline_apply(const mrd_timeline *timeline, mrd_node_clock *clock);
/* The bound of a link, +-; -1 when there is none. */
mrd_dur_ns mrd_incarnation_bound(const mrd_incarnation *incarnation);
/* Clocks that contradict the links: must be 0. */
size_t mrd_timeline_violations(const mrd_timeline *timeline);
/* Appends a message about the link of incarnation i > 0, without its end. */
void mrd_timeline_text(const mrd_timeline *timeline, size_t i, mrd_buf *to);
mrd_json *mrd_timeline_json(const mrd_timeline *timeline); /* an array; NULL without memory */
void mrd_timeline_of_json(mrd_timeline *to, const mrd_json *array); /* NULL: none */
/* Beside the tables of a session. Load leaves n = 0 where there is no file. */
mrd_err mrd_timeline_save(const mrd_timeline *timeline, const char *session_dir, mrd_why *why);
void mrd_timeline_load(mrd_timeline *to, const char *session_dir);

#endif
