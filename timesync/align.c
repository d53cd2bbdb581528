#include "timesync/align.h"

#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"
#include "timesync/align_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* 2^52 ns; above this limit, a double cannot resolve fractions of 1 ns */
#define ALIGN_EST_MAX 4503599627370496.0

mrd_align *
mrd_align_new(const char *name, uint64_t clock_id)
{
    mrd_align *align = calloc(1, sizeof(*align));
    mrd_str str = mrd_str_of(name);

    if (align == NULL)
        return NULL;
    str.len = str.len > MRD_ALIGN_NAME_MAX ? MRD_ALIGN_NAME_MAX : str.len;
    align->clock_id = clock_id;
    if ((align->name = mrd_str_dup(str)) == NULL) {
        free(align);
        return NULL;
    }
    return align;
}

void
mrd_align_free(mrd_align *align)
{
    if (align == NULL)
        return;
    free(align->name);
    free(align->segments);
    free(align->bins);
    free(align);
}

void
mrd_align_reset(mrd_align *align)
{
    align->segment_count = 0;
    align->bin_count = 0;
}

/* Converts a double to int64, limited to the range of int64. NaN cannot occur here. */
static int64_t
sat_int(double v)
{
    return v >= 9.2e18 ? INT64_MAX : v <= -9.2e18 ? INT64_MIN : (int64_t) v;
}

mrd_err
mrd_align_segment_add(mrd_align *align, uint32_t epoch, mrd_epoch_cause cause, int64_t base,
                      double w)
{
    if (base > ALIGN_BASE_MAX || base < -ALIGN_BASE_MAX || !(w >= 0 && w <= 1e9) ||
        (unsigned) cause >= MRD_EPOCH_CAUSES)
        return MRD_INVALID;
    if (align->segment_count > 0 && align->segments[align->segment_count - 1].count == 0)
        return MRD_INVALID;
    if (align->segment_count == MRD_ALIGN_SEGMENTS_MAX)
        return MRD_LIMIT;
    if (!MRD_VEC_ROOM(align->segments, align->segment_count, align->segment_cap, 1))
        return MRD_NOMEM;
    align->segments[align->segment_count++] = (mrd_align_segment){
        .epoch = epoch,
        .cause = cause,
        .base = base,
        .w = w,
        .first = align->bin_count,
        .floor = INT64_MIN,
    };
    return MRD_OK;
}

static bool
bin_finite(const mrd_align_bin *bin)
{
    return isfinite(bin->lo) && isfinite(bin->hi) && isfinite(bin->est) && isfinite(bin->rate) &&
           isfinite(bin->rate_lo) && isfinite(bin->rate_hi) && isfinite(bin->noise);
}

static bool
bin_sane(const mrd_align_bin *bin)
{
    return bin_finite(bin) && bin->lo <= bin->hi && bin->rate_lo <= bin->rate_hi &&
           fabs(bin->lo) < ALIGN_EST_MAX && fabs(bin->hi) < ALIGN_EST_MAX &&
           fabs((double) bin->rate_lo) <= 2 * MRD_ALIGN_RATE_MAX &&
           fabs((double) bin->rate_hi) <= 2 * MRD_ALIGN_RATE_MAX && bin->noise >= 0 &&
           bin->quality < MRD_ALIGN_QUALITIES && bin->source < MRD_STAMP_SOURCES &&
           bin->at.ns <= ALIGN_BASE_MAX && bin->at.ns >= -ALIGN_BASE_MAX;
}

typedef mrd_align_place place;

/* Returns by how many ns an offset can increase within d ns. The clock's rate is `rate` ppb now.
 * The rate may change by at most w ppb per second, up to MRD_ALIGN_RATE_MAX. To get the largest
 * decrease, the caller passes the negative rate and negates the result. */
static double
reach_up(double rate, double d, double w)
{
    double sec = d * 1e-9, until;

    if (w <= 0)
        return rate * sec;
    until = (MRD_ALIGN_RATE_MAX - rate) / w; /* seconds until the maximum rate is reached */
    if (until < 0)
        return rate * sec;
    if (sec <= until)
        return rate * sec + 0.5 * w * sec * sec;
    return rate * until + 0.5 * w * until * until + MRD_ALIGN_RATE_MAX * (sec - until);
}

