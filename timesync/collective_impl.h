/*
 * timesync/collective_impl.h - internals of matching and solving. Internal to timesync/.
 *
 * Times of the solver are doubles relative to an origin per process (its first matched end).
 * Session times are relative to the reference's origin.
 */
#ifndef MRD_TIMESYNC_COLLECTIVE_IMPL_H
#define MRD_TIMESYNC_COLLECTIVE_IMPL_H

#include "timesync/collective.h"

#define MRD_COLL_FLOOR_NS 500.0 /* smaller residuals have equal weight */

struct mrd_coll_match {
    size_t process_count, count, left_out;
    size_t obs_n;
    mrd_coll_obs *obs; /* sorted by collective */
    size_t *first;     /* count + 1 */
};

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
size_t mrd_coll_cut(const coll_sample *s, size_t n, double *x, double *y, double *w,
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
mrd_err mrd_coll_bound(const coll_sample *s, const coll_line *line, int64_t origin, int64_t shift,
                       coll_seams seams, mrd_coll_process *to, bool *ret_fits);
/* Refuses pairs that fit as well when a process's collectives are counted differently. */
mrd_err mrd_coll_check_pairs(coll_solver *s, mrd_dur_ns trust, mrd_why *why);
/* The same after a break: lines[k] continues lines[k - 1] when counted differently. */
mrd_err mrd_coll_check_cut(const coll_solver *s, size_t process, const double *at,
                           const coll_sample *v, const coll_line *lines, size_t n_lines,
                           mrd_why *why);

#endif
