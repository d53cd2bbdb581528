/*
 * timesync/collective.h - what matched collectives say about clocks: aligning offline files that
 * carry no probes, and checking alignments that come from probes.
 *
 * In a synchronising collective (all-reduce, all-gather, reduce-scatter, all-to-all, barrier) no
 * participant leaves before the last has entered, and all leave almost together. Hence
 *   the solver   aligns processes by the ENDs: session = local + offset + drift * (local - origin),
 *                robust straight lines against the median end of each collective
 *   the bound    comes only from enter_p + x_p <= v <= exit_q + x_q, one unknown v a collective,
 *                relaxed from the reference process. It holds if clocks are straight lines of the
 *                fitted drift; it is as wide as the collectives are long
 * The residuals say more about quality than the bound, but only the bound is one.
 *
 * Matching is by group, operation, size and order of each process's own sequence (by sequence
 * number where all observations of a group carry one). It is refused, with a sentence, where
 * sequences differ, where one fits another at several places, and behind a gap.
 *
 * Units    int64 ns; drift in ppb.      Sign  offset = session - local.
 * Session  the reference process's own clock.
 * Threads  no state; a match may be shared for reading.
 * Source   docs/timesync.md section 10.
 */
#ifndef MRD_TIMESYNC_COLLECTIVE_H
#define MRD_TIMESYNC_COLLECTIVE_H

#include "base/clock.h"
#include "timesync/align.h"

#define MRD_COLL_PROCESSES_MAX 65536

/* One participant's part in one synchronising collective. */
typedef struct {
    uint32_t process; /* index below process_count */
    uint64_t group;   /* hash of the communicator: its members, tag, or name */
    uint64_t op;      /* hash of the operation, its data type included where known */
    int64_t size;     /* bytes or elements, the same measure everywhere; -1 unknown */
    int64_t seq;      /* number inside the group, the same at all participants; -1 unknown */
    int64_t begin_ns, end_ns; /* on the process's own clock */
} mrd_coll_obs;

/* Events of a process were lost between two of its times. */
typedef struct {
    uint32_t process;
    int64_t begin_ns, end_ns;
} mrd_coll_gap;

typedef struct {
    /* Sequences of unequal length may fit at several places. Of these, only places where the clocks
     * as they are agree within trust_ns count; 0 trusts no clock. */
    mrd_dur_ns trust_ns;
} mrd_coll_options;

typedef struct mrd_coll_match mrd_coll_match;

/*
 * Matches. Observations may come in any order and are copied. Groups with a single process here are
 * ignored. Errors: EMPTY when nothing is left to match, CLOCK when sequences differ or are
 * ambiguous
 * (*why names group, processes, position and both operations), INVALID for an index out of range or
 * an end before its begin, LIMIT, NOMEM. What lies behind a gap is left out and counted.
 */
mrd_err mrd_coll_match_new(const mrd_coll_obs *obs, size_t n, size_t process_count,
                           const mrd_coll_gap *gaps, size_t gap_count,
                           const mrd_coll_options *options, mrd_coll_match **ret_match,
                           mrd_why *why);
void mrd_coll_match_free(mrd_coll_match *match);
size_t mrd_coll_match_count(const mrd_coll_match *match);    /* matched collectives */
size_t mrd_coll_match_left_out(const mrd_coll_match *match); /* observations without partner */
/* The participants of collective i, borrowed; *ret_n >= 2. */
const mrd_coll_obs *mrd_coll_match_borrow(const mrd_coll_match *match, size_t i, size_t *ret_n);

/* One process after solving. */
typedef struct {
    bool aligned;      /* false: no chain of collectives reaches the reference */
    int64_t origin;    /* local ns where offset holds */
    int64_t offset;    /* ns */
    double drift;      /* ppb */
    mrd_dur_ns lo, hi; /* bound of the offset relative to `offset`; lo <= 0 <= hi; INT64_MIN and
                          INT64_MAX where the data give none */
    mrd_dur_ns residual_median, residual_p99, residual_max; /* of ends, absolute */
    size_t used;                                            /* collectives */
} mrd_coll_process;

typedef struct {
    size_t process_count, reference;
    mrd_coll_process *process; /* owned */
    size_t violations; /* collectives that contradict the inequalities under the fitted lines */
} mrd_coll_solution;

/*
 * Aligns all processes to the lowest-numbered one that takes part in a match. Errors: CLOCK when
 * ends do not coincide (*why states process and residual; more than MRD_COLL_RESIDUAL_MAX of
 * median), or when a drift exceeds 500 ppm; NOMEM. Processes that no chain reaches are not an
 * error.
 */
#define MRD_COLL_RESIDUAL_MAX (1 * MRD_MS)
mrd_err mrd_coll_solve(const mrd_coll_match *match, mrd_coll_solution *ret_solution, mrd_why *why);
void mrd_coll_solution_fini(mrd_coll_solution *solution);
/* The table of one process, valid over [first, last] local ns. NULL when not aligned or no memory.
 */
mrd_align *mrd_coll_align(const mrd_coll_solution *solution, size_t process, const char *name,
                          int64_t first, int64_t last);

/* The check that runs in production: collectives are not an input of probe alignment. */
typedef struct {
    size_t collectives;
    size_t out_of_order; /* by estimate: somebody left before somebody entered */
    size_t violations;   /* by bound: even the whole intervals say so. Must be 0 */
    mrd_dur_ns worst;    /* largest violation of the bound, ns */
} mrd_coll_check;

/*
 * Maps every participant by its process's table (NULL: collectives with that process are skipped).
 * Unaligned tables have an unknown bound and can be out of order but never violate.
 */
void mrd_coll_check_run(const mrd_coll_match *match, const mrd_align *const *tables,
                        mrd_coll_check *ret_check);

#endif
