/* Finds where the sequences of one group lie relative to each other: by kinds, intervals, clocks. */
#include "timesync/collective/collective_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TAKE      64 /* differences looked at */
#define COMMON    8  /* a part that is common to both has this many, or half */
#define BASES     8  /* sequences that are tried as the first one */
#define DRIFT_MAX (MRD_ALIGN_RATE_MAX * 1e-9)
#define RADIX     0x9e3779b97f4a7c15ULL /* of the hash of a range of kinds */

/* The common sequence: entries [first, first + n) of the arrays. */
typedef struct {
    const mrd_coll_obs **kinds;
    int64_t *ends;  /* on the clock of the first run, up to the scatter of ends */
    uint64_t *hash; /* of all kinds before an entry */
    size_t cap, first, n;
    ptrdiff_t at; /* position of `first` */
} sequence;

typedef struct {
    sequence common;
    uint64_t *hash, *power; /* of a run; RADIX to the power of the index */
    const mrd_coll_options *options;
    mrd_dur_ns trust;
    bool leave_out;
} placing;

/* The positions of a run that fit. */
typedef struct {
    ptrdiff_t at;     /* the one whose intervals agree best */
    size_t n;         /* entries in common there */
    double scatter;   /* INFINITY: no position fits */
    ptrdiff_t other;  /* another one that fits as well */
    bool ambiguous;   /* there is another one */
    size_t untrusted; /* positions that only the clocks exclude */
} fit;

double
mrd_coll_scatter(const mrd_coll_obs *a, const int64_t *b, size_t n, double most)
{
    size_t step = n / TAKE + 1, over = 0, all = n < 2 ? 0 : (n - 2) / step + 1;
    double changes[TAKE], rates[TAKE], drift;

    for (size_t k = 0; k < all; k++) {
        size_t i = k * step;
        double length = (double) (b[i + 1] - b[i]);

        changes[k] = (double) (a[i + 1].end.ns - a[i].end.ns) - length;
        over += fabs(changes[k]) > most + DRIFT_MAX * fabs(length);
        rates[k] = changes[k] / fmax(length, 1);
        if (2 * over > all + 1)
            return INFINITY;
    }
    if (all == 0)
        return 0;
    drift = fmax(fmin(mrd_coll_median(rates, all), DRIFT_MAX), -DRIFT_MAX);
    for (size_t k = 0; k < all; k++)
        changes[k] = fabs(changes[k] - drift * (double) (b[k * step + 1] - b[k * step]));
    return mrd_coll_median(changes, all);
}

static uint64_t
next_hash(uint64_t before, const mrd_coll_obs *o)
{
    return before * RADIX + (o->op ^ (uint64_t) o->size * 0xff51afd7ed558ccdULL) + 1;
}

static uint64_t
range_hash(const placing *p, const uint64_t *hash, size_t from, size_t n)
{
    return hash[from + n] - hash[from] * p->power[n];
}

static void
hash_common(sequence *s)
{
    s->hash[s->first] = 0;
    for (size_t i = s->first; i < s->first + s->n; i++)
        s->hash[i + 1] = next_hash(s->hash[i], s->kinds[i]);
}

/* Returns the number of entries that a run at this position shares with the common sequence.
 * *ret_mine and *ret_theirs are the first ones. */
static size_t
overlap(const sequence *s, const coll_run *r, ptrdiff_t at, size_t *ret_mine, size_t *ret_theirs)
{
    ptrdiff_t mine = at < s->at ? s->at - at : 0, theirs = at > s->at ? at - s->at : 0;
    size_t a = r->n - (size_t) mine, b = s->n - (size_t) theirs;

    *ret_mine = (size_t) mine;
    *ret_theirs = s->first + (size_t) theirs;
    return a < b ? a : b;
}

