/*
 * timesync/collective/collective.h - aligns clocks by matched collectives, for offline files
 * without probes and as a check of alignments by probes.
 *
 * In a synchronizing collective (all-reduce, all-gather, reduce-scatter, all-to-all, barrier) no
 * participant leaves before the last one has entered. This is the only physical fact, and the bound
 * uses nothing else: for every pair, enter_p + x_p <= exit_q + x_q. Participants also leave at
 * almost the same time, which is usual but not guaranteed. The alignment consists of:
 *
 *   the estimate  robust straight lines of the ENDs. There are several segments if one line does
 *                 not fit, because a clock was stepped or slewed, or drifts.
 *   the model     the movement of a clock between collectives cannot be observed. Inside a segment
 *                 the clock is assumed to stay within `reach` of a model clock. The rate of the
 *                 model clock changes by at most w (200 ppb/s) and is at most 500 ppm off. `reach`
 *                 is the largest lasting residual of the segment's ends, or more if collectives are
 *                 rare. Every inequality is relaxed by `reach`, and every bound is widened by it.
 *   a break       between two segments. No bound is stated there, and a collective across a break
 *                 gives no inequality.
 *   the bound     the set-membership bound of timesync/bound.h, and at least `reach`.
 *
 * Before the end of the first collective and after the end of the last one there is no bound. A
 * clock that is stepped away and back within fewer than three collectives may not be detected.
 *
 * Matching is by group, operation, size and order of each process's own sequence (by sequence
 * number if all observations of a group have one). Sequences may overlap only partly. The position
 * is the one at which the intervals between ends agree, if no other position agrees as well.
 * Nothing is matched after a gap. The ends must then show that the match is right
 * (mrd_coll_find_evidence): too few or too regular collectives are refused.
 *
 * A process with a sequence that differs from the majority's, or with ends that do not fit, is left
 * out with a reason (options->leave_out), or everything is refused. If the data do not name the
 * members of a group, a test must show that all of them meet (collective_meet.c).
 *
 * Units    int64 ns; drift in ppb. Sign offset = session - local.
 * Session  the reference process's own clock.
 * Threads  no state; a match may be shared for reading.
 * Source   docs/reference/timesync.md section 10.
 */
#ifndef MRD_TIMESYNC_COLLECTIVE_COLLECTIVE_H
#define MRD_TIMESYNC_COLLECTIVE_COLLECTIVE_H

#include "base/clock.h"
#include "timesync/align.h"

#define MRD_COLL_PROCESSES_MAX 65536
/* ns (the year 2043); the smallest allowed time is 0 */
#define MRD_COLL_TIME_MAX (INT64_MAX / 4)

/* One participant's part in one synchronising collective. */
typedef struct {
    uint32_t process; /* index of the process, below process_count */
    /* number of a participant inside the process; each has its own sequence on the process's
     * clock */
    uint64_t part;
    uint64_t group; /* hash that identifies the communicator, made from its members, tag, or name */
    uint64_t op;    /* hash of the operation, including its data type if known */
    int64_t size;   /* bytes or elements, in the same unit everywhere; -1 means unknown */
    uint32_t members; /* number of members that the group states; 0 means unknown */
    /* The data do not name the members of the group, so several groups may share its hash. Only
     * used with leave_out. */
    bool doubtful;
    /* sequence number of the collective in its group, equal at all participants; -1 means
     * unknown */
    int64_t seq;
    mrd_local_ns begin, end; /* entry and exit, on the process's own clock */
} mrd_coll_obs;

/* A gap: events of a process were lost between two of its times. */
typedef struct {
    uint32_t process;
    mrd_local_ns begin, end;
} mrd_coll_gap;

typedef struct {
    /* Limit in ns. Sequences of different length may fit at several positions. Then only
     * positions count at which the unaligned clocks agree within trust_ns. 0 means that no
     * position counts. */
    mrd_dur_ns trust_ns;
    /* Leaves out processes that do not fit, if the majority does, and doubtful groups, instead of
     * refusing everything. */
    bool leave_out;
    /* Returns the name of a group or an operation for messages. If `text` is NULL or returns NULL,
     * messages show the hash. */
    const char *(*text)(const void *self, uint64_t hash);
    const void *self;
} mrd_coll_options;

typedef struct mrd_coll_match mrd_coll_match;

/*
 * Matches observations, which may come in any order and are copied. Groups with a single process
 * here are ignored. Errors: EMPTY if nothing can be matched, LIMIT, NOMEM. CLOCK if sequences
 * differ or are ambiguous, or if a group has more members than it states, which means several
 * communicators of one name. *why then has group, processes, position and both operations. With
 * leave_out, CLOCK is returned only if nothing else is left. INVALID for an index or a time out of
 * range or an end before its begin. Collectives after a gap are left out and counted.
 */
