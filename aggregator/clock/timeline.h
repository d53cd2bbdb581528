/*
 * aggregator/clock/timeline.h - the common timeline of a session in which the aggregator moved or
 * its machine rebooted. Each incarnation of the aggregator has a clock of its own.
 *
 * The session has the timeline of the first incarnation. Each later one is shifted by a constant,
 * which holds at the middle of the gap (timesync/timescale_link.h). The first of these methods that
 * is possible gives the shift:
 *   nodes  nodes with a clock that continued across the gap, with a bound.
 *   utc    the wall clocks of the two incarnations, if both state their error from UTC.
 *   none   the two timelines are joined by their wall clocks without a bound, in order.
 *
 * The bound of a link is common to all nodes. So it is not part of the bounds of events, which
 * state how well nodes agree with each other. The manifest, the clock table and every output
 * contain it.
 *
 * The merge of the whole session stores the timeline as <session>/clocks/timeline.json, so that
 * slices agree with it. Without this file it is solved from the available tables.
 *
 * Units    int64 ns.
 * Threads  stateless; an mrd_timeline is plain data.
 * Source   docs/reference/timesync.md section 6.
 */
#ifndef MRD_AGGREGATOR_CLOCK_TIMELINE_H
#define MRD_AGGREGATOR_CLOCK_TIMELINE_H

#include "aggregator/clock/node_clock.h"
#include "base/conf/json.h"
#include "timesync/timescale_link.h"

#define MRD_INCARNATIONS_MAX 16 /* incarnations beyond this number stay on their own timelines */

typedef enum { MRD_LINKED_FIRST, MRD_LINKED_NODES, MRD_LINKED_UTC, MRD_LINKED_NONE } mrd_linked_by;

typedef struct {
    char id[64];         /* id of its timeline, as probes name it */
    mrd_linked_by by;    /* how this incarnation is linked to the previous one */
    mrd_dur_ns shift_ns; /* this shift is added to the incarnation's session times */
    /* The link by nodes or UTC; at_ns is on the session's timeline. For MRD_LINKED_NONE only `gap`
     * and `odd` are set. */
    mrd_timescale_link link;
} mrd_incarnation;

typedef struct {
    mrd_incarnation v[MRD_INCARNATIONS_MAX];
    size_t n; /* number of incarnations. 0 if frames do not name their timeline */
} mrd_timeline;

/* Solves the timeline from the clock tables of all nodes of the session. The tables must not be
 * shifted yet. */
mrd_err mrd_timeline_solve(const mrd_node_clock *const *clocks, size_t n,
                           mrd_timeline *ret_timeline);
/* Returns true if the timeline contains every incarnation of these clocks. */
bool mrd_timeline_knows(const mrd_timeline *timeline, const mrd_node_clock *clock);
/* Converts tables and probes of a node to the session's timeline. Call it once per clock. */
void mrd_timeline_apply(const mrd_timeline *timeline, mrd_node_clock *clock);
/* Returns the bound of a link, plus or minus this number of ns. -1 if the link has no bound. */
mrd_dur_ns mrd_incarnation_bound(const mrd_incarnation *incarnation);
/* Returns the number of clocks that contradict the links, which must be 0. */
size_t mrd_timeline_violations(const mrd_timeline *timeline);
/* Appends a message about the link of incarnation i > 0, without a line end. */
void mrd_timeline_text(const mrd_timeline *timeline, size_t i, mrd_buf *to);
/* returns an array; NULL if out of memory */
mrd_json *mrd_timeline_json(const mrd_timeline *timeline);
void mrd_timeline_of_json(mrd_timeline *to, const mrd_json *array); /* NULL leaves n = 0 */
/* Saves or loads the timeline next to the clock tables of a session. Load sets n = 0 if there is no
 * file. */
mrd_err mrd_timeline_save(const mrd_timeline *timeline, const char *session_dir, mrd_why *why);
void mrd_timeline_load(mrd_timeline *to, const char *session_dir);

#endif