static bool
is_trusted(const placing *p, const mrd_coll_obs *mine, const int64_t *theirs, size_t n)
{
    for (size_t i = 0; i < n && p->trust > 0; i++) {
        int64_t d = mine[i].end.ns - theirs[i];

        if (d > p->trust || d < -p->trust)
            return false;
    }
    return true;
}

/* Returns the scatter of a run at a position, INFINITY if it is more than `most` or if kinds or
 * clocks exclude the position. Stores the number of entries in common. */
static double
scatter_at(const placing *p, const coll_run *r, ptrdiff_t at, double most, size_t *ret_n,
           size_t *untrusted)
{
    const sequence *s = &p->common;
    size_t mine, theirs, n = overlap(s, r, at, &mine, &theirs);

    *ret_n = n;
    if (range_hash(p, p->hash, mine, n) != range_hash(p, s->hash, theirs, n))
        return INFINITY;
    if (!is_trusted(p, r->obs + mine, s->ends + theirs, n)) {
        ++*untrusted;
        return INFINITY;
    }
    return p->leave_out ? mrd_coll_scatter(r->obs + mine, s->ends + theirs, n, most) : 0;
}

/* Tries the positions with at least `common` entries in common. A position with much less in common
 * than the best may fit by chance, so it does not make that ambiguous. */
static fit
find_fit(const placing *p, const coll_run *r, size_t common)
{
    const sequence *s = &p->common;
    ptrdiff_t from = s->at - (ptrdiff_t) (r->n - common);
    ptrdiff_t to = s->at + (ptrdiff_t) (s->n - common);
    size_t least = r->n < s->n ? r->n : s->n, n, ignored = 0;
    fit f = { .scatter = INFINITY };
    double scatter, most;

    for (ptrdiff_t at = from; at <= to && !f.ambiguous; at++) {
        most = MRD_COLL_AS_WELL * f.scatter + MRD_COLL_FINE_NS;
        scatter = scatter_at(p, r, at, most, &n, &f.untrusted);
        /* two that fit this well, and have this much in common, exclude every decision */
        f.ambiguous = scatter <= MRD_COLL_FINE_NS && f.scatter <= MRD_COLL_FINE_NS &&
                      2 * n >= least && 2 * f.n >= least;
        f.other = at;
        if (scatter < f.scatter && !f.ambiguous) {
            f.at = at;
            f.n = n;
            f.scatter = scatter;
        }
    }
    most = MRD_COLL_AS_WELL * f.scatter + MRD_COLL_FINE_NS;
    for (ptrdiff_t at = from; at <= to && !f.ambiguous && !isinf(f.scatter); at++) {
        f.other = at;
        f.ambiguous =
            at != f.at && scatter_at(p, r, at, most, &n, &ignored) <= most && 2 * n >= f.n;
    }
    return f;
}

/* ---- Reasons ---- */

static mrd_err
refuse_kinds(const placing *p, const coll_run *r, mrd_why *why)
{
    const sequence *s = &p->common;
    size_t i = 0, n = r->n < s->n ? r->n : s->n;
    const mrd_coll_obs *a, *b;
    char room[3][20];

    while (i + 1 < n && mrd_coll_same_kind(&r->obs[i], s->kinds[s->first + i]))
        i++;
    a = s->kinds[s->first + i];
    b = &r->obs[i];
    return mrd_why_set(why, MRD_CLOCK, 0,
                       "collectives do not match: group %s, process %u number %zu is operation %s "
                       "of size %lld, process %u number %zu is operation %s of size %lld",
                       mrd_coll_called(p->options, b->group, room[0]), a->process, i,
                       mrd_coll_called(p->options, a->op, room[1]), (long long) a->size, b->process,
                       i, mrd_coll_called(p->options, b->op, room[2]), (long long) b->size);
}

