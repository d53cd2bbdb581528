/*
 * trace/model/lanes.h - moves spans of one track that overlap without nesting to additional lanes.
 * No span is dropped, cut or moved in time.
 *
 * The caller passes spans in mrd_event_order. A span gets the lowest lane in which it nests. It
 * nests in a lane if no span is open there at its start, or if the innermost open span does not end
 * before it. If no span contains another one, this gives the least number of lanes (interval
 * colouring). If spans nest, finding the least number is NP-hard (circle-graph colouring), so it
 * may be larger. The same spans always get the same lanes. A lane with MRD_LANE_DEPTH_MAX open
 * spans accepts no further span, because Perfetto drops spans deeper than 512. Memory: open spans
 * and lanes. Cost: constant for spans that nest, else the logarithm of the track's lanes.
 */
#ifndef MRD_TRACE_LANES_H
#define MRD_TRACE_LANES_H

#include "trace/model/event.h"

typedef struct mrd_lanes mrd_lanes;

#define MRD_LANE_DEPTH_MAX 500

/* Creates lanes for track ids 0 .. tracks-1; higher ids may follow. Returns NULL if out of
 * memory. */
mrd_lanes *mrd_lanes_new(size_t tracks);
void mrd_lanes_free(mrd_lanes *lanes);
/* Returns the lane of a span or loss; 0 is the track itself. Must be called in the order of events.
 * Events of other kinds get lane 0. After a failure all events get lane 0, and mrd_lanes_err()
 * returns the error. */
uint32_t mrd_lanes_put(mrd_lanes *lanes, const mrd_event *ev);
mrd_err mrd_lanes_err(const mrd_lanes *lanes); /* NOMEM, or MRD_OK */

#endif
