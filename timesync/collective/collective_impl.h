/*
 * timesync/collective/collective_impl.h - internals of matching and solving. Internal to timesync/.
 *
 * Times of the solver are doubles relative to an origin per process (its first matched end).
 * Session times are relative to the reference's origin.
 */
#ifndef MRD_TIMESYNC_COLLECTIVE_COLLECTIVE_IMPL_H
#define MRD_TIMESYNC_COLLECTIVE_COLLECTIVE_IMPL_H

#include "timesync/collective/collective.h"

#define MRD_COLL_FLOOR_NS 500.0 /* ns; residuals smaller than this get equal weight in the fit */

struct mrd_coll_match {
    size_t process_count, count, left_out;
    size_t obs_n;
    mrd_coll_obs *obs; /* the observations, sorted by collective */
    size_t *first;     /* index of the first observation of each collective; count + 1 entries */
    char **reasons;    /* for each process the first reason why something was left out, or NULL */
};

/* A run: the sequence of one participant's collectives in one group, in its own order. */
typedef struct {
    uint32_t process;
    mrd_coll_obs *obs;
    size_t n;
    ptrdiff_t at; /* position of its first collective in the common sequence */
    bool cut;     /* lost events (a gap) ended it early */
    bool placed;  /* false if it fits at no position of the common sequence */
} coll_run;

/* Factor: another position, or another count, fits as well if its scatter is at most this many
 * times the scatter of the best, or larger by at most MRD_COLL_FINE_NS. */
#define MRD_COLL_AS_WELL 4
#define MRD_COLL_FINE_NS 20000

/* Returns true if both can be the same collective. */
static inline bool
mrd_coll_same_kind(const mrd_coll_obs *a, const mrd_coll_obs *b)
{
    return a->op == b->op && a->size == b->size;
}

/* Returns the name of a group or an operation for messages. A hash without a name is printed to
 * `room`. */
const char *mrd_coll_called(const mrd_coll_options *options, uint64_t hash, char room[20]);

/*
 * Finds one common sequence of the runs, and the position of each run in it. Sets `at` and
 * `placed`. Stores in `reasons`, by process, why a run is not placed. Errors: NOMEM. CLOCK if no
 * more than half of the runs fit together, or without options->leave_out if any run does not fit.
 */
mrd_err mrd_coll_place(coll_run *runs, size_t count, const mrd_coll_options *options,
                       char **reasons, mrd_why *why);
/* Tests whether the participants of one group really meet in its collectives. Tests the collectives
 * from number `from` on, which are all of that group. `missing` is the number of the group's
 * processes that are not among the participants, because they did not fit. Stores the answer for
 * each of the observations. Errors: NOMEM. */
typedef enum { MRD_COLL_UNSHOWN, MRD_COLL_SCATTERS, MRD_COLL_MEETS } mrd_coll_meeting;
mrd_err mrd_coll_meet(const mrd_coll_match *match, size_t from, size_t missing,
                      mrd_coll_meeting *ret_meets);
/* Measures how well two sequences of ends fit. Returns the median change from one collective to the
 * next of the difference of both ends, which a constant offset and drift cannot explain. A value
 * above `most` may be returned as INFINITY. */
double mrd_coll_scatter(const mrd_coll_obs *obs, const int64_t *times, size_t n, double most);
/* Makes a copy of a match that does not contain the processes marked in `without`. Errors: NOMEM,
 * EMPTY. */
mrd_err mrd_coll_match_without(const mrd_coll_match *match, const bool *without,
                               mrd_coll_match **ret_match);
/* Stores `reason` for leaving out something of a process, unless the process already has a reason.
 * Errors: NOMEM. */
mrd_err mrd_coll_note(char **reasons, size_t process, const char *reason);

#define MRD_COLL_FAR 1e17 /* ns: larger residuals are limited to this */

/* A participation of one process in one collective, with times relative to the process's origin. */
typedef struct {
    uint32_t process;
    size_t coll;
    double begin, end;
} coll_part;

