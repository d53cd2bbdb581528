/* Merges the runs of one group into a common sequence of collectives. A run is the sequence of one
 * participant. The position of a run in the common sequence is found by the kinds of collectives,
 * the intervals between them, and the unaligned clocks. */
#include "timesync/collective/collective_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TAKE 64 /* maximum number of differences from which a median is taken */
/* minimum number of collectives that a run must share with the common sequence; for short
 * sequences, half of the shorter sequence is enough */
#define COMMON    8
#define BASES     8 /* maximum number of runs that are tried as the start of the common sequence */
#define DRIFT_MAX (MRD_ALIGN_RATE_MAX * 1e-9)
/* multiplier of the rolling hash over the kinds of collectives */
#define RADIX 0x9e3779b97f4a7c15ULL

/* The common sequence of a group. Entries first to first + n - 1 of the arrays are used, one per
 * collective. */
typedef struct {
    const mrd_coll_obs **kinds;
    /* when each collective ended, in ns of the first run's clock; accurate up to the scatter of
     * ends */
    int64_t *ends;
    uint64_t *hash; /* hash[i] is the hash of the kinds of all entries before entry i */
    size_t cap, first, n;
    /* position of entry `first`; the position of a collective never changes, but `first` changes
     * when the sequence grows at its begin */
    ptrdiff_t at;
} sequence;

typedef struct {
    sequence common;
    uint64_t *hash, *power; /* prefix hashes of the run that is being placed; powers of RADIX */
    const mrd_coll_options *options;
    mrd_dur_ns trust;
    bool leave_out;
} placing;

/* The result of trying to place a run (one participant's collectives) at several positions of the
 * common sequence. */
typedef struct {
    ptrdiff_t at; /* the position at which the intervals between collectives agree best */
    size_t n;     /* number of collectives that the run and the common sequence share at `at` */
    /* scatter of the ends of collectives at `at`, in ns; INFINITY if the run fits at no position */
    double scatter;
    ptrdiff_t other; /* another position at which the run fits as well */
    bool ambiguous;  /* true if `other` is set */
    /* number of positions that are excluded only because the unaligned clocks disagree there */
    size_t untrusted;
} fit;

double
mrd_coll_scatter(const mrd_coll_obs *obs, const int64_t *times, size_t n, double most)
{
    size_t step = n / TAKE + 1, over = 0, all = n < 2 ? 0 : (n - 2) / step + 1;
    double changes[TAKE], rates[TAKE], drift;

    for (size_t k = 0; k < all; k++) {
        size_t i = k * step;
        double length = (double) (times[i + 1] - times[i]);

        changes[k] = (double) (obs[i + 1].end.ns - obs[i].end.ns) - length;
        over += fabs(changes[k]) > most + DRIFT_MAX * fabs(length);
        rates[k] = changes[k] / fmax(length, 1);
        if (2 * over > all + 1)
            return INFINITY;
    }
    if (all == 0)
        return 0;
    drift = fmax(fmin(mrd_coll_median(rates, all), DRIFT_MAX), -DRIFT_MAX);
    for (size_t k = 0; k < all; k++)
        changes[k] = fabs(changes[k] - drift * (double) (times[k * step + 1] - times[k * step]));
    return mrd_coll_median(changes, all);
}

static uint64_t
next_hash(uint64_t before, const mrd_coll_obs *obs)
{
    return before * RADIX + (obs->op ^ (uint64_t) obs->size * 0xff51afd7ed558ccdULL) + 1;
}

static uint64_t
range_hash(const placing *placer, const uint64_t *hash, size_t from, size_t n)
{
    return hash[from + n] - hash[from] * placer->power[n];
}

static void
hash_common(sequence *seq)
{
    seq->hash[seq->first] = 0;
    for (size_t i = seq->first; i < seq->first + seq->n; i++)
        seq->hash[i + 1] = next_hash(seq->hash[i], seq->kinds[i]);
}

/* Returns how many collectives a run at position `at` shares with the common sequence. *ret_mine is
 * the index of the first shared collective in the run, *ret_theirs its index in the common
 * sequence. */
