/*
 * timesync/collective/collective.h - aligns clocks by matched collectives. This is used for files
 * that were recorded without probes, and to check alignments that were made by probes.
 *
 * In a synchronizing collective (all-reduce, all-gather, reduce-scatter, all-to-all, barrier) no
 * participant leaves before the last participant has entered. The bound uses only this fact: for
 * each pair p and q of participants, enter_p + x_p <= exit_q + x_q, where x is the offset of a
 * clock. Participants also leave at almost the same time, which is usual but not guaranteed. The
 * alignment consists of:
 *
 *   the estimate  Robust straight lines through the ends, which are the times of leaving. A process
 *                 has several segments if one line does not fit, because its clock was stepped or
 *                 slewed, or drifts.
 *   the model     The movement of a clock between collectives cannot be observed. Inside a segment
 *                 the clock is assumed to stay within `reach` of a model clock. The rate of the
 *                 model clock changes by at most w (200 ppb/s) and is at most 500 ppm off. `reach`
 *                 is the largest lasting residual of the segment's ends, or more if collectives are
 *                 rare. Every inequality is relaxed by `reach`, and every bound is widened by it.
 *   a break       The gap between two segments. It has no bound, and a collective that is entered
 *                 before a break and left after it gives no inequality.
 *   the bound     The set-membership bound of timesync/bound.h, but at least `reach`.
 *
 * There is no bound before the end of the first collective and after the end of the last
 * collective. If a clock is stepped and set back again within fewer than three collectives, this
 * may not be detected.
 *
 * Collectives of different processes are matched by group, operation, size and order, or by
 * sequence number if all observations of a group have one. Two sequences may overlap only partly.
 * They are matched at the position at which the intervals between ends agree, if these agree at no
 * other position. Collectives after lost events (a gap) are not matched. In addition, the ends must
 * show that the match is right (mrd_coll_find_evidence). This is not required if the numbers are
 * lasting (mrd_coll_obs). If there are too few collectives, or if they are too regular, the match
 * is refused.
 *
 * A process does not fit if its sequence differs from most other sequences, or if its ends disagree
 * with the others. With options->leave_out, such a process is left out with a reason. Otherwise the
 * whole match is refused. If the data do not name the members of a group, a test must show that its
 * participants meet in the same collectives (collective_meet.c).
 *
 * Units    int64 ns; drift in ppb. Sign offset = session - local.
 * Session  session time is the clock of the reference process.
 * Threads  any thread may call the functions. Several threads may read one match.
 * Source   docs/reference/timesync.md section 10.
 */
#ifndef MRD_TIMESYNC_COLLECTIVE_COLLECTIVE_H
#define MRD_TIMESYNC_COLLECTIVE_COLLECTIVE_H

#include "base/clock.h"
#include "timesync/align.h"

#define MRD_COLL_PROCESSES_MAX 65536
/* Largest allowed time in ns, which is in the year 2043. The smallest allowed time is 0. */
#define MRD_COLL_TIME_MAX (INT64_MAX / 4)

/* One observation: the part of one participant in one synchronizing collective. */
typedef struct {
    uint32_t process; /* index of the process, below process_count */
    /* number of the participant inside the process; each participant has its own sequence of
     * collectives, timed by the process's clock */
    uint64_t part;
    uint64_t group; /* hash that identifies the communicator, made from its members, tag, or name */
    uint64_t op;    /* hash of the operation, including its data type if known */
    /* size of the data in bytes or elements, in the same unit everywhere; -1 means unknown */
    int64_t size;
    uint32_t members; /* number of members of the group as recorded; 0 means unknown */
    /* true if the data do not name the members of the group, so that several groups may have the
     * same hash; only used with options->leave_out */
    bool doubtful;
    /* sequence number of the collective in its group, equal at all participants; -1 means
     * unknown */
    int64_t seq;
    /* true if seq is counted during the whole life of the group. Otherwise the numbers may begin
     * again in each recording, so that equal numbers may belong to different collectives. */
    bool lasting;
    /* times when the participant entered and left the collective, on the process's own clock */
    mrd_local_ns begin, end;
} mrd_coll_obs;

/* A gap: events of a process were lost between the local times `begin` and `end`. */
typedef struct {
    uint32_t process;
    mrd_local_ns begin, end;
} mrd_coll_gap;

typedef struct {
    /* How well the unaligned clocks agree, in ns. If a sequence of collectives fits at several
     * positions of another sequence, only positions at which the unaligned clocks agree within
     * trust_ns are accepted. 0 means that clocks are not compared. */
    mrd_dur_ns trust_ns;
    /* Leave out doubtful groups, and processes that do not fit the majority. Otherwise return an
     * error in these cases. */
    bool leave_out;
    /* Returns the name of a group or an operation for messages. If `text` is NULL or returns NULL,
     * messages contain the hash instead. */
    const char *(*text)(const void *self, uint64_t hash);
    const void *self;
} mrd_coll_options;

typedef struct mrd_coll_match mrd_coll_match;

/*
 * Finds the collectives in a list of observations. The observations are copied and may be in any
 * order. A group with observations of only one process is ignored. Collectives after a gap are left
 * out and counted. Errors:
 *
 *   EMPTY    nothing can be matched.
 *   CLOCK    sequences of collectives differ or fit at several positions, or a group has more
 *            members than recorded, because several communicators have one name. *why has the
 *            group, the processes, the position and both operations. With leave_out, CLOCK is
 *            returned only if nothing else is left.
 *   INVALID  an index or a time is out of range, or an end is before its begin.
 *   LIMIT, NOMEM
 */