static mrd_err
refuse(const placing *p, const coll_run *r, const fit *f, mrd_why *why)
{
    ptrdiff_t by = f->other - f->at;
    char room[20];
    const char *group = mrd_coll_called(p->options, r->obs->group, room);

    if (f->scatter > MRD_COLL_RESIDUAL_MAX && !isinf(f->scatter))
        return mrd_why_set(why, MRD_CLOCK, 0,
                           "the ends of matched collectives do not coincide: those of process %u "
                           "in group %s scatter by %.0f ns in the median at the best position",
                           r->process, group, f->scatter);
    if (f->ambiguous && p->leave_out)
        return mrd_why_set(why, MRD_CLOCK, 0,
                           "collectives do not match: those of process %u%s in group %s fit as "
                           "well %td places %s; their intervals are too regular to tell which "
                           "belong together (--align-trust says how well the clocks agree before "
                           "alignment)",
                           r->process, r->cut ? " before its gap" : "", group, by < 0 ? -by : by,
                           by < 0 ? "earlier" : "later");
    if (f->ambiguous)
        return mrd_why_set(why, MRD_CLOCK, 0,
                           "collectives do not match: the %zu of process %u%s fit those of the "
                           "others in group %s at several places",
                           r->n, r->process, r->cut ? " before its gap" : "", group);
    if (f->untrusted > 0)
        return mrd_why_set(why, MRD_CLOCK, 0,
                           "collectives do not match: the clocks of process %u and of the others "
                           "nowhere agree within %lld ns",
                           r->process, (long long) p->trust);
    return refuse_kinds(p, r, why);
}

/* ---- Placing ---- */

/* Finds the position of a run. Without leave_out, the shorter sequence must be a part of the longer
 * one, and kinds alone must decide. */
static mrd_err
find_place(const placing *p, coll_run *r, mrd_why *why)
{
    const sequence *s = &p->common;
    size_t least = r->n < s->n ? r->n : s->n, half = (least + 1) / 2;
    bool whole;
    fit f;

    p->hash[0] = 0;
    for (size_t i = 0; i < r->n; i++)
        p->hash[i + 1] = next_hash(p->hash[i], &r->obs[i]);
    f = find_fit(p, r, least < 3 || !p->leave_out ? least : half < COMMON ? half : COMMON);
    whole = f.n == least; /* kinds alone may decide, and the solver looks at the ends */
    if (isinf(f.scatter) || f.ambiguous || (!whole && f.scatter > MRD_COLL_RESIDUAL_MAX))
        return refuse(p, r, &f, why);
    r->at = f.at;
    r->placed = true;
    return MRD_OK;
}

/* Extends the common sequence by what a placed run has before its begin and after its end. */
static void
extend(sequence *s, const coll_run *r)
{
    size_t mine, theirs, n = overlap(s, r, r->at, &mine, &theirs);
    int64_t shift;

    shift = s->ends[theirs] - r->obs[mine].end.ns;
    for (size_t i = mine; i-- > 0; s->n++, s->at--) {
        s->kinds[--s->first] = &r->obs[i];
        s->ends[s->first] = r->obs[i].end.ns + shift;
    }
    shift = s->ends[theirs + n - 1] - r->obs[mine + n - 1].end.ns;
    for (size_t i = mine + n; i < r->n; i++, s->n++) {
        s->kinds[s->first + s->n] = &r->obs[i];
        s->ends[s->first + s->n] = r->obs[i].end.ns + shift;
    }
    hash_common(s);
}

/* Places the runs around one of them. Returns the number of placed runs. *why explains the first
 * run that was not placed. */
static size_t
place_around(placing *p, coll_run *runs, size_t n, size_t base, mrd_why *why)
{
    size_t placed = 0, before;

    for (size_t i = 0; i < n; i++)
        runs[i].placed = runs[i].n == 0;
    p->common.first = p->common.cap / 2;
    p->common.n = 0;
    p->common.at = 0;
    runs[base].at = 0;
    runs[base].placed = true;
    for (size_t i = 0; i < runs[base].n; i++, p->common.n++) {
        p->common.kinds[p->common.first + i] = &runs[base].obs[i];
        p->common.ends[p->common.first + i] = runs[base].obs[i].end.ns;
    }
    hash_common(&p->common);
    do {
        mrd_why *first = why, later = { 0 };

        before = p->common.n;
        placed = 0;
        for (size_t i = 0; i < n; i++) {
            if (!runs[i].placed && find_place(p, &runs[i], first) == MRD_OK)
                extend(&p->common, &runs[i]);
            placed += runs[i].placed;
            first = runs[i].placed ? first : &later;
        }
    } while (p->common.n > before && placed < n);
    return placed;
}

