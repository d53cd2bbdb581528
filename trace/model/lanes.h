/*
 * trace/model/lanes.h - moves spans of one track that overlap without nesting to additional lanes.
 * No span is dropped, cut or moved in time.
 *
 * Spans come in mrd_event_order. A span gets the lowest lane in which it nests: the lane is free at
 * its start, or its innermost open span ends no earlier. If no spans contain others, this is the
 * least number of lanes (interval colouring). If spans also nest, finding the least number is
 * NP-hard (circle-graph colouring), so the first lane that fits is used. The same spans give the
 * same lanes. A lane with MRD_LANE_DEPTH_MAX open spans counts as occupied, because Perfetto drops
 * spans deeper than 512. Memory: open spans and lanes. Cost: constant for spans that nest,
 * otherwise the logarithm of the track's lanes.
 */
#ifndef MRD_TRACE_LANES_H
#define MRD_TRACE_LANES_H

#include "trace/model/event.h"

typedef struct mrd_lanes mrd_lanes;

#define MRD_LANE_DEPTH_MAX 500

/* for track ids 0 .. tracks-1; grows for higher ids. NULL if out of memory */
mrd_lanes *mrd_lanes_new(size_t tracks);
void mrd_lanes_free(mrd_lanes *lanes);
/* Returns the lane of this span (0 is the track itself). A loss counts as a span. Instants and
 * other kinds get lane 0. After a failure all events get lane 0, and mrd_lanes_err returns the
 * error. */
uint32_t mrd_lanes_put(mrd_lanes *lanes, const mrd_event *ev);
mrd_err mrd_lanes_err(const mrd_lanes *lanes); /* NOMEM, or MRD_OK */

#endif