mrd_align_place
mrd_align_extrapolate(const mrd_align_segment *seg, const mrd_align_bin *bin, int64_t d)
{
    double ahead = (double) d;

    if (d >= 0)
        return (place){ bin->lo - reach_up(-(double) bin->rate_lo, ahead, seg->w),
                        bin->hi + reach_up((double) bin->rate_hi, ahead, seg->w),
                        bin->est + (double) bin->rate * ahead * 1e-9 };
    return (place){ bin->lo - reach_up((double) bin->rate_hi, -ahead, seg->w),
                    bin->hi + reach_up(-(double) bin->rate_lo, -ahead, seg->w),
                    bin->est + (double) bin->rate * ahead * 1e-9 };
}

static place
interpolate(const mrd_align_segment *seg, const mrd_align_bin *a, const mrd_align_bin *b, int64_t d)
{
    double span = (double) (b->at.ns - a->at.ns), f = (double) d / span;
    double widen = seg->w * (span * 1e-9) * (span * 1e-9) / 8;
    double lo = a->lo + (b->lo - a->lo) * f, hi = a->hi + (b->hi - a->hi) * f;

    /* At the two bins the interpolated bound is exact. Between them its error is at most a parabola
     * that is 0 at both bins. */
    widen *= 4 * f * (1 - f);
    return (place){ lo - widen, hi + widen, a->est + (b->est - a->est) * f };
}

static int64_t
session_of(const mrd_align_segment *seg, int64_t at, double offset)
{
    return mrd_sat_add(at, mrd_sat_add(seg->base, sat_int(offset)));
}

/* Returns the session time of local time `at`, extrapolated from the estimate of one bin. */
static int64_t
session_near(const mrd_align_segment *seg, const mrd_align_bin *bin, mrd_local_ns at)
{
    place p = mrd_align_extrapolate(seg, bin, mrd_local_diff(at, bin->at));

    return session_of(seg, at.ns, (double) llround(p.est));
}

/* Returns the session time of a segment's last packet. Later local times must not be mapped to an
 * earlier session time. */
static int64_t
segment_end(const mrd_align *align, const mrd_align_segment *seg)
{
    int64_t end = session_near(seg, &align->bins[seg->first + seg->count - 1], seg->to);

    return end > seg->floor ? end : seg->floor;
}

/* Returns true if bin `b` may follow bin `a` in a segment. Between two bins the estimate may change
 * by at most half a second per second. A larger change is far outside of the assumptions and could
 * put times in a wrong order. */
static bool
bin_follows(const mrd_align_bin *a, const mrd_align_bin *b)
{
    return b->at.ns > a->at.ns && fabs(b->est - a->est) <= 0.5 * (double) (b->at.ns - a->at.ns);
}

mrd_err
mrd_align_bin_add(mrd_align *align, const mrd_align_bin *bin)
{
    mrd_align_segment *seg;
    mrd_align_bin align_bin = *bin;

    if (align->segment_count == 0 || !bin_sane(&align_bin))
        return MRD_INVALID;
    align_bin.est = fmin(fmax(align_bin.est, align_bin.lo), align_bin.hi);
    align_bin.rate = fminf(fmaxf(align_bin.rate, align_bin.rate_lo), align_bin.rate_hi);
    seg = &align->segments[align->segment_count - 1];
    if (align->bin_count > 0 && align_bin.at.ns <= align->bins[align->bin_count - 1].at.ns)
        return MRD_INVALID;
    if (seg->count > 0 && !bin_follows(&align->bins[align->bin_count - 1], &align_bin))
        return MRD_INVALID;
    if (align->bin_count == MRD_ALIGN_BINS_MAX)
        return MRD_LIMIT;
    if (!MRD_VEC_ROOM(align->bins, align->bin_count, align->bin_cap, 1))
        return MRD_NOMEM;
    if (seg->count == 0) {
        if (align->segment_count > 1)
            seg->floor = segment_end(align, seg - 1);
        seg->from = align_bin.at;
    }
    align->bins[align->bin_count++] = align_bin;
    seg->count++;
    seg->to = align_bin.at;
    return MRD_OK;
}

