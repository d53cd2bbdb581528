/*
 * timesync/collective/collective_impl.h - functions and types shared by the files that match
 * collectives and align clocks by them. Internal to timesync/.
 *
 * The times of a process are doubles in ns relative to the process's origin, which is the end of
 * its first matched collective. Session times are relative to the origin of the reference process.
 */
#ifndef MRD_TIMESYNC_COLLECTIVE_COLLECTIVE_IMPL_H
#define MRD_TIMESYNC_COLLECTIVE_COLLECTIVE_IMPL_H

#include "timesync/collective/collective.h"

/* in the fit of lines, all residuals below this value (ns) have the same weight */
#define MRD_COLL_FLOOR_NS 500.0

struct mrd_coll_match {
    size_t process_count, count, left_out;
    size_t obs_n;
    mrd_coll_obs *obs; /* the observations, sorted by collective */
    size_t *first;     /* index of the first observation of each collective; count + 1 entries */
    /* for each process the first reason why some of its data were left out, or NULL */
    char **reasons;
};

/* A run: the sequence of one participant's collectives in one group, in its own order. */
typedef struct {
    uint32_t process;
    mrd_coll_obs *obs;
    size_t n;
    ptrdiff_t at; /* index of the run's first collective in the common sequence of its group */
    bool cut;     /* true if collectives after lost events were removed from the run */
    bool placed;  /* true if the run has a position in the common sequence */
} coll_run;

/* Another position of a run counts as equally good if its scatter (mrd_coll_scatter) is at most
 * MRD_COLL_AS_WELL times the best scatter, plus MRD_COLL_FINE_NS. */
#define MRD_COLL_AS_WELL 4
#define MRD_COLL_FINE_NS 20000

/* Returns true if a and b may be the same collective. */
static inline bool
mrd_coll_same_kind(const mrd_coll_obs *a, const mrd_coll_obs *b)
{
    return a->op == b->op && a->size == b->size;
}

/* Returns the name of a group or an operation for messages. A hash without a name is printed to
 * `room`. */
const char *mrd_coll_called(const mrd_coll_options *options, uint64_t hash, char room[20]);

/*
 * Builds one common sequence from the runs of a group, and sets `at` and `placed` of each run.
 * Stores in `reasons`, by process, why a run is not placed. Errors: NOMEM, CLOCK. CLOCK means that
 * at most half of the runs fit together, or that any run does not fit and options->leave_out is not
 * set.
 */
mrd_err mrd_coll_place(coll_run *runs, size_t count, const mrd_coll_options *options,
                       char **reasons, mrd_why *why);
/* Tests whether the participants of a group really took part in the same collectives. The group's
 * collectives are in the match from index `from` on. `missing` is the number of the group's
 * processes that were left out before, because they did not fit. Stores one result per observation
 * in ret_meets. UNSHOWN means that the data do not show that the participant meets the others.
 * SCATTERS means that the ends of its collectives scatter too much to decide. Errors: NOMEM. */
typedef enum { MRD_COLL_UNSHOWN, MRD_COLL_SCATTERS, MRD_COLL_MEETS } mrd_coll_meeting;
mrd_err mrd_coll_meet(const mrd_coll_match *match, size_t from, size_t missing,
                      mrd_coll_meeting *ret_meets);
/* Returns how well two sequences of ends fit, in ns. This is the median change of the difference
 * between both ends from one collective to the next. A constant offset and drift do not affect it.
 * If the value exceeds `most`, the result may be INFINITY. */
double mrd_coll_scatter(const mrd_coll_obs *obs, const int64_t *times, size_t n, double most);
/* Makes a copy of a match that does not contain the processes marked in `without`. Errors: NOMEM,
 * EMPTY. */
mrd_err mrd_coll_match_without(const mrd_coll_match *match, const bool *without,
                               mrd_coll_match **ret_match);
/* Stores `reason` why some data of a process are left out, unless the process already has a reason.
 * Errors: NOMEM. */
mrd_err mrd_coll_note(char **reasons, size_t process, const char *reason);

#define MRD_COLL_FAR 1e17 /* larger residuals are reduced to this value, in ns */

/* A part: the observation of one collective by one process. Its times are relative to the process's
 * origin. */
typedef struct {
    uint32_t process;
    size_t coll;
    double begin, end;
} coll_part;

typedef struct {
    const mrd_coll_match *match;
    size_t n;         /* number of entries in `parts` */
    coll_part *parts; /* the observations of all processes, sorted by process, then collective */
    /* The parts of process p are parts[first[p]] to parts[first[p + 1] - 1], so `first` has
     * process_count + 1 entries. `next` is used only while `parts` is filled. */
    size_t *first, *next;
    int64_t *origin; /* for each process: the end of its first matched collective, in local ns */
    /* for each process: the line session - local = a + b * t, with t relative to the process's
     * origin */
    double *a, *b;
    /* for each process: true if a chain of shared collectives connects it to the reference */
    bool *known;
    /* indexed by collective; its end in session time by the fitted lines, or NAN if unknown */
    double *v;
    double *x, *y, *w; /* scratch memory for line fits, n entries each */
    size_t reference;
} coll_solver;

