/*
 * timesync/collective.h - what matched collectives say about clocks: aligning offline files that
 * carry no probes, and checking alignments that come from probes.
 *
 * In a synchronising collective (all-reduce, all-gather, reduce-scatter, all-to-all, barrier) no
 * participant leaves before the last has entered. That is the only physical fact, and the bound
 * comes from nothing else: for every pair, enter_p + x_p <= exit_q + x_q. They also leave almost
 * together, which is no law, and gives
 *   the estimate robust straight lines of the ENDs, in segments where one line will not do (a clock
 *                that was stepped, slewed, or wanders)
 *   the model    how a clock moves between collectives cannot be seen. Inside a segment it is assumed
 *                to stay within `reach` of a clock whose rate changes by at most w (200 ppb/s) and
 *                is at most 500 ppm off; reach is the largest residual of the segment's ends, more where
 *                collectives are rare. Every inequality is relaxed by it and every bound widened
 *   a break      between two segments no bound is stated, and a collective across it gives no
 *                inequality
 *   the bound    the set-membership bound of bound.h, never narrower than the largest residual
 * Before the end of the first collective and after that of the last nothing is known. Not seen: a
 * clock that is stepped away and back between two collectives.
 *
 * Matching is by group, operation, size and order of each process's own sequence (by sequence
 * number where all observations of a group carry one). It is refused, with a message, where
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
#define MRD_COLL_TIME_MAX      (INT64_MAX / 4) /* ns: 2043; 0 is the least */

/* One participant's part in one synchronising collective. */
typedef struct {
    uint32_t process;        /* index below process_count */
    uint64_t group;          /* hash of the communicator: its members, tag, or name */
    uint64_t op;             /* hash of the operation, its data type included where known */
    int64_t size;            /* bytes or elements, the same measure everywhere; -1 unknown */
    uint32_t members;        /* the group says that it has so many; 0 unknown */
    int64_t seq;             /* number inside the group, the same at all participants; -1 unknown */
    mrd_local_ns begin, end; /* on the process's own clock */
} mrd_coll_obs;

/* Events of a process were lost between two of its times. */
typedef struct {
    uint32_t process;
    mrd_local_ns begin, end;
} mrd_coll_gap;

typedef struct {
    /* Sequences of unequal length may fit at several places. Of these, only places where the clocks
     * as they are agree within trust_ns count; 0 trusts no clock. */
    mrd_dur_ns trust_ns;
    /* What messages call a group or an operation; NULL, also as an answer: its hash. */
    const char *(*text)(const void *self, uint64_t hash);
    const void *self;
} mrd_coll_options;

typedef struct mrd_coll_match mrd_coll_match;

/*
 * Matches. Observations may come in any order and are copied. Groups with a single process here are
 * ignored. Errors: EMPTY when nothing is left to match, CLOCK when sequences differ or are
 * ambiguous, or a group has more members than it says (several communicators of one name)
 * (*why names group, processes, position and both operations), INVALID for an index or a time out
 * of range or an end before its begin, LIMIT, NOMEM. What lies behind a gap is left out and counted.
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

/* A stretch of one process in which its clock did nothing unusual. */
typedef struct {
    int64_t from, to;    /* local ns: its evidence */
    int64_t base;        /* added to the offsets of its bins */
    double w;            /* the model: the rate changes by at most this, ppb per s */
    mrd_dur_ns reach;    /* ... and the clock is within this of such a clock */
    size_t first, count; /* bins */
} mrd_coll_segment;

/* One process after solving. */
typedef struct {
    bool aligned;        /* false: no chain of collectives reaches the reference */
    bool unbounded;      /* somewhere no bound is stated: one side is open, or nothing fits there */
    int64_t origin;      /* local ns where offset holds */
    int64_t offset;      /* ns; of the longest segment */
    double drift;        /* ppb; of the longest segment */
    mrd_dur_ns bound_ns; /* the largest, at its collectives */
    mrd_dur_ns residual_median, residual_p99, residual_max; /* of ends, absolute */
    size_t used;                                            /* collectives */
    size_t violations; /* of those it took part in: contradict the bounds of their participants */
    mrd_coll_segment *segments;
    mrd_align_bin *bins;
    size_t segment_count, bin_count;
} mrd_coll_process;

/* Session time around a break of some clock: what the reference shows there may be in doubt. */
typedef struct {
    int64_t from, to;
} mrd_coll_break;

typedef struct {
    size_t process_count, reference;
    mrd_coll_process *process; /* owned, with their segments and bins */
    mrd_coll_break *breaks;    /* owned */
    size_t break_count;
    size_t violations; /* collectives that contradict the bounds: must be 0 */
} mrd_coll_solution;

/*
 * Aligns all processes to the lowest-numbered one that takes part in a match. Errors: CLOCK when
 * ends do not coincide even in segments (*why states process and residual; more than
 * MRD_COLL_RESIDUAL_MAX of median), when a drift exceeds 500 ppm, when the inequalities contradict
 * each other, or when the same collectives fit as well counted differently, so that nothing tells
 * which belong together (options->trust_ns excludes such); NOMEM. Processes that no chain reaches
 * are not an error.
 */
#define MRD_COLL_RESIDUAL_MAX (100 * MRD_US)
mrd_err mrd_coll_solve(const mrd_coll_match *match, const mrd_coll_options *options,
                       mrd_coll_solution *ret_solution, mrd_why *why);
void mrd_coll_solution_fini(mrd_coll_solution *solution);
/* Whether that local time lies in a segment: only there a bound is stated. */
bool mrd_coll_knows(const mrd_coll_process *p, int64_t local);
/* The table of one process, good where it is known. NULL when not aligned or no memory. */
mrd_align *mrd_coll_align(const mrd_coll_solution *solution, size_t process, const char *name);

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
