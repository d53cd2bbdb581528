/*
 * timesync/collective_impl.h - the inside of matching and solving. Internal to timesync/.
 *
 * Times of the solver are doubles relative to an origin per process (its first matched end);
 * session times are relative to the reference's origin.
 */
#ifndef MRD_TIMESYNC_COLLECTIVE_IMPL_H
#define MRD_TIMESYNC_COLLECTIVE_IMPL_H

#include "timesync/collective.h"

#define MRD_COLL_FLOOR_NS 500.0 /* residuals below count alike */

struct mrd_coll_match {
    size_t process_count, count, left_out;
    size_t obs_n;
    mrd_coll_obs *obs; /* collective after collective */
    size_t *first;     /* count + 1 */
};

#define MRD_COLL_FAR 1e17 /* ns: what is farther off counts as that far */

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
    size_t *first, *next; /* per process, process_count + 1; next is a cursor while filling */
    int64_t *origin;      /* per process: its first matched end */
    double *a, *b;        /* per process: session - local = a + b * t, relative to the origins */
    bool *known;          /* per process: reaches the reference */
    double *v;            /* per collective: its end by the lines, session; NAN */
    double *x, *y, *w;    /* scratch, n each */
    size_t reference;
} coll_solver;

/* One end of one process against the session. */
typedef struct {
    double begin, end; /* local */
    double at;         /* session time at which the others left: end + offset, up to the scatter */
    double reach; /* `at` comes from a clock that is within this of its model; 0: the reference */
    double up, down; /* session: begin <= up, end >= down; infinite where nothing is known */
    size_t coll;
} coll_sample;

/* A stretch of samples that one line fits: offset = a + b * end. */
typedef struct {
    size_t first, n;
    double a, b;
    double residual, sum; /* largest and sum of the absolute residuals */
} coll_line;

/* A line of least absolute residuals, by reweighting; w is scratch. Returns a. */
double mrd_coll_fit(const double *x, const double *y, double *w, size_t n, double *ret_b);
double mrd_coll_median(double *v, size_t n); /* sorts v */
/* For qsort. */
int mrd_coll_order(const void *a, const void *b);

/* Cuts samples (by rising end) where one line will not do. x, y, w: scratch of 2n. Returns how many
 * lines, at most MRD_COLL_SEGMENTS. */
#define MRD_COLL_SEGMENTS 64
size_t mrd_coll_cut(const coll_sample *s, size_t n, double *x, double *y, double *w,
                    coll_line lines[MRD_COLL_SEGMENTS]);
/* Whether a segment has neighbours, and by how much its clock went back there: local times within
 * that are shown twice. */
typedef struct {
    bool before, after;
    double back_before, back_after;
} coll_seams;

/*
 * The set-membership bound of one segment; adds bins and a segment to *to. shift: reference's origin
 * minus the process's. *ret_fits is false when no clock that the model allows fits: a segment with
 * neighbours is then one without a bound, any other is left out. Errors: NOMEM.
 */
mrd_err mrd_coll_bound(const coll_sample *s, const coll_line *line, int64_t origin, int64_t shift,
                       coll_seams seams, mrd_coll_process *to, bool *ret_fits);
/* Refuses pairs that fit as well when a process's collectives are counted differently. */
mrd_err mrd_coll_check_pairs(coll_solver *s, mrd_dur_ns trust, mrd_why *why);
/* The same behind a cut: lines[k] continues lines[k - 1] when counted differently. */
mrd_err mrd_coll_check_cut(const coll_solver *s, size_t process, const double *at,
                           const coll_sample *v, const coll_line *lines, size_t n_lines,
                           mrd_why *why);

#endif