static size_t
overlap(const sequence *seq, const coll_run *run, ptrdiff_t at, size_t *ret_mine,
        size_t *ret_theirs)
{
    ptrdiff_t mine = at < seq->at ? seq->at - at : 0, theirs = at > seq->at ? at - seq->at : 0;
    size_t a = run->n - (size_t) mine, b = seq->n - (size_t) theirs;

    *ret_mine = (size_t) mine;
    *ret_theirs = seq->first + (size_t) theirs;
    return a < b ? a : b;
}

static bool
is_trusted(const placing *placer, const mrd_coll_obs *mine, const int64_t *theirs, size_t n)
{
    for (size_t i = 0; i < n && placer->trust > 0; i++) {
        int64_t d = mine[i].end.ns - theirs[i];

        if (d > placer->trust || d < -placer->trust)
            return false;
    }
    return true;
}

/* Returns the scatter in ns of a run's ends if the run is at position `at`. Returns INFINITY if the
 * scatter exceeds `most`, or if the kinds of collectives or the clocks exclude the position. Stores
 * the number of shared collectives in *ret_n. */
static double
scatter_at(const placing *placer, const coll_run *run, ptrdiff_t at, double most, size_t *ret_n,
           size_t *untrusted)
{
    const sequence *seq = &placer->common;
    size_t mine, theirs, n = overlap(seq, run, at, &mine, &theirs);

    *ret_n = n;
    if (range_hash(placer, placer->hash, mine, n) != range_hash(placer, seq->hash, theirs, n))
        return INFINITY;
    if (!is_trusted(placer, run->obs + mine, seq->ends + theirs, n)) {
        ++*untrusted;
        return INFINITY;
    }
    return placer->leave_out ? mrd_coll_scatter(run->obs + mine, seq->ends + theirs, n, most) : 0;
}

/* Finds the best position of a run. Tries all positions at which the run shares at least `common`
 * collectives with the common sequence. A second position makes the result ambiguous only if it
 * shares a similar number of collectives, because a short overlap may fit by chance. */
static fit
find_fit(const placing *placer, const coll_run *run, size_t common)
{
    const sequence *seq = &placer->common;
    ptrdiff_t from = seq->at - (ptrdiff_t) (run->n - common);
    ptrdiff_t to = seq->at + (ptrdiff_t) (seq->n - common);
    size_t least = run->n < seq->n ? run->n : seq->n, count, ignored = 0;
    fit f = { .scatter = INFINITY };
    double scatter, most;

    for (ptrdiff_t at = from; at <= to && !f.ambiguous; at++) {
        most = MRD_COLL_AS_WELL * f.scatter + MRD_COLL_FINE_NS;
        scatter = scatter_at(placer, run, at, most, &count, &f.untrusted);
        /* If the run fits very well at two positions, and half of the shorter sequence is shared at
         * both, neither position can be preferred. */
        f.ambiguous = scatter <= MRD_COLL_FINE_NS && f.scatter <= MRD_COLL_FINE_NS &&
                      2 * count >= least && 2 * f.n >= least;
        f.other = at;
        if (scatter < f.scatter && !f.ambiguous) {
            f.at = at;
            f.n = count;
            f.scatter = scatter;
        }
    }
    most = MRD_COLL_AS_WELL * f.scatter + MRD_COLL_FINE_NS;
    for (ptrdiff_t at = from; at <= to && !f.ambiguous && !isinf(f.scatter); at++) {
        f.other = at;
        f.ambiguous = at != f.at && scatter_at(placer, run, at, most, &count, &ignored) <= most &&
                      2 * count >= f.n;
    }
    return f;
}

/* ---- Messages: why a run has no position ---- */

static mrd_err
refuse_kinds(const placing *placer, const coll_run *run, mrd_why *why)
{
    const sequence *seq = &placer->common;
    size_t i = 0, n = run->n < seq->n ? run->n : seq->n;
    const mrd_coll_obs *a, *b;
    char room[3][20];

    while (i + 1 < n && mrd_coll_same_kind(&run->obs[i], seq->kinds[seq->first + i]))
        i++;
    a = seq->kinds[seq->first + i];
    b = &run->obs[i];
    return mrd_why_set(why, MRD_CLOCK, 0,
                       "collectives do not match: group %s, process %u number %zu is operation %s "
                       "of size %lld, process %u number %zu is operation %s of size %lld",
                       mrd_coll_called(placer->options, b->group, room[0]), a->process, i,
                       mrd_coll_called(placer->options, a->op, room[1]), (long long) a->size,
                       b->process, i, mrd_coll_called(placer->options, b->op, room[2]),
                       (long long) b->size);
}

