/*
 * trace/analysis/proof.h - whether the last part of a collective began after all others beyond doubt, by
 * the rule of trace/analysis/report.h (Late): clock bounds of different nodes, the mapping of device
 * clocks, and the noise of two stamps.
 *
 * With mrd_sink_options.same_clock all processes of one node, and those of unknown nodes, were recorded by
 * one clock, whatever file they came in.
 *
 * Threads  belongs to one thread. The catalog is complete before the first call; what checks say of its
 *          clocks may change until the last.
 */
#ifndef MRD_TRACE_PROOF_H
#define MRD_TRACE_PROOF_H

#include "trace/analysis/gather.h"
#include "trace/analysis/workers.h"

/* ns: a core's time as the runtime maps it, against its node's clock, while its longest device span
 * is no longer than a second; as many times that as the span has begun seconds. An assumption,
 * which the report prints; docs/timesync.md section 9 has what it rests on. */
#define MRD_REPORT_MAPPING 65000

/* Why the last part of a collective is not proven to be the last to begin. */
typedef struct {
    bool no_bound, suspect;
    bool mapped; /* the device clocks' mapping alone leaves it open */
    bool across; /* parts of other nodes are in it */
    bool traced; /* a part is of a device whose clock a framework's tracer moved to its host's */
} mrd_doubts;

typedef struct mrd_proof mrd_proof;

mrd_proof *mrd_proof_new(const mrd_sink_env *env, const mrd_workers *who); /* NULL without memory */
void mrd_proof_free(mrd_proof *p);                                         /* NULL is fine */
/* The longest span of a worker's device so far: for so long its clock was not mapped anew. */
void mrd_proof_span(mrd_proof *p, uint32_t worker, uint64_t span_ns);
bool mrd_proof_of(const mrd_proof *p, const mrd_gathered *c, mrd_doubts *ret);
/* Whether a check has contradicted a clock since mrd_proof_new. */
bool mrd_proof_fell(const mrd_proof *p);

#endif
