/*
 * trace/analysis/judge/proof.h - tests whether it is proven that the last part of a collective
 * began after all others. The rule is in trace/analysis/judge/report.h (Late). It allows for the
 * clock bounds of different nodes, the mapping of device clocks, and the noise of two timestamps.
 *
 * If mrd_sink_options.same_clock is set, all processes of a node count as recorded by one clock,
 * even in different files. The same holds for all processes of unknown nodes.
 *
 * Threads  belongs to one thread. The catalog is complete before the first call. The results of
 *          clock checks in the catalog may change until the last call.
 */
#ifndef MRD_TRACE_PROOF_H
#define MRD_TRACE_PROOF_H

#include "trace/analysis/gather.h"
#include "trace/analysis/workers.h"

/* Assumed error, in ns, of a core's time against its node's clock after the runtime's mapping. It
 * holds while the core's longest device span is at most one second. The report prints this
 * assumption. docs/reference/timesync.md section 9 justifies it. */
#define MRD_REPORT_MAPPING 65000

/* Returns the assumed error for a core with a longest device span of span_ns. It is used if the
 * bound of a time does not include the error of the device's clock. */
static inline uint64_t
mrd_proof_mapping(uint64_t span_ns)
{
    uint64_t seconds = span_ns / MRD_SEC + (span_ns % MRD_SEC != 0);

    return MRD_REPORT_MAPPING * (seconds == 0 ? 1 : seconds);
}

/* Why the last part of a collective is not proven to have begun last. */
typedef struct {
    bool no_bound, suspect;
    bool mapped; /* only the error of the mapping of device clocks prevents a proof */
    bool across; /* the collective has parts of other nodes */
    /* the proof uses a device clock that a framework's tracer mapped to the host */
    bool traced;
} mrd_doubts;

typedef struct mrd_proof mrd_proof;

/* Creates a prover for the profile of `env`. Returns NULL if out of memory. */
mrd_proof *mrd_proof_new(const mrd_sink_env *env, const mrd_workers *who);
void mrd_proof_free(mrd_proof *proof); /* accepts NULL */
/* Sets the longest span of a worker's device. This is the longest time between two points at which
 * the device's clock was compared with the host's clock. */
void mrd_proof_span(mrd_proof *proof, uint32_t worker, uint64_t span_ns);
bool mrd_proof_of(const mrd_proof *proof, const mrd_gathered *group, mrd_doubts *ret);
/* Returns true if a check has contradicted a clock since mrd_proof_new. Earlier proofs may then be
 * wrong. */
bool mrd_proof_fell(const mrd_proof *proof);

#endif