void
mrd_align_shift(mrd_align *align, size_t first, size_t end, int64_t by)
{
    for (size_t i = first; i < end && i < align->segment_count; i++)
        align->segments[i].base = mrd_sat_add(align->segments[i].base, by);
    for (size_t i = first > 0 ? first : 1; i < align->segment_count; i++)
        align->segments[i].floor = segment_end(align, &align->segments[i - 1]);
}

mrd_err
mrd_align_segment_extent(mrd_align *align, int64_t from, int64_t to)
{
    mrd_align_segment *seg;
    const mrd_align_bin *first, *last;

    if (align->segment_count == 0)
        return MRD_INVALID;
    seg = &align->segments[align->segment_count - 1];
    if (seg->count == 0 || from > to)
        return MRD_INVALID;
    first = &align->bins[seg->first];
    last = &align->bins[seg->first + seg->count - 1];
    if (from < first->at.ns - MRD_SEC || from > first->at.ns + MRD_SEC ||
        to < last->at.ns - MRD_SEC || to > last->at.ns + MRD_SEC)
        return MRD_INVALID;
    if (align->segment_count > 1 && from <= seg[-1].to.ns)
        return MRD_INVALID;
    seg->from = (mrd_local_ns){ from };
    seg->to = (mrd_local_ns){ to };
    return MRD_OK;
}

mrd_align *
mrd_align_constant(const char *name, uint64_t clock_id, mrd_dur_ns offset, mrd_dur_ns lo,
                   mrd_dur_ns hi)
{
    mrd_align *align = mrd_align_new(name, clock_id);
    mrd_align_bin bin = {
        .lo = (double) lo, .hi = (double) hi, .quality = MRD_ALIGN_GOOD, .source = MRD_STAMP_NONE
    };

    if (align == NULL)
        return NULL;
    if (mrd_align_segment_add(align, 0, MRD_EPOCH_START, offset, 0) == MRD_OK &&
        mrd_align_bin_add(align, &bin) == MRD_OK)
        return align;
    mrd_align_free(align);
    return NULL;
}

mrd_align *
mrd_align_wall(const char *name, uint64_t clock_id, mrd_local_ns local, mrd_wall_ns wall)
{
    int64_t offset;
    mrd_align *align;

    /* Impossible readings of the two clocks get offset 0, so that local times are shown
     * unchanged. */
    offset = mrd_time_sane(wall.ns) && mrd_time_sane(local.ns) ? wall.ns - local.ns : 0;
    if (offset > ALIGN_BASE_MAX || offset < -ALIGN_BASE_MAX)
        offset = 0;
    if ((align = mrd_align_constant(name, clock_id, offset, 0, 0)) != NULL)
        align->bins[0].quality = MRD_ALIGN_UNALIGNED;
    return align;
}

/* ---- Mapping local times ---- */

static void
bound_of(const mrd_align_segment *seg, int64_t at, const place *p, mrd_align_bound *to)
{
    to->lo.ns = session_of(seg, at, floor(p->lo));
    to->hi.ns = session_of(seg, at, ceil(p->hi));
}

/* Returns the index of the last bin at or before `at`, or SIZE_MAX if there is none. The search
 * begins near `hint`. */