mrd_err mrd_coll_match_new(const mrd_coll_obs *obs, size_t count, size_t process_count,
                           const mrd_coll_gap *gaps, size_t gap_count,
                           const mrd_coll_options *options, mrd_coll_match **ret_match,
                           mrd_why *why);
void mrd_coll_match_free(mrd_coll_match *match);
/* returns the number of matched collectives */
size_t mrd_coll_match_count(const mrd_coll_match *match);
/* returns the number of observations without a partner */
size_t mrd_coll_match_left_out(const mrd_coll_match *match);
/* Returns the participants of collective i, borrowed; *ret_n >= 2. */
const mrd_coll_obs *mrd_coll_match_borrow(const mrd_coll_match *match, size_t i, size_t *ret_n);

/* A time range of one process in which its clock neither stepped nor changed its rate abruptly. */
typedef struct {
    int64_t from, to;    /* local ns of the first and last collective in the segment */
    int64_t base;        /* ns, added to the offsets of the segment's bins */
    double w;            /* ppb per s: the model's clock changes its rate by at most this */
    mrd_dur_ns reach;    /* ns: the real clock is assumed to stay within this of such a clock */
    size_t first, count; /* the segment's bins */
} mrd_coll_segment;

/* The result of the alignment for one process. */
typedef struct {
    char *left_out; /* why the process was left out, owned; NULL if it was not */
    bool aligned;   /* false if no chain of collectives connects the process to the reference */
    bool unbounded; /* a time range has no bound, because one side is open or no clock fits */
    int64_t origin; /* local ns at which `offset` was measured */
    int64_t offset; /* ns; offset of the longest segment */
    double drift;   /* ppb; drift of the longest segment */
    mrd_dur_ns bound_ns; /* ns; the widest bound at any of its collectives */
    /* ns; absolute residuals of the ends of collectives after the fit */
    mrd_dur_ns residual_median, residual_p99, residual_max;
    size_t used; /* number of collectives used for this process */
    /* collectives of this process that contradict the bounds of their participants */
    size_t violations;
    mrd_coll_segment *segments;
    mrd_align_bin *bins;
    size_t segment_count, bin_count;
} mrd_coll_process;

/* A range of session time around a break of some clock, where the reference's times may be
 * wrong. */
typedef struct {
    int64_t from, to;
} mrd_coll_break;

typedef struct {
    size_t process_count, reference;
    mrd_coll_process *process; /* owned, with their segments and bins */
    mrd_coll_break *breaks;    /* breaks of any clock, owned */
    size_t break_count;
    size_t violations; /* number of collectives that contradict the bounds; must be 0 */
} mrd_coll_solution;

/*
 * Aligns all processes to the lowest-numbered one that takes part in a match. Errors: CLOCK if ends
 * do not coincide even in segments (*why has process and residual). This is so if the median
 * residual is more than MRD_COLL_RESIDUAL_MAX, unless the ends show the match and most processes
 * have similar residuals. CLOCK also if a drift exceeds 500 ppm, or if the inequalities contradict
 * each other. CLOCK also if the match is ambiguous, because the same collectives fit as well when
 * counted differently (options->trust_ns excludes this). NOMEM. Processes without a connecting chain
 * are not an error. With options->leave_out, the processes at fault are left out instead, and the
 * others are aligned without them. If most processes do not fit the reference, it is the one at fault.
 */
#define MRD_COLL_RESIDUAL_MAX (100 * MRD_US)
mrd_err mrd_coll_solve(const mrd_coll_match *match, const mrd_coll_options *options,
                       mrd_coll_solution *ret_solution, mrd_why *why);
void mrd_coll_solution_fini(mrd_coll_solution *solution);
/* Returns true if the local time lies in a segment, where a bound is stated. */
bool mrd_coll_knows(const mrd_coll_process *process, int64_t local);
/* Makes the table of one process, which is valid where the process's clock is aligned. NULL if it
 * is not aligned or if out of memory. */
mrd_align *mrd_coll_align(const mrd_coll_solution *solution, size_t process, const char *name);

/* Result of checking tables that were made from probes against collectives, which are no input of
 * those tables. */
typedef struct {
    size_t collectives;
    /* collectives where, by the estimate, a participant left before another one entered */
    size_t out_of_order;
    size_t violations; /* collectives where even the bounds show this; must be 0 */
    mrd_dur_ns worst;  /* largest violation of the bound, ns */
} mrd_coll_check;

/*
 * Maps every participant by its process's table (NULL: collectives with that process are skipped).
 * Unaligned tables have an unknown bound. Their participants can be out of order but never violate.
 */
void mrd_coll_check_run(const mrd_coll_match *match, const mrd_align *const *tables,
                        mrd_coll_check *ret_check);

#endif
