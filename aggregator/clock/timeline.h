/*
 * aggregator/clock/timeline.h - computes the common timeline of a session during which the
 * aggregator moved to another machine or its machine rebooted. Each part between such events is an
 * incarnation of the aggregator, with a clock of its own.
 *
 * The session uses the timeline of the first incarnation. The times of each later incarnation are
 * shifted by a constant, which is exact for the middle of the gap (timesync/timescale_link.h). The
 * shift comes from the first of these methods that is possible:
 *   nodes  nodes whose clock continued during the gap. The shift has a bound.
 *   utc    the wall clocks of both incarnations, if both have a known error from UTC.
 *   none   the wall clocks without a known error. The shift has no bound, but times of a later
 *          incarnation stay later.
 *
 * The error of a shift is the same for all nodes. So the bounds of events, which describe how well
 * nodes agree with each other, do not include it. The manifest, the clock table and every output
 * contain the bound of the shift.
 *
 * The merge of the whole session saves the timeline as <session>/clocks/timeline.json, so that
 * merges of some nodes use the same one. Without this file, it is computed from the available
 * tables.
 *
 * Units    int64 ns.
 * Threads  any thread may call the functions. Only one thread at a time may change an mrd_timeline.
 * Source   docs/reference/timesync.md section 6.
 */
#ifndef MRD_AGGREGATOR_CLOCK_TIMELINE_H
#define MRD_AGGREGATOR_CLOCK_TIMELINE_H

#include "aggregator/clock/node_clock.h"
#include "base/conf/json.h"
#include "timesync/timescale_link.h"

/* maximum number of incarnations that are linked; later ones keep their own timelines */
#define MRD_INCARNATIONS_MAX 16

typedef enum { MRD_LINKED_FIRST, MRD_LINKED_NODES, MRD_LINKED_UTC, MRD_LINKED_NONE } mrd_linked_by;

typedef struct {
    char id[64];         /* id of the incarnation's timeline, as in clock data frames */
    mrd_linked_by by;    /* how this incarnation's times were linked to the previous one's */
    mrd_dur_ns shift_ns; /* value in ns that is added to the incarnation's session times */
    /* The link to the previous incarnation. `at` is on the session's timeline. For MRD_LINKED_NONE,
     * only `gap_ns`, `at` and `contradicting` are set. */
    mrd_timescale_link link;
} mrd_incarnation;

typedef struct {
    mrd_incarnation v[MRD_INCARNATIONS_MAX];
    size_t n; /* number of incarnations of the aggregator; 0 if the frames contain no timeline id */
} mrd_timeline;

/* Computes the timeline from the clock tables of all nodes of the session. The tables must not have
 * been converted by mrd_timeline_apply. */
mrd_err mrd_timeline_solve(const mrd_node_clock *const *clocks, size_t n,
                           mrd_timeline *ret_timeline);
/* Returns true if the timeline contains every incarnation of these clocks. */
bool mrd_timeline_knows(const mrd_timeline *timeline, const mrd_node_clock *clock);
/* Converts the clock tables and probes of a node to the session's timeline. Must be called only
 * once for each node. */
void mrd_timeline_apply(const mrd_timeline *timeline, mrd_node_clock *clock);
/* Returns the error bound of the link to the previous incarnation, in ns to either side. Returns 0
 * for the first incarnation, and -1 if the link has no bound. */
mrd_dur_ns mrd_incarnation_bound(const mrd_incarnation *incarnation);
/* Returns how many clocks of nodes contradict the links between incarnations. It must be 0. */
size_t mrd_timeline_violations(const mrd_timeline *timeline);
/* Appends a message about how incarnation i (not the first) is linked, without a line end. */
void mrd_timeline_text(const mrd_timeline *timeline, size_t i, mrd_buf *to);
/* returns the timeline as a JSON array; NULL if out of memory */
mrd_json *mrd_timeline_json(const mrd_timeline *timeline);
/* Loads the timeline from a JSON array. NULL gives an empty timeline. */
void mrd_timeline_of_json(mrd_timeline *to, const mrd_json *array);
/* Save or load the timeline as a file next to a session's clock tables. If there is no file,
 * mrd_timeline_load sets n to 0. */
mrd_err mrd_timeline_save(const mrd_timeline *timeline, const char *session_dir, mrd_why *why);
void mrd_timeline_load(mrd_timeline *to, const char *session_dir);

#endif