typedef struct {
    const mrd_coll_match *match;
    size_t n;         /* number of parts */
    coll_part *parts; /* all parts, sorted by process, then collective */
    /* range of each process in `parts` (process_count + 1 entries); `next` is a cursor during
     * filling */
    size_t *first, *next;
    int64_t *origin; /* for each process: the end of its first matched collective, local ns */
    double *a, *b;   /* for each process: session - local = a + b * t, relative to the origins */
    bool *known;     /* for each process: true if collectives connect it to the reference */
    /* end of each collective in session time, by the fitted lines, or NAN if unknown */
    double *v;
    double *x, *y, *w; /* scratch memory of n entries each */
    size_t reference;
} coll_solver;

/* A sample: one collective of one process, compared with the session. */
typedef struct {
    double begin, end; /* local times of the process */
    /* session time at which the others left; equals end + offset, up to the scatter of ends */
    double at;
    /* `at` comes from a clock that stays within this of its model; 0 for the reference's clock */
    double reach;
    /* Limits in session time, with begin <= up and end >= down. Infinite if unknown. */
    double up, down;
    size_t coll;
} coll_sample;

/* A range of samples that one line fits: offset = a + b * end. */
typedef struct {
    size_t first, n;
    double a, b;
    double residual, sum; /* largest absolute residual; sum of all */
} coll_line;

/* Fits a line of least absolute residuals, by repeated weighted fits; w is scratch memory. Returns
 * a, stores the slope in *ret_b. */
double mrd_coll_fit(const double *x, const double *y, double *w, size_t n, double *ret_b);
double mrd_coll_median(double *v, size_t n); /* returns the median of v, which it sorts */

/* Splits samples (by rising end) into ranges where one line does not fit them all. x, y, w: scratch
 * memory of 2n. Returns the number of lines, at most MRD_COLL_SEGMENTS. */
#define MRD_COLL_SEGMENTS 64
size_t mrd_coll_cut(const coll_sample *sample, size_t n, double *x, double *y, double *w,
                    coll_line lines[MRD_COLL_SEGMENTS]);
/* The seams of a segment: whether it has neighbours, and how far the clock was set back before and
 * after it. Local times within that distance occur twice. */
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
/* Returns CLOCK if the pairs of one process are ambiguous: they fit as well when its collectives
 * are counted differently. */
mrd_err mrd_coll_check_pairs(coll_solver *solver, size_t process, mrd_dur_ns trust, mrd_why *why);
/*
 * Tests whether the ends of a process's samples show that they belong to the collectives they are
 * matched with. In a wrong match, they differ by as much as the distances between collectives of
 * one kind vary. So these variations must be larger than the residuals, by a factor that is larger
 * for fewer samples. Clocks that agree within `trust` need no evidence. Neither do sequence
 * numbers, if the median residual is at most MRD_COLL_RESIDUAL_MAX. Errors: NOMEM.
 */
mrd_err mrd_coll_find_evidence(coll_solver *solver, size_t process, const coll_sample *sample,
                               const coll_line *lines, size_t n_lines, mrd_dur_ns trust,
                               bool *ret_belong);
/* The check of pairs after a break: returns CLOCK if lines[k] continues lines[k - 1] as well when its
 * collectives are counted differently. */
mrd_err mrd_coll_check_cut(const coll_solver *solver, size_t process, const double *at,
                           const coll_sample *sample, const coll_line *lines, size_t n_lines,
                           mrd_why *why);

/* Makes one attempt to solve. With leave_out, `odd` receives the reasons of the processes at fault,
 * and *first_odd the first reason. Then the solution is not valid, apart from its reference. */
mrd_err mrd_coll_solve_once(const mrd_coll_match *match, const mrd_coll_options *options,
                            char **odd, mrd_why *first_odd, mrd_coll_solution *ret_solution,
                            mrd_why *why);

#endif
