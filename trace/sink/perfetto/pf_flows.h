/*
 * trace/sink/perfetto/pf_flows.h - converts arrows to the form in which Perfetto draws them. Each
 * point of an arrow has an id, and Perfetto links a point to the previous point with the same id.
 * So it would draw a start with many ends as a chain. Therefore each end gets its own id
 * (mrd_flow_end_id), and the start has the ids of all ends. This table stores three kinds of facts
 * that Perfetto does not keep:
 *
 * - Ids that have started. The reader would take an end without a start for the start of an arrow.
 * - Ends that must be deferred to the END of their span, because a receiving span may begin before
 *   the sending one.
 * - Ids that start again. They are other arrows, so they get other ids in the file.
 *
 * A trace may be split into several files (trace/sink/perfetto/pf_parts.h), and Perfetto draws only
 * arrows with all points in one file. So the table keeps the last point of each arrow. If the next
 * point is in a later file, the last point is written there again.
 *
 * The table has at most MRD_PF_FLOWS_MAX ids. If it is full, ended ids are removed, then the oldest
 * ones. From then on, an end with an unknown id is written as if its arrow had started.
 */
#ifndef MRD_TRACE_PF_FLOWS_H
#define MRD_TRACE_PF_FLOWS_H

#include "trace/model/event.h"
#include "trace/sink/perfetto/pb_write.h"

#define MRD_PF_FLOWS_MAX (1u << 18)

typedef struct {
    /* id of the flow arrow; 0 means that the slot is free, because flow ids are not 0 */
    uint64_t id;
    /* number of times that an arrow with this id started; the top bit is set after the first end */
    uint32_t uses;
    uint32_t order;
    /* number of the arrow's ends that still come; 1 also for the last one, and 0 if unknown */
    uint32_t ends;
    mrd_pb_field row; /* row and time (`at`) of the flow arrow's latest point */
    mrd_ev_ns at;
    uint32_t part;
} mrd_pf_flow;

/* An end of a flow arrow that is written later, with the END of span number `order`
 * (trace/sink/perfetto/pf_ends.h). */
typedef struct {
    uint64_t id; /* id of the arrow; 0 after its end was written */
    uint32_t order;
} mrd_pf_late;

typedef struct {
    mrd_pf_flow *slots; /* hash table with open addressing */
    size_t mask, n;
    bool forgot;
    mrd_pb_field row; /* row and time (`at`) that the next points of flow arrows get */
    mrd_ev_ns at;
    uint32_t part; /* number of the current file of the trace */
    /* set by mrd_pf_flows_point: the arrow's previous point if that lies in an earlier file of the
     * trace, else its id is 0 */
    mrd_pf_flow before;
    mrd_pf_late *late; /* deferred ends, sorted by `order` */
    size_t n_late, cap_late, done_late;
    mrd_err err; /* NOMEM if memory ran out */
} mrd_pf_flows;

/* mrd_pf_flows_start adds the start of a flow arrow at span number `order`, with `ends` as in
 * mrd_flow. mrd_pf_flows_point adds another point of the arrow. Both return the arrow's id in the
 * file. For an arrow with several ends, this is the id of the last end. mrd_pf_flows_point returns
 * 0 if the arrow has not started. */
uint64_t mrd_pf_flows_start(mrd_pf_flows *flows, uint64_t id, uint32_t order, uint32_t ends);
uint64_t mrd_pf_flows_point(mrd_pf_flows *flows, uint64_t id, bool end);
/* Postpones the end of this flow arrow to the END of span number `order`. */
void mrd_pf_flows_defer(mrd_pf_flows *flows, uint64_t id, uint32_t order);
/* Returns the next flow arrow with an end that was postponed to the END of span number `order`. 0
 * if there are no more. */
uint64_t mrd_pf_flows_due(mrd_pf_flows *flows, uint32_t order);
void mrd_pf_flows_fini(mrd_pf_flows *flows);

#endif
