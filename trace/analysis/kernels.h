/*
 * trace/analysis/kernels.h - sums the work of devices by name: how often it ran, how long, and how
 * each worker compares with the others. Times are sums of spans, so concurrent spans all count. An
 * execution on two physical cores is one span here (trace/sink/exec_pairs.h). The merged span lasts
 * from the earlier begin to the later end.
 *
 * Memory   MRD_KERNELS_CELLS pairs of name and worker, and at most MRD_KERNELS_NAMES names. The
 *          time of names that come later is added to `rest_ns`.
 * Threads  belongs to one thread. The catalog contains all names before mrd_kernels_new.
 */
#ifndef MRD_TRACE_KERNELS_H
#define MRD_TRACE_KERNELS_H

#include "trace/analysis/workers.h"

#define MRD_KERNELS_NAMES 4096u
#define MRD_KERNELS_CELLS 1048576u
/* Kernels with names that may hide communication matter if they take more than 1 /
 * MRD_KERNELS_UNCLEAR (5 %) of the time of all kernels. */
#define MRD_KERNELS_UNCLEAR 20u

typedef struct {
    mrd_sid name;
    /* The kernel is a collective. Its time contains waiting, so a long time does not mean that a
     * worker is slow. */
    bool collective;
    bool unclear; /* counts as computation, although its name contains words of communication */
    uint64_t calls, ns;
    uint32_t workers;   /* number of workers that ran this kernel */
    uint64_t median_ns; /* lower median of the workers' total times in this kernel, in ns */
    /* the worker with the longest total time in this kernel; the first if several are equal */
    uint32_t most_worker;
    uint64_t most_ns, most_calls;
} mrd_kernel;

typedef struct mrd_kernels mrd_kernels;

/* Returns NULL if out of memory. */
mrd_kernels *mrd_kernels_new(const mrd_catalog *cat, size_t workers);
void mrd_kernels_free(mrd_kernels *kernels); /* accepts NULL */
void mrd_kernels_add(mrd_kernels *kernels, const mrd_work *work, mrd_sid name, uint64_t ns);
/* Completes the list; call after the last event. Workers get new numbers: place[i] is the new
 * number of worker i. Errors: NOMEM. */
mrd_err mrd_kernels_finish(mrd_kernels *kernels, const uint32_t *place);
/* Returns the kernels, sorted by falling time, then by name. Borrowed. */
const mrd_kernel *mrd_kernels_list(const mrd_kernels *kernels, size_t *ret_n);
/* Returns the time of kernels with names beyond the first MRD_KERNELS_NAMES, in ns. */
uint64_t mrd_kernels_rest(const mrd_kernels *kernels);
/* Stores the time of kernels with unclear names (mrd_kernel.unclear), and the time of all kernels.
 * Returns true if the first is more than 1/MRD_KERNELS_UNCLEAR of the second. */
bool mrd_kernels_are_unclear(const mrd_kernels *kernels, uint64_t *ret_unclear_ns,
                             uint64_t *ret_all_ns);

#endif