mrd_err mrd_coll_match_new(const mrd_coll_obs *obs, size_t count, size_t process_count,
                           const mrd_coll_gap *gaps, size_t gap_count,
                           const mrd_coll_options *options, mrd_coll_match **ret_match,
                           mrd_why *why);
void mrd_coll_match_free(mrd_coll_match *match);
/* returns the number of matched collectives */
size_t mrd_coll_match_count(const mrd_coll_match *match);
/* returns the number of observations that are in no matched collective */
size_t mrd_coll_match_left_out(const mrd_coll_match *match);
/* Returns the observations of collective i and stores their number, at least 2, in *ret_n. They
 * belong to the match. */
const mrd_coll_obs *mrd_coll_match_borrow(const mrd_coll_match *match, size_t i, size_t *ret_n);

/* A range of local time of one process in which its clock neither stepped nor changed its rate
 * abruptly. */
typedef struct {
    int64_t from, to; /* local times (ns) of the first and last collective in the segment */
    int64_t base;     /* ns to add to the offsets of the segment's bins */
    double w;         /* maximum change of the model clock's rate, in ppb per s */
    /* the real clock is assumed to stay within this distance of a model clock, in ns */
    mrd_dur_ns reach;
    /* the segment's bins are bins[first] to bins[first + count - 1] of the process */
    size_t first, count;
} mrd_coll_segment;

/* The result of the alignment for one process. */
typedef struct {
    char *left_out; /* why the process was left out, owned; NULL if it was not */
    bool aligned;   /* false if no chain of collectives connects the process to the reference */
    /* true if some time range has no bound, because only one side is limited or no model clock
     * fits */
    bool unbounded;
    int64_t origin;      /* local time (ns) at which `offset` was measured */
    int64_t offset;      /* offset of the clock in its longest segment, in ns */
    double drift;        /* drift of the clock in its longest segment, in ppb */
    mrd_dur_ns bound_ns; /* width of the widest bound at a collective of the process, in ns */
    /* how far the ends of the process's collectives are from the fitted lines, in ns */
    mrd_dur_ns residual_median, residual_p99, residual_max;
    size_t used; /* number of collectives used for this process */
    /* number of collectives of this process that contradict the bounds of their participants */
    size_t violations;
    mrd_coll_segment *segments;
    mrd_align_bin *bins;
    size_t segment_count, bin_count;
} mrd_coll_process;

/* A range of session time around a break of a clock. In this range, the times of the reference
 * process, to which the other clocks are aligned, may be wrong. */
typedef struct {
    int64_t from, to;
} mrd_coll_break;

typedef struct {
    size_t process_count, reference;
    /* the results for all processes; owned, with their segments and bins */
    mrd_coll_process *process;
    mrd_coll_break *breaks; /* time ranges around breaks of any clock; owned */
    size_t break_count;
    /* number of collectives that contradict the bounds of their participants; must be 0 */
    size_t violations;
} mrd_coll_solution;

/*
 * Aligns all processes to the reference, which is the process with the lowest index that takes part
 * in a match. A process without a chain of shared collectives to the reference is not an error, but
 * is not aligned. With options->leave_out, processes that do not fit are left out and the others
 * are aligned without them. If most processes do not fit the reference, only the reference is left
 * out. Errors: NOMEM, and CLOCK if
 *
 *   - ends do not coincide even in segments, because the median residual exceeds
 *     MRD_COLL_RESIDUAL_MAX (*why has the process and the residual). A larger residual is accepted
 *     if the ends show that the match is right, and most processes have similar residuals,
 *   - a drift exceeds 500 ppm,
 *   - the inequalities contradict each other, or
 *   - the match is ambiguous, because the ends fit as well if each collective is matched with a
 *     later or earlier one (options->trust_ns can exclude this).
 */
#define MRD_COLL_RESIDUAL_MAX (100 * MRD_US)
mrd_err mrd_coll_solve(const mrd_coll_match *match, const mrd_coll_options *options,
                       mrd_coll_solution *ret_solution, mrd_why *why);
void mrd_coll_solution_fini(mrd_coll_solution *solution);
/* Returns true if the local time is in a segment of the process's clock, so that it has a bound. */
bool mrd_coll_knows(const mrd_coll_process *process, int64_t local);
/* Makes the alignment table of one process, valid for the segments of its clock. Returns NULL if
 * the process is not aligned or if out of memory. The caller owns the table. */
mrd_align *mrd_coll_align(const mrd_coll_solution *solution, size_t process, const char *name);

/* Result of checking alignment tables against collectives. The tables were made from probes, so the
 * collectives are independent evidence. */
typedef struct {
    size_t collectives;
    /* number of collectives that a participant left before another one entered, by the estimate */
    size_t out_of_order;
    /* number of collectives that are out of order even by the bounds; must be 0 */
    size_t violations;
    mrd_dur_ns worst; /* largest amount by which the bounds contradict the order, in ns */
} mrd_coll_check;

/*
 * Checks all collectives with the tables of their processes. A collective is skipped if the table
 * of one of its processes is NULL. An unaligned table has no bound, so its participants can be out
 * of order but cannot cause a violation.
 */
void mrd_coll_check_run(const mrd_coll_match *match, const mrd_align *const *tables,
                        mrd_coll_check *ret_check);

#endif