static mrd_err
refuse(const placing *placer, const coll_run *run, const fit *f, mrd_why *why)
{
    ptrdiff_t by = f->other - f->at;
    char room[20];
    const char *group = mrd_coll_called(placer->options, run->obs->group, room);

    if (f->scatter > MRD_COLL_RESIDUAL_MAX && !isinf(f->scatter))
        return mrd_why_set(why, MRD_CLOCK, 0,
                           "the ends of matched collectives do not coincide: those of process %u "
                           "in group %s scatter by %.0f ns in the median at the best position",
                           run->process, group, f->scatter);
    if (f->ambiguous && placer->leave_out)
        return mrd_why_set(why, MRD_CLOCK, 0,
                           "collectives do not match: those of process %u%s in group %s fit as "
                           "well %td places %s; their intervals are too regular to tell which "
                           "belong together (--align-trust says how well the clocks agree before "
                           "alignment)",
                           run->process, run->cut ? " before its gap" : "", group,
                           by < 0 ? -by : by, by < 0 ? "earlier" : "later");
    if (f->ambiguous)
        return mrd_why_set(why, MRD_CLOCK, 0,
                           "collectives do not match: the %zu of process %u%s fit those of the "
                           "others in group %s at several places",
                           run->n, run->process, run->cut ? " before its gap" : "", group);
    if (f->untrusted > 0)
        return mrd_why_set(why, MRD_CLOCK, 0,
                           "collectives do not match: the clocks of process %u and of the others "
                           "nowhere agree within %lld ns",
                           run->process, (long long) placer->trust);
    return refuse_kinds(placer, run, why);
}

/* ---- Finding the positions of runs ---- */

/* Finds the position of a run in the common sequence. Without options->leave_out, the shorter of
 * the two must lie completely inside the longer, and the kinds of collectives must allow only one
 * position. */
static mrd_err
find_place(const placing *placer, coll_run *run, mrd_why *why)
{
    const sequence *seq = &placer->common;
    size_t least = run->n < seq->n ? run->n : seq->n, half = (least + 1) / 2;
    bool whole;
    fit f;

    placer->hash[0] = 0;
    for (size_t i = 0; i < run->n; i++)
        placer->hash[i + 1] = next_hash(placer->hash[i], &run->obs[i]);
    f = find_fit(placer, run,
                 least < 3 || !placer->leave_out ? least
                 : half < COMMON                 ? half
                                                 : COMMON);
    /* If the shorter sequence lies completely inside the longer, a large scatter is accepted here,
     * because the solver checks the ends later. */
    whole = f.n == least;
    if (isinf(f.scatter) || f.ambiguous || (!whole && f.scatter > MRD_COLL_RESIDUAL_MAX))
        return refuse(placer, run, &f, why);
    run->at = f.at;
    run->placed = true;
    return MRD_OK;
}

/* Extends the common sequence by the collectives of a placed run that lie before its first entry
 * and after its last entry. */
static void
extend(sequence *seq, const coll_run *run)
{
    size_t mine, theirs, n = overlap(seq, run, run->at, &mine, &theirs);
    int64_t shift;

    shift = seq->ends[theirs] - run->obs[mine].end.ns;
    for (size_t i = mine; i-- > 0; seq->n++, seq->at--) {
        seq->kinds[--seq->first] = &run->obs[i];
        seq->ends[seq->first] = run->obs[i].end.ns + shift;
    }
    shift = seq->ends[theirs + n - 1] - run->obs[mine + n - 1].end.ns;
    for (size_t i = mine + n; i < run->n; i++, seq->n++) {
        seq->kinds[seq->first + seq->n] = &run->obs[i];
        seq->ends[seq->first + seq->n] = run->obs[i].end.ns + shift;
    }
    hash_common(seq);
}

/* Builds the common sequence from run number `base`, and places the other runs relative to it.
 * Returns the number of placed runs. *why explains the first run that was not placed. */
