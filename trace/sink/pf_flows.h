/*
 * trace/sink/pf_flows.h - arrows as Perfetto draws them. A point names an id; the reader links each
 * point to the one before it. One id for a start with many ends would draw a chain, so each end gets an
 * id (mrd_flow_end_id), and the start carries all of them. What the reader cannot know is kept here:
 *
 * - whether an id has started: an end without a start must not become the start of something;
 * - a span that receives may well begin before the span that sends: its end waits for its END;
 * - an id that starts again is another arrow, and gets another id in the file.
 *
 * A trace that goes on in another file (trace/sink/pf_parts.h) draws only arrows whose points are in that file: the
 * table says of an arrow whose last point is in an earlier one where that was, so that it can be repeated.
 *
 * Memory is bounded by MRD_PF_FLOWS_MAX; beyond, ids that have ended or are oldest are forgotten,
 * and from then on an unknown end counts as started.
 */
#ifndef MRD_TRACE_PF_FLOWS_H
#define MRD_TRACE_PF_FLOWS_H

#include "trace/model/event.h"
#include "trace/sink/pb_write.h"

#define MRD_PF_FLOWS_MAX (1u << 18)

typedef struct {
    uint64_t id;   /* 0: free; flow ids are not 0 */
    uint32_t uses; /* starts so far; the top bit: an end was seen */
    uint32_t order;
    uint32_t ends;    /* mrd_flow.ends less the ends so far, at least 1; 0 if unknown */
    mrd_pb_field row; /* of its last point */
    mrd_ev_ns at;
    uint32_t part;
} mrd_pf_flow;

/* A flow that waits for the END of its span, which is known by its order (trace/sink/pf_ends.h). */
typedef struct {
    uint64_t id; /* 0: done */
    uint32_t order;
} mrd_pf_late;

typedef struct {
    mrd_pf_flow *slots; /* open addressing */
    size_t mask, n;
    bool forgot;
    mrd_pb_field row; /* of the points to come, ... */
    mrd_ev_ns at;
    uint32_t part; /* number of the file */
    mrd_pf_flow
        before; /* the last point of the arrow asked for, when it is in an earlier file; else id 0 */
    mrd_pf_late *late; /* in the order of their BEGINs */
    size_t n_late, cap_late, done_late;
    mrd_err err; /* NOMEM */
} mrd_pf_flows;

/* `order` is the number of the span that the point is on, `ends` as in mrd_flow. Both return the id for the
 * file, of a start with several ends that of the last. A point returns 0 if the arrow has not started. */
uint64_t mrd_pf_flows_start(mrd_pf_flows *f, uint64_t id, uint32_t order, uint32_t ends);
uint64_t mrd_pf_flows_point(mrd_pf_flows *f, uint64_t id, bool end);
/* Lets the end of this arrow wait for the END of span `order`. */
void mrd_pf_flows_defer(mrd_pf_flows *f, uint64_t id, uint32_t order);
/* One flow that waits for this END, 0 when there is no more. */
uint64_t mrd_pf_flows_due(mrd_pf_flows *f, uint32_t order);
void mrd_pf_flows_fini(mrd_pf_flows *f);

#endif