static size_t
find_bin(const mrd_align *align, size_t hint, int64_t at)
{
    const mrd_align_bin *bins = align->bins;
    size_t n = align->bin_count, lo = 0, hi = n;

    for (size_t i = hint; i < n && i < hint + 4; i++) {
        if (bins[i].at.ns <= at && (i + 1 == n || bins[i + 1].at.ns > at))
            return i;
    }
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (bins[mid].at.ns <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo == 0 ? SIZE_MAX : lo - 1;
}

static size_t
find_segment(const mrd_align *align, size_t hint, size_t bin)
{
    const mrd_align_segment *segment = align->segments;
    size_t lo = 0, hi = align->segment_count - 1;

    if (hint < align->segment_count && segment[hint].first <= bin &&
        bin < segment[hint].first + segment[hint].count)
        return hint;
    while (lo < hi) {
        size_t mid = lo + (hi - lo + 1) / 2;

        if (segment[mid].first <= bin)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

static int64_t
abs_diff_far(int64_t a, mrd_local_ns b)
{
    return a > b.ns ? a - b.ns : b.ns - a;
}

/* Maps a local time between the last packet of segment s1 and the first packet of the next
 * segment. */
static int64_t
map_gap(const mrd_align *align, const mrd_align_segment *s1, int64_t at, mrd_align_bound *bound)
{
    const mrd_align_segment *s2 = s1 + 1;
    const mrd_align_bin *a = &align->bins[s1->first + s1->count - 1], *b = &align->bins[s2->first];
    int64_t from = s2->floor, to = session_near(s2, b, s2->from), sess = from;
    place before = mrd_align_extrapolate(s1, a, at - a->at.ns),
          after = mrd_align_extrapolate(s2, b, at - b->at.ns);
    mrd_align_bound other;

    if (to > from)
        sess += (int64_t) ((__int128) (to - from) * (at - s1->to.ns) /
                           mrd_local_diff(s2->from, s1->to));
    if (bound != NULL) {
        bound_of(s1, at, &before, bound);
        bound_of(s2, at, &after, &other);
        bound->lo.ns = other.lo.ns < bound->lo.ns ? other.lo.ns : bound->lo.ns;
        bound->hi.ns = other.hi.ns > bound->hi.ns ? other.hi.ns : bound->hi.ns;
        bound->quality = MRD_ALIGN_GAP;
        bound->source = a->source < b->source ? a->source : b->source;
        bound->epoch = s1->epoch;
        if (a->quality == MRD_ALIGN_UNALIGNED || b->quality == MRD_ALIGN_UNALIGNED)
            *bound = (mrd_align_bound){ { INT64_MIN }, { INT64_MAX }, 0,
                                        s1->epoch,     MRD_ALIGN_GAP, MRD_STAMP_NONE };
        /* in a gap between segments, the width of the bound is the only available measure of the
         * noise */
        bound->noise = mrd_sat_sub(bound->hi.ns, bound->lo.ns);
    }
    return sess;
}

static void
label_place(const mrd_align_segment *seg, const mrd_align_bin *near, int64_t at,
            mrd_align_bound *bound)
{
    bound->noise = llround((double) near->noise);
    bound->epoch = seg->epoch;
    bound->quality = near->quality;
    bound->source = near->source;
    if (seg->w > 0 && abs_diff_far(at, near->at) > MRD_ALIGN_FAR &&
        bound->quality > MRD_ALIGN_EXTRAPOLATED)
        bound->quality = MRD_ALIGN_EXTRAPOLATED;
    if (near->quality == MRD_ALIGN_UNALIGNED) {
        bound->lo.ns = INT64_MIN;
        bound->hi.ns = INT64_MAX;
    }
}

/* Raises a session time to seg->floor, the smallest result of its segment, so that times stay in
 * order. Then widens the bound so that it contains the result. */
static int64_t
clamp(const mrd_align_segment *seg, int64_t sess, mrd_align_bound *bound)
{
    bool lifted = sess < seg->floor;

    if (lifted)
        sess = seg->floor;
    if (bound != NULL) {
        if (lifted && bound->quality > MRD_ALIGN_GAP)
            bound->quality = MRD_ALIGN_GAP;
        bound->lo.ns = bound->lo.ns > sess ? sess : bound->lo.ns;
        bound->hi.ns = bound->hi.ns < sess ? sess : bound->hi.ns;
    }
    return sess;
}

/* Limits the time `local` to times that a journal can contain, so that differences fit into
 * int64. */
static int64_t
clamp_local(mrd_local_ns at)
{
    return at.ns > ALIGN_BASE_MAX    ? ALIGN_BASE_MAX
           : at.ns < -ALIGN_BASE_MAX ? -ALIGN_BASE_MAX
                                     : at.ns;
}

/* Finds the gap between two segments that contains `at`. Returns the segment before this gap, or
 * NULL if `at` is in no gap. On entry, *s is the segment of a bin near `at`. On return, it is the
 * segment of `at`. A segment ends at its last packet, which can be earlier or later than its last
 * bin. So `at` may be in a gap although a bin of the segment is near. */
static const mrd_align_segment *
gap_at(const mrd_align *align, size_t *s, int64_t at)
{
    const mrd_align_segment *segment = align->segments;
    size_t n = align->segment_count;

    n -= segment[n - 1].count == 0; /* the last segment may have no bin yet */
    while (*s > 0 && at <= segment[*s - 1].to.ns)
        --*s;
    while (*s + 1 < n && at >= segment[*s + 1].from.ns)
        ++*s;
    if (*s > 0 && at < segment[*s].from.ns)
        return &segment[*s - 1];
    return *s + 1 < n && at > segment[*s].to.ns ? &segment[*s] : NULL;
}

bool
mrd_align_one_segment(const mrd_align *align, size_t near, int64_t from, int64_t to)
{
    size_t a = near, b = near;

    return gap_at(align, &a, from) == NULL && gap_at(align, &b, to) == NULL && a == b;
}

bool
mrd_align_map(const mrd_align *align, mrd_align_cursor *cursor, mrd_local_ns local,
              mrd_sess_ns *ret_at, mrd_align_bound *ret_bound)
{
    const mrd_align_bin *bins = align->bins, *near;
    const mrd_align_segment *seg, *gap;
    /* cppcheck-suppress uninitvar ; only its address is taken */
    mrd_align_bound bound, *align_bound = ret_bound == NULL ? NULL : &bound;
    int64_t at = clamp_local(local), sess;
    size_t i, s;
    place p;

    if (align->bin_count == 0)
        return false;
    i = find_bin(align, cursor->bin, at);
    i = i == SIZE_MAX ? 0 : i;
    s = find_segment(align, cursor->segment, i);
    *cursor = (mrd_align_cursor){ s, i };
    gap = gap_at(align, &s, at);
    seg = &align->segments[s];
    if (gap != NULL) {
        sess = map_gap(align, gap, at, align_bound);
        seg = gap + 1;
    } else {
        i = i < seg->first                 ? seg->first
            : i >= seg->first + seg->count ? seg->first + seg->count - 1
                                           : i;
        near = &bins[i];
        if (at < near->at.ns || i + 1 == seg->first + seg->count) {
            p = mrd_align_extrapolate(seg, near, at - near->at.ns);
        } else {
            p = interpolate(seg, near, near + 1, at - near->at.ns);
            near += at - near->at.ns > near[1].at.ns - at;
        }
        sess = session_of(seg, at, (double) llround(p.est));
        if (align_bound != NULL) {
            bound_of(seg, at, &p, align_bound);
            label_place(seg, near, at, align_bound);
        }
    }
    ret_at->ns = clamp(seg, sess, align_bound);
    if (ret_bound != NULL)
        *ret_bound = bound;
    return true;
}

bool
mrd_align_unmap(const mrd_align *align, mrd_sess_ns at, mrd_local_ns *ret_at)
{
    int64_t lo = -ALIGN_BASE_MAX, hi = ALIGN_BASE_MAX;
    mrd_align_cursor cursor = { 0, 0 };
    mrd_sess_ns sess;

    if (align->bin_count == 0)
        return false;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;

        (void) mrd_align_map(align, &cursor, (mrd_local_ns){ mid }, &sess, NULL);
        if (sess.ns >= at.ns)
            hi = mid;
        else
            lo = mid + 1;
    }
    ret_at->ns = lo;
    return true;
}

uint32_t
mrd_align_radius(mrd_sess_ns at, const mrd_align_bound *bound)
{
    uint64_t below = (uint64_t) at.ns - (uint64_t) bound->lo.ns;
    uint64_t above = (uint64_t) bound->hi.ns - (uint64_t) at.ns;
    uint64_t most = below > above ? below : above;

    return most >= UINT32_MAX ? UINT32_MAX : (uint32_t) most;
}

const char *
mrd_align_name(const mrd_align *align)
{
    return align->name;
}

uint64_t
mrd_align_clock_id(const mrd_align *align)
{
    return align->clock_id;
}

size_t
mrd_align_segment_count(const mrd_align *align)
{
    return align->segment_count;
}

const mrd_align_segment *
mrd_align_borrow_segment(const mrd_align *align, size_t i)
{
    return i < align->segment_count ? &align->segments[i] : NULL;
}

size_t
mrd_align_bin_count(const mrd_align *align)
{
    return align->bin_count;
}

const mrd_align_bin *
mrd_align_borrow_bins(const mrd_align *align)
{
    return align->bins;
}
