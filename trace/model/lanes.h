/*
 * trace/model/lanes.h - spans of one track that overlap without nesting go to extra lanes. Nothing is
 * dropped, cut or moved.
 *
 * Fed in mrd_event_order. A span takes the lowest lane where it nests: the lane is free at its
 * start, or the innermost span open there ends no earlier. Where no spans contain others this is
 * the least number of lanes possible (interval colouring); in general the least number is NP-hard
 * (circle-graph colouring) and first-fit is the stated choice. Stable: the same spans give the same
 * lanes. A lane also counts as taken when MRD_LANE_DEPTH_MAX spans are open in it (Perfetto drops
 * what is deeper than 512). Memory: open spans and lanes only. Cost: constant for spans that nest,
 * the logarithm of the lanes of the track otherwise.
 */
#ifndef MRD_TRACE_LANES_H
#define MRD_TRACE_LANES_H

#include "trace/model/event.h"

typedef struct mrd_lanes mrd_lanes;

#define MRD_LANE_DEPTH_MAX 500

mrd_lanes *mrd_lanes_new(size_t tracks); /* track ids 0 .. tracks-1; grows when asked for more */
void mrd_lanes_free(mrd_lanes *lanes);
/* The lane of this span (0 is the track itself). A loss counts as a span; instants and the rest
 * take no room and get lane 0. Lane 0 too after a failure, which mrd_lanes_err then names. */
uint32_t mrd_lanes_put(mrd_lanes *lanes, const mrd_event *ev);
uint32_t mrd_lanes_used(const mrd_lanes *lanes, mrd_track_id track); /* lanes so far, at least 1 */
mrd_err mrd_lanes_err(const mrd_lanes *lanes);                       /* NOMEM, or MRD_OK */

#endif
