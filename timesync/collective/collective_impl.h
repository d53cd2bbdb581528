/*
 * timesync/collective/collective_impl.h - internals of matching and solving. Internal to timesync/.
 *
 * Times of the solver are doubles relative to an origin per process (its first matched end).
 * Session times are relative to the reference's origin.
 */
#ifndef MRD_TIMESYNC_COLLECTIVE_COLLECTIVE_IMPL_H
#define MRD_TIMESYNC_COLLECTIVE_COLLECTIVE_IMPL_H

#include "timesync/collective/collective.h"

#define MRD_COLL_FLOOR_NS 500.0 /* smaller residuals have equal weight */

struct mrd_coll_match {
    size_t process_count, count, left_out;
    size_t obs_n;
    mrd_coll_obs *obs; /* sorted by collective */
    size_t *first;     /* count + 1 */
    char **reasons;    /* the first reason of each process for leaving something out, or NULL */
};

/* The sequence of one participant in one group, in its own order. */
typedef struct {
    uint32_t process;
    mrd_coll_obs *obs;
    size_t n;
    ptrdiff_t at; /* position of its first in the common sequence */
    bool cut;     /* a gap cut it short */
    bool placed;  /* false: it belongs nowhere in the common sequence */
} coll_run;

/* Another position, or another count, fits as well if its scatter is at most this many times the
 * scatter of the best, or only FINE more. */
#define MRD_COLL_AS_WELL 4
#define MRD_COLL_FINE_NS 20000

/* Returns true if both can be the same collective. */
static inline bool
mrd_coll_same_kind(const mrd_coll_obs *obs, const mrd_coll_obs *coll_obs)
{
    return obs->op == coll_obs->op && obs->size == coll_obs->size;
}

/* Returns the name of a group or an operation for messages. `room` is for the hash if it has no
 * name. */
const char *mrd_coll_called(const mrd_coll_options *options, uint64_t hash, char room[20]);

/*
 * Finds one common sequence of the runs, and the position of each run in it. Sets `at` and `placed`.
 * Notes in `reasons`, by process, why a run is not placed. Errors: NOMEM. CLOCK if no more than half
 * of the runs fit together, or without options->leave_out if any run does not fit.
 */
mrd_err mrd_coll_place(coll_run *runs, size_t count, const mrd_coll_options *options,
                       char **reasons, mrd_why *why);
/* Tests whether participants meet in the collectives from number `from` on, which are of one group.
 * `missing` is the number of processes of the group that are not in them, because they did not fit.
 * Stores the answer for each of their observations. Errors: NOMEM. */
typedef enum { MRD_COLL_UNSHOWN, MRD_COLL_SCATTERS, MRD_COLL_MEETS } mrd_coll_meeting;
mrd_err mrd_coll_meet(const mrd_coll_match *match, size_t from, size_t missing,
                      mrd_coll_meeting *ret_meets);
/* Returns the median change of the difference of two sequences of ends from one to the next, which
 * offset and drift cannot explain. More than `most` may be returned as INFINITY. */
double mrd_coll_scatter(const mrd_coll_obs *obs, const int64_t *int64, size_t n, double most);
/* Copies a match without some processes. Errors: NOMEM, EMPTY. */
mrd_err mrd_coll_match_without(const mrd_coll_match *match, const bool *without,
                               mrd_coll_match **ret_match);
/* Notes the first reason for leaving out something of a process. Errors: NOMEM. */
mrd_err mrd_coll_note(char **reasons, size_t process, const char *reason);

#define MRD_COLL_FAR 1e17 /* ns: limit of residuals */

/* One participation: a process, a collective, times relative to the process's origin. */
typedef struct {
    uint32_t process;
    size_t coll;
    double begin, end;
} coll_part;

typedef struct {
    const mrd_coll_match *match;
    size_t n;             /* parts */
    coll_part *parts;     /* sorted by process, then collective */
    size_t *first, *next; /* per process, process_count + 1; `next` is a cursor during filling */
    int64_t *origin;      /* per process: its first matched end */
    double *a, *b;        /* per process: session - local = a + b * t, relative to the origins */
    bool *known;          /* per process: connected to the reference */
    /* per collective, its end by the lines, in session time; NAN if unknown */
    double *v;
    double *x, *y, *w; /* scratch, n each */
    size_t reference;
} coll_solver;

/* One end of one process relative to the session. */
typedef struct {
    double begin, end; /* local */
    double at;         /* session time at which the others left: end + offset, up to the scatter */
    /* `at` comes from a clock that is within this of its model; 0 for the reference */
    double reach;
    double up, down; /* in session time, begin <= up, end >= down; infinite if unknown */
    size_t coll;
} coll_sample;

/* A range of samples that one line fits: offset = a + b * end. */
typedef struct {
    size_t first, n;
    double a, b;
    double residual, sum; /* largest and sum of the absolute residuals */
} coll_line;

/* Fits a line of least absolute residuals, by reweighting; w is scratch memory. Returns a. */
double mrd_coll_fit(const double *x, const double *y, double *w, size_t n, double *ret_b);
double mrd_coll_median(double *v, size_t n); /* sorts v */

/* Splits samples (by rising end) where one line does not fit. x, y, w: scratch memory of 2n.
 * Returns the number of lines, at most MRD_COLL_SEGMENTS. */
#define MRD_COLL_SEGMENTS 64
size_t mrd_coll_cut(const coll_sample *sample, size_t n, double *x, double *y, double *w,
                    coll_line lines[MRD_COLL_SEGMENTS]);
/* Whether a segment has neighbours, and how far its clock went back there. Local times within that
 * distance occur twice. */
typedef struct {
    bool before, after;
    double back_before, back_after;
} coll_seams;

/*
 * Computes the set-membership bound of one segment, and adds bins and a segment to *to. `shift` is
 * the reference's origin minus the process's. *ret_fits is false if no clock of the model fits. A
 * segment with neighbours then has no bound, any other segment is left out. Errors: NOMEM.
 */
mrd_err mrd_coll_bound(const coll_sample *sample, const coll_line *line, int64_t origin,
                       int64_t shift, coll_seams seams, mrd_coll_process *to, bool *ret_fits);
/* Refuses the pairs of one process that fit as well when its collectives are counted differently. */
mrd_err mrd_coll_check_pairs(coll_solver *solver, size_t process, mrd_dur_ns trust, mrd_why *why);
/* The same after a break: lines[k] continues lines[k - 1] when counted differently. */
mrd_err mrd_coll_check_cut(const coll_solver *solver, size_t process, const double *at,
                           const coll_sample *sample, const coll_line *lines, size_t n_lines,
                           mrd_why *why);

/* Solves once. With leave_out, `odd` receives the processes at fault, with reasons, and *first_odd
 * the first reason. Then the solution is not valid, apart from its reference. */
mrd_err mrd_coll_solve_once(const mrd_coll_match *match, const mrd_coll_options *options,
                            char **odd, mrd_why *first_odd, mrd_coll_solution *ret_solution,
                            mrd_why *why);

#endif
