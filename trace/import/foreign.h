/*
 * trace/import/foreign.h - recognises files of other tools that no importer reads, so that a refusal
 * can name them. Most of them are profiles without times of single events: samples, sums, or
 * descriptions of memory.
 *
 * Threads  no state.
 * Source   the formats' public descriptions: profile.proto of pprof, speedscope's JSON schema,
 *          perf.data-file-format.txt of Linux, PyTorch's ExecutionTraceObserver and _memory_profiler.
 */
#ifndef MRD_TRACE_FOREIGN_H
#define MRD_TRACE_FOREIGN_H

#include "base/buf.h"

/* Returns what a file is and what to do, such as "is a pprof profile, ...". `head` is the begin of
 * its decompressed contents. Sets *ret_beside to true if frameworks write such files beside their
 * traces, so that one of them among the inputs is no mistake. Returns NULL, and leaves *ret_beside
 * unchanged, if the file is not recognised. The text is static. */
const char *mrd_foreign_advice(mrd_str head, bool *ret_beside);

#endif