/* Notes for each run without a place why it has none. */
static mrd_err
note_reasons(const placing *p, coll_run *runs, size_t n, char **reasons)
{
    mrd_err err = MRD_OK;
    mrd_why why;

    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        if (!runs[i].placed && find_place(p, &runs[i], &why) != MRD_OK)
            err = mrd_coll_note(reasons, runs[i].process, why.text);
    }
    return err;
}

static bool
placing_alloc(placing *p, const coll_run *runs, size_t n)
{
    size_t most = 0, sum = 0;

    for (size_t i = 0; i < n; i++) {
        most = runs[i].n > most ? runs[i].n : most;
        sum += runs[i].n;
    }
    p->common.cap = 2 * sum + 2;
    p->common.kinds = malloc(p->common.cap * sizeof(*p->common.kinds));
    p->common.ends = malloc(p->common.cap * sizeof(*p->common.ends));
    p->common.hash = malloc(p->common.cap * sizeof(*p->common.hash));
    p->hash = malloc((most + 1) * sizeof(*p->hash));
    p->power = malloc((most + 1) * sizeof(*p->power));
    if (p->common.kinds == NULL || p->common.ends == NULL || p->common.hash == NULL ||
        p->hash == NULL || p->power == NULL)
        return false;
    p->power[0] = 1;
    for (size_t i = 0; i < most; i++)
        p->power[i + 1] = p->power[i] * RADIX;
    return true;
}

static void
placing_free(placing *p)
{
    free(p->common.kinds);
    free(p->common.ends);
    free(p->common.hash);
    free(p->hash);
    free(p->power);
}

/* Returns the longest run that was not tried before. */
static size_t
next_base(const coll_run *runs, size_t n, const size_t *tried, size_t n_tried)
{
    size_t base = n;

    for (size_t i = 0; i < n; i++) {
        bool fresh = true;

        for (size_t k = 0; k < n_tried; k++)
            fresh = fresh && tried[k] != i;
        if (fresh && (base == n || runs[i].n > runs[base].n))
            base = i;
    }
    return base;
}

mrd_err
mrd_coll_place(coll_run *runs, size_t n, const mrd_coll_options *options, char **reasons,
               mrd_why *why)
{
    placing p = { .options = options,
                  .trust = options == NULL ? 0 : options->trust_ns,
                  .leave_out = options != NULL && options->leave_out };
    size_t tried[BASES], placed = 0, rounds = n == 2 ? 1 : n < BASES ? n : BASES;
    mrd_err err = MRD_OK;
    mrd_why first, *reason = &first, later;

    if (!placing_alloc(&p, runs, n)) {
        placing_free(&p);
        return mrd_why_set(why, MRD_NOMEM, 0, "%zu sequences of collectives", n);
    }
    for (size_t k = 0; k < (p.leave_out ? rounds : 1) && 2 * placed <= n; k++) {
        tried[k] = next_base(runs, n, tried, k);
        placed = place_around(&p, runs, n, tried[k], reason);
        reason = &later;
    }
    if (p.leave_out ? 2 * placed <= n : placed < n) {
        *why = first;
        err = MRD_CLOCK;
    } else if (placed < n && note_reasons(&p, runs, n, reasons) != MRD_OK) {
        err = mrd_why_set(why, MRD_NOMEM, 0, "%zu sequences of collectives", n);
    }
    placing_free(&p);
    return err;
}