static size_t
place_around(placing *placer, coll_run *runs, size_t count, size_t base, mrd_why *why)
{
    size_t placed = 0, before;

    for (size_t i = 0; i < count; i++)
        runs[i].placed = runs[i].n == 0;
    placer->common.first = placer->common.cap / 2;
    placer->common.n = 0;
    placer->common.at = 0;
    runs[base].at = 0;
    runs[base].placed = true;
    for (size_t i = 0; i < runs[base].n; i++, placer->common.n++) {
        placer->common.kinds[placer->common.first + i] = &runs[base].obs[i];
        placer->common.ends[placer->common.first + i] = runs[base].obs[i].end.ns;
    }
    hash_common(&placer->common);
    do {
        mrd_why *first = why, later = { 0 };

        before = placer->common.n;
        placed = 0;
        for (size_t i = 0; i < count; i++) {
            if (!runs[i].placed && find_place(placer, &runs[i], first) == MRD_OK)
                extend(&placer->common, &runs[i]);
            placed += runs[i].placed;
            first = runs[i].placed ? first : &later;
        }
    } while (placer->common.n > before && placed < count);
    return placed;
}

/* Stores in `reasons`, for the process of each run that was not placed, why the run has no
 * position. */
static mrd_err
note_reasons(const placing *placer, coll_run *runs, size_t n, char **reasons)
{
    mrd_err err = MRD_OK;
    mrd_why why;

    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        if (!runs[i].placed && find_place(placer, &runs[i], &why) != MRD_OK)
            err = mrd_coll_note(reasons, runs[i].process, why.text);
    }
    return err;
}

static bool
placing_alloc(placing *placer, const coll_run *runs, size_t n)
{
    size_t most = 0, sum = 0;

    for (size_t i = 0; i < n; i++) {
        most = runs[i].n > most ? runs[i].n : most;
        sum += runs[i].n;
    }
    placer->common.cap = 2 * sum + 2;
    placer->common.kinds = malloc(placer->common.cap * sizeof(*placer->common.kinds));
    placer->common.ends = malloc(placer->common.cap * sizeof(*placer->common.ends));
    placer->common.hash = malloc(placer->common.cap * sizeof(*placer->common.hash));
    placer->hash = malloc((most + 1) * sizeof(*placer->hash));
    placer->power = malloc((most + 1) * sizeof(*placer->power));
    if (placer->common.kinds == NULL || placer->common.ends == NULL ||
        placer->common.hash == NULL || placer->hash == NULL || placer->power == NULL)
        return false;
    placer->power[0] = 1;
    for (size_t i = 0; i < most; i++)
        placer->power[i + 1] = placer->power[i] * RADIX;
    return true;
}

static void
placing_free(placing *placer)
{
    free(placer->common.kinds);
    free(placer->common.ends);
    free(placer->common.hash);
    free(placer->hash);
    free(placer->power);
}

/* Returns the index of the longest run that is not in the list `tried`. */
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
mrd_coll_place(coll_run *runs, size_t count, const mrd_coll_options *options, char **reasons,
               mrd_why *why)
{
    placing placer = { .options = options,
                       .trust = options == NULL ? 0 : options->trust_ns,
                       .leave_out = options != NULL && options->leave_out };
    size_t tried[BASES], placed = 0, rounds = count == 2 ? 1 : count < BASES ? count : BASES;
    mrd_err err = MRD_OK;
    mrd_why first, *reason = &first, later;

    if (!placing_alloc(&placer, runs, count)) {
        placing_free(&placer);
        return mrd_why_set(why, MRD_NOMEM, 0, "%zu sequences of collectives", count);
    }
    for (size_t k = 0; k < (placer.leave_out ? rounds : 1) && 2 * placed <= count; k++) {
        tried[k] = next_base(runs, count, tried, k);
        placed = place_around(&placer, runs, count, tried[k], reason);
        reason = &later;
    }
    if (placer.leave_out ? 2 * placed <= count : placed < count) {
        *why = first;
        err = MRD_CLOCK;
    } else if (placed < count && note_reasons(&placer, runs, count, reasons) != MRD_OK) {
        err = mrd_why_set(why, MRD_NOMEM, 0, "%zu sequences of collectives", count);
    }
    placing_free(&placer);
    return err;
}
