/*
 * trace/analysis/kernels.h - what devices run, by name: how often, how long, and at each worker against
 * the others. Time is the sum of the spans: those that run at once count each. An execution on two
 * physical cores is one span here (trace/sink/exec_pairs.h): it counts once, from the earlier begin to the later
 * end.
 *
 * Memory   MRD_KERNELS_CELLS pairs of name and worker, and never more than MRD_KERNELS_NAMES names; the
 *          time of names that come later is in `rest_ns`.
 * Threads  belongs to one thread. The catalog holds all names before mrd_kernels_new.
 */
#ifndef MRD_TRACE_KERNELS_H
#define MRD_TRACE_KERNELS_H

#include "trace/analysis/workers.h"

#define MRD_KERNELS_NAMES   4096u
#define MRD_KERNELS_CELLS   1048576u
#define MRD_KERNELS_UNCLEAR 20u /* unclear names matter above one part in this many */

typedef struct {
    mrd_sid name;
    bool collective; /* whose time holds waiting: who is longest in it is not slow */
    bool unclear;    /* counts as computation, although its name contains words of communication */
    uint64_t calls, ns;
    uint32_t workers;     /* that ran it */
    uint64_t median_ns;   /* the lower median of the workers that ran it, each with its sum */
    uint32_t most_worker; /* who ran it longest; of several the first */
    uint64_t most_ns, most_calls;
} mrd_kernel;

typedef struct mrd_kernels mrd_kernels;

mrd_kernels *mrd_kernels_new(const mrd_catalog *cat, size_t workers); /* NULL without memory */
void mrd_kernels_free(mrd_kernels *k);                                /* NULL is fine */
void mrd_kernels_add(mrd_kernels *k, const mrd_work *work, mrd_sid name, uint64_t ns);
/* After the last. place: as mrd_step_path_renumber's. Errors: NOMEM. */
mrd_err mrd_kernels_finish(mrd_kernels *k, const uint32_t *place);
/* By falling time, then name. Borrowed. */
const mrd_kernel *mrd_kernels_list(const mrd_kernels *k, size_t *ret_n);
uint64_t mrd_kernels_rest(const mrd_kernels *k); /* ns of names beyond the limit */
/* Stores the time of unclear names and of all names. Returns true if the first is more than 1/MRD_KERNELS_UNCLEAR. */
bool mrd_kernels_are_unclear(const mrd_kernels *k, uint64_t *ret_unclear_ns, uint64_t *ret_all_ns);

#endif