/* A sample: one collective of one process, compared with the processes that are solved already. */
typedef struct {
    /* times when the process entered and left the collective, on its own clock */
    double begin, end;
    /* session time at which the other participants left; equals end + offset of the clock, up to
     * the scatter of ends */
    double at;
    /* possible error of `at` in ns, because clocks may differ from their models; 0 for the
     * reference */
    double reach;
    /* Limits in session time: the process began at or before `up` and ended at or after `down`.
     * Infinite if unknown. */
    double up, down;
    size_t coll;
} coll_sample;

/* A range of consecutive samples that one line fits: offset = a + b * end. */
typedef struct {
    size_t first, n;
    double a, b;
    /* largest absolute residual of the samples; sum of all absolute residuals */
    double residual, sum;
} coll_line;

/* Fits the line y = a + b * x with the least sum of absolute residuals, by repeated weighted fits.
 * `w` is scratch memory of n values. Returns a and stores b in *ret_b. */
double mrd_coll_fit(const double *x, const double *y, double *w, size_t n, double *ret_b);
double mrd_coll_median(double *v, size_t n); /* returns the median of v, which it sorts */

/* Splits samples, sorted by end, into ranges if one line does not fit them all. x, y and w are
 * scratch memory of 2n values each. Returns the number of lines, at most MRD_COLL_SEGMENTS. */
#define MRD_COLL_SEGMENTS 64
size_t mrd_coll_cut(const coll_sample *sample, size_t n, double *x, double *y, double *w,
                    coll_line lines[MRD_COLL_SEGMENTS]);
/* The borders of a segment: whether it has a neighbour before and after it, and by how many ns the
 * clock was set back there. Local times within that distance occur twice. */
typedef struct {
    bool before, after;
    double back_before, back_after;
} coll_seams;

/*
 * Computes the bound of one segment, and adds its bins and a segment to *to. `shift` is the
 * reference's origin minus the process's origin. *ret_fits is false if no model clock fits. A
 * segment with neighbours is then added without a bound, and any other segment is left out. Errors:
 * NOMEM.
 */
mrd_err mrd_coll_bound(const coll_sample *sample, const coll_line *line, int64_t origin,
                       int64_t shift, coll_seams seams, mrd_coll_process *to, bool *ret_fits);
/* Returns CLOCK if the match of one process is ambiguous: its ends fit as well if each collective
 * is matched with an earlier or later one. Lasting sequence numbers never begin again. If the
 * collectives are matched by such numbers, CLOCK is returned only if the ends fit much better
 * elsewhere. `at` has the ends of collectives in session time according to the solved processes, or
 * NAN. It is used for sequence numbers that may begin again. */
mrd_err mrd_coll_check_pairs(coll_solver *solver, size_t process, const double *at,
                             mrd_dur_ns trust, mrd_why *why);
/*
 * Tests whether the ends of a process's samples show that its collectives are matched correctly. In
 * a wrong match, each end would be wrong by an interval between two collectives of one kind, and
 * these intervals vary. So their variation must exceed the residuals by a factor, which is larger
 * for fewer samples. The variation may be smaller if all samples have sequence numbers. No evidence
 * is needed if the clocks agree within `trust` ns without alignment, or if there are lasting
 * numbers (mrd_coll_obs) and the median residual is at most MRD_COLL_RESIDUAL_MAX. Errors: NOMEM.
 */
mrd_err mrd_coll_find_evidence(coll_solver *solver, size_t process, const coll_sample *sample,
                               const coll_line *lines, size_t n_lines, mrd_dur_ns trust,
                               bool *ret_belong);
/* Checks the match after each break of a clock. Returns CLOCK if lines[k] continues lines[k - 1]
 * when its collectives are matched with earlier or later ones. */
mrd_err mrd_coll_check_cut(const coll_solver *solver, size_t process, const double *at,
                           const coll_sample *sample, const coll_line *lines, size_t n_lines,
                           mrd_why *why);

/* Makes one attempt to align all processes. With leave_out, `odd` receives the reason for each
 * process that does not fit, and *first_odd the first reason. If there is any such process, only
 * ret_solution->reference is valid. */
mrd_err mrd_coll_solve_once(const mrd_coll_match *match, const mrd_coll_options *options,
                            char **odd, mrd_why *first_odd, mrd_coll_solution *ret_solution,
                            mrd_why *why);

#endif
